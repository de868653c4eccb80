"""Gateways of `demaq run`: their options and settings, and what is reported when they start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from demaq.console.console_settings import make_console_settings, may_serve_unasked
from demaq.errors import OperatorError
from demaq.gateways.security.origins import is_loopback
from demaq.gateways.settings import Settings, exposures, read_settings
from demaq.language.program.program import Program
from demaq.server.console_process import ConsoleStart
from demaq.server.gateways import Gateways, has_http_gateways, has_mail_gateways
from demaq.server.http_address import HTTP_DEFAULT, Address
from demaq.server.node import Node
from demaq.store.location import StoreLocation


def settings_of(
    program: Program | None, file: Path | None, certificate: Path | None, key: Path | None, ca: Path | None
) -> Settings:
    """Return the settings of a file, with what the command line says besides."""
    settings = Settings()
    if file is not None:
        settings = read_settings(
            file, incoming=_names(program, "incomingGateway"), outgoing=_names(program, "outgoingGateway")
        )
    if certificate is not None:
        settings = settings.with_tls(certificate, key)
    elif key is not None:
        raise OperatorError("--tls-key is the key of a certificate: give --tls-cert too")
    return settings if ca is None else settings.with_ca(ca)


def start_gateways(
    node: Node,
    settings: Settings,
    http: Address | None,
    smtp: Address | None,
    tell: Callable[[str], None],
    console: Address | Literal["on", "off"] | None = None,
    others: Sequence[StoreLocation] = (),
) -> Gateways:
    """Start the gateways of a node, and report where they listen. Raises an OperatorError.

    `console` is where the console is: at an address of its own, or at /console of the HTTP address (`on`). By default
    it is there if no one else reaches it, or everyone is asked who they are.
    """
    program = node.program
    if http is None and (has_http_gateways(program) or console == "on"):
        http = HTTP_DEFAULT
    start, address = _plan_console(node, settings, http, console, others)
    gateways = Gateways(node, settings, http, smtp, tell, start, address)
    if http is not None:
        endpoints = {name: gateways.own_address(name) for name in _names(program, "outgoingGateway")}
        for line in exposures(settings, _names(program, "incomingGateway"), http[0], endpoints):
            tell(line)
    gateways.start()
    if gateways.http_address is not None:
        tell(f"listening on {gateways.http_address}")
    if gateways.console_address is not None and console is not None:
        tell(f"console at {gateways.console_address}")
        listening = address or http
        if listening is not None and not settings.incoming_default.auth and not is_loopback(listening[0]):
            tell("any client that reaches the console may read all messages: auth is none")
    if gateways.smtp_address is not None:
        tell(f"listening for mail on {gateways.smtp_address}")
    elif has_mail_gateways(program):
        tell("gateways with mail addresses get no mail: say where with --smtp HOST:PORT")
    return gateways


def _plan_console(
    node: Node,
    settings: Settings,
    http: Address | None,
    console: Address | Literal["on", "off"] | None,
    others: Sequence[StoreLocation],
) -> tuple[ConsoleStart | None, Address | None]:
    """Return how the console is started, if it is to be, and its own address."""
    own = console if isinstance(console, tuple) else None
    listening = own or http
    if console == "off" or listening is None:
        return None, None
    incoming = settings.incoming_default
    if console is None and not may_serve_unasked(incoming, listening[0]):
        return None, None
    if incoming.auth and not {"basic", "bearer"} & set(incoming.auth):
        if console is None:
            return None, None
        raise OperatorError('the console lets users and tokens in, and no certificates: add "basic" to auth')
    is_https = settings.tls.own is not None
    stores = [str(other.where) for other in others]
    made = make_console_settings(str(node.place.where), incoming, listening[0], is_https=is_https, others=stores)
    certificate = settings.tls.own if own is not None else None
    return ConsoleStart(settings=made.to_json(), certificate=certificate, is_asked=console is not None), own


def _names(program: Program | None, kind: str) -> list[str]:
    """Return the queues of a kind; none if the application is not known."""
    if program is None:
        return []
    return [queue.name for queue in program.queues.values() if queue.kind == kind]
