"""Emit FLWOR and quantified expressions as comprehensions.

`order by`, `group by` and `count` need all tuples of variables: a list of them ends one comprehension and begins the
next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from demaq.compiler.emit.python.code import (
    ATOMIC_TYPES,
    NO_VALUES,
    STRINGS,
    NotTranslatable,
    PythonCode,
    Type,
    atomize,
    atomize_item,
    make_loop,
    new_name,
    require_at_most_one,
)
from demaq.compiler.emit.python.focus import FocusAndVariables
from demaq.compiler.emit.python.loop_conditions import LoopCondition, translate_condition
from demaq.compiler.emit.python.paths import is_navigated, nest_in_loop, to_tree
from demaq.compiler.emit.python.sequence_types import SequenceTypes
from demaq.compiler.trees import find_variables, has_no_else, split_parts
from demaq.language import ast
from demaq.language.resolving.names import Names

Translate = Callable[[ast.Expr, FocusAndVariables], PythonCode]


@dataclass(slots=True)
class _Tuples:
    """The stream of tuples while clauses are translated."""

    scope: FocusAndVariables
    clauses: list[tuple[set[ast.Node], str]] = field(default_factory=list)
    """Clauses of a comprehension, each with what it binds."""
    bound: dict[ast.Node, PythonCode] = field(default_factory=dict)
    """All variables; each is a Python variable."""
    is_single: bool = True
    has_condition: bool = False
    are_chosen_ordered: bool = False
    """Whether tuples were put in order after a condition has chosen some."""
    first_for: int = -1
    """The position of the outermost loop; -1 if there is none."""
    last_for: int = -1
    """The position of the innermost loop."""

    def add(self, text: str, *binders: ast.Node) -> None:
        self.clauses.append((set(binders), text))

    def add_loop(self, text: str, *binders: ast.Node) -> None:
        self.is_single = False
        self.last_for = len(self.clauses)
        if self.first_for < 0:
            self.first_for = self.last_for
        self.add(text, *binders)

    def insert(self, place: int, text: str, *binders: ast.Node) -> None:
        """Add a clause, before the innermost loop if there is one."""
        self.clauses.insert(place, (set(binders), text))
        if place <= self.last_for:
            self.last_for += 1
        if place <= self.first_for:
            self.first_for += 1

    def bind(self, binder: ast.Node, code: PythonCode) -> None:
        self.bound[binder] = code
        self.scope = self.scope.bind(binder, code)

    @property
    def text(self) -> str:
        return " ".join([text for _, text in self.clauses])

    def restart(self, make: Callable[[str, str], str], keys: str = "") -> None:
        """End the comprehension with a list of tuples, and begin another one over what is made of it.

        `make` is given the tuple of all variables of loops, after the keys if there are any, and the clauses from the
        first loop on. What is before it is the same for all tuples, and what depends only on that is evaluated before
        the new loop, too.
        """
        first = self.first_for if self.first_for >= 0 else len(self.clauses)
        outside, inside = self.clauses[:first], self.clauses[first:]
        binders = {binder for each, _ in inside for binder in each}
        names = "".join([f"{code.item}, " for binder, code in self.bound.items() if binder in binders])
        text = make(f"({keys}{names})", " ".join([text for _, text in inside]))
        self.clauses = outside
        self.first_for = -1
        self.add_loop(text, *binders)


class FlworEmitter:
    def __init__(self, names: Names, translate: Translate) -> None:
        self._names = names
        self._translate = translate
        self._types = SequenceTypes(names)

    def flwor(self, node: ast.Flwor, scope: FocusAndVariables) -> PythonCode:
        tuples = _Tuples(scope.stand_alone())
        clauses, returned, condition = _merge_result(node)
        for clause in clauses:
            match clause:
                case ast.LetClause():
                    for let in clause.bindings:
                        self._let(let, tuples, node)
                case ast.ForClause():
                    for binding in clause.bindings:
                        self._for(binding, tuples)
                case ast.WhereClause():
                    self._where(clause, tuples, clause is not condition)
                case ast.OrderByClause():
                    self._order_by(clause, tuples)
                case ast.GroupByClause():
                    self._group_by(clause, tuples, self._is_ordered(clauses, clause))
                case ast.CountClause():
                    self._count(clause, tuples)
                case _:
                    raise NotTranslatable("a clause that makes windows", node=clause)
        result = self._translate(returned, replace(tuples.scope, inherited=scope.inherited))
        if result.type is Type.DONE:
            return PythonCode(f"[{result.item} {tuples.text}]", Type.DONE)
        if result.type is Type.EMPTY:
            raise NotTranslatable("a loop that has no value")
        if tuples.is_single:
            return replace(result, item=f"[{result.text} {tuples.text}][0]", clauses="", is_iterator=False)
        return nest_in_loop(PythonCode("", Type.EMPTY, is_list=True, clauses=tuples.text), result)

    def _let(self, let: ast.LetBinding, tuples: _Tuples, node: ast.Flwor) -> None:
        bound = self._value(let.expr, tuples.scope)
        if let.type is not None:
            bound = self._types.expect(bound, let.type)
        is_tree = bound.type is Type.MADE and bound.is_optional and is_navigated(let, node, self._names)
        if is_tree:
            bound = to_tree(bound)
        name = new_name()
        text = f"for {name} in ({bound.text},)"
        last = self._last_binder(let.expr, tuples)
        if last < tuples.last_for and bound.type is not Type.MADE and not is_tree:  # Saxon evaluates it there, too
            tuples.insert(last + 1, text, let)
        else:
            tuples.add(text, let)
        tuples.bind(let, replace(bound, item=name, clauses="", is_iterator=False, is_fitted=False))

    def _for(self, binding: ast.ForBinding, tuples: _Tuples) -> None:
        if binding.allowing_empty:
            raise NotTranslatable("a variable that allows for nothing", node=binding)
        found = self._translate(binding.expr, tuples.scope)
        if binding.type is not None and found.type not in NO_VALUES:
            found = self._types.expect(found, ast.SequenceType(binding.type.at, binding.type.item, "*"))
        if found.type in NO_VALUES:
            raise NotTranslatable("a loop over nothing", node=binding.expr)
        if binding.position is None:
            each = make_loop(found)
            tuples.add_loop(each.clauses, binding)
            tuples.bind(binding, PythonCode(each.item, found.type, name=found.name, is_own=found.is_own))
            return
        item, position = new_name(), new_name()
        tuples.add_loop(f"for {position}, {item} in enumerate({found.list_text}, 1)", binding, binding.position)
        tuples.bind(binding, PythonCode(item, found.type, name=found.name, is_own=found.is_own))
        tuples.bind(binding.position, PythonCode(position, Type.INTEGER))

    def _where(self, clause: ast.WhereClause, tuples: _Tuples, is_written: bool) -> None:
        """Translate a condition; Saxon begins with the last conjunct of one that is written as `where`."""
        is_first = not tuples.has_condition
        tuples.is_single, tuples.has_condition = False, True
        is_alone = is_first and len(split_parts(clause.condition, self._names)) == 1
        condition = translate_condition(
            clause.condition,
            lambda part: self._translate(part, tuples.scope),
            lambda part: tuples.last_for < 0 or self._last_binder(part, tuples) >= tuples.last_for,
            self._names,
            is_unordered=is_written and not is_alone,
        )
        if tuples.are_chosen_ordered and condition.lifted:  # Saxon may ask it of all tuples
            raise NotTranslatable("a condition after an order of what another one has chosen", node=clause)
        self._insert_lifted(condition, tuples)
        tuples.add(condition.filter)

    def _insert_lifted(self, condition: LoopCondition, tuples: _Tuples) -> None:
        """Evaluate each conjunct that does not depend on the innermost loop as soon as its variables are bound."""
        for conjunct, clause in condition.lifted:
            tuples.insert(self._last_binder(conjunct, tuples) + 1, clause)

    def _last_binder(self, expr: ast.Expr, tuples: _Tuples) -> int:
        """Return the position of the last clause that binds a variable of an expression; or -1."""
        used = {self._names.variables.get(node) for node in find_variables(expr)}
        found = [number for number, (binders, _) in enumerate(tuples.clauses) if binders & used]
        return max(found, default=-1)

    def _order_by(self, clause: ast.OrderByClause, tuples: _Tuples) -> None:
        keys: list[str] = []
        how: list[tuple[int, bool, bool, bool]] = []
        for number, spec in enumerate(clause.specs):
            if spec.collation is not None:
                raise NotTranslatable("an order with a collation", node=spec)
            key, is_text = self._key(spec.expr, tuples, spec)
            keys.append(key)
            how.insert(0, (number, spec.direction == "descending", spec.empty == "greatest", is_text))
        tuples.are_chosen_ordered = tuples.has_condition
        tuples.restart(
            lambda row, text: f"for {row} in order_by([{row} {text}], {tuple(how)!r})",
            "".join([f"{key}, " for key in keys]),
        )

    def _key(self, expr: ast.Expr, tuples: _Tuples, node: ast.Node) -> tuple[str, bool]:
        """Return a variable for a value that tuples are ordered by, None if there is none; and whether it is a text."""
        code = atomize_item(self._value(expr, tuples.scope))
        key = code if not code.is_list else require_at_most_one(code)
        if key.type is not Type.EMPTY and key.type not in ATOMIC_TYPES:
            raise NotTranslatable(f"an order by {key.type.value}", node=node)
        value = key.item if not key.is_list else f"one_or_none({key.text})"
        name = new_name()
        if key.maybe is not None:
            tuples.add(key.maybe.binding)
            value = f"(None if {key.maybe.name} is None else {key.item})"
        if key.bare is not None:
            name = key.bare.name
        else:
            tuples.add(f"for {name} in ({value},)")
        return name, key.type in STRINGS

    def _count(self, clause: ast.CountClause, tuples: _Tuples) -> None:
        number = new_name()
        tuples.restart(lambda row, text: f"for {number}, {row} in enumerate([{row} {text}], 1)")
        tuples.bind(clause, PythonCode(number, Type.INTEGER))
        tuples.clauses[-1][0].add(clause)

    def _group_by(self, clause: ast.GroupByClause, tuples: _Tuples, is_ordered: bool) -> None:
        """Translate a grouping. Saxon's groups are in no particular order: so they are ordered later, or only one."""
        keys: list[PythonCode] = []
        others = dict(tuples.bound)
        for spec in clause.specs:
            if spec.collation is not None or spec.type is not None:
                raise NotTranslatable("groups with a type or a collation", node=spec)
            if spec.expr is None:
                binder = [each for each in others if _is_bound_by(each, spec.name)][-1]
                key = require_at_most_one(atomize(others.pop(binder)))
            else:
                key = require_at_most_one(atomize(self._value(spec.expr, tuples.scope)))
            if key.type not in ATOMIC_TYPES:
                raise NotTranslatable(f"groups by {key.type.value}", node=spec)
            keys.append(key)
        names = [new_name() for _ in (*keys, *others)]
        row = "".join([f"{code.list_text}, " for code in others.values()])
        key_row = "".join([f"{key.text}, " for key in keys])
        text = f"for {', '.join(names)}, in group_by([(({key_row}), ({row})) {tuples.text}], {is_ordered})"
        tuples.bound = {}
        for spec, key in zip(clause.specs, keys, strict=True):
            tuples.bind(spec, PythonCode(names.pop(0), key.type, is_list=True, is_single=True))
        for binder, code in others.items():
            tuples.bind(binder, PythonCode(names.pop(0), code.type, is_list=True, name=code.name))
        tuples.clauses = []
        tuples.first_for = -1
        tuples.add_loop(text, *tuples.bound)

    def _is_ordered(self, clauses: Sequence[ast.Clause], group: ast.GroupByClause) -> bool:
        """Return whether a clause after a grouping orders the groups by all that distinguishes them."""
        for clause in clauses[list(clauses).index(group) + 1 :]:
            if isinstance(clause, ast.OrderByClause):
                keys = [self._names.variables.get(s.expr) for s in clause.specs if isinstance(s.expr, ast.VarRef)]
                return set(group.specs) <= set(keys)
            if not isinstance(clause, (ast.LetClause, ast.WhereClause)):
                return False
        return False

    def quantified(self, node: ast.Quantified, scope: FocusAndVariables) -> PythonCode:
        tuples = _Tuples(scope)
        for binding in node.bindings:
            found = self._translate(binding.expr, tuples.scope)
            if found.type in NO_VALUES:
                raise NotTranslatable("a loop over nothing", node=binding.expr)
            if binding.type is not None:
                found = self._types.expect(found, ast.SequenceType(binding.type.at, binding.type.item, "*"))
            each = make_loop(found)
            tuples.add_loop(each.clauses, binding)
            tuples.bind(binding, PythonCode(each.item, each.type, name=each.name))
        condition = translate_condition(
            node.condition,
            lambda part: self._translate(part, tuples.scope),
            lambda part: self._last_binder(part, tuples) >= tuples.last_for,
            self._names,
        )
        self._insert_lifted(condition, tuples)
        how = "any" if node.kind == "some" else "all"
        return PythonCode(f"{how}([{condition.text} {tuples.text}])", Type.BOOLEAN)

    def _value(self, expr: ast.Expr, scope: FocusAndVariables) -> PythonCode:
        found = self._translate(expr, scope)
        if found.type is Type.DONE:
            raise NotTranslatable("the value of an action", node=expr)
        return found


