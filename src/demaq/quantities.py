"""Durations, sizes and shares as operators write them: `90s`, `12h`, `7d`; `500KB`, `16MB`, `2GiB`; `1/100`."""

from __future__ import annotations

import re
from dataclasses import dataclass
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


def share_of(text: str) -> float:
    """Return a share from 0 to 1, written as `0.01` or `1/100`. Raises ValueError."""
    match = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    if match is not None and int(match[2]) > 0:
        share = int(match[1]) / int(match[2])
    else:
        share = float(text) if re.fullmatch(r"[0-9]*\.?[0-9]+", text) else -1.0
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"{text} is no share: it is a number from 0 to 1, such as 0.01 or 1/100")
    return share


_SHARE = re.compile(r"(\d{1,9})/(\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class SampleRate:
    """So many of so many, from 1 of 1 on."""

    chosen: int
    of: int


def sample_rate_of(text: str) -> SampleRate:
    """Return a share such as `1/100`. Raises a ValueError."""
    match = _SHARE.fullmatch(text)
    if match is None or not 0 < int(match[1]) <= int(match[2]):
        raise ValueError(f"{text} is no share such as 1/100")
    return SampleRate(int(match[1]), int(match[2]))
