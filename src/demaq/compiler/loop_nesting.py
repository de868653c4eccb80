"""How the time of a native expression grows with the size of the message: how deep its loops are nested.

The result is the degree of a polynomial. An expression of degree 1 takes a time in proportion to the size, however the
message is made; one of degree 2 may compare everything in a message with everything else. Children and attributes of
the current item count nothing, because all items together have no more of them than the message has. Documents are not
deep (`xml_bounds.DEPTH_MAX`), so what depends on the depth counts nothing either.

Of other messages, those in a slice and those found by a key are taken for few: loops over them count nothing.

Nothing is known of expressions whose time depends on values: regular expressions, ranges, and declared functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from demaq.compiler.plan import QueueByKey, Read, SliceRead
from demaq.language import ast
from demaq.language.namespaces import FN, QS, XS
from demaq.language.resolving.names import Names

NO_SITES: Mapping[ast.Node, Read] = MappingProxyType({})

_FREE_AXES = ("child", "attribute", "self")
_LINEAR_AXES = ("descendant", "descendant-or-self", "parent", "ancestor", "ancestor-or-self")
_UNBOUNDED_FUNCTIONS = (
    *("matches", "replace", "tokenize", "analyze-string", "format-number", "format-integer", "serialize"),
    *("parse-xml", "parse-xml-fragment", "json-to-xml", "parse-json", "for-each", "filter", "fold-left", "fold-right"),
    *("for-each-pair", "apply", "sort", "path"),
)
_PAIRING_FUNCTIONS = ("deep-equal", "distinct-values", "index-of")
"""They may compare all items with all others."""
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_SET_OPERATORS = ("union", "|", "intersect", "except")
_MAXIMUM_OPERATORS = (
    *("or", "and", "eq", "ne", "lt", "le", "gt", "ge", "+", "-", "*", "div", "idiv", "mod", "||"),
    *("is", "<<", ">>"),
)


class _Unknown(Exception):
    """The time of an expression is not known."""


def find_loop_nesting(expr: ast.Expr, names: Names, sites: Mapping[ast.Node, Read] = NO_SITES) -> int | None:
    """Return the degree for an expression on one message; None if nothing is known about it.

    `sites` has what calls in the expression read, as in a RulePlan.
    """
    try:
        return _Nesting(names, sites).of(expr)
    except _Unknown:
        return None


def is_linear(expr: ast.Expr, names: Names) -> bool:
    """Return whether the time of an expression is in proportion to the size of the message."""
    degree = find_loop_nesting(expr, names)
    return degree is not None and degree <= 1


class _Nesting:
    def __init__(self, names: Names, sites: Mapping[ast.Node, Read]) -> None:
        self._names = names
        self._sites = sites
        self._bound: dict[int, int] = {}
        """What a reference to a variable costs, by the identity of the node that binds it: 0 for a single item."""

    def of(self, node: ast.Node | None) -> int:
        match node:
            case None | ast.StringLiteral() | ast.NumericLiteral() | ast.ContextItem() | ast.Root():
                return 0
            case ast.RawText() | ast.CData() | ast.DirectComment() | ast.DirectPI():
                return 0
            case ast.Sequence():
                return self._most(*node.items)
            case ast.If():
                return self._most(node.condition, node.then, node.otherwise)
            case ast.Path():
                return self._path(node)
            case ast.AxisStep():
                return self._step(node)
            case ast.Postfix():
                return self._filtered(node)
            case ast.OperatorChain():
                return self._operators(node)
            case ast.Unary() | ast.TypeOperation():
                return self.of(node.operand)
            case ast.FunctionCall():
                return self._call(node)
            case ast.VarRef():
                return self._variable(node)
            case ast.Flwor():
                return self._flwor(node)
            case ast.Quantified():
                return self._quantified(node)
            case ast.Switch():
                values = [value for case in node.cases for value in case.values]
                return self._most(node.operand, *values, *[case.result for case in node.cases], node.default)
            case ast.Enclosed():
                return self.of(node.content)
            case ast.DirectAttribute():
                return self._most(*node.parts)
            case ast.DirectElement():
                return self._most(*node.attributes, *node.content)
            case ast.Computed():
                name = None if isinstance(node.name, ast.Name) else node.name
                return self._most(name, node.content)
            case ast.Enqueue():
                return self._most(node.message, *[each.value for each in node.properties])
            case ast.Reset():
                return self.of(node.key)
        raise _Unknown

    def _most(self, *nodes: ast.Node | None) -> int:
        return max([self.of(node) for node in nodes], default=0)

    def _loop(self, over: int, body: int) -> int:
        """Return the degree of a loop over what costs `over`."""
        return max(1, over) + body

    def _path(self, node: ast.Path) -> int:
        # Only what begins with the current item, or with a single one, costs nothing.
        found = 0 if node.separators[0] == "" and not self._begins_with_messages(node) else 1
        for separator, step in zip(node.separators, node.steps, strict=True):
            if separator == "//":
                found = max(found, 1)
            is_first = step is node.steps[0] and not separator
            if isinstance(step, ast.AxisStep) or is_first:
                found = max(found, self.of(step))
            else:
                found = max(found, self._loop(found, self.of(step)))
        return found

    def _step(self, node: ast.AxisStep) -> int:
        if node.axis in _FREE_AXES:
            found = 0
        else:
            found = 1 if node.axis in _LINEAR_AXES else 2  # siblings and all before or after each of many nodes
        return max([found, *[1 + self.of(each.condition) for each in node.predicates]])

    def _begins_with_messages(self, node: ast.Path) -> bool:
        """Return whether a path goes from whole messages to some of their nodes, and not to attributes of one root."""
        first = node.steps[0]
        base = first.base if isinstance(first, ast.Postfix) else first
        if len(node.steps) == 1 or not isinstance(base, ast.FunctionCall):
            return False
        return self._find_function(base)[0] == QS and not self._is_single_path(node)

    def _find_read(self, node: ast.Node) -> Read | None:
        """Return what a call reads, if that is few messages."""
        read = self._sites.get(node)
        return read if isinstance(read, (SliceRead, QueueByKey)) else None

    def _filtered(self, node: ast.Postfix) -> int:
        read = self._find_read(node.base)
        if isinstance(read, QueueByKey):
            keys = self._most(*[lookup.key for lookup in read.lookups])
            predicates = [suffix for suffix in node.suffixes if isinstance(suffix, ast.Predicate)]
            if len(predicates) < len(node.suffixes):
                raise _Unknown
            return max(keys, 0 if read.is_counted else self._most(*[each.condition for each in predicates]))
        found = self.of(node.base)
        for suffix in node.suffixes:
            if not isinstance(suffix, ast.Predicate):
                raise _Unknown
            found = max(found, self._loop(found, self.of(suffix.condition)))
        return found

    def _operators(self, node: ast.OperatorChain) -> int:
        degrees = [self.of(operand) for operand in node.operands]
        operators = set(node.operators)
        if operators <= set(_MAXIMUM_OPERATORS):
            return max(degrees)
        if operators <= set(_COMPARISONS):
            if sum([self._may_be_many(operand) for operand in node.operands]) < len(degrees):
                return max(degrees)
            return sum([max(1, degree) for degree in degrees])
        if operators <= set(_SET_OPERATORS):
            return max(1, *degrees)
        if operators == {"!"}:
            found, *others = degrees
            for degree in others:
                found = self._loop(found, degree)
            return found
        raise _Unknown

    def _may_be_many(self, node: ast.Expr) -> bool:
        match node:
            case ast.Path():
                return not self._is_single_path(node)
            case ast.StringLiteral() | ast.NumericLiteral() | ast.ContextItem():
                return False
            case ast.VarRef():
                return self._variable(node) > 0
            case ast.AxisStep():
                return node.axis not in ("attribute", "self") or isinstance(node.test, ast.KindTest)
            case ast.FunctionCall():
                return self._find_function(node)[0] != XS
        return True

    def _is_single_path(self, node: ast.Path) -> bool:
        """Return whether a path begins with one item, and goes on to the root element and to attributes of it alone."""
        first, *others = node.steps
        is_at_root = node.separators[0] == "/"
        if is_at_root:
            others = [first, *others]
        elif isinstance(first, ast.FunctionCall) and self._find_function(first) == (QS, "message"):
            is_at_root = True
        elif not isinstance(first, ast.ContextItem | ast.VarRef) or self._may_be_many(first):
            return False
        if "//" in node.separators or not all([isinstance(step, ast.AxisStep) for step in others]):
            return False
        if is_at_root and others and isinstance(others[0], ast.AxisStep) and others[0].axis == "child":
            others = others[1:]
        return not any([self._may_be_many(step) for step in others])

    def _call(self, node: ast.FunctionCall) -> int:
        namespace, local = self._find_function(node)
        found = self._most(*node.args)
        if namespace == XS:
            return found
        if namespace == QS:
            is_little = local in ("message", "property", "slicekey") or isinstance(self._find_read(node), SliceRead)
            return found if is_little else max(1, found)
        if namespace != FN or local in _UNBOUNDED_FUNCTIONS:
            raise _Unknown
        return 2 * max(1, found) if local in _PAIRING_FUNCTIONS else found

    def _find_function(self, node: ast.FunctionCall) -> tuple[str, str]:
        key = self._names.functions.get(node)
        if key is None:
            raise _Unknown
        return key[0], key[1]

    def _variable(self, node: ast.VarRef) -> int:
        binding = self._names.variables.get(node)
        found = None if binding is None else self._bound.get(id(binding))
        if found is None:
            raise _Unknown  # of a prolog: its value is computed somewhere else
        return found

    def _flwor(self, node: ast.Flwor) -> int:
        most = loops = 0
        for clause in node.clauses:
            match clause:
                case ast.ForClause():
                    for each in clause.bindings:
                        over = self.of(each.expr)
                        most = max(most, loops + over)
                        loops += over if self._is_few(each.expr) else max(1, over)
                        self._bound[id(each)] = 0
                        if each.position is not None:
                            self._bound[id(each.position)] = 0
                case ast.LetClause():
                    for bound in clause.bindings:
                        value = self.of(bound.expr)
                        most = max(most, loops + value)
                        self._bound[id(bound)] = max(1, value)
                case ast.WhereClause():
                    most = max(most, loops + self.of(clause.condition))
                case ast.OrderByClause():
                    most = max(most, loops + self._most(*[spec.expr for spec in clause.specs]))
                case _:
                    raise _Unknown
        return max(most, loops + self.of(node.result))

    def _is_few(self, node: ast.Expr) -> bool:
        """Return whether an expression returns few messages, and not nodes in these."""
        base = node.base if isinstance(node, ast.Postfix) else node
        return self._find_read(base) is not None

    def _quantified(self, node: ast.Quantified) -> int:
        most = loops = 0
        for each in node.bindings:
            over = self.of(each.expr)
            most = max(most, loops + over)
            loops += over if self._is_few(each.expr) else max(1, over)
            self._bound[id(each)] = 0
        return max(most, loops + self.of(node.condition))
