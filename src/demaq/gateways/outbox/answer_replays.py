"""Recognise answers of WS-Security that were received before.

The keys of an answer are claimed here, so that two copies at once are noticed, and stored in the transaction of what
became of the message.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

from demaq.store.protocol import Store

CLAIMS_SECONDS = 600.0
"""So long a claim is remembered here; by then its keys are stored."""


class AnswerReplays:
    """Belongs to one event loop."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], datetime],
        run: Callable[[Callable[[], frozenset[str]]], Awaitable[frozenset[str]]],
    ) -> None:
        """`run` calls a function in a thread."""
        self._store = store
        self._clock = clock
        self._run = run
        self._claims: dict[str, datetime] = {}
        """Until when each key is remembered here, the oldest one first."""

    async def claim(self, keys: Mapping[str, datetime]) -> bool:
        """Return whether an answer with these keys is new. Raises OperatorError if the store cannot say."""
        if not keys:
            return True
        now = self._clock()
        self._forget_old(now)
        if not self._claims.keys().isdisjoint(keys):
            return False
        self._claims.update(dict.fromkeys(keys, now + timedelta(seconds=CLAIMS_SECONDS)))
        try:
            return not await self._run(lambda: self._store.known_replays(list(keys), now))
        except BaseException:
            for key in keys:
                self._claims.pop(key, None)
            raise

    def _forget_old(self, now: datetime) -> None:
        while self._claims:
            key, until = next(iter(self._claims.items()))
            if until > now:
                return
            del self._claims[key]
