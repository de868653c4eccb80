"""Translate expressions to Python: literals, operators, functions, control flow.

Paths and constructors have their own modules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from demaq.compiler.emit.python.code import (
    EMPTY,
    NO_VALUES,
    NotTranslatable,
    Order,
    PythonCode,
    Type,
    choose,
    make_list,
    make_loop,
    new_name,
    sort_nodes,
    to_condition,
    to_list,
)
from demaq.compiler.emit.python.dependence import require_dependence_on, uses
from demaq.compiler.emit.python.elements import ElementEmitter, concatenate
from demaq.compiler.emit.python.focus import FocusAndVariables
from demaq.compiler.emit.python.function_calls import FUNCTIONS, call_string, concat
from demaq.compiler.emit.python.operators import GENERAL, SINGLE, compare, compute
from demaq.compiler.emit.python.paths import Paths, nest_in_loop, root_of
from demaq.compiler.plan import CollectionRead, QueueByKey, Read, SliceRead, WholeQueue
from demaq.language import ast
from demaq.language.namespaces import FN, QS
from demaq.language.resolving.names import Names

MESSAGE = "m"
"""The variable of the message's root element."""
RUN = "run"
"""The variable of the running round: it has the properties and the state, and receives the actions."""

_INTEGER = re.compile(r"\d{1,15}")
_NOT_ZERO = re.compile(r"[0.]*[1-9]")


