"""The names that requests are remembered by: what a sender calls a request, and a digest of what it said.

A repeated request has the same name and the same digest, and is stored once. One with the name of another request and
another digest is no repetition; a store does not keep it, and whoever stores it tells the sender.

    http:orders::key-17 ␟ 5f3a…      name, separator, digest
    replay:12:…                       a name alone: it is made by the system, and says all there is to know
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

SEPARATOR = "\x1f"
"""No name that comes from outside has control characters."""
_DIGEST_BYTES = 20


def digest_of(parts: Iterable[str | bytes | None]) -> str:
    """Return a digest of what a request says; where a part ends makes a difference."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(b"-" if data is None else b"%d:" % len(data))
        digest.update(data or b"")
    return digest.hexdigest()


def named(name: str, digest: str) -> str:
    """Return the request of this name that says what the digest is of."""
    return f"{name.replace(SEPARATOR, ' ')}{SEPARATOR}{digest}"


def name_of(request: str) -> str:
    """Return the name of a request, without its digest."""
    return request.partition(SEPARATOR)[0]


def has_digest(request: str) -> bool:
    return SEPARATOR in request


def bounds_of(request: str) -> tuple[str, str]:
    """Return between which requests, first included and last not, all those of the same name are.

    One without a digest is there too: stores of earlier versions remember no digests.
    """
    name = name_of(request)
    return name, f"{name} "  # the first character behind those of control
