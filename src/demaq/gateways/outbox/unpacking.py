"""The body of an answer as it was before it was packed: at most one coding, never more than so many bytes."""

from __future__ import annotations

import zlib

_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""What zlib is to expect, by the name of the coding."""
PIECE_BYTES = 65_536


class NotUnpacked(ValueError):
    """An answer is packed in a way that is not asked for, damaged, or too large."""


def unpack(data: bytes, coding: str, bytes_max: int) -> bytes:
    """Return what a body of an answer is, by its Content-Encoding. Raises NotUnpacked."""
    name = coding.strip().lower()
    if name in ("", "identity"):
        return data
    if name not in _WINDOWS:
        raise NotUnpacked(f"the answer is packed with {name[:40]!r}, and gzip alone was asked for")
    unpacking = zlib.decompressobj(_WINDOWS[name])
    found = bytearray()
    rest = data
    try:
        while rest and not unpacking.eof:
            found += unpacking.decompress(rest, PIECE_BYTES)
            rest = unpacking.unconsumed_tail
            if len(found) > bytes_max:
                raise NotUnpacked(f"the answer has more than {bytes_max:,} bytes")
    except zlib.error:
        raise NotUnpacked(f"the answer is no {name}, as it says") from None
    if not unpacking.eof:
        raise NotUnpacked("the answer is packed and breaks off")
    return bytes(found)
