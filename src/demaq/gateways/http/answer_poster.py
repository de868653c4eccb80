"""Send envelopes to the addresses that requests name for faults, acknowledgements and answers about sequences.

They are not stored: what is lost, the other side asks for again by repeating its request. Answers of the application
are messages, and go through the outbox.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping

from demaq.backoff import Backoff
from demaq.gateways.outbox.guarded_network import GuardedNetwork, NotAllowed
from demaq.gateways.outbox.http_client import HttpClient
from demaq.gateways.outbox.http_connection import HttpResponse
from demaq.gateways.outbox.http_results import judge_error
from demaq.gateways.outbox.http_url import parse_url
from demaq.gateways.security.recipients import Recipients
from demaq.masking import mask_address
from demaq.soap import SoapAnswer
from demaq.soap.transport import action_headers, content_type

ATTEMPTS_MAX = 4
BACKOFF = Backoff(seconds_first=0.2, seconds_max=5.0)
TIMEOUT_SECONDS = 10.0
IN_FLIGHT_MAX = 200
"""More envelopes are not sent: the other side repeats its requests."""
RESPONSE_BYTES_MAX = 100_000
IDLE_CONNECTIONS_MAX = 8

_log = logging.getLogger("demaq.soap")


class AnswerPoster:
    """Sends for one gateway. Belongs to one event loop."""

    def __init__(self, recipients: Recipients, make_context: Callable[[], ssl.SSLContext]) -> None:
        """`recipients` are the only ones to whom anything is sent."""
        self._network = GuardedNetwork(recipients)
        self._make_context = make_context
        self._clients: dict[str, HttpClient] = {}
        self._in_flight: set[asyncio.Task[None]] = set()

    def post(self, address: str, answer: SoapAnswer, version: str, action: str | None) -> None:
        """Send an envelope, as soon as possible and a few times if it fails."""
        if len(self._in_flight) >= IN_FLIGHT_MAX:
            _log.warning("nothing is sent to %s: too much is on its way", mask_address(address))
            return
        task = asyncio.create_task(self._send(address, answer, version, action))
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)

    async def close(self) -> None:
        """Wait for a moment for what is on its way."""
        if self._in_flight:
            await asyncio.wait(list(self._in_flight), timeout=TIMEOUT_SECONDS)
        for task in list(self._in_flight):
            task.cancel()
        for client in self._clients.values():
            await client.close()

    async def exchange(
        self,
        address: str,
        answer: SoapAnswer,
        version: str,
        action: str | None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        """Send an envelope once, and return the response. Raises what the client raises, and NotAllowed."""
        url = parse_url(address)
        client = await self._client(url.scheme)
        own = {"Content-Type": content_type(version, action), **action_headers(version, action)}
        return await client.post(url, {**own, **(headers or {})}, answer.data, RESPONSE_BYTES_MAX)

    async def _send(self, address: str, answer: SoapAnswer, version: str, action: str | None) -> None:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    response = await self.exchange(address, answer, version, action)
                if response.status < 500:
                    return
                problem, is_final = f"it answered {response.status_text}", False
            except NotAllowed:
                problem, is_final = "its address is not allowed", True
            except Exception as error:
                failure = judge_error(error)
                problem, is_final = failure.reason, not failure.again
            if is_final or attempt == ATTEMPTS_MAX:
                _log.warning("an answer to %s was not delivered: %s", mask_address(address), problem)
                return
            await asyncio.sleep(BACKOFF.delay_seconds(attempt))

    async def _client(self, scheme: str) -> HttpClient:
        if scheme not in self._clients:
            context = await asyncio.to_thread(self._make_context) if scheme == "https" else None
            self._clients.setdefault(scheme, HttpClient(self._network, context, IDLE_CONNECTIONS_MAX))
        return self._clients[scheme]
