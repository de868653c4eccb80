"""Send what lies in outgoing gateways, until it is acknowledged or given up.

Messages of one slice are sent one after the other, in order, as long as none of them is being tried again; others side
by side. Whatever becomes of a message is stored before anybody is told, and what was not stored is sent again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeVar

from demaq.errors import AlreadyProcessed, MessageError, StoreError
from demaq.gateways.connections import KEYED, Connections, Reply
from demaq.gateways.figures import Durations
from demaq.gateways.http.answers import refusal_text
from demaq.gateways.outbox.addressing import Addressing, Answering
from demaq.gateways.outbox.peers import Peer, pause_seconds
from demaq.gateways.outbox.recording import Recording
from demaq.gateways.outbox.results import NotSent, Sent
from demaq.gateways.settings import Outgoing, Settings
from demaq.language.endpoints import Destination
from demaq.language.system_properties import ERROR_LEVEL
from demaq.scheduler.engine import Engine
from demaq.scheduler.sending import Ended
from demaq.store.protocol import Answer, Attempt, SliceKey, StoredMessage

IN_FLIGHT_MAX = 256
"""So many messages are on their way at once, over all gateways."""
LOOK_AHEAD = 200
"""So many messages of a gateway are looked at for some that may go now."""
IDLE_SECONDS_MAX = 30.0
FAULT_SECONDS = 1.0
"""After a fault of the store it is tried again this much later."""
OTHER_SIDE = ("disconnectedTransport", "nameResolution", "timeout", "connectionClosed")
"""Failures that are about the other side, whatever the message is."""
XML = "application/xml"
RESULTS = ("sent", "again", "failed")

T = TypeVar("T")

_log = logging.getLogger("demaq.outbox")


class Sender(Protocol):
    """One way to send a message. Never raises."""

    async def send(self, message: StoredMessage, to: Destination, settings: Outgoing) -> Sent | NotSent: ...


class Outbox:
    """Belongs to one event loop."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        addressing: Addressing,
        connections: Connections,
        senders: Mapping[str, Sender],
        left_out: frozenset[str] = frozenset(),
        wrote: Callable[[], None] = lambda: None,
    ) -> None:
        """`senders` are by kind of destination; `wrote` is called when there may be something to process.

        Messages of gateways that are `left_out` stay where they are.
        """
        self._engine = engine
        self._store = engine.store
        self._settings = settings
        self._addressing = addressing
        self._connections = connections
        self._senders = senders
        self._wrote = wrote
        self._queues = [queue.name for queue in engine.program.queues.values() if queue.kind == "outgoingGateway"]
        self._queues = [queue for queue in self._queues if queue not in left_out]
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="demaq-outbox")
        self._recording = Recording(self._deliver, self._thread)
        self._flying: dict[int, asyncio.Task[None]] = {}
        self._busy_slices: set[SliceKey] = set()
        self._peers: dict[tuple[str, str], Peer] = {}
        self._answering: set[str] = set()
        """Connections whose answers are being stored."""
        self._work = asyncio.Event()
        self._stopping = False
        self.counts: dict[tuple[str, str], int] = {}
        """How many attempts ended how: by queue and result."""
        self.durations: dict[str, Durations] = {}
        """How long they took, by queue."""

    def wake(self) -> None:
        """There may be something to send."""
        self._work.set()

    def open_breakers(self) -> list[tuple[str, str]]:
        """Other sides that are not even tried now: for which gateway, and who. May be called from any thread."""
        return [about for about, peer in self._peers.copy().items() if not peer.is_open]

    async def run(self) -> None:
        """Send until it is stopped."""
        while not self._stopping:
            self._work.clear()
            pause = IDLE_SECONDS_MAX
            try:
                for queue in self._queues:
                    pause = min(pause, await self._start_some(queue))
            except Exception as fault:
                if self._stopping:
                    return
                _log.warning("%s; looking again in %g s", fault, FAULT_SECONDS)
                pause = FAULT_SECONDS
            if pause > 0:
                try:
                    await asyncio.wait_for(self._work.wait(), pause)
                except TimeoutError:
                    continue

    async def stop(self, seconds: float) -> None:
        """Let what is on its way arrive, but not for ever; what is not stored then is sent again by the next run."""
        self._stopping = True
        self._work.set()
        if self._flying:
            await asyncio.wait(list(self._flying.values()), timeout=seconds)
        for task in self._flying.values():
            task.cancel()
        await asyncio.gather(*self._flying.values(), return_exceptions=True)

    def close(self) -> None:
        """Behind the end of `run`."""
        self._thread.shutdown()

    # picking

    async def _start_some(self, queue: str) -> float:
        """Begin to send what may go now; the answer is when to look again."""
        room = IN_FLIGHT_MAX - len(self._flying)
        if room <= 0:
            return IDLE_SECONDS_MAX
        now = self._engine.clock()
        flying = list(self._flying)
        found = await self._in_thread(lambda: self._store.to_send(queue, now, LOOK_AHEAD, flying))
        pause = IDLE_SECONDS_MAX
        passed: set[SliceKey] = set()
        for message, attempts in found:
            if len(self._flying) >= IN_FLIGHT_MAX:
                break
            if message.seq in self._flying or not passed.isdisjoint(message.slices):
                continue
            if not self._busy_slices.isdisjoint(message.slices):
                passed.update(message.slices)
                continue
            to = self._addressing.of(message)
            peer = self._peer(queue, to.peer) if isinstance(to, Destination) else None
            wait = 0.0 if peer is None else peer.wait_seconds()
            if wait is None or wait > 0:
                passed.update(message.slices)
                pause = min(pause, IDLE_SECONDS_MAX if wait is None else wait)
                continue
            self._start(message, attempts + 1, to, peer)
        if len(found) < LOOK_AHEAD:
            pause = min(pause, await self._next_due(queue, now))
        return pause

    async def _next_due(self, queue: str, now: datetime) -> float:
        # What is due and was not begun waits for another one to end, and is looked at then.
        due = await self._in_thread(lambda: self._store.next_to_send(queue, now))
        return IDLE_SECONDS_MAX if due is None else (due - now).total_seconds()

    def _start(
        self, message: StoredMessage, attempt: int, to: Destination | Answering | NotSent, peer: Peer | None
    ) -> None:
        self._busy_slices.update(message.slices)
        refusal = peer.refusal() if peer is not None else None
        if peer is not None and refusal is None:
            peer.begin()
        task = asyncio.create_task(self._send(message, attempt, refusal or to, None if refusal else peer))
        self._flying[message.seq] = task

        def ended(task: asyncio.Task[None]) -> None:
            self._flying.pop(message.seq, None)
            self._busy_slices.difference_update(message.slices)
            self._work.set()

        task.add_done_callback(ended)

    def _peer(self, queue: str, name: str) -> Peer:
        known = self._peers.get((queue, name))
        if known is None:
            settings = self._settings.outgoing(queue)
            known = self._peers[queue, name] = Peer(
                settings.connections,
                settings.rate_per_second,
                settings.breaker_failures,
                settings.retry_first_seconds,
                settings.breaker_pause_seconds,
                time.monotonic,
            )
        return known

    # sending

    async def _send(
        self, message: StoredMessage, number: int, to: Destination | Answering | NotSent, peer: Peer | None
    ) -> None:
        at = self._engine.clock()
        began = time.perf_counter()
        result: Sent | NotSent
        if isinstance(to, Destination):
            result = await self._tried(message, to)
        elif isinstance(to, NotSent):
            result = to
        else:
            result = Sent(status="answered")
        seconds = time.perf_counter() - began
        if peer is not None:
            peer.end(result if isinstance(result, NotSent) and _is_about_other_side(result) else None)
        while True:
            try:
                await self._note(message, number, at, seconds, result, to)
            except AlreadyProcessed:
                return  # somebody has given up its queue meanwhile
            except StoreError as fault:
                # It must not be sent again for this: what became of it is stored as soon as that is possible.
                _log.warning("message %s: %s; trying again in %g s", message.seq, fault, FAULT_SECONDS)
                await asyncio.sleep(FAULT_SECONDS)
                continue
            return

    async def _tried(self, message: StoredMessage, to: Destination) -> Sent | NotSent:
        settings = self._settings.outgoing(message.queue)
        try:
            return await self._senders[to.kind].send(message, to, settings)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a mistake of ours, which must not keep the message for ever
            _log.exception("sending message %s failed", message.seq)
            return NotSent(kind="systemError", reason=f"{type(error).__name__}: {error}")

    async def _note(
        self,
        message: StoredMessage,
        number: int,
        at: datetime,
        seconds: float,
        result: Sent | NotSent,
        to: Destination | Answering | NotSent,
    ) -> None:
        settings = self._settings.outgoing(message.queue)

        def attempt(outcome: Literal["sent", "again", "failed"]) -> Attempt:
            failed = result if isinstance(result, NotSent) else None
            return Attempt(
                message=message.seq,
                queue=message.queue,
                number=number,
                at=at,
                seconds=round(seconds, 6),
                destination=_shown(to),
                result=outcome,
                status=result.status,
                kind=failed.kind if failed is not None else None,
                reason=failed.reason if failed is not None else None,
            )

        if isinstance(result, NotSent) and result.again and number < settings.attempts:
            pause = pause_seconds(
                number, settings.retry_first_seconds, settings.retry_seconds_max, result.after_seconds
            )
            due = self._engine.clock() + timedelta(seconds=pause)
            await self._in_thread(lambda: self._store.postpone(message.seq, due, attempt("again")))
            self._count(message.queue, "again", seconds)
            return
        if isinstance(result, NotSent):
            failure = (result.kind, _described(result, number))
            await self._recording.note(Ended(message=message, attempt=attempt("failed"), failure=failure))
            self._count(message.queue, "failed", seconds)
        elif isinstance(to, Answering):
            await self._answer(message, attempt("sent"), to.connection)
            self._count(message.queue, "sent", seconds)
        else:
            await self._recording.note(Ended(message=message, attempt=attempt("sent"), reply=result.reply))
            self._count(message.queue, "sent", seconds)
        self._wrote()

    async def _answer(self, message: StoredMessage, attempt: Attempt, connection: str) -> None:
        """First it is stored that the answer is given; then it is."""
        reply = Reply(body=message.body, is_error=ERROR_LEVEL in message.properties)
        answer = None
        is_keyed = connection.startswith(KEYED)
        if is_keyed:
            status = 500 if reply.is_error else 200
            answer = Answer(connection=connection, status=status, content_type=XML, body=reply.body)
            is_taken = await self._in_thread(lambda: self._store.answer(connection)) is not None
        else:
            is_taken = self._connections.queue_of(connection) is None
        if is_taken or connection in self._answering:
            failure = ("connectionClosed", "the request was answered before, or its sender does not wait any more")
            failed = replace(attempt, result="failed", kind=failure[0], reason=failure[1])
            await self._recording.note(Ended(message=message, attempt=failed, failure=failure))
            return
        self._answering.add(connection)
        ended = Ended(message=message, attempt=attempt, answer=answer)
        try:
            if not reply.is_error:
                self._connections.check(connection, reply.body)
        except MessageError as error:
            said = f"the answer is not as the interface says: {error.message}"
            failed = replace(attempt, result="failed", kind=error.kind, reason=said)
            reply = Reply(body=refusal_text(error.kind, "the answer is not as the interface says"), is_error=True)
            if answer is not None:
                answer = replace(answer, status=500, body=reply.body)
            ended = Ended(message=message, attempt=failed, answer=answer, failure=(error.kind, said))
        try:
            await self._recording.note(ended)
            self._connections.answer(connection, reply)
        finally:
            self._answering.discard(connection)

    def _deliver(self, ended: Sequence[Ended]) -> None:  # in the thread
        self._engine.deliver(ended)

    def _count(self, queue: str, result: str, seconds: float) -> None:
        self.counts[queue, result] = self.counts.get((queue, result), 0) + 1
        if queue not in self.durations:
            self.durations[queue] = Durations()
        self.durations[queue].add(seconds)

    def _in_thread(self, call: Callable[[], T]) -> Awaitable[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, call)


def _is_about_other_side(result: NotSent) -> bool:
    return result.again and (result.kind in OTHER_SIDE or (result.status or "").startswith("5"))


def _described(result: NotSent, attempts: int) -> str:
    status = f" (status {result.status})" if result.status is not None else ""
    tried = f" after {attempts} attempts" if result.again else ""
    return f"{result.reason}{status}{tried}"


def _shown(to: Destination | Answering | NotSent) -> str:
    match to:
        case Destination():
            return to.address
        case Answering():
            return f"connection {to.connection}"
    return ""
