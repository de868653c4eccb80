"""Gateways that ask for an extension which they cannot have.

Such a gateway is not started: without the extension, messages would travel unprotected. `demaq check` warns of it,
`demaq run` repeats the warning and leaves the gateway out.
"""

from __future__ import annotations

from collections.abc import Iterable

from demaq.language.endpoints import parse_destination, parse_inbound_address


def explain_not_started(
    kind: str, name: str, endpoint: str | None, extensions: Iterable[str], *, has_interface: bool
) -> str | None:
    """Return the reason why a gateway is not started, or None if it is."""
    asked = " and ".join(dict.fromkeys(extensions))
    if not asked:
        return None
    if _exchanges_mails(kind, name, endpoint):
        return f"it asks for {asked}, which mails do not have, and is not run without"
    if kind == "outgoingGateway" and not has_interface:
        return f"it asks for {asked}, which belongs to SOAP, and has no interface"
    return None


def _exchanges_mails(kind: str, name: str, endpoint: str | None) -> bool:
    try:
        if kind == "incomingGateway":
            return parse_inbound_address(name, endpoint).kind == "mail"
        return endpoint is not None and parse_destination(endpoint).kind == "mail"
    except ValueError:
        return False  # which is reported by itself
