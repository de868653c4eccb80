"""The destination of a sequence: what to do with a message or a request about it, without doing it.

`advance` is a function from a sequence and an event to the next sequence and decisions. The caller carries them out
and stores the sequence, both in one transaction. So a repeated event finds that it was handled before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from demaq.soap.reliability.delivery_assurance import Assurance
from demaq.soap.reliability.inbound_sequence import InboundSequence, InboundState
from demaq.soap.reliability.number_ranges import NO_NUMBERS, NumberRanges
from demaq.soap.reliability.protocol_messages import IncompleteBehavior
from demaq.soap.reliability.reliability_faults import FaultName, ReliabilityFault
from demaq.soap.reliability.reliability_versions import MESSAGE_NUMBER_MAX, ReliabilityVersion

HELD_MAX = 1_000
"""The most messages of a sequence that wait for one before them. A further one is discarded, and sent again later."""
RANGES_MAX = 200
"""The most ranges of received messages. A message that would begin another one is discarded, and sent again later."""

# events


@dataclass(frozen=True, slots=True)
class MessageArrived:
    message_number: int
    is_last: bool = False
    has_content: bool = True
    """False for a message of 1.0 that only marks the end of its sequence: it is acknowledged, and not delivered."""


@dataclass(frozen=True, slots=True)
class CloseRequested:
    last_number: int | None = None


@dataclass(frozen=True, slots=True)
class TerminateRequested:
    last_number: int | None = None


@dataclass(frozen=True, slots=True)
class AckRequested:
    pass


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Nothing arrived; the sequence may have expired."""


InboundEvent = MessageArrived | CloseRequested | TerminateRequested | AckRequested | TimePassed

# decisions


@dataclass(frozen=True, slots=True)
class StoreMessage:
    """Enqueue the message that has arrived."""

    message_number: int


@dataclass(frozen=True, slots=True)
class HoldBack:
    """Store the message that has arrived, but do not enqueue it yet."""

    message_number: int


@dataclass(frozen=True, slots=True)
class ReleaseMessages:
    """Enqueue messages that were held back, in this order, after the one that has arrived."""

    message_numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IgnoreDuplicate:
    """Do not store the message again."""

    message_number: int


@dataclass(frozen=True, slots=True)
class DiscardMessages:
    """Forget messages: the one that has arrived, or some that were held back."""

    message_numbers: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class SendAcknowledgement:
    """Acknowledge what the new sequence has received (`InboundSequence.acknowledge`)."""


@dataclass(frozen=True, slots=True)
class ConfirmClose:
    """Answer with CloseSequenceResponse."""


@dataclass(frozen=True, slots=True)
class ConfirmTerminate:
    """Answer with TerminateSequenceResponse; 1.0 has no such message."""


@dataclass(frozen=True, slots=True)
class SendFault:
    fault: ReliabilityFault


InboundDecision = (
    StoreMessage
    | HoldBack
    | ReleaseMessages
    | IgnoreDuplicate
    | DiscardMessages
    | SendAcknowledgement
    | ConfirmClose
    | ConfirmTerminate
    | SendFault
)
_Result = tuple[InboundSequence, tuple[InboundDecision, ...]]


def advance(sequence: InboundSequence, event: InboundEvent, now: float) -> _Result:
    """Return the sequence after an event, and what has to be done."""
    before: tuple[InboundDecision, ...] = ()
    if _has_expired(sequence, now):  # 3.4: an expired sequence is a terminated one
        sequence, before = _end(sequence, InboundState.TERMINATED)
    if isinstance(event, TimePassed):
        return sequence, before
    after, decisions = _TABLE[sequence.state, type(event)](sequence, event)
    assert not after.held.remove(after.received), "what is held back was received"
    return after, (*before, *decisions)


def refuse_unknown(version: ReliabilityVersion, identifier: str) -> SendFault:
    """Return the decision about any event of a sequence that is not known here (4.3)."""
    return SendFault(ReliabilityFault(version=version, name=FaultName.UNKNOWN_SEQUENCE, identifier=identifier))


# messages


def _accept(sequence: InboundSequence, event: MessageArrived) -> _Result:
    number = event.message_number
    if number > MESSAGE_NUMBER_MAX:  # 4.5: the sequence goes on with lower numbers
        return sequence, (_fault(sequence, FaultName.MESSAGE_NUMBER_ROLLOVER), SendAcknowledgement())
    if number in sequence.received:
        return sequence, (IgnoreDuplicate(number), SendAcknowledgement())
    last = number if event.is_last else sequence.last_number
    if last is not None and max(number, sequence.received.highest) > last:  # 1.0, 4.6: it ends the sequence
        return _fail(sequence, FaultName.LAST_MESSAGE_NUMBER_EXCEEDED)
    excess = _excess(sequence, number)
    if excess is not None:
        return sequence, (DiscardMessages((number,), excess), SendAcknowledgement())
    is_late = number < sequence.received.highest
    grown = replace(sequence, received=sequence.received.add(number), last_number=last)
    if not event.has_content:
        return _release(grown, (DiscardMessages((number,), "it marks the end of the sequence"),))
    if sequence.assurance.waits_for_gaps:
        if number > sequence.received.first_gap:
            held = replace(grown, held=grown.held.add(number))
            return held, (HoldBack(number), SendAcknowledgement())
        return _release(grown, (StoreMessage(number),))
    if sequence.assurance.in_order and sequence.assurance.times == Assurance.AT_MOST_ONCE and is_late:
        return grown, (DiscardMessages((number,), "a later message was delivered"), SendAcknowledgement())
    return grown, (StoreMessage(number), SendAcknowledgement())


