"""A client of the console in this process: it calls the application as a web server does."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from demaq.console.console_settings import ConsoleSettings
from demaq.console.web_app import ConsoleApp

HOST = "localhost:8080"


@dataclass(frozen=True)
class Page:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([^"]*)"', self.text)
        assert found is not None, "the page has no form"
        return found[1]


@dataclass
class ConsoleClient:
    """Keeps cookies, as a browser does."""

    settings: ConsoleSettings
    cookies: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self.app = ConsoleApp(self.settings)

    def close(self) -> None:
        self.app.close()
        self._loop.close()

    def get(self, address: str, **headers: str) -> Page:
        return self.send("GET", address, b"", headers)

    def post(self, address: str, fields: Mapping[str, str], **headers: str) -> Page:
        kind = {"content-type": "application/x-www-form-urlencoded"}
        site = {"sec-fetch-site": "same-origin", "origin": f"http://{HOST}"}
        return self.send("POST", address, urlencode(fields).encode(), {**kind, **site, **_names(headers)})

    def call(self, address: str, value: object, **headers: str) -> Page:
        """Send JSON to the API."""
        return self.send(
            "POST", address, json.dumps(value).encode(), {"content-type": "application/json", **_names(headers)}
        )

    def get_at_once(self, *addresses: str) -> list[Page]:
        """Ask for several pages at the same time."""

        async def ask() -> list[Page]:
            return await asyncio.gather(*[self._exchange(self._describe("GET", each, {}), b"") for each in addresses])

        return self._loop.run_until_complete(ask())

    def send(self, method: str, address: str, body: bytes, headers: Mapping[str, str]) -> Page:
        return self._loop.run_until_complete(self._exchange(self._describe(method, address, headers), body))

    def _describe(self, method: str, address: str, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return a request as web servers describe it to applications."""
        parts = urlsplit(address)
        given = {"host": HOST, **_names(headers)}
        if self.cookies:
            given["cookie"] = "; ".join([f"{name}={value}" for name, value in self.cookies.items()])
        from urllib.parse import unquote_to_bytes

        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote_to_bytes(parts.path).decode("utf-8", "replace"),
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in given.items()],
            "client": ("127.0.0.1", 1234),
            "server": ("127.0.0.1", 8080),
        }

    async def _exchange(self, scope: dict[str, Any], body: bytes) -> Page:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app.asgi(scope, receive, send)
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in sent[0]["headers"]}
        if "set-cookie" in headers:
            name, _, value = headers["set-cookie"].partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
        return Page(sent[0]["status"], headers, b"".join([each.get("body", b"") for each in sent[1:]]))


def _names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-").lower(): value for name, value in headers.items()}
