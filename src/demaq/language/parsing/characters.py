"""Patterns for the characters of names, references and white space, shared by the whole parser."""

from __future__ import annotations

import re

_IN_NAMES_FIRST = (
    (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x2FF), (0x370, 0x37D),
    (0x37F, 0x1FFF), (0x200C, 0x200D), (0x2070, 0x218F), (0x2C00, 0x2FEF), (0x3001, 0xD7FF), (0xF900, 0xFDCF),
    (0xFDF0, 0xFFFD), (0x10000, 0xEFFFF),
)  # fmt: skip
"""Code points that a name may begin with: NameStartChar of XML 1.0, without the colon."""
_IN_NAMES_LATER = ((0x2D, 0x2E), (0x30, 0x39), (0xB7, 0xB7), (0x300, 0x36F), (0x203F, 0x2040))
"""What may stand in a name besides, but not first."""


def _all_but(*allowed: tuple[int, int]) -> str:
    """Return brackets that match the allowed ranges: they list all others, which are fewer and compile faster."""
    others: list[str] = []
    following = 0
    for first, last in (*sorted(allowed), (0x110000, 0x110000)):
        if first > following:
            others.append(f"\\U{following:08x}-\\U{first - 1:08x}")
        following = last + 1
    return f"[^{''.join(others)}]"


_NAME_START = _all_but(*_IN_NAMES_FIRST)
_NAME_CHAR = _all_but(*_IN_NAMES_FIRST, *_IN_NAMES_LATER)

NCNAME = f"{_NAME_START}{_NAME_CHAR}*"
NAME_START = re.compile(_NAME_START)
QNAME = re.compile(f"({NCNAME})(?::({NCNAME}))?")
SPACE = re.compile("[ \t\n\r]*")

NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that no XML document, and so no program, may contain."""

NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
STRING = "\"[^\"]*\"(?:\"[^\"]*\")*|'[^']*'(?:'[^']*')*"
BRACED_NAME = f"Q\\{{[^{{}}]*\\}}(?:{NCNAME}|\\*)"

TOKEN = re.compile(
    f"(?P<braced>{BRACED_NAME})"
    f"|(?P<name>{NCNAME}(?::(?:{NCNAME}|\\*))?)"
    f"|(?P<string>{STRING})"
    f"|(?P<number>{NUMBER})"
    f"|(?P<wild>\\*:{NCNAME})"
    r"|(?P<symbol>\(#|::|:=|:|\|\||\||!=|!|<<|<=|<|>>|>=|>|=>|=|//|/|\.\.|\.|``\[|[()\[\]{},;+*@$?%#-])"
)

# Texts of patterns that few programs need: they are compiled where they are used, which takes some time for names.
END_TAG = f"</{NCNAME}(?::{NCNAME})?\\s*>"
START_TAG = f"<({NCNAME}(?::{NCNAME})?)(?:\\s*/?>|\\s+{NCNAME}(?::{NCNAME})?\\s*=\\s*[\"'])"
EQNAME = f"Q\\{{[^{{}}]*\\}}{NCNAME}|{NCNAME}(?::{NCNAME})?"

REFERENCE = re.compile("&(?:(lt|gt|amp|quot|apos)|#([0-9]+)|#x([0-9a-fA-F]+));")
NAMED_REFERENCE = re.compile("&([A-Za-z][A-Za-z0-9]*);")
_NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}


def resolve_reference(match: re.Match[str]) -> str | None:
    """Return the character that a reference stands for, or None if it is no XML character."""
    named, decimal, hexadecimal = match.groups()
    if named:
        return _NAMED[named]
    digits = (decimal or hexadecimal).lstrip("0")
    if len(digits) > 7:
        return None
    number = int(digits or "0", 10 if decimal else 16)
    if number > 0x10FFFF:
        return None
    character = chr(number)
    return None if NOT_XML.match(character) else character
