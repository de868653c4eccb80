"""Whether the head of a request is as HTTP has it (RFC 9110, RFC 9112), where the parser is more lenient.

The parser below refuses bare line ends, folded lines, malformed or several lengths, and a length with chunks. What it
lets pass and two programs in a row could read differently is refused here. So a proxy and we read a request alike.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

HEADERS_MAX = 200
HEADER_BYTES_MAX = 16 * 1024
"""So long one header may be, with its name."""
TARGET_BYTES_MAX = 8 * 1024
"""So long the target of a request may be: at least 8,000 bytes are recommended (RFC 9112, 3)."""
VERSIONS = ("1.0", "1.1")
SINGLE = frozenset(
    [
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"demaq-hops",
        b"demaq-message",
        b"demaq-sender",
        b"expect",
        b"host",
        b"idempotency-key",
        b"soapaction",
        b"transfer-encoding",
    ]
)
"""Headers of which a second one would contradict the first."""
CONTINUE = b"100-continue"

_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~%!$&'()*+,;=-]*)(?::[0-9]{0,5})?")
_ABSOLUTE = re.compile(rb"(?i:https?)://([^/?#@]+)(?:[/?].*)?")
_LENGTH = re.compile(rb"[0-9]{1,18}[ \t]*")

Header = tuple[bytes, bytes]
"""A name in small letters, and a value."""


class BadHead(ValueError):
    """A request that is answered with this status, and whose connection is closed."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def expect_small(count: int, name: bytes, value: bytes) -> None:
    """Raise a BadHead if there are too many headers, or this one is too long. A trailer counts as a header."""
    if count > HEADERS_MAX:
        raise BadHead(431, f"a request has at most {HEADERS_MAX} headers")
    if len(name) + len(value) > HEADER_BYTES_MAX:
        raise BadHead(431, f"a header has at most {HEADER_BYTES_MAX:,} bytes")


def expect_sound(method: bytes, target: bytes, version: str, headers: Sequence[Header]) -> bytes | None:
    """Raise a BadHead if a head must be refused; return the host that an absolute target names, if it does."""
    if version not in VERSIONS:
        raise BadHead(505, "HTTP 1.0 and 1.1 are spoken here")
    found = dict(headers)
    if len(found) < len(headers):
        _expect_single(headers)
    _expect_framing(version, found)
    if found.get(b"expect", CONTINUE).strip().lower() != CONTINUE:
        raise BadHead(417, "nothing but 100-continue can be expected")
    if version == "1.1" and b"host" not in found:
        raise BadHead(400, "the header host is missing")
    if not _HOST.fullmatch(found.get(b"host", b"").strip()):
        raise BadHead(400, "the header host names no host")
    return _expect_target(method, target)


def _expect_single(headers: Sequence[Header]) -> None:
    counts = Counter([name for name, _ in headers])
    twice = next(iter([name.decode() for name, count in counts.items() if count > 1 and name in SINGLE]), None)
    if twice is not None:
        raise BadHead(400, f"the header {twice} is there more than once")


def remove_host(headers: Iterable[Header]) -> list[Header]:
    return [(name, value) for name, value in headers if name != b"host"]


def _expect_framing(version: str, headers: dict[bytes, bytes]) -> None:
    """RFC 9112, 6.1 and 6.3: where a body ends must not be in doubt."""
    length, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
    if length is not None and (coding is not None or not _LENGTH.fullmatch(length)):
        raise BadHead(400, "the length of the body is in doubt")
    if coding is None:
        return
    codings = [each.strip().lower() for each in coding.split(b",")]
    if version != "1.1" or codings[-1] != b"chunked" or codings.count(b"chunked") > 1:
        raise BadHead(400, "the length of the body is in doubt: its last transfer coding is chunked, of HTTP 1.1")
    if codings != [b"chunked"]:
        raise BadHead(501, "no other transfer coding than chunked is known")


def _expect_target(method: bytes, target: bytes) -> bytes | None:
    """Return the host of an absolute target, which overrides the header (RFC 9112, 3.2); None for a path."""
    if len(target) > TARGET_BYTES_MAX:
        raise BadHead(414, f"the target of a request has at most {TARGET_BYTES_MAX:,} bytes")
    if method == b"CONNECT":
        raise BadHead(400, "this is no proxy")
    if b"#" not in target and target.startswith(b"/"):
        return None
    absolute = _ABSOLUTE.fullmatch(target)
    if b"#" in target or absolute is None or not _HOST.fullmatch(absolute[1]):
        raise BadHead(400, "the target of the request is neither a path nor an address of HTTP")
    return absolute[1]
