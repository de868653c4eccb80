"""The files of tokens and users: a name and a hash on each line, perhaps until when, for which gateways, or a role.

    # who may send
    shop sha256:5e88…
    bank sha256:2bb8… expires 2027-11-16T08:30:00+00:00 queues payments,refunds
    # who may use the console and the HTTP API
    joe sha256:9f86… role operate

A node reads such a file again when it has changed. When it starts, everything in the file must be right. While it runs,
a line that is wrong is ignored and the others hold; with a file that cannot be read all are refused.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from demaq.errors import OperatorError
from demaq.files import lock_file, read_private, write_private
from demaq.gateways.security.file_watch import FileWatch
from demaq.gateways.security.passwords import is_password_hash
from demaq.gateways.security.tokens import is_token_hash
from demaq.suggestions import describe_unknown

Role: TypeAlias = Literal["read", "operate", "administer"]
ROLES: tuple[Role, ...] = get_args(Role)
"""What operators may do with the console and the HTTP API. Each role may do what the ones before it may."""
NAME_LENGTH_MAX = 64
_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9._@+-]{{0,{NAME_LENGTH_MAX - 1}}}", re.ASCII)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A sender or an operator: by which name, until when, into which gateways (None: all), and in which role.

    One with a role sends to the gateways that are named, and to no others.
    """

    name: str
    hash: str = field(repr=False)
    expires: datetime | None = None
    queues: frozenset[str] | None = None
    role: Role | None = None

    def line(self) -> str:
        words = [self.name, self.hash]
        if self.expires is not None:
            words += ["expires", self.expires.isoformat(timespec="seconds")]
        if self.queues:
            words += ["queues", ",".join(sorted(self.queues))]
        if self.role is not None:
            words += ["role", self.role]
        return " ".join(words)

    def has_expired(self, now: datetime) -> bool:
        return self.expires is not None and now >= self.expires


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What is in a file: `token` or `user`, and what its hashes look like."""

    noun: str
    command: str
    is_hash: Callable[[str], bool]


TOKENS = Kind(noun="token", command="tokens", is_hash=is_token_hash)
USERS = Kind(noun="user", command="users", is_hash=is_password_hash)


def expect_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise OperatorError(
            f"a name has up to {NAME_LENGTH_MAX} letters, digits and characters of ._@+- and begins with a letter, "
            "a digit or _"
        )


def read_entries(path: Path, kind: Kind) -> list[Entry]:
    """Return all entries of a file, each of which must be right. Raises OperatorError."""
    if not path.exists():
        raise OperatorError(f"{path}: there is no such file; demaq {kind.command} add NAME --file {path} makes it")
    entries, problems = _parse(read_private(path), kind)
    if problems:
        raise OperatorError(f"{path}: {problems[0]}")
    return entries


def add_entry(path: Path, kind: Kind, entry: Entry, *, replace: bool = False) -> None:
    """Add an entry to a file, which is created if there is none."""
    expect_name(entry.name)
    with lock_file(path):
        entries = read_entries(path, kind) if path.exists() else []
        known = entry.name in [other.name for other in entries]
        if known and not replace:
            raise OperatorError(f"{path}: there is a {kind.noun} {entry.name} already; --replace puts a new one there")
        lines = read_private(path).splitlines() if path.exists() else []
        if known:
            lines = [entry.line() if _name_on(line) == entry.name else line for line in lines]
        else:
            lines.append(entry.line())
        write_private(path, "\n".join(lines) + "\n")


def remove_entry(path: Path, kind: Kind, name: str) -> None:
    with lock_file(path):
        names = [entry.name for entry in read_entries(path, kind)]
        if name not in names:
            raise OperatorError(f"{path}: {describe_unknown(kind.noun, name, names)}")
        lines = [line for line in read_private(path).splitlines() if _name_on(line) != name]
        write_private(path, "".join([f"{line}\n" for line in lines]))


class CredentialFile:
    """A file as it is now: read again when it has changed, at most once a second."""

    def __init__(self, path: Path, kind: Kind, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._kind = kind
        self._watch = FileWatch([path], clock)
        self._set(read_entries(path, kind))

    def by_name(self, name: str) -> Entry | None:
        self._refresh()
        return self._by_name.get(name)

    def by_hash(self, hashed: str) -> Entry | None:
        self._refresh()
        return self._by_hash.get(hashed)

    def holds(self, entry: Entry) -> bool:
        """Return whether an entry is still in the file, unchanged."""
        return self.by_name(entry.name) == entry

    def _refresh(self) -> None:
        if not self._watch.has_changed():
            return
        try:
            entries, problems = _parse(read_private(self.path), self._kind)
        except OperatorError as error:
            _log.warning("%s; no sender is accepted by this file", error)
            entries, problems = [], []
        for problem in problems:
            _log.warning("%s: %s; the line is ignored", self.path, problem)
        self._set(entries)

    def _set(self, entries: Iterable[Entry]) -> None:
        self._by_name = {entry.name: entry for entry in entries}
        self._by_hash = {entry.hash: entry for entry in self._by_name.values()}


def _parse(text: str, kind: Kind) -> tuple[list[Entry], list[str]]:
    """Return who is in a file, and what is wrong with it, by line: never what the line says."""
    entries: dict[str, Entry] = {}
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if _name_on(line) is None:
            continue
        try:
            entry = _entry(line.split(), kind)
            if entry.name in entries:
                raise ValueError(f"{entry.name} is there twice")
            entries[entry.name] = entry
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    return list(entries.values()), problems


def _entry(words: list[str], kind: Kind) -> Entry:
    name, rest = words[0], words[1:]
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"it does not begin with the name of a {kind.noun}")
    if not rest or not kind.is_hash(rest[0]):
        raise ValueError(f"the second word is not a hash that demaq {kind.command} add makes")
    options = dict(zip(rest[1::2], rest[2::2], strict=False))
    if len(rest) % 2 == 0 or len(options) != len(rest) // 2 or not options.keys() <= {"expires", "queues", "role"}:
        raise ValueError("after the hash only `expires TIME`, `queues A,B` and `role NAME` may follow")
    expires = _time(options["expires"]) if "expires" in options else None
    queues = frozenset(options["queues"].split(",")) if "queues" in options else None
    role = options.get("role")
    if role is not None and role not in ROLES:
        raise ValueError(f"after `role` there must be one of {', '.join(ROLES)}")
    if role is not None and queues is None:
        queues = frozenset()
    return Entry(name=name, hash=rest[0], expires=expires, queues=queues, role=role)


def _time(text: str) -> datetime:
    try:
        time_ = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("after `expires` there must be a time such as 2027-11-16T08:30:00+00:00") from None
    return time_ if time_.tzinfo is not None else time_.replace(tzinfo=UTC)


def _name_on(line: str) -> str | None:
    words = line.split(maxsplit=1)
    return words[0] if words and not words[0].startswith("#") else None
