"""Decide what is stored for messages that come in sequences, and for requests about sequences.

The decisions of `demaq.soap.reliability.sequence_destination` become messages to append and changes to commit with
them. A message whose number counts as received is acknowledged even if it must be refused: it is kept in an error
message, and sending it again would not help.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from demaq.engine.engine import Engine
from demaq.engine.error_routing import RefusedMessage
from demaq.engine.intake import IncomingMessage
from demaq.errors import MessageError
from demaq.evaluation.state.snapshot_reader import date_time
from demaq.gateways.reliability.held_messages import decode_held, encode_held
from demaq.gateways.reliability.inbound_sequences import InboundSequences, SequenceOwner, SequenceTransition
from demaq.gateways.reliability.sequence_requests import SequencedArrival, SequenceOutcome, SequenceRequest
from demaq.messages import PropertyValue
from demaq.soap.reliability.inbound_sequence import InboundSequence, InboundState
from demaq.soap.reliability.protocol_messages import CloseSequence, CreateSequence, TerminateSequence
from demaq.soap.reliability.reliability_faults import ReliabilityFault
from demaq.soap.reliability.sequence_destination import (
    AckRequested,
    CloseRequested,
    ConfirmClose,
    ConfirmTerminate,
    DiscardMessages,
    HoldBack,
    IgnoreDuplicate,
    InboundDecision,
    InboundEvent,
    MessageArrived,
    ReleaseMessages,
    SendAcknowledgement,
    SendFault,
    StoreMessage,
    TerminateRequested,
)
from demaq.soap.reliability.sequence_headers import AckRequest, SequenceHeader
from demaq.soap.security.security_faults import replayed_message
from demaq.store.protocol import NewMessage, SequenceChanges


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePlan:
    """What is stored for one request."""

    messages: tuple[NewMessage, ...] = ()
    has_own: bool = False
    """Whether the first of them is the message that was sent."""
    error: MessageError | None = None
    """Why it is refused."""
    sequence: SequenceOutcome | None = None


class SequencePlanner:
    """Plans the transactions of one intake."""

    def __init__(self, engine: Engine, sequences: InboundSequences) -> None:
        self._engine = engine
        self._sequences = sequences

    @contextmanager
    def begin(self) -> Iterator[Planning]:
        """Open a plan for one transaction, which has to be committed within the block."""
        with self._sequences.begin() as transition:
            yield Planning(self._engine, transition)

    def change(
        self, requests: Sequence[SequenceRequest]
    ) -> list[tuple[SequenceOutcome | MessageError, tuple[NewMessage, ...]]]:
        """Carry out requests in one transaction. Return for each its outcome, and the messages that it has released."""
        with self.begin() as planning:
            plans = [planning.change(request) for request in requests]
            planning.commit([message for _, messages in plans for message in messages])
        return plans

    def end_inactive(self) -> list[NewMessage]:
        """Terminate sequences that have expired or were not used for too long. Return the messages this releases."""
        inactive = self._sequences.list_inactive()
        if not inactive:
            return []
        with self.begin() as planning:
            messages = [m for owner, sequence in inactive for m in planning.end_inactive(owner, sequence.identifier)]
            planning.commit(messages)
        return messages


class Planning:
    """The plan of one transaction."""

    def __init__(self, engine: Engine, transition: SequenceTransition) -> None:
        self._engine = engine
        self._transition = transition
        self._now = engine.clock()
        self._replay_keys: dict[str, datetime] = {}

    def changes(self) -> SequenceChanges | None:
        """Return what has to be committed together with the messages of all plans."""
        return self._transition.changes(self._replay_keys)

    def commit(self, messages: Sequence[NewMessage]) -> None:
        """Commit the changes with these messages."""
        changes = self.changes()
        if messages or changes is not None:
            self._engine.append_numbered(messages, changes=changes)

    def plan(
        self,
        queue: str,
        sent: IncomingMessage,
        checked: NewMessage | MessageError,
        arrival: SequencedArrival | None,
        replay_keys: Mapping[str, datetime],
        report: Callable[[MessageError], NewMessage],
    ) -> MessagePlan:
        """Return what is stored for a message that was checked; `report` makes the message about its refusal."""
        is_replay = not self._remember(replay_keys)
        if is_replay and not (arrival is not None and self._was_received(arrival)):
            checked, arrival = replayed_message(), None
        if arrival is not None:
            return self._plan_arrival(queue, sent, checked, arrival, report)
        if isinstance(checked, MessageError):
            return MessagePlan(messages=(report(checked),), error=checked)
        return MessagePlan(messages=(checked,), has_own=True)

    def change(self, request: SequenceRequest) -> tuple[SequenceOutcome | MessageError, tuple[NewMessage, ...]]:
        """Return the outcome of a request about a sequence, and the messages that it releases."""
        message, owner = request.message, request.owner
        if not self._remember(request.replay_keys) and not self._was_done(request):
            return replayed_message(), ()
        if isinstance(message, CreateSequence):
            made = self._transition.create(
                owner, message, request.rules, message_id=request.message_id, identifier=request.new_identifier
            )
            if isinstance(made, ReliabilityFault):
                return SequenceOutcome(sequence=None, fault=made), ()
            return SequenceOutcome(sequence=made), ()
        event: InboundEvent
        if isinstance(message, SequenceHeader):
            event = MessageArrived(message.message_number, message.is_last, has_content=False)
        elif isinstance(message, AckRequest):
            event = AckRequested()
        elif isinstance(message, CloseSequence):
            event = CloseRequested(message.last_number)
        else:
            event = TerminateRequested(message.last_number)
        sequence, decisions = self._transition.advance(owner, message.version, message.identifier, event)
        outcome = _make_outcome(sequence, decisions)
        return outcome, tuple(self._carry_out(owner.queue, message.identifier, decisions))

    def end_inactive(self, owner: SequenceOwner, identifier: str) -> list[NewMessage]:
        """Terminate a sequence, and return the messages that this releases."""
        return self._carry_out(owner.queue, identifier, self._transition.end_inactive(owner, identifier))

    def _plan_arrival(
        self,
        queue: str,
        sent: IncomingMessage,
        checked: NewMessage | MessageError,
        arrival: SequencedArrival,
        report: Callable[[MessageError], NewMessage],
    ) -> MessagePlan:
        header = arrival.header
        event = MessageArrived(header.message_number, header.is_last, not isinstance(checked, MessageError))
        sequence, decisions = self._transition.advance(arrival.owner, header.version, header.identifier, event)
        outcome = _make_outcome(sequence, decisions)
        if outcome.fault is not None:
            return MessagePlan(sequence=outcome)
        error = checked if isinstance(checked, MessageError) else None
        is_repeated = any([isinstance(decision, IgnoreDuplicate) for decision in decisions])
        is_received = sequence is not None and header.message_number in sequence.received
        messages: list[NewMessage] = []
        has_own = False
        if error is not None and is_received and not is_repeated:
            messages.append(report(error))
        for decision in decisions:
            if isinstance(decision, HoldBack):
                self._transition.hold(header.identifier, header.message_number, encode_held(self._note_arrival(sent)))
            elif isinstance(decision, StoreMessage) and isinstance(checked, NewMessage):
                messages.append(checked)
                has_own = True
        messages += self._carry_out(queue, header.identifier, decisions)
        return MessagePlan(messages=tuple(messages), has_own=has_own, error=error, sequence=outcome)

    def _note_arrival(self, sent: IncomingMessage) -> IncomingMessage:
        """Return a message that is held back with the time at which it came, which others get when they are stored."""
        text = date_time(self._now)
        return sent._replace(inherited={**sent.inherited, "demaq:arrived": PropertyValue("dateTime", text, text)})

    def _carry_out(self, queue: str, identifier: str, decisions: Sequence[InboundDecision]) -> list[NewMessage]:
        """Release or forget messages that were held back. Return those to be stored."""
        messages: list[NewMessage] = []
        for decision in decisions:
            if isinstance(decision, ReleaseMessages):
                texts = self._transition.release(identifier, decision.message_numbers)
                messages += [self._make_released(queue, decode_held(text)) for text in texts]
            elif isinstance(decision, DiscardMessages):
                self._transition.release(identifier, decision.message_numbers)
        return messages

    def _make_released(self, queue: str, held: IncomingMessage) -> NewMessage:
        """Return the message that was held back, or a message about the error if it must be refused now."""
        try:
            return self._engine.factory.receive(queue, held, self._now)
        except MessageError as error:
            about = RefusedMessage.of(queue, held.body, error, None)
            return self._engine.factory.make_refusal(error, about, self._now, None, held.hops)

    def _remember(self, keys: Mapping[str, datetime]) -> bool:
        """Remember a message by its keys, and return whether all of them are new. If one is not, keep none."""
        if not keys:
            return True
        if self._replay_keys.keys() & keys or self._engine.store.known_replays(list(keys), self._now):
            return False
        self._replay_keys.update(keys)
        return True

    def _was_done(self, request: SequenceRequest) -> bool:
        """Return whether a request was carried out before, so that its repetition changes nothing and is answered."""
        message = request.message
        if isinstance(message, CreateSequence):
            return self._transition.find_created(request.owner, request.message_id) is not None
        sequence = self._transition.find(request.owner, message.identifier)
        if sequence is None:
            return False
        match message:
            case SequenceHeader():
                return message.message_number in sequence.received
            case CloseSequence():
                return sequence.state != InboundState.CREATED
            case TerminateSequence():
                return sequence.state == InboundState.TERMINATED
        return True  # what was received may be asked for at any time

    def _was_received(self, arrival: SequencedArrival) -> bool:
        sequence = self._transition.find(arrival.owner, arrival.header.identifier)
        return sequence is not None and arrival.header.message_number in sequence.received


def _make_outcome(sequence: InboundSequence | None, decisions: Sequence[InboundDecision]) -> SequenceOutcome:
    fault = next(iter([decision.fault for decision in decisions if isinstance(decision, SendFault)]), None)
    said = (SendAcknowledgement, ConfirmClose, ConfirmTerminate)
    return SequenceOutcome(
        sequence=sequence,
        fault=fault,
        acknowledges=any([isinstance(decision, said) for decision in decisions]),
    )
