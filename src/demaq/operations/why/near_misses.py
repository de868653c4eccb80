"""What the author may have meant: a name in another namespace, another case, white space, numbers compared as texts."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence

from demaq.evaluation.saxon.rule_probe import ProbedItem, ProbedValue
from demaq.language.analysis.missed_names import attribute_hint, describe_namespace, namespace_hint
from demaq.suggestions import Suggestions

NAMES_LISTED = 6

_TEXTS = frozenset({"untyped", "xs:string", "element", "attribute", "document", "text"})
_EQUAL = frozenset({"=", "eq"})
_ORDERS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "lt": operator.lt,
    "<=": operator.le,
    "le": operator.le,
    ">": operator.gt,
    "gt": operator.gt,
    ">=": operator.ge,
    "ge": operator.ge,
}


def similar_name(
    wanted: tuple[str | None, str], found: Sequence[tuple[str, str]], prefixes: Mapping[str, str], sigil: str
) -> str | None:
    """Return a hint about a name that is there instead of the one that was asked for. `sigil` is `@` or nothing."""
    uri, local = wanted
    if uri is not None and local != "*":
        others = [other for other, name in found if name == local and other != uri]
        if others:
            there, asked = describe_namespace(others[0]), describe_namespace(uri)
            hint = attribute_hint if sigil else namespace_hint
            return f"{sigil}{local} is {asked} here, and {there} in the document: {hint(local, others[0], prefixes)}"
    same = [name for name in found if name[1].casefold() == local.casefold() and name[1] != local]
    if same:
        return f"there is {_write_name(same[0], prefixes, sigil)}: upper and lower case differ"
    close = Suggestions().closest(local, [name for _, name in found if name != local])
    return f"did you mean {sigil}{close}?" if close is not None else None


def list_names(found: Sequence[tuple[str, str]], prefixes: Mapping[str, str], sigil: str) -> str:
    """Return names that are there, as the module would write them where it has a prefix for them."""
    shown = [_write_name(name, prefixes, sigil) for name in found[:NAMES_LISTED]]
    return ", ".join([*shown, *(["…"] if len(found) > NAMES_LISTED else [])])


def _write_name(name: tuple[str, str], prefixes: Mapping[str, str], sigil: str) -> str:
    uri, local = name
    if not uri:
        return f"{sigil}{local}"
    declared = [prefix for prefix, other in prefixes.items() if prefix and other == uri]
    return f"{sigil}{declared[0]}:{local}" if declared else f"{sigil}Q{{{uri}}}{local}"


def comparison_hint(left: ProbedValue, symbol: str, right: ProbedValue) -> str | None:
    """Return what keeps values from being equal, or in this order, that look as if they were."""
    pairs = [(one, other) for one in left.items for other in right.items]
    for one, other in pairs:
        if one.kind not in _TEXTS or other.kind not in _TEXTS:
            continue
        if symbol in _EQUAL:
            found = _describe_difference(one, other)
            if found is not None:
                return found
        elif symbol in _ORDERS:
            numbers = _number(one.text), _number(other.text)
            if numbers[0] is not None and numbers[1] is not None and _ORDERS[symbol](numbers[0], numbers[1]):
                return (
                    "both are texts and are compared as texts; number(…) on one side makes it a comparison of numbers"
                )
    return None


def _describe_difference(one: ProbedItem, other: ProbedItem) -> str | None:
    if " ".join(one.text.split()) == " ".join(other.text.split()):
        return "they differ in white space only: normalize-space(…) removes it"
    if " ".join(one.text.split()).casefold() == " ".join(other.text.split()).casefold() and (
        one.text.casefold() != other.text.casefold()
    ):
        return "they differ in white space and case only: compare lower-case(normalize-space(…)) of both"
    if one.text.casefold() == other.text.casefold():
        return "they differ in upper and lower case only: compare lower-case(…) of both"
    numbers = _number(one.text), _number(other.text)
    if numbers[0] is not None and numbers[0] == numbers[1]:
        return "both are texts and are compared as texts; as numbers, by number(…) on one side, they are equal"
    return None


def _number(text: str) -> float | None:
    try:
        return float(text) if text.strip() and "_" not in text else None
    except ValueError:
        return None
