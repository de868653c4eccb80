"""Emit tests for sequence types, and conversions to those of parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from demaq.compiler.emit.python.code import (
    ATOMIC_TYPES,
    NODES,
    NotTranslatable,
    PythonCode,
    Type,
    atomize_item,
    make_list,
    make_loop,
    map_values,
    new_name,
    require_at_most_one,
)
from demaq.compiler.emit.python.steps import element_test, test_name
from demaq.compiler.emit.python.type_operations import CAST_TYPES, atomic_name, cast_value, instance_of, treat_as
from demaq.language import ast
from demaq.language.resolving.names import Names

_COUNTED = {"": "== 1", "?": "<= 1", "*": ">= 0", "+": ">= 1"}
_ATTRIBUTES = (Type.ATTRIBUTE, Type.ATTRIBUTES)
_PROMOTED = {
    Type.DOUBLE: {Type.INTEGER: "float({})", Type.DECIMAL: "cast({}, 'double')", Type.NUMERIC: "float({})"},
    Type.STRING: {Type.ANY_URI: "{}"},
}
"""How arguments of other types become values of the type of a parameter (XQuery 3.1, 3.1.5.2)."""


class SequenceTypes:
    def __init__(self, names: Names) -> None:
        self._names = names

    def test(self, code: PythonCode, type_: ast.SequenceType) -> str:
        """Return a Python condition for whether a value is an instance of a type."""
        item = type_.item
        if code.type is Type.ITEM and not isinstance(item, ast.AnyItemTest):
            raise NotTranslatable("the types of nodes and values in one sequence", node=type_)
        if not isinstance(item, ast.KindTest) or code.type is Type.EMPTY:
            name = atomic_name(self._names.types, item.name) if isinstance(item, ast.AtomicType) else None
            return instance_of(code, item, type_.occurrence, name).item
        decided = self._decide(code, item)
        if decided is False:
            return f"(not {code.list_text})" if type_.occurrence in ("?", "*") else f"(len({code.list_text}) < 0)"
        counted = f"len({code.list_text}) {_COUNTED[type_.occurrence]}"
        if decided is True:
            return f"({counted})"
        name = new_name()
        return f"({counted} and all([{decided(name)} for {name} in {code.list_text}]))"

    def expect(self, code: PythonCode, type_: ast.SequenceType) -> PythonCode:
        """Return a value that must be an instance of a type: what is not is an error, and left to Saxon."""
        item = type_.item
        if code.type is Type.ITEM and not isinstance(item, ast.AnyItemTest):
            raise NotTranslatable("the types of nodes and values in one sequence", node=type_)
        if isinstance(item, ast.AtomicType) and code.type is not Type.EMPTY:
            return treat_as(code, type_.occurrence, atomic_name(self._names.types, item.name))
        if item is None or (code.type is Type.EMPTY and type_.occurrence not in ("?", "*")):
            raise NotTranslatable("a value that must be empty, or must not be", node=type_)
        if code.type is Type.EMPTY:
            return code
        if isinstance(item, ast.KindTest):
            decided = self._decide(code, item)
            if decided is False:
                raise NotTranslatable(f"{code.type.value} where {item.kind} nodes are expected", node=type_)
            if decided is not True:
                loop = make_loop(code)
                checked = f"expected({loop.item}, {decided(loop.item)})"
                code = (
                    replace(loop, item=checked)
                    if code.is_list
                    else PythonCode(f"[{checked} {loop.clauses}][0]", code.type)
                )
        elif not isinstance(item, ast.AnyItemTest):
            raise NotTranslatable("functions, maps or arrays", node=type_)
        return self._count(code, type_.occurrence)

    def convert(self, code: PythonCode, type_: ast.SequenceType) -> PythonCode:
        """Return an argument or a result as the type that a function declares for it (XQuery 3.1, 3.1.5.2)."""
        if not isinstance(type_.item, ast.AtomicType) or code.type is Type.EMPTY:
            return self.expect(code, type_)
        name = atomic_name(self._names.types, type_.item.name)
        found = atomize_item(code)
        kind = CAST_TYPES.get(name)
        if found.type is Type.UNTYPED and kind is not None:
            found = self._cast_each(found, name, kind)
        elif kind in _PROMOTED and found.type in _PROMOTED[kind]:
            found = map_values(found, _PROMOTED[kind][found.type], kind)
        if found.type not in ATOMIC_TYPES:
            raise NotTranslatable(f"{found.type.value} as an argument", node=type_)
        return treat_as(found, type_.occurrence, name)

    def _cast_each(self, found: PythonCode, name: str, kind: Type) -> PythonCode:
        if not found.is_list or found.is_single:
            return cast_value(found, name)
        item = cast_value(PythonCode("{}", Type.UNTYPED), name)
        return map_values(found, item.item, kind)

    def _count(self, code: PythonCode, occurrence: str) -> PythonCode:
        if not code.is_list or occurrence == "*":
            return code
        if occurrence == "?":
            return require_at_most_one(code)
        if occurrence == "+":
            made = make_list(f"expect_items({code.text})", code.type, code.order)
            return replace(made, is_single=code.is_single, name=code.name)
        return PythonCode(f"only({code.text})", code.type, name=code.name)

    def _decide(self, code: PythonCode, test: ast.KindTest) -> bool | Callable[[str], str]:
        """Return whether all items pass a test, or how a condition is made of an item if that is not known."""
        kind = code.type
        if test.type is not None:
            raise NotTranslatable("the type of an element or attribute", node=test)
        if kind not in NODES:
            return False
        match test.kind:
            case "node":
                return True
            case "element" if kind is Type.ELEMENT:
                tag = element_test(test, self._names, test)
                return True if tag == "*" else lambda item: test_name(item, tag)
            case "element" if kind is Type.MADE and not isinstance(test.name, ast.Name):
                return True
            case "document-node" if kind is Type.DOCUMENT:
                if test.inner is None:
                    return True
                root = element_test(test.inner, self._names, test)
                return lambda item: test_name(item, root)
            case "attribute" if kind in _ATTRIBUTES and not isinstance(test.name, ast.Name):
                return True
            case "text" if kind is Type.TEXT:
                return True
            case "text" if kind is Type.NODE:
                return lambda item: f"isinstance({item}, str)"
        if kind is Type.NODE or (test.kind == "element" and kind is Type.MADE) or kind in _ATTRIBUTES:
            raise NotTranslatable(f"whether {kind.value} nodes are {test.kind} nodes of a name", node=test)
        return False
