"""Admission control: whether a gateway takes messages now, by the load of its node and the state of its store."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from demaq.engine.engine import Engine
from demaq.errors import OperatorError
from demaq.gateways.rate_limit import RateLimit
from demaq.gateways.settings import Settings
from demaq.gateways.store_reader import StoreReader
from demaq.store.protocol import StoredAnswer

NOT_NOW = "messages cannot be stored now"
LOAD_SECONDS = 0.5
"""How long the load is cached."""
LOAD_SECONDS_MAX = 2.0
"""How long reading the load may take before messages are refused."""
STALL_SECONDS_MAX = 10.0
"""How long a commit may keep the store from others before messages are refused. Until then senders wait for it."""


class Overloaded(Exception):
    """More waits than may wait, or the disk is full. It can be tried again later."""

    def __init__(self, reason: str, retry_after_seconds: float) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class RateExceeded(Overloaded):
    """More messages came than the gateway takes in that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeLoad:
    read_at: float
    """By the monotonic clock."""
    backlog: int
    """How many messages wait to be processed."""
    disk_free_bytes: int | None
    """None if the store is on a database server."""

    def is_current(self) -> bool:
        return time.monotonic() - self.read_at < LOAD_SECONDS


class Admission:
    """Belongs to one event loop, which never waits for the store: both questions to it have a thread of their own."""

    def __init__(
        self,
        engine: Engine,
        reader: StoreReader,
        folder: Path | None,
        settings: Settings,
        fault: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`reader` reads the store of the engine without waiting for commits. `folder` is where the store is, if it is
        a folder. `fault` returns what keeps the node from processing any message, if something does."""
        self._engine = engine
        self._reader = reader
        self._folder = folder
        self._settings = settings
        self._fault = fault
        self._limits: dict[str, RateLimit | None] = {}
        """By gateway."""
        self._load: _NodeLoad | None = None
        """As it was read last; None if that failed."""
        self._reading: asyncio.Task[None] | None = None
        self._reading_since = 0.0
        self._load_thread = ThreadPoolExecutor(1, thread_name_prefix="demaq-load")
        self._probe: asyncio.Future[None] | None = None
        """Done when the connection that writes has answered."""
        self._probed_at = 0.0
        self._probe_thread = ThreadPoolExecutor(1, thread_name_prefix="demaq-probe")

    def admit(self, *queues: str) -> None:
        """Let a message come to all of these gateways. Raises Overloaded if operators have paused one, or RateExceeded.

        Only a message that may come to all of them counts.
        """
        for queue in queues:
            if self._engine.pauses.find_gateway(queue) is not None:
                raise self.overload(queue, f"gateway {queue} is paused")
        limits = [(queue, limit) for queue in queues if (limit := self._limit_of(queue)) is not None]
        for queue, limit in limits:
            wait = limit.wait_seconds()
            if wait:
                raise RateExceeded(f"gateway {queue} takes no more messages in this time", wait)
        for _, limit in limits:
            limit.take()

    async def find_refusal(self, queue: str, waiting: int) -> str | None:
        """Return why a gateway takes no messages now, if it takes none: the text of `/readyz` and for senders.

        `waiting` is how many messages wait to be stored.
        """
        fault = self._fault()
        if fault is not None:
            return fault
        load = await self._current_load()
        return NOT_NOW if load is None else self._find_refusal(queue, waiting, load)

    def is_open(self, queue: str, waiting: int) -> bool:
        """Return whether it is known, without a question to the store, that a gateway admits and takes a message."""
        load, limit = self._load, self._limit_of(queue)
        if load is None or not load.is_current() or self._fault() is not None:
            return False
        if self._engine.pauses.find_gateway(queue) is not None or (limit is not None and limit.wait_seconds()):
            return False
        return self._find_refusal(queue, waiting, load) is None

    def _find_refusal(self, queue: str, waiting: int, load: _NodeLoad) -> str | None:
        if self._is_stalled():
            return NOT_NOW
        settings = self._settings.incoming(queue)
        if load.backlog + waiting >= settings.backlog_max:
            return f"{load.backlog:,} messages wait to be processed"
        if load.disk_free_bytes is not None and load.disk_free_bytes < settings.disk_free_bytes_min:
            return "the disk is nearly full"
        return None

    def overload(self, queue: str, reason: str = NOT_NOW) -> Overloaded:
        """Return what is raised for the sender of a message that is not taken now."""
        return Overloaded(reason, self._settings.incoming(queue).retry_after_seconds)

    async def read_answer(self, connection: str) -> StoredAnswer | None:
        """Return what was answered on a connection, if it is still stored."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._load_thread, self._reader.read, lambda store: store.answer(connection))

    def _limit_of(self, queue: str) -> RateLimit | None:
        if queue not in self._limits:
            settings = self._settings.incoming(queue)
            rate = settings.gateway_rate_per_second
            self._limits[queue] = RateLimit(rate, settings.gateway_burst) if rate is not None else None
        return self._limits[queue]

    async def close(self) -> None:
        """Wait for the questions under way, and close the reader."""
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)
        self._load_thread.shutdown()
        if self._probe is not None:
            await asyncio.gather(self._probe, return_exceptions=True)
        self._probe_thread.shutdown()
        self._reader.close()

    async def _current_load(self) -> _NodeLoad | None:
        """Return the load as it was up to `LOAD_SECONDS` ago; None if it cannot be read, or not in time."""
        load = self._load
        if load is not None and load.is_current():
            return load
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._refresh_load())
            self._reading_since = time.monotonic()
        left = self._reading_since + LOAD_SECONDS_MAX - time.monotonic()
        await asyncio.wait([self._reading], timeout=max(left, 0.0))
        return self._load if self._reading.done() else None

    async def _refresh_load(self) -> None:
        try:
            self._load = await asyncio.get_running_loop().run_in_executor(self._load_thread, self._read_load)
        except (OperatorError, OSError):
            self._load = None

    def _is_stalled(self) -> bool:
        """Return whether a commit has kept the store from others for too long. Starts a probe, but does not wait."""
        now = time.monotonic()
        if self._probe is None or (self._probe.done() and now - self._probed_at >= LOAD_SECONDS):
            self._probe = asyncio.get_running_loop().run_in_executor(self._probe_thread, self._probe_writer)
            self._probed_at = now
        return not self._probe.done() and now - self._probed_at > STALL_SECONDS_MAX

    # in the threads

    def _read_load(self) -> _NodeLoad:
        free = shutil.disk_usage(self._folder).free if self._folder is not None else None
        backlog = self._reader.read(self._engine.backlog)
        return _NodeLoad(read_at=time.monotonic(), backlog=backlog, disk_free_bytes=free)

    def _probe_writer(self) -> None:
        with contextlib.suppress(OperatorError):
            self._engine.store.counts()
