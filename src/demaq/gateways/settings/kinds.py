"""Kinds of values in a file of settings: each reads what TOML gives, or says what is wrong with it.

What is wrong is said without the value if it might be a secret in the wrong place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from demaq.errors import OperatorError
from demaq.files import read_private
from demaq.gateways.security.authentication import AUTH_KINDS
from demaq.gateways.security.origins import origin_of
from demaq.gateways.security.recipients import Recipients, WrongEntry
from demaq.gateways.security.secrets import Secret
from demaq.language.resolving.suggestions import Suggestions
from demaq.quantities import duration_of, size_of

SHOWN_MAX = 40
COUNT_MAX = 10**12
NO_AUTH = "none"
_PERIODS = {"s": 1, "min": 60, "h": 3600}
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)/(s|min|h)", re.ASCII)
_MAIL_ADDRESS = re.compile(r"[^\s@<>,;\"]+@[^\s@<>,;\"]+")
_RELAY_PORTS = {"smtp": 25, "smtps": 465}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a value is read: paths are seen from the folder of the file."""

    folder: Path
    environment: Mapping[str, str]


class Wrong(Exception):
    """A value is not of its kind."""


Reader = Callable[[Any, Surroundings], Any]


def duration(value: Any, at: Surroundings) -> float:
    if not isinstance(value, str):
        raise Wrong(f"{shown(value)} is not a duration such as 90s, 10m, 12h, 7d")
    try:
        seconds = duration_of(value).total_seconds()
    except ValueError as error:
        raise Wrong(str(error)[: 3 * SHOWN_MAX]) from None
    if seconds <= 0:
        raise Wrong("it is longer than nothing")
    return seconds


def size(value: Any, at: Surroundings) -> int:
    try:
        return size_of(value if isinstance(value, str) else "")
    except ValueError:
        raise Wrong(f"{shown(value)} is not a size such as 500KB, 16MB, 2GB") from None


def size_of_something(value: Any, at: Surroundings) -> int:
    found = size(value, at)
    if found == 0:
        raise Wrong("it is larger than nothing")
    return found


def rate(value: Any, at: Surroundings) -> float:
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise Wrong(f"{shown(value)} is not a rate such as 50/s, 100/min")
    return float(match[1]) / _PERIODS[match[2]]


def count(value: Any, at: Surroundings) -> int:
    # True is an int to Python, and a mistake here.
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= COUNT_MAX:
        raise Wrong(f"{shown(value)} is not a number from 1 on")
    return value


def flag(value: Any, at: Surroundings) -> bool:
    if not isinstance(value, bool):
        raise Wrong("it is true or false")
    return value


def text(value: Any, at: Surroundings) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise Wrong("it is a text on one line")
    return value


def user(value: Any, at: Surroundings) -> str:
    found = text(value, at)
    if ":" in found:
        raise Wrong("the name of a user has no colon in it")
    return found


def texts(value: Any, at: Surroundings) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Wrong('it is a list of texts, such as ["a", "b"]')
    return tuple([text(item, at) for item in value])


def origins(value: Any, at: Surroundings) -> tuple[str, ...]:
    found = texts(value, at)
    for address in found:
        if origin_of(address) is None or "@" in address:
            raise Wrong('it is a list of servers, such as ["https://bank.example.org"]')
    return found


def recipients(value: Any, at: Surroundings) -> Recipients:
    try:
        return Recipients.of(texts(value, at))
    except WrongEntry:
        raise Wrong(
            'it is a list of hosts, networks and mail addresses, such as ["*.example.org", "10.0.0.0/8:*", "mailto:*"]'
        ) from None


def path(value: Any, at: Surroundings) -> Path:
    return at.folder / text(value, at)


def one_of(*choices: str) -> Reader:
    def read(value: Any, at: Surroundings) -> str:
        if value not in choices:
            raise Wrong(_none_of(value, choices))
        return str(value)

    return read


def auth(value: Any, at: Surroundings) -> tuple[str, ...]:
    named = value if isinstance(value, list) else [value]
    for item in named:
        if item not in (NO_AUTH, *AUTH_KINDS):
            raise Wrong(_none_of(item, (NO_AUTH, *AUTH_KINDS)))
    if named == [NO_AUTH]:
        return ()
    if NO_AUTH in named or not named:
        raise Wrong(f'either "{NO_AUTH}" alone, or what senders may show')
    return tuple([kind for kind in AUTH_KINDS if kind in named])


def secret(value: Any, at: Surroundings) -> Secret:
    """From a file, without the end of its line, or from the environment. Never from the settings themselves."""
    if not isinstance(value, dict) or len(value) != 1 or not value.keys() <= {"file", "env"}:
        raise Wrong('a secret is not written here; say {file = "PATH"} or {env = "NAME"}')
    named = next(iter(value.values()))
    if not isinstance(named, str) or not named.isprintable():
        raise Wrong('say {file = "PATH"} or {env = "NAME"}')
    if "env" in value:
        found = at.environment.get(named, "")
        source = f"the variable {named}"
    else:
        try:
            found = read_private(at.folder / named).rstrip("\r\n")
        except OperatorError as error:
            raise Wrong(str(error)) from None
        source = str(at.folder / named)
    if not found:
        raise Wrong(f"{source} is not set" if "env" in value else f"{source} is empty")
    if not found.isprintable():
        raise Wrong(f"{source} holds more than one line, or characters that nobody can type")
    return Secret(found)


def mail_address(value: Any, at: Surroundings) -> str:
    if not isinstance(value, str) or _MAIL_ADDRESS.fullmatch(value) is None:
        raise Wrong("it is an address such as demaq@example.org")
    return value


def relay(value: Any, at: Surroundings) -> tuple[str, str, int]:
    """Scheme, host and port of a mail server. A password has no place in it, so nothing of it is shown."""
    try:
        parts = urlsplit(value) if isinstance(value, str) else urlsplit("")
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        scheme, host, port = "", None, None
    if scheme not in _RELAY_PORTS or not host or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise Wrong("it is an address such as smtp://mail.example.org:25 or smtps://mail.example.org")
    if "@" in parts.netloc:
        raise Wrong("who we are is said by user and password, not in the address")
    return scheme, host, port if port is not None else _RELAY_PORTS[scheme]


def shown(value: object) -> str:
    """Return a value as it stands in the file, cut where it is long."""
    line = json.dumps(value, ensure_ascii=False, default=str)
    return line if len(line) <= SHOWN_MAX else line[: SHOWN_MAX - 1] + "…"


def _none_of(value: object, choices: Sequence[str]) -> str:
    listed = ", ".join([f'"{choice}"' for choice in choices])
    hint = Suggestions().did_you_mean(value, choices, '"{}"') if isinstance(value, str) else None
    return f"it is one of {listed}" + (f"; {hint}" if hint else "")
