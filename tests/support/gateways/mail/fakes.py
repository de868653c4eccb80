"""An intake that keeps what it is given in memory, and a listener beside a client that blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.gateways.mail.smtp_server import MailListener

ENDPOINTS = {"orders": "mailto:orders@example.org", "bills": "mailto:Bills@Example.org,invoices@example.org"}

Result = TypeVar("Result")


@dataclass
class FakeReceived:
    queue: str
    body: bytes | str
    transport: Mapping[str, str]
    properties: Mapping[str, str]
    request: str | None
    reason: str | None = None


@dataclass
class FakeIntake:
    """Accepts what is well-formed, knows requests by their names, and fails when it is asked to."""

    failures: list[Exception] = field(default_factory=list)
    """What the next ones meet, whatever they bring."""
    stored: list[FakeReceived] = field(default_factory=list)
    refused: list[FakeReceived] = field(default_factory=list)
    delay_seconds: float = 0.0
    begun: int = 0

    def admit(self, *queues: str) -> None:
        """All may come."""

    async def receive(
        self,
        queue: str,
        body: bytes | str,
        *,
        transport: Mapping[str, str],
        properties: Mapping[str, str] | None = None,
        request: str | None = None,
        hops: int = 0,
    ) -> int:
        self.begun += 1
        await asyncio.sleep(self.delay_seconds)
        if self.failures:
            raise self.failures.pop(0)
        received = FakeReceived(queue, body, transport, properties or {}, request)
        try:
            parse_document(body)
        except MessageError:
            self.refused.append(received)
            raise
        known = [old for old in self.stored if request is not None and old.request == request]
        if not known:
            self.stored.append(received)
        return 1

    async def refuse(
        self, queue: str, body: bytes | str, error: MessageError, *, request: str | None = None, hops: int = 0
    ) -> MessageError:
        if self.failures:
            raise self.failures.pop(0)
        self.refused.append(FakeReceived(queue, body, {}, {}, request, error.message))
        return error


def listening(
    client: Callable[[int], Result], intake: FakeIntake | None = None, endpoints: Any = None, **options: Any
) -> Result:
    """What a client that blocks gives back, which is run beside a listener with its port."""
    return with_listener(lambda listener: asyncio.to_thread(client, listener.port), intake, endpoints, **options)


def with_listener(
    work: Callable[[MailListener], Awaitable[Result]],
    intake: FakeIntake | None = None,
    endpoints: Any = None,
    **options: Any,
) -> Result:
    async def run() -> Result:
        listener = MailListener(intake or FakeIntake(), endpoints or ENDPOINTS, host="127.0.0.1", port=0, **options)
        await listener.start()
        try:
            return await work(listener)
        finally:
            await listener.stop()

    return asyncio.run(run())
