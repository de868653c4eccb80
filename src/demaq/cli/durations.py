"""Durations as operators write them."""

from __future__ import annotations

import re
from datetime import timedelta

import click

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """`90s`, `10m`, `12h`, `7d`, `2w`."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", str(value), re.ASCII)
        if match is None:
            self.fail(f"{value} is not a duration such as 90s, 10m, 12h, 7d", param, ctx)
        try:
            return timedelta(**{_UNITS[match[2]]: float(match[1])})
        except OverflowError:
            self.fail(f"{value} is longer than anybody can wait", param, ctx)
