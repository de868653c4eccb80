"""Properties of a message as somebody types them."""

from __future__ import annotations

from collections.abc import Iterable

import click


def given_properties(items: Iterable[str]) -> dict[str, str]:
    """The properties that `--with NAME=VALUE` sets, each once."""
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
    """Bytes that are no characters come from the shell as halves of characters."""
    return not any(["\ud800" <= character <= "\udfff" for character in value])
