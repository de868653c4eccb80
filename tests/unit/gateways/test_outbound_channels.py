"""Messages of a gateway with WS-ReliableMessaging: each is delivered once, whatever is lost, doubled, forgotten or ends."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from demaq.errors import StoreError
from demaq.gateways.outbox.delivery_results import Awaiting, Delivered, DeliveryFailed
from demaq.soap.policy import ReliabilityPolicy
from demaq.soap.reliability.number_ranges import NumberRanges
from demaq.soap.reliability.outbound_sequence import OutboundState
from demaq.soap.reliability.reliability_versions import RELIABILITY_1_0, RELIABILITY_1_1, ReliabilityVersion
from demaq.store.memory_store import MemoryStore
from tests.support.drawing import draw_until
from tests.support.gateways.reliable_service import ReliableService
from tests.support.gateways.reliable_source import ADDRESS, FlakyStore, LossyTransport, ReliableSource, quicker
from tests.support.soap.wsdls import document_wsdl, interface_of
from tests.support.store.contract import FOREVER

ORDER = "<item>cup</item><pieces>1</pieces>"
CONFIRMATION = '<confirmation xmlns="urn:orders"><number>7</number></confirmation>'
BOTH = pytest.mark.parametrize("version", [RELIABILITY_1_0, RELIABILITY_1_1], ids=["1.0", "1.1"])
ROUNDS = 40


class World:
    """A source, a service, and what is between them."""

    def __init__(
        self, folder: Path, version: ReliabilityVersion, soap: str = "1.1", chance: random.Random | None = None
    ) -> None:
        self.version = version
        self.interface = interface_of(folder, document_wsdl(soap))
        self.service = ReliableService(reply=lambda body: CONFIRMATION if "order" in body[:6] else None)
        self.transport = LossyTransport(self.service, chance or random.Random(0))
        self.store = FlakyStore()
        self.source = self.start()

    def start(self, **changes: Any) -> ReliableSource:
        """Begin another run on the same store."""
        self.source = ReliableSource(self.store, self.interface, self.version, self.transport, quicker(**changes))
        return self.source

    def run(self, act: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(act)

    @property
    def bodies(self) -> list[str]:
        return [_text(body) for body in self.service.received]


@BOTH
@pytest.mark.parametrize("soap", ["1.1", "1.2"])
def test_messages_are_delivered_in_order_in_one_sequence(tmp_path: Path, version: ReliabilityVersion, soap: str):
    world = World(tmp_path, version, soap)
    numbers = world.source.submit("a", "b", "c")

    async def act() -> list[Any]:
        return [await world.source.attempt(number) for number in numbers]

    results = world.run(act())

    assert [type(result) for result in results] == [Delivered] * 3
    assert world.bodies == ["a", "b", "c"]
    assert len(world.service.created) == 1
    assert sorted([number for _, number in world.service.wire]) == [1, 2, 3]
    assert {request.version for request in world.service.requests} == {version.addressing}
    assert world.store.to_send("out", FOREVER, 0, 9) == []


def test_messages_that_are_sent_together_wait_for_one_creation(tmp_path: Path):
    world = World(tmp_path, RELIABILITY_1_1)
    numbers = world.source.submit(*[f"m{number}" for number in range(20)])

    async def act() -> list[Any]:
        return await asyncio.gather(*[world.source.attempt(number) for number in numbers])

    results = world.run(act())

    assert all([isinstance(result, Delivered) for result in results])
    assert len(world.service.created) == 1
    assert world.bodies == [f"m{number}" for number in range(20)]


def test_a_reply_comes_with_the_delivery(tmp_path: Path):
    world = World(tmp_path, RELIABILITY_1_1)
    [number] = world.source.submit(ORDER, element="order")

    result = world.run(world.source.attempt(number))

    assert isinstance(result, Delivered)
    assert result.reply is not None
    assert "<number>7</number>" in result.reply


def test_a_lost_reply_is_repeated_by_the_destination(tmp_path: Path):
    world = World(tmp_path, RELIABILITY_1_1)
    [number] = world.source.submit(ORDER, element="order")
    lost = [False, False, False, True]  # the request to create, its response, the message, its response

    world.transport.chance = _Scripted(lost)
    world.transport.loss = 0.5

    async def act() -> tuple[Any, Any]:
        return await world.source.attempt(number), await world.source.attempt(number)

    first, second = world.run(act())

    assert isinstance(first, DeliveryFailed)
    assert first.again
    assert isinstance(second, Delivered)
    assert second.reply is not None
    assert len(world.service.received) == 1
    assert world.service.seen["asked for acknowledgements"] == 1


def test_what_another_message_s_response_acknowledges_is_not_sent_again(tmp_path: Path):
    world = World(tmp_path, RELIABILITY_1_1)
    first, second = world.source.submit("a", "b")
    world.service.acknowledges = False

    async def act() -> tuple[Any, Any, Any]:
        unanswered = await world.source.attempt(first)
        world.service.acknowledges = True
        other = await world.source.attempt(second)
        sent = len(world.service.requests)
        again = await world.source.attempt(first)
        assert len(world.service.requests) == sent, "it was not sent"
        return unanswered, other, again

    unanswered, other, again = world.run(act())

    assert isinstance(unanswered, Awaiting)
    assert unanswered.until_acknowledged
    assert isinstance(other, Delivered)
    assert isinstance(again, Delivered)
    assert world.source.channels.journal.locate(first) is None


@BOTH
def test_after_a_restart_messages_keep_their_numbers_and_their_sequence(tmp_path: Path, version: ReliabilityVersion):
    world = World(tmp_path, version)
    numbers = world.source.submit("a", "b")
    world.service.acknowledges = False

    async def first_run() -> None:
        for number in numbers:
            await world.source.attempt(number)

    world.run(first_run())
    world.source.close()
    world.start()
    world.service.acknowledges = True

    async def second_run() -> list[Any]:
        results = [await world.source.attempt(number) for number in reversed(numbers)]
        return [*results, *[await world.source.attempt(number) for number in world.source.submit("c")]]

    results = world.run(second_run())

    assert all([isinstance(result, Delivered) for result in results])
    assert len(world.service.created) == 1
    assert [len(bodies) for bodies in world.service.wire.values()] == [1, 1, 1]
    assert world.bodies == ["a", "b", "c"]


def test_a_lost_sequence_begins_again_with_what_is_not_acknowledged(tmp_path: Path):
    world = World(tmp_path, RELIABILITY_1_1)
    numbers = world.source.submit("a", "b", "c", "d")

    async def act() -> list[Any]:
        await world.source.attempt(numbers[0])
        world.service.acknowledges = False
        for number in numbers[1:3]:
            await world.source.attempt(number)
        world.service.forget()
        world.service.acknowledges = True
        lost = await world.source.attempt(numbers[3])
        return [lost, *[await world.source.attempt(number) for number in numbers[1:]]]

    lost, *results = world.run(act())

    assert isinstance(lost, DeliveryFailed)
    assert lost.again
    assert "UnknownSequence" in lost.reason
    assert all([isinstance(result, Delivered) for result in results])
    assert len(set(world.service.created)) == 2
    [value] = world.service.values
    assert [(number, bodies) for (name, number), bodies in world.service.wire.items() if name == value.identifier] == [
        (1, {_note("b")}),
        (2, {_note("c")}),
        (3, {_note("d")}),
    ]


@BOTH
def test_after_a_gap_the_others_go_on_in_a_new_sequence(tmp_path: Path, version: ReliabilityVersion):
    world = World(tmp_path, version)
    numbers = world.source.submit("a", "b", "c")

    async def act() -> list[Any]:
        ending = asyncio.create_task(world.source.channels.run())
        await world.source.attempt(numbers[0])
        world.transport.loss = 1.0
        await world.source.attempt(numbers[1])
        world.transport.loss = 0.0
        world.service.acknowledges = False
        await world.source.attempt(numbers[2])
        world.service.acknowledges = True
        world.transport.loss = 1.0
        failed = await world.source.attempt(numbers[1], is_last=True)
        world.transport.loss = 0.0
        after = world.source.submit("d")
        results = [failed, *[await world.source.attempt(number) for number in [numbers[2], *after]]]
        await world.source.channels.finish(5.0)
        await ending
        return results

    failed, *results = world.run(act())

    assert isinstance(failed, DeliveryFailed)
    assert all([isinstance(result, Delivered) for result in results]), results
    assert world.bodies == ["a", "c", "d"], "c was received before the gap was given up, and is not sent again"
    assert len(set(world.service.created)) == 2
    assert world.service.seen["terminated"] == 2
    assert world.source.channels.journal.entries() == []


@BOTH
def test_a_sequence_that_is_not_used_is_terminated(tmp_path: Path, version: ReliabilityVersion):
    world = World(tmp_path, version)

    async def act() -> None:
        ending = asyncio.create_task(world.source.channels.run())
        await world.source.attempt(world.source.submit("a")[0])
        for _ in range(500):
            await asyncio.sleep(0.01)
            if world.service.seen["terminated"] and not world.source.channels.journal.entries():
                break
        await world.source.attempt(world.source.submit("b")[0])
        await world.source.channels.finish(5.0)
        await ending

    world.run(act())

    assert world.service.seen["terminated"] == 2
    assert world.service.seen["closed" if version.has_close else "markers"] == 2
    assert len(set(world.service.created)) == 2
    assert world.bodies == ["a", "b"]
    assert all([stored.has_ended for stored in world.store.sequences("out")])


def test_a_sequence_with_unacknowledged_messages_survives_the_end_of_a_run(tmp_path: Path):
    world = World(tmp_path, RELIABILITY_1_1)
    [number] = world.source.submit("a")
    world.service.acknowledges = False

    async def act() -> None:
        await world.source.attempt(number)
        await world.source.channels.finish(5.0)

    world.run(act())

    [stored] = world.store.sequences("out")
    assert not stored.has_ended
    assert world.service.seen["closed"] == 0


def test_a_refused_sequence_fails_its_messages_with_the_name_of_the_fault(tmp_path: Path):
    world = World(tmp_path, RELIABILITY_1_1)
    numbers = world.source.submit("a", "b")
    world.service.refuses_sequences = True

    async def act() -> list[Any]:
        return await asyncio.gather(*[world.source.attempt(number) for number in numbers])

    results = world.run(act())

    for result in results:
        assert isinstance(result, DeliveryFailed)
        assert not result.again
        assert result.kind == "refused"
        assert "CreateSequenceRefused" in result.reason
        assert "full up" in result.reason
    assert world.source.channels.journal.entries() == []


def test_an_expired_sequence_begins_again(tmp_path: Path):
    world = World(tmp_path, RELIABILITY_1_1)
    world.service.lifetime_seconds = 0.05

    async def act() -> list[Any]:
        results = [await world.source.attempt(world.source.submit("a")[0])]
        await asyncio.sleep(0.1)
        world.service.lifetime_seconds = 60.0
        return [*results, await world.source.attempt(world.source.submit("b")[0])]

    results = world.run(act())

    assert all([isinstance(result, Delivered) for result in results])
    assert len(set(world.service.created)) == 2


def test_an_acknowledgement_of_what_was_never_sent_counts_for_nothing(tmp_path: Path):
    world = World(tmp_path, RELIABILITY_1_1)
    [number] = world.source.submit("a")
    real = world.service._answer

    def lie(body: bytes, headers: Any) -> Any:
        answer = real(body, headers)
        for name, value in world.service._values.items():
            world.service._values[name] = _with_received(value, NumberRanges.up_to(9))
        return answer

    world.service._answer = lie  # type: ignore[method-assign]

    async def act() -> Any:
        await world.source.attempt(number)
        world.service._answer = real  # type: ignore[method-assign]
        return await world.source.attempt(world.source.submit("b")[0])

    result = world.run(act())

    assert isinstance(result, Awaiting), "numbers up to 9 are acknowledged, and there are two"


def test_a_doubtful_commit_never_leads_to_a_number_of_two_messages(tmp_path: Path):
    world = World(tmp_path, RELIABILITY_1_1)
    first, second = world.source.submit("a", "b")
    real = MemoryStore.change_sequences
    faults = iter(["after", "before"])

    def doubtful(changes: Any) -> None:
        fault = next(faults, None)
        if fault == "after":
            real(world.store, changes)
        if fault is not None:
            raise StoreError("the disk is full")
        real(world.store, changes)

    world.store.change_sequences = doubtful  # type: ignore[method-assign]

    async def act() -> list[Any]:
        return [await world.source.attempt(number) for number in (first, second, first)]

    waits, *results = world.run(act())

    assert isinstance(waits, Awaiting), "that the sequence is created is not stored"
    assert not waits.is_attempt
    assert [type(result) for result in results] == [Delivered, Delivered]
    assert next(faults, None) is None, "both commits have failed"
    assert world.service.wire == {
        (world.service.values[0].identifier, 1): {_note("a")},
        (world.service.values[0].identifier, 2): {_note("b")},
    }


def test_the_first_pause_is_that_of_the_policy(tmp_path: Path):
    world = World(tmp_path, RELIABILITY_1_1)
    policy = ReliabilityPolicy(version=RELIABILITY_1_1, retransmission_interval=timedelta(seconds=7))
    world.service.acknowledges = False
    source = ReliableSource(world.store, world.interface, RELIABILITY_1_1, world.transport, policy=policy)

    result = world.run(source.attempt(source.submit("a")[0]))

    assert isinstance(result, Awaiting)
    assert result.seconds == 7.0
    assert result.grows


@pytest.mark.parametrize("version", [RELIABILITY_1_0, RELIABILITY_1_1], ids=["1.0", "1.1"])
def test_every_message_is_delivered_once_under_any_schedule(
    tmp_path: Path, chance: random.Random, version: ReliabilityVersion
):
    seen: Counter[str] = Counter()
    wanted = ["requests lost", "responses lost", "requests doubled", "restarts", "gaps", "held back", "terminated"]
    wanted += ["forgotten", "a commit failed", "a commit took place, and failed"]
    rounds = draw_until(lambda: all([seen[what] for what in wanted]), ROUNDS, "DEMAQ_CHANNEL_ROUNDS")
    for number, _ in enumerate(rounds):
        (tmp_path / str(number)).mkdir()
        world = World(tmp_path / str(number), version, chance.choice(["1.1", "1.2"]), chance)
        schedule = _Schedule(world, chance)
        schedule.run()
        schedule.check()
        for counted in (schedule.seen, world.transport.seen, world.service.seen, world.store.seen):
            seen.update(counted)

    assert [what for what in wanted if not seen[what]] == []


class _Schedule:
    """One run of everything that can happen."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.seen: Counter[str] = Counter()
        self.delivered: set[str] = set()
        self.given_up: set[str] = set()
        self.is_calm = chance.random() < 0.3
        """Whether nothing is forgotten or given up."""
        world.transport.loss = chance.choice([0.0, 0.1, 0.3])
        world.transport.doubling = chance.choice([0.0, 0.2])
        world.store.chance = chance
        world.store.share = chance.choice([0.0, 0.05])

    def run(self) -> None:
        texts = [f"m{number}" for number in range(self.chance.randrange(5, 25))]
        waiting = dict(zip(self.world.source.submit(*texts), texts, strict=True))
        while waiting:
            self._run_node(waiting)
            self.world.source.close()
            self.world.start()
            self.seen["restarts"] += 1
        self.world.transport.loss = self.world.store.share = 0.0
        asyncio.run(self._finish())

    async def _finish(self) -> None:
        await self.world.source.channels.finish(5.0)

    def _run_node(self, waiting: dict[int, str]) -> None:
        async def act() -> None:
            ending = asyncio.create_task(self.world.source.channels.run())
            try:
                for _ in range(self.chance.randrange(1, 30)):
                    await self._step(waiting)
            finally:
                ending.cancel()
                await asyncio.gather(ending, return_exceptions=True)

        asyncio.run(act())

    async def _step(self, waiting: dict[int, str]) -> None:
        due = list(waiting)[: self.chance.randrange(1, 6)]
        if not self.is_calm and self.chance.random() < 0.04:
            self.world.service.forget()
            self.seen["forgotten"] += 1
        last = [number for number in due if not self.is_calm and self.chance.random() < 0.2]
        channels = self.world.source.channels
        for number in due:
            channels.expect("out", number, ADDRESS)
        results = await asyncio.gather(*[self.world.source.attempt(number, is_last=number in last) for number in due])
        for number, result in zip(due, results, strict=True):
            channels.forget("out", number, ADDRESS)
            if isinstance(result, Delivered):
                self.delivered.add(waiting.pop(number))
            elif isinstance(result, DeliveryFailed) and not result.again:
                assert number in last, result
                self.given_up.add(waiting.pop(number))
                self.seen["gaps"] += 1

    def check(self) -> None:
        world, bodies = self.world, Counter(self.world.bodies)
        lost = set(map(_text, world.service.lost)) if self.seen["forgotten"] else set()
        assert self.delivered <= bodies.keys() | lost, "what is delivered was received"
        assert all([len(sent) == 1 for sent in world.service.wire.values()]), "a number is that of one message"
        if not self.seen["forgotten"]:
            assert not [text for text, times in bodies.items() if times > 1], "and it was received once"
        if self.is_calm:
            assert len(set(world.service.created)) == 1 or world.service.seen["terminated"], "of one sequence"
            assert world.bodies == sorted(world.bodies, key=lambda text: int(text[1:])), "in order"
        states = [entry.value.state for entry in world.source.channels.journal.entries()]
        assert all([state in (OutboundState.CLOSING, OutboundState.TERMINATING) for state in states]), states
        world.source.close()


