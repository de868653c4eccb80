"""Read a file of settings.

What is wrong with it is reported in one line: location, section, key, and what was probably meant. The first problem of
the file is reported, without the text around it, which may be a secret.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from demaq.configuration import Problem, Value
from demaq.errors import OperatorError
from demaq.gateways.security.origins import is_loopback
from demaq.gateways.security.tls import OwnCertificate
from demaq.gateways.settings.settings import (
    IncomingSettings,
    MailSettings,
    MessageSecuritySettings,
    OutgoingSettings,
    RelaySettings,
    Settings,
    TelemetrySection,
    Tls,
)
from demaq.gateways.settings.settings_keys import (
    INCOMING_KEYS,
    MAIL_KEYS,
    NODE_KEYS,
    OUTGOING_KEYS,
    SECTIONS,
    SECURITY_FIELDS,
    TELEMETRY_KEYS,
    TLS_KEYS,
    TOGETHER,
    Keys,
)
from demaq.gateways.settings.settings_reader import SettingsReader, is_secret
from demaq.source import Source, SourceLocation
from demaq.toml_values import parse_toml


def read_settings(
    file: Path, *, incoming: Collection[str], outgoing: Collection[str], environment: Mapping[str, str] = os.environ
) -> Settings:
    """Return the settings of a node whose application has these gateways. Raises OperatorError."""
    return _SettingsFile(file, incoming, outgoing, environment).read()


class _SettingsFile:
    def __init__(
        self, file: Path, incoming: Collection[str], outgoing: Collection[str], environment: Mapping[str, str]
    ) -> None:
        self._file = file
        self._gateways = {"incoming": incoming, "outgoing": outgoing}
        self._reader = SettingsReader(Source(self._text(), str(file)), file.parent, environment)
        self._locations: dict[tuple[str, str], SourceLocation] = {}
        """Of the keys of each section."""

    def read(self) -> Settings:
        content = self._content()
        defaults = IncomingSettings(users=self._file.parent / "users", tokens=self._file.parent / "tokens")
        node = self._values("node", content.get("node"), NODE_KEYS)
        own_incoming = self._gateway_sections("incoming", content.get("incoming"), INCOMING_KEYS)
        all_outgoing, own_outgoing = self._outgoing_sections(content.get("outgoing"))
        tls = self._values("tls", content.get("tls"), TLS_KEYS)
        mail = self._values("mail", content.get("mail"), MAIL_KEYS)
        telemetry = self._values("telemetry", content.get("telemetry"), TELEMETRY_KEYS)
        self._raise_first()
        metrics = {"metrics": node.pop("metrics")} if "metrics" in node else {}
        settings = Settings(
            file=self._file,
            tls=Tls(own=self._own_certificate("tls", tls), client_ca=tls.get("client_ca")),
            mail=self._mail(mail),
            telemetry=TelemetrySection(**telemetry),
            **metrics,
            incoming_default=self._incoming("node", defaults, node),
            outgoing_default=self._outgoing("outgoing", all_outgoing),
            incoming_by_queue={
                queue: self._incoming(f"incoming.{queue}", defaults, _inherit(node, own))
                for queue, own in own_incoming.items()
            },
            outgoing_by_queue={
                queue: self._outgoing(f"outgoing.{queue}", _inherit(all_outgoing, own))
                for queue, own in own_outgoing.items()
            },
        )
        self._expect_client_ca(settings)
        return settings

    # --- sections ----------------------------------------------------------------------------------------------------

    def _text(self) -> str:
        try:
            return self._file.read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise OperatorError(f"{self._file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise OperatorError(f"{self._file}: not UTF-8") from None

    def _content(self) -> Mapping[str, Value]:
        root = parse_toml(self._reader)
        if root is None:
            return {}
        content = self._reader.table(root, "the file", optional=SECTIONS)
        for name, value in content.items():
            if not isinstance(value.content, dict):
                self._reader.report(value.key_at, f"{name} is a section: [{name}]")
        self._raise_first()
        return content

    def _values(self, section: str, value: Value | None, keys: Keys) -> dict[str, Any]:
        """Return the fields that a section sets."""
        if value is None:
            return {}
        found: dict[str, Any] = {}
        for key, item in self._reader.table(value, f"[{section}]", optional=keys).items():
            field, read = keys[key]
            self._locations[section, key] = item.key_at
            found[field] = read(self._reader, item, f"[{section}] {key}")
        return found

    def _gateway_sections(self, kind: str, sections: Value | None, keys: Keys) -> dict[str, dict[str, Any]]:
        """Return what is set for each gateway by itself."""
        found: dict[str, dict[str, Any]] = {}
        for queue, value in (sections.content if sections is not None else {}).items():
            if not isinstance(value.content, dict):
                where = f"for one gateway, in [{kind}.QUEUE], or for all of them, in [node]"
                self._reader.report(value.key_at, f"[{kind}] {queue} is set {where}")
            elif queue not in self._gateways[kind]:
                self._report_unknown_gateway(kind, queue, value.key_at)
            else:
                found[queue] = self._values(f"{kind}.{queue}", value, keys)
        return found

    def _outgoing_sections(self, section: Value | None) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        if section is None:
            return {}, {}
        gateways = {
            name: value
            for name, value in section.content.items()
            if isinstance(value.content, dict) and not (name in OUTGOING_KEYS and is_secret(value))
        }
        common = {name: value for name, value in section.content.items() if name not in gateways}
        return (
            self._values("outgoing", replace(section, content=common), OUTGOING_KEYS),
            self._gateway_sections("outgoing", replace(section, content=gateways), OUTGOING_KEYS),
        )

    def _report_unknown_gateway(self, kind: str, queue: str, at: SourceLocation) -> None:
        other = "outgoing" if kind == "incoming" else "incoming"
        if queue in self._gateways[other]:
            self._reader.report(at, f"[{kind}.{queue}] {queue} is an {other} gateway: [{other}.{queue}]")
            return
        known = self._gateways[kind]
        message = f"[{kind}.{queue}] there is no {kind} gateway {queue}"
        self._reader.report_unknown(at, message, queue, known, f"{kind} gateways")

    # --- what belongs together ---------------------------------------------------------------------------------------

    def _incoming(self, section: str, defaults: IncomingSettings, values: Mapping[str, Any]) -> IncomingSettings:
        rest = dict(values)
        self._expect_rate_with_burst(section, rest)
        security = self._security(section, rest)
        return replace(defaults, **rest, security=security)

    def _outgoing(self, section: str, values: Mapping[str, Any]) -> OutgoingSettings:
        rest = dict(values)
        security = self._security(section, rest)
        own = self._own_certificate(section, rest)
        self._expect_rate_with_burst(section, rest)
        self._expect_user_with_password(section, rest)
        if "token" in rest and "user" in rest:
            self._fail(section, "token", "excludes user and password")
        found = OutgoingSettings(**rest, own=own, security=security)
        if found.retry_first_seconds > found.retry_seconds_max:
            key = "retry_first" if "retry_first_seconds" in rest else "retry_max"
            self._fail(section, key, "is wrong: retry_first is longer than retry_max")
        return found

    def _expect_rate_with_burst(self, section: str, values: Mapping[str, Any]) -> None:
        if "gateway_burst" in values and "gateway_rate_per_second" not in values:
            self._fail(section, "gateway_burst", "needs a gateway_rate, too")

    def _expect_user_with_password(self, section: str, values: Mapping[str, Any]) -> None:
        for given, missing in (("user", "password"), ("password", "user")):
            if given in values and missing not in values:
                self._fail(section, given, f"needs a {missing}, too")

    def _own_certificate(self, section: str, values: dict[str, Any]) -> OwnCertificate | None:
        """Remove what is about a certificate from the values, and return it."""
        given = {name: values.pop(name) for name in TOGETHER[0] if name in values}
        if given and "certificate" not in given:
            self._fail(section, next(iter(given)), "needs a certificate, too")
        return OwnCertificate(**given) if given else None

    def _security(self, section: str, values: dict[str, Any]) -> MessageSecuritySettings:
        """Remove what is about WS-Security from the values, and return it."""
        given = {key: values.pop(key) for key in SECURITY_FIELDS if key in values}
        for key, needed in (
            ("security_key", "security_certificate"),
            ("security_certificate", "security_key"),
            ("security_key_password", "security_key"),
            ("security_old_keys", "security_key"),
            ("security_password", "security_user"),
        ):
            if given.get(key) and needed not in given:
                self._fail(section, key, f"needs a {needed}, too")
        return MessageSecuritySettings(**{SECURITY_FIELDS[key]: value for key, value in given.items()})

    def _mail(self, values: Mapping[str, Any]) -> MailSettings:
        rest = {name: values[name] for name in ("sender", "size_bytes_max") if name in values}
        about_relay = {name: values[name] for name in ("user", "password", "ca", "ca_only") if name in values}
        if "relay" not in values:
            for given in [*about_relay, "starttls"]:
                if given in values:
                    self._fail("mail", given, "needs a relay, too")
            return MailSettings(**rest)
        scheme, host, port = values["relay"]
        self._expect_user_with_password("mail", values)
        if scheme == "smtps":
            if "starttls" in values:
                self._fail("mail", "starttls", "is for smtp://; smtps:// has TLS from the start")
            return MailSettings(relay=RelaySettings(host=host, port=port, tls="from the start", **about_relay), **rest)
        has_password = "password" in about_relay
        tls = values.get("starttls", "required" if has_password else "if offered")
        if has_password and tls != "required" and not is_loopback(host):
            self._fail("mail", "starttls", 'must be "required", because a password is sent to another machine')
        return MailSettings(relay=RelaySettings(host=host, port=port, tls=tls, **about_relay), **rest)

    def _expect_client_ca(self, settings: Settings) -> None:
        """Raises if client certificates are required and no authority for them is given."""
        if settings.tls.client_ca is not None:
            return
        sections = {"node": settings.incoming_default}
        sections |= {f"incoming.{queue}": incoming for queue, incoming in settings.incoming_by_queue.items()}
        for section, incoming in sections.items():
            if "certificate" in incoming.auth:
                self._fail(section, "auth", "needs client_ca in [tls] for client certificates")

    def _fail(self, section: str, key: str, problem: str) -> NoReturn:
        """Raise a problem with several keys, at the location of one that the section has or inherits."""
        at = self._locations.get((section, key)) or self._locations[section.partition(".")[0], key]
        raise OperatorError(str(Problem(f"[{section}] {key} {problem}", at)))

    def _raise_first(self) -> None:
        if self._reader.problems:
            raise OperatorError(str(min(self._reader.problems, key=lambda problem: problem.at.start)))


def _inherit(common: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return what holds for one gateway: its own settings, and those for all that it does not replace."""
    replaced = {name for group in TOGETHER if own.keys() & set(group) for name in group}
    return {**{name: value for name, value in common.items() if name not in replaced}, **own}
