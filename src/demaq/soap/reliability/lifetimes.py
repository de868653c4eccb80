"""How long a sequence lives: durations of XML Schema (`PT10M`) as seconds."""

from __future__ import annotations

import re

_DURATION = re.compile(
    r"P(?=.)(?:(\d{1,9})Y)?(?:(\d{1,9})M)?(?:(\d{1,9})D)?"
    r"(?:T(?=.)(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?",
    re.ASCII,
)
_SECONDS = (365 * 86400.0, 30 * 86400.0, 86400.0, 3600.0, 60.0, 1.0)
"""Of a year, month, day, hour, minute, second; no sequence lives so long that leap years matter."""

SECONDS_MAX = 100 * _SECONDS[0]
"""What is said to live longer lives so long: its end is a time that can be written."""


def read_lifetime(text: str) -> float | None:
    """Return the seconds of an `Expires` element; None for `PT0S`, which means that it does not expire (3.4).

    Raises ValueError, for a negative duration as well.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError("it is no duration such as PT10M")
    seconds = sum([float(part) * unit for part, unit in zip(match.groups(), _SECONDS, strict=True) if part])
    return min(seconds, SECONDS_MAX) or None


def write_lifetime(seconds: float | None) -> str:
    """Return the duration for a number of seconds, to the millisecond."""
    if seconds is None:
        return "PT0S"
    return f"PT{max(seconds, 0.001):.3f}".rstrip("0").rstrip(".") + "S"
