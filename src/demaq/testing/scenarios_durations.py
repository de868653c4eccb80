"""How long: `1h 30m`, `90 minutes`, `3 days`, `PT90M`."""

from __future__ import annotations

import re

SECONDS_MAX = 100 * 366 * 86_400.0
"""A scenario spans a century at most."""

_UNITS = {
    "seconds": ("s", "sec", "second", "seconds"),
    "minutes": ("m", "min", "minute", "minutes"),
    "hours": ("h", "hour", "hours"),
    "days": ("d", "day", "days"),
    "weeks": ("w", "week", "weeks"),
}
_LENGTHS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400, "weeks": 604_800}
_SECONDS = {word: _LENGTHS[unit] for unit, words in _UNITS.items() for word in words}
_PART = r"(\d+(?:\.\d+)?)\s*([a-z]+)"
_ISO = re.compile(
    r"P(?=.)(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)


def seconds_of(text: str) -> float | None:
    """The length in seconds; None where it is no duration, or one of more than a century."""
    iso = _ISO.fullmatch(text.strip())
    if iso is not None:
        total = sum([float(number) * _LENGTHS[unit] for unit, number in iso.groupdict().items() if number])
    elif re.fullmatch(rf"{_PART}(?:\s*{_PART})*", text.strip(), re.ASCII):
        parts = re.findall(_PART, text, re.ASCII)
        if any([word not in _SECONDS for _, word in parts]):
            return None
        total = sum([float(number) * _SECONDS[word] for number, word in parts])
    else:
        return None
    return total if total <= SECONDS_MAX else None