class _Scripted(random.Random):
    """Decides what is lost: each value once, then nothing."""

    def __init__(self, losses: list[bool]) -> None:
        super().__init__()
        self._losses = [value for loss in losses for value in ([0.0] if loss else [0.9])]

    def random(self) -> float:
        return self._losses.pop(0) if self._losses else 0.9


def _text(body: str) -> str:
    return body.partition(">")[2].partition("<")[0]


def _note(text: str) -> str:
    return f'<note xmlns="urn:orders">{text}</note>'


def _with_received(value: Any, ranges: NumberRanges) -> Any:
    from dataclasses import replace

    return replace(value, received=ranges)


def test_a_message_that_waits_is_not_overtaken_by_later_ones(tmp_path: Path):
    world = World(tmp_path, RELIABILITY_1_1)
    first, second, third = world.source.submit("a", "b", "c")
    channels = world.source.channels

    async def act() -> None:
        for number in (first, second, third):
            channels.expect("out", number, ADDRESS)
        await channels.number("out", first, ADDRESS)  # it is put off, because the other side is not there
        channels.forget("out", first, ADDRESS)
        await world.source.attempt(third)
        channels.forget("out", third, ADDRESS)
        await world.source.attempt(first)
        await world.source.attempt(second)

    world.run(act())

    assert world.bodies == ["a", "b", "c"]
    assert [number for _, number in world.service.wire] == [3, 1, 2]
