"""Which parts of translated expressions have the same value wherever they are evaluated.

Trees are only read by native rules, and helper functions depend on nothing but their arguments: so two expressions with
the same text have the same value, and either both fail or none of them does. Excepted is what makes new nodes, which
are never the same, and what acts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demaq.evaluation.native.comprehensions import target_names

_ITERATING_FUNCTIONS = frozenset({"enumerate", "children", "self_and_below"})
PURE_FUNCTIONS = frozenset(
    {
        *("Decimal", "Untyped", "AnyUri", "boolean", "integer", "decimal", "double", "cast_double", "single", "float"),
        *("date", "date_time", "time", "day_times", "year_months", "timeout_values", "to_double", "comparable"),
        *("any_uri", "normalized_string", "collapse", "name_text", "in_range", "cast", "castable", "text_of"),
        *("str", "len", "bool", "list", "sum", "abs", "any", "all", "max", "min", "has", *_ITERATING_FUNCTIONS),
        *("compared_uri", "at_most_one", "only", "one_or_none", "at_least_one", "one_text", "listed", "item_at"),
        *("string_of", "string_of_node", "value_of_node", "normalized", "total", "is_true", "is_true_number"),
        *("any_equal", "any_unequal", "any_pair", "compare_values", "order_moments", "order_durations", "distinct"),
        *("decimal_add", "decimal_subtract", "decimal_multiply", "decimal_divide", "decimal_total", "sum_of"),
        *("integer_idivide", "integer_modulo", "decimal_modulo", "double_divide", "double_idivide", "double_modulo"),
        *("average", "greatest", "least", "max_double", "min_double", "round_number", "round_to", "round_half_even"),
        *("add_to_moment", "subtract_from_moment", "subtract_moments", "moment_now", "date_part", "time_part"),
        *("number_of", "number_or_nan", "certain_double", "negate", "absolute", "floor_number", "ceiling_number"),
        *("show_decimal", "double_text", "single_text", "number_text", "moment_text", "day_times_text"),
        *("year_months_text", "substring", "substring_before", "substring_after", "upper", "lower", "matches"),
        *("replace_matches", "translate_text", "contains_token", "local_name_of", "name_of", "namespace_of"),
        *("attribute", "root_named", "parent", "has_name", "texts_in", "ordered", "order_by", "root_of"),
        *("escape", "escape_value", "closed", "given_attribute"),
        *("copied", "copied_made", "copied_into", "copied_made_into", "copied_document"),
    }
)
_ITERATING_METHODS = frozenset({"iter", "iterchildren", "iterdescendants", "iterancestors", "itersiblings", "itertext"})
PURE_METHODS = _ITERATING_METHODS | {"get", "join", "startswith", "endswith"}
RUN_METHODS = frozenset({"own", "slice", "found", "queue"})
"""What reads state reads it once, and returns the same list again."""
_PURE_ATTRIBUTES = frozenset({"tag", "value", "now"})


@dataclass(frozen=True, slots=True)
class PureValue:
    key: int
    """Equal for expressions that are the same, except for the names of variables that they bind themselves."""
    names: frozenset[str]
    """The free variables."""
    size: int
    """The number of nodes: greater than that of each part."""
    calls: int
    """How many calls and comprehensions are in it."""
    is_iterator: bool = False
    """Whether it can be consumed only once."""


class PureValues:
    """Describes the expressions of one function. It must not be used after these are changed."""

    def __init__(self) -> None:
        self._keys: dict[tuple[object, ...], int] = {}
        self._known: dict[ast.AST, PureValue | None] = {}

    def describe(self, node: ast.expr) -> PureValue | None:
        """Return what is known of a pure expression; None for all others."""
        if node not in self._known:
            self._known[node] = self._describe(node, {})
        return self._known[node]

    def describe_as_list(self, node: ast.expr) -> PureValue | None:
        """Return the same for the list of what an expression iterates over."""
        found = self.describe(node)
        return found if found is None or not found.is_iterator else self._join(("Call", "list"), [found], calls=1)

    def describe_renamed(self, node: ast.expr, renamed: Mapping[str, str]) -> PureValue | None:
        """Return what is known of an expression with other names for its variables."""
        return self._describe(node, renamed)

    def _describe(self, node: ast.expr, renamed: Mapping[str, str]) -> PureValue | None:
        handler = _HANDLERS.get(type(node))
        return None if handler is None else handler(self, node, renamed)

    def _name(self, node: ast.Name, renamed: Mapping[str, str]) -> PureValue:
        name = renamed.get(node.id, node.id)
        free = frozenset() if name.startswith("#") else frozenset({name})
        return PureValue(self._key(("Name", name)), free, 1, 0)

    def _constant(self, node: ast.Constant, renamed: Mapping[str, str]) -> PureValue:
        return PureValue(self._key(("Constant", type(node.value), repr(node.value))), frozenset(), 1, 0)

    def _attribute(self, node: ast.Attribute, renamed: Mapping[str, str]) -> PureValue | None:
        return (
            self._of_parts(("Attribute", node.attr), [node.value], renamed) if node.attr in _PURE_ATTRIBUTES else None
        )

    def _call(self, node: ast.Call, renamed: Mapping[str, str]) -> PureValue | None:
        function, parts = node.func, [*node.args, *[keyword.value for keyword in node.keywords]]
        keywords = tuple([keyword.arg for keyword in node.keywords])
        if isinstance(function, ast.Name):
            if function.id not in PURE_FUNCTIONS:
                return None
            is_iterator = function.id in _ITERATING_FUNCTIONS
            return self._of_parts(("Call", function.id, *keywords), parts, renamed, 1, is_iterator)
        if not isinstance(function, ast.Attribute):
            return None
        pure = RUN_METHODS if isinstance(function.value, ast.Name) and function.value.id == "run" else PURE_METHODS
        if function.attr not in pure:
            return None
        is_iterator = function.attr in _ITERATING_METHODS
        return self._of_parts(("Method", function.attr, *keywords), [function.value, *parts], renamed, 1, is_iterator)

    def _if_expression(self, node: ast.IfExp, renamed: Mapping[str, str]) -> PureValue | None:
        found = self._of_parts(("IfExp",), [node.test, node.body, node.orelse], renamed)
        branches = [self._describe(each, renamed) for each in (node.body, node.orelse)]
        if found is None or not any([branch is not None and branch.is_iterator for branch in branches]):
            return found
        return PureValue(found.key, found.names, found.size, found.calls, is_iterator=True)

    def _compare(self, node: ast.Compare, renamed: Mapping[str, str]) -> PureValue | None:
        kinds = [type(operator) for operator in node.ops]
        return self._of_parts(("Compare", *kinds), [node.left, *node.comparators], renamed)

    def _comprehension(self, node: ast.ListComp, renamed: Mapping[str, str]) -> PureValue | None:
        renamed = dict(renamed)
        parts: list[PureValue | None] = []
        shape: list[object] = ["ListComp"]
        for generator in node.generators:
            parts.append(self._describe(generator.iter, renamed))
            for name in target_names(generator.target):
                renamed[name] = f"#{len(renamed)}"
            shape += [self._key((_shape(generator.target, renamed),)), len(generator.ifs)]
            parts += [self._describe(condition, renamed) for condition in generator.ifs]
        parts.append(self._describe(node.elt, renamed))
        return self._join(tuple(shape), parts, calls=2)

    def _subscript(self, node: ast.Subscript, renamed: Mapping[str, str]) -> PureValue | None:
        return self._of_parts(("Subscript",), [node.value, node.slice], renamed)

    def _slice(self, node: ast.Slice, renamed: Mapping[str, str]) -> PureValue | None:
        given = [node.lower, node.upper, node.step]
        shape = ("Slice", *[part is not None for part in given])
        return self._of_parts(shape, [part for part in given if part is not None], renamed)

    def _dictionary(self, node: ast.Dict, renamed: Mapping[str, str]) -> PureValue | None:
        keys = [key for key in node.keys if key is not None]
        return self._of_parts(("Dict", len(node.keys)), [*keys, *node.values], renamed)

    def _of_parts(
        self,
        shape: tuple[object, ...],
        parts: Sequence[ast.expr],
        renamed: Mapping[str, str],
        calls: int = 0,
        is_iterator: bool = False,
    ) -> PureValue | None:
        describe = (lambda part: self._describe(part, renamed)) if renamed else self.describe
        return self._join(shape, [describe(part) for part in parts], calls, is_iterator)

    def _join(
        self, shape: tuple[object, ...], parts: Sequence[PureValue | None], calls: int, is_iterator: bool = False
    ) -> PureValue | None:
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        key = self._key((*shape, "of", *[part.key for part in known]))
        names = frozenset().union(*[part.names for part in known])
        size = 1 + sum([part.size for part in known])
        return PureValue(key, names, size, calls + sum([part.calls for part in known]), is_iterator)

    def _key(self, shape: tuple[object, ...]) -> int:
        return self._keys.setdefault(shape, len(self._keys))


def _shape(target: ast.expr, renamed: Mapping[str, str]) -> object:
    if isinstance(target, ast.Tuple):
        return tuple([_shape(item, renamed) for item in target.elts])
    assert isinstance(target, ast.Name), "clauses bind variables"
    return renamed[target.id]


_Handler = Callable[[PureValues, Any, Mapping[str, str]], PureValue | None]
_HANDLERS: Mapping[type[ast.expr], _Handler] = {
    ast.Name: PureValues._name,
    ast.Constant: PureValues._constant,
    ast.Attribute: PureValues._attribute,
    ast.Call: PureValues._call,
    ast.IfExp: PureValues._if_expression,
    ast.Compare: PureValues._compare,
    ast.ListComp: PureValues._comprehension,
    ast.Subscript: PureValues._subscript,
    ast.Slice: PureValues._slice,
    ast.Dict: PureValues._dictionary,
    ast.Tuple: lambda self, node, renamed: self._of_parts(("Tuple",), node.elts, renamed),
    ast.List: lambda self, node, renamed: self._of_parts(("List",), node.elts, renamed),
    ast.BoolOp: lambda self, node, renamed: self._of_parts((type(node.op),), node.values, renamed),
    ast.BinOp: lambda self, node, renamed: self._of_parts((type(node.op),), [node.left, node.right], renamed),
    ast.UnaryOp: lambda self, node, renamed: self._of_parts((type(node.op),), [node.operand], renamed),
}
