"""What cascades know about the queues of a program before they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from demaq.compiler.plan import Plan, SliceRead
from demaq.evaluation.cascade.versions import StateKeys
from demaq.records import record

_UNKNOWN_YET = ("demaq:id", "demaq:trigger")
"""Properties of a new message that are unknown before it is stored."""
_UNKNOWN_ON_ARRIVAL = (*_UNKNOWN_YET, "demaq:origin")
"""The same for a message from outside, and all that it leads to."""

_DependsOn = Callable[[str, Sequence[str]], bool]


@record
class QueueFacts:
    """What a cascade needs to know about the messages of a queue."""

    name: str
    order: int
    """The first part of their place in the serial order: the priority, negated."""
    is_possible: bool
    """Whether they can be evaluated before they are stored, and may read messages that are not stored yet."""
    is_possible_on_arrival: bool
    """The same for messages from outside, and all that they lead to."""
    is_silent: bool
    """Whether processing one that is in no slice changes nothing that any rule reads, and leads to nothing else."""
    reads_others: bool
    """Whether their rules read other messages."""
    is_processed: bool
    """Whether rules process them."""
    is_sent: bool
    """Whether they stay visible until they are delivered, which a cascade cannot know."""
    is_read: bool
    """Whether rules may read them as messages of their queue."""
    system_asked: bool
    """Whether their rules read system properties."""
    slicings: tuple[tuple[str, str], ...]
    """The slicings of the queue, each with its property."""


def find_queue_facts(plan: Plan, keys: StateKeys) -> Mapping[str, QueueFacts]:
    """Return the facts about each queue."""
    slicings = {
        queue: tuple([(s.name, s.property) for s in plan.program.slicings_of(queue)]) for queue in plan.program.queues
    }

    def depends_on(queue: str, properties: Sequence[str]) -> bool:
        """Return whether rules or slicings of a queue depend on one of these properties."""
        names = plan.properties_asked_by(queue)
        if names is None or not names.isdisjoint(properties):
            return True
        return any([prop in properties for _, prop in slicings[queue]])

    possible = {queue: _is_possible(queue, plan, depends_on) for queue in plan.program.queues}
    found: dict[str, QueueFacts] = {}
    for name, queue in plan.program.queues.items():
        rules = plan.queues[name].rules
        targets = {write.queue for rule in rules for write in rule.enqueues}
        names = plan.properties_asked_by(name)
        found[name] = QueueFacts(
            name=name,
            order=-queue.priority,
            is_possible=possible[name],
            is_possible_on_arrival=_is_possible_on_arrival(name, plan, possible, depends_on),
            is_silent=(
                not keys.is_read(name)
                and not any([rule.resets for rule in rules])
                and not any([possible[to] or slicings[to] or keys.is_read(to) for to in targets])
            ),
            reads_others=any([rule.reads_other_messages for rule in rules]),
            is_processed=bool(rules) and queue.kind != "echo",
            is_sent=queue.kind == "outgoingGateway",
            is_read=keys.is_read(name),
            system_asked=names is None or any([each.startswith("demaq:") for each in names]),
            slicings=slicings[name],
        )
    return found


def find_shared_slicings(plan: Plan) -> AbstractSet[str]:
    """Return the slicings in whose slices the order of processing makes a difference: they are read or reset."""
    rules = plan.rules.values()
    resets = {slicing for rule in rules for slicing in rule.resets}
    return resets | find_read_slicings(plan)


def find_read_slicings(plan: Plan) -> set[str]:
    return {read.slicing for rule in plan.rules.values() for read in rule.reads if isinstance(read, SliceRead)}


def _is_possible(queue: str, plan: Plan, depends_on: _DependsOn) -> bool:
    rules = plan.queues[queue].rules
    if plan.program.queues[queue].kind != "basic" or not rules or any([rule.other_properties for rule in rules]):
        return False
    return not depends_on(queue, _UNKNOWN_YET)


def _is_possible_on_arrival(queue: str, plan: Plan, possible: Mapping[str, bool], depends_on: _DependsOn) -> bool:
    rules = plan.queues[queue].rules
    if plan.program.queues[queue].kind not in ("basic", "incomingGateway") or not rules:
        return False
    if any([rule.other_properties for rule in rules]):
        return False
    found, left = {queue}, [queue]
    while left:  # all that it may lead to in the same cascade
        targets = {write.queue for rule in plan.queues[left.pop()].rules for write in rule.enqueues}
        new = {target for target in targets if possible[target]} - found
        found |= new
        left += new
    return not any([depends_on(each, _UNKNOWN_ON_ARRIVAL) for each in found])
