"""The source of sequences of one gateway on a store in memory, driven as the outbox does it, over a lossy transport."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

from demaq.engine.delivery import Ended
from demaq.engine.engine import Engine
from demaq.errors import AlreadyProcessed, StoreError
from demaq.gateways.outbox.delivery_results import Awaiting, Delivered, DeliveryFailed, DeliveryResult
from demaq.gateways.outbox.http_connection import HttpResponse
from demaq.gateways.outbox.message_ids import identify_message
from demaq.gateways.outbox.outcome_store import OutcomeNote, OutcomeStore
from demaq.gateways.outbox.soap_client import ClientPolicy, RequestComposer
from demaq.gateways.outbox.soap_sender import SoapAttempt, SoapSender, UnreadableResponse
from demaq.gateways.reliability.outbound_channels import OutboundChannels
from demaq.gateways.reliability.outbound_lifecycle import ReliableGateway
from demaq.gateways.settings import OutgoingSettings
from demaq.soap import Interface
from demaq.soap.policy import GatewayPolicy, ReliabilityPolicy
from demaq.soap.reliability.reliability_versions import ReliabilityVersion
from demaq.store.memory_store import MemoryStore
from demaq.store.protocol import Attempt, Elision, NewMessage, Postponed, SequenceChanges, Step
from tests.support.gateways.reliable_service import ReliableService
from tests.support.store.contract import new

ADDRESS = "http://shop.invalid/orders"
NAMESPACE = "urn:orders"
SETTINGS = OutgoingSettings(
    attempts=40, retry_first_seconds=0.002, retry_seconds_max=0.01, timeout_seconds=0.5, sequence_idle_seconds=0.02
)


class FlakyStore(MemoryStore):
    """Fails some commits about sequences: some of them have taken place all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.chance: random.Random | None = None
        self.share = 0.0
        self._is_inside = False
        self.seen: Counter[str] = Counter()

    def append(self, messages: Sequence[NewMessage], changes: SequenceChanges | None = None) -> list[int]:
        self._is_inside = True
        try:
            return super().append(messages, changes)
        finally:
            self._is_inside = False

    def change_sequences(self, changes: SequenceChanges) -> None:
        self._fail("a commit failed")
        super().change_sequences(changes)
        self._fail("a commit took place, and failed")

    def commit(self, steps: Sequence[Step], elide: Elision = False, changes: SequenceChanges | None = None) -> Any:
        self._fail("a commit failed")
        self._is_inside = True
        try:
            done = super().commit(steps, elide, changes)
        finally:
            self._is_inside = False
        self._fail("a commit took place, and failed")
        return done

    def _fail(self, what: str) -> None:
        if self.chance is not None and not self._is_inside and self.chance.random() < self.share:
            self.seen[what] += 1
            raise StoreError(what)


@dataclass
class SimpleEngine:
    """What the outbox needs of an engine."""

    store: MemoryStore

    def deliver(self, ended: Sequence[Ended], changes: SequenceChanges | None = None) -> None:
        steps = [Step(processed=one.message.seq, delivered=one.message.seq, attempt=one.attempt) for one in ended]
        self.store.commit(steps, changes=changes)


@dataclass
class LossyTransport:
    """Loses requests, loses responses, and brings requests twice."""

    service: ReliableService
    chance: random.Random
    loss: float = 0.0
    doubling: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)

    async def __call__(
        self, queue: str, address: str, data: bytes, headers: Mapping[str, str], settings: OutgoingSettings
    ) -> HttpResponse | UnreadableResponse | DeliveryFailed:
        if self._strikes("requests lost", self.loss):
            return DeliveryFailed(kind="disconnectedTransport", reason="lost")
        if self._strikes("requests doubled", self.doubling):
            self.service(data)
        status, given, body = self.service(data, {name.lower(): value for name, value in headers.items()})
        if self._strikes("responses lost", self.loss):
            return DeliveryFailed(kind="timeout", reason="lost")
        return HttpResponse(status=status, headers={name.lower(): value for name, value in given.items()}, body=body)

    def _strikes(self, what: str, share: float) -> bool:
        happens = self.chance.random() < share
        self.seen[what] += happens
        return happens


class ReliableSource:
    """A run of a node, as far as one gateway is concerned. Another one on the same store is the next run."""

    def __init__(
        self,
        store: MemoryStore,
        interface: Interface,
        version: ReliabilityVersion,
        transport: LossyTransport,
        settings: OutgoingSettings = SETTINGS,
        policy: ReliabilityPolicy | None = None,
    ) -> None:
        self.store = store
        self.settings = settings
        self.channels = OutboundChannels(store, ["out"], lambda: datetime.now(UTC))
        client = ClientPolicy(
            interface=interface,
            policy=GatewayPolicy(reliability=policy or ReliabilityPolicy(version=version)),
            answer_address=settings.answer_address,
        )
        epochs = store.epochs()
        composer = RequestComposer(client, lambda seq: identify_message(epochs, seq))
        self.sender = SoapSender("out", client, composer, transport, None, self.channels)
        self.channels.add_gateway(ReliableGateway(sender=self.sender, make_attempt=self.make_attempt))
        self._outcomes = OutcomeStore(cast(Engine, SimpleEngine(store)), self.channels.journal)

    def make_attempt(self, address: str) -> SoapAttempt:
        return SoapAttempt(address=address, settings=self.settings, headers={})

    def submit(self, *texts: str, element: str = "note") -> list[int]:
        """Put messages into the outbox."""
        bodies = [f'<{element} xmlns="{NAMESPACE}">{text}</{element}>' for text in texts]
        return self.store.append([new("out", body, undelivered=True, priority=None) for body in bodies])

    async def attempt(self, seq: int, *, is_last: bool = False) -> DeliveryResult:
        """Make one attempt, and store what became of it. The last one is final, whatever comes of it."""
        message = self.store.message(seq)
        assert message is not None
        result = await self.sender.send(message, self.make_attempt(ADDRESS))
        if is_last and not isinstance(result, Delivered):
            result = DeliveryFailed(kind="timeout", reason="given up", again=False, facts=result.facts)
        while True:
            try:
                self._note(seq, result)
                return result
            except AlreadyProcessed:
                return result
            except StoreError:
                continue

    def close(self) -> None:
        self.channels.close()

    def _note(self, seq: int, result: DeliveryResult) -> None:
        message = self.store.message(seq)
        assert message is not None
        is_over = isinstance(result, Delivered) or (isinstance(result, DeliveryFailed) and not result.again)
        if not is_over:
            now = datetime.now(UTC)
            self._outcomes.write([OutcomeNote(Postponed(message=seq, due=now), result.facts)])
            return
        assert not isinstance(result, Awaiting)
        attempt = Attempt(
            message=seq, queue="out", number=1, at=datetime.now(UTC), seconds=0.0, destination="", result="sent"
        )
        failure = (result.kind, result.reason) if isinstance(result, DeliveryFailed) else None
        reply = result.reply if isinstance(result, Delivered) else None
        ended = Ended(message=message, attempt=attempt, reply=reply, failure=failure)
        self._outcomes.write([OutcomeNote(ended, result.facts)])


def quicker(**changes: Any) -> OutgoingSettings:
    return replace(SETTINGS, **changes)
