"""Idempotency keys of requests: the name that a sender gives a request, and a digest of its content.

A repeated request has the same name and digest, and is stored once. A request with a known name and another digest is
not a repetition: it is not stored, and the sender gets an error.

    http:orders::key-17 ␟ 5f3a…      name, separator, digest
    replay:12:…                       a name alone, made by the system from the content
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

SEPARATOR = "\x1f"
"""Names from outside have no control characters."""
_DIGEST_BYTES = 20


def digest_of(parts: Iterable[str | bytes | None]) -> str:
    """Return a digest of the parts of a request; it depends on where each part ends."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(b"-" if data is None else b"%d:" % len(data))
        digest.update(data or b"")
    return digest.hexdigest()


def make_request(name: str, digest: str) -> str:
    """Return the idempotency key of a name and a digest."""
    return f"{name.replace(SEPARATOR, ' ')}{SEPARATOR}{digest}"


def name_of(request: str) -> str:
    """Return the name of a request, without its digest."""
    return request.partition(SEPARATOR)[0]


def has_digest(request: str) -> bool:
    return SEPARATOR in request


def bounds_of(request: str) -> tuple[str, str]:
    """Return the range (first included, last not) of all requests of the same name.

    It includes the one without a digest: stores of earlier versions have no digests.
    """
    name = name_of(request)
    return name, f"{name} "  # the first character after the control characters
