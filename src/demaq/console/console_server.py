"""Serve the console on a socket that the process is given, until the process that started it is gone."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import ssl
import sys
import threading
from pathlib import Path

from demaq.console.console_settings import ConsoleSettings
from demaq.console.web_app import ConsoleApp
from demaq.gateways.http.web_server import make_web_server
from demaq.gateways.security.secrets import Secret
from demaq.gateways.security.tls import OwnCertificate, server_context

CONNECTIONS_MAX = 200
KEEP_ALIVE_SECONDS = 30
STOP_SECONDS = 1
NICENESS = 5
"""The node comes first."""


async def serve(
    settings: ConsoleSettings, listener: socket.socket, tls: ssl.SSLContext | None, *, is_proxied: bool
) -> None:
    """Serve until the task is cancelled."""
    app = ConsoleApp(settings, is_proxied=is_proxied, warms_up=True)
    server = make_web_server(
        app.asgi,
        tls,
        connections_max=CONNECTIONS_MAX,
        keep_alive_seconds=KEEP_ALIVE_SECONDS,
        stop_seconds=STOP_SECONDS,
    )
    try:
        await server.serve(sockets=[listener])
    finally:
        app.close()


def main() -> None:
    """Serve as the process that started this one says on standard input."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s console: %(message)s")
    os.nice(NICENESS)
    given = json.loads(sys.stdin.readline())
    settings = ConsoleSettings.from_json(given["settings"])
    listener = socket.socket(fileno=int(given["listener"]))
    listener.setblocking(False)
    tls = None
    if given["certificate"] is not None:
        password = given["key_password"]
        own = OwnCertificate(
            certificate=Path(given["certificate"]),
            key=Path(given["key"]) if given["key"] is not None else None,
            key_password=Secret(password) if password is not None else None,
        )
        tls = server_context(own, None)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    asyncio.run(serve(settings, listener, tls, is_proxied=bool(given["is_proxied"])))


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)
