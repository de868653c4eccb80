"""Compute when a timer is due."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from demaq.messages import PropertyValue

_DURATION = re.compile(
    r"(?P<sign>-)?P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
EARLIEST, LATEST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
"""An earlier time is due at once, a later one never. In between every time is one in every zone: what is stored can be
read."""


def due_at(timeout: PropertyValue, now: datetime) -> datetime:
    """Return when a timer is due: at the given time, or after a duration. A time in the past is due at once."""
    if timeout.type == "dateTime":
        due = _time(timeout.text)
        return min(max(due if due.tzinfo is not None else due.replace(tzinfo=UTC), EARLIEST), LATEST)
    match = _DURATION.fullmatch(timeout.text)
    assert match is not None, "the evaluator has cast it to a duration"
    parts = {name: float(match[name] or 0) for name in ("days", "hours", "minutes", "seconds")}
    try:
        length = timedelta(**parts)
        due = now - length if match["sign"] else now + length
    except OverflowError:
        return EARLIEST if match["sign"] else LATEST
    return min(max(due, EARLIEST), LATEST)


def _time(text: str) -> datetime:
    """Return an xs:dateTime; a year that Python does not have becomes the earliest or latest time."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return EARLIEST if text.startswith("-") else LATEST
