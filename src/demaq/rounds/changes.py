"""What steps change and what outcomes read, so that it can be told whether an outcome still holds.

State is divided into parts: a slice, an entry of an index, what came into a queue, what became invisible in it. A
message is evaluated with the parts it reads in some version; in a serial execution it would have met the version that
the steps in front of it have made. If the two are the same, it would have done the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from demaq.compiler.plan import AnyQueue, Index, Plan, QueueByKey, WholeQueue
from demaq.rounds.outcomes import NOTHING_READ, Part, Reads, Version

SliceKey = tuple[str, str]

UNCHANGED: Version = 0


def index_name(index: Index) -> str:
    """What an index is called in the store: the same for every version of a program that has it."""
    return f"{index.queue} {index.path}"


class Parts:
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

    def is_read(self, queue: str) -> bool:
        """Whether somebody may meet messages of a queue there."""
        return queue in self._watched

    def gone(self, queue: str) -> list[Part]:
        """What changes when a message of a queue becomes invisible."""
        return [("out", queue)] if queue in self._watched else []

    def read(self, slices: Iterable[SliceKey], reads: Reads) -> list[Part]:
        """What the outcome of a message that is in these slices depends on. Rather too much than too little."""
        found: list[Part] = [("reset", slicing, key) for slicing, key in slices]
        if reads is NOTHING_READ:
            return found
        found += [("slice", slicing, key) for slicing, key in reads.slices]
        for queue in reads.queues:
            found += [("in", queue), ("out", queue)]
        for number, value in reads.entries:
            found += [("entry", self._names[number - 1], value), ("out", self._queues[number - 1])]
        return found

    def created(self, queue: str, slices: Sequence[SliceKey], entries: Sequence[tuple[str, str]]) -> list[Part]:
        """What a new message changes."""
        found: list[Part] = [("in", queue)] if queue in self._read_as_a_whole else []
        if slices:
            found += [("slice", slicing, key) for slicing, key in slices]
        if entries:
            found += [("entry", name, value) for name, value in entries]
        return found

    def reset(self, resets: Iterable[SliceKey]) -> list[Part]:
        """What resets change, besides the messages that they release: these may be in any queue of the slicing."""
        found: list[Part] = []
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


class Changes:
    """Versions of the parts that have changed since a snapshot.

    A version stands for all steps that have changed the part, in their order: who has seen it has seen what each of
    them did. The number of steps and the last one would not do, because an outcome that did not hold is replaced by
    another one, which changes the same part in another way.
    """

    def __init__(self) -> None:
        self.versions: dict[Part, Version] = {}

    def add(self, step: int, parts: Iterable[Part]) -> None:
        """A step with this key has changed parts."""
        versions = self.versions
        for part in set(parts):
            versions[part] = hash((versions.get(part, UNCHANGED), step))

    def include(self, others: Changes) -> None:
        """Make the changes of others, which could be left out of account so far, count too."""
        for part, version in others.versions.items():
            self.versions[part] = hash((self.versions.get(part, UNCHANGED), version))

    def agree(self, parts: Sequence[Part], seen: Mapping[Part, Version]) -> bool:
        """Whether all these parts have the versions in which they were seen; not to be mentioned is unchanged."""
        versions = self.versions
        if not versions and not seen:
            return True
        return all([versions.get(part, UNCHANGED) == seen.get(part, UNCHANGED) for part in parts])

    def touch(self, parts: Iterable[Part]) -> bool:
        return any([part in self.versions for part in parts])
