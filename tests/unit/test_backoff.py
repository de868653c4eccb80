"""Delays between attempts grow, stay within their bounds, and can be computed however long an outage lasts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from demaq.backoff import Backoff

seconds = st.floats(min_value=0.001, max_value=100_000)
chances = st.floats(min_value=0, max_value=1, exclude_max=True)


@given(seconds, seconds, st.integers(min_value=1, max_value=100_000))
def test_a_delay_doubles_until_it_reaches_its_bound(first: float, longest: float, failures: int):
    backoff = Backoff(first, longest)
    delay, next_delay = backoff.delay_seconds(failures), backoff.delay_seconds(failures + 1)

    assert min(first, longest) <= delay <= longest
    assert next_delay in (2 * delay, longest)


@given(seconds, seconds, st.floats(min_value=0, max_value=1), st.integers(min_value=1, max_value=100_000), chances)
def test_jitter_shortens_a_delay_by_its_share_at_most(
    first: float, longest: float, jitter: float, failures: int, chance: float
):
    full = Backoff(first, longest).delay_seconds(failures)
    delay = Backoff(first, longest, jitter).delay_seconds(failures, lambda: chance)

    assert full * (1 - jitter) <= delay <= full


def test_delays_with_jitter_differ():
    backoff = Backoff(1.0, 60.0, jitter=0.5)

    assert len({backoff.delay_seconds(3) for _ in range(100)}) > 1


def test_an_outage_of_days_still_has_a_delay():
    assert Backoff(0.1, 2.0).delay_seconds(10**9) == 2.0


@given(st.integers(max_value=0))
def test_there_is_no_delay_without_a_failure(failures: int):
    assert Backoff(0.1, 2.0, jitter=0.5).delay_seconds(failures) == 0.0
