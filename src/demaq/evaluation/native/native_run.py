"""The evaluation of native rules on one message: what they read, and their actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lxml.etree import _Element

from demaq.compiler.plan import QueueByKey, RulePlan
from demaq.documents import Document
from demaq.evaluation.native.native_properties import Entries, Explicit, NativeProperties, Properties
from demaq.evaluation.native.values import NeedsSaxon
from demaq.evaluation.outcomes import NOTHING_READ, Enqueued, Outcome, Reads, SliceReset, StateReader
from demaq.evaluation.queue_schemas import QueueSchemas
from demaq.evaluation.state.state_builder import find_messages
from demaq.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRule:
    plan: RulePlan
    name: str
    slicing: str | None
    """The slicing it is on."""
    slicing_property: str
    first: Callable[[_Element, NativeRun], bool] | None
    """Whether it continues, if that is decided before state is read; for Saxon's rules, before Saxon is asked."""
    keys: tuple[Callable[[_Element, NativeRun], list[str]], ...]
    body: Callable[[_Element, NativeRun], None] | None
    """None if it is left to Saxon."""


class NativeRun:
    """The rules of one message. State is read when a rule asks for it, each part once for all rules."""

    __slots__ = (
        "_collections",
        "_entries",
        "_intakes",
        "_keys",
        "_messages",
        "_queues",
        "_roots",
        "_rule",
        "_schemas",
        "_slices",
        "actions",
        "candidates",
        "fired",
        "has_fallen_back",
        "left",
        "message",
        "now",
        "outcome",
        "state",
    )

    def __init__(
        self,
        message: Message,
        outcome: Outcome,
        state: StateReader,
        intakes: Mapping[str, NativeProperties],
        schemas: QueueSchemas,
        now: datetime,
    ) -> None:
        self.message = message
        self.outcome = outcome
        self.fired = outcome.fired
        self.actions = outcome.actions
        self.state = state
        self.now = now
        """The time of the round, which is that of `current-dateTime()`."""
        self._intakes = intakes
        self._schemas = schemas
        self._rule: NativeRule
        self._keys: Sequence[list[str]]
        self._roots: dict[tuple[str, ...] | tuple[str, int], list[_Element]] | None = None
        """The roots of messages that were read."""
        self._messages: list[Message]
        self._slices: list[tuple[str, str]]
        self._entries: list[tuple[int, str]]
        self._queues: list[str]
        self._collections: list[str]
        self.candidates: Sequence[NativeRule] = ()
        self.left: list[str] = []
        """Rules that are left to Saxon."""
        self.has_fallen_back = False
        """Whether a native rule is among them."""

    # called by rules

    def fires(self, rule: str) -> None:
        self.fired.append(rule)

    def enqueue(self, rule: str, queue: str, text: str, given: Sequence[tuple[str, Explicit]]) -> tuple[()]:
        document = Document(text)
        properties, entries = self._compute_properties(queue, document, given)
        self.actions.append(Enqueued(rule=rule, queue=queue, document=document, properties=properties, entries=entries))
        return ()

    def _compute_properties(
        self, queue: str, document: Document, given: Sequence[tuple[str, Explicit]]
    ) -> tuple[Properties, Entries]:
        """Return properties and index entries of a new message. Raises NeedsSaxon if its queue refuses it."""
        intake = self._intakes[queue]
        properties: Properties = {}
        entries: Entries = ()
        if intake.computes:
            root = find_root(document)
            properties = intake.properties(root, dict(given), self.message.properties)
            entries = intake.entries(root)
        elif given or intake.is_timer:
            properties = intake.properties(None, dict(given), self.message.properties)
        if self._schemas.violation(queue, document) is not None:
            raise NeedsSaxon("a message that the queue refuses")
        return properties, entries

    def reset(self, rule: str, slicing: str, key: str) -> tuple[()]:
        self.actions.append(SliceReset(rule=rule, slicing=slicing, key=key))
        return ()

    def own(self, name: str) -> list[str]:
        found = self.message.properties.get(name)
        return [] if found is None else [found.text]

    def property_of(self, name: str, nodes: list[_Element]) -> list[str]:
        """Return a property of the message that a node belongs to. Raises NeedsSaxon if it belongs to none."""
        if not nodes:
            return []
        root = nodes[0].getroottree().getroot()
        if root is self.message.document.native_root:
            return self.own(name)
        for message in self._messages if self._roots is not None else ():
            if message.document.native_root is root:
                found = message.properties.get(name)
                return [] if found is None else [found.text]
        raise NeedsSaxon("a property of a document that is no message")

    def key(self, name: str) -> str:
        found = self.message.properties.get(name)
        if found is None:
            raise NeedsSaxon("a slice without a key")
        return found.key

    def slice(self) -> list[_Element]:
        slicing = self._rule.slicing
        assert slicing is not None, "a rule that reads a slice is on a slicing"
        assert self._roots is not None, "a rule that reads has begun"
        found = self._roots.get(("slice", slicing))
        if found is None:
            key = self.message.properties[self._rule.slicing_property].key
            self._slices.append((slicing, key))
            found = self._roots["slice", slicing] = self._roots_of(self.state.slice(slicing, key))
        return found

    def found(self, number: int) -> list[_Element]:
        assert self._roots is not None, "a rule that reads has begun"
        found = self._roots.get((self._rule.name, number))
        if found is None:
            read, keys = self._keyed(number)
            messages, entries = find_messages(self.state, read, keys)
            if entries is None:
                self._queues.append(read.queue)
            else:
                self._entries += entries
            found = self._roots[self._rule.name, number] = self._roots_of(messages)
        return found

    def counted(self, number: int) -> range:
        """Return as many numbers as messages are found."""
        read, keys = self._keyed(number)
        [lookup], [asked] = read.lookups, keys
        self._entries += [(lookup.index.number, entry) for entry in asked]
        return range(len(self.state.find(lookup.index, asked)) if asked else 0)

    def queue(self, name: str | None) -> list[_Element]:
        assert self._roots is not None, "a rule that reads has begun"
        name = name or self.message.queue
        found = self._roots.get(("queue", name))
        if found is None:
            self._queues.append(name)
            found = self._roots["queue", name] = self._roots_of(self.state.queue(name))
        return found

    def collection(self, name: str) -> list[_Element]:
        self._collections.append(name)
        return [find_root(document) for document in self.state.collection(name)]

    # called by NativeRules

    def begin(self, rule: NativeRule, keys: Sequence[list[str]]) -> None:
        """Begin a rule that reads state, with its keys for look-ups."""
        self._rule = rule
        self._keys = keys
        if self._roots is None:
            self._roots = {}
            self._messages = []
            self._slices, self._entries, self._queues, self._collections = [], [], [], []

    def leave(self, rule: NativeRule) -> None:
        """Leave a rule to Saxon, and undo what it has done."""
        self.left.append(rule.name)
        self.has_fallen_back = self.has_fallen_back or rule.body is not None
        if rule.name in self.fired:
            self.fired[:] = [name for name in self.fired if name != rule.name]
        self.actions[:] = [action for action in self.actions if action.rule != rule.name]

    def reads(self) -> Reads:
        """Return what the rules have read."""
        if not (self._slices or self._entries or self._queues or self._collections):
            return NOTHING_READ
        return Reads(
            slices=frozenset(self._slices),
            entries=frozenset(self._entries),
            queues=frozenset(self._queues),
            collections=frozenset(self._collections),
        )

    def _keyed(self, number: int) -> tuple[QueueByKey, Sequence[list[str]]]:
        """Return a keyed read of the rule, and its keys."""
        keyed = self._rule.plan.keyed
        before = sum([len(each.lookups) for each in keyed[:number]])
        return keyed[number], self._keys[before : before + len(keyed[number].lookups)]

    def _roots_of(self, messages: Sequence[Message]) -> list[_Element]:
        self._messages += messages
        return [find_root(message.document) for message in messages]


def find_root(document: Document) -> _Element:
    """Raises NeedsSaxon if there is none for native rules."""
    root = document.native_root
    if root is None:
        raise NeedsSaxon("a document that is too large")
    return root
