"""A client for tests that is not ours: Python's own, with a new connection for every request."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 30.0
NO_ANSWER = (OSError, http.client.HTTPException)
"""What is raised if there is no answer, or none that can be read."""

Value = str | bytes | list[str]
"""Of a header; a list for one that is sent several times."""
Headers = Mapping[str, Value]


@dataclass(frozen=True)
class Response:
    status_code: int
    headers: http.client.HTTPMessage
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode(self.headers.get_content_charset("utf-8"))


class Client:
    """Paths are below its address. May be used by several threads at once."""

    def __init__(self, address: str, timeout: float = TIMEOUT_SECONDS, tls: ssl.SSLContext | None = None) -> None:
        self.headers: dict[str, Value] = {}
        """What every request has."""
        self._address = urlsplit(address)
        self._timeout = timeout
        self._tls = tls

    def get(self, path: str, headers: Headers | None = None) -> Response:
        return self.request("GET", path, headers=headers)

    def post(self, path: str, content: str | bytes = b"", headers: Headers | None = None) -> Response:
        return self.request("POST", path, content, headers)

    def request(self, method: str, path: str, content: str | bytes = b"", headers: Headers | None = None) -> Response:
        host, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=self._timeout, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=self._timeout)
        body = content.encode() if isinstance(content, str) else content
        known: dict[str, Value] = {**self.headers, **(headers or {})}
        if body or method not in ("GET", "HEAD"):
            known["Content-Length"] = str(len(body))
        try:
            connection.putrequest(method, path, skip_host="Host" in known, skip_accept_encoding=True)
            for name, value in known.items():
                for each in value if isinstance(value, list) else [value]:
                    connection.putheader(name, each)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return Response(answer.status, answer.headers, answer.read())
        finally:
            connection.close()
