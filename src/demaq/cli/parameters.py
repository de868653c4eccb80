"""Values on the command line: durations, times, sizes, properties, and `-` for standard input."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from demaq.quantities import SampleRate, duration_of, sample_rate_of, share_of, size_of


class Duration(click.ParamType[timedelta]):
    """`90s`, `10m`, `12h`, `7d`, `2w`."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            return duration_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Seconds(click.FloatRange):
    """A finite number of seconds: click alone takes `nan` for a number in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return seconds


class Size(click.ParamType[int]):
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


COUNT = click.IntRange(1, 1_000_000_000)
"""How many things to show or take. A store knows no number of more than 64 bits."""


class Share(click.ParamType[float]):
    """`0.01`, `1/100`."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            return share_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Sample(click.ParamType[SampleRate]):
    """`1/100`: one in a hundred."""

    name = "sample"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> SampleRate:
        if isinstance(value, SampleRate):
            return value
        try:
            return sample_rate_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class TimeOrAge(click.ParamType[datetime]):
    """`2026-11-16`, `2026-11-16T08:30`, `2026-11-16T08:30+01:00`, or how long ago: `2h`. Without a zone it is UTC."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            time = datetime.fromisoformat(str(value))
        except ValueError:
            return self._parse_age(str(value), param, ctx)
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)

    def _parse_age(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            age = Duration().convert(value, param, ctx)
            assert isinstance(age, timedelta)
            return datetime.now(UTC) - age
        except (click.BadParameter, OverflowError):
            self.fail(f"{value} is neither a time such as 2026-11-16T08:30 nor an age such as 2h", param, ctx)


def parse_properties(items: Iterable[str]) -> dict[str, str]:
    """Return the properties that `--with NAME=VALUE` sets, each once."""
    given: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--with takes NAME=VALUE, not {item}")
        if name in given:
            raise click.UsageError(f"--with sets {name} twice")
        if not _is_text(value):
            raise click.UsageError(f"--with {name}: the value is not UTF-8")
        given[name] = value
    return given


def _is_text(value: str) -> bool:
    """Return whether a value is UTF-8. Python represents other bytes of the command line as lone surrogates."""
    return not any(["\ud800" <= character <= "\udfff" for character in value])


STDIN = "-"
STDIN_NAME = "<stdin>"
"""What it is called where a place in it is named."""


def read_stdin() -> bytes:
    """Return all of it. Ends the command where there is none."""
    # A process that was started without one has None here, whatever the type says.
    if sys.stdin is None:
        raise click.ClickException("standard input is closed")
    return sys.stdin.buffer.read()
