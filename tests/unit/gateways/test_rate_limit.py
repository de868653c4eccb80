"""A limit of messages in a time: so many at once, then at the rate."""

from __future__ import annotations

from random import Random

import pytest

from demaq.gateways.rate_limit import RateLimit


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_goes_at_once_and_the_next_waits():
    time = Time()
    limit = RateLimit(2.0, 3, time)
    assert [limit.take() for _ in range(3)] == [0.0, 0.0, 0.0]
    assert limit.take() == pytest.approx(0.5)
    assert limit.wait_seconds() == pytest.approx(0.5), "a message that waits takes nothing"
    time.now += 0.5
    assert limit.take() == 0.0
    assert limit.take() > 0


def test_without_a_burst_those_of_a_second_go_at_once_and_one_in_any_case():
    time = Time()
    for rate, expected in ((5.0, 5), (0.01, 1)):
        limit = RateLimit(rate, None, time)
        assert [limit.take() == 0.0 for _ in range(expected + 1)] == [True] * expected + [False]


def test_no_more_go_than_the_rate_and_the_burst_allow(chance: Random):
    for _ in range(50):
        time = Time()
        rate, burst = chance.choice([0.5, 3.0, 40.0]), chance.randrange(1, 9)
        limit = RateLimit(rate, burst, time)
        gone, start = 0, time.now
        for _ in range(200):
            gone += limit.take() == 0.0
            assert gone <= burst + rate * (time.now - start) + 1e-6
            time.now += chance.random() * 2 / rate
        assert gone >= min(200, rate * (time.now - start) / 2) * 0.5, "and not many fewer"


def test_who_waits_as_long_as_is_said_may_go(chance: Random):
    time = Time()
    limit = RateLimit(7.0, 1, time)
    for _ in range(100):
        wait = limit.take()
        time.now += wait
        assert wait == 0.0 or limit.take() == 0.0
        time.now += chance.random() / 20
