"""Write the mail that carries a message.

A message of the form `<mail>` becomes a mail for people: text, HTML or both, and its attachments. Every other document
is data: the mail says in a line of text what is attached, and the document is its only attachment, `application/xml`
with a file name. So programs know which part is meant, and people see what the mail is. Attachments are in base64, so
that no server on the way changes their line ends or characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Literal

from lxml import etree

from demaq.documents import Document
from demaq.errors import MessageError
from demaq.gateways.mail.addresses import expect_address, expect_one_line, read_mailto
from demaq.gateways.mail.form import DECLARATION, Attachment, MailForm, is_mail_form, read_mail_form

SUBJECT_CHARACTERS_MAX = 500
HEADER_CHARACTERS_MAX = 2_000
LINE_CHARACTERS_MAX = 900
"""Of text that is written as it is; a relay takes 998 (RFC 5322, 2.1.1)."""

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
    """Return the mail for `mailto:…`. Raises a MessageError of kind routing where it cannot be written.

    `message_id` (`17@node.example.org`) must be the same in every attempt, so that receivers know a repeated mail.
    The subject is that of the form, else that of the `mailto:`, else `subject`; that of data else the name of the
    document's root element. Raises one of kind schemaViolation for a `<mail>` that is not as its schema says.
    """
    mailto = read_mailto(recipient)
    tree = Document(message_text).tree.getroot()
    form = read_mail_form(tree) if is_mail_form(tree) else None
    root = etree.QName(tree).localname
    mail = EmailMessage(policy=SMTP)
    mail["From"] = _address(expect_address(sender))
    mail["To"] = [_address(each) for each in mailto.to]
    if mailto.cc:
        mail["Cc"] = [_address(each) for each in mailto.cc]
    said = (form.subject if form is not None else None) or mailto.subject or subject
    if form is not None and said is None:
        raise MessageError("schemaViolation", "the mail has no subject, and its address says none")
    about = said or root
    mail["Subject"] = expect_one_line("the subject", about)[:SUBJECT_CHARACTERS_MAX]
    mail["Date"] = format_datetime(date)
    mail["Message-ID"] = _message_id(message_id)
    for name, value in (headers or {}).items():
        if not _HEADER_NAME.fullmatch(name) or _OWN_HEADERS.fullmatch(name):
            raise MessageError("routing", f"the header {name[:64]!a} of a mail cannot be set")
        mail[name] = expect_one_line(f"the header {name}", value)[:HEADER_CHARACTERS_MAX]
    if form is not None:
        _add_content(mail, form)
        return mail
    name = f"{_FILE_NAME.sub('_', root)}.xml"
    mail.set_content(f"This mail carries a document for a program. It is attached: {name}\n", cte="7bit")
    text = message_text if message_text.startswith("<?xml") else DECLARATION.decode() + message_text
    _attach(mail, Attachment(name=name, type="application/xml", content=text.encode("utf-8"), is_text=True))
    return mail


def _add_content(mail: EmailMessage, form: MailForm) -> None:
    if form.text is not None:
        mail.set_content(form.text, cte=_encoding(form.text))
    if form.html is not None and form.text is not None:
        mail.add_alternative(form.html, subtype="html", cte=_encoding(form.html))
    elif form.html is not None:
        mail.set_content(form.html, subtype="html", cte=_encoding(form.html))
    for attachment in form.attachments:
        _attach(mail, attachment)


def _encoding(text: str) -> Literal["7bit", "quoted-printable"]:
    """Return how text is written so that every relay takes it: some know neither 8 bits nor long lines."""
    is_plain = text.isascii() and max([len(line) for line in text.splitlines()], default=0) <= LINE_CHARACTERS_MAX
    return "7bit" if is_plain else "quoted-printable"


def _attach(mail: EmailMessage, attachment: Attachment) -> None:
    maintype, _, subtype = attachment.type.partition("/")
    mail.add_attachment(
        attachment.content,
        maintype=maintype,
        subtype=subtype,
        cte="base64",
        filename=attachment.name,
        params={"charset": "utf-8"} if attachment.is_text else None,
    )


def _address(address: str) -> Address:
    local, _, domain = address.rpartition("@")
    return Address(username=local, domain=domain)


def _message_id(text: str) -> str:
    plain = text.removeprefix("<").removesuffix(">")
    if not _MESSAGE_ID.fullmatch(plain):
        raise MessageError("routing", f"{plain[:100]!a} cannot be the Message-ID of a mail")
    return f"<{plain}>"
