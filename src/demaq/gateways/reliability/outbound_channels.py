"""The source of WS-ReliableMessaging: messages of outgoing gateways are sent in sequences, one for each destination.

The outbox decides when a message is sent, and again. Here it gets its number before it is sent for the first time, and
what the destination says about sequences is noted. A message is delivered when it is acknowledged and its answer, if
there is to be one, is here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from uuid import UUID, uuid4

from demaq.errors import OperatorError
from demaq.gateways.outbox.delivery_results import Awaiting, Delivered, DeliveryFailed, DeliveryResult
from demaq.gateways.outbox.request_addressing import AnswerPlace
from demaq.gateways.outbox.soap_responses import SoapResponse
from demaq.gateways.outbox.soap_sender import SoapAttempt, SoapSender, await_answer
from demaq.gateways.reliability.outbound_draft import JournalDraft, NewSequence, SequenceEntry
from demaq.gateways.reliability.outbound_endings import REFUSALS, create_sequence, explain_fault, write_numbered
from demaq.gateways.reliability.outbound_journal import OutboundJournal
from demaq.gateways.reliability.outbound_lifecycle import STORE_BACKOFF, ReliableGateway, SequenceLifecycle
from demaq.gateways.reliability.outbound_writer import SequenceWriter
from demaq.gateways.settings import OutgoingSettings
from demaq.soap import Operation
from demaq.soap.addressing.addressing_headers import make_message_id
from demaq.soap.reliability.outbound_sequence import ENDED, OutboundSequence, OutboundState
from demaq.soap.reliability.sequence_headers import Acknowledgement
from demaq.soap.reliability.sequence_source import ReportFault, note_acknowledged
from demaq.store.protocol import Store, StoredMessage

NO_TURN_SECONDS = 1.0
"""So long a message waits that has no turn: because of the window, of a sequence that is closed, or of the store."""

_log = logging.getLogger("demaq.outbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class _NumberedPlace:
    """Where a message goes."""

    entry: SequenceEntry
    number: int
    is_again: bool
    """Whether it may have been sent before."""

    @property
    def is_acknowledged(self) -> bool:
        return self.number in self.entry.value.acknowledged


class OutboundChannels:
    """All of a node. Belongs to one event loop."""

    def __init__(
        self,
        store: Store,
        queues: Collection[str],
        clock: Callable[[], datetime],
        make_uuid: Callable[[], UUID] = uuid4,
    ) -> None:
        """`queues` are the gateways with WS-ReliableMessaging."""
        make_id = partial(make_message_id, make_uuid)
        self.writer = SequenceWriter(store, queues, clock, make_id)
        self._clock = clock
        self._gateways: dict[str, ReliableGateway] = {}
        self._lifecycle = SequenceLifecycle(self.writer, self._gateways, clock, make_id)
        self._creating: dict[str, asyncio.Task[DeliveryFailed | None]] = {}
        self._unnumbered: dict[tuple[str, str], set[int]] = {}
        """By gateway and address, messages whose turn has come and that have no number: the earliest gets one first."""

    @property
    def journal(self) -> OutboundJournal:
        return self.writer.journal

    def add_gateway(self, gateway: ReliableGateway) -> None:
        """Add how a gateway sends."""
        self._gateways[gateway.sender.queue] = gateway

    async def run(self) -> None:
        """End sequences that are not used any more, until `finish` is called."""
        await self._lifecycle.run()

    async def finish(self, seconds: float) -> None:
        """End sequences without messages, as far as that is possible in this time. Others stay for the next run."""
        await self._lifecycle.finish(seconds)
        for task in list(self._creating.values()):
            task.cancel()
        await asyncio.gather(*self._creating.values(), return_exceptions=True)

    def close(self) -> None:
        """Release the thread."""
        self.writer.close()

    # the order of numbers

    def expect(self, queue: str, message: int, address: str) -> None:
        """Note that the turn of a message has come. Those that are expected get their numbers in order."""
        if queue in self._gateways:
            self._unnumbered.setdefault((queue, address), set()).add(message)

    def forget(self, queue: str, message: int, address: str) -> None:
        """Note that the turn of a message is over, whatever came of it."""
        waiting = self._unnumbered.get((queue, address))
        if waiting is not None:
            waiting.discard(message)
            if not waiting:
                del self._unnumbered[queue, address]

    async def number(self, queue: str, message: int, address: str) -> None:
        """Give a message its number although it is not sent now, so that later ones do not overtake it."""
        gateway = self._gateways.get(queue)
        if gateway is not None and await self.writer.run(partial(self.journal.locate, message)) is None:
            await self._assign(gateway.sender, message, address)

    # one attempt

    async def send_numbered(
        self, sender: SoapSender, message: StoredMessage, operation: Operation, attempt: SoapAttempt
    ) -> DeliveryResult:
        """Make one attempt to send a message in its sequence."""
        answer = sender.composer.find_answer_place(message, operation)
        wants_reply = not operation.is_one_way and answer != AnswerPlace.STRANGER
        try:
            place = await self._find_place(sender, message.seq, attempt)
            if not isinstance(place, _NumberedPlace):
                return place
            known = _judge_known(place, wants_reply=wants_reply, answer=answer, settings=attempt.settings)
            if known is not None:
                return known
            soap = sender.client.interface.version
            blocks = write_numbered(place.entry.value, place.number, soap, is_again=place.is_again)
            _, response = await sender.exchange_message(message, operation, attempt, blocks)
            return self._judge(place, response, sender, attempt.settings, wants_reply=wants_reply, answer=answer)
        except OperatorError as error:  # of the store: the number is in doubt, and read again
            return Awaiting(seconds=NO_TURN_SECONDS, reason=str(error), is_attempt=False)

    async def _find_place(
        self, sender: SoapSender, message: int, attempt: SoapAttempt
    ) -> _NumberedPlace | Awaiting | DeliveryFailed:
        """Return the sequence of a message, created, and its number in it."""
        loop = asyncio.get_running_loop()
        until = loop.time() + attempt.settings.timeout_seconds
        is_again = True
        while True:
            known = await self.writer.run(partial(self.journal.locate, message))
            if known is None:
                is_again = False
                if await self._assign_surely(sender, message, attempt.address):
                    continue
            else:
                entry, number = known
                place = _NumberedPlace(entry=entry, number=number, is_again=is_again)
                value = entry.value
                if _has_expired(value, self._clock()):
                    await self.writer.change(partial(_expire, entry.name))
                    continue
                if value.state == OutboundState.CREATING:
                    failure = await self._create(entry, sender, attempt)
                    if failure is not None:
                        return failure
                    continue
                if place.is_acknowledged or value.state == OutboundState.OPEN:
                    return place
                if value.state == OutboundState.FAILED:
                    reason = "the destination has refused the sequence of the message"
                    return DeliveryFailed(kind="refused", reason=reason, again=False)
            if loop.time() >= until:
                reason = "there is no room for the message in a sequence now"
                return Awaiting(seconds=NO_TURN_SECONDS, reason=reason, is_attempt=False)
            await self.writer.wait(min(until - loop.time(), NO_TURN_SECONDS))

    async def _assign_surely(self, sender: SoapSender, message: int, address: str) -> bool:
        """Do the same, and try again as long as the store fails: later messages would get their numbers before it."""
        faults = 0
        while True:
            try:
                return await self._assign(sender, message, address)
            except OperatorError as error:
                faults += 1
                _log.debug("message %s gets no number: %s", message, error)
                await asyncio.sleep(STORE_BACKOFF.delay_seconds(faults))

    async def _assign(self, sender: SoapSender, message: int, address: str) -> bool:
        """Give a message its number, and before it those that are expected. Return whether there was room."""
        version = sender.client.reliability
        assert version is not None, "its gateway has a policy"
        new = NewSequence(queue=sender.queue, peer=address, version=version, acks_to=sender.composer.acks_to)
        expected = self._unnumbered.get((sender.queue, address), set())
        earlier = sorted([one for one in expected if one < message])

        def assign(draft: JournalDraft) -> bool:
            for one in earlier:
                draft.assign(one, new)
            return draft.assign(message, new) is not None

        return await self.writer.change(assign)

    async def _create(self, entry: SequenceEntry, sender: SoapSender, attempt: SoapAttempt) -> DeliveryFailed | None:
        """Create a sequence, once for all that wait for it. Return why that has failed."""
        task = self._creating.get(entry.name)
        if task is None:
            # Waits as long as the first of them would, and is not cancelled with it.
            task = asyncio.create_task(create_sequence(entry, sender, attempt, self.writer.change))
            self._creating[entry.name] = task
            task.add_done_callback(lambda _: self._creating.pop(entry.name, None))
        return await asyncio.shield(task)

    def _judge(
        self,
        place: _NumberedPlace,
        response: SoapResponse,
        sender: SoapSender,
        settings: OutgoingSettings,
        *,
        wants_reply: bool,
        answer: AnswerPlace,
    ) -> DeliveryResult:
        """Return what a response means for the message that was sent."""
        entry = self.journal.find(place.entry.name) or place.entry
        valid = select_valid(entry.value, response.acknowledgements)
        facts = replace(response.facts(entry.name), acknowledgements=valid)
        own = [one for one in valid if one.identifier == entry.value.identifier]
        is_acknowledged = place.number in entry.value.acknowledged or any([place.number in one.ranges for one in own])
        status = response.status or ""
        result = response.result
        if is_acknowledged and not wants_reply and not response.is_received:
            return Delivered(status=status or "acknowledged", facts=facts)
        if response.fault is not None:
            return replace(explain_fault(response.fault, is_final=response.fault.name in REFUSALS), facts=facts)
        if isinstance(result, DeliveryFailed) and not response.is_verified:
            return replace(result, again=True, facts=facts)  # it was not acknowledged, and may be repeated
        if result is not None:
            return replace(result, facts=facts)
        is_answered_elsewhere = wants_reply and answer == AnswerPlace.ENDPOINT
        if is_answered_elsewhere and is_acknowledged:
            return replace(await_answer(settings, response), facts=facts)
        # Until it is acknowledged it may not have been received, whatever the status says: gSOAP drops what is not the
        # next number, with 202. So the time for an answer has not begun.
        missing = "answered" if wants_reply and not is_answered_elsewhere else "acknowledged"
        return Awaiting(
            seconds=_first_pause(sender, settings),
            reason=f"the other side has not {missing} the message",
            status=response.status,
            grows=True,
            until_acknowledged=not wants_reply,
            facts=facts,
        )


def select_valid(value: OutboundSequence, acknowledgements: Sequence[Acknowledgement]) -> tuple[Acknowledgement, ...]:
    """Return acknowledgements without those of messages that were never sent, which are logged (4.4)."""
    valid: list[Acknowledgement] = []
    for one in acknowledgements:
        _, decisions = note_acknowledged(value, one, 0.0)
        if any([isinstance(decision, ReportFault) for decision in decisions]):
            _log.warning("sequence %s: messages %s are acknowledged, and were never sent", one.identifier, one.ranges)
        else:
            valid.append(one)
    return tuple(valid)


def _judge_known(
    place: _NumberedPlace, *, wants_reply: bool, answer: AnswerPlace, settings: OutgoingSettings
) -> DeliveryResult | None:
    """Return what becomes of a message without sending it; None if it has to be sent."""
    if not place.is_acknowledged:
        return None
    if not wants_reply:
        return Delivered(status="acknowledged")
    if place.entry.value.state == OutboundState.OPEN:
        return None  # the destination repeats its answer
    if answer == AnswerPlace.ENDPOINT:
        return Awaiting(seconds=settings.reply_seconds, reason="the message was acknowledged, and no answer has come")
    reason = "the message was acknowledged, and the sequence was lost before its answer came"
    return DeliveryFailed(kind="timeout", reason=reason, again=False)


def _first_pause(sender: SoapSender, settings: OutgoingSettings) -> float:
    """Return how long to wait for an acknowledgement before the message is sent again for the first time."""
    policy = sender.client.policy.reliability
    interval = policy.retransmission_interval if policy is not None else None
    return interval.total_seconds() if interval is not None else settings.retry_first_seconds


def _expire(name: str, draft: JournalDraft) -> None:
    draft.note_expired(name)


def _has_expired(value: OutboundSequence, now: datetime) -> bool:
    is_over = value.expires_at is not None and now.timestamp() >= value.expires_at
    return is_over and value.state not in ENDED
