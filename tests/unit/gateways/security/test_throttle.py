"""Repeated failures delay the next attempt, up to a bound."""

from __future__ import annotations

from demaq.gateways.security.throttle import (
    BACKOFF,
    FORGET_SECONDS,
    FREE_FAILURES,
    REMEMBERED_MAX,
    Throttle,
    network_of,
)
from tests.support.gateways.security.clock import HandClock


def test_the_first_failures_are_free_and_then_the_time_doubles_up_to_a_bound():
    throttle = Throttle(HandClock())
    pauses = [throttle.note_failure("a") for _ in range(2000)]

    assert pauses[:FREE_FAILURES] == [0.0] * FREE_FAILURES
    assert pauses[FREE_FAILURES : FREE_FAILURES + 3] == [
        BACKOFF.seconds_first,
        2 * BACKOFF.seconds_first,
        4 * BACKOFF.seconds_first,
    ]
    assert pauses[-1] == BACKOFF.seconds_max


def test_the_time_runs_down_and_failures_are_forgotten():
    clock = HandClock()
    throttle = Throttle(clock)
    for _ in range(FREE_FAILURES + 2):
        throttle.note_failure("a")

    assert throttle.remaining_seconds("a") == 2 * BACKOFF.seconds_first
    assert throttle.remaining_seconds("b") == 0
    clock.go_on(BACKOFF.seconds_first)
    assert throttle.remaining_seconds("a") == BACKOFF.seconds_first
    clock.go_on(FORGET_SECONDS)
    assert throttle.remaining_seconds("a") == 0
    assert throttle.note_failure("a") == 0


def test_what_is_remembered_is_bounded():
    throttle = Throttle(HandClock())
    for number in range(REMEMBERED_MAX + 500):
        throttle.note_failure(str(number))

    assert len(throttle) == REMEMBERED_MAX


def test_a_customer_with_a_network_of_their_own_is_one_address():
    assert network_of("2001:db8:1:2:3:4:5:6") == network_of("2001:db8:1:2:ffff::1") == "2001:db8:1:2::/64"
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("") == ""
    assert network_of("unix:") == "unix:"
