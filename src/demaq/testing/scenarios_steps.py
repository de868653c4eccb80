"""A scenario as a value: what arrives, how time passes, and what must then be there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from demaq.source import SourceLocation
from demaq.testing.scenarios_xml import ComparedDocument

SECONDS_MAX = 100 * 366 * 86_400.0
"""A scenario spans a century at most."""

_UNITS = {
    "seconds": ("s", "sec", "second", "seconds"),
    "minutes": ("m", "min", "minute", "minutes"),
    "hours": ("h", "hour", "hours"),
    "days": ("d", "day", "days"),
    "weeks": ("w", "week", "weeks"),
}
_LENGTHS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400, "weeks": 604_800}
_SECONDS = {word: _LENGTHS[unit] for unit, words in _UNITS.items() for word in words}
_PART = r"(\d+(?:\.\d+)?)\s*([a-z]+)"
_ISO = re.compile(
    r"P(?=.)(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)


def seconds_of(text: str) -> float | None:
    """Return the length in seconds; None if it is no duration, or one of more than a century."""
    iso = _ISO.fullmatch(text.strip())
    if iso is not None:
        total = sum([float(number) * _LENGTHS[unit] for unit, number in iso.groupdict().items() if number])
    elif re.fullmatch(rf"{_PART}(?:\s*{_PART})*", text.strip(), re.ASCII):
        parts = re.findall(_PART, text, re.ASCII)
        if any([word not in _SECONDS for _, word in parts]):
            return None
        total = sum([float(number) * _SECONDS[word] for number, word in parts])
    else:
        return None
    return total if total <= SECONDS_MAX else None


Look: TypeAlias = Literal["made", "new", "holds", "retained", "stored"]
"""How an expectation looks at a queue: what was made there, made lately, is visible, must be kept, lies on the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioMessage:
    """A message for intake. Its body is as the author wrote it, well-formed or not."""

    queue: str
    body: bytes | str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A message that must be there. Without a body any will do; a property of None must be absent."""

    body: ComparedDocument | None
    properties: Mapping[str, str | None]
    exact: bool = False
    """Whether white space between elements counts."""


Wanted: TypeAlias = int | tuple[Expected, ...]
"""So many messages, or these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrives:
    at: SourceLocation
    messages: tuple[ScenarioMessage, ...]

    def __str__(self) -> str:
        return f"arrives in {', '.join(dict.fromkeys([message.queue for message in self.messages]))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectRefusal:
    at: SourceLocation
    message: ScenarioMessage
    kind: str | None
    reason: str | None

    def __str__(self) -> str:
        return f"refused by {self.message.queue}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    at: SourceLocation
    seconds: float
    text: str

    def __str__(self) -> str:
        return f"passes {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    at: SourceLocation

    def __str__(self) -> str:
        return "crash"


@dataclass(frozen=True, slots=True, kw_only=True)
class Takes:
    at: SourceLocation
    queue: str
    wanted: Wanted
    any_order: bool

    def __str__(self) -> str:
        return f"takes from {self.queue}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectQueue:
    at: SourceLocation
    queue: str
    look: Look
    wanted: Wanted
    any_order: bool

    def __str__(self) -> str:
        return f"expect queue {self.queue}, {self.look}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectSlice:
    at: SourceLocation
    slicing: str
    key: str
    wanted: Wanted
    any_order: bool

    def __str__(self) -> str:
        return f'expect slice {self.slicing}, key "{self.key}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectError:
    """An error message with everything that is not None here."""

    at: SourceLocation
    queue: str | None
    kind: str | None
    rule: str | None
    code: str | None
    contains: str | None

    def __str__(self) -> str:
        known = (self.kind, self.rule and f"of rule {self.rule}", self.queue and f"in {self.queue}", self.code)
        words = [word for word in known if word]
        return " ".join(["expect error", *words])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectNoErrors:
    at: SourceLocation

    def __str__(self) -> str:
        return "expect no errors"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectTimers:
    at: SourceLocation
    count: int

    def __str__(self) -> str:
        return "expect timers"


Step: TypeAlias = (
    Arrives
    | ExpectRefusal
    | Passes
    | Crash
    | Takes
    | ExpectQueue
    | ExpectSlice
    | ExpectError
    | ExpectNoErrors
    | ExpectTimers
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    at: SourceLocation
    name: str
    steps: tuple[Step, ...]
    errors_allowed: bool
    collections: Mapping[str, tuple[bytes | str, ...]]
    begins: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFile:
    file: str
    scenarios: tuple[Scenario, ...]
