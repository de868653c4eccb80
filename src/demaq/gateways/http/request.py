"""A request with a dict of its headers: a dozen are looked up in each request, and most are not there."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Receive, Scope

from demaq.gateways.http.responses import HttpAnswer, make_refusal
from demaq.gateways.security.authentication import Authenticator, Denied, Identity
from demaq.gateways.security.client_certificates import PeerCertificate


class QuickRequest(Request):
    def __init__(self, scope: Scope, receive: Receive) -> None:
        super().__init__(scope, receive)
        self._quick_headers = QuickHeaders(scope["headers"])

    @property
    def headers(self) -> Headers:
        return self._quick_headers


def address_of(scope: Scope) -> str:
    """Return the address of the client."""
    client = scope["client"]
    return client[0] if client else ""


class QuickHeaders(Headers):
    """Starlette scans all headers for each look-up. Names are looked up in lower case."""

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        super().__init__(raw=raw)
        self._first: dict[str, str] = {}
        """Of headers that are repeated the first."""
        for name, value in reversed(raw):
            self._first[name.decode("latin-1")] = value.decode("latin-1")

    def __getitem__(self, key: str) -> str:
        return self._first[key.lower()]

    def get(self, key: str, default: Any = None) -> Any:
        return self._first.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._first


async def identify_sender(authenticator: Authenticator, place: str, request: Request) -> Identity | HttpAnswer:
    """Return the identity of the sender, or the answer if it is refused. `place` is a gateway or a page."""
    certificate = PeerCertificate.of(request.scope["state"].get("certificate"))
    shown = request.headers.get("authorization")
    found = await authenticator.decide(place, shown, certificate, address_of(request.scope))
    if not isinstance(found, Denied):
        return found
    await authenticator.hold(found)
    return make_refusal(found.status, "authentication", found.message, _challenge(found))


def _challenge(denied: Denied) -> dict[str, str]:
    headers: dict[str, str] = {}
    if denied.www_authenticate is not None:
        headers["WWW-Authenticate"] = denied.www_authenticate
    if denied.retry_after_seconds is not None:
        headers["Retry-After"] = str(denied.retry_after_seconds)
    return headers
