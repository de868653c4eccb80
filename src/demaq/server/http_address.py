"""Where a node listens, apart from what listens there: commands parse addresses long before they need a server."""

from __future__ import annotations

from typing import TypeAlias

Address: TypeAlias = tuple[str, int]
HTTP_DEFAULT: Address = ("127.0.0.1", 8080)
