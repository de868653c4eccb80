"""Validation: does an outcome still hold, now that the steps before it are committed?

An outcome is computed on a snapshot. It holds if everything it depends on (`demaq.evaluation.cascade.versions`) is, at
its place in the serial order, as it was when it was computed. Then it is the outcome of a serial execution.

Messages that senders add while a round is evaluated count as arrived after all messages of the round, so an outcome
that has not seen them still holds, with two exceptions:

- A reset must have seen all messages it releases.
- What an outcome creates gets a higher seq than the arrival, although the outcome counts as earlier. If a rule could
  observe that order, or if the outcome has seen changes of the round, it is evaluated again.

A client that takes a message from a mailbox has read the mailbox: that counts at the moment it happens, as do timers
that fire and deliveries. An outcome that may have read such a message is evaluated again.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from demaq.evaluation.cascade.versions import SliceKey, StateKeys, VersionTracker
from demaq.evaluation.outcomes import Folded, Outcome, SliceReset, StateKey, Version
from demaq.evaluation.state.snapshot_reader import NO_SLICES
from demaq.store.protocol import StoredMessage

Order = tuple[int, int]
"""The place of a message in the serial order: higher priority first (negated), then lower seq."""


class View:
    """A snapshot that messages were evaluated on, and what has changed since.

    Invariant: each commit is recorded in all views that have messages waiting, under `Rounds.changing`.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.inside = VersionTracker()
        """Changes that an outcome must have seen: by rules, clients, timers and deliveries."""
        self.outside = VersionTracker()
        """Changes by senders."""
        self.children: dict[tuple[int, int], Outcome] = {}
        """Outcomes of messages that do not exist yet, by the number of the outcome and the action that create them."""
        self.waiting = 0
        """How many messages evaluated on it are not committed yet."""
        self.is_held = True
        """Whether messages are still being evaluated on it."""


@dataclass(slots=True)
class Candidate:
    """A message at its place in the serial order, with the outcome computed for it; None if there is none yet."""

    order: Order
    message: StoredMessage
    outcome: Outcome | None
    view: View
    born: dict[SliceKey, Version | None] = field(default_factory=dict)
    """For a message created in this round: the version of the resets of each of its slices at that time."""
    creation: int | None = None
    """For a message created in this round: the position of the creating step in its view."""
    losses: int = 0
    """How often its outcome did not hold."""
    parts: list[StateKey] | None = None
    """What its outcome depends on, once computed."""


class Validator:
    """Decides whether outcomes hold."""

    def __init__(self, keys: StateKeys, hops_max: int) -> None:
        self.keys = keys
        self._hops_max = hops_max
        self.held: dict[SliceKey, Order] = {}
        """Slices with a member that is evaluated apart from the rounds: its place, which later ones must not pass."""

    def is_held(self, order: Order, slices: Sequence[SliceKey]) -> bool:
        """Return whether a message at this place must wait for a member of one of its slices."""
        return bool(self.held) and any([key in self.held and self.held[key] < order for key in slices])

    def may_fold(self, folded: Folded, hops: int = 0) -> bool:
        """Return whether a conversation of a message with so many hops may be one step."""
        if hops + folded.depth >= self._hops_max:
            return False
        return not self.held or not _touches([*folded.read, *folded.changed], self.held)

    def leads_to_errors(self, outcome: Outcome, hops: int) -> bool:
        """Return whether error messages are made besides what an outcome says, for a message with so many hops."""
        return bool(outcome.errors) or hops >= self._hops_max

    def is_stale(self, candidate: Candidate) -> bool:
        """Return whether the outcome of a message does not hold, and the message has to be evaluated again."""
        outcome, view = candidate.outcome, candidate.view
        if outcome is None:
            return True
        folded = outcome.folded
        if folded is not None:
            if not self.may_fold(folded, candidate.message.hops):
                return True
            candidate.parts = list(folded.read)
        elif candidate.parts is None:
            candidate.parts = self.keys.read(candidate.message.slices, outcome.reads)
        if not view.inside.agree(candidate.parts, outcome.seen):
            return True
        if outcome.members is not None and outcome.members != members_of(candidate):
            return True
        if outcome.order and view.inside.order(candidate.parts, candidate.creation) != outcome.order:
            return True
        if not view.outside.versions:
            return False
        resets = [action for action in outcome.actions if isinstance(action, SliceReset)]
        if view.outside.touch([("slice", action.slicing, action.key) for action in resets]):
            return True
        if not view.outside.touch(candidate.parts):
            return False
        return bool(outcome.seen) or self.keys.creates_ordered(outcome.actions)


def members_of(candidate: Candidate) -> frozenset[str]:
    """Return the slicings in whose slices a message is now: those not reset since its creation.

    Only its own view is asked: it knows all resets since the message was read or created, a younger one may not.
    """
    slices = candidate.message.slices
    if not slices:
        return NO_SLICES
    versions = candidate.view.inside.versions
    born = candidate.born
    return frozenset([key[0] for key in slices if versions.get(("reset", *key)) == born.get(key)])


def _touches(parts: Sequence[StateKey], slices: Container[SliceKey]) -> bool:
    return any([part[0] in ("slice", "reset") and (part[1], part[2]) in slices for part in parts])
