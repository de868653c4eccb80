"""The source of a sequence: which messages are sent when, and what an acknowledgement or a fault means for them.

Every function takes a sequence and returns the next one, and decisions where there are any. The caller stores the
sequence before it carries the decisions out: a message that was not sent after all is sent again when it is due.

    creating -> open -> closing -> terminating -> terminated       (1.1, 1.2)
    creating -> open, with an empty last message -> terminating -> terminated       (1.0)

From all of these a sequence can get lost, which `restart` mends, or fail.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from demaq.backoff import Backoff
from demaq.soap.reliability.outbound_sequence import (
    ENDED,
    OutboundSequence,
    OutboundState,
    PendingNumber,
)
from demaq.soap.reliability.protocol_messages import CreateSequenceResponse
from demaq.soap.reliability.reliability_faults import FaultName, ReliabilityFault
from demaq.soap.reliability.reliability_versions import MESSAGE_NUMBER_MAX
from demaq.soap.reliability.sequence_headers import Acknowledgement

BATCH_MAX = 100
"""The most messages that are sent at once."""
MARKER_ATTEMPTS_MAX = 3
"""So often the empty message that marks the end in 1.0 is sent, if all others are acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetransmissionRules:
    """How often and when something is sent again."""

    backoff: Backoff
    attempts_max: int
    """A message that was sent so often without an acknowledgement has failed."""
    restarts_max: int = 3
    """So many sequences in a row may get lost without one acknowledgement."""


@dataclass(frozen=True, slots=True)
class SendCreate:
    """Send `OutboundSequence.make_creation`."""


@dataclass(frozen=True, slots=True)
class SendNumbered:
    """Send a message with its number; with an empty Body and as the last one if it marks the end of 1.0."""

    message_number: int
    is_marker: bool = False
    asks_for_ack: bool = False
    """Whether it carries AckRequested, because it was sent before."""


@dataclass(frozen=True, slots=True)
class SendClose:
    last_number: int | None


@dataclass(frozen=True, slots=True)
class SendTerminate:
    last_number: int | None


