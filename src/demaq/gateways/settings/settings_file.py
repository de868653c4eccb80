"""Read a file of settings. Whatever is wrong with it is one line: file, section, key, and what was probably meant."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from demaq.errors import OperatorError
from demaq.gateways.security.origins import is_loopback
from demaq.gateways.security.tls import OwnCertificate
from demaq.gateways.settings import kinds
from demaq.gateways.settings.kinds import Reader, Surroundings, Wrong
from demaq.gateways.settings.settings import (
    IncomingSettings,
    MailSettings,
    OutgoingSettings,
    RelaySettings,
    Settings,
    Tls,
)
from demaq.language.resolving.suggestions import describe_unknown

SECTIONS = ("node", "incoming", "outgoing", "mail", "tls")

# Key of the file -> the field it sets, and how it is read. The reference shows them in this order.
Keys = Mapping[str, tuple[str, Reader]]
INCOMING_KEYS: Keys = {
    "auth": ("auth", kinds.auth),
    "users": ("users", kinds.path),
    "tokens": ("tokens", kinds.path),
    "certificates": ("certificates", kinds.texts),
    "body_max": ("body_bytes_max", kinds.size_of_something),
    "body_time": ("body_seconds_max", kinds.duration),
    "reply_time": ("reply_seconds_max", kinds.duration),
    "late": ("late", kinds.one_of("accepted", "timeout")),
    "backlog_max": ("backlog_max", kinds.count),
    "disk_free_min": ("disk_free_bytes_min", kinds.size),
    "retry_after": ("retry_after_seconds", kinds.duration),
}
NODE_KEYS: Keys = {**INCOMING_KEYS, "metrics": ("metrics", kinds.one_of("authenticated", "open", "off"))}
OUTGOING_KEYS: Keys = {
    "connections": ("connections", kinds.count),
    "rate": ("rate_per_second", kinds.rate),
    "attempts": ("attempts", kinds.count),
    "retry_first": ("retry_first_seconds", kinds.duration),
    "retry_max": ("retry_seconds_max", kinds.duration),
    "timeout": ("timeout_seconds", kinds.duration),
    "breaker_failures": ("breaker_failures", kinds.count),
    "breaker_pause": ("breaker_pause_seconds", kinds.duration),
    "ca": ("ca", kinds.path),
    "ca_only": ("ca_only", kinds.flag),
    "certificate": ("certificate", kinds.path),
    "key": ("key", kinds.path),
    "key_password": ("key_password", kinds.secret),
    "user": ("user", kinds.user),
    "password": ("password", kinds.secret),
    "token": ("token", kinds.secret),
    "credentials_to": ("credentials_to", kinds.origins),
    "recipients": ("recipients", kinds.recipients),
}
MAIL_KEYS: Keys = {
    "relay": ("relay", kinds.relay),
    "starttls": ("starttls", kinds.one_of("never", "if offered", "required")),
    "user": ("user", kinds.user),
    "password": ("password", kinds.secret),
    "ca": ("ca", kinds.path),
    "ca_only": ("ca_only", kinds.flag),
    "sender": ("sender", kinds.mail_address),
    "size_max": ("size_bytes_max", kinds.size_of_something),
}
TLS_KEYS: Keys = {
    "certificate": ("certificate", kinds.path),
    "key": ("key", kinds.path),
    "key_password": ("key_password", kinds.secret),
    "client_ca": ("client_ca", kinds.path),
}

TOGETHER = (("certificate", "key", "key_password"), ("user", "password", "token"))
"""A gateway that says one of these inherits none of the others: half of them would be another one's."""


def read_settings(
    file: Path, *, incoming: Collection[str], outgoing: Collection[str], environment: Mapping[str, str] = os.environ
) -> Settings:
    """Return the settings of a node whose application has these gateways. Raises OperatorError."""
    return _File(file, incoming, outgoing, environment).settings()


@dataclass(frozen=True, slots=True)
class _Section:
    """One section of the file, by the name that stands in brackets."""

    name: str
    values: Mapping[str, Any]


