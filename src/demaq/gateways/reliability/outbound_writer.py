"""Change outgoing sequences from the event loop: in a thread, and changes that come together in one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar, cast

from demaq.batching import AsyncBatcher
from demaq.gateways.reliability.outbound_draft import JournalDraft
from demaq.gateways.reliability.outbound_journal import OutboundJournal
from demaq.store.protocol import Store

R = TypeVar("R")


class SequenceWriter:
    """Belongs to one event loop; the journal may be used from any thread."""

    def __init__(
        self, store: Store, queues: Collection[str], clock: Callable[[], datetime], make_id: Callable[[], str]
    ) -> None:
        self.journal = OutboundJournal(store, queues, clock, make_id, self._observe)
        self.hear_acknowledged: Callable[[Sequence[int]], None] = lambda messages: None
        """Called, in the event loop, with messages that were acknowledged."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="demaq-sequences")
        self._changes: AsyncBatcher[Callable[[JournalDraft], Any], Any] = AsyncBatcher(
            self.journal.change, self._thread
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()

    async def change(self, act: Callable[[JournalDraft], R]) -> R:
        """Commit a change, and return its result. Raises OperatorError if it is in doubt."""
        self._loop = asyncio.get_running_loop()
        return cast(R, await self._changes.submit(act))

    async def run(self, act: Callable[[], R]) -> R:
        """Call a function in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, act)

    async def wait(self, seconds: float) -> None:
        """Wait until any sequence has changed, or so long."""
        self._loop = asyncio.get_running_loop()
        changed = self._changed
        try:
            async with asyncio.timeout(max(seconds, 0.0)):  # wait_for loses a cancellation now and then
                await changed.wait()
        except TimeoutError:
            return

    def wake(self) -> None:
        """Let all that wait for a change look again."""
        self._tell([])

    def close(self) -> None:
        """Release the thread."""
        self._thread.shutdown()

    def _observe(self, messages: Sequence[int]) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._tell, list(messages))

    def _tell(self, messages: Sequence[int]) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        if messages:
            self.hear_acknowledged(messages)