def _excess(sequence: InboundSequence, number: int) -> str | None:
    """Return why there is no room for a message. There always is for the first one that is missing."""
    if number == sequence.received.first_gap:
        return None
    if sequence.assurance.waits_for_gaps and sequence.held.count >= HELD_MAX:
        return f"{HELD_MAX} messages wait for one before them"
    if len(sequence.received.add(number).ranges) > RANGES_MAX:
        return f"the messages that were received have {RANGES_MAX} gaps"
    return None


def _release(sequence: InboundSequence, first: tuple[InboundDecision, ...]) -> _Result:
    """Return the decisions after a gap was closed: what waited for it is enqueued."""
    ready = tuple(number for number in sequence.held if number < sequence.received.first_gap)
    if not ready:
        return sequence, (*first, SendAcknowledgement())
    rest = sequence.held.remove(NumberRanges.up_to(ready[-1]))
    return replace(sequence, held=rest), (*first, ReleaseMessages(ready), SendAcknowledgement())


def _meet_closed(sequence: InboundSequence, event: MessageArrived) -> _Result:
    """A repeated message is acknowledged; a new one is too late (3.5, 4.8)."""
    if event.message_number in sequence.received:
        return sequence, (IgnoreDuplicate(event.message_number), SendAcknowledgement())
    return sequence, (_fault(sequence, FaultName.SEQUENCE_CLOSED), SendAcknowledgement())


def _meet_terminated(sequence: InboundSequence, event: InboundEvent) -> _Result:
    return sequence, (_fault(sequence, FaultName.SEQUENCE_TERMINATED),)


# the end


def _close(sequence: InboundSequence, event: CloseRequested) -> _Result:
    if not _is_consistent(sequence, event.last_number):
        return _fail(sequence, FaultName.SEQUENCE_TERMINATED)
    ended, decisions = _end(replace(sequence, last_number=event.last_number), InboundState.CLOSED)
    return ended, (*decisions, ConfirmClose(), SendAcknowledgement())


def _close_again(sequence: InboundSequence, event: CloseRequested) -> _Result:
    return sequence, (ConfirmClose(), SendAcknowledgement())


def _terminate(sequence: InboundSequence, event: TerminateRequested) -> _Result:
    if not _is_consistent(sequence, event.last_number):
        return _fail(sequence, FaultName.SEQUENCE_TERMINATED)
    ended, decisions = _end(sequence, InboundState.TERMINATED)
    return ended, (*decisions, *_confirm_terminate(ended))


def _terminate_again(sequence: InboundSequence, event: TerminateRequested) -> _Result:
    return sequence, _confirm_terminate(sequence)


def _confirm_terminate(sequence: InboundSequence) -> tuple[InboundDecision, ...]:
    return (ConfirmTerminate(), SendAcknowledgement()) if sequence.version.has_close else ()


def _acknowledge(sequence: InboundSequence, event: AckRequested) -> _Result:
    return sequence, (SendAcknowledgement(),)


def _is_consistent(sequence: InboundSequence, last: int | None) -> bool:
    """Return whether the source may say that a number was its last one."""
    return last is None or (
        sequence.received.highest <= last <= MESSAGE_NUMBER_MAX and sequence.last_number in (None, last)
    )


def _fail(sequence: InboundSequence, name: FaultName) -> _Result:
    ended, decisions = _end(sequence, InboundState.TERMINATED)
    return ended, (*decisions, _fault(ended, name))


def _end(sequence: InboundSequence, state: InboundState) -> _Result:
    """Return the sequence without messages that wait: those before them will not arrive any more (3.4)."""
    waiting = tuple(sequence.held)
    ended = replace(sequence, state=state, held=NO_NUMBERS)
    if not waiting:
        return ended, ()
    if sequence.behavior == IncompleteBehavior.NO_DISCARD:
        return ended, (ReleaseMessages(waiting),)
    kept = sequence.received.remove(sequence.held)  # what is discarded is not acknowledged from now on
    return replace(ended, received=kept), (DiscardMessages(waiting, "messages before it are missing"),)


def _has_expired(sequence: InboundSequence, now: float) -> bool:
    is_over = sequence.expires_at is not None and now >= sequence.expires_at
    return is_over and sequence.state != InboundState.TERMINATED


def _fault(sequence: InboundSequence, name: FaultName) -> SendFault:
    return SendFault(ReliabilityFault(version=sequence.version, name=name, identifier=sequence.identifier))


_TABLE: dict[tuple[InboundState, type], Callable[..., _Result]] = {
    (InboundState.CREATED, MessageArrived): _accept,
    (InboundState.CREATED, AckRequested): _acknowledge,
    (InboundState.CREATED, CloseRequested): _close,
    (InboundState.CREATED, TerminateRequested): _terminate,
    (InboundState.CLOSED, MessageArrived): _meet_closed,
    (InboundState.CLOSED, AckRequested): _acknowledge,
    (InboundState.CLOSED, CloseRequested): _close_again,
    (InboundState.CLOSED, TerminateRequested): _terminate,
    (InboundState.TERMINATED, MessageArrived): _meet_terminated,
    (InboundState.TERMINATED, AckRequested): _meet_terminated,
    (InboundState.TERMINATED, CloseRequested): _meet_terminated,
    (InboundState.TERMINATED, TerminateRequested): _terminate_again,
}
"""What an event does in a state."""
