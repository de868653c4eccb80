"""A request whose headers are found at once: each is asked about a dozen of them, and most are not there."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request


class QuickRequest(Request):
    @cached_property
    def headers(self) -> Headers:
        return _QuickHeaders(raw=self.scope["headers"])


def address_of(request: Request) -> str:
    """Of the machine that a request comes from."""
    client = request.scope["client"]
    return client[0] if client else ""


class _QuickHeaders(Headers):
    """Starlette walks over all of them for each question. Names are asked for in small letters."""

    def __getitem__(self, key: str) -> str:
        return self._first[key.lower()]

    def get(self, key: str, default: Any = None) -> Any:
        return self._first.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._first

    @cached_property
    def _first(self) -> dict[str, str]:
        """Of headers that are repeated the first."""
        found: dict[str, str] = {}
        for name, value in self.raw:
            found.setdefault(name.decode("latin-1"), value.decode("latin-1"))
        return found
