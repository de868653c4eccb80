"""Translated expressions: Python source text and the static type of its value."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum

from demaq.language import ast


class NotTranslatable(Exception):
    """Raised for an expression that only Saxon evaluates; the message names the construct that is the reason.

    `code` is a key of `reasons.HINTS`; by default it follows from the kind of the node. `node` is the offending
    expression; by default the innermost one that was being translated. `hint` says how to write it natively; by
    default it follows from the code. `describe_reason` makes a `Reason` of it.
    """

    def __init__(
        self, text: str, code: str | None = None, node: ast.Node | None = None, hint: str | None = None
    ) -> None:
        super().__init__(text)
        self.code = code
        self.node = node
        self.hint = hint

    def add_node(self, node: ast.Node) -> None:
        """Set the offending expression, unless an inner one is known."""
        if self.node is None:
            self.node = node


class Type(Enum):
    """The type of the items of a value, and how it is represented in Python."""

    DOCUMENT = "document"
    """A document node, represented by its root element."""
    ELEMENT = "element"
    """An element of some message."""
    MADE = "made"
    """A constructed element, which has no parent, represented by its markup."""
    ATTRIBUTE = "attribute"
    """An attribute node, represented by its value. All attributes of a list have one name, without namespace."""
    ATTRIBUTES = "attributes"
    """An attribute node whose name is known only at run time, or has a namespace: an `Attribute`."""
    TEXT = "text"
    """A text node, represented by a string."""
    NODE = "node"
    """A child of an element: an element, comment or processing instruction of lxml, or a string for a text node."""
    UNTYPED = "untyped"
    """A value of type xs:untypedAtomic, represented by a string."""
    STRING = "string"
    INTEGER = "integer"
    DECIMAL = "decimal"
    DOUBLE = "double"
    FLOAT = "float"
    NUMERIC = "numeric"
    """An integer or a double, known only at run time by its Python type. The sum of an empty sequence is an integer."""
    BOOLEAN = "boolean"
    ANY_URI = "anyURI"
    """Represented by a string."""
    DATE = "date"
    DATE_TIME = "dateTime"
    TIME = "time"
    DAY_TIMES = "dayTimeDuration"
    YEAR_MONTHS = "yearMonthDuration"
    ATOMIC = "atomic"
    """Values of any atomic types, known only at run time by their Python types; see `native/atomic_values.py`."""
    ERROR = "error"
    """No value: the expression fails, and Saxon reports the error."""
    ITEM = "item"
    """Nodes and atomic values, known only at run time by their Python types; see `native/items.py`."""
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


NODES = frozenset({Type.DOCUMENT, Type.ELEMENT, Type.MADE, Type.ATTRIBUTE, Type.ATTRIBUTES, Type.TEXT, Type.NODE})
STRINGS = frozenset({Type.UNTYPED, Type.STRING})
NUMBERS = frozenset({Type.INTEGER, Type.DOUBLE, Type.NUMERIC})
MOMENTS = frozenset({Type.DATE, Type.DATE_TIME, Type.TIME})
DURATIONS = frozenset({Type.DAY_TIMES, Type.YEAR_MONTHS})
NUMERIC_TYPES = NUMBERS | {Type.DECIMAL, Type.FLOAT}
ATOMIC_TYPES = STRINGS | NUMERIC_TYPES | MOMENTS | DURATIONS | {Type.BOOLEAN, Type.ANY_URI, Type.ATOMIC}
NO_VALUES = frozenset({Type.EMPTY, Type.DONE})


_numbers = itertools.count()


def new_name() -> str:
    """Return a Python variable name that no other expression uses."""
    return f"v{next(_numbers)}"


@dataclass(frozen=True, slots=True)
class Maybe:
    """An item that is there or not, as one Python value, which is cheaper than a list."""

    name: str
    """The variable that it is bound to."""
    value: str
    """A Python expression for the item, or None."""
    test: str
    """A Python condition for whether it is there."""
    sure: str
    """A Python expression for the item if it is there."""
    listed: str
    """A Python expression for the list of it."""

    @property
    def binding(self) -> str:
        """Return the clause of a comprehension that binds the variable, to None if the item is not there."""
        return f"for {self.name} in ({self.value},)"

    @property
    def clauses(self) -> str:
        """Return the clauses of a comprehension over it."""
        return f"{self.binding} if {self.name} is not None"


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
    is_fitted: bool = False
    """For constructed elements: whether they were translated as content of the element that they are put into."""
    name: str = ""
    """For attributes: their name."""
    is_own: bool = False
    """For nodes: whether they are all of the message itself."""
    made_of: Maybe | None = None
    """For a list whose clauses were once those of this; see `maybe`."""
    any_of: tuple[str, str] = ("", "")
    """For a condition that was once `any([…])` of these, with at most one iteration; see `filter`."""

    @property
    def maybe(self) -> Maybe | None:
        """Return what the item is computed from, if the list is of nothing but that."""
        return self.made_of if self.made_of is not None and self.clauses == self.made_of.clauses else None

    @property
    def bare(self) -> Maybe | None:
        """Return what the item is, if it is there or not, and not computed."""
        maybe = self.maybe
        return maybe if maybe is not None and self.item == maybe.name else None

    @property
    def filter(self) -> str:
        """Return a condition as clauses of a comprehension, which are passed once if it holds, and not otherwise."""
        item, clauses = self.any_of
        if item and self.item == f"any([{item} {clauses}])":
            return f"{clauses} if {item}"
        if self.type is Type.BOOLEAN and self.is_list and self.is_single and self.clauses:
            return f"{self.clauses} if {self.item}"
        return f"if {to_condition(self)}"

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
            return self.bare.listed if self.bare is not None else f"[{self.item} {self.clauses}]"
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


def make_maybe(maybe: Maybe, type_: Type, name: str = "", is_own: bool = False) -> PythonCode:
    """Return the code of a list of at most one item."""
    return PythonCode(
        maybe.name,
        type_,
        is_list=True,
        clauses=maybe.clauses,
        order=Order.FLAT,
        is_single=True,
        name=name,
        is_own=is_own,
        made_of=maybe,
    )


def sort_nodes(code: PythonCode, are_documents_sorted: bool = False) -> PythonCode:
    """Return the nodes in document order without duplicates.

    `are_documents_sorted` says that nodes of different documents are in order, as after a step from sorted nodes.
    Otherwise nodes of several documents are left to Saxon at run time: only it knows their order.

    Raises NotTranslatable for attributes and texts, which have no identity here.
    """
    if code.is_sorted:
        return code
    if code.type not in (Type.ELEMENT, Type.DOCUMENT):
        raise NotTranslatable(f"the document order of {code.type.value} nodes")
    function = "ordered" if code.is_own or are_documents_sorted else "united"
    return replace(make_list(f"{function}({code.text})", code.type, Order.SORTED), is_own=code.is_own)


def make_loop(code: PythonCode, name: str | None = None) -> PythonCode:
    """Return the same items as a list with clauses, in which the item is a variable, of a name if one is given."""
    if code.clauses and name is None and code.item.isidentifier():
        return code
    name = name or new_name()
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
    return replace(loop, item=item.format(loop.item), type=type_, order=Order.UNKNOWN, is_fitted=False, name="")


EMPTY = PythonCode("[]", Type.EMPTY, is_list=True, order=Order.FLAT, is_single=True)
ERROR = PythonCode("fail()", Type.ERROR, is_list=True, order=Order.FLAT, is_single=True, is_fitted=True)
"""A call of fn:error: Saxon is asked, and reports it."""


def to_list(code: PythonCode) -> PythonCode:
    return code if code.is_list else replace(code, item=code.list_text, is_list=True, is_single=True)


def tag_atomic(code: PythonCode) -> PythonCode:
    """Return atomic values of a known type as ones that show it at run time."""
    if code.type not in _TAGS:
        return replace(code, type=Type.ATOMIC)
    if not code.is_list:
        return replace(code, item=f"{_TAGS[code.type]}({code.item})", type=Type.ATOMIC)
    return replace(map_items(code, f"{_TAGS[code.type]}({{}})", Type.ATOMIC), is_single=code.is_single)


_TAGS = {Type.UNTYPED: "Untyped", Type.ANY_URI: "AnyUri"}


def atomize(code: PythonCode) -> PythonCode:
    """Return the atomized value: a list of the typed values of nodes, other items unchanged."""
    match code.type:
        case Type.DOCUMENT | Type.ELEMENT:
            return map_items(code, "string_of({})", Type.UNTYPED)
        case Type.MADE:
            return map_items(code, "string_of_made({})", Type.UNTYPED)
        case Type.ATTRIBUTES:
            return map_items(code, "{}.value", Type.UNTYPED)
        case Type.NODE:
            return map_items(code, "value_of_node({})", Type.UNTYPED)
        case Type.ITEM:
            return map_items(code, "value_of_item({})", Type.ATOMIC)
        case Type.ATTRIBUTE | Type.TEXT:
            return replace(to_list(code), type=Type.UNTYPED, order=Order.UNKNOWN, name="")
        case Type.DONE:
            raise NotTranslatable("the value of an action")
    return to_list(code)


def atomize_item(code: PythonCode) -> PythonCode:
    """Return the atomized value, which is a list only if the value is one."""
    if code.is_list or (code.type not in NODES and code.type is not Type.ITEM):
        return code if code.type in ATOMIC_TYPES else atomize(code)
    found = atomize(code)
    return PythonCode(found.item.removeprefix("[").removesuffix("]"), found.type)


def map_values(code: PythonCode, template: str, type_: Type) -> PythonCode:
    """Return an expression for the item, or for each item of a list; `{}` in it stands for the item."""
    if code.is_list:
        return map_items(code, template, type_)
    return PythonCode(template.format(code.item), type_)


_SIMPLE = re.compile(r"\w+|-?[0-9.e+-]+|Decimal\('[0-9.]+'\)|'[^'\\]*'")


def is_simple(item: str) -> bool:
    """Return whether an expression is a variable or a literal, which may be evaluated repeatedly or never."""
    return _SIMPLE.fullmatch(item) is not None


def lift(codes: Sequence[PythonCode], template: str, type_: Type) -> PythonCode:
    """Return a function of values: `{}` in the template stands for each of them.

    If one of them may be empty, the result is a list, which is empty if one of them is. All are evaluated in any case.
    """
    if not any([code.is_list for code in codes]):
        return PythonCode(template.format(*[code.item for code in codes]), type_)
    if len(codes) == 1:
        return map_items(require_at_most_one(codes[0]), template, type_)
    lists, loops, items = "", "", []
    for code in codes:
        if not code.is_list:
            item = code.item if is_simple(code.item) else new_name()
            lists += "" if item == code.item else f"for {item} in ({code.item},) "
            items.append(item)
            continue
        found = require_at_most_one(code)
        if not loops:  # it may be evaluated last, after all others
            loop = make_loop(found)
            loops = f"{loop.clauses} "
            items.append(loop.item)
            continue
        maybe = found.maybe
        if maybe is not None:
            item = maybe.name if found.bare is not None else new_name()
            lists += f"{maybe.binding} "
            if item != maybe.name:
                lists += f"for {item} in ((None if {maybe.name} is None else {found.item}),) "
            loops += f"if {item} is not None "
            items.append(item)
            continue
        values, item = new_name(), new_name()
        lists += f"for {values} in ({found.text},) "
        loops += f"for {item} in {values} "
        items.append(item)
    clauses = (lists + loops).rstrip()
    return PythonCode(template.format(*items), type_, is_list=True, clauses=clauses, is_single=True)


_DECIMAL_LITERAL = re.compile(r"Decimal\('([0-9.]+)'\)")
_NOT_ZERO = re.compile(r"[0.]*[1-9]")


def to_double_literal(code: PythonCode) -> PythonCode | None:
    """Return a decimal literal as a double; None if it is no literal."""
    found = _DECIMAL_LITERAL.fullmatch(code.item)
    if found is None:
        return None
    value = float(found[1])
    if not math.isfinite(value) or (value == 0 and _NOT_ZERO.match(found[1])):
        raise NotTranslatable("a number that no double is near to")
    return PythonCode(repr(value), Type.DOUBLE)


def to_strings(code: PythonCode) -> PythonCode:
    """Return the atomized value as a list of strings."""
    found = atomize(code)
    if found.type in (Type.UNTYPED, Type.STRING, Type.EMPTY):
        return found
    if found.type is Type.ANY_URI:
        return replace(found, type=Type.STRING)
    if found.type in _TEXTS:
        return map_items(found, _TEXTS[found.type], Type.STRING)
    raise NotTranslatable(f"the text of {found.type.value}")


def needs_escape(code: PythonCode) -> bool:
    """Return whether the text of a value may have characters that are escaped in XML."""
    return code.type not in _TEXTS or code.type is Type.ATOMIC


def write_item(type_: Type) -> str:
    """Return how an atomic value is written; `{}` in it stands for the value."""
    return _TEXTS.get(type_, "{}")


_TEXTS = {
    Type.INTEGER: "str({})",
    Type.DECIMAL: "show_decimal({})",
    Type.DOUBLE: "double_text({})",
    Type.FLOAT: "single_text({})",
    Type.NUMERIC: "number_text({})",
    Type.BOOLEAN: "('true' if {} else 'false')",
    Type.DATE: "moment_text({})",
    Type.DATE_TIME: "moment_text({})",
    Type.TIME: "moment_text({})",
    Type.DAY_TIMES: "day_times_text({})",
    Type.YEAR_MONTHS: "year_months_text({})",
    Type.ATOMIC: "text_of({})",
}
"""How a value of a type is written."""


def to_string(code: PythonCode) -> str:
    """Return the value as one string; an empty sequence is the empty string."""
    if not code.is_list and (code.type in STRINGS or code.type is Type.ANY_URI):
        return code.item
    if not code.is_list and code.type in _TEXTS:
        return _TEXTS[code.type].format(code.item)
    if not code.is_list and code.type in (Type.DOCUMENT, Type.ELEMENT):
        return f"string_of({code.item})"
    found = to_strings(code)
    return f"one_text({found.text})" if found.bare is None else f"({found.bare.value} or '')"


def to_string_argument(code: PythonCode) -> str:
    """Return the value for a parameter of type xs:string?; an empty sequence is the empty string.

    Only nodes are cast (XQuery 3.1, 3.1.5.2, function conversion rules).
    """
    if code.type in NODES or code.type in STRINGS or code.type in (Type.EMPTY, Type.ANY_URI):
        return to_string(code)
    if code.type is Type.ATOMIC:
        found = map_values(code, "expect_text({})", Type.STRING)
        return f"one_text({found.text})" if found.is_list else found.item
    raise NotTranslatable(f"{code.type.value} where a string is expected")


def join_strings(code: PythonCode, separator: str) -> str:
    """Return all values as one string, separated."""
    if not code.is_list and code.type not in NODES:
        return to_string(code)
    found = to_strings(code)
    return f"{separator!r}.join({found.text})" if found.bare is None else f"({found.bare.value} or '')"


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
        case _ if code.type in ATOMIC_TYPES and code.type not in MOMENTS | DURATIONS:
            return f"is_true({code.list_text})"
        case Type.EMPTY:
            return "False"
        case Type.ITEM:
            return f"are_true({code.list_text})"
    raise NotTranslatable(f"{code.type.value} as a condition")


def to_existence_test(code: PythonCode) -> str:
    """Return a Python expression for whether there is any item."""
    if not code.is_list:  # evaluating the item may fail even though it exists
        return "True" if code.item.isidentifier() else f"bool([{code.item}])"
    if code.bare is not None:
        return code.bare.test
    return f"has({code.item})" if code.is_iterator and not code.clauses else code.text
