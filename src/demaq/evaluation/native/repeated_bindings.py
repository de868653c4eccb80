"""Use one variable for clauses of a comprehension that bind several to the same value.

[… for v2 in (v1.get('price'),) if v2 is not None … for v3 in (v1.get('price'),) … v3]
[… for v2 in (v1.get('price'),) if v2 is not None … v2]
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from demaq.evaluation.native.comprehensions import Clause, IfClause, bound_value, rebuild, split_clauses, target_names
from demaq.evaluation.native.pure_values import PureValues


def merge_bindings(function: ast.FunctionDef) -> None:
    """Change a function such that no clause of a comprehension binds a value that a variable has already."""
    for node in ast.walk(function):
        if isinstance(node, ast.ListComp):
            _merge_in(node)


def _merge_in(node: ast.ListComp) -> None:
    clauses = split_clauses(node)
    bound = [name for generator in node.generators for name in target_names(generator.target)]
    if len(set(bound)) < len(bound):
        return
    while _merge_one(clauses, node):
        pass
    if len(clauses) < len(bound) + sum([len(generator.ifs) for generator in node.generators]):
        rebuild(node, clauses)


def _merge_one(clauses: list[Clause], node: ast.ListComp) -> bool:
    """Remove the first clause that binds a value which a variable has. Return whether there was one."""
    values = PureValues()
    known: dict[int, str] = {}
    for index, clause in enumerate(clauses):
        value = bound_value(clause) if isinstance(clause, ast.comprehension) else None
        described = None if value is None else values.describe(value)
        if not isinstance(clause, ast.comprehension) or described is None or described.is_iterator:
            continue
        [name] = target_names(clause.target)
        other = value.id if isinstance(value, ast.Name) else known.setdefault(described.key, name)
        if other == name or (index == 0 and not (len(clauses) > 1 and isinstance(clauses[1], ast.comprehension))):
            continue
        rest = [*[_part_of(each) for each in clauses[index + 1 :]], node.elt]
        if not _bind_again(rest, {name, other}):
            _rename(rest, name, other)
            del clauses[index]
            return True
    return False


def _part_of(clause: Clause) -> ast.AST:
    return clause.condition if isinstance(clause, IfClause) else clause


def _bind_again(parts: Sequence[ast.AST], names: set[str]) -> bool:
    """Return whether one of the variables is bound again."""
    stored = [node for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)]
    return any([node.id in names and isinstance(node.ctx, ast.Store) for node in stored])


def _rename(parts: Sequence[ast.AST], name: str, other: str) -> None:
    for part in parts:
        for node in ast.walk(part):
            if isinstance(node, ast.Name) and node.id == name:
                node.id = other
