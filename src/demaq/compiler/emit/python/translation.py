"""Translate expressions to Python: literals, operators, functions, control flow.

Paths and constructors have their own modules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from demaq.compiler.context import CLOCK
from demaq.compiler.emit.python.choices import ChoiceEmitter
from demaq.compiler.emit.python.code import (
    ERROR,
    NODES,
    NotTranslatable,
    Order,
    PythonCode,
    Type,
    make_list,
    to_condition,
    to_list,
)
from demaq.compiler.emit.python.date_calls import read_clock
from demaq.compiler.emit.python.declared_functions import DeclaredFunctions
from demaq.compiler.emit.python.elements import ElementEmitter, concatenate, fit
from demaq.compiler.emit.python.flwor import FlworEmitter
from demaq.compiler.emit.python.focus import MESSAGE, FocusAndVariables
from demaq.compiler.emit.python.function_calls import FUNCTIONS
from demaq.compiler.emit.python.node_functions import (
    NAMES,
    NODE_COMPARISONS,
    SETS,
    combine_nodes,
    compare_nodes,
    deep_equal,
    find_root,
)
from demaq.compiler.emit.python.operators import GENERAL, SINGLE, compare, compute, negate
from demaq.compiler.emit.python.paths import Paths, root_of, set_apart
from demaq.compiler.emit.python.sequence_calls import make_range
from demaq.compiler.emit.python.sequence_types import SequenceTypes
from demaq.compiler.emit.python.string_calls import call_string, concat
from demaq.compiler.emit.python.type_operations import atomic_name, cast_value, castable
from demaq.compiler.plan import CollectionRead, QueueByKey, Read, SliceRead, WholeQueue
from demaq.language import ast
from demaq.language.namespaces import FN, QS
from demaq.language.resolving.names import FunctionKey, Names

RUN = "run"
"""The variable of the running round: it has the properties and the state, and receives the actions."""

_PASSING_ON = (ast.If, ast.Switch, ast.Typeswitch, ast.Flwor, ast.Sequence, ast.DirectElement, ast.Computed)
"""Expressions whose value is that of some of their parts."""
_LITERAL_DIGITS_MAX = 40
_NOT_ZERO = re.compile(r"[0.]*[1-9]")


class Translation:
    """Translates the expressions of one rule, property or index. Raises NotTranslatable.

    `own` translates calls that read a property of the message, `act` translates enqueue and reset.
    """

    def __init__(
        self,
        names: Names,
        reads: Mapping[ast.Node, Read],
        own: Callable[[ast.FunctionCall, FocusAndVariables], PythonCode] | None = None,
        act: Callable[[ast.Expr, FocusAndVariables], PythonCode] | None = None,
        libraries: Sequence[ast.Query] = (),
    ) -> None:
        self._names = names
        self._reads = reads
        self._own = own
        self._act = act
        self._paths = Paths(names, self.code)
        self._constructors = ElementEmitter(names, self.code)
        self._choices = ChoiceEmitter(names, lambda expr, scope: fit(self.code(expr, scope), scope))
        self._loops = FlworEmitter(names, self.code)
        self._types = SequenceTypes(names)
        self._declared = DeclaredFunctions(names, libraries, self.code)

    def code(self, node: ast.Expr, scope: FocusAndVariables) -> PythonCode:
        if type(node) not in _PASSING_ON:
            scope = scope.stand_alone()
        handler = self._HANDLERS.get(type(node))
        if handler is None:
            raise NotTranslatable(_describe(node), node=node)
        try:
            return handler(self, node, scope)
        except NotTranslatable as reason:
            reason.add_node(node)
            raise

    def value(self, node: ast.Expr, scope: FocusAndVariables) -> PythonCode:
        """Return the code of an expression. Raises NotTranslatable for an action."""
        found = self.code(node, scope)
        if found.type is Type.DONE:
            raise NotTranslatable("the value of an action")
        return found

    # primaries

    def _number(self, node: ast.NumericLiteral, scope: FocusAndVariables) -> PythonCode:
        if len(node.text) > _LITERAL_DIGITS_MAX:
            raise NotTranslatable("a long number")
        if node.text.isdigit():
            return PythonCode(str(int(node.text)), Type.INTEGER)
        if "e" not in node.text.lower():
            return PythonCode(f"Decimal({node.text!r})", Type.DECIMAL)
        value = float(node.text)
        if not math.isfinite(value) or (value == 0 and _NOT_ZERO.match(node.text)):
            raise NotTranslatable("a number that no double is near to")
        return PythonCode(repr(value), Type.DOUBLE)

    def _variable(self, node: ast.VarRef, scope: FocusAndVariables) -> PythonCode:
        binder = self._names.variables.get(node)
        known = scope.variables.get(binder) if binder is not None else None
        if known is None and isinstance(binder, ast.VarDecl):
            return self._declared.variable(binder)
        if known is None:
            raise NotTranslatable("a variable that is bound elsewhere")
        return known

    def _action(self, node: ast.Expr, scope: FocusAndVariables) -> PythonCode:
        if self._act is None:
            raise NotTranslatable("an action")
        return self._act(node, scope)

    def _sequence(self, node: ast.Sequence, scope: FocusAndVariables) -> PythonCode:
        return concatenate([fit(self.code(item, scope), scope) for item in node.items])

    def _postfix(self, node: ast.Postfix, scope: FocusAndVariables) -> PythonCode:
        read = self._reads.get(node.base)
        if isinstance(read, QueueByKey) and read.is_counted:  # its predicate is the key
            return make_list(f"{RUN}.counted({read.number})", Type.DOCUMENT, Order.FLAT)
        found = to_list(self.value(node.base, scope))
        for suffix in node.suffixes:
            if not isinstance(suffix, ast.Predicate):
                raise NotTranslatable("a call of a function item, or a look-up")
            found = self._paths.filter(found, suffix, scope)
        return found

    # operators

    def _operation(self, node: ast.OperatorChain, scope: FocusAndVariables) -> PythonCode:
        operator = node.operators[0]
        if operator in ("and", "or"):
            joined = f" {operator} ".join([to_condition(self.code(operand, scope)) for operand in node.operands])
            return PythonCode(f"bool({joined})", Type.BOOLEAN)
        if operator in GENERAL or operator in SINGLE:
            left, right = [self.code(operand, scope) for operand in node.operands]
            return compare(operator, left, right)
        if operator == "!":
            found = self.code(node.operands[0], scope)
            for operand in node.operands[1:]:
                if isinstance(operand, ast.Path) and not all([isinstance(s, ast.AxisStep) for s in operand.steps]):
                    # Saxon treats A ! (B, C)/D as A/(B, C)/D, without duplicates.
                    raise NotTranslatable("a path with such steps after `!`")
                if isinstance(operand, ast.Path) and found.type is Type.ELEMENT and found.is_sorted:
                    # Saxon may treat A ! B/C as A/B/C, which is the same if no A is inside another.
                    found = set_apart(found)
                found = self._paths.map_each(found, operand, scope)
            return found
        codes = [self.code(operand, scope) for operand in node.operands]
        if operator == "||":
            return concat(codes)
        if operator in SETS:
            return combine_nodes(node.operators, codes)
        if operator in NODE_COMPARISONS:
            return compare_nodes(operator, *codes)
        if operator == "to":
            return make_range(*codes)
        found = codes[0]
        for sign, code in zip(node.operators, codes[1:], strict=True):
            found = compute(sign, found, code)
        return found

    def _unary(self, node: ast.Unary, scope: FocusAndVariables) -> PythonCode:
        return negate(node.signs, self.value(node.operand, scope))

    def _type_operation(self, node: ast.TypeOperation, scope: FocusAndVariables) -> PythonCode:
        operand = self.value(node.operand, scope)
        if isinstance(node.type, ast.SingleType):
            name = atomic_name(self._names.types, node.type.name)
            if node.operator == "castable as":
                return castable(operand, name, node.type.optional)
            found = cast_value(operand, name)
            return found if node.type.optional or not found.is_list else PythonCode(f"only({found.text})", found.type)
        if node.operator == "instance of":
            return PythonCode(f"bool({self._types.test(operand, node.type)})", Type.BOOLEAN)
        return self._types.expect(operand, node.type)

    # functions

    def _call(self, node: ast.FunctionCall, scope: FocusAndVariables) -> PythonCode:
        known = self._names.functions.get(node)
        if known is None:
            raise NotTranslatable("a call of something unknown")
        uri, local, _ = known
        if uri == QS or (uri, local) == (FN, "collection"):
            return self._state(node, local, scope)
        if uri == FN and local in ("position", "last"):
            found = scope.position if local == "position" else scope.last
            if found is None:
                raise NotTranslatable(f"{local}() outside of a predicate")
            return found
        if (uri, local) == (FN, "error"):
            return ERROR
        if (uri, local) in CLOCK:
            if self._own is None:
                raise NotTranslatable("the time at which a message is created")
            return read_clock(local, f"{RUN}.now")
        return self._call_function(known, [self.value(arg, scope) for arg in node.args], scope)

    def _call_function(self, known: FunctionKey, args: list[PythonCode], scope: FocusAndVariables) -> PythonCode:
        uri, local, arity = known
        if known in self._names.declared:
            return self._declared.call(known, args)
        if (uri, local) == (FN, "root") and arity <= 1:
            return find_root(args[0] if args else scope.item())
        if (uri, local) in NAMES and arity <= 1:
            return NAMES[uri, local](args[0] if args else scope.item())
        if uri == FN and not args and local in ("string", "string-length", "normalize-space"):
            args = [call_string([scope.item()])]
        elif uri == FN and not args and local in ("data", "number"):
            args = [scope.item()]
        if known == (FN, "deep-equal", 2) and any([arg.type in NODES for arg in args]):
            return deep_equal(*args)
        handler = FUNCTIONS.get((uri, local, len(args)))
        if handler is None:
            raise NotTranslatable(f"the function {local}")
        return handler(args)

    def _arrow(self, node: ast.Arrow, scope: FocusAndVariables) -> PythonCode:
        found = self.value(node.operand, scope)
        for call in node.calls:
            known = self._names.functions.get(call)
            if known is None or known[0] == QS:
                raise NotTranslatable("a call of a function item, or one that reads state", node=node)
            found = self._call_function(known, [found, *[self.value(arg, scope) for arg in call.args]], scope)
        return found

    def _state(self, node: ast.FunctionCall, local: str, scope: FocusAndVariables) -> PythonCode:
        if local == "message":
            return PythonCode(MESSAGE, Type.DOCUMENT, is_own=True)
        if local in ("slicekey", "property"):
            if self._own is None:
                raise NotTranslatable(f"qs:{local}")
            return self._own(node, scope)
        match self._reads.get(node):
            case SliceRead():
                source = f"{RUN}.slice()"
            case QueueByKey() as read:
                source = f"{RUN}.found({read.number})"
            case WholeQueue() as read:
                source = f"{RUN}.queue({read.queue!r})"
            case CollectionRead(collection=str() as name):
                source = f"{RUN}.collection({name!r})"
            case _:
                raise NotTranslatable("a queue or collection whose name is computed", "native.read")
        return make_list(source, Type.DOCUMENT, Order.FLAT)  # state is ordered by message number

    _HANDLERS: ClassVar[Mapping[type[ast.Node], Callable[[Translation, Any, FocusAndVariables], PythonCode]]] = {
        ast.StringLiteral: lambda self, node, scope: PythonCode(repr(node.value), Type.STRING),
        ast.NumericLiteral: _number,
        ast.VarRef: _variable,
        ast.ContextItem: lambda self, node, scope: scope.item(),
        ast.Root: lambda self, node, scope: root_of(scope),
        ast.Path: lambda self, node, scope: self._paths.path(node, scope),
        ast.AxisStep: lambda self, node, scope: self._paths.own_step(node, scope),
        ast.DirectElement: lambda self, node, scope: self._constructors.element(node, scope),
        ast.Computed: lambda self, node, scope: self._constructors.computed(node, scope),
        ast.Enqueue: _action,
        ast.Reset: _action,
        ast.Sequence: _sequence,
        ast.Postfix: _postfix,
        ast.If: lambda self, node, scope: self._choices.code(node, scope),
        ast.Switch: lambda self, node, scope: self._choices.code(node, scope),
        ast.Typeswitch: lambda self, node, scope: self._choices.code(node, scope),
        ast.Flwor: lambda self, node, scope: self._loops.flwor(node, scope),
        ast.Quantified: lambda self, node, scope: self._loops.quantified(node, scope),
        ast.OperatorChain: _operation,
        ast.Unary: _unary,
        ast.TypeOperation: _type_operation,
        ast.FunctionCall: _call,
        ast.Arrow: _arrow,
    }


def _describe(node: ast.Node) -> str:
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(node).__name__).lower()
    return f"an expression of the kind “{words}”"
