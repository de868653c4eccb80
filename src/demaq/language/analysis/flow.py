"""The message flow of an application: which queue feeds which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from demaq.language import ast
from demaq.language.namespaces import QS
from demaq.language.program.bodies import Body, DraftRule, find_called_functions
from demaq.language.program.draft import Draft
from demaq.language.resolving.names import Names


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """A rule or an echo queue that enqueues messages of one queue into another."""

    source: str
    target: str
    enqueue: ast.Enqueue
    names: Names
    rule: DraftRule


class Flow:
    """Which rules enqueue into, and read, which queues. Calls of functions are followed."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._bodies = {body.decl: body for body in draft.bodies if body.role == "function"}
        self.ruled: set[str] = set()
        """Queues that rules are for, directly or by a slicing."""
        self.own_rules: set[str] = set()
        self.filled: set[str] = set()
        self.read: set[str] = set()
        self.fills_anything = False
        """Whether a timer's target is computed: then any queue may receive messages."""
        self.reads_anything = False
        for rule in draft.rules:
            self._note_rule(rule)
        for body in draft.bodies:
            self._note_body(body)

    def edges(self) -> Iterator[Edge]:
        for rule in self.draft.rules:
            for body in self.bodies_of(rule):
                for enqueue in body.enqueues:
                    target = body.names.parts.get(enqueue.queue)
                    if target is None:
                        continue
                    for source in self.sources(rule):
                        yield Edge(source, target, enqueue, body.names, rule)
                    later = find_timer_target(enqueue, body.names) if self.draft.kind_of(target) == "echo" else None
                    if later is not None:
                        yield Edge(target, later.value.strip(), enqueue, body.names, rule)

    def sources(self, rule: DraftRule) -> tuple[str, ...]:
        """Return the queues whose messages a rule fires for."""
        if rule.target is None:
            return ()
        if rule.on_slicing:
            return self.draft.slicing_queues(rule.target) or ()
        return (rule.target,) if rule.target in self.draft.queues else ()

    def bodies_of(self, rule: DraftRule) -> list[Body]:
        """Return the rule's own body and those of all functions it calls."""
        found: dict[Body, None] = {rule.body: None}
        waiting = [rule.body]
        while waiting:
            for called in find_called_functions(waiting.pop()):
                body = self._bodies.get(called)
                if body is not None and body not in found:
                    found[body] = None
                    waiting.append(body)
        return list(found)

    def _note_rule(self, rule: DraftRule) -> None:
        sources = self.sources(rule)
        self.ruled.update(sources)
        if not rule.on_slicing:
            self.own_rules.update(sources)

    def _note_body(self, body: Body) -> None:
        for enqueue in body.enqueues:
            target = body.names.parts.get(enqueue.queue)
            if target is None:
                continue
            self.filled.add(target)
            if self.draft.kind_of(target) == "echo":
                later = find_timer_target(enqueue, body.names)
                if later is None:
                    self.fills_anything = True
                else:
                    self.filled.add(later.value.strip())
        for call in body.calls_of(QS, "queue"):
            name = body.names.parts.get(call.literal) if call.literal is not None else None
            if name is not None:
                self.read.add(name)
            elif call.args != ():
                self.reads_anything = True
            elif body.rule is not None:
                self.read.update(self.sources(body.rule))
            else:
                self.reads_anything = True


def find_timer_target(enqueue: ast.Enqueue, names: Names) -> ast.StringLiteral | None:
    """Return the target of a message for an echo queue, if it is a literal."""
    for given in enqueue.properties:
        if names.parts.get(given.name) == "target" and isinstance(given.value, ast.StringLiteral):
            return given.value
    return None
