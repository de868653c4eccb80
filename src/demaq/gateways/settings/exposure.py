"""What an operator should know before a node listens to more than its own machine."""

from __future__ import annotations

from collections.abc import Iterable

from demaq.gateways.settings.loopback import is_loopback
from demaq.gateways.settings.values import Settings


def exposures(settings: Settings, queues: Iterable[str], host: str) -> list[str]:
    """One line for each way in which the incoming gateways at this host are open to others."""
    if is_loopback(host):
        return []
    gateways = {queue: settings.incoming(queue) for queue in queues}
    found: list[str] = []
    unasked = [queue for queue, incoming in gateways.items() if not incoming.auth]
    if unasked:
        found.append(f"whoever reaches {host} may send to {', '.join(unasked)}: auth is none")
    clear = [queue for queue, incoming in gateways.items() if {"basic", "bearer"} & set(incoming.auth)]
    if clear and settings.tls.own is None:
        found.append(f"passwords and tokens for {', '.join(clear)} travel in the clear: there is no TLS")
    return found
