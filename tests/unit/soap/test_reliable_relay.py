"""A pure source against a pure destination, over a relay on which everything goes wrong that can."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from demaq.soap.reliability.delivery_assurance import Assurance, DeliveryAssurance
from demaq.soap.reliability.inbound_sequence import InboundState
from demaq.soap.reliability.outbound_sequence import OutboundState
from demaq.soap.reliability.reliability_versions import RELIABILITY_1_0, RELIABILITY_1_1
from tests.support.drawing import draw_until
from tests.support.soap.reliable_relay import Exchange, Weather

EXAMPLES = (4, "DEMAQ_RELAY_EXAMPLES")
VERSIONS = pytest.mark.parametrize("version", [RELIABILITY_1_0, RELIABILITY_1_1], ids=["1.0", "1.1"])
WHAT_MUST_HAPPEN = [
    "lost on the way to the source",
    "lost on the way to the destination",
    "doubled on the way to the source",
    "doubled on the way to the destination",
    "reordered on the way to the source",
    "reordered on the way to the destination",
    "source ended before it has stored anything",
    "source ended before it has sent anything",
    "destination ended before it has stored anything",
    "destination ended before it has sent anything",
    "duplicates ignored",
]


@VERSIONS
@pytest.mark.parametrize("in_order", [False, True], ids=["any order", "in order"])
@pytest.mark.parametrize("times", list(Assurance))
def test_every_message_is_delivered_as_the_assurance_says(chance: random.Random, version, times, in_order):
    weather = Weather(chance)
    must_happen = WHAT_MUST_HAPPEN + ["messages held back"] * (in_order and times != Assurance.AT_MOST_ONCE)
    for _ in draw_until(lambda: all(weather.seen[what] for what in must_happen), *EXAMPLES):
        soap = chance.choice(["1.1", "1.2"])
        exchange = Exchange(weather, version, DeliveryAssurance(times, in_order), soap, chance.randint(1, 40))
        exchange.run()
        delivered, payloads = exchange.destination.delivered, exchange.payloads

        assert len(set(delivered)) == len(delivered), "no message twice, whatever the assurance"
        if times != Assurance.AT_MOST_ONCE or not in_order:
            assert set(delivered) == set(payloads)
        if in_order:
            assert delivered == [one for one in payloads if one in delivered]
        assert sorted(exchange.source.delivered) == sorted(payloads)
        assert exchange.source.failed == []
        assert exchange.source.value.state == OutboundState.TERMINATED
        states = [value.state for value in exchange.destination.values]
        assert states == [InboundState.TERMINATED], "a repeated CreateSequence makes no second sequence"
    assert [what for what in must_happen if not weather.seen[what]] == []


@VERSIONS
def test_what_was_acknowledged_is_not_sent_again_after_the_destination_has_lost_its_sequences(
    chance: random.Random, version
):
    weather = Weather(chance, loss=0.1)
    for _ in draw_until(lambda: weather.seen["sequences that begin again"] > 0, *EXAMPLES):
        exchange = Exchange(
            weather,
            version,
            DeliveryAssurance(in_order=False),
            chance.choice(["1.1", "1.2"]),
            30,
            forgets_at=chance.uniform(20.0, 60.0),
        )
        exchange.run()
        times = Counter(exchange.destination.delivered)
        assert set(times) == set(exchange.payloads)
        assert {one for one, count in times.items() if count > 1} <= set(exchange.source.resent)
        assert sorted(exchange.source.delivered) == sorted(exchange.payloads)
    assert weather.seen["sequences that begin again"]


@VERSIONS
def test_without_a_way_to_the_destination_all_fails_and_the_exchange_ends(chance: random.Random, version):
    exchange = Exchange(Weather(chance, loss=1.0), version, DeliveryAssurance(), "1.1", 5)
    exchange.run()
    assert exchange.source.value.state == OutboundState.FAILED
    assert exchange.destination.delivered == exchange.source.delivered == []
    assert set(exchange.source.failed) <= set(exchange.payloads)
    assert exchange.source.failed
