"""Sizes as people write them: `500KB`, `16MB`, `2GiB`."""

from __future__ import annotations

import re

_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(rf"(\d{{1,15}}(?:\.\d{{1,3}})?) ?({'|'.join(_UNITS)})", re.ASCII)


def size_of(text: str) -> int:
    """Return how many bytes a size has. Raises ValueError where it is none."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size such as 500KB, 16MB, 2GB")
    return int(float(match[1]) * _UNITS[match[2]])
