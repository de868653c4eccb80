"""Compute properties and index entries of new messages, if all of their expressions are native."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lxml.etree import _Element

from demaq.compiler.emit.python.code import NotTranslatable
from demaq.compiler.emit.python.queue_code import IntakeText, PropertyText, emit_intake
from demaq.compiler.plan import Plan
from demaq.documents import Document
from demaq.evaluation.native.fallback import NeedsSaxon
from demaq.evaluation.native.health import NativeHealth, properties_of
from demaq.evaluation.native.native_functions import load_function
from demaq.evaluation.native.property_values import make_value
from demaq.messages import KEY_BYTES_MAX, PropertyValue

Texts = Callable[[_Element], list[str]]
Properties = dict[str, PropertyValue]
Explicit = Sequence[str] | Sequence[PropertyValue]
Entries = tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class _CompiledProperty:
    name: str
    type: str
    is_fixed: bool
    is_inherited: bool
    computed: Texts | None


class NativeProperties:
    """Computes them for the messages of one queue."""

    def __init__(self, text: IntakeText, queue: str = "", health: NativeHealth | None = None) -> None:
        """Exceptions are counted in `health`, if given. Raises NotTranslatable."""
        self._made = [_compile(each) for each in text.properties]
        self._indexes = [(number, load_function(entries, f"index {number}")) for number, entries in text.indexes]
        self._own = {each.name for each in self._made}
        self._health = health
        self._queue = queue
        self.computes = bool(self._made or self._indexes)
        """Whether there is anything to compute."""
        self.is_linear = text.is_linear
        self._timer_targets = text.timer_targets
        self.is_timer = text.timer_targets is not None
        """Whether messages must say when and where to."""

    def compute(
        self, document: Document, inherited: Mapping[str, PropertyValue] | None = None
    ) -> tuple[Properties, Entries] | None:
        """Return properties and index entries of a message without explicit properties; None if it needs Saxon."""
        if not self.computes:
            return {}, ()
        root = document.native_root
        if root is None or (self._health is not None and properties_of(self._queue) in self._health.withdrawn):
            return None
        try:
            return self.properties(root, {}, inherited or {}), self.entries(root)
        except NeedsSaxon:
            return None
        except Exception as error:
            if self._health is not None:
                self._health.note_fault(self._queue, properties_of(self._queue), None, error)
            return None

    def properties(
        self, root: _Element | None, explicit: Mapping[str, Explicit], parent: Mapping[str, PropertyValue]
    ) -> Properties:
        """Return the properties of a message, given its explicit ones and those of its parent. Raises NeedsSaxon.

        `root` may be None if nothing is computed.
        """
        found: Properties = {}
        for prop in self._made:
            text = None if prop.is_fixed else _single(_texts(explicit.get(prop.name, ())))
            if text is None and prop.is_inherited and prop.name in parent:
                value = parent[prop.name]
                if value.type != prop.type:
                    raise NeedsSaxon("a property that must be cast")
                found[prop.name] = value
                continue
            if text is None and prop.computed is not None:
                assert root is not None, "it is given if anything is computed"
                text = _single(prop.computed(root))
            if text is not None:
                found[prop.name] = make_value(prop.type, text)
        for name, values in explicit.items():
            if name in self._own:
                continue
            if values and isinstance(values[0], PropertyValue):
                found[name] = values[0]
                continue
            text = _single(_texts(values))
            if text is not None:
                found[name] = PropertyValue("string", text, text)
        if self._timer_targets is not None:
            self._expect_timer(found)
        return dict(sorted(found.items())) if len(found) > 1 else found

    def _expect_timer(self, found: Properties) -> None:
        """Raises NeedsSaxon if an echo queue does not know when and where to."""
        assert self._timer_targets is not None
        if "timeout" not in found or "target" not in found or found["target"].text not in self._timer_targets:
            raise NeedsSaxon("a timer without time or target")

    def entries(self, root: _Element) -> Entries:
        if not self._indexes:
            return ()
        return tuple([(number, entry) for number, values in self._indexes for entry in values(root)])


def compile_properties(queue: str, plan: Plan, health: NativeHealth) -> NativeProperties | None:
    """Return the computation for a queue; None if an expression is not native."""
    try:
        return NativeProperties(emit_intake(queue, plan), queue, health)
    except NotTranslatable:
        return None


def _compile(text: PropertyText) -> _CompiledProperty:
    prop = text.property
    computed = None if text.computed is None else load_function(text.computed, f"property {prop.name}")
    return _CompiledProperty(prop.name, prop.type, prop.variant == "fixed", prop.variant == "inherited", computed)


def _texts(values: Explicit) -> list[str]:
    return [value.text if isinstance(value, PropertyValue) else value for value in values]


def _single(values: Sequence[str]) -> str | None:
    if not values:
        return None
    if len(values) > 1 and len(set(values)) > 1:
        raise NeedsSaxon("several values of a property")
    if len(values[0]) > KEY_BYTES_MAX // 4:
        raise NeedsSaxon("a long value, which may be too long")
    return values[0]
