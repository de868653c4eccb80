"""Durations on the command line."""

from __future__ import annotations

from datetime import timedelta

import click

from demaq.durations import duration_of


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """`90s`, `10m`, `12h`, `7d`, `2w`."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            return duration_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
