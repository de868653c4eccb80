"""The other side of outgoing gateways: accepts messages, refuses them, or accepts them and does not answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from demaq.gateways.outbox.delivery_results import Delivered, DeliveryFailed
from demaq.gateways.settings import OutgoingSettings
from demaq.language.endpoints import Destination
from demaq.store.protocol import SliceKey, StoredMessage
from tests.support.simulation.scheduler import Scheduler


@dataclass
class DeliveryAttempt:
    """One attempt to deliver a message, as the receiver sees it."""

    seq: int
    queue: str
    slices: tuple[SliceKey, ...]
    node: int
    """Which node has sent it: counted from 1, with each restart."""
    began: int
    """How many entries the journal had then."""
    ended: int | None = None
    """The same when the sender had the answer; None if it never had."""
    is_accepted: bool = False
    is_acknowledged: bool = False


@dataclass
class ReceiverFaults:
    """Shares of attempts that fail, all 0 if nothing goes wrong."""

    unreachable: float = 0.0
    unavailable: float = 0.0
    refused: float = 0.0
    silent: float = 0.0
    """It does not accept the message, and does not answer."""
    forgotten: float = 0.0
    """It accepts the message, and does not answer."""
    counts: Counter[str] = field(default_factory=Counter)

    def calm(self) -> None:
        self.unreachable = self.unavailable = self.refused = self.silent = self.forgotten = 0.0


class Receiver:
    """Stands for HttpSender, with the network and the server after it."""

    def __init__(
        self,
        scheduler: Scheduler,
        faults: ReceiverFaults,
        position: Callable[[], int],
        node: int,
        attempts: list[DeliveryAttempt],
    ) -> None:
        """`position` returns how many entries the journal has."""
        self._scheduler = scheduler
        self._faults = faults
        self._position = position
        self._node = node
        self._attempts = attempts

    async def send(
        self, message: StoredMessage, to: Destination, settings: OutgoingSettings
    ) -> Delivered | DeliveryFailed:
        began = self._position()
        attempt = DeliveryAttempt(message.seq, message.queue, message.slices, self._node, began)
        self._attempts.append(attempt)
        self._scheduler.note("sent", message.seq)
        result = await self._answer(message, attempt, settings)
        attempt.ended = self._position()
        attempt.is_acknowledged = isinstance(result, Delivered)
        return result

    async def close(self) -> None:
        pass

    async def _answer(
        self, message: StoredMessage, attempt: DeliveryAttempt, settings: OutgoingSettings
    ) -> Delivered | DeliveryFailed:
        chance, faults = self._scheduler.chance, self._faults
        await asyncio.sleep(chance.choice((0.0, 0.001, 0.05, 0.3)))
        if chance.random() < faults.unreachable:
            faults.counts["unreachable"] += 1
            return DeliveryFailed(kind="disconnectedTransport", reason="connection refused")
        if chance.random() < faults.silent:
            faults.counts["silent"] += 1
            await asyncio.sleep(settings.timeout_seconds)
            return DeliveryFailed(kind="timeout", reason="no answer")
        if chance.random() < faults.unavailable:
            faults.counts["unavailable"] += 1
            after = chance.choice((None, 0.5))
            return DeliveryFailed(kind="refused", reason="busy", status="503 busy", after_seconds=after)
        if chance.random() < faults.refused:
            faults.counts["refused"] += 1
            return DeliveryFailed(kind="refused", reason="no", status="400 no", again=False)
        attempt.is_accepted = True
        if chance.random() < faults.forgotten:
            faults.counts["forgotten"] += 1
            await asyncio.sleep(settings.timeout_seconds)
            return DeliveryFailed(kind="timeout", reason="no answer")
        await asyncio.sleep(chance.choice((0.0, 0.001, 0.05)))
        return Delivered(status="200", reply=f"<reply n='{message.seq}'/>" if chance.random() < 0.5 else None)
