"""Translated expressions: Python text, and what is known about its value."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from enum import Enum


class NotSimple(Exception):
    """An expression that only Saxon evaluates; says which part of it is the reason."""


class Type(Enum):
    """What the items of a value are, and how Python has them."""

    DOCUMENT = "document"
    """A document node: its root element."""
    ELEMENT = "element"
    """An element of some message."""
    MADE = "made"
    """A new element, which has no parent."""
    ATTRIBUTE = "attribute"
    """Its value. All attributes of a list have one name."""
    TEXT = "text"
    """A text node: a string."""
    UNTYPED = "untyped"
    """A string, of type xs:untypedAtomic."""
    STRING = "string"
    INTEGER = "integer"
    DECIMAL = "decimal"
    """A number that was written with a point, as the nearest double: only for who computes with doubles."""
    DOUBLE = "double"
    BOOLEAN = "boolean"
    EMPTY = "empty"
    """No items at all."""
    DONE = "done"
    """No items: the expression does something."""


NODES = frozenset({Type.DOCUMENT, Type.ELEMENT, Type.MADE, Type.ATTRIBUTE, Type.TEXT})
STRINGS = frozenset({Type.UNTYPED, Type.STRING})
NUMBERS = frozenset({Type.INTEGER, Type.DOUBLE})


_numbers = itertools.count()


def new_name() -> str:
    """A Python variable that nobody else uses."""
    return f"v{next(_numbers)}"


@dataclass(frozen=True, slots=True)
class Code:
    """One item, or a list of any number of them.

    A list is an expression, or it is an item and the clauses of a comprehension around it, so that what goes over a
    list that goes over a list can be one comprehension.
    """

    item: str
    """A Python expression: of the item, or of the list where there are no clauses."""
    type: Type
    is_list: bool = False
    clauses: str = ""
    """For a list: `for … in … if …`, what the item is in."""
    is_flat: bool = True
    """Whether elements are in document order, each once, and none inside another."""
    is_iterator: bool = False
    """Whether the list is not really one, but can be gone over once."""
    is_single: bool = False
    """Of a list: whether it holds one item at most."""
    is_new: bool = False
    """Of new elements: whether nobody else has them, so that they need not be copied."""
    name: str = ""
    """Of attributes."""

    @property
    def text(self) -> str:
        """The item, or the list."""
        if self.clauses:
            return f"[{self.item} {self.clauses}]"
        return f"list({self.item})" if self.is_iterator else self.item

    @property
    def listed(self) -> str:
        return self.text if self.is_list else f"[{self.item}]"

    @property
    def each(self) -> str:
        """Something to go over once."""
        if not self.is_list:
            return f"({self.item},)"
        return self.text if self.clauses else self.item


def listed(text: str, type_: Type, *, is_flat: bool = True) -> Code:
    """A list by an expression for it."""
    return Code(text, type_, is_list=True, is_flat=is_flat)


def looped(code: Code) -> Code:
    """The same as an item in clauses; the item is a variable."""
    if code.clauses and code.item.isidentifier():
        return code
    name = new_name()
    if code.clauses:
        return replace(code, item=name, clauses=f"{code.clauses} for {name} in ({code.item},)")
    return replace(code, item=name, clauses=f"for {name} in {code.each}", is_list=True, is_iterator=False)


def mapped(code: Code, item: str, type_: Type) -> Code:
    """An expression for each item: in it, braces stand for the item."""
    if not code.is_list:
        return Code(f"[{item.format(code.item)}]", type_, is_list=True, is_single=True)
    loop = code if code.clauses and item.count("{") <= 1 else looped(code)
    return replace(loop, item=item.format(loop.item), type=type_, is_flat=False)


EMPTY = Code("[]", Type.EMPTY, is_list=True)


def as_list(code: Code) -> Code:
    return code if code.is_list else replace(code, item=code.listed, is_list=True, is_single=True)


def either(one: Code, other: Code) -> tuple[Code, Code]:
    """Two values of which one is taken, so that both are alike."""
    if one.type is other.type:
        if one.name != other.name:
            raise NotSimple("a choice between attributes")
        if one.is_list == other.is_list:
            return one, other
        return as_list(one), as_list(other)
    if one.type is Type.EMPTY:
        return replace(EMPTY, type=other.type, is_new=True, is_single=True, name=other.name), as_list(other)
    if other.type is Type.EMPTY:
        return as_list(one), replace(EMPTY, type=one.type, is_new=True, is_single=True, name=one.name)
    raise NotSimple(f"a choice between {one.type.value} and {other.type.value}")


def values(code: Code) -> Code:
    """What is left of nodes when they are compared or computed with: a list of their values."""
    match code.type:
        case Type.DOCUMENT | Type.ELEMENT | Type.MADE:
            return mapped(code, "string_of({})", Type.UNTYPED)
        case Type.ATTRIBUTE | Type.TEXT:
            return replace(as_list(code), type=Type.UNTYPED, name="")
        case Type.DONE:
            raise NotSimple("the value of an action")
    return as_list(code)


def texts(code: Code) -> Code:
    """The values as a list of strings."""
    found = values(code)
    match found.type:
        case Type.UNTYPED | Type.STRING | Type.EMPTY:
            return found
        case Type.INTEGER:
            return mapped(found, "str({})", Type.STRING)
        case Type.DOUBLE:
            return mapped(found, "double_text({})", Type.STRING)
        case Type.BOOLEAN:
            return mapped(found, "('true' if {} else 'false')", Type.STRING)
    raise NotSimple(f"the text of {found.type.value}")


def text(code: Code) -> str:
    """The value as one string: the empty one for nothing."""
    if not code.is_list and code.type in STRINGS:
        return code.item
    if not code.is_list and code.type in (Type.DOCUMENT, Type.ELEMENT, Type.MADE):
        return f"string_of({code.item})"
    return f"one_text({texts(code).text})"


def joined_texts(code: Code, separator: str) -> str:
    """All values as one string."""
    if not code.is_list and code.type is Type.DOUBLE:
        return f"double_text({code.item})"
    if not code.is_list and code.type is Type.INTEGER:
        return f"str({code.item})"
    found = texts(code)
    return f"{separator!r}.join({found.text})"


def numbers(code: Code, beside: Code | None = None) -> Code:
    """Values as numbers: what has no type is a double, and so is a decimal beside a double."""
    found = values(code)
    if found.type is Type.DECIMAL and beside is not None and values(beside).type in (Type.UNTYPED, Type.DOUBLE):
        return replace(found, type=Type.DOUBLE)
    if found.type in NUMBERS:
        return found
    if found.type is Type.UNTYPED:
        return mapped(found, "double({})", Type.DOUBLE)
    if found.type is Type.EMPTY:
        return replace(found, type=Type.DOUBLE)
    raise NotSimple(f"computing with {found.type.value}")


def at_most_one(code: Code) -> Code:
    """A list that is odd where it holds more."""
    return code if code.is_single else replace(listed(f"at_most_one({code.text})", code.type), is_single=True)


def truth(code: Code) -> str:
    """A Python expression that is true or false as the value counts in a condition."""
    match code.type:
        case _ if code.type in NODES:
            return is_there(code)
        case Type.BOOLEAN | Type.STRING | Type.UNTYPED | Type.INTEGER | Type.DOUBLE if not code.is_list:
            return code.item
        case Type.BOOLEAN if code.is_single:
            return f"any({code.text})"
        case Type.EMPTY:
            return "False"
    raise NotSimple(f"{code.type.value} as a condition")


def is_there(code: Code) -> str:
    """Whether there is any item."""
    if not code.is_list:
        return "True"
    return f"has({code.item})" if code.is_iterator and not code.clauses else code.text
