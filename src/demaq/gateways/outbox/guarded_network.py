"""Connections to hosts that messages name: the addresses of a name are judged, and one of those judged is connected to.

The name is looked up once, and what is connected to is an address. So nobody can answer one question with a public
address and the next with one of ours. Every spelling of an address (`2130706433`, `0177.1`, `::ffff:127.0.0.1`) is
looked up like a name, and is what it leads to.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any

import httpcore
import httpx

from demaq.gateways.security.recipients import Recipients

ADDRESSES_MAX = 4
"""So many addresses of a host are tried."""


class NotAllowed(Exception):
    """A host that no entry of the list of recipients allows. Says what is missing."""


def guarded_client(client: httpx.AsyncClient, recipients: Recipients, scheme: str) -> httpx.AsyncClient:
    """Return the client, whose connections are made only to those whom the list allows."""
    transport = client._transport
    assert isinstance(transport, httpx.AsyncHTTPTransport), "it was made without a proxy"
    pool = transport._pool
    # httpx has no way to hand it over; a test sees to it that every connection comes through here.
    pool._network_backend = GuardedNetwork(pool._network_backend, recipients, scheme)
    return client


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Looks names up itself, and connects to addresses alone."""

    def __init__(self, inner: httpcore.AsyncNetworkBackend, recipients: Recipients, scheme: str) -> None:
        self._inner = inner
        self._recipients = recipients
        self._scheme = scheme

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        for address in await self._allowed(host, port):
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        assert failure is not None, "at least one address was tried"
        raise failure

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise NotAllowed("a message names no file")

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)

    async def _allowed(self, host: str, port: int) -> list[str]:
        if not self._recipients.may_name(self._scheme, host, port):
            raise NotAllowed(f"{self._scheme}://{_shown(host)}:{port}")
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from error
        addresses = list(dict.fromkeys([str(address[0]) for *_, address in found]))
        allowed = [a for a in addresses if self._recipients.may_connect(self._scheme, host, port, a)]
        if not allowed:
            where = '", "'.join([f"{self._scheme}://{_shown(address)}:{port}" for address in addresses[:ADDRESSES_MAX]])
            raise NotAllowed(where)
        return allowed[:ADDRESSES_MAX]


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
