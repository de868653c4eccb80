"""The addresses of gateways, as written in `endpoint` clauses and `Recipient` properties."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

from demaq.masking import mask_address

HEALTH, READINESS, METRICS = ("/healthz", "/readyz", "/metrics")
"""The paths at which a node answers about itself."""
SOAP_ANSWERS = "/soap-answers"
"""The path for SOAP answers that come by themselves, as requests of the other side."""
RESERVED_PATHS = (HEALTH, READINESS, METRICS, SOAP_ANSWERS)

_MAIL_ADDRESS = re.compile(r"[^\s@<>,;:\\\"()\[\]\x00-\x1f\x7f]+@[^\s@<>,;:\\\"()\[\]/?#\x00-\x1f\x7f]+")
_NOT_IN_ADDRESSES = re.compile(r"[\x00-\x20\x7f<>\"{}|\\^`]")


@dataclass(frozen=True, slots=True)
class InboundAddress:
    """Where messages for an incoming gateway arrive."""

    kind: Literal["http", "mail"]
    place: str
    """A decoded path that begins with a slash, or a mail address in lower case."""

    def __str__(self) -> str:
        return self.place


@dataclass(frozen=True, slots=True)
class Destination:
    """Where messages of an outgoing gateway go."""

    kind: Literal["http", "mail", "answer"]
    """`answer` is one to a request that wants it there, and not on its connection."""
    address: str
    """The whole address as written."""
    peer: str
    """The peer of the connection: scheme, host and port, or the domain of a mail address."""


def parse_inbound_address(queue: str, endpoint: str | None) -> InboundAddress:
    """Return where an incoming gateway listens. Raises ValueError with the reason.

    `http:/orders`, `/orders` and `http://any.host/orders` are all the path `/orders`: the node decides about its host.
    """
    if endpoint is None:
        return _path("/" + queue)
    text = endpoint.strip()
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() == "mailto":
        address = unquote(rest.partition("?")[0]).strip()
        if not _MAIL_ADDRESS.fullmatch(address):
            raise ValueError(f"{_shorten(endpoint)} has no mail address")
        return InboundAddress("mail", address.lower())
    if colon and "/" not in scheme and scheme.lower() not in ("http", "https"):
        raise ValueError(f"{scheme[:20]}: is not known here")
    if colon and "/" not in scheme:
        path = urlsplit(text).path if rest.startswith("//") else rest
    else:
        path = text
    if "?" in path or "#" in path:
        raise ValueError("a gateway is found by its path alone")
    return _path("/" + unquote(path).lstrip("/"))


def parse_destination(address: str) -> Destination:
    """Return where a message goes. Raises ValueError with the reason."""
    text = address.strip()
    scheme, colon, rest = text.partition(":")
    if not colon:
        raise ValueError(f"{_shorten(address)} is no complete address")
    match scheme.lower():
        case "http" | "https":
            return Destination("http", text, _peer(text))
        case "mailto":
            receivers = [unquote(part).strip() for part in rest.partition("?")[0].split(",")]
            if not all([_MAIL_ADDRESS.fullmatch(receiver) for receiver in receivers]):
                raise ValueError(f"{_shorten(address)} has no mail address")
            return Destination("mail", text, receivers[0].rpartition("@")[2].lower())
    raise ValueError(f"{scheme[:20]}: is not known here")


def _path(path: str) -> InboundAddress:
    clean = path.rstrip("/") or "/"
    if clean in RESERVED_PATHS:
        raise ValueError(f"{clean} is the node's own")
    if not clean.isprintable():
        raise ValueError(f"{_shorten(clean)} is no path")
    return InboundAddress("http", clean)


def _peer(address: str) -> str:
    if _NOT_IN_ADDRESSES.search(address):
        raise ValueError(f"{_shorten(address)} has characters that no address has")
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:  # without the text of the error, which may quote a part of a password
        raise ValueError(f"{_shorten(address)} is no address: its host or its port cannot be one") from None
    if not host:
        raise ValueError(f"{_shorten(address)} has no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a name or password does not belong into an address; the node's settings have a place for it")
    scheme = parts.scheme.lower()
    return f"{scheme}://{host.lower()}:{port or (443 if scheme == 'https' else 80)}"


def _shorten(text: str) -> str:
    masked = mask_address(text)
    return repr(masked if len(masked) <= 80 else masked[:77] + "...")
