"""Read a mail: which part of it is the message, and what its headers say about it.

The message is, in this order,

1. the part with an XML media type: `application/xml`, `text/xml`, `…/…+xml`, but no picture (`image/svg+xml`);
2. the part whose file name ends in `.xml`, whatever its type is said to be;
3. the text, if it begins with `<`.

If two parts could be meant, the mail is refused. Parts are looked for in nested multiparts, but not
in mails within the mail: one that comes back as undeliverable carries what we once sent ourselves.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from email.errors import InvalidBase64LengthDefect
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesHeaderParser, BytesParser
from email.policy import compat32
from email.utils import parseaddr
from typing import Any, TypeAlias

from demaq.encodings import encoding_named
from demaq.system_properties import HEADER

LINES_MAX = 500_000
"""The email package keeps each line of a part as a string of its own; so many are 25 MB of base64."""
PARTS_MAX = 50
MULTIPARTS_MAX = 10
"""Parts that have parts, and with it how deeply parts are nested."""
HEADERS_READ_MAX = 1_000
CONTENT_HEADER_CHARACTERS_MAX = 4_000
HEADER_BYTES_MAX = 262_144
"""What stands further down in a mail is no header that becomes a property."""
HEADERS_MAX = 30
"""How many headers become properties: every message of a conversation inherits them."""
HEADER_CHARACTERS_MAX = 1_000
HEADER_NAME_CHARACTERS_MAX = 64
TYPES_SHOWN_MAX = 5
ENCODING_SHOWN_MAX = 40

FIRST_HEADERS = ("From", "To", "Subject", "Message-ID", "Date", "Reply-To", "Cc", "In-Reply-To", "References")
"""Become properties before all others, and are spelt so however the mail writes them."""

HEADERS_LEFT_OUT = re.compile(
    r"Received|Received-SPF|Return-Path|Delivered-To|MIME-Version|Content-.*|.*-Signature|ARC-.*|Authentication-Results",
    re.IGNORECASE,
)
"""How the mail came and is written: of no use to rules, and long."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_XML_TYPE = re.compile(r"(?!image/)[^/]+/(?:xml|[^/]+\+xml)")
_OWN_ENCODING = re.compile(rb"""\s*<\?xml\s[^>]*?encoding\s*=""")
_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_NO_CHARACTER = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_DECODED = ("", "7bit", "8bit", "binary", "base64", "quoted-printable")

Part: TypeAlias = "Message[Any, Any]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedMail:
    """One mail as a gateway sees it."""

    body: bytes | str
    """What is given to the queue: the XML part, or the whole mail where there is none that can be taken."""
    refusal: str | None = None
    """Why the mail is refused, in one line for its author."""
    sender: str
    """The address that the author has written, else that of the envelope; empty where neither has one. Neither is
    verified."""
    message_id: str | None = None
    transport: dict[str, str]
    """The properties of the system that come with it: `demaq:contentType`, `demaq:header.NAME`."""


class _Refused(Exception):
    """The mail holds no message that could be taken. Says why."""


def read_mail(data: bytes, *, envelope_sender: str = "") -> ParsedMail:
    """Return a parsed mail, with a refusal if it cannot be read. Never raises."""
    try:
        content_type, body = _message_part(_parse(data), data)
        refusal = None
    except _Refused as refused:
        content_type, body, refusal = "message/rfc822", data, str(refused)
    except Exception:  # the email package raises what it likes where a mail is made to confuse it
        content_type, body, refusal = "message/rfc822", data, "the mail is damaged and cannot be read"
    headers = _headers(BytesHeaderParser(policy=compat32).parsebytes(data[:HEADER_BYTES_MAX]))
    sender = _address(headers.get("From", "")) or _address(_clean(envelope_sender))
    transport = {"demaq:contentType": _clean(content_type)} | {HEADER + name: value for name, value in headers.items()}
    return ParsedMail(
        body=body,
        refusal=refusal,
        sender=sender,
        message_id="".join(headers.get("Message-ID", "").split()) or None,
        transport=transport,
    )


# --- parts -----------------------------------------------------------------------------------------------------------


def _parse(data: bytes) -> Part:
    if data.count(b"\n") > LINES_MAX:
        raise _Refused(f"the mail has more than {LINES_MAX:,} lines")
    return BytesParser(_Making().part, policy=compat32).parsebytes(data)


class _Making:
    """Makes the parts of one mail, and ends the reading where there is too much of anything.

    The email package itself takes for ever where parts are nested deeply, or a header has very many parameters.
    """

    def __init__(self) -> None:
        self.parts = 0
        self.multiparts = 0
        self.headers = 0

    def part(self, policy: Any = compat32) -> Part:
        self.parts += 1
        if self.parts > PARTS_MAX:
            raise _Refused(f"the mail has more than {PARTS_MAX} parts")
        return _Part(self)

    def header(self, name: str, value: str) -> None:
        self.headers += 1
        if self.headers > HEADERS_READ_MAX:
            raise _Refused(f"the mail has more than {HEADERS_READ_MAX:,} headers")
        if name.lower().startswith("content-") and len(value) > CONTENT_HEADER_CHARACTERS_MAX:
            raise _Refused(f"a header of the mail has more than {CONTENT_HEADER_CHARACTERS_MAX:,} characters")
        if "multipart" in value.lower():
            self.multiparts += name.lower() == "content-type"
        if self.multiparts > MULTIPARTS_MAX:
            raise _Refused(f"the mail has more than {MULTIPARTS_MAX} parts that have parts themselves")


