"""Warn of a comma at the top of a rule's body that may surprise: it continues an `else` or an inner `if`.

The last branch of an `if` or a switch has no visible end, and with nested `if`s it is unclear which one a comma
continues.
"""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.diagnostics import Diagnostic, warning
from demaq.language.program.draft import Draft

EXCERPT_LENGTH_MAX = 60


def continued_branches(draft: Draft) -> Iterator[Diagnostic]:
    for module in draft.modules:
        for continuation in module.tree.continuations:
            if _is_unclear(continuation):
                yield warning(
                    "DQ1405",
                    f"this comma continues the `{continuation.word}`: what follows happens only there",
                    continuation.at,
                    _hint(continuation),
                )


def _is_unclear(continuation: ast.Continuation) -> bool:
    if continuation.word == "then":
        return continuation.ifs > 1
    return continuation.word in ("else", "default return")


def _hint(continuation: ast.Continuation) -> str:
    """Return both readings with their parentheses, if there are two."""
    text, comma = continuation.at.source.text, continuation.at
    first = _excerpt(text[continuation.start : continuation.first_end])
    others = _excerpt(text[comma.end : continuation.end])
    inside = f"{continuation.word} ({first}, {others})"
    if continuation.word == "then" and continuation.before_else:
        return f"write `{inside}`"
    outside = f"({_excerpt(text[continuation.owner : continuation.first_end])}), {others}"
    if continuation.ifs == 1 and continuation.word == "else":  # the rule's own if: a rule consists of nothing else
        outside = f"if (true()) then ({outside})"
    return f"write `{inside}` if that is meant, and `{outside}` if it is to happen in any case"


def _excerpt(text: str) -> str:
    """Return a part of the program on one line, abbreviated in the middle if it is long."""
    text = " ".join(text.split())
    if len(text) <= EXCERPT_LENGTH_MAX:
        return text
    half = EXCERPT_LENGTH_MAX // 2
    begin, end = text[:half], text[-half:]
    if " " in begin and " " in end:  # break between words
        begin, end = begin[: begin.rindex(" ")], end[end.index(" ") + 1 :]
    return f"{begin} … {end}"
