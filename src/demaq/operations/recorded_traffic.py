"""Find the messages that a scenario of real traffic is made of: what came from outside, and what followed.

The conversations of the given messages are taken whole, and with them the conversations of all messages that were in a
slice with one of theirs, because rules join what is in a slice. Messages that came from outside are inputs. So are
those that an outgoing gateway has received or reported, because a scenario sends nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from demaq.engine.error_routing import kind_of
from demaq.errors import OperatorError
from demaq.language.program.program import Program
from demaq.operations.trace import EXAMINED_MAX
from demaq.store.protocol import Store, StoredMessage
from demaq.system_properties import ERROR_LEVEL

MESSAGES_MAX = 2_000
"""More messages than this are not recorded."""
READ_AT_ONCE = 500
_RULE_ERRORS = ("dynamicError", "propertyError", "enqueueError", "schemaViolation", "notWellFormed")
"""Kinds of errors of rules and timers, which a scenario repeats by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTraffic:
    inputs: tuple[StoredMessage, ...]
    """In the order in which they came."""
    made: tuple[StoredMessage, ...]
    """What rules and timers made of them, in order."""
    collections: Mapping[str, Sequence[str]]
    is_complete: bool
    """Whether every message that led to one of them is still stored."""
    is_cut: bool
    """Whether there were more messages than are recorded."""


def find_traffic(
    store: Store, program: Program, seqs: Iterable[int], messages_max: int = MESSAGES_MAX
) -> RecordedTraffic:
    """Return the traffic that these messages belong to. Raises an OperatorError if none of its inputs is stored."""
    found: dict[int, StoredMessage] = {}
    origins: set[int] = set()
    slices: set[tuple[str, str]] = set()
    is_cut = False
    waiting = deque(store.messages(list(seqs)))
    while waiting:
        origin = waiting.popleft().origin
        if origin in origins:
            continue
        origins.add(origin)
        numbers = [seq for seq, _ in store.conversation(origin, EXAMINED_MAX)]
        if len(found) + len(numbers) > messages_max:
            is_cut = True
            numbers = numbers[: max(messages_max - len(found), 0)]
        for start in range(0, len(numbers), READ_AT_ONCE):
            for message in store.messages(numbers[start : start + READ_AT_ONCE]):
                found[message.seq] = message
                for slice in _slices_of(program, message):
                    if slice not in slices:
                        slices.add(slice)
                        members = [seq for seq in store.slice_history(*slice, messages_max) if seq not in found]
                        waiting += store.messages(members)
    ordered = [found[seq] for seq in sorted(found)]
    inputs = [message for message in ordered if _is_input(program, message, found)]
    if not inputs:
        raise OperatorError(
            "no message from outside is stored any more that led to this; run the node with --keep or --keep-sample"
        )
    chosen = {message.seq for message in inputs}
    return RecordedTraffic(
        inputs=tuple(inputs),
        made=tuple([message for message in ordered if message.seq not in chosen]),
        collections=_read_collections(store, program),
        is_complete=all([m.trigger is None or m.trigger in found for m in ordered]) and origins <= found.keys(),
        is_cut=is_cut,
    )


def _read_collections(store: Store, program: Program) -> dict[str, Sequence[str]]:
    """Return the collections that the application may read. One that declares none may read any."""
    names = [name for name, _, count in store.collections() if count]
    return {n: store.collection(n)[1] for n in names if not program.collections or n in program.collections}


def _slices_of(program: Program, message: StoredMessage) -> list[tuple[str, str]]:
    """Return the slices that a message is or was in, by its declared properties."""
    if message.queue not in program.queues:
        return []
    return [
        (slicing.name, message.properties[slicing.property].key)
        for slicing in program.slicings_of(message.queue)
        if slicing.property in message.properties and program.properties[slicing.property].decl is not None
    ]


def _is_input(program: Program, message: StoredMessage, found: Mapping[int, StoredMessage]) -> bool:
    if message.queue not in program.queues:
        return False
    if message.trigger is None:
        return True
    cause = found.get(message.trigger)
    declared = None if cause is None else program.queues.get(cause.queue)
    if declared is None or declared.kind != "outgoingGateway":
        return False
    if ERROR_LEVEL in message.properties:
        return kind_of(message.body) not in _RULE_ERRORS
    return message.rule is None
