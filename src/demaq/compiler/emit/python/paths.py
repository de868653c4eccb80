"""Emit paths, their steps and predicates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from demaq.compiler.emit.python.code import (
    EMPTY,
    NO_VALUES,
    NODES,
    NUMBERS,
    NotTranslatable,
    Order,
    PythonCode,
    Type,
    make_list,
    make_loop,
    new_name,
    sort_nodes,
    to_condition,
    to_list,
)
from demaq.compiler.emit.python.dependence import require_dependence_on_focus
from demaq.compiler.emit.python.focus import FocusAndVariables
from demaq.compiler.trees import asks_for_position, is_call_of
from demaq.language import ast
from demaq.language.resolving.names import Names

Translate = Callable[[ast.Expr, FocusAndVariables], PythonCode]


class Paths:
    def __init__(self, names: Names, translate: Translate) -> None:
        self._names = names
        self._translate = translate

    def path(self, node: ast.Path, scope: FocusAndVariables) -> PythonCode:
        separators, steps = node.separators, node.steps
        if separators[0] == "":
            found = self._translate(steps[0], scope)
            separators, steps = separators[1:], steps[1:]
        else:
            found = root_of(scope)
        for number, (separator, step) in enumerate(zip(separators, steps, strict=True)):
            if isinstance(step, ast.AxisStep):
                found = self._step(found, separator, step, scope)
            elif separator == "/" and number == len(steps) - 1:
                found = self._map_last_step(found, step, scope)
            else:
                raise NotTranslatable("a step that is an expression")
        return found

    def own_step(self, node: ast.AxisStep, scope: FocusAndVariables) -> PythonCode:
        """Return the code of a step from the context item."""
        return self._step(scope.item(), "/", node, scope)

    def map_each(self, found: PythonCode, expr: ast.Expr, scope: FocusAndVariables) -> PythonCode:
        """Return an expression evaluated with each item in turn as the context item."""
        if found.type in NO_VALUES:
            raise NotTranslatable("an expression for each item of nothing")
        if not found.is_list and found.item.isidentifier():
            return self._translate(expr, scope.with_focus(found))
        loop = make_loop(found)
        made = self._translate(expr, scope.with_focus(PythonCode(loop.item, found.type, name=found.name)))
        if made.type in NO_VALUES:
            raise NotTranslatable("an expression for each item that has no value")
        return nest_in_loop(loop, made)

    def _map_last_step(self, found: PythonCode, expr: ast.Expr, scope: FocusAndVariables) -> PythonCode:
        """Return the last step of a path if it is an expression.

        Raises NotTranslatable for nodes, which would need sorting.
        """
        _check_nodes(found)
        made = self.map_each(found, expr, scope)
        if made.type is Type.ELEMENT:
            return sort_nodes(made)
        if made.type in NODES:
            raise NotTranslatable("a step that is an expression with nodes as its value")
        return made

    # steps

    def _step(self, found: PythonCode, separator: str, step: ast.AxisStep, scope: FocusAndVariables) -> PythonCode:
        if found.type not in (Type.DOCUMENT, Type.ELEMENT):
            raise NotTranslatable(f"a step from {found.type.value}")
        found = sort_nodes(found)
        by_position = any([self._is_by_position(predicate) for predicate in step.predicates])
        match step.axis, step.test:
            case "child" | "descendant", ast.NameTest() as test:
                tag = _tag(test, self._names.elements)
                if by_position:
                    return self._elements_by_position(found, separator, step, tag, scope)
                made = self._elements(found, separator == "//" or step.axis == "descendant", tag)
            case "child", ast.KindTest(kind="text") if separator == "/":
                made = self._texts(found)
            case "attribute", ast.NameTest() as test:
                made = self._attributes(found, separator, _tag(test, self._names.attributes))
            case "self", ast.KindTest(kind="node") if separator == "/":
                made = found
            case _:
                raise NotTranslatable(f"axis {step.axis} with such a test")
        for predicate in step.predicates:
            if by_position or made.type is not Type.ELEMENT:
                raise NotTranslatable("a predicate on such a step")
            made = self.filter(made, predicate, scope)
        return made

    def _elements(self, found: PythonCode, is_deep: bool, tag: str) -> PythonCode:
        """Return the elements with a name: children, or descendants if `is_deep`."""
        if is_deep:
            return _select_from(found, f".{_descendants(found)}({tag!r})", Order.SORTED)
        if found.type is Type.ELEMENT:
            return _select_from(found, f".iterchildren({tag!r})", Order.FLAT)
        if tag == "*":
            return replace(to_list(found), type=Type.ELEMENT)
        if not found.is_list:
            named = f"root_named({found.item}, {tag!r})"
            if found.item.isidentifier():
                named = f"([{found.item}] if {found.item}.tag == {tag!r} else [])"
            return replace(make_list(named, Type.ELEMENT), is_single=True)
        loop = make_loop(found)
        return replace(loop, type=Type.ELEMENT, clauses=f"{loop.clauses} if {loop.item}.tag == {tag!r}")

    def _attributes(self, found: PythonCode, separator: str, tag: str) -> PythonCode:
        if tag == "*":
            raise NotTranslatable("all attributes")
        if separator == "//":
            found = self._elements(found, True, "*") if found.type is Type.DOCUMENT else _descendants_or_self(found)
        elif found.type is Type.DOCUMENT:
            return replace(_empty_in(found), type=Type.ATTRIBUTE, name=tag)
        if not found.is_list:
            made = make_list(f"attribute({found.item}, {tag!r})", Type.ATTRIBUTE)
            return replace(made, is_single=True, name=tag)
        loop = make_loop(found)
        value = new_name()
        clauses = f"{loop.clauses} for {value} in ({loop.item}.get({tag!r}),) if {value} is not None"
        return replace(loop, item=value, type=Type.ATTRIBUTE, clauses=clauses, order=Order.FLAT, name=tag)

    def _texts(self, found: PythonCode) -> PythonCode:
        if found.type is Type.DOCUMENT:
            return replace(_empty_in(found), type=Type.TEXT)
        if not found.is_list:
            return make_list(f"texts_in({found.item})", Type.TEXT, Order.FLAT)
        if not found.is_flat:
            found = make_list(f"side_by_side({found.text})", Type.ELEMENT, Order.FLAT)
        loop = make_loop(found)
        text = new_name()
        clauses = f"{loop.clauses} for {text} in texts_in({loop.item})"
        return PythonCode(text, Type.TEXT, is_list=True, clauses=clauses, order=Order.FLAT)

    def _elements_by_position(
        self, found: PythonCode, separator: str, step: ast.AxisStep, tag: str, scope: FocusAndVariables
    ) -> PythonCode:
        """Return the elements of a step with positional predicates.

        Positions count what one step selects from one node: after `//`, the children of one parent.
        """
        group = new_name()
        is_deep = step.axis == "descendant"
        if separator == "//":
            if found.is_list or is_deep:
                raise NotTranslatable("positions after // from several nodes")
            groups = f"for {group} in siblings({found.item}.{_descendants(found)}({tag!r}))"
        else:
            loop = make_loop(found)
            one = self._elements(PythonCode(loop.item, found.type), is_deep, tag)
            groups = f"{loop.clauses} for {group} in ({one.text},)"
        made = make_list(group, Type.ELEMENT, Order.SORTED if is_deep else Order.FLAT)
        for predicate in step.predicates:
            made = self.filter(made, predicate, scope)
        if separator == "//":
            return make_list(f"merged([{made.list_text} {groups}])", Type.ELEMENT, Order.SORTED)
        inner = make_loop(made)
        order = (Order.SORTED if is_deep else Order.FLAT) if found.is_flat else Order.UNKNOWN
        return sort_nodes(
            PythonCode(inner.item, Type.ELEMENT, is_list=True, clauses=f"{groups} {inner.clauses}", order=order)
        )

    # predicates

    def filter(self, found: PythonCode, predicate: ast.Predicate, scope: FocusAndVariables) -> PythonCode:
        """Return the items of a list for which a predicate holds."""
        _check_nodes(found)
        condition = predicate.condition
        if isinstance(condition, ast.NumericLiteral) and condition.text.isdigit():
            made = make_list(f"item_at({found.list_text}, {int(condition.text)})", found.type)
            return replace(made, is_single=True)
        if is_call_of(condition, self._names, "last", arity=0):
            return replace(make_list(f"{found.list_text}[-1:]", found.type), is_single=True)
        require_dependence_on_focus(condition, self._names)
        if not asks_for_position(condition, self._names):
            loop = make_loop(found)
            inner = self._translate(condition, scope.with_focus(PythonCode(loop.item, found.type)))
            if inner.type in NUMBERS or inner.type is Type.DECIMAL:
                raise NotTranslatable("a position that is computed")
            return replace(loop, clauses=f"{loop.clauses} if {to_condition(inner)}")
        item, position, whole = new_name(), new_name(), new_name()
        within_all = scope.with_focus(
            PythonCode(item, found.type), PythonCode(position, Type.INTEGER), PythonCode(f"len({whole})", Type.INTEGER)
        )
        inner = self._translate(condition, within_all)
        if inner.type is not Type.BOOLEAN:
            raise NotTranslatable("a position that is computed")
        return PythonCode(
            item,
            found.type,
            is_list=True,
            clauses=f"for {whole} in ({found.list_text},)"
            f" for {position}, {item} in enumerate({whole}, 1) if {to_condition(inner)}",
            order=found.order,
            is_single=found.is_single or not found.is_list,
        )

    def _is_by_position(self, predicate: ast.Predicate) -> bool:
        return isinstance(predicate.condition, ast.NumericLiteral) or asks_for_position(
            predicate.condition, self._names
        )


def root_of(scope: FocusAndVariables) -> PythonCode:
    """Return the document that contains the context item."""
    item = scope.item()
    if item.is_list or item.type not in (Type.DOCUMENT, Type.ELEMENT):
        raise NotTranslatable(f"the document of {item.type.value}")
    return item if item.type is Type.DOCUMENT else PythonCode(f"root_of({item.item})", Type.DOCUMENT)


def _check_nodes(found: PythonCode) -> None:
    if found.type not in (Type.DOCUMENT, Type.ELEMENT):
        raise NotTranslatable(f"a step or predicate on {found.type.value}")


def _descendants(found: PythonCode) -> str:
    """Return the lxml method that iterates over descendants; the root element is a descendant of its document."""
    return "iter" if found.type is Type.DOCUMENT else "iterdescendants"


def _empty_in(found: PythonCode) -> PythonCode:
    """Return an empty sequence for what a document never has.

    Evaluating the document must not fail: only a variable will do.
    """
    if found.is_list or not found.item.isidentifier():
        raise NotTranslatable("attributes or text of documents")
    return EMPTY


def _descendants_or_self(found: PythonCode) -> PythonCode:
    """Return an element and all its descendants."""
    if found.is_list:
        raise NotTranslatable("attributes after // from several elements")
    return _select_from(found, ".iter()", Order.SORTED)


def _select_from(found: PythonCode, call: str, order: Order) -> PythonCode:
    """Return the elements that a method of lxml selects from elements; for one element they have the given order."""
    if not found.is_list:
        return PythonCode(found.item + call, Type.ELEMENT, is_list=True, is_iterator=True, order=order)
    loop = make_loop(found)
    child = new_name()
    clauses = f"{loop.clauses} for {child} in {loop.item}{call}"
    if not found.is_flat:
        order = Order.UNKNOWN
    return sort_nodes(PythonCode(child, Type.ELEMENT, is_list=True, clauses=clauses, order=order))


def nest_in_loop(loop: PythonCode, made: PythonCode) -> PythonCode:
    """Return what is evaluated in each iteration of a loop, concatenated."""
    inner = make_loop(made) if made.is_list else made
    return replace(
        inner,
        is_list=True,
        clauses=f"{loop.clauses} {inner.clauses}".rstrip(),
        order=Order.UNKNOWN,
        is_single=loop.is_single and (made.is_single or not made.is_list),
    )


def _tag(test: ast.NameTest, known: Mapping[ast.Node, tuple[str | None, str]]) -> str:
    """Return a name in lxml's notation."""
    uri, local = known.get(test, (None, "*"))
    if uri is None and local == "*":
        return "*"
    if uri is None or local == "*":
        raise NotTranslatable("a name with a star for a part of it")
    return f"{{{uri}}}{local}" if uri else local
