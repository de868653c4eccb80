"""The functions that translated expressions call. What they cannot compute exactly they leave to Saxon: `NeedsSaxon`.

Elements are those of plain documents: they hold elements, attributes and text, and nothing else.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from types import FunctionType
from typing import Any, TypeVar

from lxml.etree import _Element

from demaq.compiler.emit.python.code import NotTranslatable
from demaq.xml_parsers import file_parser


class NeedsSaxon(Exception):
    """Raised for what native rules leave to Saxon."""


T = TypeVar("T")

CHARACTERS_MAX = 50_000
"""Compiling a longer text would take longer than it saves."""

_SPACE = " \t\r\n"
_SPACES = re.compile(f"[{_SPACE}]+")
_DOUBLE = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,15}")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")
DIGITS_MAX = 18
"""Decimals with so many digits are exact in Python and in Saxon."""
_SPECIAL = ("INF", "+INF", "-INF", "NaN")
_PLAIN_MIN, _PLAIN_MAX = 1e-6, 1e6
"""Doubles between these are written without an exponent."""

_EXACT_MAX = 2**53
"""Every integer up to here is a double."""
_CERTAIN_DIGITS = 15
"""Of numbers with so many digits no two are read as the same double."""

# --- nodes ---


def root_of(element: _Element) -> _Element:
    return element.getroottree().getroot()


def root_named(root: _Element, tag: str) -> list[_Element]:
    return [root] if root.tag == tag else []


def has(items: Iterator[object]) -> bool:
    return next(items, None) is not None


def attribute(element: _Element, name: str) -> list[str]:
    value = element.get(name)
    return [] if value is None else [value]


def texts_in(element: _Element) -> list[str]:
    """Return the text nodes among the children of an element."""
    return [text for text in [element.text, *[child.tail for child in element]] if text]


def string_of(element: _Element) -> str:
    if len(element):
        return "".join(element.itertext())
    return element.text or ""


def ordered(elements: list[_Element]) -> list[_Element]:
    """Return elements of one document in its order, each once."""
    wanted = set(elements)
    if len(wanted) <= 1:
        return elements[:1]
    line = [elements[0], *elements[0].iterancestors()]
    heights = {element: height for height, element in enumerate(line)}
    top = 0
    for element in wanted:
        above: _Element | None = element
        while above is not None and above not in heights:
            above = above.getparent()
        if above is None:
            raise NeedsSaxon("elements of several documents")
        top = max(top, heights[above])
    return [element for element in line[top].iter() if element in wanted]


def merged(groups: list[list[_Element]]) -> list[_Element]:
    """Return the elements of all groups in document order; each group is in order."""
    return groups[0] if len(groups) == 1 else ordered([element for group in groups for element in group])


def side_by_side(elements: list[_Element]) -> list[_Element]:
    """Return elements in document order. Raises NeedsSaxon if one is inside another."""
    known = set(elements)
    if len(known) < len(elements) or any([outer in known for each in elements for outer in each.iterancestors()]):
        raise NeedsSaxon("elements inside each other")
    return elements


def siblings(elements: Iterable[_Element]) -> list[list[_Element]]:
    """Return elements grouped by their parents."""
    groups: dict[_Element | None, list[_Element]] = {}
    for element in elements:
        groups.setdefault(element.getparent(), []).append(element)
    return list(groups.values())


def item_at(items: list[T], position: int) -> list[T]:
    return items[position - 1 : position] if position else []


# --- values ---


def at_most_one(items: Sequence[T]) -> Sequence[T]:
    if len(items) > 1:
        raise NeedsSaxon("more than one item")
    return items


def only(items: Sequence[T]) -> T:
    if len(items) != 1:
        raise NeedsSaxon("not exactly one item")
    return items[0]


def one_text(texts: Sequence[str]) -> str:
    if len(texts) > 1:
        raise NeedsSaxon("more than one item")
    return texts[0] if texts else ""


def normalized(text: str) -> str:
    return _SPACES.sub(" ", text.strip(_SPACE))


def double(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise NeedsSaxon("no number") from None
    # Python accepts more than XQuery, or reads it as another number. XML has no other white space inside.
    if not text.isascii() or "_" in text or not math.isfinite(value) or _is_negative_zero(value):
        raise NeedsSaxon("no ordinary number")
    return value


def integer(text: str) -> int:
    if not _INTEGER.fullmatch(text.strip(_SPACE)):
        raise NeedsSaxon("no integer, or a large one")
    return int(text)


def boolean_text(text: str) -> str:
    match text.strip(_SPACE):
        case "true" | "1":
            return "true"
        case "false" | "0":
            return "false"
    raise NeedsSaxon("no boolean")


def decimal_text(text: str) -> str:
    """Return a decimal as XQuery writes it."""
    bare = text.strip(_SPACE)
    if len(bare) > DIGITS_MAX or not _DECIMAL.fullmatch(bare):
        raise NeedsSaxon("no decimal, or a long one")
    value = Decimal(bare)
    return str(int(value)) if value == int(value) else format(value.normalize(), "f")


def double_text(value: float) -> str:
    """Return a double as XQuery writes it."""
    if not math.isfinite(value) or _is_negative_zero(value):
        raise NeedsSaxon("no ordinary number")
    if value == 0:
        return "0"
    if value.is_integer() and abs(value) < _PLAIN_MAX:
        return str(int(value))
    shown = Decimal(repr(value)).normalize()  # the nearest of the shortest numbers that are read as this one
    sign, digits, exponent = shown.as_tuple()
    assert isinstance(exponent, int), "it is finite"
    is_certain = len(digits) <= _CERTAIN_DIGITS
    if _PLAIN_MIN <= abs(value) < _PLAIN_MAX:
        if not is_certain and Decimal(value).as_tuple().exponent == exponent - 1:  # it has a 5 more: half a digit
            raise NeedsSaxon("a number with another one as near to it, which Saxon prefers")
        return format(shown, "f")
    if not is_certain or abs(value) > _EXACT_MAX or abs(value) < sys.float_info.min:
        raise NeedsSaxon("a number for which Saxon may write another one that is not the nearest")
    first, rest = digits[0], "".join([str(digit) for digit in digits[1:]]) or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{exponent + len(digits) - 1}"


def number_text(value: float) -> str:
    """Return an integer or a double as XQuery writes it."""
    return str(value) if isinstance(value, int) else double_text(value)


def is_true_number(value: float) -> bool:
    return value == value and value != 0  # NaN is false, and not itself


def comparable(value: float) -> float:
    """Return a number that is compared with an untyped one or one of another type: then Saxon has -0 less than 0."""
    if isinstance(value, int):
        if abs(value) > _EXACT_MAX:
            raise NeedsSaxon("an integer that no double may be equal to")
    elif _is_negative_zero(value):
        raise NeedsSaxon("no ordinary number")
    return value


def _is_negative_zero(value: float) -> bool:
    return value == 0 and math.copysign(1, value) < 0


def certain_double(value: float) -> float:
    """Return a sum that is an operand together with a decimal. Raises NeedsSaxon for an integer."""
    if isinstance(value, int):
        raise NeedsSaxon("an integer where a double was expected")
    return value


def max_double(values: Sequence[float]) -> float:
    return max(_ordinary(values))


def min_double(values: Sequence[float]) -> float:
    return min(_ordinary(values))


def _ordinary(values: Sequence[float]) -> Sequence[float]:
    """Return numbers for which Python and Saxon have the same order."""
    if any([math.isnan(value) or _is_negative_zero(value) for value in values]):
        raise NeedsSaxon("no ordinary number")
    return values


def total(values: Sequence[float]) -> float:
    """Return the sum, added one by one: Python's own sum corrects rounding errors. The sum of none is an integer."""
    if not values:
        return 0
    found = values[0]  # the sum of one is that one, also of -0
    for value in values[1:]:
        found += value
    return found


