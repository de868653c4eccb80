"""Durations and sizes as operators write them: `90s`, `12h`, `7d`; `500KB`, `16MB`, `2GiB`."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def duration_of(text: str) -> timedelta:
    """Return the length of time that a text means. Raises ValueError, which says what is wrong."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text, re.ASCII)
    if match is None:
        raise ValueError(f"{text} is not a duration such as 90s, 10m, 12h, 7d")
    try:
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise ValueError(f"{text} is too long") from None


_SIZE_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(rf"(\d{{1,15}}(?:\.\d{{1,3}})?) ?({'|'.join(_SIZE_UNITS)})", re.ASCII)


def size_of(text: str) -> int:
    """Return how many bytes a size has. Raises ValueError if it is none."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size such as 500KB, 16MB, 2GB")
    return int(float(match[1]) * _SIZE_UNITS[match[2]])
