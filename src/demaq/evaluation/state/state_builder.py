"""Read the state that rules need, through a StateReader, and record what was read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from demaq.compiler.plan import CollectionRead, Plan, QueueByKey, RulePlan, SliceRead, WholeQueue
from demaq.documents import Document
from demaq.evaluation.outcomes import ExpectedReads, Outcome, Reads, StateReader
from demaq.messages import Message, PropertyValue
from demaq.xml_escaping import quoteattr

SCAN = "*"
"""In place of a key for which no index can be used."""


def property_element(name: str, value: PropertyValue, mark: str = "") -> str:
    """Return a property as an element of a record."""
    return f"<p {_attributes(name, value.type)}{mark}>{value.text.translate(_ESCAPED)}</p>"


@lru_cache(maxsize=1000)
def _attributes(name: str, type_: str) -> str:
    return f"n={quoteattr(name)} t={quoteattr(type_)}"


_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})


class Job:
    """One rule on one message, with the state that was read for it."""

    __slots__ = (
        "collections",
        "entries_read",
        "found",
        "message",
        "message_number",
        "queues",
        "rule",
        "slice",
        "slices_read",
        "state",
    )

    def __init__(self, message_number: int, message: Message, rule: RulePlan, state: StateReader) -> None:
        self.message = message
        self.state = state
        self.message_number = message_number
        self.rule = rule
        self.slice: list[Message] = []
        self.found: list[list[Message]] = []
        self.queues: dict[str, Sequence[Message]] = {}
        self.collections: dict[str, Sequence[Document]] = {}
        self.slices_read: set[tuple[str, str]] = set()
        self.entries_read: set[tuple[int, str]] = set()

    def messages(self) -> list[Message]:
        """Return all messages that the rule can read, each once, in the order of their seqs."""
        found = {message.id: message for part in [self.slice, *self.found, *self.queues.values()] for message in part}
        found[self.message.id] = self.message
        return sorted(found.values(), key=lambda message: message.seq)

    def reads(self) -> Reads:
        return Reads(
            slices=frozenset(self.slices_read),
            entries=frozenset(self.entries_read),
            queues=frozenset(self.queues),
            collections=frozenset(self.collections),
        )


class Wanted(NamedTuple):
    """A rule that wants state for a message of a batch, with the keys it has computed."""

    number: int
    message: Message
    rule: RulePlan
    keys: list[list[str]]
    state: StateReader
    """Reads what the rule sees."""


class StateBuilder:
    """Reads the state of all jobs of a batch."""

    def __init__(self, plan: Plan, reader: StateReader) -> None:
        """`reader` reads the snapshot of all of them."""
        self.plan = plan
        self.reader = reader

    def jobs(self, wanted: Sequence[Wanted]) -> list[Job]:
        expect_reads(self.plan, self.reader, [(each.message, each.rule, each.keys) for each in wanted])
        return [self._job(each) for each in wanted]

    def _slice_key(self, message: Message, slicing: str) -> str:
        return message.properties[self.plan.program.slicings[slicing].property].key

    def _job(self, wanted: Wanted) -> Job:
        message, rule = wanted.message, wanted.rule
        job = Job(wanted.number, message, rule, wanted.state)
        remaining = iter(wanted.keys)
        for read in rule.reads:
            match read:
                case SliceRead():
                    self._read_slice(job, message, read.slicing)
                case WholeQueue():
                    self._read_queue(job, read.queue or message.queue)
                case CollectionRead() if read.collection is not None:
                    job.collections[read.collection] = job.state.collection(read.collection)
                case QueueByKey():
                    self._read_found(job, read, [next(remaining) for _ in read.lookups])
        return job

    def fetch_needed(self, job: Job, result: Outcome) -> bool:
        """Read a queue or collection whose name the rule has computed. Return whether there was one to be read."""
        needs = [error for error in result.errors if error.kind == "need"]
        for error in needs:
            known = job.queues if error.description == "queue" else job.collections
            assert error.code not in known, "a rule asks only for what it has not got"
            if error.description == "queue":
                self._read_queue(job, error.code)
            else:
                job.collections[error.code] = job.state.collection(error.code)
        return bool(needs)

    def _read_slice(self, job: Job, message: Message, slicing: str) -> None:
        key = self._slice_key(message, slicing)
        job.slice = list(job.state.slice(slicing, key))
        job.slices_read.add((slicing, key))

    def _read_queue(self, job: Job, name: str) -> None:
        job.queues[name] = job.state.queue(name) if name in self.plan.program.queues else ()

    def _read_found(self, job: Job, read: QueueByKey, keys: list[list[str]]) -> None:
        messages, entries = find_messages(job.state, read, keys)
        if entries is None:
            job.queues[read.queue] = messages
        else:
            job.entries_read.update(entries)
        job.found.append(list(messages))


def expect_reads(
    plan: Plan,
    reader: StateReader,
    wanted: Sequence[tuple[Message, RulePlan, Sequence[list[str]]]],
    may_count: bool = False,
) -> None:
    """Prefetch slices and look-ups of rules on messages, with their keys, all together.

    With `may_count` messages that a rule only counts are not read.
    """
    expected = ExpectedReads()
    for message, rule, keys in wanted:
        remaining = iter(keys)
        for read in rule.reads:
            if isinstance(read, SliceRead):
                key = message.properties[plan.program.slicings[read.slicing].property].key
                expected.slices.setdefault(read.slicing, set()).add(key)
            elif isinstance(read, QueueByKey):
                for lookup in read.lookups:
                    asked = [key for key in next(remaining) if key != SCAN]
                    entries = expected.found if read.is_counted and may_count else expected.lookups
                    entries.setdefault(lookup.index.number, (lookup.index, set()))[1].update(asked)
    reader.expect(expected)


def find_messages(
    state: StateReader, read: QueueByKey, keys: Sequence[list[str]]
) -> tuple[Sequence[Message], list[tuple[int, str]] | None]:
    """Return the messages that look-ups find, and the entries that were looked up; None if the whole queue was read."""
    if any([SCAN in asked for asked in keys]):
        return state.queue(read.queue), None
    entries: list[tuple[int, str]] = []
    parts: list[Sequence[Message]] = []
    for lookup, asked in zip(read.lookups, keys, strict=True):
        entries += [(lookup.index.number, entry) for entry in asked]
        if asked:
            parts.append(state.lookup(lookup.index, asked))
    if len(parts) == 1 and len(entries) == 1:  # several keys need not be in order
        return parts[0], entries
    found = {message.id: message for part in parts for message in part}
    return sorted(found.values(), key=lambda message: message.seq), entries
