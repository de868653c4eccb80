"""How long, as operators write it: `90s`, `10m`, `12h`, `7d`, `2w`."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration_of(text: str) -> timedelta:
    """The length of time that a text means. Raises ValueError, which says what is wrong."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text, re.ASCII)
    if match is None:
        raise ValueError(f"{text} is not a duration such as 90s, 10m, 12h, 7d")
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise ValueError(f"{text} is longer than anybody can wait") from None
