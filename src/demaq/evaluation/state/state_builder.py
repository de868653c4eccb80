"""Read the state that rules need, through a StateReader, and record what was read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from demaq.compiler.plan import CollectionRead, Index, Plan, QueueByKey, RulePlan, SliceRead, WholeQueue
from demaq.documents import Document
from demaq.evaluation.outcomes import Outcome, Reads, StateReader
from demaq.messages import Message, PropertyValue

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
    )

    def __init__(self, message_number: int, message: Message, rule: RulePlan) -> None:
        self.message = message
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


class StateBuilder:
    """Reads each piece of state once for all jobs of a batch."""

    def __init__(self, plan: Plan, reader: StateReader) -> None:
        self.plan = plan
        self.reader = reader
        self._queues: dict[str, Sequence[Message]] = {}
        self._slices: dict[tuple[str, str], Sequence[Message]] = {}
        self._collections: dict[str, Sequence[Document]] = {}

    def jobs(self, wanted: Sequence[Wanted]) -> list[Job]:
        self._expect(wanted)
        return [self._job(each) for each in wanted]

    def _expect(self, wanted: Sequence[Wanted]) -> None:
        """Prefetch slices and look-ups of all rules together."""
        slices: dict[str, set[str]] = {}
        entries: dict[int, tuple[Index, set[str]]] = {}
        for each in wanted:
            remaining = iter(each.keys)
            for read in each.rule.reads:
                if isinstance(read, SliceRead):
                    slices.setdefault(read.slicing, set()).add(self._slice_key(each.message, read.slicing))
                elif isinstance(read, QueueByKey):
                    for lookup in read.lookups:
                        asked = [key for key in next(remaining) if key != SCAN]
                        entries.setdefault(lookup.index.number, (lookup.index, set()))[1].update(asked)
        self.reader.expect(slices, entries)

    def _slice_key(self, message: Message, slicing: str) -> str:
        return message.properties[self.plan.program.slicings[slicing].property].key

    def _job(self, wanted: Wanted) -> Job:
        message, rule = wanted.message, wanted.rule
        job = Job(wanted.number, message, rule)
        remaining = iter(wanted.keys)
        for read in rule.reads:
            match read:
                case SliceRead():
                    self._read_slice(job, message, read.slicing)
                case WholeQueue():
                    self._read_queue(job, read.queue or message.queue)
                case CollectionRead() if read.collection is not None:
                    job.collections[read.collection] = self.collection(read.collection)
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
                job.collections[error.code] = self.collection(error.code)
        return bool(needs)

    def _read_slice(self, job: Job, message: Message, slicing: str) -> None:
        key = self._slice_key(message, slicing)
        if (slicing, key) not in self._slices:
            self._slices[(slicing, key)] = self.reader.slice(slicing, key)
        job.slice = list(self._slices[(slicing, key)])
        job.slices_read.add((slicing, key))

    def _read_queue(self, job: Job, name: str) -> None:
        if name not in self._queues:
            known = name in self.plan.program.queues
            self._queues[name] = self.reader.queue(name) if known else ()
        job.queues[name] = self._queues[name]

    def _read_found(self, job: Job, read: QueueByKey, keys: list[list[str]]) -> None:
        if any([SCAN in asked for asked in keys]):
            self._read_queue(job, read.queue)
            job.found.append(list(job.queues[read.queue]))
            return
        parts: list[Sequence[Message]] = []
        for lookup, asked in zip(read.lookups, keys, strict=True):
            job.entries_read.update([(lookup.index.number, entry) for entry in asked])
            if asked:
                parts.append(self.reader.lookup(lookup.index, asked))
        if len(parts) == 1 and sum([len(asked) for asked in keys]) == 1:  # several keys need not be in order
            job.found.append(list(parts[0]))
            return
        found = {message.id: message for part in parts for message in part}
        job.found.append(sorted(found.values(), key=lambda message: message.seq))

    def collection(self, name: str) -> Sequence[Document]:
        if name not in self._collections:
            self._collections[name] = self.reader.collection(name)
        return self._collections[name]
