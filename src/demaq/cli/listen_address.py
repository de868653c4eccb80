"""The address of an option such as `--http`."""

from __future__ import annotations

from typing import Any, Literal

import click

from demaq.server.http_address import HTTP_DEFAULT, Address

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


class ConsolePlace(click.ParamType[Any]):
    """`on`, `off`, or an address of its own."""

    name = "place"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address | Literal["on", "off"]:
        if value == "on" or value == "off":
            return "on" if value == "on" else "off"
        return ListenAddress().convert(value, param, ctx)
