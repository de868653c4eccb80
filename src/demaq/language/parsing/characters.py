"""Patterns for the characters of names, references and white space, shared by the whole parser."""

from __future__ import annotations

import re

_NAME_START = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME_CHAR = _NAME_START + "\\-.0-9\u00b7\u0300-\u036f\u203f-\u2040"

NCNAME = f"[{_NAME_START}][{_NAME_CHAR}]*"
NAME_START = re.compile(f"[{_NAME_START}]")
QNAME = re.compile(f"({NCNAME})(?::({NCNAME}))?")
PI_TARGET = re.compile(NCNAME)
END_TAG = re.compile(f"</{NCNAME}(?::{NCNAME})?\\s*>")
START_TAG = re.compile(f"<({NCNAME}(?::{NCNAME})?)(?:\\s*/?>|\\s+{NCNAME}(?::{NCNAME})?\\s*=\\s*[\"'])")
SPACE = re.compile("[ \t\n\r]*")

NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that no XML document, and so no program, may contain."""

NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
STRING = "\"[^\"]*\"(?:\"[^\"]*\")*|'[^']*'(?:'[^']*')*"
BRACED_NAME = f"Q\\{{[^{{}}]*\\}}(?:{NCNAME}|\\*)"
EQNAME = re.compile(f"Q\\{{[^{{}}]*\\}}{NCNAME}|{NCNAME}(?::{NCNAME})?")

TOKEN = re.compile(
    f"(?P<braced>{BRACED_NAME})"
    f"|(?P<name>{NCNAME}(?::(?:{NCNAME}|\\*))?)"
    f"|(?P<string>{STRING})"
    f"|(?P<number>{NUMBER})"
    f"|(?P<wild>\\*:{NCNAME})"
    r"|(?P<symbol>\(#|::|:=|:|\|\||\||!=|!|<<|<=|<|>>|>=|>|=>|=|//|/|\.\.|\.|``\[|[()\[\]{},;+*@$?%#-])"
)

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
