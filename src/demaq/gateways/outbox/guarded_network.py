"""Connect to hosts by TCP. If messages name the hosts, the addresses of a name are checked before one is connected to.

The name is looked up once, and what is connected to is an address. So a name server cannot answer one question with a
public address and the next with a private one. Every spelling of an address (`2130706433`, `0177.1`,
`::ffff:127.0.0.1`) is looked up like a name, and is what it leads to.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from typing import Any

from demaq.gateways.security.recipients import Recipients

ADDRESSES_MAX = 4
"""So many addresses of a host that a message names are tried."""
NEXT_ADDRESS_SECONDS = 0.25
"""If an address has not answered by then, the next one is tried as well (RFC 8305, 5)."""

SocketAddress = tuple[int, tuple[Any, ...]]
"""A family, and what its sockets connect to; it begins with the IP address."""


class NotAllowed(Exception):
    """A host that no entry of the list of recipients allows. Says what is missing."""


class Network:
    """The way to the gateway's own server."""

    async def connect(self, scheme: str, host: str, port: int) -> socket.socket:
        """Return a socket that is connected to the host. Raises OSError, UnicodeError, or NotAllowed."""
        return await _connect_first(await self.resolve(scheme, host, port))

    async def resolve(self, scheme: str, host: str, port: int) -> list[SocketAddress]:
        """Return the addresses that may be connected to, the best one first."""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            return list(dict.fromkeys([(int(family), address) for family, *_, address in found]))
        return [(int(socket.AF_INET if address.version == 4 else socket.AF_INET6), (host, port))]


class GuardedNetwork(Network):
    """The way to servers that messages name: every connection is checked."""

    def __init__(self, recipients: Recipients) -> None:
        self._recipients = recipients

    async def resolve(self, scheme: str, host: str, port: int) -> list[SocketAddress]:
        if not self._recipients.may_name(scheme, host, port):
            raise NotAllowed(f"{scheme}://{_bracket(host)}:{port}")
        found = await super().resolve(scheme, host, port)
        allowed = [each for each in found if self._recipients.may_connect(scheme, host, port, str(each[1][0]))]
        if not allowed:
            addresses = list(dict.fromkeys([_bracket(str(address[0])) for _, address in found]))[:ADDRESSES_MAX]
            raise NotAllowed('", "'.join([f"{scheme}://{address}:{port}" for address in addresses]))
        return allowed[:ADDRESSES_MAX]


async def _connect_first(addresses: Sequence[SocketAddress]) -> socket.socket:
    """Return a socket for the first address that answers. They are tried in order, with a pause after each."""
    attempts: list[asyncio.Task[socket.socket]] = []
    connected: asyncio.Task[socket.socket] | None = None
    failure: BaseException | None = None
    pending: set[asyncio.Task[socket.socket]] = set()
    try:
        while connected is None and (pending or len(attempts) < len(addresses)):
            if len(attempts) < len(addresses):
                attempts.append(asyncio.create_task(_connect(addresses[len(attempts)])))
                pending.add(attempts[-1])
            pause = NEXT_ADDRESS_SECONDS if len(attempts) < len(addresses) else None
            done, pending = await asyncio.wait(pending, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                failure = attempt.exception()
                connected = attempt if failure is None else connected
    finally:
        for attempt in attempts:
            is_over = not attempt.cancel()
            if attempt is not connected and is_over and attempt.exception() is None:
                attempt.result().close()
    if connected is None:
        raise OSError("All connection attempts failed") from failure
    return connected.result()


async def _connect(to: SocketAddress) -> socket.socket:
    family, address = to
    connected = socket.socket(family, socket.SOCK_STREAM)
    try:
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, address)
    except BaseException:
        connected.close()
        raise
    return connected


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host
