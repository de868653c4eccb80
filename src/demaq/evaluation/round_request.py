"""What is asked of evaluators, and what they return.

Rounds are evaluated by a `RoundEvaluator`: in this process, in worker processes, on Spark. Each reads messages and
state from the store itself, at the snapshot of the request, so little more than seqs has to travel.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from demaq.documents import Document
from demaq.errors import MessageError
from demaq.evaluation.outcomes import Outcome
from demaq.messages import PropertyValue
from demaq.records import record
from demaq.store.protocol import StoredMessage


@record
class RoundRequest:
    """Messages to be evaluated on a snapshot."""

    batch: Sequence[StoredMessage]
    snapshot: int
    now: datetime
    deep: bool = False
    """Whether the messages that they lead to are evaluated as well, as far as possible."""
    fold: bool = False
    """Whether a conversation that shares no state with another message becomes one outcome."""
    paused: frozenset[str] = frozenset()
    """Queues whose messages wait: those that are created in them are not evaluated."""
    whole: frozenset[int] = frozenset()
    """The seqs of messages whose conversations are not folded: each message of these is observed."""

    @property
    def seqs(self) -> list[int]:
        return [message.seq for message in self.batch]

    def select(self, positions: Sequence[int]) -> RoundRequest:
        """Return the same request for some of the messages."""
        return replace(self, batch=[self.batch[position] for position in positions])

    def without_descendants(self) -> RoundRequest:
        """Return the request for the messages alone."""
        return replace(self, deep=False, fold=False)


@dataclass(slots=True)
class RoundResult:
    """The outcomes of a round.

    `Outcome.number` counts those of the messages first, then those of descendants; `Outcome.parent` refers to it.
    """

    outcomes: list[Outcome | None]
    """One for each message of the request; None if it was not evaluated."""
    descendants: list[Outcome] = field(default_factory=list)
    """Of messages that these lead to, each after its parent."""

    @staticmethod
    def of(outcomes: Sequence[Outcome | None], messages: int) -> RoundResult:
        """Return the result of outcomes in the order of their numbers, the first ones of so many messages."""
        descendants = [outcome for outcome in outcomes[messages:] if outcome is not None]
        assert len(descendants) == len(outcomes) - messages, "only messages of the request may be left out"
        return RoundResult(list(outcomes[:messages]), descendants)

    def insert(self, positions: Sequence[int], part: RoundResult) -> None:
        """Insert the result of the request for the messages at some positions."""
        assert len(part.outcomes) == len(positions), "one outcome for each message"
        offset = len(self.outcomes) + len(self.descendants) - len(positions)
        part._renumber(lambda number: positions[number] if number < len(positions) else number + offset)
        for position, outcome in zip(positions, part.outcomes, strict=True):
            self.outcomes[position] = outcome
        self.descendants += part.descendants

    def remove(self, numbers: Container[int]) -> None:
        """Remove descendants, by their numbers."""
        self.descendants = [outcome for outcome in self.descendants if outcome.number not in numbers]
        first = len(self.outcomes)
        places = {outcome.number: first + place for place, outcome in enumerate(self.descendants)}
        self._renumber(lambda number: places.get(number, number))

    def _renumber(self, place: Callable[[int], int]) -> None:
        """Give each outcome another number. An outcome that was not made by a cascade has -1 and keeps it."""
        for outcome in (*self.outcomes, *self.descendants):
            if outcome is not None and outcome.number >= 0:
                outcome.number = place(outcome.number)
                if outcome.parent is not None:
                    outcome.parent = (place(outcome.parent[0]), outcome.parent[1])


class RoundEvaluator(Protocol):
    """Evaluates rounds: the outcome of each message is what its rules would do on the snapshot."""

    @property
    def messages_max(self) -> int:
        """How many messages a round may have."""

    @property
    def rounds_max(self) -> int:
        """How many rounds may be evaluated at once, by callers in as many threads."""

    def run(self, request: RoundRequest) -> RoundResult: ...


@record
class PropertyRequest:
    """A message that no rule made, whose properties and index entries are to be computed."""

    queue: str
    document: Document
    now: datetime
    explicit: Mapping[str, PropertyValue] = field(default_factory=dict)
    """Set by its sender; or, on a stored message, what it keeps."""
    inherited: Mapping[str, PropertyValue] = field(default_factory=dict)
    """Properties of the message that caused it, if one did."""


@record
class PropertyResult:
    """A message that may be stored, with its properties and index entries."""

    queue: str
    document: Document
    properties: Mapping[str, PropertyValue]
    entries: tuple[tuple[int, str], ...]
    failures: tuple[tuple[str, str], ...] = ()
    """Properties that a stored message cannot have, each with the reason."""


class PropertyEvaluator(Protocol):
    """Checks messages that no rule made, and computes their properties and index entries."""

    def compute_properties(self, requests: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        """Return a result for each message, or the error if it must be refused."""

    def migrate_properties(self, requests: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        """Return what stored messages are under this program.

        A property that fails is left out and named in the result. An error is returned only if an expression does not
        end.
        """


def compute_one(evaluator: PropertyEvaluator, request: PropertyRequest) -> PropertyResult:
    """Return the properties of one message. Raises a MessageError if it must be refused."""
    [result] = evaluator.compute_properties([request])
    if isinstance(result, MessageError):
        raise result
    return result
