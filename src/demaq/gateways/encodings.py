"""Encodings that a sender may name for a body, besides what the document itself says.

Python knows more of them than the world does: some are no encodings of text, some take the square of a text's length,
and every name that it does not know it remembers for ever. So a name is looked for in a list first.
"""

from __future__ import annotations

import codecs
import re

_UNICODE = ("utf8", "utf16", "utf16le", "utf16be", "utf32", "utf32le", "utf32be")
_ASCII = ("ascii", "usascii", "latin1", "l1")
_ISO = tuple([f"iso8859{part}" for part in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16)])
_PAGES = (437, 850, 852, 855, 857, 858, 860, 861, 862, 863, 865, 866, 874, 932, 949, 950, *range(1250, 1259))
_WINDOWS = tuple([f"{word}{page}" for word in ("cp", "windows", "ibm") for page in _PAGES])
_ASIAN = ("gb2312", "gbk", "gb18030", "big5", "big5hkscs", "shiftjis", "sjis", "eucjp", "iso2022jp", "euckr", "tis620")
_OTHERS = ("koi8r", "koi8u", "macintosh", "macroman")
KNOWN = frozenset([*_UNICODE, *_ASCII, *_ISO, *_WINDOWS, *_ASIAN, *_OTHERS])
"""By their names without marks between the words."""
_MARKS = re.compile("[-_ ]")


def encoding_named(name: str) -> str | None:
    """Python's name of an encoding; None where nobody knows it."""
    if _MARKS.sub("", name.strip().lower()) not in KNOWN:
        return None
    try:
        return codecs.lookup(name.strip()).name
    except LookupError:
        return None
