"""Messages from outside that are evaluated before they are stored: what is asked of workers, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol, runtime_checkable

from demaq.documents import Document
from demaq.errors import MessageError
from demaq.evaluation.outcomes import NOTHING_READ, Enqueued, Folded, Outcome, Reads
from demaq.messages import PropertyValue
from demaq.records import record


class Arriving(NamedTuple):
    """A message from outside as its sender has sent it."""

    queue: str
    body: bytes | str
    document: Document | None = None
    """The body, if it was parsed already."""
    explicit: Mapping[str, PropertyValue] = {}
    """Set by its sender."""
    inherited: Mapping[str, PropertyValue] = {}
    """Properties of the transport that brought it."""
    may_pass: bool = False
    """Whether it may be replaced by its effects (`Passed`)."""


@record
class ArrivalRequest:
    """Messages from outside to be checked, and evaluated on a snapshot to which they are added."""

    messages: Sequence[Arriving]
    snapshot: int
    now: datetime
    fold: bool = False
    """Whether a conversation that shares no state with another message becomes one outcome."""
    paused: frozenset[str] = frozenset()
    """Queues whose messages wait: those that are created in them are not evaluated."""
    whole: frozenset[int] = frozenset()
    """The positions of messages whose conversations are not folded: each message of these is observed."""
    check: bool = False
    """Whether the results of native rules are to be compared with Saxon's, also if it is not their turn."""

    def __reduce__(self) -> tuple[Callable[..., ArrivalRequest], tuple[object, ...]]:
        # Plain tuples are pickled in a third of the time of named ones.
        messages = [tuple(each) for each in self.messages]
        return _unpack_request, (messages, self.snapshot, self.now, self.fold, self.paused, self.whole, self.check)


def _unpack_request(
    messages: Sequence[Iterable[Any]],
    snapshot: int,
    now: datetime,
    fold: bool,
    paused: frozenset[str],
    whole: frozenset[int],
    check: bool,
) -> ArrivalRequest:
    arriving = [Arriving._make(each) for each in messages]
    return ArrivalRequest(
        messages=arriving, snapshot=snapshot, now=now, fold=fold, paused=paused, whole=whole, check=check
    )


class Arrived(NamedTuple):
    """A message from outside that may be stored."""

    text: str | None
    """Its document; None if that is what was sent, character by character."""
    properties: Mapping[str, PropertyValue]
    entries: tuple[tuple[int, str], ...]
    is_alone: bool = False
    """Whether it makes no difference to any other message when it is processed, nor these to it."""
    has_ended: bool = False
    """Whether its outcome is a conversation of which nothing but its effects remains."""


class Created(NamedTuple):
    """A message that a rule enqueues, as Enqueued has it."""

    rule: str
    queue: str
    text: str
    properties: Mapping[str, PropertyValue]
    entries: tuple[tuple[int, str], ...]


class Passed(NamedTuple):
    """A message from outside that is done with when its effects are stored, whatever else happens."""

    created: tuple[Created, ...]
    fired: tuple[str, ...]
    """The rules that have reacted to it."""
    reads: Reads = NOTHING_READ
    """What they have read besides the message: if that has changed since, the effects do not hold."""
    folded: Folded | None = None
    """Set for a whole conversation, by the node: the same as of its outcome."""

    def make_outcome(self) -> Outcome:
        """Return the same as an outcome, to be compared with Saxon's."""
        outcome = Outcome(fired=list(self.fired), reads=self.reads)
        for rule, queue, text, properties, entries in self.created:
            outcome.actions.append(
                Enqueued(rule=rule, queue=queue, document=Document(text), properties=properties, entries=entries)
            )
        return outcome


@dataclass(slots=True)
class ArrivalResult:
    """What became of each message, and the outcomes of those whose rules were evaluated."""

    arrived: list[Arrived | Passed | MessageError]
    outcomes: list[Outcome | None]
    """One for each message; None if it has passed, or has to be stored before its rules are evaluated."""
    descendants: list[Outcome] = field(default_factory=list)
    cpu_seconds: float = 0.0
    """How long the worker's processor was busy with them."""

    def __reduce__(self) -> tuple[Callable[..., ArrivalResult], tuple[object, ...]]:
        packed: list[object] = [_pack_passed(each) if isinstance(each, Passed) else each for each in self.arrived]
        outcomes = self.outcomes if any([outcome is not None for outcome in self.outcomes]) else len(self.outcomes)
        return _unpack_result, (packed, outcomes, self.descendants, self.cpu_seconds)


def _pack_passed(passed: Passed) -> tuple[object, ...]:
    created, fired, reads, folded = passed
    assert folded is None, "a worker returns the outcome of a conversation"
    made = [tuple(each) for each in created]
    return (fired, made) if reads is NOTHING_READ else (fired, made, reads)


def _unpack_result(
    packed: Sequence[Any], outcomes: list[Outcome | None] | int, descendants: list[Outcome], cpu_seconds: float
) -> ArrivalResult:
    arrived: list[Arrived | Passed | MessageError] = [
        _unpack_passed(*each) if type(each) is tuple else each for each in packed
    ]
    known: list[Outcome | None] = [None] * outcomes if isinstance(outcomes, int) else outcomes
    return ArrivalResult(arrived, known, descendants, cpu_seconds)


def _unpack_passed(fired: tuple[str, ...], created: Sequence[Any], reads: Reads = NOTHING_READ) -> Passed:
    return Passed(tuple([Created._make(each) for each in created]), fired, reads)


def make_passed(outcome: Outcome) -> Passed:
    """Return the effects of a conversation that has ended."""
    created = [
        Created(action.rule, action.queue, action.document.text, action.properties, action.entries)
        for action in outcome.actions
        if isinstance(action, Enqueued)
    ]
    return Passed(tuple(created), tuple(outcome.fired), folded=outcome.folded)


@runtime_checkable
class ArrivalPool(Protocol):
    """Workers that evaluate messages which are not stored yet."""

    @property
    def rounds_max(self) -> int:
        """How many workers there may be."""

    def run_arrivals(
        self,
        divide: Callable[[int], Sequence[ArrivalRequest]],
        workers_max: int,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[ArrivalResult] | None:
        """Evaluate messages in workers that are free: `divide` returns a request for each of up to so many workers.

        Return their results: none if no worker is free now. None if a worker has not returned in time. `meanwhile` is
        called after the requests were sent.
        """
