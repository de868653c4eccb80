"""Unpack bodies of responses, into a limited number of bytes."""

from __future__ import annotations

import zlib

_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""What zlib is to expect, by the name of the coding."""
PIECE_BYTES = 65_536


class NotUnpacked(ValueError):
    """A body is packed in a way that is not asked for, damaged, or too large."""


class TooLarge(NotUnpacked):
    """A body has more bytes than are read."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"it has more than {bytes_max:,} bytes")


def unpack(data: bytes, coding: str, bytes_max: int) -> bytes:
    """Return a body without its Content-Encoding. Raises NotUnpacked."""
    name = coding.strip().lower()
    if name in ("", "identity"):
        return data
    if name not in _WINDOWS:
        raise NotUnpacked(f"it is packed with {name[:40]!r}, and gzip alone was asked for")
    unpacking = zlib.decompressobj(_WINDOWS[name])
    found = bytearray()
    rest = data
    try:
        while rest and not unpacking.eof:
            found += unpacking.decompress(rest, PIECE_BYTES)
            rest = unpacking.unconsumed_tail
            if len(found) > bytes_max:
                raise TooLarge(bytes_max)
    except zlib.error:
        raise NotUnpacked(f"it is no {name}, as it says") from None
    if not unpacking.eof:
        raise NotUnpacked("it is packed and breaks off")
    return bytes(found)
