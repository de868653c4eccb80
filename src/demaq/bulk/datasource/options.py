"""The options of the data source, `option(name, value)`. Names are case-insensitive, values are strings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from demaq.errors import OperatorError
from demaq.suggestions import describe_unknown

READ_OPTIONS = ("store", "queue", "snapshot", "after", "all", "partitions", "types")
STREAM_OPTIONS = ("store", "queue", "after", "maxMessagesPerTrigger", "partitions", "types")
WRITE_OPTIONS = ("store", "queue", "batch")
SPARK_OPTIONS = ("path", "checkpointLocation", "queryName", "outputMode", "truncate")
"""Options that Spark adds."""
PARTITIONS_MAX = 10_000
NUMBER_MAX = 10**18
"""Larger than any number of a message."""


class WrongOption(OperatorError):
    """An option of the data source is missing, unknown or has a wrong value."""

    code = "DQ9321"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    store: str
    queue: str
    snapshot: int | None = None
    everything: bool = False
    after: int = 0
    messages_per_trigger: int | None = None
    partitions: int | None = None
    as_text: bool = False
    """Whether properties are read as strings instead of values of their types."""
    batch: str | None = None
    """The name of a batch: a repeated write under the same name adds nothing."""


def check_options(given: Mapping[str, str], allowed: tuple[str, ...]) -> Options:
    """Return the options of a read, a stream or a write. Raises WrongOption."""
    known = {name.lower(): value for name, value in given.items()}
    names = {name.lower() for name in (*allowed, *SPARK_OPTIONS)}
    for name in known:
        if name not in names:
            raise WrongOption(describe_unknown("option", name, allowed))
    for name in ("store", "queue"):
        if not known.get(name):
            raise WrongOption(f'the option {name} is missing: .option("{name}", …)')
    return Options(
        store=known["store"],
        queue=known["queue"],
        snapshot=_parse_number(known, "snapshot", 0, NUMBER_MAX),
        everything=_parse_choice(known, "all", "false", "true") == "true",
        after=_parse_number(known, "after", 0, NUMBER_MAX) or 0,
        messages_per_trigger=_parse_number(known, "maxMessagesPerTrigger", 1, NUMBER_MAX),
        partitions=_parse_number(known, "partitions", 1, PARTITIONS_MAX),
        as_text=_parse_choice(known, "types", "typed", "text") == "text",
        batch=known.get("batch"),
    )


def _parse_number(known: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    text = known.get(name.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most):
        raise WrongOption(f"the option {name} is a number from {least:,} to {most:,}, not {text}")
    return int(text)


def _parse_choice(known: Mapping[str, str], name: str, default: str, other: str) -> str:
    text = known.get(name.lower(), default).lower()
    if text not in (default, other):
        raise WrongOption(f"the option {name} is {default} or {other}, not {text}")
    return text
