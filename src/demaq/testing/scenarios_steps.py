"""A scenario as a value: what arrives, how time passes, and what must then be there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from demaq.language.source import Place
from demaq.testing.scenarios_xml import Body

Look: TypeAlias = Literal["made", "new", "holds", "retained", "stored"]
"""How an expectation looks at a queue: what was made there, made lately, is visible, must be kept, lies on the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A message for intake. Its body is as the author wrote it, well-formed or not."""

    queue: str
    body: bytes | str
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A message that must be there. Without a body any will do; a property of None must be absent."""

    body: Body | None
    properties: Mapping[str, str | None]
    exact: bool = False
    """Whether white space between elements counts."""


Wanted: TypeAlias = int | tuple[Expected, ...]
"""So many messages, or these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrives:
    at: Place
    messages: tuple[Incoming, ...]

    def __str__(self) -> str:
        return f"arrives in {', '.join(dict.fromkeys([message.queue for message in self.messages]))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    at: Place
    message: Incoming
    kind: str | None
    reason: str | None

    def __str__(self) -> str:
        return f"refused by {self.message.queue}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    at: Place
    seconds: float
    text: str

    def __str__(self) -> str:
        return f"passes {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    at: Place

    def __str__(self) -> str:
        return "crash"


@dataclass(frozen=True, slots=True, kw_only=True)
class Takes:
    at: Place
    queue: str
    wanted: Wanted
    any_order: bool

    def __str__(self) -> str:
        return f"takes from {self.queue}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectQueue:
    at: Place
    queue: str
    look: Look
    wanted: Wanted
    any_order: bool

    def __str__(self) -> str:
        return f"expect queue {self.queue}, {self.look}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectSlice:
    at: Place
    slicing: str
    key: str
    wanted: Wanted
    any_order: bool

    def __str__(self) -> str:
        return f'expect slice {self.slicing}, key "{self.key}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectError:
    """An error message with everything that is not None here."""

    at: Place
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
    at: Place

    def __str__(self) -> str:
        return "expect no errors"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectTimers:
    at: Place
    count: int

    def __str__(self) -> str:
        return "expect timers"


Step: TypeAlias = (
    Arrives | Refused | Passes | Crash | Takes | ExpectQueue | ExpectSlice | ExpectError | ExpectNoErrors | ExpectTimers
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    at: Place
    name: str
    steps: tuple[Step, ...]
    errors_allowed: bool
    collections: Mapping[str, tuple[bytes | str, ...]]
    begins: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFile:
    file: str
    scenarios: tuple[Scenario, ...]
