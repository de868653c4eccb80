"""Kinds of values that only settings have: paths, secrets, rates, addresses of servers and mail."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from demaq.configuration import ConfigurationReader, Value
from demaq.errors import OperatorError
from demaq.files import read_private
from demaq.gateways.security.authentication import AUTH_KINDS
from demaq.gateways.security.origins import origin_of
from demaq.gateways.security.recipients import Recipients, WrongEntry
from demaq.gateways.security.secrets import Secret
from demaq.source import Source

NO_AUTH = "none"
DAY_SECONDS = 24 * 60 * 60
_PERIODS = {"s": 1, "min": 60, "h": 3600}
_RATE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)/(s|min|h)", re.ASCII)
_MAIL_ADDRESS = re.compile(r"[^\s@<>,;\"]+@[^\s@<>,;\"]+")
_RELAY_PORTS = {"smtp": 25, "smtps": 465}


class SettingsReader(ConfigurationReader):
    """Reads the values of a file of settings. Paths are relative to its folder."""

    def __init__(self, source: Source, folder: Path, environment: Mapping[str, str]) -> None:
        super().__init__(source)
        self._folder = folder
        self._environment = environment

    def count(self, value: Value, what: str) -> int | None:
        return self.number(value, what, minimum=1)

    def size_above_zero(self, value: Value, what: str) -> int | None:
        return self.size(value, what, minimum=1)

    def rate(self, value: Value, what: str) -> float | None:
        match = _RATE.fullmatch(value.content) if isinstance(value.content, str) else None
        if match is not None and float(match[1]) > 0:
            return float(match[1]) / _PERIODS[match[2]]
        self.report(value.at, f"{what} must be a rate such as 50/s, 100/min")
        return None

    def line(self, value: Value, what: str) -> str | None:
        if isinstance(value.content, str) and value.content.strip() and value.content.isprintable():
            return value.content
        self.report(value.at, f"{what} must be text on one line")
        return None

    def user(self, value: Value, what: str) -> str | None:
        found = self.line(value, what)
        if found is not None and ":" in found:
            self.report(value.at, f"{what} must not contain a colon")
        return found

    def lines(self, value: Value, what: str) -> tuple[str, ...] | None:
        if not isinstance(value.content, list):
            self.report(value.at, f'{what} must be a list of texts, such as ["a", "b"]')
            return None
        found = [self.line(item, what) for item in value.content]
        return tuple([item for item in found if item is not None])

    def origins(self, value: Value, what: str) -> tuple[str, ...] | None:
        found = self.lines(value, what)
        for address in found or ():
            if origin_of(address) is None or "@" in address:
                self.report(value.at, f'{what} must be a list of servers, such as ["https://bank.example.org"]')
        return found

    def http_address(self, value: Value, what: str) -> str | None:
        found = self.line(value, what)
        if found is not None and (origin_of(found) is None or "@" in found or " " in found):
            self.report(value.at, f"{what} must be an address such as https://node.example.org/soap-answers")
        return found

    def telemetry_address(self, value: Value, what: str) -> str | None:
        found = self.line(value, what)
        if found is not None and found != "environment" and (origin_of(found) is None or "@" in found or " " in found):
            self.report(value.at, f'{what} must be an address such as http://127.0.0.1:4318, or "environment"')
        return found

    def share(self, value: Value, what: str) -> float | None:
        """Return a number from 0 to 1."""
        number = value.content
        if isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= 1:
            return float(number)
        self.report(value.at, f"{what} must be a number from 0 to 1, such as 0.01")
        return None

    def recipients(self, value: Value, what: str) -> Recipients | None:
        try:
            return Recipients.of(self.lines(value, what) or ())
        except WrongEntry:
            example = '["*.example.org", "10.0.0.0/8:*", "mailto:*"]'
            self.report(value.at, f"{what} must be a list of hosts, networks and mail addresses, such as {example}")
            return None

    def path(self, value: Value, what: str) -> Path | None:
        found = self.line(value, what)
        return None if found is None else self._folder / found

    def paths(self, value: Value, what: str) -> tuple[Path, ...] | None:
        found = self.lines(value, what)
        return None if found is None else tuple([self._folder / item for item in found])

    def duration_up_to_a_day(self, value: Value, what: str) -> float | None:
        """Return a number of seconds, not 0 and at most those of a day."""
        seconds = self.duration(value, what)
        if seconds is not None and seconds > DAY_SECONDS:
            self.report(value.at, f"{what} must not be longer than 1d")
        return seconds

    def auth(self, value: Value, what: str) -> tuple[str, ...] | None:
        items = value.content if isinstance(value.content, list) else [value]
        named = [self.one_of(item, what, (NO_AUTH, *AUTH_KINDS)) for item in items]
        if named == [NO_AUTH]:
            return ()
        if NO_AUTH in named or not named:
            self.report(value.at, f'{what} must be "{NO_AUTH}" alone, or a list of what senders may authenticate with')
        return tuple([kind for kind in AUTH_KINDS if kind in named])

    def secret(self, value: Value, what: str) -> Secret | None:
        """Return a secret from a file, without the end of its line, or from the environment.

        It is never written in the settings themselves.
        """
        if not is_secret(value) or len(value.content) != 1:
            self.report(value.at, f'{what} is a secret: write {{file = "PATH"}} or {{env = "NAME"}}')
            return None
        ((kind, item),) = value.content.items()
        named = self.line(item, what)
        if named is None:
            return None
        if kind == "env":
            found, source = self._environment.get(named, ""), f"the variable {named}"
        else:
            source = str(self._folder / named)
            try:
                found = read_private(self._folder / named).rstrip("\r\n")
            except OperatorError as error:
                self.report(item.at, f"{what}: {error}")
                return None
        if not found:
            self.report(item.at, f"{what}: {source} is {'not set' if kind == 'env' else 'empty'}")
        elif not found.isprintable():
            self.report(item.at, f"{what}: {source} has more than one line, or characters that cannot be typed")
        return Secret(found)

    def mail_address(self, value: Value, what: str) -> str | None:
        if isinstance(value.content, str) and _MAIL_ADDRESS.fullmatch(value.content) is not None:
            return value.content
        self.report(value.at, f"{what} must be an address such as demaq@example.org")
        return None

    def relay(self, value: Value, what: str) -> tuple[str, str, int] | None:
        """Return scheme, host and port of a mail server."""
        try:
            parts = urlsplit(value.content if isinstance(value.content, str) else "")
            scheme, host, port = parts.scheme, parts.hostname, parts.port
        except ValueError:
            scheme, host, port = "", None, None
        if scheme not in _RELAY_PORTS or not host or parts.path not in ("", "/") or parts.query or parts.fragment:
            self.report(value.at, f"{what} must be an address such as smtp://mail.example.org:25 or smtps://…")
            return None
        if "@" in parts.netloc:
            self.report(value.at, f"{what} must not contain a user: write the keys user and password")
        return scheme, host, port if port is not None else _RELAY_PORTS[scheme]


def is_secret(value: Value) -> bool:
    """Return whether a value is a table that can name a file or variable with a secret."""
    return isinstance(value.content, dict) and value.content.keys() <= {"file", "env"}
