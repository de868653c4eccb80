"""Evaluate an expression once that occurs several times in a translated function.

[decimal(v1.get('price')) for v1 in m.iter('item') if v1.get('price') is not None]
[decimal(shared0) for v1 in m.iter('item') for shared0 in (v1.get('price'),) if shared0 is not None]

Nothing is evaluated that was not evaluated before: an expression gets a variable at a place where it was going to be
evaluated in any case, and other places use that if it has been passed by then. The order within a statement or clause
may change, which makes no difference: whatever fails leaves the rule to Saxon, and its actions are undone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from demaq.evaluation.native.comprehensions import Clause, bound_value, make_name, rebuild, split_clauses, target_names
from demaq.evaluation.native.pure_values import PureValue, PureValues

NODES_MAX = 10_000
"""A function with more nodes is left as it is."""
_NO_NAMES: frozenset[str] = frozenset()


def share_values(function: ast.FunctionDef) -> None:
    """Change a function such that it evaluates no expression again whose value it has."""
    if sum([1 for _ in ast.walk(function)]) <= NODES_MAX:
        _Sharing().share_in_statements(function.body)


@dataclass(slots=True)
class _NodePlace:
    """Where an expression is: a field of a node, or an item of one."""

    parent: Any
    field: str
    index: int | None = None

    @property
    def node(self) -> ast.expr:
        found = getattr(self.parent, self.field)
        return found if self.index is None else found[self.index]  # type: ignore[no-any-return]

    def put(self, node: ast.expr) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


@dataclass(frozen=True, slots=True)
class _Occurrence:
    value: PureValue
    place: _NodePlace
    node: ast.expr
    step: int
    """Which of the statements or clauses it is in, that are evaluated one after the other."""
    is_certain: bool
    """Whether it is evaluated if its step is."""
    hidden: frozenset[str]
    """Variables that are bound around it, but not around its step."""
    variable: str
    """The variable that its step binds to it, if it does."""


class _Sharing:
    """Shares values in a function: at first among its statements, then in each comprehension by itself."""

    def __init__(self) -> None:
        self._count = 0
        self._values = PureValues()
        self._occurrences: dict[int, list[_Occurrence]] = {}
        self._given: dict[int, tuple[int, str]] = {}
        """Values that a variable has after a step, by key, each with the step and the variable."""

    def share_in_statements(self, statements: list[ast.stmt]) -> None:
        self._begin()
        for step, statement in enumerate(statements):
            self._collect_statement(statement, step, True)
        made = self._choose()
        for step in sorted(made, reverse=True):
            statements[step:step] = [_assign(name, value) for name, value in made[step]]
        for statement in statements:
            if isinstance(statement, ast.If):
                self._share_inside(statement.test)
                self.share_in_statements(statement.body)
                self.share_in_statements(statement.orelse)
            elif isinstance(statement, (ast.Expr, ast.Return, ast.Assign)) and statement.value is not None:
                self._share_inside(statement.value)

    def _share_inside(self, node: ast.AST) -> None:
        """Share values in each of the comprehensions in an expression."""
        if isinstance(node, ast.ListComp):
            self._share_in_comprehension(node)
        for child in ast.iter_child_nodes(node):
            self._share_inside(child)

    def _share_in_comprehension(self, node: ast.ListComp) -> None:
        bound = [name for generator in node.generators for name in target_names(generator.target)]
        if len(set(bound)) < len(bound):
            return
        self._begin()
        clauses = split_clauses(node)
        for step, clause in enumerate(clauses):
            self._collect_clause(clause, step)
        self._collect(_NodePlace(node, "elt"), len(clauses), True, _NO_NAMES)
        made = self._choose()
        if made:
            steps: list[list[Clause]] = [[clause] for clause in clauses] + [[]]
            for step, bindings in made.items():
                steps[step] = [*[_bind(name, value) for name, value in bindings], *steps[step]]
            rebuild(node, [clause for each in steps for clause in each])

    # what occurs

    def _begin(self) -> None:
        self._values = PureValues()
        self._occurrences, self._given = {}, {}

    def _collect_statement(self, statement: ast.stmt, step: int, is_certain: bool) -> None:
        if isinstance(statement, ast.If):
            self._collect(_NodePlace(statement, "test"), step, is_certain, _NO_NAMES)
            for inner in (*statement.body, *statement.orelse):
                self._collect_statement(inner, step, False)
        elif isinstance(statement, (ast.Expr, ast.Return)) and statement.value is not None:
            self._collect(_NodePlace(statement, "value"), step, is_certain, _NO_NAMES)

    def _collect_clause(self, clause: Clause, step: int) -> None:
        if isinstance(clause, ast.comprehension):
            if step > 0:  # the first list is evaluated outside
                value = bound_value(clause)
                if value is None:
                    self._collect(_NodePlace(clause, "iter"), step, True, _NO_NAMES, is_iterated=True)
                else:
                    name = next(iter(target_names(clause.target)))
                    self._collect(_NodePlace(clause.iter, "elts", 0), step, True, _NO_NAMES, variable=name)
            self._add_variables_of_rows(clause, step)
        else:
            self._collect(_NodePlace(clause, "condition"), step, True, _NO_NAMES)

    def _add_variables_of_rows(self, clause: ast.comprehension, step: int) -> None:
        """Note which values variables have that a clause takes from ordered tuples of such variables."""
        match clause:
            case ast.comprehension(
                target=ast.Tuple(elts=targets),
                iter=ast.Call(func=ast.Name(id="order_by"), args=[ast.ListComp(elt=ast.Tuple(elts=row)) as rows, *_]),
            ) if len(targets) == len(row):
                pass
            case _:
                return
        renamed = {
            inner.id: outer.id
            for inner, outer in zip(row, targets, strict=True)
            if isinstance(inner, ast.Name) and isinstance(outer, ast.Name)
        }
        local = {name for generator in rows.generators for name in target_names(generator.target)} - renamed.keys()
        for generator in rows.generators:
            value = bound_value(generator)
            for name in target_names(generator.target) if value is not None else ():
                assert value is not None
                found = self._values.describe(value)
                if name in renamed and found is not None and not found.names & local:
                    known = self._values.describe_renamed(value, renamed)
                    if known is not None and known.calls:
                        self._given.setdefault(known.key, (step, renamed[name]))

    def _collect(
        self,
        place: _NodePlace,
        step: int,
        is_certain: bool,
        hidden: frozenset[str],
        is_iterated: bool = False,
        variable: str = "",
    ) -> None:
        """Collect all expressions in an expression that may be shared."""
        node = place.node
        value = self._values.describe_as_list(node) if is_iterated else self._values.describe(node)
        if value is not None and value.calls and not value.is_iterator and not value.names & hidden:
            found = _Occurrence(value, place, node, step, is_certain, hidden, variable)
            self._occurrences.setdefault(value.key, []).append(found)
        match node:
            case ast.ListComp():
                self._collect(_NodePlace(node.generators[0], "iter"), step, is_certain, hidden, is_iterated=True)
                hidden |= {name for generator in node.generators for name in target_names(generator.target)}
                for generator in node.generators:
                    if generator is not node.generators[0]:
                        self._collect(_NodePlace(generator, "iter"), step, False, hidden, is_iterated=True)
                    for index in range(len(generator.ifs)):
                        self._collect(_NodePlace(generator, "ifs", index), step, False, hidden)
                self._collect(_NodePlace(node, "elt"), step, False, hidden)
            case ast.IfExp():
                self._collect(_NodePlace(node, "test"), step, is_certain, hidden)
                self._collect(_NodePlace(node, "body"), step, False, hidden)
                self._collect(_NodePlace(node, "orelse"), step, False, hidden)
            case ast.BoolOp():
                for index in range(len(node.values)):
                    self._collect(_NodePlace(node, "values", index), step, is_certain and index == 0, hidden)
            case ast.GeneratorExp() | ast.Lambda() | ast.Name() | ast.Constant():
                pass
            case _:
                for part in _parts_of(node):
                    self._collect(part, step, is_certain, hidden)

    # what is shared

    def _choose(self) -> dict[int, list[tuple[str, ast.expr]]]:
        """Replace what is shared by variables. Return those to bind before each step, with their values, in order."""
        made: dict[int, list[tuple[str, ast.expr]]] = {}
        gone: set[ast.AST] = set()
        for found in sorted(self._occurrences.values(), key=lambda found: -found[0].value.size):
            left = [each for each in found if each.node not in gone]
            first = next((each for each in left if each.is_certain), None)
            step, name = self._given.get(found[0].value.key, (-1, ""))
            if name and (first is None or first.step > step):
                _use(name, [each for each in left if each.step > step], gone)
            elif first is not None and first.variable:
                _use(first.variable, [each for each in left if each.step > first.step], gone)
            elif first is not None:
                uses = [each for each in left if each.step >= first.step]
                if len(uses) > 1:
                    name, self._count = f"shared{self._count}", self._count + 1
                    value = self._values.describe(first.node)
                    assert value is not None, "it is pure"
                    shared = _call_list(first.node) if value.is_iterator else first.node
                    _use(name, [each for each in uses if each is not first], gone)
                    first.place.put(make_name(name))
                    made.setdefault(first.step, []).insert(0, (name, shared))  # before larger ones that may use it
        return made


def _use(name: str, uses: Sequence[_Occurrence], gone: set[ast.AST]) -> None:
    for each in uses:
        if name not in each.hidden:
            each.place.put(make_name(name))
            gone.update(ast.walk(each.node))


def _parts_of(node: ast.expr) -> Iterable[_NodePlace]:
    """Yield the places of what is evaluated whenever an expression is."""
    for field, part in ast.iter_fields(node):
        if isinstance(part, ast.expr):
            yield _NodePlace(node, field)
        elif isinstance(part, list):
            for index, item in enumerate(part):
                if isinstance(item, ast.expr):
                    yield _NodePlace(node, field, index)
                elif isinstance(item, ast.keyword):
                    yield _NodePlace(item, "value")


def _call_list(node: ast.expr) -> ast.expr:
    return ast.Call(make_name("list"), [node], [])


def _assign(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def _bind(name: str, value: ast.expr) -> ast.comprehension:
    return ast.comprehension(ast.Name(name, ast.Store()), ast.Tuple([value], ast.Load()), [], 0)
