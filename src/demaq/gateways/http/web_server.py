"""The HTTP server under gateways and console: uvicorn with our own limits, and without anything that it adds itself."""

from __future__ import annotations

import logging
import ssl
from typing import Any

import uvicorn

from demaq.gateways.http.http_protocol import CarefulProtocol


def make_web_server(
    app: Any, tls: ssl.SSLContext | None, *, connections_max: int, keep_alive_seconds: int, stop_seconds: int
) -> uvicorn.Server:
    """Return a server of an ASGI application. Requests that have begun may take `stop_seconds` when it stops."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # senders are answered what they do wrong
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=CarefulProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=connections_max,
        timeout_keep_alive=keep_alive_seconds,
        timeout_graceful_shutdown=stop_seconds,
        ssl_context_factory=None if tls is None else (lambda config, default: tls),
    )
    return uvicorn.Server(config)
