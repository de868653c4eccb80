"""Frames: what stands around a part of an expression, so that the part can be evaluated by itself.

    some $i in //item satisfies $i/@price > 5        $i/@price > 5   for the second item
    /order[total > 5]/customer                       total > 5       for the first order
    local:is-large(/order)                           the body of the function, with its arguments

Frames are put around the part that is evaluated, the innermost first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from demaq.compiler.emit.xquery.vocabulary import RUNTIME
from demaq.language import ast
from demaq.source import NOWHERE

_NUMBER = f"$Q{{{RUNTIME}}}tuple"


@dataclass(frozen=True, slots=True, eq=False)
class TupleFrame:
    """One tuple of the clauses of a FLWOR expression, counted from 1."""

    clauses: tuple[ast.Clause, ...]
    number: int

    def around(self, inner: ast.Expr) -> ast.Expr:
        return for_tuples(self.clauses, f"{_NUMBER} = {self.number}", inner)


@dataclass(frozen=True, slots=True, eq=False)
class FocusFrame:
    """One item of an expression, counted from 1, as the focus."""

    base: ast.Expr
    number: int

    def around(self, inner: ast.Expr) -> ast.Expr:
        return ast.Template(NOWHERE, ("((", self.base, f")[{self.number}] ! (", inner, "))"))


@dataclass(frozen=True, slots=True, eq=False)
class CallFrame:
    """The body of a function, called with these arguments."""

    params: tuple[ast.Param, ...]
    args: tuple[ast.Expr, ...]

    def around(self, inner: ast.Expr) -> ast.Expr:
        function = ast.InlineFunction(NOWHERE, (), self.params, None, inner)
        return ast.Postfix(NOWHERE, function, (ast.Arguments(NOWHERE, self.args),))


Frame: TypeAlias = TupleFrame | FocusFrame | CallFrame
Frames: TypeAlias = tuple[Frame, ...]


def put_around(frames: Frames, inner: ast.Expr) -> ast.Expr:
    for frame in reversed(frames):
        inner = frame.around(inner)
    return inner


def for_tuples(clauses: Sequence[ast.Clause], condition: str, inner: ast.Expr) -> ast.Expr:
    """Return an expression evaluated for the tuples whose number fulfils a condition."""
    if not clauses:
        return inner
    count = ast.CountClause(NOWHERE, ast.Name(NOWHERE, "tuple", None, RUNTIME))
    where = ast.WhereClause(NOWHERE, ast.Template(NOWHERE, (condition,)))
    return ast.Flwor(NOWHERE, (*clauses, count, where), inner)


def first_tuples(clauses: Sequence[ast.Clause], count: int, inner: ast.Expr) -> ast.Expr:
    """Return an expression evaluated for so many tuples."""
    return for_tuples(clauses, f"{_NUMBER} <= {count}", inner)


def split_clauses(clauses: Sequence[ast.Clause]) -> list[ast.Clause]:
    """Return clauses that each bind one variable."""
    found: list[ast.Clause] = []
    for clause in clauses:
        if isinstance(clause, ast.ForClause):
            found += [ast.ForClause(clause.at, (binding,)) for binding in clause.bindings]
        elif isinstance(clause, ast.LetClause):
            found += [ast.LetClause(clause.at, (binding,)) for binding in clause.bindings]
        else:
            found.append(clause)
    return found


def quantified_clauses(node: ast.Quantified) -> list[ast.Clause]:
    """Return the bindings of a quantified expression as the clauses of a FLWOR expression."""
    return [
        ast.ForClause(each.at, (ast.ForBinding(each.at, each.name, each.type, False, None, each.expr),))
        for each in node.bindings
    ]


def bound_names(clauses: Sequence[ast.Clause]) -> list[ast.Name]:
    """Return the variables that have another value in every tuple."""
    found: list[ast.Name] = []
    for clause in clauses:
        if isinstance(clause, ast.ForClause):
            found += [binding.name for binding in clause.bindings]
        elif isinstance(clause, ast.WindowClause):
            found.append(clause.name)
    return found