def _merge_result(node: ast.Flwor) -> tuple[Sequence[ast.Clause], ast.Expr, ast.Clause | None]:
    """Return clauses and result, with a loop in the result as clauses, and a condition on the result as `where`.

    The third value is this condition, if there is one.

    Saxon does the same, and evaluates conditions before a loop whichever way they are written:

        for $x in //a return for $y in $x/b return if ($z) then $y else ()
        for $x in //a for $y in $x/b where $z return $y
    """
    clauses, result = list(node.clauses), node.result
    while isinstance(result, ast.Flwor) and all([isinstance(clause, _PLAIN_CLAUSES) for clause in result.clauses]):
        clauses.extend(result.clauses)
        result = result.result
    has_loop = not all([isinstance(clause, (ast.LetClause, ast.WhereClause)) for clause in clauses])
    if has_loop and isinstance(result, ast.If) and has_no_else(result):
        condition = ast.WhereClause(result.at, result.condition)
        return [*clauses, condition], result.then, condition
    return clauses, result, None


_PLAIN_CLAUSES = (ast.LetClause, ast.ForClause, ast.WhereClause)
"""Clauses that treat each tuple by itself, not all of them together."""


def _is_bound_by(binder: ast.Node, name: ast.Name) -> bool:
    """Return whether a node binds a variable of this name."""
    bound = binder if isinstance(binder, ast.Name) else getattr(binder, "name", None)
    return isinstance(bound, ast.Name) and str(bound) == str(name)
