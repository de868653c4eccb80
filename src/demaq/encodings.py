"""Encodings of text from outside: which ones a sender may use, and which one the bytes of a document are in.

Python and libxml2 know more encodings than the world does: some are no encodings of text, some take the square of a
text's length, and some can hide a document type from a search for it. So a name is looked for in a list first,
and everything from outside becomes text here before any parser sees it.
"""

from __future__ import annotations

import codecs
import re

from demaq.errors import MessageError

_UNICODE = ("utf8", "utf16", "utf16le", "utf16be", "utf32", "utf32le", "utf32be")
_ASCII = ("ascii", "usascii", "latin1", "l1")
_ISO = tuple([f"iso8859{part}" for part in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16)])
_PAGES = (437, 850, 852, 855, 857, 858, 860, 861, 862, 863, 865, 866, 874, 932, 949, 950, *range(1250, 1259))
_WINDOWS = tuple([f"{word}{page}" for word in ("cp", "windows", "ibm") for page in _PAGES])
_ASIAN = ("gb2312", "gbk", "gb18030", "big5", "big5hkscs", "shiftjis", "sjis", "eucjp", "iso2022jp", "euckr", "tis620")
_OTHERS = ("koi8r", "koi8u", "macintosh", "macroman")
KNOWN = frozenset([*_UNICODE, *_ASCII, *_ISO, *_WINDOWS, *_ASIAN, *_OTHERS])
"""By their names without marks between the words."""
NAME_SHOWN_MAX = 40
_MARKS = re.compile("[-_ ]")

_DETECTED = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is the beginning of this one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
"""How a document begins, by a byte order mark or its first character, in an encoding that need not be declared
(appendix F of XML 1.0)."""
_DECLARED = re.compile(rb"""<\?xml[ \t\r\n][^>]*?[ \t\r\n]encoding[ \t\r\n]*=[ \t\r\n]*(?:"([^"<>]*)"|'([^'<>]*)')""")
_UNITS = ("utf-16", "utf-32")
"""No declaration in them can be read as ASCII: one that does is wrong."""


def encoding_named(name: str) -> str | None:
    """Python's name of an encoding; None if it is unknown."""
    if _MARKS.sub("", name.strip().lower()) not in KNOWN:
        return None
    try:
        return codecs.lookup(name.strip()).name
    except LookupError:
        return None


def encoding_of(data: bytes) -> str:
    """Return Python's name of the encoding that a document is in, by its first bytes or its XML declaration.

    Raises a MessageError of kind notWellFormed if that encoding is not allowed.
    """
    if data[:1] == b"<" and data[1:2].isalpha():  # most: neither a mark nor a declaration
        return "utf-8"
    for beginning, encoding in _DETECTED:
        if data.startswith(beginning):
            return encoding
    declared = _DECLARED.match(data)
    if declared is None:
        return "utf-8"
    name = (declared[1] if declared[1] is not None else declared[2]).decode("ascii", "replace")
    encoding = encoding_named(name) or ""
    if not encoding or encoding.startswith(_UNITS):
        reason = "the document is in another one" if encoding else "it is not allowed in a message"
        raise MessageError("notWellFormed", f"the document declares the encoding {name[:NAME_SHOWN_MAX]!r}: {reason}")
    return encoding


def decode_document(data: bytes, encoding: str) -> str:
    """Return the characters of a document, without byte order mark.

    Raises a MessageError of kind notWellFormed if the document is not in that encoding.
    """
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        place = f"byte {error.start + 1}"
        raise MessageError("notWellFormed", f"{place}: the document is not in {_format_name(encoding)}") from None


def _format_name(encoding: str) -> str:
    return encoding.removesuffix("-sig").upper()
