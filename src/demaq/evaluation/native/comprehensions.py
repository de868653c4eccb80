"""The parts of comprehensions in translated functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(slots=True)
class IfClause:
    """A clause `if …`."""

    condition: ast.expr


Clause: TypeAlias = ast.comprehension | IfClause
"""A clause `for … in …`, without the conditions after it; or a condition."""


def split_clauses(node: ast.ListComp) -> list[Clause]:
    """Return the clauses of a comprehension, in order."""
    found: list[Clause] = []
    for each in node.generators:
        found.append(ast.comprehension(each.target, each.iter, [], each.is_async))
        found += [IfClause(condition) for condition in each.ifs]
    return found


def rebuild(node: ast.ListComp, clauses: Sequence[Clause]) -> None:
    """Give a comprehension other clauses, of which the first is `for … in …`."""
    node.generators = []
    for clause in clauses:
        if isinstance(clause, ast.comprehension):
            node.generators.append(clause)
        else:
            node.generators[-1].ifs.append(clause.condition)


def bound_value(clause: ast.comprehension) -> ast.expr | None:
    """Return the value of a clause `for v in (value,)`; None for any other one."""
    match clause:
        case ast.comprehension(target=ast.Name(), iter=ast.Tuple(elts=[value])):
            return value
    return None


def target_names(target: ast.expr) -> Iterator[str]:
    """Yield the variables that a clause binds."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Tuple):
        for item in target.elts:
            yield from target_names(item)


def make_name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())
