"""Translated expressions: Python source text and the static type of its value."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from enum import Enum, IntEnum


class NotTranslatable(Exception):
    """Raised for an expression that only Saxon evaluates; the message names the construct that is the reason."""


class Type(Enum):
    """The type of the items of a value, and how it is represented in Python."""

    DOCUMENT = "document"
    """A document node, represented by its root element."""
    ELEMENT = "element"
    """An element of some message."""
    MADE = "made"
    """A constructed element, which has no parent."""
    ATTRIBUTE = "attribute"
    """An attribute node, represented by its value. All attributes of a list have one name."""
    TEXT = "text"
    """A text node, represented by a string."""
    UNTYPED = "untyped"
    """A value of type xs:untypedAtomic, represented by a string."""
    STRING = "string"
    INTEGER = "integer"
    DECIMAL = "decimal"
    """A decimal literal, represented by the nearest double; usable only in arithmetic with doubles."""
    DOUBLE = "double"
    NUMERIC = "numeric"
    """An integer or a double, known only at run time by its Python type. The sum of an empty sequence is an integer."""
    BOOLEAN = "boolean"
    EMPTY = "empty"
    """No items at all."""
    DONE = "done"
    """No items: the expression performs actions."""


class Order(IntEnum):
    """What is known about the order of nodes. Each value implies the ones before it."""

    UNKNOWN = 0
    """Any order, with duplicates."""
    SORTED = 1
    """Document order, without duplicates."""
    FLAT = 2
    """Sorted, and no node is a descendant of another."""


NODES = frozenset({Type.DOCUMENT, Type.ELEMENT, Type.MADE, Type.ATTRIBUTE, Type.TEXT})
STRINGS = frozenset({Type.UNTYPED, Type.STRING})
NUMBERS = frozenset({Type.INTEGER, Type.DOUBLE, Type.NUMERIC})
NO_VALUES = frozenset({Type.EMPTY, Type.DONE})


_numbers = itertools.count()


def new_name() -> str:
    """Return a Python variable name that no other expression uses."""
    return f"v{next(_numbers)}"


@dataclass(frozen=True, slots=True)
class PythonCode:
    """Python text for one item, or for a list of any number of items, with its static type.

    Invariant: the flags state what has been proved about the value. A translation that needs more raises
    NotTranslatable.

    A list is either an expression, or an item and the clauses of a comprehension over it, so that nested loops become
    one comprehension.
    """

    item: str
    """A Python expression for the item, or for the list if there are no clauses."""
    type: Type
    is_list: bool = False
    clauses: str = ""
    """For a list: the clauses `for … in … if …` that the item is evaluated in."""
    order: Order = Order.UNKNOWN
    """For nodes; see also `is_sorted` and `is_flat`."""
    is_iterator: bool = False
    """Whether `item` is an iterator, which can be consumed once."""
    is_single: bool = False
    """For a list: whether it holds at most one item."""
    is_new: bool = False
    """For constructed elements: whether nothing else refers to them, so that they need not be copied."""
    name: str = ""
    """For attributes: their name."""

    @property
    def is_optional(self) -> bool:
        """Return whether there is at most one item."""
        return self.is_single or not self.is_list

    @property
    def is_sorted(self) -> bool:
        """Return whether nodes are in document order without duplicates."""
        return self.is_optional or self.order >= Order.SORTED

    @property
    def is_flat(self) -> bool:
        """Return whether nodes are sorted and none is a descendant of another."""
        return self.is_optional or self.order >= Order.FLAT

    @property
    def text(self) -> str:
        """Return the expression for the item or for the list."""
        if self.clauses:
            return f"[{self.item} {self.clauses}]"
        return f"list({self.item})" if self.is_iterator else self.item

    @property
    def list_text(self) -> str:
        return self.text if self.is_list else f"[{self.item}]"

    @property
    def each(self) -> str:
        """Return an expression that can be iterated over once."""
        if not self.is_list:
            return f"({self.item},)"
        return self.text if self.clauses else self.item


def make_list(text: str, type_: Type, order: Order = Order.UNKNOWN) -> PythonCode:
    """Return the code of a list, given a Python expression for it."""
    return PythonCode(text, type_, is_list=True, order=order)


def sort_nodes(code: PythonCode) -> PythonCode:
    """Return the nodes in document order without duplicates.

    Raises NotTranslatable for attributes and texts, which have no identity here.
    """
    if code.is_sorted:
        return code
    if code.type not in (Type.ELEMENT, Type.DOCUMENT):
        raise NotTranslatable(f"the document order of {code.type.value} nodes")
    return make_list(f"ordered({code.text})", code.type, Order.SORTED)


def make_loop(code: PythonCode) -> PythonCode:
    """Return the same items as a list with clauses, in which the item is a variable."""
    if code.clauses and code.item.isidentifier():
        return code
    name = new_name()
    if code.clauses:
        return replace(code, item=name, clauses=f"{code.clauses} for {name} in ({code.item},)")
    return replace(
        code,
        item=name,
        clauses=f"for {name} in {code.each}",
        is_list=True,
        is_single=code.is_optional,
        is_iterator=False,
    )


def map_items(code: PythonCode, item: str, type_: Type) -> PythonCode:
    """Return the list of an expression for each item; `{}` in it stands for the item."""
    if not code.is_list:
        return PythonCode(f"[{item.format(code.item)}]", type_, is_list=True, is_single=True)
    loop = code if code.clauses and item.count("{") <= 1 else make_loop(code)
    return replace(loop, item=item.format(loop.item), type=type_, order=Order.UNKNOWN, is_new=False, name="")


EMPTY = PythonCode("[]", Type.EMPTY, is_list=True, order=Order.FLAT, is_single=True)


def to_list(code: PythonCode) -> PythonCode:
    return code if code.is_list else replace(code, item=code.list_text, is_list=True, is_single=True)


def choose(condition: str, one: PythonCode, other: PythonCode) -> PythonCode:
    """Return a conditional expression."""
    if one.type is other.type is Type.EMPTY:
        raise NotTranslatable("a choice between nothing and nothing")
    if one.type is Type.EMPTY:
        one = _empty_like(other)
    if other.type is Type.EMPTY:
        other = _empty_like(one)
    if one.type is not other.type or one.name != other.name:
        raise NotTranslatable(f"a choice between {one.type.value} and {other.type.value}")
    if one.is_list != other.is_list:
        one, other = to_list(one), to_list(other)
    return PythonCode(
        f"({one.text} if {condition} else {other.text})",
        one.type,
        is_list=one.is_list,
        order=min(_order(one), _order(other)),
        is_single=one.is_single and other.is_single,
        is_new=one.is_new and other.is_new,
        name=one.name,
    )


def _empty_like(like: PythonCode) -> PythonCode:
    return replace(EMPTY, type=like.type, is_new=True, name=like.name)


def _order(code: PythonCode) -> Order:
    return Order.FLAT if code.is_optional else code.order


def atomize(code: PythonCode) -> PythonCode:
    """Return the atomized value: a list of the typed values of nodes, other items unchanged."""
    match code.type:
        case Type.DOCUMENT | Type.ELEMENT | Type.MADE:
            return map_items(code, "string_of({})", Type.UNTYPED)
        case Type.ATTRIBUTE | Type.TEXT:
            return replace(to_list(code), type=Type.UNTYPED, order=Order.UNKNOWN, name="")
        case Type.DONE:
            raise NotTranslatable("the value of an action")
    return to_list(code)


def to_strings(code: PythonCode) -> PythonCode:
    """Return the atomized value as a list of strings."""
    found = atomize(code)
    match found.type:
        case Type.UNTYPED | Type.STRING | Type.EMPTY:
            return found
        case Type.INTEGER:
            return map_items(found, "str({})", Type.STRING)
        case Type.DOUBLE:
            return map_items(found, "double_text({})", Type.STRING)
        case Type.NUMERIC:
            return map_items(found, "number_text({})", Type.STRING)
        case Type.BOOLEAN:
            return map_items(found, "('true' if {} else 'false')", Type.STRING)
    raise NotTranslatable(f"the text of {found.type.value}")


def to_string(code: PythonCode) -> str:
    """Return the value as one string; an empty sequence is the empty string."""
    if not code.is_list and code.type in STRINGS:
        return code.item
    if not code.is_list and code.type in (Type.DOCUMENT, Type.ELEMENT, Type.MADE):
        return f"string_of({code.item})"
    return f"one_text({to_strings(code).text})"


def to_string_argument(code: PythonCode) -> str:
    """Return the value for a parameter of type xs:string?; an empty sequence is the empty string.

    Only nodes are cast (XQuery 3.1, 3.1.5.2, function conversion rules).
    """
    if code.type in NODES or code.type in STRINGS or code.type is Type.EMPTY:
        return to_string(code)
    raise NotTranslatable(f"{code.type.value} where a string is expected")


def join_strings(code: PythonCode, separator: str) -> str:
    """Return all values as one string, separated."""
    if not code.is_list and code.type is Type.DOUBLE:
        return f"double_text({code.item})"
    if not code.is_list and code.type is Type.INTEGER:
        return f"str({code.item})"
    found = to_strings(code)
    return f"{separator!r}.join({found.text})"


def to_numbers(code: PythonCode) -> PythonCode:
    """Return the atomized values as numbers; untyped values become doubles."""
    found = atomize(code)
    if found.type in NUMBERS:
        return found
    if found.type is Type.UNTYPED:
        return map_items(found, "double({})", Type.DOUBLE)
    if found.type is Type.EMPTY:
        return replace(found, type=Type.DOUBLE)
    raise NotTranslatable(f"computing with {found.type.value}")


def to_operands(left: PythonCode, right: PythonCode) -> tuple[PythonCode, PythonCode]:
    """Return both operands as numbers. A decimal becomes a double if the other operand is certainly a double."""
    if atomize(left).type is Type.DECIMAL:
        return _to_doubles(left), _require_doubles(right)
    if atomize(right).type is Type.DECIMAL:
        return _require_doubles(left), _to_doubles(right)
    return to_numbers(left), to_numbers(right)


def _to_doubles(decimal: PythonCode) -> PythonCode:
    return replace(atomize(decimal), type=Type.DOUBLE)


def _require_doubles(code: PythonCode) -> PythonCode:
    if atomize(code).type not in (Type.UNTYPED, Type.DOUBLE, Type.NUMERIC):
        raise NotTranslatable(f"computing with decimal and {code.type.value}")
    found = to_numbers(code)
    return found if found.type is Type.DOUBLE else map_items(found, "certain_double({})", Type.DOUBLE)


def require_at_most_one(code: PythonCode) -> PythonCode:
    """Return a list that raises NeedsSaxon at run time if it holds more than one item."""
    if code.is_optional:
        return to_list(code)
    return replace(make_list(f"at_most_one({code.text})", code.type), is_single=True, name=code.name)


def to_condition(code: PythonCode) -> str:
    """Return a Python expression for the effective boolean value (XQuery 3.1, 2.4.3)."""
    match code.type:
        case _ if code.type in NODES:
            return to_existence_test(code)
        case Type.BOOLEAN | Type.STRING | Type.UNTYPED | Type.INTEGER if not code.is_list:
            return code.item
        case Type.DOUBLE | Type.NUMERIC if not code.is_list:
            return f"is_true_number({code.item})"
        case Type.BOOLEAN if code.is_single:
            return f"any({code.text})"
        case Type.EMPTY:
            return "False"
    raise NotTranslatable(f"{code.type.value} as a condition")


def to_existence_test(code: PythonCode) -> str:
    """Return a Python expression for whether there is any item."""
    if not code.is_list:  # evaluating the item may fail even though it exists
        return "True" if code.item.isidentifier() else f"bool([{code.item}])"
    return f"has({code.item})" if code.is_iterator and not code.clauses else code.text
