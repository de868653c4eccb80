"""The body of a rule is an `if`, so that the compiler sees its condition."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.diagnostics import Diagnostic, error
from demaq.language.program.draft import Draft
from demaq.source import SourceLocation


def rule_bodies(draft: Draft) -> Iterator[Diagnostic]:
    for rule in draft.rules:
        body = rule.decl.body
        if isinstance(body, ast.If):
            continue
        first_line = SourceLocation(body.at.source, body.at.start, min(body.at.end, body.at.start + 40))
        yield error(
            "DQ0401",
            f'the body of rule "{rule.name}" is not an `if`',
            first_line,
            "if (true()) then …" if not isinstance(body, ast.Sequence) else "if (true()) then (…)",
        )
