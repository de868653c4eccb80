"""Write the mail that carries a message.

The document is the only part, as `application/xml`, with a file name, in base64. So no server on the way changes its
line ends or characters, programs find it without looking for it, and people see an attachment that they can open. A
text beside it would help only people, and make each program that receives it choose between parts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from demaq.documents import Document
from demaq.errors import MessageError
from demaq.gateways.mail.addresses import expect_address, expect_one_line, read_mailto

SUBJECT_CHARACTERS_MAX = 500
HEADER_CHARACTERS_MAX = 2_000
DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'

_OWN_HEADERS = re.compile(
    r"From|To|Cc|Bcc|Subject|Date|Message-ID|Sender|Return-Path|Received|MIME-Version|Content-.*|Resent-.*",
    re.IGNORECASE,
)
_HEADER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
_MESSAGE_ID = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.:-]+@[A-Za-z0-9.:_-]+")
_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]")


def compose(
    message_text: str,
    *,
    recipient: str,
    sender: str,
    message_id: str,
    date: datetime,
    subject: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> EmailMessage:
    """The mail for `mailto:…`. Raises a MessageError of kind routing where it cannot be written.

    `message_id` (`17@node.example.org`) must be the same in every attempt, so that receivers know a repeated mail.
    The subject is that of the `mailto:`, else `subject`, else the name of the document's root element.
    """
    mailto = read_mailto(recipient)
    root = root_name(message_text)
    mail = EmailMessage(policy=SMTP)
    mail["From"] = _address(expect_address(sender))
    mail["To"] = [_address(each) for each in mailto.to]
    if mailto.cc:
        mail["Cc"] = [_address(each) for each in mailto.cc]
    mail["Subject"] = expect_one_line("the subject", mailto.subject or subject or root)[:SUBJECT_CHARACTERS_MAX]
    mail["Date"] = format_datetime(date)
    mail["Message-ID"] = _message_id(message_id)
    for name, value in (headers or {}).items():
        if not _HEADER_NAME.fullmatch(name) or _OWN_HEADERS.fullmatch(name):
            raise MessageError("routing", f"the header {name[:64]!a} of a mail cannot be set")
        mail[name] = expect_one_line(f"the header {name}", value)[:HEADER_CHARACTERS_MAX]
    text = message_text if message_text.startswith("<?xml") else DECLARATION + message_text
    mail.set_content(
        text.encode("utf-8"),
        maintype="application",
        subtype="xml",
        cte="base64",
        disposition="attachment",
        filename=f"{_FILE_NAME.sub('_', root)}.xml",
        params={"charset": "utf-8"},
    )
    return mail


def root_name(message_text: str) -> str:
    """The name of the root element, without prefix."""
    return str(Document(message_text).tree.xpath("local-name(/*)"))


def _address(address: str) -> Address:
    local, _, domain = address.rpartition("@")
    return Address(username=local, domain=domain)


def _message_id(text: str) -> str:
    plain = text.removeprefix("<").removesuffix(">")
    if not _MESSAGE_ID.fullmatch(plain):
        raise MessageError("routing", f"{plain[:100]!a} cannot be the Message-ID of a mail")
    return f"<{plain}>"
