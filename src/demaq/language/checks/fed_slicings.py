"""Warn of a rule on a slicing whose own message joins that slicing: it fires again and again unless something stops it.

It is stopped by a condition that tests whether such a message exists already, by a reset in the same branch (resets
apply before enqueues, so the new message joins an empty slice), or by a condition that is false for the new message.
"""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.analysis.absences import ANYTHING, Absences
from demaq.language.analysis.conditions import BranchCondition, Event, find_branch_events
from demaq.language.analysis.requirements import infer_message_requirements
from demaq.language.analysis.shapes import ElementName, Shape, infer_shape
from demaq.language.diagnostics import Diagnostic, warning
from demaq.language.program.bodies import DraftRule
from demaq.language.program.draft import Draft


def fed_slicings(draft: Draft) -> Iterator[Diagnostic]:
    for rule in draft.rules:
        slicing = rule.target
        property_name = draft.slicing_property(slicing) if rule.on_slicing and slicing is not None else None
        if property_name is None:
            continue
        joining = {enqueue for enqueue in rule.body.enqueues if _joins(draft, rule, enqueue, property_name)}
        if joining:
            yield from _Account(rule).find_unguarded(joining)


def _joins(draft: Draft, rule: DraftRule, enqueue: ast.Enqueue, property_name: str) -> bool:
    """Return whether the new message gets the slicing's property without an explicit value."""
    parts = rule.module.names.parts
    queue = parts.get(enqueue.queue)
    queues = draft.queues_of(property_name)
    declared = draft.properties.get(property_name)
    if queue is None or queues is None or queue not in queues or declared is None or declared.decl is None:
        return False
    if property_name in [parts.get(given.name) for given in enqueue.properties]:
        return False
    return queues[queue].value is not None or declared.decl.variant == "inherited"


class _OpenNames(dict[ElementName, int]):
    """Counts how often a name is tested in the open scopes."""

    def add(self, names: list[ElementName]) -> None:
        for name in names:
            self[name] = self.get(name, 0) + 1

    def remove(self, names: list[ElementName]) -> None:
        for name in names:
            self[name] -= 1
            if not self[name]:
                del self[name]


class _Account:
    """What is known in the branch that the traversal of a rule has reached."""

    def __init__(self, rule: DraftRule) -> None:
        self.rule = rule
        self.names = rule.module.names
        self.absences = Absences(self.names)
        self.tested = _OpenNames()
        self.roots = _OpenNames()
        self.elements = _OpenNames()

    def find_unguarded(self, joining: set[ast.Enqueue]) -> Iterator[Diagnostic]:
        events = find_branch_events(self.rule.decl.body)
        reset = self._resets(events)
        entries: dict[BranchCondition, tuple[list[ElementName], list[ElementName], list[ElementName]]] = {}
        for event in events:
            if event.kind == "enter":
                entries[event.scope] = entry = self._entry(event.scope)
                for counted, names in zip((self.tested, self.roots, self.elements), entry, strict=True):
                    counted.add(names)
            elif event.kind == "leave":
                for counted, names in zip((self.tested, self.roots, self.elements), entries[event.scope], strict=True):
                    counted.remove(names)
            elif isinstance(event.node, ast.Enqueue) and event.node in joining and event.scope not in reset:
                shape = infer_shape(event.node.message, self.names)
                if not self._is_stopped(shape):
                    yield self._warning(event.node, shape)

    def _entry(self, scope: BranchCondition) -> tuple[list[ElementName], list[ElementName], list[ElementName]]:
        """Return the absences that a scope's condition tests, and the roots and elements it requires of the message."""
        if scope.condition is None:
            return [], [], []
        tested = self.absences.find_tested(scope.condition, scope.holds)
        required = infer_message_requirements(scope.condition, self.names) if scope.holds else []
        return tested, [r.name for r in required if r.is_root], [r.name for r in required if not r.is_root]

    def _resets(self, events: list[Event]) -> set[BranchCondition]:
        """Return the scopes in which the slice is reset, directly or by an enclosing scope."""
        own: set[BranchCondition] = set()
        for event in events:
            if isinstance(event.node, ast.Reset) and event.kind == "action":
                slicing = event.node.slicing
                if slicing is None or self.names.parts.get(slicing) == self.rule.target:
                    own.add(event.scope)
        for event in events:
            if event.kind == "enter" and event.scope.parent in own:
                own.add(event.scope)
        return own

    def _is_stopped(self, shape: Shape) -> bool:
        if self.tested and (ANYTHING in self.tested or shape.root is None):
            return True
        for name in shape.possibly if shape.possibly is not None else shape.surely:
            if name in self.tested:
                return True
        if shape.root is not None and any([name != shape.root for name in self.roots]):
            return True
        return any([not shape.may_hold(name) for name in self.elements])

    def _warning(self, enqueue: ast.Enqueue, shape: Shape) -> Diagnostic:
        root = shape.root
        what = f"<{root[1]}>" if root is not None else "the message"
        path = f"qs:slice()/{root[1]}" if root is not None else "qs:slice()/…"
        return warning(
            "DQ1401",
            f'{what} joins the slicing "{self.rule.target}" again, so this rule fires for it too',
            enqueue.queue.at,
            f"if it should fire once, add to its condition: not({path})",
        )