class _Part(Message):
    """A part that tells of its headers while they are read."""

    def __init__(self, making: _Making) -> None:
        super().__init__(compat32)
        self._making = making

    def set_raw(self, name: str, value: Any) -> None:
        self._making.header(name, str(value))
        super().set_raw(name, value)


def _message_part(top: Part, data: bytes) -> tuple[str, bytes | str]:
    if data.lstrip()[:1] == b"<":  # the sender sent the document itself, without any header
        return "text/plain", data.lstrip()
    if top.get_content_type() == "multipart/report":
        raise _Refused("the mail is a report about another mail")
    leaves = list(_leaves(top))
    found = [part for part in leaves if _XML_TYPE.fullmatch(part.get_content_type())]
    found = found or [part for part in leaves if _file_name(part).lower().endswith(".xml")]
    texts = [(part, _content(part)) for part in leaves if _is_text(part)] if not found else []
    found = found or [part for part, content in texts if _begins_as_xml(content)]
    if not found:
        raise _Refused(f"the mail has no XML part: {_list_content_types(leaves)}")
    if len(found) > 1:
        raise _Refused(f"the mail has {len(found)} XML parts and one message is expected: send each in its own mail")
    return found[0].get_content_type(), _content(found[0])


def _leaves(part: Part) -> Iterator[Part]:
    if part.get_content_maintype() == "multipart":
        if not part.is_multipart():
            raise _Refused("the mail is damaged: the boundary between its parts is missing")
        for inner in part.get_payload():
            if isinstance(inner, Message):
                yield from _leaves(inner)
    elif not part.is_multipart():  # such as message/rfc822, another mail
        yield part


def _file_name(part: Part) -> str:
    return _decode_header(part.get_filename() or "")


def _is_text(part: Part) -> bool:
    return part.get_content_type() == "text/plain" and part.get_content_disposition() != "attachment"


def _begins_as_xml(content: bytes | str) -> bool:
    if isinstance(content, str):
        return content.lstrip("\ufeff \t\r\n").startswith("<")
    return content.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"<")


def _list_content_types(leaves: list[Part]) -> str:
    types = list(dict.fromkeys([_clean(part.get_content_type()) for part in leaves]))
    if not types:
        return "it is empty"
    shown = ", ".join(types[:TYPES_SHOWN_MAX]) + (", …" if len(types) > TYPES_SHOWN_MAX else "")
    return f"it has {shown}"


def _content(part: Part) -> bytes | str:
    """Return the content of a part: as characters where only the mail knows its character set, else as bytes."""
    encoding = _decode_header(str(part.get("Content-Transfer-Encoding", ""))).lower()
    if encoding not in _DECODED:
        raise _Refused(
            f"the part is encoded as {encoding[:ENCODING_SHOWN_MAX]}: base64 or quoted-printable is expected"
        )
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes):
        return b""
    if any([isinstance(defect, InvalidBase64LengthDefect) for defect in part.defects]):
        raise _Refused("the mail is damaged: a part is no base64")
    if content.lstrip().startswith(b"<"):
        content = content.lstrip()  # an XML declaration must be the first thing, and a mail begins with empty lines
    charset = part.get_content_charset()
    if charset is None or content.startswith(_BYTE_ORDER_MARKS) or _OWN_ENCODING.match(content):
        return content
    return _characters(content, charset)


def _characters(content: bytes, charset: str) -> bytes | str:
    try:
        name = encoding_named(charset)
        if name is None:
            raise LookupError
        if name == "ascii":
            return content  # the default of many programs; XML's own default holds it too
        return content.decode(name)
    except UnicodeDecodeError:
        raise _Refused(f"the mail says that its text is in {_clean(charset)}, and it is not") from None
    except (LookupError, ValueError):
        raise _Refused(f"the character set {_clean(charset)} is not known") from None


# --- headers ---------------------------------------------------------------------------------------------------------


def _headers(top: Part) -> dict[str, str]:
    """Return what becomes properties: the first header of each name, the important ones before the others."""
    found: dict[str, str] = {}
    for name, value in top.raw_items():
        if not _NAME.fullmatch(name) or len(name) > HEADER_NAME_CHARACTERS_MAX or HEADERS_LEFT_OUT.fullmatch(name):
            continue
        spelt = header_name(name)
        if spelt not in found:
            found[spelt] = str(value)
    ordered = [name for name in FIRST_HEADERS if name in found]
    ordered += [name for name in found if name not in FIRST_HEADERS]
    return {name: _decode_header(found[name]) for name in ordered[:HEADERS_MAX]}


def header_name(name: str) -> str:
    """Return the one spelling of a header's name: capitals do not count in mails, but do in names of properties."""
    known = next((first for first in FIRST_HEADERS if first.lower() == name.lower()), None)
    return known or "-".join([word.capitalize() for word in name.split("-")])


def _decode_header(value: str) -> str:
    """Return the text of a header: encoded words (RFC 2047) as what they stand for, folded lines as one."""
    text = value[: 4 * HEADER_CHARACTERS_MAX].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    with suppress(Exception):  # the email package raises what it likes: then the value stays as it is written
        pieces = decode_header(text)
        if all([charset is None or encoding_named(charset) is not None for _, charset in pieces]):
            text = str(make_header(pieces))
    return _clean(text)


def _clean(text: str) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")
    return " ".join(_NO_CHARACTER.sub("�", text).split())[:HEADER_CHARACTERS_MAX]


def _address(text: str) -> str:
    """Return the first mail address in a header."""
    try:
        address = parseaddr(text)[1]
    except Exception:  # as above
        return ""
    return address if "@" in address.strip("@") else ""
