"""One request for a page: what it is given, and what it may return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import quote, urlencode

from demaq.console.access import User
from demaq.console.known_application import ApplicationCache, KnownApplication
from demaq.console.node_monitor import NodeMonitor
from demaq.console.worker_process import WorkerProcess
from demaq.gateways.security.credential_file import Role
from demaq.operations.error_groups import KnownErrors
from demaq.store.location import StoreLocation
from demaq.store.sql_store import SqlStore

PAGE_LIMIT, LIMIT_MAX = 50, 500
TEXT_MAX = 2_000
"""The longest parameter."""
NUMBER_DIGITS_MAX = 18
_YES, _NO = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


class NotThere(Exception):
    """There is no such message, queue or page."""


class BadRequest(Exception):
    """A parameter is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A page, made of a template."""

    template: str
    values: Mapping[str, Any]
    status: int = 200


@dataclass(frozen=True, slots=True)
class Data:
    """Values of JSON."""

    value: Any


@dataclass(frozen=True, slots=True)
class Redirect:
    """Go on there, after an action."""

    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """Bytes that a browser stores, and does not interpret."""

    name: str
    data: bytes


Answer: TypeAlias = Rendered | Data | Redirect | Download


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request, as a page sees it."""

    store: SqlStore
    place: StoreLocation
    application: KnownApplication | None
    """None if none ran on the store yet."""
    applications: ApplicationCache
    """For applications on other stores."""
    others: tuple[str, ...]
    """Stores of other nodes, into which conversations are followed."""
    monitor: NodeMonitor
    worker: WorkerProcess
    known_errors: KnownErrors
    user: User
    path: str
    parts: Mapping[str, str]
    """Of the path, by their names."""
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def text(self, name: str) -> str | None:
        """Return a parameter; None if it is empty. Raises BadRequest if it is too long."""
        value = self.query.get(name, "").strip()
        if len(value) > TEXT_MAX:
            raise BadRequest(f"{name} is too long")
        if "\0" in value:
            raise BadRequest(f"{name} has a character that no text has")
        return value or None

    def number(self, name: str) -> int | None:
        value = self.text(name)
        return None if value is None else parse_whole_number(value, name)

    def flag(self, name: str) -> bool:
        return self.text(name) not in (None, "0", "false", "no")

    def is_ticked(self, name: str) -> bool:
        """Return whether a field of the form says yes. Raises BadRequest if it says neither yes nor no."""
        value = self.form.get(name, "").strip().lower()
        if value not in (*_YES, *_NO):
            raise BadRequest(f"{name} is true or false")
        return value in _YES

    def limit(self) -> int:
        return min(max(self.number("limit") or PAGE_LIMIT, 1), LIMIT_MAX)

    def choice(self, name: str, choices: tuple[str, ...]) -> str | None:
        value = self.text(name)
        if value is not None and value not in choices:
            raise BadRequest(f"{name} is one of {', '.join(choices)}")
        return value

    def address(self, **changes: object) -> str:
        """Return the address of this page with other parameters; None removes one."""
        query = {**self.query, **changes}
        kept = {name: str(value) for name, value in query.items() if value is not None and value != ""}
        return f"{self.path}?{urlencode(kept)}" if kept else self.path


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolePage:
    """A path and the function that answers it."""

    path: str
    show: Callable[[Visit], Answer]
    role: Role = "read"
    method: Literal["GET", "POST"] = "GET"


def parse_whole_number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > NUMBER_DIGITS_MAX:
        raise BadRequest(f"{name} is a number")
    return int(text)


def link_to(*parts: object, **query: object) -> str:
    """Return the address of a page of the console."""
    path = "/".join(["/console", *[quote(str(part), safe="") for part in parts]])
    kept = {name: str(value) for name, value in query.items() if value is not None and value != ""}
    return f"{path}?{urlencode(kept)}" if kept else path


STATIC = Path(__file__).parent / "static"
TEMPLATES = Path(__file__).parent / "templates"
