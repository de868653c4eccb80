"""Messages from outside that are evaluated before they are stored: what is asked of workers, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol, runtime_checkable

from demaq.documents import Document
from demaq.errors import MessageError
from demaq.evaluation.outcomes import Outcome
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

    def __reduce__(self) -> tuple[Callable[..., ArrivalRequest], tuple[object, ...]]:
        # Plain tuples are pickled in a third of the time of named ones.
        messages = [tuple(each) for each in self.messages]
        return _unpack_request, (messages, self.snapshot, self.now, self.fold, self.paused, self.whole)


def _unpack_request(
    messages: Sequence[Iterable[Any]],
    snapshot: int,
    now: datetime,
    fold: bool,
    paused: frozenset[str],
    whole: frozenset[int],
) -> ArrivalRequest:
    arriving = [Arriving._make(each) for each in messages]
    return ArrivalRequest(messages=arriving, snapshot=snapshot, now=now, fold=fold, paused=paused, whole=whole)


class Arrived(NamedTuple):
    """A message from outside that may be stored."""

    text: str | None
    """Its document; None if that is what was sent, character by character."""
    properties: Mapping[str, PropertyValue]
    entries: tuple[tuple[int, str], ...]
    is_alone: bool = False
    """Whether it makes no difference to any other message when it is processed, nor these to it."""


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
        packed: list[object] = [
            (each[1], [tuple(made) for made in each[0]]) if isinstance(each, Passed) else each for each in self.arrived
        ]
        outcomes = self.outcomes if any([outcome is not None for outcome in self.outcomes]) else len(self.outcomes)
        return _unpack_result, (packed, outcomes, self.descendants, self.cpu_seconds)


def _unpack_result(
    packed: Sequence[Any], outcomes: list[Outcome | None] | int, descendants: list[Outcome], cpu_seconds: float
) -> ArrivalResult:
    make = Created._make
    arrived: list[Arrived | Passed | MessageError] = [
        Passed(tuple([make(made) for made in each[1]]), each[0]) if type(each) is tuple else each for each in packed
    ]
    known: list[Outcome | None] = [None] * outcomes if isinstance(outcomes, int) else outcomes
    return ArrivalResult(arrived, known, descendants, cpu_seconds)


@runtime_checkable
class ArrivalPool(Protocol):
    """Workers that evaluate messages which are not stored yet."""

    def run_arrivals(
        self, divide: Callable[[int], Sequence[ArrivalRequest]], workers_max: int
    ) -> list[ArrivalResult] | None:
        """Evaluate messages in workers that are free: `divide` returns a request for each of up to so many workers.

        Return their results: none if no worker is free now. None if a worker has not returned in time.
        """
