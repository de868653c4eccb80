"""Expressions to Python: names, operators, functions, control. Paths and constructors have homes of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from demaq.compiler.plan import CollectionRead, QueueByKey, Read, SliceRead, WholeQueue
from demaq.compiler.simple.code import (
    EMPTY,
    NODES,
    NUMBERS,
    STRINGS,
    Code,
    NotSimple,
    Type,
    as_list,
    at_most_one,
    either,
    is_there,
    listed,
    looped,
    mapped,
    new_name,
    numbers,
    text,
    texts,
    truth,
    values,
)
from demaq.compiler.simple.constructors import Constructors, sequence
from demaq.compiler.simple.paths import Paths, root_of, within
from demaq.compiler.simple.scope import Scope
from demaq.language import ast
from demaq.language.names import Names
from demaq.language.namespaces import FN, QS, XS

MESSAGE = "m"
"""The root element of the message."""
RUN = "run"
"""Who knows its properties, has the state, and takes the actions."""

_GENERAL = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SINGLE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_INTEGER = re.compile(r"\d{1,15}")


class Translation:
    """Translates the expressions of one rule, property or index. Raises NotSimple.

    `own` says of which property of the message a call asks; `act` translates enqueue and reset.
    """

    def __init__(
        self,
        names: Names,
        reads: Mapping[ast.Node, Read],
        own: Callable[[ast.FunctionCall], Code] | None = None,
        act: Callable[[ast.Expr, Scope], Code] | None = None,
    ) -> None:
        self._names = names
        self._reads = reads
        self._own = own
        self._act = act
        self._paths = Paths(names, self.code)
        self._constructors = Constructors(names, self.code)

    @property
    def makes_namespaces(self) -> bool:
        """Whether anything that was translated makes elements or attributes with namespaces."""
        return self._constructors.makes_namespaces

    def code(self, node: ast.Expr, scope: Scope) -> Code:
        handler = self._HANDLERS.get(type(node))
        if handler is None:
            raise NotSimple(_described(node))
        return handler(self, node, scope)

    # what stands alone

    def _string(self, node: ast.StringLiteral, scope: Scope) -> Code:
        return Code(repr(node.value), Type.STRING)

    def _number(self, node: ast.NumericLiteral, scope: Scope) -> Code:
        if _INTEGER.fullmatch(node.text):
            return Code(str(int(node.text)), Type.INTEGER)
        if "e" in node.text.lower():
            return Code(repr(float(node.text)), Type.DOUBLE)
        return Code(repr(float(node.text)), Type.DECIMAL)

    def _variable(self, node: ast.VarRef, scope: Scope) -> Code:
        binder = self._names.variables.get(node)
        known = scope.variables.get(binder) if binder is not None else None
        if known is None:
            raise NotSimple("a variable that is bound elsewhere")
        return known

    def _context(self, node: ast.ContextItem, scope: Scope) -> Code:
        return scope.item()

    def _root(self, node: ast.Root, scope: Scope) -> Code:
        return root_of(scope)

    def _path(self, node: ast.Path, scope: Scope) -> Code:
        return self._paths.path(node, scope)

    def _step(self, node: ast.AxisStep, scope: Scope) -> Code:
        return self._paths.own_step(node, scope)

    def _element(self, node: ast.DirectElement, scope: Scope) -> Code:
        return self._constructors.element(node, scope)

    def _action(self, node: ast.Expr, scope: Scope) -> Code:
        if self._act is None:
            raise NotSimple("an action")
        return self._act(node, scope)

    def _sequence(self, node: ast.Sequence, scope: Scope) -> Code:
        return sequence([self.code(item, scope) for item in node.items])

    def _postfix(self, node: ast.Postfix, scope: Scope) -> Code:
        found = as_list(self.code(node.base, scope))
        for suffix in node.suffixes:
            if not isinstance(suffix, ast.Predicate):
                raise NotSimple("a call of a function item, or a look-up")
            found = self._paths.filtered(found, suffix, scope)
        return found

    # control

    def _if(self, node: ast.If, scope: Scope) -> Code:
        condition = truth(self.code(node.condition, scope))
        then = self.code(node.then, scope)
        otherwise = EMPTY if node.otherwise is None else self.code(node.otherwise, scope)
        if Type.DONE in (then.type, otherwise.type):
            if {then.type, otherwise.type} <= {Type.DONE, Type.EMPTY}:
                return Code(f"({then.text} if {condition} else {otherwise.text})", Type.DONE)
            raise NotSimple("a choice between an action and a value")
        then, otherwise = either(then, otherwise)
        return Code(
            f"({then.text} if {condition} else {otherwise.text})",
            then.type,
            is_list=then.is_list,
            is_flat=then.is_flat and otherwise.is_flat,
            is_new=then.is_new and otherwise.is_new,
        )

    def _flwor(self, node: ast.Flwor, scope: Scope) -> Code:
        loop = Code("", Type.EMPTY, is_list=True, is_single=True)
        is_single = True
        for clause in node.clauses:
            match clause:
                case ast.LetClause():
                    for let in clause.bindings:
                        if let.type is not None:
                            raise NotSimple("a variable with a type")
                        bound = self.code(let.expr, scope)
                        name = new_name()
                        loop = _going_on(loop, f"for {name} in ({bound.text},)")
                        known = replace(bound, item=name, clauses="", is_iterator=False, is_new=False)
                        scope = scope.binding(let, known)
                case ast.ForClause():
                    is_single = False
                    for each in clause.bindings:
                        loop, scope = self._for(each, scope, loop)
                case ast.WhereClause():
                    is_single = False
                    loop = _going_on(loop, f"if {truth(self.code(clause.condition, scope))}")
                case _:
                    raise NotSimple("a clause that groups, orders, counts or makes windows")
        result = self.code(node.result, scope)
        if result.type is Type.DONE:
            return Code(f"[{result.item} {loop.clauses}]", Type.DONE)
        if is_single:
            return replace(result, item=f"[{result.text} {loop.clauses}][0]", clauses="", is_iterator=False)
        return within(loop, result)

    def _for(self, binding: ast.ForBinding, scope: Scope, loop: Code) -> tuple[Code, Scope]:
        if binding.type is not None or binding.allowing_empty or binding.position is not None:
            raise NotSimple("a variable with a type or a position")
        found = self.code(binding.expr, scope)
        if found.type in (Type.EMPTY, Type.DONE):
            raise NotSimple("a loop over nothing")
        each = looped(found)
        one = Code(each.item, found.type, name=found.name)
        return replace(_going_on(loop, each.clauses), is_single=False), scope.binding(binding, one)

    def _quantified(self, node: ast.Quantified, scope: Scope) -> Code:
        clauses: list[str] = []
        for binding in node.bindings:
            if binding.type is not None:
                raise NotSimple("a variable with a type")
            each = looped(self.code(binding.expr, scope))
            clauses.append(each.clauses)
            scope = scope.binding(binding, Code(each.item, each.type, name=each.name))
        how = "any" if node.kind == "some" else "all"
        condition = truth(self.code(node.condition, scope))
        return Code(f"{how}([{condition} {' '.join(clauses)}])", Type.BOOLEAN)

    # operators

    def _operation(self, node: ast.Operation, scope: Scope) -> Code:
        operator = node.operators[0]
        if operator in ("and", "or"):
            joined = f" {operator} ".join([truth(self.code(operand, scope)) for operand in node.operands])
            return Code(f"bool({joined})", Type.BOOLEAN)
        if operator in _GENERAL or operator in _SINGLE:
            left, right = [self.code(operand, scope) for operand in node.operands]
            return self._compared(operator, left, right)
        if operator == "!":
            found = self.code(node.operands[0], scope)
            for operand in node.operands[1:]:
                found = self._paths.mapped(found, operand, scope)
            return found
        codes = [self.code(operand, scope) for operand in node.operands]
        if operator == "||":
            return _concat(codes)
        if operator in ("|", "union"):
            return self._union(codes)
        found = codes[0]
        for sign, code in zip(node.operators, codes[1:], strict=True):
            found = self._computed(sign, found, code)
        return found

    def _union(self, codes: list[Code]) -> Code:
        if any([code.type is not Type.ELEMENT for code in codes]):
            raise NotSimple("a union of such nodes")
        return listed(f"ordered({' + '.join([code.listed for code in codes])})", Type.ELEMENT, is_flat=False)

    def _compared(self, operator: str, left: Code, right: Code) -> Code:
        one, other = values(left), values(right)
        if Type.EMPTY in (one.type, other.type):
            raise NotSimple("a comparison with nothing")
        if operator in _SINGLE:
            return self._compared_single(_SINGLE[operator], left, right)
        sign = _GENERAL[operator]
        if one.type in STRINGS and other.type in STRINGS:
            if operator == "=":
                if not right.is_list and right.type in STRINGS:
                    return Code(f"({right.item} in {one.text})", Type.BOOLEAN)
                if not left.is_list and left.type in STRINGS:
                    return Code(f"({left.item} in {other.text})", Type.BOOLEAN)
                return Code(f"any_equal({one.text}, {other.text})", Type.BOOLEAN)
            if operator == "!=":
                return Code(f"any_unequal({one.text}, {other.text})", Type.BOOLEAN)
            raise NotSimple("an order of strings")
        if one.type in NUMBERS or other.type in NUMBERS or Type.DECIMAL in (one.type, other.type):
            one, other = numbers(left, right), numbers(right, left)
            if not left.is_list and not right.is_list and left.type in NUMBERS and right.type in NUMBERS:
                return Code(f"({left.item} {sign} {right.item})", Type.BOOLEAN)
            name = new_name()
            loop, inner = looped(one), looped(listed(name, other.type))
            pairs = f"for {name} in ({other.text},) {loop.clauses} {inner.clauses}"
            return Code(f"any([{loop.item} {sign} {inner.item} {pairs}])", Type.BOOLEAN)
        raise NotSimple(f"a comparison of {one.type.value} and {other.type.value}")

    def _compared_single(self, sign: str, left: Code, right: Code) -> Code:
        """`eq` and its kin, where both sides are there for sure: else there is no answer."""
        if left.is_list or right.is_list or left.type in NODES or right.type in NODES:
            raise NotSimple("a comparison of single values that may not be there")
        if left.type in NUMBERS and right.type in NUMBERS:
            return Code(f"({left.text} {sign} {right.text})", Type.BOOLEAN)
        if left.type in STRINGS and right.type in STRINGS and sign in ("==", "!="):
            return Code(f"({left.text} {sign} {right.text})", Type.BOOLEAN)
        raise NotSimple(f"a comparison of {left.type.value} and {right.type.value}")

    def _computed(self, sign: str, left: Code, right: Code) -> Code:
        if sign not in ("+", "-", "*"):
            raise NotSimple(f"the operator {sign}")
        if not left.is_list and not right.is_list and left.type is right.type is Type.INTEGER:
            return Code(f"({left.text} {sign} {right.text})", Type.INTEGER)
        one, other = at_most_one(numbers(left, right)), at_most_one(numbers(right, left))
        kind = Type.INTEGER if one.type is other.type is Type.INTEGER else Type.DOUBLE
        outer, inner = looped(one), looped(other)
        both = f"{outer.clauses} {inner.clauses}"
        return Code(f"({outer.item} {sign} {inner.item})", kind, is_list=True, clauses=both, is_single=True)

    # functions

    def _call(self, node: ast.FunctionCall, scope: Scope) -> Code:
        known = self._names.functions.get(node)
        if known is None:
            raise NotSimple("a call of something unknown")
        uri, local, arity = known
        if uri == QS or (uri, local) == (FN, "collection"):
            return self._state(node, local, arity)
        if uri == FN and local in ("position", "last"):
            found = scope.position if local == "position" else scope.last
            if found is None:
                raise NotSimple(f"{local}() outside of a predicate")
            return found
        args = [self.code(arg, scope) for arg in node.args]
        if uri == FN and not args and local in ("string", "data", "number", "string-length", "normalize-space"):
            args = [scope.item()]
        handler = self._FUNCTIONS.get((uri, local, len(args)))
        if handler is None:
            raise NotSimple(f"the function {local}")
        return handler(args)

    def _state(self, node: ast.FunctionCall, local: str, arity: int) -> Code:
        if local == "message":
            return Code(MESSAGE, Type.DOCUMENT)
        if local in ("slicekey", "property"):
            if self._own is None:
                raise NotSimple(f"qs:{local}")
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
                raise NotSimple("a queue or collection whose name is computed")
        return listed(source, Type.DOCUMENT)

    _HANDLERS: ClassVar[Mapping[type[ast.Node], Callable[[Translation, Any, Scope], Code]]] = {
        ast.StringLiteral: _string,
        ast.NumericLiteral: _number,
        ast.VarRef: _variable,
        ast.ContextItem: _context,
        ast.Root: _root,
        ast.Path: _path,
        ast.AxisStep: _step,
        ast.DirectElement: _element,
        ast.Enqueue: _action,
        ast.Reset: _action,
        ast.Sequence: _sequence,
        ast.Postfix: _postfix,
        ast.If: _if,
        ast.Flwor: _flwor,
        ast.Quantified: _quantified,
        ast.Operation: _operation,
        ast.FunctionCall: _call,
    }
    _FUNCTIONS: ClassVar[Mapping[tuple[str, str, int], Callable[[list[Code]], Code]]]


def _going_on(loop: Code, clause: str) -> Code:
    return replace(loop, clauses=f"{loop.clauses} {clause}".lstrip())


def _described(node: ast.Node) -> str:
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(node).__name__).lower()
    return f"an expression of the kind “{words}”"


def _count(args: list[Code]) -> Code:
    [found] = args
    if found.type is Type.EMPTY:
        return Code("0", Type.INTEGER)
    return Code(f"len({found.listed})", Type.INTEGER)


def _exists(args: list[Code]) -> Code:
    return Code(f"bool({_any(args[0])})", Type.BOOLEAN)


def _empty(args: list[Code]) -> Code:
    return Code(f"(not {_any(args[0])})", Type.BOOLEAN)


def _any(found: Code) -> str:
    if found.type is Type.EMPTY:
        return "False"
    return is_there(found)


def _sum(args: list[Code]) -> Code:
    found = numbers(args[0])
    if found.type is Type.INTEGER:
        return Code(f"sum({found.text})", Type.INTEGER)
    return Code(f"total({found.text})", Type.DOUBLE)


def _unary_text(function: str, kind: Type) -> Callable[[list[Code]], Code]:
    return lambda args: Code(function.format(text(args[0])), kind)


def _string_of(args: list[Code]) -> Code:
    return Code(text(args[0]), Type.STRING)


def _tested(method: str) -> Callable[[list[Code]], Code]:
    def called(args: list[Code]) -> Code:
        return Code(method.format(text(args[0]), text(args[1])), Type.BOOLEAN)

    return called


def _joined(args: list[Code]) -> Code:
    separator = text(args[1]) if len(args) > 1 else "''"
    return Code(f"({separator}).join({texts(args[0]).text})", Type.STRING)


def _data(args: list[Code]) -> Code:
    return values(args[0])


def _cast(function: str, kind: Type) -> Callable[[list[Code]], Code]:
    def called(args: list[Code]) -> Code:
        found = values(args[0])
        if found.type is kind:
            return at_most_one(found)
        if found.type not in STRINGS:
            raise NotSimple("a cast of such a value")
        return mapped(at_most_one(found), f"{function}({{}})", kind)

    return called


def _extreme(function: str) -> Callable[[list[Code]], Code]:
    def called(args: list[Code]) -> Code:
        found = numbers(args[0])
        name = new_name()
        clauses = f"for {name} in ({found.text},) if {name}"
        return Code(f"{function}({name})", found.type, is_list=True, clauses=clauses, is_single=True)

    return called


def _distinct(args: list[Code]) -> Code:
    found = values(args[0])
    if found.type not in STRINGS:
        raise NotSimple("distinct values that are no strings")
    return listed(f"list(dict.fromkeys({found.each}))", found.type)


def _concat(args: list[Code]) -> Code:
    return Code(f"({' + '.join([text(arg) for arg in args])})", Type.STRING)


Translation._FUNCTIONS = {
    (FN, "true", 0): lambda _: Code("True", Type.BOOLEAN),
    (FN, "false", 0): lambda _: Code("False", Type.BOOLEAN),
    (FN, "not", 1): lambda args: Code(f"(not {truth(args[0])})", Type.BOOLEAN),
    (FN, "boolean", 1): lambda args: Code(f"bool({truth(args[0])})", Type.BOOLEAN),
    (FN, "exists", 1): _exists,
    (FN, "empty", 1): _empty,
    (FN, "count", 1): _count,
    (FN, "sum", 1): _sum,
    (FN, "data", 1): _data,
    (FN, "string", 1): _string_of,
    (XS, "string", 1): lambda args: _string_of(args) if not args[0].is_list else _not_simple("xs:string of nothing"),
    (XS, "double", 1): _cast("double", Type.DOUBLE),
    (XS, "integer", 1): _cast("integer", Type.INTEGER),
    (FN, "max", 1): _extreme("max"),
    (FN, "min", 1): _extreme("min"),
    (FN, "normalize-space", 1): _unary_text("normalized({})", Type.STRING),
    (FN, "string-length", 1): _unary_text("len({})", Type.INTEGER),
    (FN, "contains", 2): _tested("({1} in {0})"),
    (FN, "starts-with", 2): _tested("({0}).startswith({1})"),
    (FN, "ends-with", 2): _tested("({0}).endswith({1})"),
    (FN, "string-join", 1): _joined,
    (FN, "string-join", 2): _joined,
    (FN, "distinct-values", 1): _distinct,
    **{(FN, "concat", arity): _concat for arity in range(2, 21)},
}


def _not_simple(reason: str) -> Code:
    raise NotSimple(reason)
