"""Infer the shape of a message from the expression that constructs it.

    <offer>{//requestID}<total>{$sum}</total></offer>

is certainly an offer with a total; it probably has a requestID, whose content is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

from demaq.language import ast
from demaq.language.namespaces import FN, MATH, QS, XS
from demaq.language.resolving.names import Names

ElementName = tuple[str, str]
"""Namespace and local name."""

_ATOMIC_FUNCTIONS = frozenset(
    {
        *("string", "concat", "string-join", "count", "sum", "avg", "min", "max", "number", "boolean", "not"),
        *("exists", "empty", "true", "false", "upper-case", "lower-case", "substring", "normalize-space"),
        *("current-dateTime", "current-date", "current-time", "data", "format-number", "format-dateTime"),
        *("format-date", "format-time", "format-integer", "local-name", "name", "round", "floor", "ceiling", "abs"),
        *("position", "last", "string-length", "distinct-values", "translate", "replace", "tokenize", "serialize"),
    }
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a constructed element: its name, what it certainly contains, what it may contain."""

    root: ElementName | None
    """None if the name is unknown."""
    surely: frozenset[ElementName]
    """Elements that are always present, the root included."""
    possibly: frozenset[ElementName] | None
    """All elements that can be present; None if any can."""

    def may_hold(self, name: ElementName) -> bool:
        return self.possibly is None or name in self.possibly


UNKNOWN = Shape(None, frozenset(), None)


def infer_shape(expr: ast.Expr, names: Names) -> Shape:
    """Return the shape of the message that an expression constructs. Runs inside `deep_recursion`."""
    builder = _find_constructor(expr, names)
    if builder is None:
        return UNKNOWN
    reader = _Content(names)
    reader.element(builder)
    root = _root_name(builder, names)
    possibly = None if reader.anything else frozenset(reader.possibly | reader.surely)
    return Shape(root, frozenset(reader.surely), possibly)


def is_own_message(expr: ast.Expr, names: Names) -> bool:
    """Return whether the enqueued message is the message being processed, unchanged."""
    expr = resolve_let(expr, names)
    if isinstance(expr, ast.FunctionCall):
        return names.functions.get(expr) == (QS, "message", 0)
    return isinstance(expr, (ast.ContextItem, ast.Root))


def resolve_let(expr: ast.Expr, names: Names) -> ast.Expr:
    """Return the expression that a variable is bound to by `let`; any other expression is returned itself."""
    while isinstance(expr, ast.VarRef):
        binder = names.variables.get(expr)
        if not isinstance(binder, ast.LetBinding):
            return expr
        expr = binder.expr
    return expr


def _find_constructor(expr: ast.Expr, names: Names) -> ast.DirectElement | ast.Computed | None:
    expr = resolve_let(expr, names)
    while isinstance(expr, ast.Computed) and expr.kind == "document" and expr.content is not None:
        expr = resolve_let(expr.content, names)
    if isinstance(expr, ast.DirectElement) or (isinstance(expr, ast.Computed) and expr.kind == "element"):
        return expr
    return None


def _root_name(node: ast.DirectElement | ast.Computed, names: Names) -> ElementName | None:
    uri, local = names.elements.get(node, (None, ""))
    return None if uri is None else (uri, local)


class _Content:
    """Collects element names inside a constructor."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.surely: set[ElementName] = set()
        self.possibly: set[ElementName] = set()
        self.anything = False
        self._followed: set[ast.Node] = set()

    def element(self, node: ast.DirectElement | ast.Computed) -> None:
        name = _root_name(node, self.names)
        if name is None:
            self.anything = True
        else:
            self.surely.add(name)
        if isinstance(node, ast.DirectElement):
            for part in node.content:
                if isinstance(part, ast.Enclosed):
                    self._expr(part.content)
                elif isinstance(part, ast.DirectElement):
                    self.element(part)
        else:
            self._expr(node.content)

    def _expr(self, expr: ast.Expr | None) -> None:
        match expr:
            case None | ast.StringLiteral() | ast.NumericLiteral() | ast.StringConstructor() | ast.DirectComment():
                return
            case ast.DirectElement():
                self.element(expr)
            case ast.Computed():
                self._computed(expr)
            case ast.Sequence():
                for item in expr.items:
                    self._expr(item)
            case ast.OperatorChain():
                self.anything |= expr.operators[0] in ("!", "|", "union", "intersect", "except")
            case ast.Unary():
                return
            case ast.TypeOperation():
                self.anything |= expr.operator == "treat as"
            case ast.FunctionCall():
                self._call(expr)
            case ast.Path() if _reads_an_attribute(expr):
                return
            case ast.AxisStep(axis="attribute"):
                return
            case ast.VarRef():
                self._variable(expr)
            case _:
                self.anything = True

    def _computed(self, node: ast.Computed) -> None:
        if node.kind == "element":
            self.element(node)
        elif node.kind == "document":
            self._expr(node.content)

    def _call(self, node: ast.FunctionCall) -> None:
        uri, local, _ = self.names.functions.get(node, ("", "", 0))
        if not ((uri == FN and local in _ATOMIC_FUNCTIONS) or uri in (XS, MATH)):
            self.anything = True

    def _variable(self, node: ast.VarRef) -> None:
        meant = resolve_let(node, self.names)
        if isinstance(meant, ast.VarRef) or meant in self._followed:
            self.anything = True
            return
        self._followed.add(meant)
        self._expr(meant)


def _reads_an_attribute(path: ast.Path) -> bool:
    last = path.steps[-1]
    return isinstance(last, ast.AxisStep) and last.axis == "attribute"
