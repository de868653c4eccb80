"""The sections and keys of a file of settings, in the order in which the reference shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from demaq.configuration import Value
from demaq.gateways.settings.settings_reader import SettingsReader

Kind = Callable[[SettingsReader, Value, str], Any]

Keys = Mapping[str, tuple[str, Kind]]
"""Key of the file -> the field it sets, and how it is read."""

SECTIONS = ("node", "incoming", "outgoing", "mail", "tls", "telemetry")


def one_of(*choices: str) -> Kind:
    return lambda reader, value, what: reader.one_of(value, what, choices)


_OWN_SECURITY: Keys = {
    "security_key": ("security_key", SettingsReader.path),
    "security_certificate": ("security_certificate", SettingsReader.path),
    "security_key_password": ("security_key_password", SettingsReader.secret),
    "security_old_keys": ("security_old_keys", SettingsReader.paths),
    "security_trusted": ("security_trusted", SettingsReader.paths),
    "security_roots": ("security_roots", SettingsReader.paths),
    "security_known": ("security_known", SettingsReader.paths),
}
_MESSAGE_AGE: Keys = {
    "clock_skew": ("clock_skew", SettingsReader.duration_up_to_a_day),
    "message_lifetime": ("message_lifetime", SettingsReader.duration_up_to_a_day),
}
_GATEWAY_RATE: Keys = {
    "gateway_rate": ("gateway_rate_per_second", SettingsReader.rate),
    "gateway_burst": ("gateway_burst", SettingsReader.count),
}
INCOMING_KEYS: Keys = {
    "auth": ("auth", SettingsReader.auth),
    "users": ("users", SettingsReader.path),
    "tokens": ("tokens", SettingsReader.path),
    "certificates": ("certificates", SettingsReader.lines),
    "body_max": ("body_bytes_max", SettingsReader.size_above_zero),
    "body_time": ("body_seconds_max", SettingsReader.duration),
    "reply_time": ("reply_seconds_max", SettingsReader.duration),
    "late": ("late", one_of("accepted", "timeout")),
    "backlog_max": ("backlog_max", SettingsReader.count),
    "disk_free_min": ("disk_free_bytes_min", SettingsReader.size),
    "retry_after": ("retry_after_seconds", SettingsReader.duration),
    **_GATEWAY_RATE,
    "answer_recipients": ("answer_recipients", SettingsReader.recipients),
    **_OWN_SECURITY,
    "security_users": ("security_users", SettingsReader.path),
    **_MESSAGE_AGE,
}
NODE_KEYS: Keys = {**INCOMING_KEYS, "metrics": ("metrics", one_of("authenticated", "open", "off"))}
OUTGOING_KEYS: Keys = {
    "connections": ("connections", SettingsReader.count),
    "rate": ("rate_per_second", SettingsReader.rate),
    **_GATEWAY_RATE,
    "attempts": ("attempts", SettingsReader.count),
    "retry_first": ("retry_first_seconds", SettingsReader.duration),
    "retry_max": ("retry_seconds_max", SettingsReader.duration),
    "timeout": ("timeout_seconds", SettingsReader.duration),
    "breaker_failures": ("breaker_failures", SettingsReader.count),
    "breaker_pause": ("breaker_pause_seconds", SettingsReader.duration),
    "ca": ("ca", SettingsReader.path),
    "ca_only": ("ca_only", SettingsReader.flag),
    "certificate": ("certificate", SettingsReader.path),
    "key": ("key", SettingsReader.path),
    "key_password": ("key_password", SettingsReader.secret),
    "user": ("user", SettingsReader.user),
    "password": ("password", SettingsReader.secret),
    "token": ("token", SettingsReader.secret),
    "credentials_to": ("credentials_to", SettingsReader.origins),
    "recipients": ("recipients", SettingsReader.recipients),
    "answer_address": ("answer_address", SettingsReader.http_address),
    "reply_time": ("reply_seconds", SettingsReader.duration),
    "sequence_idle": ("sequence_idle_seconds", SettingsReader.duration),
    **_OWN_SECURITY,
    "security_partner": ("security_partner", SettingsReader.path),
    "security_user": ("security_user", SettingsReader.line),
    "security_password": ("security_password", SettingsReader.secret),
    **_MESSAGE_AGE,
}
MAIL_KEYS: Keys = {
    "relay": ("relay", SettingsReader.relay),
    "starttls": ("starttls", one_of("never", "if offered", "required")),
    "user": ("user", SettingsReader.user),
    "password": ("password", SettingsReader.secret),
    "ca": ("ca", SettingsReader.path),
    "ca_only": ("ca_only", SettingsReader.flag),
    "sender": ("sender", SettingsReader.mail_address),
    "size_max": ("size_bytes_max", SettingsReader.size_above_zero),
}
TLS_KEYS: Keys = {
    "certificate": ("certificate", SettingsReader.path),
    "key": ("key", SettingsReader.path),
    "key_password": ("key_password", SettingsReader.secret),
    "client_ca": ("client_ca", SettingsReader.path),
}
TELEMETRY_KEYS: Keys = {
    "endpoint": ("endpoint", SettingsReader.telemetry_address),
    "sample": ("sample", SettingsReader.share),
}

SECURITY_FIELDS: Mapping[str, str] = {
    **{key: key.removeprefix("security_") for key in _OWN_SECURITY},
    "security_partner": "partner",
    "security_users": "users",
    "security_user": "user",
    "security_password": "password",
    "clock_skew": "clock_skew_seconds",
    "message_lifetime": "lifetime_seconds",
}
"""Keys about WS-Security -> the fields of MessageSecuritySettings."""

TOGETHER = (
    ("certificate", "key", "key_password"),
    ("user", "password", "token"),
    ("security_key", "security_certificate", "security_key_password", "security_old_keys"),
    ("security_trusted", "security_roots", "security_known"),
    ("security_user", "security_password"),
)
"""A gateway that says one of these inherits none of the others: half of them would be another one's."""
