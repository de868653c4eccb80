"""The address of a request, in the parts that HTTP needs and in the form of RFC 3986, however it was written."""

from __future__ import annotations

import functools
import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import quote

from demaq.gateways.security.recipients import PORTS

ADDRESS_CHARACTERS_MAX = 65_536
PARSED_MAX = 1_000
"""So many addresses are remembered with their parts."""
_ADDRESS = re.compile(r"(?P<scheme>https?)://(?P<server>[^/?#]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?", re.IGNORECASE)
_SERVER = re.compile(r"(?P<host>\[[^\]]*\]|[^:@\[\]]+)(?::(?P<port>[0-9]{0,5}))?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=%-]+")
_IPV4 = re.compile(r"[0-9]+(?:\.[0-9]+){3}", re.ASCII)
_PRINTABLE = "".join([chr(code) for code in range(0x21, 0x7F)])
_IN_QUERY = "".join([character for character in _PRINTABLE if character not in '"#<>'])
_IN_PATH = "".join([character for character in _IN_QUERY if character not in "?`{}"])
"""What is not percent-encoded (https://url.spec.whatwg.org/#percent-encoded-bytes); `%` is among it."""


class InvalidUrl(ValueError):
    """An address to which no request can be sent. The reason does not quote it, since it may have secrets."""


@dataclass(frozen=True, slots=True)
class HttpUrl:
    scheme: str
    host: str
    """In ASCII and small letters; an address of IPv6 without brackets."""
    port: int
    authority: str
    """Host and port for the header `Host`."""
    target: str
    """Path and query."""

    @property
    def server(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port


@functools.lru_cache(PARSED_MAX)
def parse_url(address: str) -> HttpUrl:
    """Return the parts of an address for HTTP. Raises InvalidUrl, or UnicodeError if it has half a character."""
    if len(address) > ADDRESS_CHARACTERS_MAX:
        raise InvalidUrl("URL too long")
    if any([character.isascii() and not character.isprintable() for character in address]):
        raise InvalidUrl("Invalid non-printable ASCII character in URL")
    match = _ADDRESS.match(address)
    server = _SERVER.fullmatch(match["server"]) if match is not None else None
    if match is None or server is None:
        raise InvalidUrl("Invalid host or port in URL")
    scheme, host = match["scheme"].lower(), _encode_host(server["host"])
    port = int(server["port"] or PORTS[scheme])
    if port > 0xFFFF:
        raise InvalidUrl("Invalid port in URL")
    shown = f"[{host}]" if ":" in host else host
    query = "" if match["query"] is None else f"?{quote(match['query'], safe=_IN_QUERY)}"
    return HttpUrl(
        scheme=scheme,
        host=host,
        port=port,
        authority=shown if port == PORTS[scheme] else f"{shown}:{port}",
        target=(quote(_remove_dots(match["path"]), safe=_IN_PATH) or "/") + query,
    )


def _encode_host(host: str) -> str:
    try:
        if host.startswith("["):
            ipaddress.IPv6Address(host[1:-1])
            return host[1:-1]
        if _IPV4.fullmatch(host):
            ipaddress.IPv4Address(host)
            return host
    except ValueError:
        raise InvalidUrl("Invalid IP address in URL") from None
    if host.isascii():
        if not _NAME.fullmatch(host):
            raise InvalidUrl("Invalid host in URL")
        return host.lower()
    import idna  # its tables are large, and few addresses need them

    try:
        return idna.encode(host.lower()).decode("ascii")
    except idna.IDNAError:
        raise InvalidUrl("Invalid IDNA hostname in URL") from None


def _remove_dots(path: str) -> str:
    """Return a path without `.` and `..` (RFC 3986, 5.2.4)."""
    segments = path.split("/")
    if "." not in segments and ".." not in segments:
        return path
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            if kept and kept != [""]:
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    return "/".join(kept)