@dataclass(frozen=True, slots=True)
class MarkDelivered:
    """Messages were acknowledged for the first time."""

    message_numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Messages have finally failed."""

    message_numbers: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class BeginAgain:
    """Call `restart`, and number the messages as it says."""


@dataclass(frozen=True, slots=True)
class ReportFault:
    """Send a fault to the destination."""

    fault: ReliabilityFault


OutboundDecision = (
    SendCreate | SendNumbered | SendClose | SendTerminate | MarkDelivered | GiveUp | BeginAgain | ReportFault
)
_Result = tuple[OutboundSequence, tuple[OutboundDecision, ...]]


def assign_number(sequence: OutboundSequence) -> tuple[OutboundSequence, int]:
    """Return the number of another message. Only for a sequence that has room."""
    assert sequence.has_room, "the caller asks before"
    return _append(sequence), sequence.next_number


def note_sent(sequence: OutboundSequence) -> OutboundSequence:
    """Return the sequence of which all messages may have been sent, for a caller that decides itself when they are."""
    pending = [one if one.attempts else replace(one, attempts=1) for one in sequence.pending]
    return replace(sequence, pending=tuple(pending))


def finish(sequence: OutboundSequence) -> OutboundSequence:
    """Return the sequence to which no message will be added: it ends when all are acknowledged."""
    if sequence.is_finishing or sequence.state in ENDED:
        return sequence
    needs_marker = not sequence.version.has_close and 1 < sequence.next_number <= MESSAGE_NUMBER_MAX
    finishing = replace(sequence, is_finishing=True)
    return replace(_append(finishing), marker=sequence.next_number) if needs_marker else finishing


def take_due(
    sequence: OutboundSequence, now: float, rules: RetransmissionRules, chance: Callable[[], float] = random.random
) -> _Result:
    """Return what has to be sent now, and the sequence that has noted it."""
    sequence = _move_on(sequence)
    if sequence.state in ENDED:
        return sequence, ()
    if sequence.expires_at is not None and now >= sequence.expires_at:
        sequence = _lose(sequence)
    if sequence.state == OutboundState.LOST:
        return _begin_again(sequence, rules)
    if sequence.state == OutboundState.OPEN:
        return _take_messages(sequence, now, rules, chance)
    if now < sequence.retry_at:
        return sequence, ()
    if sequence.attempts >= rules.attempts_max:
        if sequence.state == OutboundState.CREATING:
            return _fail(sequence, "the destination has not created the sequence")
        if sequence.unacknowledged:  # it has a gap, and does not say what it has received
            return _begin_again(_enter(sequence, OutboundState.LOST), rules)
        return replace(sequence, state=OutboundState.TERMINATED), ()  # all is delivered: it will expire over there
    attempts = sequence.attempts + 1
    retry_at = now + rules.backoff.delay_seconds(attempts, chance)
    return replace(sequence, attempts=attempts, retry_at=retry_at), (_protocol_step(sequence),)


def next_due(sequence: OutboundSequence) -> float | None:
    """Return when something has to be sent next; None if nothing has to be."""
    sequence = _move_on(sequence)
    if sequence.state in ENDED:
        return None
    if sequence.state == OutboundState.LOST:
        return 0.0
    if sequence.state != OutboundState.OPEN:
        return sequence.retry_at
    return min([one.retry_at for one in sequence.pending], default=None)


def note_created(sequence: OutboundSequence, response: CreateSequenceResponse, now: float) -> OutboundSequence:
    """Return the sequence that the destination has created. A second answer to CreateSequence changes nothing."""
    if sequence.state != OutboundState.CREATING:
        return sequence
    seconds = response.expires_seconds
    return replace(
        sequence,
        state=OutboundState.OPEN,
        identifier=response.identifier,
        offer_acks_to=response.accepted_acks_to if sequence.offered is not None else None,
        expires_at=now + seconds if seconds is not None else None,
        attempts=0,
        retry_at=0.0,
    )


def note_acknowledged(sequence: OutboundSequence, acknowledgement: Acknowledgement, now: float) -> _Result:
    """Return the sequence after an acknowledgement, which may be old: what was acknowledged stays so (3.9)."""
    if acknowledgement.identifier != sequence.identifier or sequence.state in ENDED:
        return sequence, ()
    invalid = _never_sent(sequence, acknowledgement)
    if invalid:
        fault = ReliabilityFault(
            version=sequence.version,
            name=FaultName.INVALID_ACKNOWLEDGEMENT,
            identifier=sequence.identifier,
            ranges=acknowledgement.ranges,
        )
        return sequence, (ReportFault(fault),)
    fresh = tuple([one for one in sequence.unacknowledged if one in acknowledgement.ranges])
    pending = [one for one in sequence.pending if one.message_number not in acknowledgement.ranges]
    wanted = [
        replace(one, retry_at=min(one.retry_at, now)) if one.message_number in acknowledgement.missing else one
        for one in pending
    ]
    after = replace(
        sequence,
        acknowledged=sequence.acknowledged.merge(acknowledgement.ranges),
        pending=tuple(wanted),
        restarts=0 if fresh else sequence.restarts,
    )
    if acknowledgement.is_final and after.state in (OutboundState.OPEN, OutboundState.CLOSING):
        after = _lose(after)
    return _move_on(after), (MarkDelivered(fresh),) if fresh else ()


def note_closed(sequence: OutboundSequence) -> OutboundSequence:
    """Return the sequence after CloseSequenceResponse. What is not acknowledged by then was not received."""
    if sequence.state != OutboundState.CLOSING:
        return sequence
    return _enter(sequence, OutboundState.LOST if sequence.unacknowledged else OutboundState.TERMINATING)


def note_terminated(sequence: OutboundSequence) -> OutboundSequence:
    """Return the sequence after TerminateSequenceResponse.

    1.0 has no such message: TerminateSequence was transferred, whatever is in the response. gSOAP returns a
    TerminateSequence in it that has an empty Identifier.
    """
    is_expected = sequence.state == OutboundState.TERMINATING
    return _enter(sequence, OutboundState.TERMINATED) if is_expected else sequence


def note_fault(sequence: OutboundSequence, fault: ReliabilityFault) -> _Result:
    """Return the sequence after a fault. Acknowledgements of the same envelope have been noted before."""
    is_about_other = fault.identifier is not None and fault.identifier != sequence.identifier
    if sequence.state in ENDED or (is_about_other and fault.name not in _REFUSALS):
        return sequence, ()
    if fault.name in _REFUSALS:
        is_answer = sequence.state == OutboundState.CREATING or fault.name == FaultName.WSRM_REQUIRED
        return _fail(sequence, fault.reason or fault.name) if is_answer else (sequence, ())
    if fault.name == FaultName.INVALID_ACKNOWLEDGEMENT or sequence.state == OutboundState.CREATING:
        return sequence, ()
    return _lose(sequence), ()


def note_expired(sequence: OutboundSequence, now: float) -> OutboundSequence:
    """Return the sequence, which is lost if its time is over (3.4)."""
    is_over = sequence.expires_at is not None and now >= sequence.expires_at
    return _lose(sequence) if is_over and sequence.state not in (*ENDED, OutboundState.LOST) else sequence


def give_up(sequence: OutboundSequence, message_number: int) -> tuple[OutboundSequence, tuple[tuple[int, int], ...]]:
    """Return the sequence without a message that will never be sent again, with pairs of old and new numbers.

    A gap would keep the destination from delivering what comes after it. So the sequence accepts no more messages and
    is closed, and what was not received then goes into another one. Before it is created, no number was used, and those
    after the message move up.
    """
    left = [one for one in sequence.pending if one.message_number != message_number]
    if sequence.state == OutboundState.CREATING:
        new = replace(sequence, next_number=1, pending=())
        for _ in left:
            new = _append(new)
        return new, tuple([(one.message_number, number) for number, one in enumerate(left, 1)])
    same = tuple([(one.message_number, one.message_number) for one in left])
    without = replace(sequence, pending=tuple([one for one in left if one.message_number != sequence.marker]))
    if sequence.state != OutboundState.OPEN:
        return without, same
    return _enter(replace(without, is_finishing=True, marker=None), OutboundState.CLOSING), same


def leave(sequence: OutboundSequence, *, is_known_there: bool) -> OutboundSequence:
    """Return a sequence whose messages have gone into another one: it is terminated, if the destination knows it."""
    state = OutboundState.TERMINATING if is_known_there else OutboundState.TERMINATED
    return replace(_enter(sequence, state), pending=(), is_finishing=True, marker=None)


def restart(
    sequence: OutboundSequence, *, creation_id: str, offered: str | None = None
) -> tuple[OutboundSequence, tuple[tuple[int, int], ...]]:
    """Return a new sequence for what is not acknowledged, with pairs of its old and new numbers, ascending.

    What was acknowledged is not sent again.
    """
    assert sequence.state == OutboundState.LOST, "only a sequence that was lost begins again"
    new = OutboundSequence(
        version=sequence.version,
        acks_to=sequence.acks_to,
        creation_id=creation_id,
        offered=offered,
        lifetime_seconds=sequence.lifetime_seconds,
        restarts=sequence.restarts + 1,
    )
    pairs = tuple([(old, number) for number, old in enumerate(sequence.unacknowledged, 1)])
    for _ in pairs:
        new = _append(new)
    return finish(new) if sequence.is_finishing else new, pairs


_REFUSALS = (FaultName.CREATE_SEQUENCE_REFUSED, FaultName.WSRM_REQUIRED)


def _take_messages(
    sequence: OutboundSequence, now: float, rules: RetransmissionRules, chance: Callable[[], float]
) -> _Result:
    due = [one for one in sequence.pending if one.retry_at <= now][:BATCH_MAX]
    if due and not sequence.unacknowledged and due[0].attempts >= min(MARKER_ATTEMPTS_MAX, rules.attempts_max):
        ending = replace(sequence, pending=())  # gSOAP accepts the marker, and does not acknowledge it
        return take_due(_enter(ending, OutboundState.TERMINATING), now, rules, chance)
    if any([one.attempts >= rules.attempts_max for one in due]):
        return _fail(sequence, f"a message was sent {rules.attempts_max} times and not acknowledged")
    taken = {
        one.message_number: PendingNumber(
            one.message_number, one.attempts + 1, now + rules.backoff.delay_seconds(one.attempts + 1, chance)
        )
        for one in due
    }
    pending = tuple([taken.get(one.message_number, one) for one in sequence.pending])
    steps = [SendNumbered(one.message_number, one.message_number == sequence.marker, one.attempts > 0) for one in due]
    return replace(sequence, pending=pending), tuple(steps)


def _protocol_step(sequence: OutboundSequence) -> OutboundDecision:
    if sequence.state == OutboundState.CREATING:
        return SendCreate()
    if sequence.state == OutboundState.CLOSING:
        return SendClose(sequence.last_number)
    assert sequence.state == OutboundState.TERMINATING, "the other states have no message of their own"
    return SendTerminate(sequence.last_number)


def _begin_again(sequence: OutboundSequence, rules: RetransmissionRules) -> _Result:
    if not sequence.unacknowledged:
        return replace(sequence, state=OutboundState.TERMINATED, pending=()), ()
    if sequence.restarts >= rules.restarts_max:
        return _fail(sequence, f"the destination has lost {sequence.restarts + 1} sequences in a row")
    return sequence, (BeginAgain(),)


def _move_on(sequence: OutboundSequence) -> OutboundSequence:
    """Return the sequence in the state that follows by itself: an end once all messages are acknowledged."""
    if sequence.state == OutboundState.CREATING and sequence.is_finishing and not sequence.pending:
        is_known_there = sequence.attempts > 0
        return sequence if is_known_there else _enter(sequence, OutboundState.TERMINATED)
    if sequence.state != OutboundState.OPEN or not sequence.is_finishing or sequence.pending:
        return sequence
    return _enter(sequence, OutboundState.CLOSING if sequence.version.has_close else OutboundState.TERMINATING)


def _lose(sequence: OutboundSequence) -> OutboundSequence:
    """Return the sequence that accepts no message any more. One without messages has reached its end."""
    if sequence.unacknowledged:
        return _enter(sequence, OutboundState.LOST)
    if sequence.state == OutboundState.CLOSING:  # a final acknowledgement is as good as CloseSequenceResponse
        return _enter(sequence, OutboundState.TERMINATING)
    if sequence.state == OutboundState.TERMINATING or sequence.is_finishing:
        return replace(_enter(sequence, OutboundState.TERMINATED), pending=())
    return _enter(sequence, OutboundState.LOST)


def _never_sent(sequence: OutboundSequence, acknowledgement: Acknowledgement) -> bool:
    """Return whether a number is acknowledged, or missed, that was never sent (4.4)."""
    numbers = [acknowledgement.ranges.highest, *acknowledgement.missing]
    if max(numbers) >= sequence.next_number:
        return True
    return any([one.attempts == 0 and one.message_number in acknowledgement.ranges for one in sequence.pending])


def _append(sequence: OutboundSequence) -> OutboundSequence:
    number = sequence.next_number
    return replace(sequence, next_number=number + 1, pending=(*sequence.pending, PendingNumber(number)))


def _enter(sequence: OutboundSequence, state: OutboundState) -> OutboundSequence:
    return replace(sequence, state=state, attempts=0, retry_at=0.0)


def _fail(sequence: OutboundSequence, reason: str) -> _Result:
    failed = _enter(sequence, OutboundState.FAILED)
    return failed, (GiveUp(sequence.unacknowledged, reason),) if sequence.unacknowledged else ()
