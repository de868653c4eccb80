"""Emit paths: steps from nodes to nodes in document order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from demaq.compiler.emit.python.code import (
    EMPTY,
    NO_VALUES,
    NODES,
    Maybe,
    NotTranslatable,
    Order,
    PythonCode,
    Type,
    make_list,
    make_loop,
    make_maybe,
    map_values,
    new_name,
    sort_nodes,
    to_list,
)
from demaq.compiler.emit.python.focus import MESSAGE, FocusAndVariables
from demaq.compiler.emit.python.predicates import PredicateCode, Predicates
from demaq.compiler.emit.python.steps import ALL_BELOW, BELOW, Selection, select, select_groups
from demaq.compiler.trees import uses_focus
from demaq.language import ast
from demaq.language.resolving.names import Names

_ONE = PythonCode("1", Type.INTEGER)
Translate = Callable[[ast.Expr, FocusAndVariables], PythonCode]


class Paths:
    def __init__(self, names: Names, translate: Translate) -> None:
        self._names = names
        self._translate = translate
        self._predicates = Predicates(names, translate)

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
            elif separator == "/":
                found = self._map_step(found, step, scope, number == len(steps) - 1)
            else:
                raise NotTranslatable("a step after // that is an expression", node=step)
        return found

    def own_step(self, node: ast.AxisStep, scope: FocusAndVariables) -> PythonCode:
        """Return the code of a step from the context item."""
        return self._step(scope.item(), "/", node, scope)

    def map_each(self, found: PythonCode, expr: ast.Expr, scope: FocusAndVariables) -> PythonCode:
        """Return an expression evaluated with each item in turn as the context item."""
        if found.type in NO_VALUES:
            raise NotTranslatable("an expression for each item of nothing")
        if not found.is_list and found.item.isidentifier():
            return self._translate(expr, scope.with_focus(found, _ONE, _ONE))
        loop = make_loop(found)
        position, whole = new_name(), new_name()
        each = PythonCode(loop.item, found.type, name=found.name, is_own=found.is_own)
        last = PythonCode(f"len({whole})", Type.INTEGER)
        made = self._translate(expr, scope.with_focus(each, PythonCode(position, Type.INTEGER), last))
        if made.type in NO_VALUES:
            raise NotTranslatable("an expression for each item that has no value")
        if re.search(rf"\b({position}|{whole})\b", made.text):
            clauses = f"for {whole} in ({found.list_text},) for {position}, {loop.item} in enumerate({whole}, 1)"
            loop = replace(loop, clauses=clauses)
        return nest_in_loop(loop, made)

    def _map_step(self, found: PythonCode, expr: ast.Expr, scope: FocusAndVariables, is_last: bool) -> PythonCode:
        """Return a step of a path that is an expression: its nodes in document order, or values if it is the last."""
        if found.type not in NODES or found.type is Type.MADE:
            raise NotTranslatable(f"a step from {found.type.value}")
        made = self.map_each(found, expr, scope)
        if made.type not in NODES:
            if not is_last or made.type is Type.ITEM:
                raise NotTranslatable("a step that has values")
            return made
        if made.type is Type.MADE and is_last:
            if any([self._is_hoisted(node) for node in ast.walk(expr)]):
                raise NotTranslatable("a step that makes nodes and does not depend on the one before it", node=expr)
            return made  # new trees are in the order in which they are made
        if made.type is Type.ELEMENT:
            united = make_list(f"united({made.list_text})", Type.ELEMENT, Order.SORTED)
            return replace(united, is_own=made.is_own, is_single=made.is_optional)
        raise NotTranslatable(f"a step that is an expression with {made.type.value} nodes as its value")

    def _is_hoisted(self, node: ast.Node) -> bool:
        """Return whether Saxon evaluates a path once, before the loop it is in, even if it makes nodes."""
        if not isinstance(node, ast.Path) or isinstance(node.steps[-1], ast.AxisStep):
            return False
        return not uses_focus(node, self._names)

    def filter(self, found: PythonCode, predicate: ast.Predicate, scope: FocusAndVariables) -> PythonCode:
        """Return the items of a list for which a predicate holds."""
        if found.type in NO_VALUES:
            raise NotTranslatable("a predicate on nothing")
        return self._predicates.translate(predicate, found, scope).filter(to_list(found))

    # steps

    def _step(self, found: PythonCode, separator: str, step: ast.AxisStep, scope: FocusAndVariables) -> PythonCode:
        if isinstance(step.test, ast.KindTest) and (step.axis, step.test.kind, separator) == ("self", "node", "/"):
            return self._filter_all(sort_nodes(found), step, scope)
        if found.type is Type.ATTRIBUTES:
            return self._filter_all(_owners(found, separator, step), step, scope)
        if found.type is Type.MADE and found.is_optional:
            found = to_tree(found)
        if found.type not in (Type.DOCUMENT, Type.ELEMENT):
            raise NotTranslatable(f"a step from {found.type.value} nodes", node=step)
        found = sort_nodes(found)
        is_document = found.type is Type.DOCUMENT
        selection = select(step, self._names, is_document)
        if separator == "//" and (step.axis not in BELOW or (selection is not None and selection.type is Type.NODE)):
            if step.axis not in ("attribute", "self"):  # these begin at text nodes and comments, too
                raise NotTranslatable(f"the axis {step.axis} after //", node=step)
            found, separator, is_document = _apply(replace(found, type=Type.ELEMENT), ALL_BELOW), "/", False
            selection = select(step, self._names, is_document)
        if separator == "//" and step.test is not None:
            axis = "descendant-or-self" if step.axis == "descendant-or-self" else "descendant"
            below = select(step, self._names, is_document, axis)
        else:
            below = selection
        if selection is None and below is None:
            _expect_variable(found)
            return EMPTY
        known = selection or below
        assert known is not None
        one = PythonCode("", known.type, name=known.name, is_own=found.is_own)
        predicates = [self._predicates.translate(each, one, scope) for each in step.predicates]
        found = replace(found, type=Type.ELEMENT)
        if not any([each.is_by_position for each in predicates]):
            assert below is not None
            made = _apply(found, below)
            for predicate in predicates:
                made = predicate.filter(made)
            return made
        if separator == "//":
            groups = select_groups(step, self._names, is_document)
            return _by_position(found, replace(known, code=groups, order=Order.UNKNOWN), predicates, True)
        assert selection is not None
        return _by_position(found, selection, predicates, False)

    def _filter_all(self, found: PythonCode, step: ast.AxisStep, scope: FocusAndVariables) -> PythonCode:
        """Return the nodes for which the predicates hold, each of which is the only one that is selected."""
        predicates = [self._predicates.translate(each, found, scope) for each in step.predicates]
        if any([each.is_by_position for each in predicates]):
            raise NotTranslatable("a position among single nodes", node=step)
        for predicate in predicates:
            found = predicate.filter(found)
        return found


def to_tree(code: PythonCode) -> PythonCode:
    """Return constructed elements as trees, to go through them."""
    return replace(map_values(code, "tree_of({})", Type.ELEMENT), is_single=code.is_single)


def is_navigated(binder: ast.Node, expr: ast.Node, names: Names) -> bool:
    """Return whether a path in an expression begins at a variable."""
    for node in ast.walk(expr):
        if isinstance(node, ast.Path) and not node.separators[0]:
            start = node.steps[0]
            while isinstance(start, ast.Postfix):
                start = start.base
            if isinstance(start, ast.VarRef) and names.variables.get(start) is binder:
                return True
    return False


def root_of(scope: FocusAndVariables) -> PythonCode:
    """Return the document that contains the context item."""
    item = scope.item()
    if item.is_own and item.type in NODES:
        return PythonCode(MESSAGE, Type.DOCUMENT, is_own=True)
    if item.is_list or item.type not in (Type.DOCUMENT, Type.ELEMENT):
        raise NotTranslatable(f"the document of {item.type.value}")
    return item if item.type is Type.DOCUMENT else PythonCode(f"root_of({item.item})", Type.DOCUMENT)


def _apply(found: PythonCode, selection: Selection) -> PythonCode:
    """Return what a step selects from elements, in document order."""
    maybe = _find_maybe(found, selection)
    if maybe is not None:
        return make_maybe(maybe, selection.type, selection.name, found.is_own)
    if not found.is_list:
        if selection.condition is not None and selection.condition(found.item) == "True":
            return found
        code = selection.code(found.item)
        if selection.is_reverse:
            code = f"list({code})[::-1]"
        return PythonCode(
            code,
            selection.type,
            is_list=True,
            order=selection.order,
            is_iterator=not selection.is_list and not selection.is_reverse,
            is_single=selection.is_single,
            name=selection.name,
            is_own=found.is_own,
        )
    found = _set_apart_for(selection, found)
    loop = make_loop(found)
    if selection.condition is not None:
        condition = selection.condition(loop.item)
        return loop if condition == "True" else replace(loop, clauses=f"{loop.clauses} if {condition}")
    each = new_name()
    code = selection.code(loop.item)
    if selection.name:
        clauses = f"{loop.clauses} for {each} in ({loop.item}.get({selection.name!r}),) if {each} is not None"
    elif found.bare is not None and found.bare.sure.isidentifier() and not selection.is_reverse:
        clauses = f"for {each} in ({selection.code(found.bare.sure)} if {found.bare.test} else ())"
    elif selection.is_reverse and found.is_optional:
        clauses = f"{loop.clauses} for {each} in list({code})[::-1]"
    else:
        clauses = f"{loop.clauses} for {each} in {code}"
    made = PythonCode(
        each,
        selection.type,
        is_list=True,
        clauses=clauses,
        order=_order_of(found, selection),
        is_single=found.is_optional and selection.is_single,
        name=selection.name,
        is_own=found.is_own,
    )
    return sort_nodes(made, are_documents_sorted=True)


def _find_maybe(found: PythonCode, selection: Selection) -> Maybe | None:
    """Return what a step selects if it is one item that is there or not: an attribute, or the element itself."""
    if found.is_list and (found.bare is None or not found.bare.sure.isidentifier() or not selection.name):
        return None
    node, name = found.item if found.bare is None else found.bare.sure, new_name()
    if selection.name:
        value, listed = f"{node}.get({selection.name!r})", f"attribute({node}, {selection.name!r})"
        if found.bare is not None:
            value = f"({value} if {found.bare.test} else None)"
            listed = f"listed({value})"
        return Maybe(name, value, f"({value} is not None)", value, listed)
    condition = "" if selection.condition is None else selection.condition(node)
    if not condition or condition == "True" or not node.isidentifier():
        return None
    listed = selection.code(node)
    return Maybe(name, f"({node} if {condition} else None)", f"({condition})", node, listed)


def _by_position(
    found: PythonCode, selection: Selection, predicates: list[PredicateCode], is_grouped: bool
) -> PythonCode:
    """Return what a step with positional predicates selects.

    Positions count what one step selects from one node: after `//`, the children of one parent.
    """
    group = new_name()
    found = _set_apart_for(selection, found)
    loop = make_loop(found)
    code = selection.code(loop.item)
    groups = f"{loop.clauses} for {group} in {code}" if is_grouped else f"{loop.clauses} for {group} in (list({code}),)"
    order = Order.UNKNOWN if selection.is_reverse else Order.FLAT if is_grouped else selection.order
    made = PythonCode(group, selection.type, is_list=True, order=order, name=selection.name)
    for predicate in predicates:
        made = predicate.filter(made)
    if is_grouped:
        merged = make_list(f"merged([{made.list_text} {groups}])", Type.ELEMENT, Order.SORTED)
        return replace(merged, is_own=found.is_own)
    if selection.is_reverse:
        made = make_list(f"{made.list_text}[::-1]", selection.type)
    inner = make_loop(made)
    return sort_nodes(
        PythonCode(
            inner.item,
            selection.type,
            is_list=True,
            clauses=f"{groups} {inner.clauses}",
            order=_order_of(found, selection),
            is_single=found.is_optional and made.is_single,
            name=selection.name,
            is_own=found.is_own,
        ),
        are_documents_sorted=True,
    )


def _set_apart_for(selection: Selection, found: PythonCode) -> PythonCode:
    """Return nodes none of which is inside another if nodes are selected that cannot be sorted."""
    return set_apart(found) if selection.type in (Type.TEXT, Type.NODE) else found


def set_apart(found: PythonCode) -> PythonCode:
    """Return elements that are in document order, none of which is inside another."""
    if found.is_flat:
        return found
    return replace(make_list(f"side_by_side({found.text})", Type.ELEMENT, Order.FLAT), is_own=found.is_own)


def _order_of(found: PythonCode, selection: Selection) -> Order:
    """Return what is known about the order of what is selected from all nodes."""
    if found.is_optional or (selection.stays_apart and found.is_flat):
        return selection.order
    if selection.type in (Type.ATTRIBUTE, Type.ATTRIBUTES):
        return Order.FLAT  # in the order of their elements
    return found.order if selection.condition is not None else Order.UNKNOWN


def _owners(found: PythonCode, separator: str, step: ast.AxisStep) -> PythonCode:
    """Return the elements that attributes belong to."""
    is_any = isinstance(step.test, ast.KindTest) and step.test.kind in ("node", "element") and step.test.name is None
    if separator != "/" or step.axis != "parent" or not is_any:
        raise NotTranslatable("such a step from attributes", node=step)
    loop = make_loop(found)
    owner = new_name()
    clauses = f"{loop.clauses} for {owner} in ({loop.item}.owner,) if {owner} is not None"
    return sort_nodes(PythonCode(owner, Type.ELEMENT, is_list=True, clauses=clauses, is_single=found.is_optional))


def _expect_variable(found: PythonCode) -> None:
    """Raises NotTranslatable unless nodes, of which nothing is selected, are found without failing."""
    if found.is_list or not found.item.isidentifier():
        raise NotTranslatable("attributes or text of documents")


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
