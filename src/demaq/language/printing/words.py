"""Print names, name tests and string literals."""

from __future__ import annotations

import re

from demaq.language import ast
from demaq.language.parsing.characters import NCNAME

_IS_NCNAME = re.compile(NCNAME)

# A carriage return would be parsed as a line feed; XML 1.1 treats the others as line ends, or XML forbids them.
_NOT_LITERAL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\ufffe\uffff]")


def name(node: ast.Name | ast.NameTest) -> str:
    if node.uri is not None:
        return f"Q{{{_escape(node.uri, '&{}')}}}{node.local}"
    if node.prefix is None or (node.prefix == "*" and node.local == "*"):
        return node.local
    return f"{node.prefix}:{node.local}"


def variable(node: ast.Name) -> str:
    return f"${name(node)}"


def string(value: str) -> str:
    return '"' + _escape(value, "&").replace('"', '""') + '"'


def is_ncname(text: str) -> bool:
    return _IS_NCNAME.fullmatch(text) is not None


def _escape(value: str, also: str) -> str:
    for character in also:
        value = value.replace(character, "&amp;" if character == "&" else f"&#x{ord(character):X};")
    return _NOT_LITERAL.sub(lambda match: f"&#x{ord(match.group()):X};", value)
