"""Stores what arrives, for many senders at once.

Senders wait in one list. Whatever is in it is checked and stored together, in one transaction, by one thread; who comes
meanwhile is in the next one. So a sender alone is served at once, and a hundred share the cost of reaching the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from demaq.documents import Document
from demaq.engine.batch_intake import IncomingMessage, receive_all
from demaq.engine.engine import Engine
from demaq.engine.error_routing import RefusedMessage
from demaq.engine.intake import expect_repeated
from demaq.errors import MessageError, OperatorError
from demaq.evaluation.state.snapshot_reader import date_time
from demaq.evaluation.workers.receiver import Receiver, TakesLong
from demaq.gateways.store_reader import StoreReader
from demaq.messages import PropertyValue
from demaq.store.protocol import NewMessage, StoredAnswer
from demaq.store.request_names import SEPARATOR

TOGETHER_MAX = 500
"""So many messages are stored in one transaction at most."""
TOGETHER_BYTES_MAX = 32_000_000
FEW, TURNS = 32, 2
"""Where fewer wait, those come along whose requests are there and need that many turns of the loop to be read."""
SLOW_MAX = 100
"""So many messages that take long to check may wait, each for the ones before it; more are refused for now."""
NOT_NOW = "messages cannot be stored now"
LOAD_SECONDS = 0.5
"""How long it is remembered how much waits, and how much room there is."""
LOAD_SECONDS_MAX = 2.0
"""How long a store may take to say it, before senders hear that it does not."""
STALL_SECONDS_MAX = 10.0
"""How long a commit may keep the store from others, before senders hear that nothing can be stored. Until then they
wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    message: int
    """The number of the message."""
    is_new: bool
    """Whether it was stored now; False where a request of that name was known, and this is the first one's number."""


class Overloaded(Exception):
    """More waits than may wait, or the disk is full. It can be tried again later."""

    def __init__(self, reason: str, retry_after_seconds: float) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """When a gateway takes no more messages."""

    backlog_max: int
    disk_free_bytes_min: int
    retry_after_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeLoad:
    """How much a node has to do, and how much room it has."""

    looked: float
    """When that was, by the monotonic clock."""
    backlog: int
    """How many messages wait to be processed."""
    disk_free_bytes: int | None
    """None where the store lies on no disk of ours."""


@dataclass(slots=True)
class _WaitingRequest:
    queue: str
    sent: IncomingMessage
    size: int
    answer: asyncio.Future[Receipt]
    transport: dict[str, PropertyValue] = field(default_factory=dict)
    refusal: MessageError | None = None
    """Why it is refused, where that is known already."""
    stored: Receipt | MessageError | None = field(default=None)
    takes_long: bool = False
    """Whether it is checked apart from the others, because its properties take long."""
    is_mismatch: bool = False
    """Whether it has the name of a request that was stored, and says something else."""


