"""Versions of the state that outcomes depend on: the basis of optimistic concurrency control.

State is divided into state keys: the members of a slice, its resets, an entry of an index, what was added to a queue,
what became invisible in it. Messages are evaluated on a snapshot to which the changes of some steps are applied. In a
serial execution the message would see the changes of exactly the steps before it. The outcome is the serial one if both
agree in everything the outcome depends on:

1. The message itself: body and properties. They never change after its creation. An outcome of a message that is not
   stored yet is used only for the message that the predicted action really creates.
2. The slices that the message is a member of (`Outcome.members`); they decide which rules are evaluated. A message
   leaves a slice by a reset after its creation, so the set of resets is not enough: their order relative to the
   creation counts.
3. The state keys it has read, each in a version (`Outcome.seen`). A version identifies all steps that have changed the
   key, in order, so equal versions mean the same messages in the same order.
4. The document order between messages of different keys, and between them and the message itself (`Outcome.order`).
   Versions do not imply it: two steps that change one key each may have been applied in either order.
5. Collections, which are changed by an operator only, never during a round; the clock, which is part of the snapshot;
   the program, which never changes while an engine runs.

There is nothing else: an expression can access its context and the functions of the language only, and functions that
access anything outside are refused when the program is checked.

Invariant: versions and keys of outcomes are computed by `combine`, in the node, in worker processes and on executors of
Spark. It is integer arithmetic, so all of them get the same numbers, whatever Python they run. Two different sequences
of steps have the same version with a probability of about 2**-61.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from demaq.compiler.plan import AnyQueue, Index, Plan, QueueByKey, SliceRead, WholeQueue
from demaq.evaluation.outcomes import NOTHING_READ, Action, Enqueued, Reads, StateKey, Version

SliceKey = tuple[str, str]

UNCHANGED: Version = 0
_PRIME = 2**61 - 1
_FACTOR = 0x1D2B_7F4A_9C15_E3B5 % _PRIME

_HOLDS_DOCUMENTS = frozenset(["slice", "in", "entry"])
"""Kinds of state keys that are read as sequences of messages."""
ORDERED_STEPS_MAX = 200
"""The order of at most so many steps is compared; an outcome that depends on more is evaluated on stored state."""


def combine(version: Version, change: int) -> int:
    """Return the version that follows a version by one more change; never UNCHANGED."""
    return (version * _FACTOR + change + 2) % _PRIME or 1


def index_name(index: Index) -> str:
    """Return the name of an index in the store: the same for all versions of a program that have it."""
    return f"{index.queue} {index.path}"


class StateKeys:
    """Computes which state keys are read and changed, for one program."""

    def __init__(self, plan: Plan) -> None:
        self._names = [index_name(index) for index in plan.indexes]
        self._queues = [index.queue for index in plan.indexes]
        program = plan.program
        self._read_as_a_whole = _read_as_a_whole(plan)
        watched = self._read_as_a_whole.union(self._queues)
        self._of_slicing = {
            slicing.name: tuple([queue for queue in program.properties[slicing.property].values if queue in watched])
            for slicing in program.slicings.values()
        }
        """For each slicing, the queues that are read and whose messages can be in its slices."""
        self._watched = watched
        self._ordered = watched | _read_in_slices(plan) | _reading(plan)
        """Queues whose messages a rule may compare with others by document order."""

    def is_read(self, queue: str) -> bool:
        """Return whether a rule may read messages of this queue other than the one it is evaluated on."""
        return queue in self._watched

    def gone(self, queue: str) -> list[StateKey]:
        """Return what changes when a message of a queue becomes invisible."""
        return [("out", queue)] if queue in self._watched else []

    def read(self, slices: Iterable[SliceKey], reads: Reads) -> list[StateKey]:
        """Return what the outcome of a message in these slices depends on, possibly more than that."""
        found: list[StateKey] = [("reset", slicing, key) for slicing, key in slices]
        if reads is NOTHING_READ:
            return found
        found += [("slice", slicing, key) for slicing, key in reads.slices]
        for queue in reads.queues:
            found += [("in", queue), ("out", queue)]
        for number, value in reads.entries:
            found += [("entry", self._names[number - 1], value), ("out", self._queues[number - 1])]
        return found

    def created(self, queue: str, slices: Sequence[SliceKey], entries: Sequence[tuple[str, str]]) -> list[StateKey]:
        """Return what a new message changes."""
        found: list[StateKey] = [("in", queue)] if queue in self._read_as_a_whole else []
        if slices:
            found += [("slice", slicing, key) for slicing, key in slices]
        if entries:
            found += [("entry", name, value) for name, value in entries]
        return found

    def creates_ordered(self, actions: Iterable[Action]) -> bool:
        """Return whether actions create a message whose document order relative to others a rule may observe."""
        return any([isinstance(action, Enqueued) and action.queue in self._ordered for action in actions])

    def reset(self, resets: Iterable[SliceKey]) -> list[StateKey]:
        """Return what resets change; the messages they release may be in any queue of the slicing."""
        found: list[StateKey] = []
        for item in resets:
            found += [("reset", *item), ("slice", *item)]
            found += [("out", queue) for queue in self._of_slicing[item[0]]]
        return found


def _read_as_a_whole(plan: Plan) -> frozenset[str]:
    found: set[str] = set()
    for name, queue in plan.queues.items():
        for rule in queue.rules:
            for read in rule.reads:
                match read:
                    case AnyQueue() | QueueByKey():  # a key that no index can answer makes the second one of the first
                        found.update(plan.queues if isinstance(read, AnyQueue) else [read.queue])
                    case WholeQueue():
                        found.add(read.queue or name)
    return frozenset(found)


def _read_in_slices(plan: Plan) -> set[str]:
    """Return the queues whose messages can be in slices that are read."""
    reads = [read for queue in plan.queues.values() for rule in queue.rules for read in rule.reads]
    slicings = {read.slicing for read in reads if isinstance(read, SliceRead)}
    program = plan.program
    return {queue for name in slicings for queue in program.properties[program.slicings[name].property].values}


def _reading(plan: Plan) -> set[str]:
    """Return the queues whose rules read other messages."""
    return {name for name, queue in plan.queues.items() if any([rule.reads_other_messages for rule in queue.rules])}


class TooManySteps(Exception):
    """More than ORDERED_STEPS_MAX steps would have to be compared."""


class VersionTracker:
    """The versions of all state keys that have changed since a snapshot.

    A version identifies the steps that have changed a key, in order. A counter or the last step would not do: an
    outcome that failed validation is replaced by another one, which changes the same key in another way.
    """

    def __init__(self) -> None:
        self.versions: dict[StateKey, Version] = {}
        self.steps = 0
        """The number of steps. The position of a step is this number right after the step."""
        self._positions: dict[StateKey, tuple[list[int], list[int]]] = {}
        """For each key that holds documents: the positions and the keys of the steps that have changed it."""

    def add(self, step: int, parts: Iterable[StateKey]) -> None:
        """Record that a step with this key has changed state."""
        self.steps += 1
        versions = self.versions
        for part in set(parts):
            versions[part] = combine(versions.get(part, UNCHANGED), step)
            if part[0] in _HOLDS_DOCUMENTS:
                known = self._positions.get(part)
                if known is None:
                    self._positions[part] = [self.steps], [step]
                else:
                    known[0].append(self.steps)
                    known[1].append(step)

    def include(self, others: VersionTracker) -> None:
        """Record the changes of another tracker, which were not taken into account so far."""
        for part, version in others.versions.items():
            self.versions[part] = combine(self.versions.get(part, UNCHANGED), version)

    def agree(self, parts: Sequence[StateKey], seen: Mapping[StateKey, Version]) -> bool:
        """Return whether all keys have the versions that were seen; a key that is not in `seen` was unchanged."""
        versions = self.versions
        if not versions and not seen:
            return True
        return all([versions.get(part, UNCHANGED) == seen.get(part, UNCHANGED) for part in parts])

    def order(self, parts: Iterable[StateKey], creation: int | None) -> int:
        """Return a number that identifies the document order across these keys.

        `creation` is the position of the step that created the reading message; None if it existed at the snapshot, so
        that it comes before everything that has changed. If at most one key was read, there is no order across keys,
        and the number is 0. Raises TooManySteps.
        """
        positions = self._positions
        if not positions:
            return 0
        found = [positions[part] for part in set(parts) if part in positions]
        if not found or (len(found) == 1 and (creation is None or creation in found[0][0])):
            return 0
        if sum([len(each) for each, _ in found]) > ORDERED_STEPS_MAX:
            raise TooManySteps
        steps = {at: step for each, keys in found for at, step in zip(each, keys, strict=True)}
        ordered = sorted(steps)
        before = -1 if creation is None else bisect_right(ordered, creation)
        order = combine(UNCHANGED, before)
        for at in ordered:
            order = combine(order, steps[at])
        return order

    def touch(self, parts: Iterable[StateKey]) -> bool:
        """Return whether one of these keys has changed."""
        return any([part in self.versions for part in parts])
