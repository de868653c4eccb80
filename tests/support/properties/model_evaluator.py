"""An evaluator of meetings that asks functions in Python instead of Saxon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from demaq.compiler.plan import Plan
from demaq.compiler.planner import make_plan
from demaq.documents import Document
from demaq.errors import MessageError
from demaq.evaluation.cascade.cascade import Cascades
from demaq.evaluation.outcomes import (
    NOTHING_READ,
    Enqueued,
    Location,
    Outcome,
    Reads,
    RuleError,
    SliceReset,
    StateReader,
)
from demaq.evaluation.round_request import PropertyRequest, PropertyResult
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.messages import Message, PropertyValue
from demaq.testing.lab import load_text
from tests.support.properties.meetings import Action, Enqueue, Failed, Meeting, Reset, attributes


class ModelEvaluator(SaxonEvaluator):
    """The cascades are those of the engine, what a rule does with one message is the meeting's own."""

    def __init__(self, meeting: Meeting) -> None:
        program = load_text(meeting.text)
        self.plan: Plan = make_plan(program)
        compiled: Any = SimpleNamespace(plan=self.plan)
        self.compiled = compiled
        self.program = program
        self._meeting = meeting
        self.native = self.self_check = None
        self.cascades = Cascades(self)

    def always_reads(self, queue: str) -> bool:
        return False  # there are no nodes to be made

    def make_nodes(self, messages: Sequence[Message]) -> None:
        pass

    def outcomes(
        self,
        messages: Sequence[Message],
        reader: StateReader,
        now: datetime,
        states: Sequence[StateReader] | None = None,
    ) -> list[Outcome]:
        states = [reader] * len(messages) if states is None else states
        return [self._outcome(message, state) for message, state in zip(messages, states, strict=True)]

    def _outcome(self, message: Message, reader: StateReader) -> Outcome:
        outcome = Outcome(members=message.slices)
        own = attributes(message.document.text)
        if int(own.get("n", "0")) <= 0:
            return outcome
        for plan in self.plan.queues[message.queue].rules:
            rule = plan.rule
            slicing = rule.target if rule.on_slicing else None
            if slicing is not None and slicing not in (message.slices or ()):
                continue
            asked = _Asked(self, message, reader, slicing)
            model = self._meeting.rules[rule.name]
            try:
                fires = model.test(asked)
                actions = [act(asked) for act in model.actions] if fires else []
                done = [self._action(rule.name, action, message, slicing) for action in actions]
            except Failed as failed:
                at = Location.of(rule.decl.at)
                error = RuleError(rule=rule.name, kind="dynamicError", code=str(failed), description="", at=at)
                outcome.errors.append(error)
            else:
                outcome.actions += done
                if fires:
                    outcome.fired.append(rule.name)
            if asked.has_read():
                outcome.reads = asked.reads() if outcome.reads is NOTHING_READ else outcome.reads | asked.reads()
        return outcome

    def _action(self, rule: str, action: Action, message: Message, slicing: str | None) -> Enqueued | SliceReset:
        if isinstance(action, Reset):
            if action.slicing is None:
                assert slicing is not None
                return SliceReset(rule=rule, slicing=slicing, key=self._key(message, slicing))
            assert action.key is not None
            return SliceReset(rule=rule, slicing=action.slicing, key=action.key)
        assert isinstance(action, Enqueue)
        explicit = {name: PropertyValue.string(value) for name, value in action.explicit}
        properties = self._properties(action.queue, action.body, explicit, message.properties)
        return Enqueued(
            rule=rule,
            queue=action.queue,
            document=Document(action.body),
            properties=properties,
            entries=self._entries(action.queue, action.body),
        )

    def _key(self, message: Message, slicing: str) -> str:
        return message.properties[self.program.slicings[slicing].property].key

    def _properties(
        self, queue: str, body: str, explicit: Mapping[str, PropertyValue], cause: Mapping[str, PropertyValue]
    ) -> dict[str, PropertyValue]:
        own = attributes(body)
        found: dict[str, PropertyValue] = {}
        for prop in self.program.properties_of(queue):
            if (prop.name, queue) not in self._meeting.values:
                continue
            value = self._meeting.values[(prop.name, queue)]
            computed = "1" if value == "1" else own.get(value)
            if prop.variant != "fixed" and prop.name in explicit:
                computed = explicit[prop.name].text
            elif prop.variant == "inherited" and prop.name in cause:
                computed = cause[prop.name].text
            if computed is not None:
                found[prop.name] = PropertyValue(prop.type, computed, computed)
        if self.program.queues[queue].kind == "echo":
            seconds = explicit["timeout"].text
            found["timeout"] = PropertyValue("dayTimeDuration", f"PT{seconds}S", f"PT{seconds}S")
            found["target"] = explicit["target"]
        return found

    def _entries(self, queue: str, body: str) -> tuple[tuple[int, str], ...]:
        own = attributes(body)
        return tuple([(i.number, "s" + own[i.path[-1]]) for i in self.plan.indexes_of(queue) if i.path[-1] in own])

    def compute_properties(self, arrivals: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        return [
            PropertyResult(
                queue=arrival.queue,
                document=arrival.document,
                properties=self._properties(arrival.queue, arrival.document.text, arrival.explicit, arrival.inherited),
                entries=self._entries(arrival.queue, arrival.document.text),
            )
            for arrival in arrivals
        ]


class _Asked:
    """A rule's view of a message and of the state."""

    def __init__(self, evaluator: ModelEvaluator, message: Message, reader: StateReader, slicing: str | None) -> None:
        self.message = message
        self._evaluator = evaluator
        self._reader = reader
        self._slicing = slicing
        self._slices: set[tuple[str, str]] = set()
        self._entries: set[tuple[int, str]] = set()
        self._queues: set[str] = set()

    def queue(self, name: str | None) -> list[Message]:
        queue = name or self.message.queue
        self._queues.add(queue)
        return list(self._reader.queue(queue))

    def slice(self) -> list[Message]:
        assert self._slicing is not None
        key = self._evaluator._key(self.message, self._slicing)
        self._slices.add((self._slicing, key))
        return list(self._reader.slice(self._slicing, key))

    def find(self, queue: str, attribute: str, value: str) -> list[Message]:
        for index in self._evaluator.plan.indexes_of(queue):
            if index.path[-1] == attribute:
                self._entries.add((index.number, "s" + value))
                return list(self._reader.lookup(index, ["s" + value]))
        return [m for m in self.queue(queue) if attributes(m.document.text).get(attribute) == value]

    def has_read(self) -> bool:
        return bool(self._slices or self._entries or self._queues)

    def reads(self) -> Reads:
        return Reads(slices=frozenset(self._slices), entries=frozenset(self._entries), queues=frozenset(self._queues))
