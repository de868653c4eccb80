"""The canonical layout of a module: laid out again, it stays as it is."""

from __future__ import annotations

from demaq.language import ast
from demaq.language.parser import parse_module
from demaq.language.printing.printer import format_module

_PASSES_MAX = 6
"""A comment in an odd place may move to where it is at home in steps; seldom more than one."""


def canonical_layout(module: ast.Module) -> str:
    """A module of an application with its comments, laid out in the one canonical way."""
    text = format_module(module)
    for _ in range(_PASSES_MAX):
        again, errors = parse_module(text, module.at.file)
        assert not errors, "what is laid out can be read"
        relaid = format_module(again)
        if relaid == text:
            break
        text = relaid
    return text
