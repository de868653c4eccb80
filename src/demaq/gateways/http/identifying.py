"""Who sends a request, and what somebody is told who may not."""

from __future__ import annotations

from starlette.requests import Request

from demaq.gateways.http.answers import HttpAnswer, refusal
from demaq.gateways.http.request import address_of
from demaq.gateways.security.authentication import Authenticator, Denied, Identity
from demaq.gateways.security.client_certificates import PeerCertificate


async def identified(authenticator: Authenticator, place: str, request: Request) -> Identity | HttpAnswer:
    """Who it is, or the answer to somebody who may not. `place` is a gateway, or a page that asks too."""
    certificate = PeerCertificate.of(request.scope["state"].get("certificate"))
    shown = request.headers.get("authorization")
    found = await authenticator.decide(place, shown, certificate, address_of(request))
    if not isinstance(found, Denied):
        return found
    await authenticator.hold(found)
    return refusal(found.status, "authentication", found.message, _challenge(found))


def _challenge(denied: Denied) -> dict[str, str]:
    headers: dict[str, str] = {}
    if denied.www_authenticate is not None:
        headers["WWW-Authenticate"] = denied.www_authenticate
    if denied.retry_after_seconds is not None:
        headers["Retry-After"] = str(denied.retry_after_seconds)
    return headers