class Intake:
    """What listeners hand messages to. Belongs to one event loop."""

    def __init__(
        self,
        engine: Engine,
        reader: StoreReader,
        folder: Path | None,
        bounds: Callable[[str], Bounds],
        stored: Callable[[Sequence[NewMessage]], None] = lambda messages: None,
        fault: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`reader` reads the store of the engine without waiting for commits. `folder` is where the store lies, if it
        is a folder; `stored` is told what is new. `fault` returns what keeps the node from processing any message, if
        something does."""
        self._engine = engine
        self._reader = reader
        self._folder = folder
        self._bounds = bounds
        self._stored = stored
        self._waiting: list[_WaitingRequest] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="demaq-intake")
        self._task: asyncio.Task[None] | None = None
        self._slow_thread = ThreadPoolExecutor(1, thread_name_prefix="demaq-slow-intake")
        self._slow: set[asyncio.Task[None]] = set()
        """What takes long to check, each in a task of its own."""
        self._fault = fault
        self._load: _NodeLoad | None = None
        """What was found when it was looked last; None where that failed."""
        self._looking: asyncio.Task[None] | None = None
        self._looking_since = 0.0
        self._load_thread = ThreadPoolExecutor(1, thread_name_prefix="demaq-load")
        """One of its own: the store may not answer, and the event loop must not wait for it."""
        self._probe: asyncio.Future[None] | None = None
        """Ends when the connection that writes has answered."""
        self._probed = 0.0
        """When it began."""
        self._probe_thread = ThreadPoolExecutor(1, thread_name_prefix="demaq-probe")
        self.accepted: dict[str, int] = {}
        self.refused: dict[tuple[str, str], int] = {}
        """How many, by queue, and by queue and kind of error."""

    async def receive(
        self,
        queue: str,
        body: bytes | str,
        *,
        transport: Mapping[str, str],
        properties: Mapping[str, str] | None = None,
        request: str | None = None,
        document: Document | None = None,
        hops: int = 0,
    ) -> Receipt:
        """Store a message; durable on return. `document` is the body, where it was read already.

        `hops` is how far it has come on other nodes.

        Raises a MessageError after the refusal was stored with the body in the right error queue, and Overloaded where
        nothing was stored.
        """
        known = {name: PropertyValue.string(text) for name, text in transport.items()}
        sent = IncomingMessage(body, properties or {}, request, known, document, hops)
        return await self._take(_WaitingRequest(queue, sent, len(body), _future(), known))

    async def refuse(
        self, queue: str, body: bytes | str, error: MessageError, *, request: str | None = None, hops: int = 0
    ) -> MessageError:
        """Keep what must not be stored in an error message. The answer is the error."""
        arrival = _WaitingRequest(
            queue, IncomingMessage(body, {}, request, hops=hops), len(body), _future(), refusal=error
        )
        try:
            await self._take(arrival)
        except MessageError as refused:
            return refused
        return error

    async def close(self) -> None:
        """Store what waits, and end."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        if self._looking is not None:
            await asyncio.gather(self._looking, return_exceptions=True)
        self.stop_slow()
        await asyncio.gather(*self._slow, return_exceptions=True)
        self._thread.shutdown()
        self._slow_thread.shutdown()
        self._load_thread.shutdown()
        if self._probe is not None:
            await asyncio.gather(self._probe, return_exceptions=True)
        self._probe_thread.shutdown()
        self._reader.close()

    def stop_slow(self) -> None:
        """Give up what takes long to check: its senders hear that it cannot be done now. May be called from any
        thread."""
        if self._slow and isinstance(self._engine.receiver, Receiver):
            self._engine.receiver.stop()

    async def refusal(self, queue: str) -> str | None:
        """Return why a gateway takes no messages now, if it takes none: what `/readyz` says, and what senders hear."""
        fault = self._fault()
        if fault is not None:
            return fault
        load = await self._current_load()
        if load is None or self._is_stalled():
            return NOT_NOW
        bounds = self._bounds(queue)
        if load.backlog + len(self._waiting) >= bounds.backlog_max:
            return f"{load.backlog:,} messages wait to be processed"
        if load.disk_free_bytes is not None and load.disk_free_bytes < bounds.disk_free_bytes_min:
            return "the disk is nearly full"
        return None

    async def _take(self, arrival: _WaitingRequest) -> Receipt:
        refusal = await self.refusal(arrival.queue)
        if refusal is not None:
            raise Overloaded(refusal, self._bounds(arrival.queue).retry_after_seconds)
        self._waiting.append(arrival)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._store_all())
        return await arrival.answer

    async def _current_load(self) -> _NodeLoad | None:
        """Return the load as it was up to `LOAD_SECONDS` ago; None where the store cannot say it, or not in time."""
        load = self._load
        if load is not None and time.monotonic() - load.looked < LOAD_SECONDS:
            return load
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
            self._looking_since = time.monotonic()
        left = self._looking_since + LOAD_SECONDS_MAX - time.monotonic()
        await asyncio.wait([self._looking], timeout=max(left, 0.0))
        return self._load if self._looking.done() else None

    def _is_stalled(self) -> bool:
        """Whether somebody has kept the store from others for too long. Asks it, and does not wait for the answer."""
        now = time.monotonic()
        if self._probe is None or (self._probe.done() and now - self._probed >= LOAD_SECONDS):
            self._probe = asyncio.get_running_loop().run_in_executor(self._probe_thread, self._ask_writer)
            self._probed = now
        return not self._probe.done() and now - self._probed > STALL_SECONDS_MAX

    async def answer(self, connection: str) -> StoredAnswer | None:
        """Return what was answered on a connection, as long as that is remembered."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._load_thread, self._reader.read, lambda store: store.answer(connection))

    async def _look(self) -> None:
        try:
            self._load = await asyncio.get_running_loop().run_in_executor(self._load_thread, self._read_load)
        except (OperatorError, OSError):
            self._load = None

    async def _store_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            if len(self._waiting) < FEW:
                for _ in range(TURNS):
                    await asyncio.sleep(0)
            together, self._waiting = _first(self._waiting)
            answer = await loop.run_in_executor(self._thread, self._try, together)
            alone = [[arrival] for arrival in together] if _is_ours(answer) and len(together) > 1 else []
            for group in alone or [together]:  # one message that breaks something must not keep the others out
                if alone:
                    answer = await loop.run_in_executor(self._thread, self._try, group)
                failure = answer if isinstance(answer, Exception) else None
                if not isinstance(answer, Exception):
                    self._stored(answer)
                for arrival in group:
                    if arrival.takes_long and failure is None:
                        self._store_slow(arrival)
                    else:
                        self._tell(arrival, failure)

    def _store_slow(self, arrival: _WaitingRequest) -> None:
        """Check and store a message that takes long, while others go on."""
        if len(self._slow) >= SLOW_MAX:
            retry = self._bounds(arrival.queue).retry_after_seconds
            self._tell(arrival, Overloaded(f"{SLOW_MAX} messages that take long wait to be checked", retry))
            return

        async def store() -> None:
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self._slow_thread, self._try, [arrival])
            if isinstance(answer, Exception):
                self._tell(arrival, answer)
            else:
                self._stored(answer)
                self._tell(arrival, None)

        task = asyncio.create_task(store())
        self._slow.add(task)
        task.add_done_callback(self._slow.discard)

    def _tell(self, arrival: _WaitingRequest, failure: Exception | None) -> None:
        if failure is not None:
            if not arrival.answer.done():
                arrival.answer.set_exception(_for_sender(failure, self._bounds(arrival.queue)))
            return
        answer = arrival.stored
        if isinstance(answer, Receipt):
            self.accepted[arrival.queue] = self.accepted.get(arrival.queue, 0) + 1
        else:
            assert answer is not None, "every message has been looked at"
            self.refused[arrival.queue, answer.kind] = self.refused.get((arrival.queue, answer.kind), 0) + 1
        if arrival.answer.done():
            return  # the sender has gone
        if isinstance(answer, Receipt):
            arrival.answer.set_result(answer)
        else:
            arrival.answer.set_exception(answer)

    # in the threads

    def _read_load(self) -> _NodeLoad:
        free = shutil.disk_usage(self._folder).free if self._folder is not None else None
        backlog = self._reader.read(self._engine.backlog)
        return _NodeLoad(looked=time.monotonic(), backlog=backlog, disk_free_bytes=free)

    def _ask_writer(self) -> None:
        with contextlib.suppress(OperatorError):
            self._engine.store.counts()

    def _try(self, together: list[_WaitingRequest]) -> list[NewMessage] | Exception:
        try:
            return self._store(together)
        except Exception as failure:
            return failure

    def _store(self, together: list[_WaitingRequest]) -> list[NewMessage]:
        engine = self._engine
        now = engine.clock()
        text = date_time(now)
        arrived = PropertyValue("dateTime", text, text)
        for arrival in together:
            arrival.transport["demaq:arrived"] = arrived
        checked: dict[int, NewMessage | MessageError] = {}
        for queue in dict.fromkeys([arrival.queue for arrival in together]):
            numbers = [n for n, a in enumerate(together) if a.queue == queue and a.refusal is None]
            takes_long = any([together[n].takes_long for n in numbers])
            receiver = engine.receiver if takes_long else engine.quick_receiver
            found = receive_all(engine.maker, receiver, queue, [together[n].sent for n in numbers], now)
            checked.update(zip(numbers, found, strict=True))
        for number, arrival in enumerate(together):
            arrival.takes_long = isinstance(checked.get(number), TakesLong)
        quick = [number for number, arrival in enumerate(together) if not arrival.takes_long]
        if not quick:
            return []
        checked = {position: checked[number] for position, number in enumerate(quick) if number in checked}
        together = [together[number] for number in quick]
        messages: list[NewMessage] = []
        for number, arrival in enumerate(together):
            answer = checked.get(number, arrival.refusal)
            assert answer is not None, "it was checked, or refused before"
            messages.append(self._about(arrival, answer, now) if isinstance(answer, MessageError) else answer)
        stored = engine.append_numbered(messages)
        for number, (arrival, (message, is_new)) in enumerate(zip(together, stored, strict=True)):
            answer = checked.get(number, arrival.refusal)
            if not isinstance(answer, MessageError) and not is_new:
                answer = self._mismatch(arrival)
            arrival.stored = answer if isinstance(answer, MessageError) else Receipt(message=message, is_new=is_new)
        mismatches = [(a, a.stored) for a in together if isinstance(a.stored, MessageError) and a.is_mismatch]
        if mismatches:
            abouts = [self._about(arrival, error, now) for arrival, error in mismatches]
            engine.append(abouts)
            messages += abouts
        return messages

    def _mismatch(self, arrival: _WaitingRequest) -> MessageError | None:
        """Return why a request of a known name is refused, if it is not the same as the first one."""
        try:
            expect_repeated(self._engine.store, arrival.sent.request)
        except MessageError as error:
            arrival.is_mismatch = True
            return error
        return None

    def _about(self, arrival: _WaitingRequest, error: MessageError, now: datetime) -> NewMessage:
        """The message about one that is refused. A repeated request is refused again, and told about once."""
        sent = arrival.sent
        # Without a digest apart from its name: what else comes under that name and is refused is told about, too.
        request = None if sent.request is None else f"refused:{sent.request.replace(SEPARATOR, ':')}"
        about = RefusedMessage.of(arrival.queue, sent.body, error, sent.document)
        return self._engine.maker.refused(error, about, now, request, sent.hops)


def _first(waiting: list[_WaitingRequest]) -> tuple[list[_WaitingRequest], list[_WaitingRequest]]:
    """Those that are stored together now, and the rest."""
    size = 0
    for number, arrival in enumerate(waiting[:TOGETHER_MAX]):
        size += arrival.size
        if size > TOGETHER_BYTES_MAX and number:
            return waiting[:number], waiting[number:]
    return waiting[:TOGETHER_MAX], waiting[TOGETHER_MAX:]


def _is_ours(answer: list[NewMessage] | Exception) -> bool:
    """Whether it is a mistake of ours, and no fault of the system that all messages share."""
    return isinstance(answer, Exception) and not isinstance(answer, OperatorError)


def _for_sender(failure: Exception, bounds: Bounds) -> Exception:
    if isinstance(failure, OperatorError):  # the store, the disk or the evaluator: the sender can try again
        return Overloaded(NOT_NOW, bounds.retry_after_seconds)
    return failure


def _future() -> asyncio.Future[Receipt]:
    return asyncio.get_running_loop().create_future()
