"""Send what lies in outgoing gateways, until it is acknowledged or given up.

Messages of one slice are sent one after the other, in order, as long as none of them is being tried again; others side
by side. The result of an attempt is stored before it has any effect; what was not stored is sent again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, Protocol

from demaq.backoff import Backoff
from demaq.batching import AsyncBatcher
from demaq.engine.delivery import Ended
from demaq.engine.engine import Engine
from demaq.errors import AlreadyProcessed, MessageError, OperatorError
from demaq.gateways.connections import KEYED, Connections, Reply
from demaq.gateways.counters import ResultCounts
from demaq.gateways.http.responses import refusal_text
from demaq.gateways.outbox.delivery_results import Awaiting, Delivered, DeliveryFailed, DeliveryResult
from demaq.gateways.outbox.destination import Answering, DestinationResolver
from demaq.gateways.outbox.outcome_store import OutcomeNote, OutcomeStore
from demaq.gateways.outbox.outgoing_gateway import OutgoingGateway
from demaq.gateways.outbox.peers import Peer, pause_seconds
from demaq.gateways.outbox.waiting import Due
from demaq.gateways.reliability.outbound_channels import OutboundChannels
from demaq.gateways.settings import OutgoingSettings, Settings
from demaq.language.endpoints import Destination
from demaq.masking import mask_address
from demaq.outage_log import OutageLog
from demaq.store.protocol import Attempt, Postponed, StoredAnswer, StoredMessage
from demaq.system_properties import ERROR_LEVEL

UNREAD_MAX = 32
"""How many messages may have begun whose texts are not read yet, and whose sizes are unknown."""
CHARACTERS_MAX = 64_000_000
"""While texts on their way are larger than this together, no more messages begin."""
IDLE_SECONDS_MAX = 30.0
PAUSE_SECONDS_MIN = 0.001
"""So long others have the event loop, whatever is to be done."""
STORE_BACKOFF = Backoff(seconds_first=0.1, seconds_max=2.0)
"""After a fault of the store."""
NOTE_ATTEMPTS_MAX = 5
"""So often an answer that makes the system fail is tried to be stored, before it is an error."""
OTHER_SIDE = ("disconnectedTransport", "nameResolution", "timeout", "connectionClosed")
"""Failures that are about the other side, whatever the message is."""
XML = "application/xml"
RESULTS = ("sent", "again", "failed")

_log = logging.getLogger("demaq.outbox")


class Sender(Protocol):
    """One way to send a message. Never raises."""

    async def send(self, message: StoredMessage, to: Destination, settings: OutgoingSettings) -> DeliveryResult: ...


class _Try(NamedTuple):
    """A message on its way, whatever comes of it."""

    message: int
    queue: str
    number: int
    """Counted from 1."""
    at: datetime
    seconds: float
    to: Destination | Answering | DeliveryFailed

    def attempt(self, result: DeliveryResult, outcome: Literal["sent", "again", "failed"]) -> Attempt:
        failed = result if isinstance(result, DeliveryFailed) else None
        reason = result.reason if not isinstance(result, Delivered) else None
        return Attempt(
            message=self.message,
            queue=self.queue,
            number=self.number,
            at=self.at,
            seconds=round(self.seconds, 6),
            destination=_describe_destination(self.to),
            result=outcome,
            status=result.status,
            kind=failed.kind if failed is not None else None,
            reason=reason,
        )


class Outbox:
    """Belongs to one event loop."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        addressing: DestinationResolver,
        connections: Connections,
        senders: Mapping[str, Sender],
        left_out: frozenset[str] = frozenset(),
        wrote: Callable[[], None] = lambda: None,
        outages: OutageLog | None = None,
        channels: OutboundChannels | None = None,
    ) -> None:
        """`senders` are by kind of destination; `wrote` is called when there may be something to process.

        Messages of gateways that are `left_out` stay where they are. Faults of the store are noted in `outages`.
        `channels` are needed if a gateway has WS-ReliableMessaging or WS-Security.
        """
        self._engine = engine
        self._store = engine.store
        self._settings = settings
        self._connections = connections
        self._senders = senders
        self._wrote = wrote
        self._outages = outages or OutageLog(_log)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="demaq-outbox")
        self._outcomes = OutcomeStore(engine, channels.journal if channels is not None else None)
        self._texts = AsyncBatcher(self._outcomes.read, self._thread)
        self._notes = AsyncBatcher(self._outcomes.write, self._thread)
        self._gateways = {
            queue.name: OutgoingGateway(queue.name, settings.outgoing(queue.name), addressing, engine.store)
            for queue in engine.program.queues.values()
            if queue.kind == "outgoingGateway" and queue.name not in left_out
        }
        self._in_flight: set[asyncio.Task[None]] = set()
        self._unread = 0
        self._characters = 0
        self._answering: set[str] = set()
        """Connections whose answers are being stored."""
        self._channels = channels
        if channels is not None:
            channels.writer.hear_acknowledged = self._hear_acknowledged
        self._unacknowledged: dict[int, str] = {}
        """Messages that wait for their acknowledgements alone, with their gateways."""
        self._claims: dict[str, int] = {}
        """Connections whose answers go to other addresses, with the messages that answer."""
        self._work = asyncio.Event()
        self._stopping = False
        self.results = ResultCounts()
        """Of attempts."""

    def wake(self) -> None:
        """Look for new messages to send."""
        for gateway in self._gateways.values():
            gateway.has_news = True
        self._work.set()

    def open_breakers(self) -> list[tuple[str, str]]:
        """Return gateway and peer of each open circuit breaker. May be called from any thread."""
        return [(queue, peer) for queue, gateway in self._gateways.items() for peer in gateway.open_breakers()]

    async def run(self) -> None:
        """Send until `stop` is called."""
        ending = asyncio.create_task(self._channels.run()) if self._channels is not None else None
        try:
            await self._run()
        finally:
            if ending is not None:
                if not self._stopping:
                    ending.cancel()
                await asyncio.gather(ending, return_exceptions=True)

    async def _run(self) -> None:
        faults = 0
        while not self._stopping:
            self._work.clear()
            pause = IDLE_SECONDS_MAX
            try:
                for gateway in self._gateways.values():
                    pause = min(pause, await self._advance(gateway))
                faults = 0
            except Exception as fault:
                faults += 1
                if not self._stopping:
                    self._outages.note_failure(fault)
                    await asyncio.sleep(STORE_BACKOFF.delay_seconds(faults))
                continue
            try:
                await asyncio.wait_for(self._work.wait(), max(pause, PAUSE_SECONDS_MIN))
            except TimeoutError:
                continue

    async def stop(self, seconds: float) -> None:
        """Wait this long for attempts under way; those not stored by then are sent again by the next run.

        In the rest of the time sequences end that have no messages any more.
        """
        until = time.monotonic() + seconds
        self._stopping = True
        self._work.set()
        if self._in_flight:
            await asyncio.wait(list(self._in_flight), timeout=seconds)
        left = list(self._in_flight)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._channels is not None:
            await self._channels.finish(max(until - time.monotonic(), 0.0))

    def close(self) -> None:
        """Release the thread, after the end of `run`."""
        self._thread.shutdown()
        if self._channels is not None:
            self._channels.close()

    async def conclude(self, message: StoredMessage, result: Delivered | DeliveryFailed, destination: str) -> bool:
        """Store what became of a message whose answer came by itself. Raises OperatorError.

        Return False if nothing was stored, because that was known before.
        """
        loop = asyncio.get_running_loop()
        unsent = await loop.run_in_executor(self._thread, self._store.unsent, None, message.seq, 1)
        if not unsent:
            return False
        failed = result if isinstance(result, DeliveryFailed) else None
        attempt = Attempt(
            message=message.seq,
            queue=message.queue,
            number=max(unsent[0].attempts, 1),
            at=self._engine.clock(),
            seconds=0.0,
            destination=mask_address(destination),
            result="failed" if failed is not None else "sent",
            status=result.status,
            kind=failed.kind if failed is not None else None,
            reason=failed.reason if failed is not None else None,
        )
        ended = _make_ended(message, attempt, result)
        self._outcomes.note_concluded(message.seq)
        try:
            await self._notes.submit(OutcomeNote(ended, result.facts))
        except AlreadyProcessed:
            return False
        self._report(ended, 0.0)
        return True

    # picking

    async def _advance(self, gateway: OutgoingGateway) -> float:
        """Learn what is due, and begin to send what may go now. Return when to look again."""
        now = self._engine.clock()
        loop = asyncio.get_running_loop()
        hastened = gateway.hasten(now)
        if hastened:  # where the store fails, they keep their pauses
            await loop.run_in_executor(self._thread, self._store.postpone, hastened)
            gateway.has_news = True
        if gateway.wants_reading(now):
            gateway.add(await loop.run_in_executor(self._thread, gateway.read, self._engine.clock), now)
        while not self._stopping and self._unread < UNREAD_MAX and self._characters < CHARACTERS_MAX:
            begun = gateway.begin_next()
            if begun is None:
                break
            self._start(gateway, *begun)
        return gateway.pause_seconds(self._engine.clock())

    def _start(
        self, gateway: OutgoingGateway, due: Due, to: Destination | Answering | DeliveryFailed, peer: Peer | None
    ) -> None:
        attempts_max = self._settings.outgoing(gateway.queue).attempts
        if isinstance(to, DeliveryFailed) and to.again and due.attempts + 1 < attempts_max:
            task = asyncio.create_task(self._put_off(gateway, due, to))
        else:
            self._unread += 1
            task = asyncio.create_task(self._send(gateway, due, to, peer))
        self._in_flight.add(task)
        address = due.to.address if isinstance(due.to, Destination) else None
        if self._channels is not None and address is not None:
            self._channels.expect(gateway.queue, due.seq, address)

        def ended(task: asyncio.Task[None]) -> None:
            self._in_flight.discard(task)
            if self._channels is not None and address is not None:
                self._channels.forget(gateway.queue, due.seq, address)
            gateway.done(due)
            self._work.set()
            if not task.cancelled() and task.exception() is not None:
                _log.error("message %s was left", due.seq, exc_info=task.exception())

        task.add_done_callback(ended)

    # sending

    async def _send(
        self, gateway: OutgoingGateway, due: Due, to: Destination | Answering | DeliveryFailed, peer: Peer | None
    ) -> None:
        """Make one attempt and store its result."""
        characters = 0
        result: DeliveryResult | None = None
        try:
            try:
                message = await self._read_text(due.seq)
            finally:
                self._unread -= 1
                self._work.set()
            if message is None:
                return  # its queue was given up meanwhile
            characters = len(message.body)
            self._characters += characters
            self._unacknowledged.pop(due.seq, None)
            at = self._engine.clock()
            began = time.perf_counter()
            if isinstance(to, Destination):
                result = await self._try_send(message, to)
            else:
                result = to if isinstance(to, DeliveryFailed) else Delivered(status="answered")
            seconds = time.perf_counter() - began
        finally:
            self._characters -= characters
            if peer is not None:
                about_peer = isinstance(result, DeliveryFailed) and _is_about_other_side(result)
                gateway.end(due, peer, result if about_peer and isinstance(result, DeliveryFailed) else None)
                self._work.set()
        tried = _Try(message.seq, message.queue, due.attempts + 1, at, seconds, to)
        await self._note_surely(gateway, message, tried, result)

    async def _put_off(self, gateway: OutgoingGateway, due: Due, refusal: DeliveryFailed) -> None:
        """Store an attempt that was not made because the peer is unavailable. It needs no text."""
        tried = _Try(due.seq, gateway.queue, due.attempts + 1, self._engine.clock(), 0.0, refusal)
        attempt = tried.attempt(refusal, "again")
        faults = 0
        while True:
            try:
                if self._channels is not None and isinstance(due.to, Destination):
                    await self._channels.number(gateway.queue, due.seq, due.to.address)
                await self._postpone(gateway, attempt, refusal)
            except OperatorError as fault:
                faults += 1
                await self._pause(fault, faults)
                continue
            if due.lane is not None:
                gateway.note_put_off(due.lane, due.seq, attempt.number, None)
            return

    async def _read_text(self, seq: int) -> StoredMessage | None:
        faults = 0
        while True:
            try:
                return await self._texts.submit(seq)
            except OperatorError as fault:
                faults += 1
                await self._pause(fault, faults)

    async def _try_send(self, message: StoredMessage, to: Destination) -> DeliveryResult:
        settings = self._settings.outgoing(message.queue)
        if to.kind == "answer" and await self._is_answered(message):
            return DeliveryFailed(kind="connectionClosed", reason="the request was answered before", again=False)
        try:
            return await self._senders[to.kind].send(message, to, settings)
        except Exception as error:  # a mistake of ours, which must not keep the message for ever
            _log.exception("sending message %s failed", message.seq)
            return DeliveryFailed(kind="systemError", reason=f"{type(error).__name__}: {error}")

    # noting

    async def _note_surely(
        self, gateway: OutgoingGateway, message: StoredMessage, tried: _Try, result: DeliveryResult
    ) -> None:
        """Store the result of an attempt, and retry until it works: a fault here must not send the message again."""
        faults = 0
        while True:
            faults += 1
            try:
                await self._note(gateway, message, tried, result)
                return
            except AlreadyProcessed:
                # An operator has given up its queue meanwhile, or a commit that failed has taken place: then there may
                # be a message about it.
                self._wrote()
                self.wake()
                return
            except OperatorError as fault:
                await self._pause(fault, faults)
            except Exception as fault:
                _log.exception("noting what became of message %s failed", message.seq)
                await asyncio.sleep(STORE_BACKOFF.delay_seconds(faults))
                if faults == NOTE_ATTEMPTS_MAX:
                    reason = f"what came back cannot be stored: {type(fault).__name__}: {fault}"
                    result = DeliveryFailed(kind="systemError", reason=reason, status=result.status, again=False)

    async def _pause(self, fault: OperatorError, faults: int) -> None:
        self._outages.note_failure(fault)
        await asyncio.sleep(STORE_BACKOFF.delay_seconds(faults))

    async def _note(
        self, gateway: OutgoingGateway, message: StoredMessage, tried: _Try, result: DeliveryResult
    ) -> None:
        settings = self._settings.outgoing(message.queue)
        if isinstance(result, Awaiting):
            if not result.is_attempt or tried.number < settings.attempts:
                await self._await(gateway, tried, result)
                return
            result = DeliveryFailed(kind="timeout", reason=result.reason, status=result.status, facts=result.facts)
        if isinstance(result, DeliveryFailed) and result.again and tried.number < settings.attempts:
            await self._postpone(gateway, tried.attempt(result, "again"), result)
            if isinstance(tried.to, Destination) and _is_about_other_side(result):
                asked = result.after_seconds
                not_before = None if asked is None else self._engine.clock() + timedelta(seconds=asked)
                gateway.note_put_off(tried.to.peer, message.seq, tried.number, not_before)
            return
        if isinstance(result, Delivered) and isinstance(tried.to, Answering):
            ended = await self._answer(message, tried.attempt(result, "sent"), tried.to.connection)
        else:
            outcome: Literal["sent", "failed"] = "sent" if isinstance(result, Delivered) else "failed"
            ended = _make_ended(message, tried.attempt(result, outcome), result)
            if isinstance(tried.to, Destination) and tried.to.kind == "answer":
                ended = self._end_answer(ended)
            await self._notes.submit(OutcomeNote(ended, result.facts))
        self._report(ended, tried.seconds)

    def _end_answer(self, ended: Ended) -> Ended:
        """Return the end of an answer to another address, by which a second answer is recognised."""
        connection = ended.message.properties["demaq:connection"].text
        if self._claims.get(connection) == ended.message.seq:
            del self._claims[connection]
        if ended.failure is not None:
            return ended
        status = 500 if ERROR_LEVEL in ended.message.properties else 200
        body = ended.message.body
        return replace(ended, answer=StoredAnswer(connection=connection, status=status, content_type=XML, body=body))

    def _report(self, ended: Ended, seconds: float) -> None:
        self._unacknowledged.pop(ended.message.seq, None)
        self.results.add(ended.message.queue, ended.attempt.result, seconds)
        if ended.reply is not None or ended.failure is not None:
            self._wrote()  # there is a message about it

    async def _postpone(self, gateway: OutgoingGateway, attempt: Attempt, result: DeliveryFailed) -> None:
        settings = self._settings.outgoing(attempt.queue)
        pause = pause_seconds(
            attempt.number, settings.retry_first_seconds, settings.retry_seconds_max, result.after_seconds
        )
        due = self._engine.clock() + timedelta(seconds=pause)
        await self._notes.submit(
            OutcomeNote(Postponed(message=attempt.message, due=due, attempt=attempt), result.facts)
        )
        gateway.postponed(attempt.message, due)
        self.results.add(attempt.queue, "again", attempt.seconds)

    async def _await(self, gateway: OutgoingGateway, tried: _Try, result: Awaiting) -> None:
        """Let a message wait for its answer or acknowledgement, or for its turn."""
        pause = result.seconds
        if result.grows:
            longest = max(self._settings.outgoing(tried.queue).retry_seconds_max, pause)
            pause = pause_seconds(tried.number, pause, longest, None)
        due = self._engine.clock() + timedelta(seconds=pause)
        attempt = tried.attempt(result, "again") if result.is_attempt else None
        if result.until_acknowledged:  # before it is stored: the acknowledgement may come meanwhile
            self._unacknowledged[tried.message] = tried.queue
        await self._notes.submit(OutcomeNote(Postponed(message=tried.message, due=due, attempt=attempt), result.facts))
        gateway.postponed(tried.message, due)
        if attempt is not None:
            self.results.add(tried.queue, "again", attempt.seconds)
        if result.until_acknowledged and self._channels is not None:
            place = self._channels.journal.locate(tried.message)
            if place is not None and place[1] in place[0].value.acknowledged:  # meanwhile
                self._hear_acknowledged([tried.message])

    def _hear_acknowledged(self, messages: Sequence[int]) -> None:
        """Let messages be due that waited for nothing else: they are delivered."""
        found = [message for message in messages if message in self._unacknowledged]
        if found and not self._stopping:
            task = asyncio.create_task(self._hasten(found))
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)

    async def _hasten(self, messages: Sequence[int]) -> None:
        now = self._engine.clock()
        try:
            for message in messages:
                await self._notes.submit(OutcomeNote(Postponed(message=message, due=now)))
                queue = self._unacknowledged.pop(message, None)
                if queue is not None:
                    self._gateways[queue].postponed(message, now)
        except OperatorError as fault:  # they keep their pauses
            self._outages.note_failure(fault)
        self._work.set()

    async def _is_answered(self, message: StoredMessage) -> bool:
        """Return whether another message answers the same request. The first one that is tried does."""
        connection = message.properties["demaq:connection"].text
        if self._claims.setdefault(connection, message.seq) != message.seq:
            return True
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._store.answer, connection) is not None

    async def _answer(self, message: StoredMessage, attempt: Attempt, connection: str) -> Ended:
        """Store the answer, then send it to the waiting connection. Return the result."""
        reply = Reply(body=message.body, is_error=ERROR_LEVEL in message.properties)
        answer = None
        if connection.startswith(KEYED):
            status = 500 if reply.is_error else 200
            answer = StoredAnswer(connection=connection, status=status, content_type=XML, body=reply.body)
            loop = asyncio.get_running_loop()
            is_taken = await loop.run_in_executor(self._thread, self._store.answer, connection) is not None
        else:
            is_taken = self._connections.queue_of(connection) is None
        if is_taken or connection in self._answering:
            failure = ("connectionClosed", "the request was answered before, or its sender does not wait any more")
            failed = replace(attempt, result="failed", kind=failure[0], reason=failure[1])
            ended = Ended(message=message, attempt=failed, failure=failure)
            await self._notes.submit(OutcomeNote(ended))
            return ended
        self._answering.add(connection)
        ended = Ended(message=message, attempt=attempt, answer=answer)
        try:
            if not reply.is_error:
                self._connections.check(connection, reply.body)
        except MessageError as error:
            said = f"the response violates the interface: {error.message}"
            failed = replace(attempt, result="failed", kind=error.kind, reason=said)
            reply = Reply(body=refusal_text(error.kind, "the response violates the interface"), is_error=True)
            if answer is not None:
                answer = replace(answer, status=500, body=reply.body)
            ended = Ended(message=message, attempt=failed, answer=answer, failure=(error.kind, said))
        try:
            await self._notes.submit(OutcomeNote(ended))
            self._connections.answer(connection, reply)
        finally:
            self._answering.discard(connection)
        return ended


def _make_ended(message: StoredMessage, attempt: Attempt, result: Delivered | DeliveryFailed) -> Ended:
    if isinstance(result, Delivered):
        return Ended(message=message, attempt=attempt, reply=result.reply)
    return Ended(
        message=message,
        attempt=attempt,
        failure=(result.kind, _describe_failure(result, attempt.number)),
        status=result.status_code,
        fault=result.fault,
    )


def _is_about_other_side(result: DeliveryFailed) -> bool:
    return result.again and (result.kind in OTHER_SIDE or (result.status or "").startswith("5"))


def _describe_failure(result: DeliveryFailed, attempts: int) -> str:
    status = f" (status {result.status})" if result.status is not None else ""
    tried = f" after {attempts} attempts" if result.again else ""
    return f"{result.reason}{status}{tried}"


def _describe_destination(to: Destination | Answering | DeliveryFailed) -> str:
    match to:
        case Destination():
            return mask_address(to.address)
        case Answering():
            return f"connection {to.connection}"
    return ""