class Translation:
    """Translates the expressions of one rule, property or index. Raises NotTranslatable.

    `own` translates calls that read a property of the message, `act` translates enqueue and reset.
    """

    def __init__(
        self,
        names: Names,
        reads: Mapping[ast.Node, Read],
        own: Callable[[ast.FunctionCall], PythonCode] | None = None,
        act: Callable[[ast.Expr, FocusAndVariables], PythonCode] | None = None,
    ) -> None:
        self._names = names
        self._reads = reads
        self._own = own
        self._act = act
        self._paths = Paths(names, self.code)
        self._constructors = ElementEmitter(names, self.code)

    @property
    def makes_namespaces(self) -> bool:
        """Return whether anything translated so far constructs elements or attributes with namespaces."""
        return self._constructors.makes_namespaces

    def code(self, node: ast.Expr, scope: FocusAndVariables) -> PythonCode:
        handler = self._HANDLERS.get(type(node))
        if handler is None:
            raise NotTranslatable(_describe(node))
        return handler(self, node, scope)

    def value(self, node: ast.Expr, scope: FocusAndVariables) -> PythonCode:
        """Return the code of an expression. Raises NotTranslatable for an action."""
        found = self.code(node, scope)
        if found.type is Type.DONE:
            raise NotTranslatable("the value of an action")
        return found

    # primaries

    def _number(self, node: ast.NumericLiteral, scope: FocusAndVariables) -> PythonCode:
        if _INTEGER.fullmatch(node.text):
            return PythonCode(str(int(node.text)), Type.INTEGER)
        value = float(node.text)
        if not math.isfinite(value) or (value == 0 and _NOT_ZERO.match(node.text)):
            raise NotTranslatable("a number that no double is near to")
        return PythonCode(repr(value), Type.DOUBLE if "e" in node.text.lower() else Type.DECIMAL)

    def _variable(self, node: ast.VarRef, scope: FocusAndVariables) -> PythonCode:
        binder = self._names.variables.get(node)
        known = scope.variables.get(binder) if binder is not None else None
        if known is None:
            raise NotTranslatable("a variable that is bound elsewhere")
        return known

    def _action(self, node: ast.Expr, scope: FocusAndVariables) -> PythonCode:
        if self._act is None:
            raise NotTranslatable("an action")
        return self._act(node, scope)

    def _sequence(self, node: ast.Sequence, scope: FocusAndVariables) -> PythonCode:
        return concatenate([self.code(item, scope) for item in node.items])

    def _postfix(self, node: ast.Postfix, scope: FocusAndVariables) -> PythonCode:
        found = to_list(self.value(node.base, scope))
        for suffix in node.suffixes:
            if not isinstance(suffix, ast.Predicate):
                raise NotTranslatable("a call of a function item, or a look-up")
            found = self._paths.filter(found, suffix, scope)
        return found

    # control

    def _if(self, node: ast.If, scope: FocusAndVariables) -> PythonCode:
        condition = to_condition(self.code(node.condition, scope))
        then = self.code(node.then, scope)
        otherwise = EMPTY if node.otherwise is None else self.code(node.otherwise, scope)
        if Type.DONE in (then.type, otherwise.type):
            if {then.type, otherwise.type} <= {Type.DONE, Type.EMPTY}:
                return PythonCode(f"({then.text} if {condition} else {otherwise.text})", Type.DONE)
            raise NotTranslatable("a choice between an action and a value")
        return choose(condition, then, otherwise)

    def _flwor(self, node: ast.Flwor, scope: FocusAndVariables) -> PythonCode:
        loop = PythonCode("", Type.EMPTY, is_list=True, is_single=True)
        is_single = True
        innermost: set[ast.Node] = set()
        """The variable of the innermost loop, and those that depend on it."""
        for clause in node.clauses:
            match clause:
                case ast.LetClause():
                    for let in clause.bindings:
                        if let.type is not None:
                            raise NotTranslatable("a variable with a type")
                        bound = self.value(let.expr, scope)
                        name = new_name()
                        loop = _add_clause(loop, f"for {name} in ({bound.text},)")
                        known = replace(bound, item=name, clauses="", is_iterator=False, is_new=False)
                        scope = scope.bind(let, known)
                        if uses(let.expr, innermost, self._names):
                            innermost.add(let)
                case ast.ForClause():
                    is_single = False
                    for each in clause.bindings:
                        loop, scope = self._for(each, scope, loop)
                        innermost = {each}
                case ast.WhereClause():
                    is_single = False
                    if innermost:
                        require_dependence_on(clause.condition, innermost, self._names)
                    loop = _add_clause(loop, f"if {to_condition(self.code(clause.condition, scope))}")
                case _:
                    raise NotTranslatable("a clause that groups, orders, counts or makes windows")
        result = self.code(node.result, scope)
        if result.type is Type.DONE:
            return PythonCode(f"[{result.item} {loop.clauses}]", Type.DONE)
        if result.type is Type.EMPTY:
            raise NotTranslatable("a loop that has no value")
        if is_single:
            return replace(result, item=f"[{result.text} {loop.clauses}][0]", clauses="", is_iterator=False)
        return nest_in_loop(loop, result)

    def _for(
        self, binding: ast.ForBinding, scope: FocusAndVariables, loop: PythonCode
    ) -> tuple[PythonCode, FocusAndVariables]:
        if binding.type is not None or binding.allowing_empty or binding.position is not None:
            raise NotTranslatable("a variable with a type or a position")
        found = self.code(binding.expr, scope)
        each = _loop_over(found)
        one = PythonCode(each.item, found.type, name=found.name)
        return replace(_add_clause(loop, each.clauses), is_single=False), scope.bind(binding, one)

    def _quantified(self, node: ast.Quantified, scope: FocusAndVariables) -> PythonCode:
        clauses: list[str] = []
        for binding in node.bindings:
            if binding.type is not None:
                raise NotTranslatable("a variable with a type")
            each = _loop_over(self.code(binding.expr, scope))
            clauses.append(each.clauses)
            scope = scope.bind(binding, PythonCode(each.item, each.type, name=each.name))
        require_dependence_on(node.condition, node.bindings[-1:], self._names)
        how = "any" if node.kind == "some" else "all"
        condition = to_condition(self.code(node.condition, scope))
        return PythonCode(f"{how}([{condition} {' '.join(clauses)}])", Type.BOOLEAN)

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
                found = self._paths.map_each(found, operand, scope)
            return found
        codes = [self.code(operand, scope) for operand in node.operands]
        if operator == "||":
            return concat(codes)
        if operator in ("|", "union"):
            return self._union(codes)
        found = codes[0]
        for sign, code in zip(node.operators, codes[1:], strict=True):
            found = compute(sign, found, code)
        return found

    def _union(self, codes: list[PythonCode]) -> PythonCode:
        if any([code.type is not Type.ELEMENT for code in codes]):
            raise NotTranslatable("a union of such nodes")
        return sort_nodes(make_list(f"({' + '.join([code.list_text for code in codes])})", Type.ELEMENT))

    # functions

    def _call(self, node: ast.FunctionCall, scope: FocusAndVariables) -> PythonCode:
        known = self._names.functions.get(node)
        if known is None:
            raise NotTranslatable("a call of something unknown")
        uri, local, arity = known
        if uri == QS or (uri, local) == (FN, "collection"):
            return self._state(node, local, arity)
        if uri == FN and local in ("position", "last"):
            found = scope.position if local == "position" else scope.last
            if found is None:
                raise NotTranslatable(f"{local}() outside of a predicate")
            return found
        args = [self.value(arg, scope) for arg in node.args]
        if uri == FN and not args and local in ("string", "string-length", "normalize-space"):
            args = [call_string([scope.item()])]
        elif uri == FN and not args and local == "data":
            args = [scope.item()]
        handler = FUNCTIONS.get((uri, local, len(args)))
        if handler is None:
            raise NotTranslatable(f"the function {local}")
        return handler(args)

    def _state(self, node: ast.FunctionCall, local: str, arity: int) -> PythonCode:
        if local == "message":
            return PythonCode(MESSAGE, Type.DOCUMENT)
        if local in ("slicekey", "property"):
            if self._own is None:
                raise NotTranslatable(f"qs:{local}")
            return self._own(node)
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
                raise NotTranslatable("a queue or collection whose name is computed")
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
        ast.Enqueue: _action,
        ast.Reset: _action,
        ast.Sequence: _sequence,
        ast.Postfix: _postfix,
        ast.If: _if,
        ast.Flwor: _flwor,
        ast.Quantified: _quantified,
        ast.OperatorChain: _operation,
        ast.FunctionCall: _call,
    }


def _loop_over(found: PythonCode) -> PythonCode:
    """Return the loop over the items that a variable is bound to."""
    if found.type in NO_VALUES:
        raise NotTranslatable("a loop over nothing")
    return make_loop(found)


def _add_clause(loop: PythonCode, clause: str) -> PythonCode:
    return replace(loop, clauses=f"{loop.clauses} {clause}".lstrip())


def _describe(node: ast.Node) -> str:
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(node).__name__).lower()
    return f"an expression of the kind “{words}”"
