"""Whoever fails again and again waits longer and longer, and no longer than that."""

from __future__ import annotations

from demaq.gateways.security.throttle import (
    FIRST_SECONDS,
    FORGET_SECONDS,
    FREE_FAILURES,
    REMEMBERED_MAX,
    SECONDS_MAX,
    Slowing,
    network_of,
)
from tests.gateways.security.clock import HandClock


def test_the_first_failures_are_free_and_then_the_time_doubles_up_to_a_bound():
    slowing = Slowing(HandClock())
    pauses = [slowing.failed("a") for _ in range(2000)]

    assert pauses[:FREE_FAILURES] == [0.0] * FREE_FAILURES
    assert pauses[FREE_FAILURES : FREE_FAILURES + 3] == [FIRST_SECONDS, 2 * FIRST_SECONDS, 4 * FIRST_SECONDS]
    assert pauses[-1] == SECONDS_MAX


def test_the_time_runs_down_and_failures_are_forgotten():
    clock = HandClock()
    slowing = Slowing(clock)
    for _ in range(FREE_FAILURES + 2):
        slowing.failed("a")

    assert slowing.remaining("a") == 2 * FIRST_SECONDS
    assert slowing.remaining("b") == 0
    clock.go_on(FIRST_SECONDS)
    assert slowing.remaining("a") == FIRST_SECONDS
    clock.go_on(FORGET_SECONDS)
    assert slowing.remaining("a") == 0
    assert slowing.failed("a") == 0


def test_what_is_remembered_is_bounded():
    slowing = Slowing(HandClock())
    for number in range(REMEMBERED_MAX + 500):
        slowing.failed(str(number))

    assert len(slowing) == REMEMBERED_MAX


def test_a_customer_with_a_network_of_their_own_is_one_address():
    assert network_of("2001:db8:1:2:3:4:5:6") == network_of("2001:db8:1:2:ffff::1") == "2001:db8:1:2::/64"
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("") == ""
    assert network_of("unix:") == "unix:"
