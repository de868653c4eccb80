"""Pick the candidates among many rules by what a message has: the filter of a queue plan, on an lxml tree."""

from __future__ import annotations

from collections.abc import Iterable

from lxml.etree import _Element

from demaq.compiler.plan import Feature, QueuePlan
from demaq.evaluation.native.nodes import string_of


class RulePicker:
    """Picks exactly the rules that the query of `emit_batch_query` picks."""

    def __init__(self, plan: QueuePlan) -> None:
        self._always = plan.always
        self._roots: dict[str, tuple[int, ...]] = {}
        self._elements = _Names()
        self._attributes = _Names()
        for feature, positions in plan.picks.items():
            if feature.kind == "root":
                self._roots[_tag(feature)] = positions
            else:
                (self._elements if feature.kind == "element" else self._attributes).add(feature, positions)
        self._tags = tuple(self._elements.positions)

    def pick(self, root: _Element) -> list[int]:
        """Return the positions of the candidates for a message, in order."""
        found = {*self._always, *self._roots.get(str(root.tag), ())}
        if self._tags:
            named = self._elements
            for element in root.iter(*self._tags):
                tag = str(element.tag)
                found.update(named.positions[tag])
                if tag in named.values:
                    found.update(named.values[tag].get(string_of(element), ()))
        if self._attributes.positions:
            named = self._attributes
            for element in root.iter():
                for name, value in _attributes(element):
                    if name in named.positions:
                        found.update(named.positions[name])
                        found.update(named.values.get(name, {}).get(value, ()))
        return sorted(found)


class _Names:
    """Elements or attributes that rules require."""

    def __init__(self) -> None:
        self.positions: dict[str, tuple[int, ...]] = {}
        """By name: the rules that need it with any value; all names are here."""
        self.values: dict[str, dict[str, tuple[int, ...]]] = {}
        """By name and value: the rules that need it with this value."""

    def add(self, feature: Feature, positions: tuple[int, ...]) -> None:
        tag = _tag(feature)
        if feature.value is None:
            self.positions[tag] = positions
        else:
            self.positions.setdefault(tag, ())
            self.values.setdefault(tag, {})[feature.value] = positions


def _tag(feature: Feature) -> str:
    """Return a name in lxml's notation."""
    return f"{{{feature.uri}}}{feature.local}" if feature.uri else feature.local


def _attributes(element: _Element) -> Iterable[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in element.attrib.items()]
