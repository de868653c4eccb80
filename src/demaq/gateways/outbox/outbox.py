"""Send what lies in outgoing gateways, until it is acknowledged or given up.

Messages of one slice are sent one after the other, in order, as long as none of them is being tried again; others side
by side. The result of an attempt is stored before it has any effect; what was not stored is sent again.

    DueReader      pages of what is due, from the store
    TextLoader     texts, some ahead
    Outbox         a worker for each connection to a peer: one attempt after the other
    AttemptNotes   what became of them, many in one transaction

All reading and writing is done in one thread, in the order in which it was asked for.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any, Protocol

from demaq.batching import AsyncBatcher
from demaq.engine.engine import Engine
from demaq.engine.step_spans import StepSpans
from demaq.errors import OperatorError
from demaq.gateways.connections import Connections
from demaq.gateways.counters import ResultCounts
from demaq.gateways.outbox.attempt_notes import LINGER_NOTES, LINGER_SECONDS, STORE_BACKOFF, AttemptNotes
from demaq.gateways.outbox.connection_answers import ConnectionAnswers
from demaq.gateways.outbox.delivery_results import Delivered, DeliveryFailed, DeliveryResult
from demaq.gateways.outbox.destination import Answering, DestinationResolver
from demaq.gateways.outbox.due_reader import Page, PageFound
from demaq.gateways.outbox.outcome_store import OutcomeStore
from demaq.gateways.outbox.outgoing_gateway import Begun, OutgoingGateway
from demaq.gateways.outbox.send_attempt import SendAttempt, is_about_other_side
from demaq.gateways.outbox.text_loader import TextLoader
from demaq.gateways.outbox.waiting import Due
from demaq.gateways.reliability.outbound_channels import OutboundChannels
from demaq.gateways.settings import OutgoingSettings, Settings
from demaq.language.endpoints import Destination
from demaq.outage_log import OutageLog
from demaq.store.protocol import StoredMessage
from demaq.trace_context import CURRENT_TRACE

IDLE_SECONDS_MAX = 30.0
PAUSE_SECONDS_MIN = 0.001
"""So long others have the event loop, whatever is to be done."""
UNNOTED_MAX = 1_000
"""While so many attempts are over and not noted, because the store is slow, no more messages begin."""
RESULTS = ("sent", "again", "failed")

_log = logging.getLogger("demaq.outbox")


class Sender(Protocol):
    """One way to send a message. Never raises."""

    async def send(self, message: StoredMessage, to: Destination, settings: OutgoingSettings) -> DeliveryResult: ...


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
        spans: StepSpans | None = None,
    ) -> None:
        """`senders` are by kind of destination; `wrote` is called when there may be something to process.

        Messages of gateways that are `left_out` stay where they are. Faults of the store are noted in `outages`.
        `channels` are needed if a gateway has WS-ReliableMessaging or WS-Security. Attempts are recorded in `spans`.
        """
        self._engine = engine
        self._store = engine.store
        self._senders = senders
        self._outages = outages or OutageLog(_log)
        self._channels = channels
        self._spans = spans
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="demaq-outbox")
        self._outcomes = OutcomeStore(engine, channels.journal if channels is not None else None)
        self._gateways = {
            queue.name: OutgoingGateway(
                queue.name,
                settings.outgoing(queue.name),
                addressing,
                engine.store,
                partial(lambda name: name in engine.pauses.gateways, queue.name),
            )
            for queue in engine.program.queues.values()
            if queue.kind == "outgoingGateway" and queue.name not in left_out
        }
        notes = AsyncBatcher(
            self._outcomes.write, self._thread, linger_seconds=LINGER_SECONDS, linger_items=LINGER_NOTES
        )
        self._answers = ConnectionAnswers(engine.store, connections, notes, self._thread)
        self._notes = AttemptNotes(
            engine,
            self._gateways,
            notes,
            self._answers,
            channels,
            self._outages,
            self._spawn,
            wrote=wrote,
            wake=self.wake,
            done=self._done,
            spans=spans,
        )
        self._work = asyncio.Event()
        self._texts = TextLoader(
            self._outcomes.read, self._thread, self._gateways.values(), self._outages, self._work.set
        )
        if channels is not None:
            channels.writer.hear_acknowledged = self._hear_acknowledged
        self._in_flight: set[asyncio.Task[None]] = set()
        self._stopping = self._has_stopped = False

    @property
    def results(self) -> ResultCounts:
        """Of attempts."""
        return self._notes.results

    def wake(self) -> None:
        """Look for new messages to send."""
        for gateway in self._gateways.values():
            gateway.reader.note_news()
        self._work.set()

    def note_purged(self, seqs: Sequence[int]) -> None:
        """Send none of these messages, which operators have removed."""
        for gateway in self._gateways.values():
            gateway.purged.update([seq for seq in seqs if seq in gateway.waiting])
        self._work.set()

    def look_again(self) -> None:
        """Look for messages to send that were sent or postponed before."""
        for gateway in self._gateways.values():
            gateway.reader.look_again()
        self._work.set()

    def open_breakers(self) -> list[tuple[str, str]]:
        """Return gateway and peer of each open circuit breaker. May be called from any thread."""
        return [(queue, peer) for queue, gateway in self._gateways.items() for peer in gateway.open_breakers()]

    async def run(self) -> None:
        """Send until `stop` is called."""
        ending = asyncio.create_task(self._channels.run()) if self._channels is not None else None
        loading = asyncio.create_task(self._texts.run())
        try:
            await self._run()
        finally:
            loading.cancel()
            await asyncio.gather(loading, return_exceptions=True)
            if ending is not None:
                if not self._stopping:
                    ending.cancel()
                await asyncio.gather(ending, return_exceptions=True)

    async def _run(self) -> None:
        faults = 0
        while not self._stopping:
            self._work.clear()
            try:
                pause = await self._advance()
                faults = 0
            except Exception as fault:
                faults += 1
                if not self._stopping:
                    self._outages.note_failure(fault)
                    await asyncio.sleep(STORE_BACKOFF.delay_seconds(faults))
                continue
            try:
                async with asyncio.timeout(max(pause, PAUSE_SECONDS_MIN)):
                    await self._work.wait()
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
        await self._notes.wait_until_noted(until - time.monotonic())
        self._has_stopped = True
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
        attempt = self._notes.describe_conclusion(message, result, unsent[0].attempts, destination)
        self._outcomes.note_concluded(message.seq)
        return await self._notes.conclude(message, result, attempt)

    # picking

    async def _advance(self) -> float:
        """Learn what is due, and begin to send what may go now. Return when to look again."""
        loop = asyncio.get_running_loop()
        now = self._engine.clock()
        at_work = [gateway for gateway in self._gateways.values() if not gateway.is_paused()]
        for gateway in at_work:
            hastened = gateway.hasten(now)
            if hastened:  # where the store fails, they keep their pauses, unless the commit has taken place
                gateway.postponed(min([each.due for each in hastened]))
                await loop.run_in_executor(self._thread, self._store.postpone, hastened)
        pages = [(gateway, page) for gateway in at_work if (page := gateway.reader.plan(now))]
        if pages:
            await self._read(pages)
        self._begin()
        self._texts.wake()
        now = self._engine.clock()
        return min([gateway.pause_seconds(now) for gateway in self._gateways.values()], default=IDLE_SECONDS_MAX)

    async def _read(self, pages: Sequence[tuple[OutgoingGateway, Page]]) -> None:
        """Read the pages of all gateways at once. Raises StoreError."""

        def read() -> list[PageFound]:
            clock, texts = self._engine.clock, self._outcomes.read_messages
            return [gateway.reader.read(page, clock, texts) for gateway, page in pages]

        try:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, read)
        except BaseException:
            for gateway, page in pages:
                gateway.reader.fail(page)
            raise
        for (gateway, page), each in zip(pages, found, strict=True):
            gateway.reader.take(page, each)

    def _begin(self) -> None:
        for gateway in self._gateways.values():
            while self._may_begin():
                begun = gateway.begin_next()
                if begun is None:
                    break
                self._start(gateway, begun)

    def _may_begin(self) -> bool:
        return not self._stopping and self._notes.count < UNNOTED_MAX

    def _start(self, gateway: OutgoingGateway, begun: Begun) -> None:
        due, to, peer = begun
        self._expect(gateway, due)
        if peer is not None:
            self._spawn(self._work_lane(gateway, begun))
        elif isinstance(to, Answering):
            self._spawn(self._answer(gateway, due, to))
        elif isinstance(to, DeliveryFailed) and to.again and due.attempts + 1 < gateway.settings.attempts:
            self._put_off(gateway, due, to)
        elif isinstance(to, DeliveryFailed) and due.message is not None:
            self._notes.note(gateway, due, self._make_attempt(due, gateway, to), to)
        else:
            assert isinstance(to, DeliveryFailed), "what goes somewhere takes the turn of a peer"
            self._spawn(self._give_up(gateway, due, to))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._has_stopped:
            work.close()
            return
        task = asyncio.create_task(work)
        self._in_flight.add(task)
        task.add_done_callback(self._end_task)

    def _end_task(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a message was left", exc_info=task.exception())

    def _expect(self, gateway: OutgoingGateway, due: Due) -> None:
        if self._channels is not None and isinstance(due.to, Destination):
            self._channels.expect(gateway.queue, due.seq, due.to.address)

    def _done(self, gateway: OutgoingGateway, due: Due, again: datetime | None) -> None:
        """A message is not on its way any more, and due again at a time, if it is."""
        if self._channels is not None and isinstance(due.to, Destination):
            self._channels.forget(gateway.queue, due.seq, due.to.address)
        may_go_on = gateway.done(due)
        if again is not None:
            gateway.postponed(again)  # after it is done: what is known to be on its way is not read
        if may_go_on or again is not None or self._notes.count == UNNOTED_MAX - 1:
            self._work.set()
        elif self._texts.is_limited:
            self._texts.wake()

    # sending

    async def _work_lane(self, gateway: OutgoingGateway, begun: Begun | None) -> None:
        """Send the messages of a lane one after the other over one of its connections, as long as there are some."""
        try:
            while begun is not None:
                await self._attempt(gateway, begun)
                lane = begun.due.lane
                if gateway.wants_texts(lane):
                    self._texts.wake()
                begun = gateway.begin_in(lane) if self._may_begin() else None
                if begun is not None and begun.peer is None:  # its circuit breaker has opened
                    self._start(gateway, begun)
                    return
                if begun is not None:
                    self._expect(gateway, begun.due)
        finally:
            self._work.set()

    async def _attempt(self, gateway: OutgoingGateway, begun: Begun) -> None:
        """Make one attempt; its result is stored soon."""
        due, to, peer = begun
        message = due.message
        assert message is not None
        assert peer is not None
        assert isinstance(to, Destination)
        self._notes.forget_unacknowledged(due.seq)
        if self._spans is not None:
            CURRENT_TRACE.set(self._spans.begin_attempt(message, due.attempts + 1))
        at = self._engine.clock()
        began = time.perf_counter()
        result: DeliveryResult | None = None
        try:
            result = await self._try_send(message, to, gateway.settings)
        finally:
            is_peer = isinstance(result, DeliveryFailed) and is_about_other_side(result)
            gateway.end(due, peer, result if is_peer and isinstance(result, DeliveryFailed) else None)
        seconds = time.perf_counter() - began
        attempt = SendAttempt(due.seq, gateway.queue, due.attempts + 1, at, seconds, to)
        self._notes.note(gateway, due, attempt, result)

    async def _try_send(self, message: StoredMessage, to: Destination, settings: OutgoingSettings) -> DeliveryResult:
        try:
            if to.kind == "answer" and await self._answers.is_answered(message):
                return DeliveryFailed(kind="connectionClosed", reason="the request was answered before", again=False)
            return await self._senders[to.kind].send(message, to, settings)
        except Exception as error:  # a mistake of ours, which must not keep the message for ever
            _log.exception("sending message %s failed", message.seq)
            return DeliveryFailed(kind="systemError", reason=f"{type(error).__name__}: {error}")

    async def _answer(self, gateway: OutgoingGateway, due: Due, to: Answering) -> None:
        await self._notes.note_answer(gateway, due, self._make_attempt(due, gateway, to), to)

    def _put_off(self, gateway: OutgoingGateway, due: Due, refusal: DeliveryFailed) -> None:
        """Store an attempt that was not made because the peer is unavailable. It needs no text."""
        gateway.waiting.drop_text(due)
        if self._channels is not None and isinstance(due.to, Destination):
            self._spawn(self._number(self._channels, gateway, due, due.to, refusal))
        else:
            self._notes.note(gateway, due, self._make_attempt(due, gateway, refusal), refusal)

    async def _number(
        self,
        channels: OutboundChannels,
        gateway: OutgoingGateway,
        due: Due,
        to: Destination,
        refusal: DeliveryFailed,
    ) -> None:
        """Do the same with a message that may be in a sequence: later ones must not overtake it there."""
        faults = 0
        while True:
            try:
                await channels.number(gateway.queue, due.seq, to.address)
                break
            except OperatorError as fault:
                faults += 1
                await self._pause(fault, faults)
        self._notes.note(gateway, due, self._make_attempt(due, gateway, refusal), refusal)

    async def _give_up(self, gateway: OutgoingGateway, due: Due, failure: DeliveryFailed) -> None:
        """Store the end of a message that was not tried for the last time. The error message needs its text."""
        loop = asyncio.get_running_loop()
        faults = 0
        while True:
            try:
                texts = await loop.run_in_executor(self._thread, self._outcomes.read, [due.seq])
                break
            except OperatorError as fault:
                faults += 1
                await self._pause(fault, faults)
        message = texts[due.seq]
        if message is None:
            self._done(gateway, due, None)  # its queue was given up meanwhile
            return
        gateway.waiting.add_text(due, message)
        self._notes.note(gateway, due, self._make_attempt(due, gateway, failure), failure)

    def _make_attempt(self, due: Due, gateway: OutgoingGateway, to: Answering | DeliveryFailed) -> SendAttempt:
        """Return an attempt that takes no time."""
        return SendAttempt(due.seq, gateway.queue, due.attempts + 1, self._engine.clock(), 0.0, to)

    def _hear_acknowledged(self, messages: Sequence[int]) -> None:
        if not self._stopping:
            self._notes.hear_acknowledged(messages)

    async def _pause(self, fault: OperatorError, faults: int) -> None:
        self._outages.note_failure(fault)
        await asyncio.sleep(STORE_BACKOFF.delay_seconds(faults))
