"""When timers are due, at the limits of what times there are."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from demaq.engine.timers import due_at
from demaq.messages import PropertyValue
from demaq.store.encoding import microseconds, time_at

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("dateTime", "0001-01-01T00:00:00+14:00"),
        ("dateTime", "-0044-03-15T00:00:00Z"),
        ("dateTime", "-12345-03-15T00:00:00"),
        ("dayTimeDuration", "-P739000D"),
        ("dayTimeDuration", "-P9999999D"),
        ("dayTimeDuration", "-P99999999999999999999D"),
    ],
)
def test_a_time_before_all_others_is_due_at_once_and_can_be_stored(type_: str, text: str) -> None:
    due = due_at(PropertyValue(type_, text, text), NOW)
    assert due < NOW
    assert time_at(microseconds(due)) == due


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("dateTime", "9999-12-31T23:59:59-14:00"),
        ("dateTime", "9999-12-31T23:59:59.999999Z"),
        ("dateTime", "12345-01-01T00:00:00+14:00"),
        ("dayTimeDuration", "P2912000D"),
        ("dayTimeDuration", "P9999999D"),
        ("dayTimeDuration", "P99999999999999999999D"),
    ],
)
def test_a_time_after_all_others_is_never_due_and_can_be_stored(type_: str, text: str) -> None:
    due = due_at(PropertyValue(type_, text, text), NOW)
    assert due.year == 9999
    assert time_at(microseconds(due)) == due


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("2026-05-01T14:00:00+02:00", NOW),
        ("2026-05-01T12:00:00", NOW),
        ("2026-05-01T12:00:00.25Z", NOW.replace(microsecond=250_000)),
    ],
)
def test_a_time_is_due_when_it_says(text: str, due: datetime) -> None:
    assert due_at(PropertyValue("dateTime", text, text), NOW) == due
