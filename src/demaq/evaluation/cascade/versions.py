"""What steps change and what outcomes depend on, to decide whether an outcome is that of a serial execution.

State is divided into parts: a slice, its resets, an entry of an index, what came into a queue, what became invisible in
it. A message is evaluated on a snapshot with the changes of some steps applied to it; a serial execution would have
shown it the changes of the steps before it. The outcome is the same if these agree in all that it depends on:

1. The message itself: its body and its properties. They never change once it is created. An outcome of a message that
   is not stored yet is used only for what the action it was evaluated for really creates.
2. The slices that the message is a member of (`Outcome.members`), which decide on the rules that are asked. A message
   leaves a slice by a reset after its creation, so which resets there were does not say it: their order relative to
   the creation does.
3. The parts it has read, each in a version (`Outcome.seen`). A version names all steps that have changed the part, in
   their order, so equal versions hold the same messages in the same order.
4. The document order between messages of different parts, and between them and the message itself (`Outcome.order`).
   Versions say nothing of it: two steps that change a part each may have been applied in either order.
5. Collections, which change by an operator's hand only, when no round is under way; the clock, which is part of the
   snapshot; and the program, which never changes while an engine runs.

There is nothing else: an expression has no access to anything but its context and the functions of section 2 of the
language, and those that reach outside are refused.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from demaq.compiler.plan import AnyQueue, Index, Plan, QueueByKey, SliceRead, WholeQueue
from demaq.evaluation.outcomes import NOTHING_READ, Action, Enqueued, Reads, StateKey, Version

SliceKey = tuple[str, str]

UNCHANGED: Version = 0

_HOLDS_DOCUMENTS = frozenset(["slice", "in", "entry"])
"""The kinds of parts that are read as sequences of messages."""
ORDERED_STEPS_MAX = 200
"""The order of no more steps than this is compared; an outcome that depends on more is evaluated on stored state."""


def index_name(index: Index) -> str:
    """What an index is called in the store: the same for every version of a program that has it."""
    return f"{index.queue} {index.path}"


class StateKeys:
    """The parts of a program's state."""

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
        """Queues that are read and whose messages can be in a slice."""
        self._watched = watched
        self._ordered = watched | _read_in_slices(plan) | _reading(plan)
        """Queues whose messages rules may compare with others by their order."""

    def is_read(self, queue: str) -> bool:
        """Whether somebody may meet messages of a queue there."""
        return queue in self._watched

    def gone(self, queue: str) -> list[StateKey]:
        """What changes when a message of a queue becomes invisible."""
        return [("out", queue)] if queue in self._watched else []

    def read(self, slices: Iterable[SliceKey], reads: Reads) -> list[StateKey]:
        """What the outcome of a message that is in these slices depends on. Rather too much than too little."""
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
        """What a new message changes."""
        found: list[StateKey] = [("in", queue)] if queue in self._read_as_a_whole else []
        if slices:
            found += [("slice", slicing, key) for slicing, key in slices]
        if entries:
            found += [("entry", name, value) for name, value in entries]
        return found

    def creates_ordered(self, actions: Iterable[Action]) -> bool:
        """Whether actions create a message whose place among others a rule may see."""
        return any([isinstance(action, Enqueued) and action.queue in self._ordered for action in actions])

    def reset(self, resets: Iterable[SliceKey]) -> list[StateKey]:
        """What resets change, besides the messages that they release: these may be in any queue of the slicing."""
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
    """Queues whose messages can be in slices that are read."""
    reads = [read for queue in plan.queues.values() for rule in queue.rules for read in rule.reads]
    slicings = {read.slicing for read in reads if isinstance(read, SliceRead)}
    program = plan.program
    return {queue for name in slicings for queue in program.properties[program.slicings[name].property].values}


def _reading(plan: Plan) -> set[str]:
    """Queues whose messages meet others."""
    return {name for name, queue in plan.queues.items() if any([rule.reads_other_messages for rule in queue.rules])}


class TooManySteps(Exception):
    """The order of so many steps is not compared."""


class VersionTracker:
    """Versions of the parts that have changed since a snapshot.

    A version stands for all steps that have changed the part, in their order: who has seen it has seen what each of
    them did. The number of steps and the last one would not do, because an outcome that did not hold is replaced by
    another one, which changes the same part in another way.
    """

    def __init__(self) -> None:
        self.versions: dict[StateKey, Version] = {}
        self.steps = 0
        """How many steps there were. The position of a step is this number right after it."""
        self._positions: dict[StateKey, tuple[list[int], list[int]]] = {}
        """For each part that holds documents: the positions and the keys of the steps that have changed it."""

    def add(self, step: int, parts: Iterable[StateKey]) -> None:
        """A step with this key has changed parts."""
        self.steps += 1
        versions = self.versions
        for part in set(parts):
            versions[part] = hash((versions.get(part, UNCHANGED), step))
            if part[0] in _HOLDS_DOCUMENTS:
                known = self._positions.get(part)
                if known is None:
                    self._positions[part] = [self.steps], [step]
                else:
                    known[0].append(self.steps)
                    known[1].append(step)

    def include(self, others: VersionTracker) -> None:
        """Make the changes of others, which could be left out of account so far, count too."""
        for part, version in others.versions.items():
            self.versions[part] = hash((self.versions.get(part, UNCHANGED), version))

    def agree(self, parts: Sequence[StateKey], seen: Mapping[StateKey, Version]) -> bool:
        """Whether all these parts have the versions in which they were seen; not to be mentioned is unchanged."""
        versions = self.versions
        if not versions and not seen:
            return True
        return all([versions.get(part, UNCHANGED) == seen.get(part, UNCHANGED) for part in parts])

    def order(self, parts: Iterable[StateKey], creation: int | None) -> int:
        """Return a number for the document order of what these parts hold, besides the order within each of them.

        `creation` is the position of the step that created the message that has read them; None for one that was there
        at the snapshot, and so comes before everything that has changed. What is read of one part only, or of none,
        has no other order, which is 0. Raises TooManySteps.
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
        return hash((before, *[steps[at] for at in ordered]))

    def touch(self, parts: Iterable[StateKey]) -> bool:
        return any([part in self.versions for part in parts])
