"""What an operator should know before a node meets others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from demaq.gateways.security.origins import is_loopback, origin_of
from demaq.gateways.settings.settings import OutgoingSettings, Settings


def exposures(
    settings: Settings, incoming: Iterable[str], host: str, outgoing: Mapping[str, str | None] | None = None
) -> list[str]:
    """Return one line for each way in which gateways are open to others.

    Incoming ones by where they listen; outgoing ones, with their endpoints, by how our credentials travel.
    """
    return [
        *([] if is_loopback(host) else _open_to_others(settings, incoming, host)),
        *[
            f"the password or token of {queue} travels in the clear: its endpoint is http:"
            for queue, endpoint in (outgoing or {}).items()
            if endpoint is not None and _shows_credentials(settings.outgoing(queue), endpoint)
        ],
    ]


def _open_to_others(settings: Settings, queues: Iterable[str], host: str) -> Iterator[str]:
    gateways = {queue: settings.incoming(queue) for queue in queues}
    unasked = [queue for queue, gateway in gateways.items() if not gateway.auth]
    if unasked:
        yield f"any client that reaches {host} may send to {', '.join(unasked)}: auth is none"
    clear = [queue for queue, gateway in gateways.items() if {"basic", "bearer"} & set(gateway.auth)]
    if clear and settings.tls.own is None:
        yield f"passwords and tokens for {', '.join(clear)} travel in the clear: there is no TLS"


def _shows_credentials(gateway: OutgoingSettings, endpoint: str) -> bool:
    origin = origin_of(endpoint)
    if origin is None or origin[0] != "http" or is_loopback(origin[1]):
        return False
    return gateway.authorization(endpoint, endpoint) is not None
