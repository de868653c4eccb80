"""Limits on the command line: seconds and sizes, none of which may be endless, nothing, or no number at all."""

from __future__ import annotations

import math
from typing import Any

import click

from demaq.sizes import size_of


class Seconds(click.FloatRange):
    """A finite number of seconds: click alone takes `nan` for a number in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return seconds


class Size(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """`500MB`, `2GB`, `1GiB`: at least so many bytes."""

    name = "size"

    def __init__(self, bytes_min: int) -> None:
        self._bytes_min = bytes_min

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            size = size_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if size < self._bytes_min:
            self.fail(f"{value} is less than {self._bytes_min // 1_000_000}MB", param, ctx)
        return size
