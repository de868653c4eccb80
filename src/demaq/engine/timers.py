"""Compute when a timer is due."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from demaq.messages import PropertyValue

_DURATION = re.compile(
    r"(?P<sign>-)?P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
LATEST = datetime(9999, 1, 1, tzinfo=UTC)
"""A timer with a later time is never due."""


def due_at(timeout: PropertyValue, now: datetime) -> datetime:
    """Return when a timer is due: at the given time, or after a duration. A time in the past is due at once."""
    if timeout.type == "dateTime":
        due = _time(timeout.text)
        return due if due.tzinfo is not None else due.replace(tzinfo=UTC)
    match = _DURATION.fullmatch(timeout.text)
    assert match is not None, "the evaluator has cast it to a duration"
    parts = {name: float(match[name] or 0) for name in ("days", "hours", "minutes", "seconds")}
    try:
        length = timedelta(**parts)
        return now - length if match["sign"] else now + length
    except OverflowError:
        return LATEST


def _time(text: str) -> datetime:
    """Return an xs:dateTime; a year that Python does not have becomes the earliest or latest time."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime(1, 1, 2, tzinfo=UTC) if text.startswith("-") else LATEST