class _File:
    def __init__(
        self, file: Path, incoming: Collection[str], outgoing: Collection[str], environment: Mapping[str, str]
    ) -> None:
        self._file = file
        self._gateways = {"incoming": incoming, "outgoing": outgoing}
        self._at = Surroundings(file.parent, environment)

    def settings(self) -> Settings:
        content = self._content()
        for name, value in content.items():
            if name not in SECTIONS:
                self._fail(describe_unknown("section" if isinstance(value, dict) else "setting", name, SECTIONS))
            if not isinstance(value, dict):
                self._fail(f"{name} is a section: [{name}]")
        beside = IncomingSettings(users=self._at.folder / "users", tokens=self._at.folder / "tokens")
        node = self._values(_Section("node", content.get("node", {})), NODE_KEYS)
        about_metrics = {"metrics": node.pop("metrics")} if "metrics" in node else {}
        own_incoming = self._gateway_sections("incoming", content.get("incoming", {}), INCOMING_KEYS)
        all_outgoing, own_outgoing = self._outgoing_sections(content.get("outgoing", {}))
        settings = Settings(
            file=self._file,
            tls=self._tls(_Section("tls", content.get("tls", {}))),
            mail=self._mail(_Section("mail", content.get("mail", {}))),
            **about_metrics,
            incoming_default=replace(beside, **node),
            outgoing_default=self._outgoing("outgoing", all_outgoing),
            incoming_by_queue={queue: replace(beside, **{**node, **own}) for queue, own in own_incoming.items()},
            outgoing_by_queue={
                queue: self._outgoing(f"outgoing.{queue}", _inherit(all_outgoing, own))
                for queue, own in own_outgoing.items()
            },
        )
        self._expect_client_ca(settings)
        return settings

    # --- sections ----------------------------------------------------------------------------------------------------

    def _content(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self._file.read_bytes().decode("utf-8-sig"))
        except OSError as error:
            self._fail(str(error.strerror))
        except UnicodeDecodeError:
            self._fail("not UTF-8")
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            self._fail(f"not TOML: {error}")

    def _values(self, section: _Section, keys: Keys) -> dict[str, Any]:
        """Return the fields that a section sets."""
        found: dict[str, Any] = {}
        for key, value in section.values.items():
            if key not in keys:
                self._fail(describe_unknown("setting", key, keys), section.name)
            field, read = keys[key]
            try:
                found[field] = read(value, self._at)
            except Wrong as wrong:
                self._fail(str(wrong), section.name, key)
        return found

    def _gateway_sections(self, kind: str, sections: Mapping[str, Any], keys: Keys) -> dict[str, dict[str, Any]]:
        """Return what is set for each gateway by itself."""
        found: dict[str, dict[str, Any]] = {}
        for queue, values in sections.items():
            if not isinstance(values, dict):
                self._fail(f"{queue} is set for one gateway, in [{kind}.QUEUE], or for all of them, in [node]", kind)
            if queue not in self._gateways[kind]:
                self._fail(self._unknown_gateway(kind, queue), f"{kind}.{queue}")
            found[queue] = self._values(_Section(f"{kind}.{queue}", values), keys)
        return found

    def _outgoing_sections(self, content: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        # Secrets are tables too, of one file or variable.
        sections = {
            name: value
            for name, value in content.items()
            if isinstance(value, dict) and not (name in OUTGOING_KEYS and value.keys() <= {"file", "env"})
        }
        common = {name: value for name, value in content.items() if name not in sections}
        return (
            self._values(_Section("outgoing", common), OUTGOING_KEYS),
            self._gateway_sections("outgoing", sections, OUTGOING_KEYS),
        )

    def _unknown_gateway(self, kind: str, queue: str) -> str:
        other = "outgoing" if kind == "incoming" else "incoming"
        if queue in self._gateways[other]:
            return f"{queue} is an {other} gateway: [{other}.{queue}]"
        return describe_unknown(f"{kind} gateway", queue, self._gateways[kind])

    # --- what belongs together ---------------------------------------------------------------------------------------

    def _outgoing(self, section: str, values: Mapping[str, Any]) -> OutgoingSettings:
        rest = dict(values)
        own = self._own_certificate(section, rest)
        if ("user" in rest) != ("password" in rest):
            given, missing = ("user", "password") if "user" in rest else ("password", "user")
            self._fail(f"{given}: it needs a {missing} beside it", section)
        if "token" in rest and "user" in rest:
            self._fail("token: either a token, or a user with a password", section)
        found = OutgoingSettings(**rest, own=own)
        if found.retry_first_seconds > found.retry_seconds_max:
            self._fail("retry_first: it is longer than retry_max", section)
        return found

    def _own_certificate(self, section: str, values: dict[str, Any]) -> OwnCertificate | None:
        """Takes what is about a certificate out of the values."""
        given = {name: values.pop(name) for name in TOGETHER[0] if name in values}
        if given and "certificate" not in given:
            self._fail(f"{next(iter(given))}: it needs a certificate beside it", section)
        return OwnCertificate(**given) if given else None

    def _tls(self, section: _Section) -> Tls:
        values = self._values(section, TLS_KEYS)
        return Tls(own=self._own_certificate("tls", values), client_ca=values.get("client_ca"))

    def _mail(self, section: _Section) -> MailSettings:
        values = self._values(section, MAIL_KEYS)
        rest = {name: values[name] for name in ("sender", "size_bytes_max") if name in values}
        about_relay = {name: values[name] for name in ("user", "password", "ca", "ca_only") if name in values}
        if "relay" not in values:
            given = next(iter([*about_relay, *[name for name in ("starttls",) if name in values]]), None)
            if given is not None:
                self._fail(f"{given}: it needs a relay beside it", "mail")
            return MailSettings(**rest)
        scheme, host, port = values["relay"]
        if ("user" in about_relay) != ("password" in about_relay):
            self._fail("user and password are given together", "mail")
        if scheme == "smtps":
            if "starttls" in values:
                self._fail("starttls: smtps:// has TLS from the start", "mail")
            return MailSettings(relay=RelaySettings(host=host, port=port, tls="from the start", **about_relay), **rest)
        has_password = "password" in about_relay
        tls = values.get("starttls", "required" if has_password else "if offered")
        if has_password and tls != "required" and not is_loopback(host):
            self._fail('starttls: a password is sent to another machine, so it is "required"', "mail")
        return MailSettings(relay=RelaySettings(host=host, port=port, tls=tls, **about_relay), **rest)

    def _expect_client_ca(self, settings: Settings) -> None:
        """Client certificates mean nothing without an authority that has signed them."""
        if settings.tls.client_ca is not None:
            return
        sections = {"node": settings.incoming_default}
        sections |= {f"incoming.{queue}": incoming for queue, incoming in settings.incoming_by_queue.items()}
        for section, incoming in sections.items():
            if "certificate" in incoming.auth:
                self._fail("client certificates need client_ca in [tls]", section, "auth")

    def _fail(self, problem: str, section: str | None = None, key: str | None = None) -> NoReturn:
        place = f"{self._file}:" + (f" [{section}]" if section else "") + (f" {key}:" if key else "")
        raise OperatorError(f"{place} {problem}".replace("\n", " "))  # names in quotes may have any character


def _inherit(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what holds for one gateway: its own settings, and those for all that it does not replace."""
    replaced = {name for group in TOGETHER if own.keys() & set(group) for name in group}
    return {**{name: value for name, value in common.items() if name not in replaced}, **own}
