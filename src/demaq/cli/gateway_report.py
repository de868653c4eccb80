"""Gateways of `demaq run`: their options and settings, and what is reported when they start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from demaq.errors import OperatorError
from demaq.gateways.settings import Settings, exposures, read_settings
from demaq.language.program.program import Program
from demaq.server.gateways import HTTP_DEFAULT, Address, Gateways, has_http_gateways, has_mail_gateways
from demaq.server.node import Node

__all__ = ["Address", "ListenAddress", "settings_of", "start_gateways"]

PORT_MAX = 65535


class ListenAddress(click.ParamType[Address]):
    """HOST:PORT, :PORT or PORT; port 0 is any that is free."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not port.isascii() or not port.isdecimal() or int(port) > PORT_MAX:
            self.fail(f"{value!r} is no address such as 127.0.0.1:8080", param, ctx)
        return (host.removeprefix("[").removesuffix("]") or HTTP_DEFAULT[0], int(port))


def settings_of(
    program: Program, file: Path | None, certificate: Path | None, key: Path | None, ca: Path | None
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
    node: Node, settings: Settings, http: Address | None, smtp: Address | None, tell: Callable[[str], None]
) -> Gateways:
    """Start the gateways of a node, and report where they listen. Raises an OperatorError."""
    program = node.program
    if http is None and has_http_gateways(program):
        http = HTTP_DEFAULT
    gateways = Gateways(node, settings, http, smtp, tell)
    if http is not None:
        endpoints = {name: gateways.own_address(name) for name in _names(program, "outgoingGateway")}
        for line in exposures(settings, _names(program, "incomingGateway"), http[0], endpoints):
            tell(line)
    gateways.start()
    if gateways.http_address is not None:
        tell(f"listening on {gateways.http_address}")
    if gateways.smtp_address is not None:
        tell(f"listening for mail on {gateways.smtp_address}")
    elif has_mail_gateways(program):
        tell("gateways with mail addresses get no mail: say where with --smtp HOST:PORT")
    return gateways


def _names(program: Program, kind: str) -> list[str]:
    return [queue.name for queue in program.queues.values() if queue.kind == kind]