def any_equal(some: Sequence[str], others: Sequence[str]) -> bool:
    return not set(some).isdisjoint(others)


def any_unequal(some: Sequence[str], others: Sequence[str]) -> bool:
    return len({*some, *others}) > 1 if some and others else False


def entries(values: Iterable[str]) -> list[str]:
    """Return the index entries of values: each as a string, and also as a number if it is one."""
    found: dict[str, None] = {}
    for value in values:
        found["s" + value] = None
        bare = value.strip(_SPACE)
        if _DOUBLE.fullmatch(bare):
            found["n" + double_text(float(bare) + 0.0)] = None
        elif bare in _SPECIAL:
            raise NeedsSaxon("no ordinary number")
    return list(found)


# --- new elements ---

new = file_parser().makeelement


def with_attribute(element: _Element, name: str, value: str) -> _Element:
    element.set(name, value)
    return element


def with_attributes(element: _Element, name: str, values: Iterable[str]) -> _Element:
    for value in values:
        if len(element) or element.text or element.get(name) is not None:
            raise NeedsSaxon("an attribute after other content, or one that is there")
        element.set(name, value)
    return element


def with_text(element: _Element, text: str) -> _Element:
    if text:
        if len(element):
            last = element[-1]
            last.tail = (last.tail or "") + text
        else:
            element.text = (element.text or "") + text
    return element


def with_made(element: _Element, child: _Element) -> _Element:
    if element.nsmap:
        _expect_fitting(element, child)
    element.append(child)
    return element


def with_all(element: _Element, children: Iterable[_Element]) -> _Element:
    for child in children:
        with_made(element, child)
    return element


def with_copies(element: _Element, children: Iterable[_Element]) -> _Element:
    for child in children:
        with_made(element, copied(child))
    return element


def _expect_fitting(element: _Element, child: _Element) -> None:
    """Raise NeedsSaxon if namespaces have other prefixes inside: lxml would replace them by its own."""
    prefixes = {namespace: prefix for prefix, namespace in element.nsmap.items()}
    for each in child.iter():
        for prefix, namespace in each.nsmap.items():
            if prefixes.get(namespace, prefix) != prefix or element.nsmap.get(prefix, namespace) != namespace:
                raise NeedsSaxon("a namespace with another prefix inside")


def copied(element: _Element) -> _Element:
    """Return a copy with all namespaces that are in scope."""
    nsmap = element.nsmap
    if not nsmap:
        made: _Element = element.__copy__()  # type: ignore[attr-defined]
        if made.tail is not None:
            made.tail = None
        return made
    try:
        made = new(element.tag, element.attrib, nsmap)
    except ValueError:  # libxml2 accepts fewer URIs here than in its parser
        raise NeedsSaxon("a namespace that lxml does not make") from None
    made.text = element.text
    for child in element:
        made.append(child.__copy__())  # type: ignore[attr-defined]
    return made


CALLED: dict[str, Any] = {
    **{name: known for name, known in vars().items() if isinstance(known, FunctionType) and name[0] != "_"},
    "new": new,
}
"""What translated expressions can call, by name: the functions of this module."""


def load_function(text: str, name: str) -> Callable[..., Any]:
    """Return the function of a translated text; the name is for profiles. Raises NotTranslatable."""
    if len(text) > CHARACTERS_MAX:
        raise NotTranslatable("expressions that are too long")
    made: dict[str, Any] = {}
    try:
        exec(compile(text, f"<{name}>", "exec"), dict(CALLED), made)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise NotTranslatable("expressions that are nested too deeply") from error
    found: Callable[..., Any] = made["function"]
    return found
