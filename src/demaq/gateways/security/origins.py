"""Which server an address leads to."""

from __future__ import annotations

import functools
import ipaddress
from urllib.parse import urlsplit

PORTS = {"http": 80, "https": 443}
ORIGINS_MAX = 1_000
"""Of so many addresses it is remembered which server they lead to."""


@functools.lru_cache(ORIGINS_MAX)
def origin_of(url: str) -> tuple[str, str, int] | None:
    """Return scheme, host and port of an address for HTTP; None for any other."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError:
        return None
    # A backslash or a space means one server to one library and another server to the next.
    if scheme not in PORTS or not host or any([c in url for c in "\\ \t\r\n"]):
        return None
    return scheme, host.lower().rstrip("."), port if port is not None else PORTS[scheme]


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
