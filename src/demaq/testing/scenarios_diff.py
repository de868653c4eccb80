"""What differs between the messages that were expected and those that are there, as a unified diff of their XML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import unified_diff

from demaq.testing.lab import LabMessage
from demaq.testing.scenarios_layout import layout, prefixes_of
from demaq.testing.scenarios_steps import Expected
from demaq.testing.scenarios_xml import WILDCARDS, ComparedDocument, fill_wildcards, matches, read_body

ALIGNED_MAX = 200
"""Longer lists are compared position by position: aligning takes the product of their lengths."""


def difference(expected: Sequence[Expected], messages: Sequence[LabMessage], any_order: bool) -> str | None:
    """Return a diff of what was expected and what is there; None if all is as expected."""
    actual = [_Actual(message, read_body(message.body), read_body(message.body, exact=True)) for message in messages]

    def fits(one: int, other: int) -> bool:
        return _fits(expected[one], actual[other])

    if any_order:
        pairs = _match_pairs(len(expected), len(actual), fits)
    else:
        pairs = _alignment(len(expected), len(actual), fits)
    if len(pairs) == len(expected) == len(actual):
        return None
    return _diff(expected, actual, pairs, any_order)


@dataclass(frozen=True, slots=True)
class _Actual:
    message: LabMessage
    body: ComparedDocument
    exact: ComparedDocument

    def body_for(self, expected: Expected | None) -> ComparedDocument:
        return self.exact if expected is not None and expected.exact else self.body


def _fits(expected: Expected, actual: _Actual) -> bool:
    for name, value in expected.properties.items():
        found = actual.message.properties.get(name)
        if (found is None) if value in WILDCARDS else (found != value):
            return False
    return expected.body is None or matches(expected.body.root, actual.body_for(expected).root)


# --- which expected message is which ---------------------------------------------------------------------------------

_Fits = Callable[[int, int], bool]


def _alignment(expected: int, actual: int, fits: _Fits) -> dict[int, int]:
    """Return the longest row of messages that fit, in order. All of them, when all is as expected."""
    if expected == actual and all([fits(position, position) for position in range(actual)]):
        return {position: position for position in range(actual)}
    if max(expected, actual) > ALIGNED_MAX:
        return {position: position for position in range(min(expected, actual)) if fits(position, position)}
    longest = [[0] * (actual + 1) for _ in range(expected + 1)]
    fitting = [[fits(one, other) for other in range(actual)] for one in range(expected)]
    for one in reversed(range(expected)):
        for other in reversed(range(actual)):
            here = longest[one + 1][other + 1] + 1 if fitting[one][other] else 0
            longest[one][other] = max(here, longest[one + 1][other], longest[one][other + 1])
    pairs: dict[int, int] = {}
    one = other = 0
    while one < expected and other < actual:
        if fitting[one][other] and longest[one][other] == longest[one + 1][other + 1] + 1:
            pairs[one] = other
            one, other = one + 1, other + 1
        elif longest[one + 1][other] >= longest[one][other + 1]:
            one += 1
        else:
            other += 1
    return pairs


def _match_pairs(expected: int, actual: int, fits: _Fits) -> dict[int, int]:
    """Return as many pairs as possible, whatever the order: a wildcard gives way to whom only one message fits."""
    holder: dict[int, int] = {}

    def place(one: int, tried: set[int]) -> bool:
        for other in range(actual):
            if other not in tried and fits(one, other):
                tried.add(other)
                if other not in holder or place(holder[other], tried):
                    holder[other] = one
                    return True
        return False

    for one in range(expected):
        place(one, set())
    return {one: other for other, one in holder.items()}


# --- how it is shown -------------------------------------------------------------------------------------------------


def _diff(expected: Sequence[Expected], actual: Sequence[_Actual], pairs: dict[int, int], any_order: bool) -> str:
    beside = _align_pairs(len(expected), len(actual), pairs)
    owner = {other: one for one, other in beside.items()}
    prefixes = prefixes_of([*[item.body for item in expected if item.body], *[item.body for item in actual]])
    left: list[str] = []
    right: list[str] = []
    for one, wanted in enumerate(expected):
        if one in pairs and any_order:
            continue
        partner = actual[beside[one]] if one in beside else None
        left += _expected_lines(wanted, partner, one in pairs, prefixes)
    for other, found in enumerate(actual):
        if any_order and owner.get(other) in pairs:
            continue
        asker = expected[owner[other]] if other in owner else None
        right += _actual_lines(found, asker, prefixes)
    # Each message ends with an empty line, which sets it off from the next; after the last there is none.
    return "\n".join(unified_diff(left[:-1], right[:-1], "expected", "actual", lineterm=""))


def _align_pairs(expected: int, actual: int, pairs: dict[int, int]) -> dict[int, int]:
    """Return the pairs, and those that stand at the same place between pairs: the likeliest to have been meant."""
    found = dict(pairs)
    taken = set(pairs.values())
    other = 0
    for one in range(expected):
        if one in pairs:
            other = pairs[one] + 1
            continue
        following = min([pairs[later] for later in pairs if later > one], default=actual)
        free = [number for number in range(other, following) if number not in taken]
        if free:
            found[one] = free[0]
            taken.add(free[0])
            other = free[0] + 1
    return found


def _expected_lines(
    wanted: Expected, partner: _Actual | None, fits: bool, prefixes: dict[str, str | None]
) -> list[str]:
    if fits and partner is not None:
        return _actual_lines(partner, wanted, prefixes)
    lines: list[str] = []
    for name, value in wanted.properties.items():
        found = partner.message.properties.get(name) if partner is not None else None
        lines.append(_property_line(name, found if value in WILDCARDS and found is not None else value))
    if wanted.body is None:
        return [*lines, *(layout(partner.body.root, prefixes) if partner else ["…"]), ""]
    root = fill_wildcards(wanted.body.root, partner.body_for(wanted).root) if partner is not None else wanted.body.root
    return [*lines, *layout(root, prefixes), ""]


def _actual_lines(found: _Actual, asker: Expected | None, prefixes: dict[str, str | None]) -> list[str]:
    asked = asker.properties if asker is not None else {}
    lines = [_property_line(name, found.message.properties.get(name)) for name in asked]
    return [*lines, *layout(found.body_for(asker).root, prefixes), ""]


def _property_line(name: str, value: str | None) -> str:
    return f"without {name}" if value is None else f"with {name} = {value}"
