"""Senders that wait for an answer: each has a connection, whose name all messages of the conversation inherit."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

KEYED = "k-"
"""How the names of connections begin whose answers may be asked for again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What an application answers."""

    body: str
    is_error: bool
    """Whether it is an error message of the system."""


class Connections:
    """The connections whose senders wait for an answer. Belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[asyncio.Future[Reply | None]]] = {}
        self._queues: dict[str, str] = {}
        """Through which gateway each came."""
        self._checks: dict[str, Callable[[str], None]] = {}
        self._is_over = False

    def __len__(self) -> int:
        return len(self._waiting)

    def open(
        self, name: str, queue: str, check: Callable[[str], None] = lambda body: None
    ) -> asyncio.Future[Reply | None]:
        """Return a future for the answer; None as its result means that none will come.

        Several may wait on one connection, if a request is repeated. `check` raises a MessageError for a wrong answer.
        """
        future: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
        if self._is_over:
            future.set_result(None)
            return future
        self._waiting.setdefault(name, []).append(future)
        self._queues[name] = queue
        self._checks[name] = check
        return future

    def check(self, name: str, body: str) -> None:
        """Raises a MessageError if this cannot be the answer on a connection."""
        if name in self._checks:
            self._checks[name](body)

    def leave(self, name: str, future: asyncio.Future[Reply | None]) -> None:
        """Wait no longer."""
        waiting = self._waiting.get(name, [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._waiting.pop(name, None)
            self._forget(name)

    def queue_of(self, name: str) -> str | None:
        """Return the gateway that a connection came through, while its sender waits."""
        return self._queues.get(name)

    def answer(self, name: str, reply: Reply) -> None:
        """Give the waiting sender the answer, and close the connection."""
        for future in self._waiting.pop(name, []):
            if not future.done():
                future.set_result(reply)
        self._forget(name)

    def give_up(self) -> None:
        """Stop waiting on all connections: the node stops."""
        self._is_over = True
        for futures in self._waiting.values():
            for future in futures:
                if not future.done():
                    future.set_result(None)
        for known in (self._waiting, self._queues, self._checks):
            known.clear()

    def _forget(self, name: str) -> None:
        self._queues.pop(name, None)
        self._checks.pop(name, None)


def connection_name(queue: str, request: str | None) -> str:
    """Return a new name; for a request that is known again always the same, so that its repetition finds the answer."""
    if request is None:
        return secrets.token_hex(16)
    return KEYED + hashlib.sha256(f"{queue}\0{request}".encode()).hexdigest()[:40]
