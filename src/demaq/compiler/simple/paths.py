"""Paths, their steps and predicates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from demaq.compiler.simple.code import EMPTY, Code, NotSimple, Type, as_list, listed, looped, new_name, truth
from demaq.compiler.simple.scope import Scope
from demaq.compiler.trees import calls
from demaq.language import ast
from demaq.language.names import Names
from demaq.language.namespaces import FN

Translate = Callable[[ast.Expr, Scope], Code]

_POSITIONS = ((FN, "position", 0), (FN, "last", 0))


class Paths:
    def __init__(self, names: Names, translate: Translate) -> None:
        self._names = names
        self._translate = translate

    def path(self, node: ast.Path, scope: Scope) -> Code:
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
                found = self._mapped(found, step, scope)
            else:
                raise NotSimple("a step that is an expression")
        return found

    def own_step(self, node: ast.AxisStep, scope: Scope) -> Code:
        """A step from the context item."""
        return self._step(scope.item(), "/", node, scope)

    def mapped(self, found: Code, expr: ast.Expr, scope: Scope) -> Code:
        """An expression evaluated with each item in turn as context."""
        if not found.is_list and found.item.isidentifier():
            return self._translate(expr, scope.within(found))
        loop = looped(found)
        made = self._translate(expr, scope.within(Code(loop.item, found.type, name=found.name)))
        if made.type in (Type.EMPTY, Type.DONE):
            raise NotSimple("an expression for each item that has no value")
        return within(loop, made)

    def _mapped(self, found: Code, expr: ast.Expr, scope: Scope) -> Code:
        """The last step of a path, where it is an expression: nodes would be brought into document order."""
        _must_be_nodes(found)
        made = self.mapped(found, expr, scope)
        if made.type is Type.ELEMENT and made.is_list:
            return listed(f"ordered({made.text})", Type.ELEMENT, is_flat=False)
        if made.type in (Type.DOCUMENT, Type.ATTRIBUTE, Type.TEXT, Type.MADE):
            raise NotSimple("a step that is an expression with nodes as its value")
        return made

    # steps

    def _step(self, found: Code, separator: str, step: ast.AxisStep, scope: Scope) -> Code:
        if step.axis == "descendant":
            separator, axis = "//", "child"
        else:
            axis = step.axis
        if found.type not in (Type.DOCUMENT, Type.ELEMENT):
            raise NotSimple(f"a step from {found.type.value}")
        by_position = [self._is_by_position(predicate) for predicate in step.predicates]
        match axis:
            case "child" if isinstance(step.test, ast.NameTest):
                if any(by_position):
                    return self._children_by_position(found, separator, step, scope)
                made = self._children(found, separator, _tag(step.test, self._names.elements))
            case "child" if isinstance(step.test, ast.KindTest) and step.test.kind == "text" and separator == "/":
                made = self._texts(found)
            case "attribute" if isinstance(step.test, ast.NameTest):
                made = self._attributes(found, separator, _tag(step.test, self._names.attributes))
            case "self" if isinstance(step.test, ast.KindTest) and step.test.kind == "node" and separator == "/":
                made = found
            case _:
                raise NotSimple(f"axis {step.axis} with such a test")
        for predicate in step.predicates:
            if any(by_position) or made.type is not Type.ELEMENT:
                raise NotSimple("a predicate on such a step")
            made = self.filtered(made, predicate, scope)
        return made

    def _children(self, found: Code, separator: str, tag: str) -> Code:
        """Elements of a name: children, or behind `//` all further down."""
        if separator == "//":
            way = "iter" if found.type is Type.DOCUMENT else "iterdescendants"
            return replace(_from(found, f".{way}({tag!r})"), is_flat=False)
        if found.type is Type.ELEMENT:
            return _from(found, f".iterchildren({tag!r})")
        if tag == "*":
            return replace(as_list(found), type=Type.ELEMENT)
        if not found.is_list:
            named = f"root_named({found.item}, {tag!r})"
            if found.item.isidentifier():
                named = f"([{found.item}] if {found.item}.tag == {tag!r} else [])"
            return replace(listed(named, Type.ELEMENT), is_single=True)
        loop = looped(found)
        return replace(loop, type=Type.ELEMENT, clauses=f"{loop.clauses} if {loop.item}.tag == {tag!r}")

    def _attributes(self, found: Code, separator: str, tag: str) -> Code:
        if tag == "*":
            raise NotSimple("all attributes")
        if separator == "//":
            found = self._children(found, "//", "*") if found.type is Type.DOCUMENT else _all_within(found)
        elif found.type is Type.DOCUMENT:
            return replace(EMPTY, type=Type.ATTRIBUTE, name=tag)
        if not found.is_list:
            made = listed(f"attribute({found.item}, {tag!r})", Type.ATTRIBUTE)
            return replace(made, is_single=True, name=tag)
        loop = looped(found)
        value = new_name()
        clauses = f"{loop.clauses} for {value} in ({loop.item}.get({tag!r}),) if {value} is not None"
        return Code(value, Type.ATTRIBUTE, is_list=True, clauses=clauses, name=tag)

    def _texts(self, found: Code) -> Code:
        if found.type is Type.DOCUMENT:
            return replace(EMPTY, type=Type.TEXT)
        if not found.is_list:
            return listed(f"texts_in({found.item})", Type.TEXT)
        if not found.is_flat:
            found = listed(f"side_by_side({found.text})", Type.ELEMENT)
        loop = looped(found)
        text = new_name()
        return Code(text, Type.TEXT, is_list=True, clauses=f"{loop.clauses} for {text} in texts_in({loop.item})")

    def _children_by_position(self, found: Code, separator: str, step: ast.AxisStep, scope: Scope) -> Code:
        """Positions count the children of one parent."""
        assert isinstance(step.test, ast.NameTest)
        tag = _tag(step.test, self._names.elements)
        group = new_name()
        is_below = separator == "//"
        if is_below:
            if found.is_list or found.type is not Type.DOCUMENT:
                raise NotSimple("positions behind // from several nodes")
            groups = f"for {group} in siblings({found.item}.iter({tag!r}))"
        elif not found.is_list:
            groups = f"for {group} in ({self._children(found, '/', tag).text},)"
        else:
            loop = looped(found)
            children = self._children(Code(loop.item, found.type), "/", tag)
            groups = f"{loop.clauses} for {group} in ({children.text},)"
        made = listed(group, Type.ELEMENT)
        for predicate in step.predicates:
            made = self.filtered(made, predicate, scope)
        if is_below:
            return listed(f"merged([{made.listed} {groups}])", Type.ELEMENT, is_flat=False)
        loop = looped(made)
        found_all = replace(loop, clauses=f"{groups} {loop.clauses}", is_single=False)
        if found.is_flat:
            return found_all
        return listed(f"ordered({found_all.text})", Type.ELEMENT, is_flat=False)

    # predicates

    def filtered(self, found: Code, predicate: ast.Predicate, scope: Scope) -> Code:
        """The items of a list that a predicate leaves."""
        _must_be_nodes(found)
        condition = predicate.condition
        if isinstance(condition, ast.NumericLiteral) and condition.text.isdigit():
            made = listed(f"item_at({found.listed}, {int(condition.text)})", found.type)
            return replace(made, is_single=True)
        if calls(condition, self._names, "last", arity=0):
            return replace(listed(f"{found.listed}[-1:]", found.type), is_single=True)
        if not self._asks_for_position(condition):
            loop = looped(found)
            inner = self._translate(condition, scope.within(Code(loop.item, found.type)))
            if inner.type in (Type.INTEGER, Type.DOUBLE, Type.DECIMAL):
                raise NotSimple("a position that is computed")
            return replace(loop, clauses=f"{loop.clauses} if {truth(inner)}")
        item, position, whole = new_name(), new_name(), new_name()
        within_all = scope.within(
            Code(item, found.type), Code(position, Type.INTEGER), Code(f"len({whole})", Type.INTEGER)
        )
        inner = self._translate(condition, within_all)
        if inner.type is not Type.BOOLEAN:
            raise NotSimple("a position that is computed")
        return Code(
            item,
            found.type,
            is_list=True,
            clauses=f"for {whole} in ({found.listed},)"
            f" for {position}, {item} in enumerate({whole}, 1) if {truth(inner)}",
            is_flat=found.is_flat,
        )

    def _is_by_position(self, predicate: ast.Predicate) -> bool:
        return isinstance(predicate.condition, ast.NumericLiteral) or self._asks_for_position(predicate.condition)

    def _asks_for_position(self, condition: ast.Expr) -> bool:
        """Whether a predicate asks, or one inside it."""
        return any([self._names.functions.get(node) in _POSITIONS for node in ast.walk(condition)])


def root_of(scope: Scope) -> Code:
    """The document that the context item is in."""
    item = scope.item()
    if item.is_list or item.type not in (Type.DOCUMENT, Type.ELEMENT):
        raise NotSimple(f"the document of {item.type.value}")
    return item if item.type is Type.DOCUMENT else Code(f"root_of({item.item})", Type.DOCUMENT)


def _must_be_nodes(found: Code) -> None:
    if found.type not in (Type.DOCUMENT, Type.ELEMENT):
        raise NotSimple(f"a step or predicate on {found.type.value}")


def _all_within(found: Code) -> Code:
    """An element with all further down."""
    if found.is_list:
        raise NotSimple("attributes behind // from several elements")
    return _from(found, ".iter()")


def _from(found: Code, call: str) -> Code:
    """Elements that lxml finds from elements, by this call of each."""
    if not found.is_list:
        return Code(found.item + call, Type.ELEMENT, is_list=True, is_iterator=True)
    loop = looped(found)
    child = new_name()
    clauses = f"{loop.clauses} for {child} in {loop.item}{call}"
    made = Code(child, Type.ELEMENT, is_list=True, clauses=clauses)
    return made if found.is_flat else listed(f"ordered({made.text})", Type.ELEMENT, is_flat=False)


def within(loop: Code, made: Code) -> Code:
    """What is made in each turn of a loop, all together."""
    inner = looped(made) if made.is_list else made
    return replace(
        inner,
        is_list=True,
        clauses=f"{loop.clauses} {inner.clauses}".rstrip(),
        is_flat=False,
        is_single=loop.is_single and (made.is_single or not made.is_list),
    )


def _tag(test: ast.NameTest, known: dict[ast.Node, tuple[str | None, str]]) -> str:
    """A name as lxml knows it."""
    uri, local = known.get(test, (None, "*"))
    if uri is None and local == "*":
        return "*"
    if uri is None or local == "*":
        raise NotSimple("a name with a star for a part of it")
    return f"{{{uri}}}{local}" if uri else local
