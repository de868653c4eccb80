"""Load the texts of messages some ahead of their turns, many at a time, within a limit of characters.

A lane may have so many characters in memory, and one text in any case: slow peers that get large messages do not use up
the room for others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial

from demaq.backoff import Backoff
from demaq.gateways.outbox.outgoing_gateway import OutgoingGateway
from demaq.gateways.outbox.waiting import Due
from demaq.outage_log import OutageLog
from demaq.store.protocol import StoredMessage

BATCH_MAX = 256
"""So many texts are read at once."""
CHARACTERS_MAX = 64_000_000
"""While texts in memory are larger than this together, only lanes that have none load one."""
LANE_CHARACTERS_MAX = CHARACTERS_MAX // 8
"""While texts of a lane are larger than this together, no more of it are loaded."""
RESERVE_CHARACTERS_MAX = 2 * CHARACTERS_MAX
"""While they are larger than this, no lane loads any."""
STORE_BACKOFF = Backoff(seconds_first=0.1, seconds_max=2.0)
"""After a fault of the store."""


class TextLoader:
    """Belongs to one event loop."""

    def __init__(
        self,
        read: Callable[[Sequence[int]], Mapping[int, StoredMessage | None]],
        executor: Executor,
        gateways: Collection[OutgoingGateway],
        outages: OutageLog,
        look: Callable[[], None],
    ) -> None:
        """`read` returns messages, None for those that are not to be sent any more; if they are large, not all.
        `look` is called when messages may go."""
        self._read = read
        self._executor = executor
        self._gateways = gateways
        self._outages = outages
        self._look = look
        self._largest: dict[OutgoingGateway, int] = {}
        """By gateway, the characters of the largest text that was loaded last."""
        self._wanted = asyncio.Event()
        self.is_limited = False
        """Whether texts are wanted for which there is no room."""

    def wake(self) -> None:
        """Texts may be wanted."""
        self._wanted.set()

    async def run(self) -> None:
        """Load until it is cancelled."""
        faults = 0
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while batch := self._choose():
                try:
                    await self._load(batch)
                    faults = 0
                except Exception as fault:
                    faults += 1
                    self._outages.note_failure(fault)
                    await asyncio.sleep(STORE_BACKOFF.delay_seconds(faults))

    def _choose(self) -> list[tuple[OutgoingGateway, Due]]:
        self.is_limited = False
        found: list[tuple[OutgoingGateway, Due]] = []
        for gateway in self._gateways:
            wanted = gateway.wanted_texts(BATCH_MAX - len(found), partial(self._count_room, gateway))
            found += [(gateway, due) for due in wanted]
        return found

    def _count_room(self, gateway: OutgoingGateway, characters: int) -> int:
        """Return how many texts a lane may load that has so many characters, if they are as large as others were."""
        total = sum([each.waiting.characters for each in self._gateways])
        if total < CHARACTERS_MAX and characters < LANE_CHARACTERS_MAX:
            return max((LANE_CHARACTERS_MAX - characters) // self._largest.get(gateway, LANE_CHARACTERS_MAX), 1)
        self.is_limited = True
        return 1 if not characters and total < RESERVE_CHARACTERS_MAX else 0

    async def _load(self, batch: Sequence[tuple[OutgoingGateway, Due]]) -> None:
        numbers = [due.seq for _, due in batch]
        texts: Mapping[int, StoredMessage | None] = {}
        try:
            texts = await asyncio.get_running_loop().run_in_executor(self._executor, self._read, numbers)
        finally:
            unread: dict[OutgoingGateway, list[Due]] = {}
            largest: dict[OutgoingGateway, int] = {}
            for gateway, due in batch:
                if due.seq not in texts:
                    unread.setdefault(gateway, []).append(due)
                    continue
                message = texts[due.seq]
                if message is None:
                    gateway.vanished(due)  # its queue was given up meanwhile, or it was answered
                else:
                    gateway.waiting.loaded(due, message)
                    largest[gateway] = max(largest.get(gateway, 1), len(message.body))
            self._largest.update(largest)
            for gateway, dues in unread.items():
                gateway.waiting.not_loaded(dues)
            self._look()
