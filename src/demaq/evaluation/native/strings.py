"""Functions on strings, which are sequences of code points here as in XQuery."""

from __future__ import annotations

import functools
import math
import unicodedata
import urllib.parse
from collections.abc import Sequence
from typing import Any

from demaq.evaluation.native.atomic_values import STRING_TYPES
from demaq.evaluation.native.fallback import NeedsSaxon
from demaq.evaluation.native.number_texts import XML_SPACE

_SIGMA = "Σ"
_POSITION_MAX = 2**31


def expect_text(value: Any) -> str:
    """Return an argument of a parameter of type xs:string: a string, or what is cast to one."""
    if type(value) not in STRING_TYPES:
        raise NeedsSaxon("no string")
    return str(value)


def upper(text: str) -> str:
    return text.upper()


def lower(text: str) -> str:
    """Return a text in lower case, each character by itself: Python writes a final sigma differently."""
    return "".join([character.lower() for character in text]) if _SIGMA in text else text.lower()


def substring(text: str, start: float, length: float | None = None) -> str:
    if length is None:
        length = math.inf
    elif not math.isfinite(length):
        raise NeedsSaxon("a length for which Saxon may fail")
    first, end = _round(start), _round(start) + _round(length)
    if (-1 < start < 1 and start) or abs(start) > _POSITION_MAX or _POSITION_MAX < abs(length) < math.inf:
        raise NeedsSaxon("a position for which Saxon fails, or a large one")
    if first != first or end != end:
        return ""
    if first <= len(text) < start:
        raise NeedsSaxon("a position after the last one that is rounded to it: Saxon compares before it rounds")
    begin = max(first, 1)
    if begin > len(text) or end <= begin:
        return ""
    return text[int(begin) - 1 :] if end > len(text) else text[int(begin) - 1 : int(end) - 1]


def _round(value: float) -> float:
    return value if isinstance(value, int) or not math.isfinite(value) else math.floor(value + 0.5)


def substring_before(text: str, searched: str) -> str:
    found = text.find(searched) if searched else -1
    return text[:found] if found > 0 else ""


def substring_after(text: str, searched: str) -> str:
    found = text.find(searched)
    return text[found + len(searched) :] if found >= 0 else ""


def translate_text(text: str, searched: str, replacement: str) -> str:
    return text.translate(_table(searched, replacement))


@functools.lru_cache(maxsize=256)
def _table(searched: str, replacement: str) -> dict[int, str | None]:
    found: dict[int, str | None] = {}
    for position, character in enumerate(searched):
        found.setdefault(ord(character), replacement[position] if position < len(replacement) else None)
    return found


def split_at_spaces(text: str) -> list[str]:
    """Return the tokens of a text, separated by white space."""
    bare = text.strip(XML_SPACE)
    if not bare:
        return []
    return bare.translate(_BLANKS).split(" ") if "  " not in bare.translate(_BLANKS) else _split(bare)


_BLANKS = str.maketrans("\t\r\n", "   ")


def _split(text: str) -> list[str]:
    return [token for token in text.translate(_BLANKS).split(" ") if token]


def contains_token(texts: Sequence[str], token: str) -> bool:
    searched = token.strip(XML_SPACE)
    return any([searched in _split(text) for text in texts]) if searched else False


def encode_for_uri(text: str) -> str:
    return urllib.parse.quote(text, safe="-_.~")


def code_points(text: str) -> list[int]:
    return [ord(character) for character in text]


def from_code_points(points: Sequence[int]) -> str:
    if not all([_is_character(point) for point in points]):
        raise NeedsSaxon("a code point that is no character of XML")
    return "".join([chr(point) for point in points])


def _is_character(point: int) -> bool:
    return (
        0x20 <= point <= 0xD7FF or point in (0x9, 0xA, 0xD) or 0xE000 <= point <= 0xFFFD or 0x10000 <= point <= 0x10FFFF
    )


def order_texts(one: str, other: str) -> int:
    """Return -1, 0 or 1, like the order of two texts by code points."""
    return (one > other) - (one < other)


def normalize_unicode(text: str, form: str = "NFC") -> str:
    """Return a normalized text. Characters that are new in Unicode are left to Saxon."""
    if text.isascii():
        return text
    if any([unicodedata.category(character) == "Cn" for character in text]):
        raise NeedsSaxon("characters that are not assigned")
    return unicodedata.normalize(form, text)  # type: ignore[arg-type]
