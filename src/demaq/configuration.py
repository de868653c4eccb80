"""Read files that people write: typed values with their location, and every problem of a file in one run.

`toml_values.py` and `yaml_values.py` parse a file into a `Value`; this module checks what is in it. A problem is
recorded with its location and reading continues with None, so the caller decides whether the first problem is shown or
all of them. No message contains a value, because a secret may be written in the wrong place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from demaq.quantities import duration_of, size_of
from demaq.source import Source, SourceLocation
from demaq.suggestions import Suggestions

NUMBER_MAX = 10**12


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a file, with its location and that of its key. Without a key both are the same."""

    content: Any
    """A dict of values, a list of values, a scalar; None if nothing is written."""
    at: SourceLocation
    key_at: SourceLocation


Table: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong in a file, where, and what was probably meant."""

    message: str
    at: SourceLocation
    hint: str | None = None

    def __str__(self) -> str:
        """Return all of it in one line. Names in quotes may have any character, so line ends become blanks."""
        return f"{self.at}: {self.message}{f'; {self.hint}' if self.hint else ''}".replace("\n", " ")


class ConfigurationReader:
    """Typed access to the values of one file.

    `what` names a value in messages. A value that is None is an optional one that is not there.
    """

    def __init__(self, source: Source, *, scalars_are_text: bool = False) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self._scalars_are_text = scalars_are_text
        """Whether a number and a flag are written as text, as in YAML that was not resolved."""
        self._suggestions = Suggestions()

    def report(self, at: SourceLocation, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(message, at, hint))

    def report_unknown(self, at: SourceLocation, message: str, name: str, known: Iterable[str], kind: str) -> None:
        """Report an unknown name with the most similar known one, or with all that are known."""
        names = sorted(known)
        hint = self._suggestions.did_you_mean(name, names, '"{}"')
        if hint is None:
            hint = f"{kind}: {', '.join(names)}" if names else f"there are no {kind}"
        self.report(at, message, hint)

    # --- tables and lists --------------------------------------------------------------------------------------------

    def table(self, value: Value, what: str, required: Collection[str] = (), optional: Collection[str] = ()) -> Table:
        """Return a table that has all required keys and no unknown ones; without the unknown ones if there are any."""
        found = self.any_table(value, what)
        if found is None:
            return {}
        known = [*required, *optional]
        for name, item in found.items():
            if name not in known:
                self.report_unknown(item.key_at, f'"{name}" is not a key of {what}', name, known, "keys")
        for name in required:
            if name not in found:
                self.report(value.at, f'{what} needs the key "{name}"')
        return {name: item for name, item in found.items() if name in known}

    def any_table(self, value: Value | None, what: str) -> Table | None:
        """Return a table with any keys."""
        if value is None:
            return None
        if isinstance(value.content, dict):
            return value.content
        self._report_shape(value, what, "keys with values")
        return None

    def list(self, value: Value | None, what: str) -> list[Value] | None:
        if value is None:
            return None
        if isinstance(value.content, list):
            return value.content
        self._report_shape(value, what, "a list")
        return None

    # --- scalars -----------------------------------------------------------------------------------------------------

    def text(self, value: Value | None, what: str) -> str | None:
        """Return text, which may be empty."""
        if value is None:
            return None
        if isinstance(value.content, str):
            return value.content
        self._report_shape(value, what, "text")
        return None

    def number(self, value: Value, what: str, minimum: int = 0) -> int | None:
        number = value.content
        if self._scalars_are_text and isinstance(number, str) and number.isascii() and number.isdigit():
            number = int(number) if len(number) <= len(str(NUMBER_MAX)) else None
        # True is an int to Python.
        if isinstance(number, int) and not isinstance(number, bool) and minimum <= number <= NUMBER_MAX:
            return number
        self.report(value.at, f"{what} must be a number from {minimum} on")
        return None

    def flag(self, value: Value | None, what: str) -> bool | None:
        if value is None:
            return None
        if isinstance(value.content, bool):
            return value.content
        if self._scalars_are_text and value.content in ("true", "false"):
            return bool(value.content == "true")
        self.report(value.at, f"{what} must be true or false")
        return None

    def duration(self, value: Value, what: str) -> float | None:
        """Return a number of seconds that is not 0."""
        try:
            seconds = duration_of(value.content if isinstance(value.content, str) else "").total_seconds()
        except ValueError:
            seconds = 0.0
        if seconds > 0:
            return seconds
        self.report(value.at, f"{what} must be a duration longer than 0s, such as 90s, 10m, 12h, 7d")
        return None

    def size(self, value: Value, what: str, minimum: int = 0) -> int | None:
        """Return a number of bytes."""
        try:
            found = size_of(value.content if isinstance(value.content, str) else "")
        except ValueError:
            found = -1
        if found >= minimum:
            return found
        self.report(value.at, f"{what} must be a size{' larger than 0' if minimum else ''}, such as 500KB, 16MB, 2GB")
        return None

    def one_of(self, value: Value | None, what: str, choices: Collection[str]) -> str | None:
        """Return one of some words of the format."""
        if value is None:
            return None
        if isinstance(value.content, str) and value.content in choices:
            return value.content
        known = ", ".join([f'"{choice}"' for choice in choices])
        hint = (
            self._suggestions.did_you_mean(value.content, choices, '"{}"') if isinstance(value.content, str) else None
        )
        self.report(value.at, f"{what} must be {'one of ' if len(choices) > 1 else ''}{known}", hint)
        return None

    def name(self, value: Value | None, what: str, known: Collection[str], kind: str) -> str | None:
        """Return the name of something that exists outside the file, such as a queue."""
        name = self.text(value, what)
        if value is None or name is None or name in known:
            return name
        self.report_unknown(value.at, f'there is no {what} "{name}"', name, known, kind)
        return None

    def _report_shape(self, value: Value, what: str, shape: str) -> None:
        found = describe_shape(value)
        self.report(value.at, f"{what} is missing" if found == "nothing" else f"{what} must be {shape}, not {found}")


def describe_shape(value: Value) -> str:
    match value.content:
        case None:
            return "nothing"
        case dict():
            return "keys with values"
        case list():
            return "a list"
        case str():
            return "text"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case _:
            return "a date or time"
