"""Times as operators write them: a date, a time of a day, or how long ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import click

from demaq.cli.durations import Duration


class TimeOrAge(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """`2026-11-16`, `2026-11-16T08:30`, `2026-11-16T08:30+01:00`, or how long ago: `2h`. Without a zone it is UTC."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            time = datetime.fromisoformat(str(value))
        except ValueError:
            return self._ago(str(value), param, ctx)
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)

    def _ago(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            age = Duration().convert(value, param, ctx)
            assert isinstance(age, timedelta)
            return datetime.now(UTC) - age
        except (click.BadParameter, OverflowError):
            self.fail(f"{value} is neither a time such as 2026-11-16T08:30 nor an age such as 2h", param, ctx)
