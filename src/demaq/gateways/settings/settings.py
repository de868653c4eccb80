"""Settings as the node uses them: everything resolved, durations in seconds, sizes in bytes, paths where they are."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from demaq.errors import OperatorError
from demaq.gateways.security.authentication import AuthKind
from demaq.gateways.security.authorization_header import basic_header
from demaq.gateways.security.origins import origin_of
from demaq.gateways.security.recipients import NO_RECIPIENTS, Recipients
from demaq.gateways.security.secrets import Secret
from demaq.gateways.security.tls import OwnCertificate, client_context, server_context

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSecuritySettings:
    """Keys, certificates and users of WS-Security for one gateway. What its policy does not need may be left out."""

    key: Path | None = None
    certificate: Path | None = None
    """That of `key`. It signs, and others encrypt for it."""
    key_password: Secret | None = None
    old_keys: tuple[Path, ...] = ()
    """Files with a former key and its certificate each, for which others may still encrypt."""
    trusted: tuple[Path, ...] = ()
    roots: tuple[Path, ...] = ()
    """Authorities: what they have issued is trusted."""
    known: tuple[Path, ...] = ()
    """Certificates that are trusted if a root has issued them: intermediate ones, and those that messages refer to."""
    partner: Path | None = None
    """The certificate for which requests are encrypted."""
    users: Path | None = None
    """Who may send, with passwords."""
    user: str | None = None
    password: Secret | None = None
    clock_skew_seconds: float = 300.0
    lifetime_seconds: float = 300.0
    """How long a message is valid after it was made: one that we send, and one that we accept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingSettings:
    """How one incoming gateway takes messages."""

    auth: tuple[AuthKind, ...] = ()
    """What senders have to show: one of these. Empty: nothing."""
    users: Path = Path("users")
    tokens: Path = Path("tokens")
    certificates: tuple[str, ...] = ()
    """Names in client certificates that are let in. Empty: all that the authority has signed."""
    body_bytes_max: int = 16 * MEGABYTE
    body_seconds_max: float = 30.0
    """How long a sender may take to send a request."""
    reply_seconds_max: float = 30.0
    """How long a sender waits for a synchronous answer."""
    late: Literal["accepted", "timeout"] = "accepted"
    """What is said when none comes in time: 202 or 504."""
    backlog_max: int = 1_000_000
    disk_free_bytes_min: int = 100 * MEGABYTE
    retry_after_seconds: float = 10.0
    gateway_rate_per_second: float | None = None
    """How many messages it takes in a second. Above: 429."""
    gateway_burst: int | None = None
    """How many of them may come at once; None: those of a second."""
    answer_recipients: Recipients = NO_RECIPIENTS
    """To whom answers, faults and acknowledgements may go that senders do not want on their connection."""
    security: MessageSecuritySettings = MessageSecuritySettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingSettings:
    """How one outgoing gateway sends messages."""

    connections: int = 8
    rate_per_second: float | None = None
    """How many messages go to one endpoint."""
    gateway_rate_per_second: float | None = None
    """How many messages it sends altogether."""
    gateway_burst: int | None = None
    """How many of them may go at once; None: those of a second."""
    attempts: int = 12
    retry_first_seconds: float = 1.0
    retry_seconds_max: float = 600.0
    timeout_seconds: float = 30.0
    breaker_failures: int = 5
    breaker_pause_seconds: float = 30.0
    ca: Path | None = None
    ca_only: bool = False
    own: OwnCertificate | None = None
    user: str | None = None
    password: Secret | None = None
    token: Secret | None = None
    credentials_to: tuple[str, ...] = ()
    recipients: Recipients = NO_RECIPIENTS
    """Whom messages may name as recipients, besides the gateway's own endpoint and `credentials_to`."""
    answer_address: str | None = None
    """Where others reach this node with SOAP answers that are not responses. None: answers are responses."""
    reply_seconds: float = 60.0
    """How long such an answer may take before the message is sent again."""
    sequence_idle_seconds: float = 60.0
    """After so long without messages a sequence of WS-ReliableMessaging is terminated."""
    security: MessageSecuritySettings = MessageSecuritySettings()

    def allowed(self) -> Recipients:
        """Return all whom messages of this gateway may name."""
        listed = Recipients.of(self.credentials_to)
        return Recipients(places=(*self.recipients.places, *listed.places), mails=self.recipients.mails)

    def is_trusted_with_credentials(self, url: str, endpoint: str | None) -> bool:
        """Return whether a request to this address may have our password or token.

        Where a message goes may be said by the message. So credentials go to the gateway's own endpoint and to servers
        that the operator lists, and to no others.
        """
        origin = origin_of(url)
        trusted = [origin_of(address) for address in (endpoint, *self.credentials_to) if address is not None]
        return origin is not None and origin in trusted

    def authorization(self, url: str, endpoint: str | None) -> str | None:
        """Return the `Authorization` header for a request to this address, if it is to have one."""
        if not self.is_trusted_with_credentials(url, endpoint):
            return None
        if self.token is not None:
            return f"Bearer {self.token.reveal()}"
        if self.user is not None and self.password is not None:
            return basic_header(self.user, self.password)
        return None

    def client_context(self) -> ssl.SSLContext:
        """Return the TLS context of this gateway."""
        return client_context(ca=self.ca, ca_only=self.ca_only, own=self.own)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """The mail server that mails are given to."""

    host: str
    port: int
    tls: Literal["never", "if offered", "required", "from the start"]
    user: str | None = None
    password: Secret | None = None
    ca: Path | None = None
    ca_only: bool = False

    def client_context(self) -> ssl.SSLContext:
        return client_context(ca=self.ca, ca_only=self.ca_only)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailSettings:
    relay: RelaySettings | None = None
    sender: str | None = None
    """Who mails are from, where a message does not say."""
    size_bytes_max: int = 24 * MEGABYTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    own: OwnCertificate | None = None
    client_ca: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySection:
    """Where spans go, and which share of traces is recorded."""

    endpoint: str | None = None
    sample: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a node's gateways. Made by `read_settings`; without a file all is as by default."""

    file: Path | None = None
    tls: Tls = Tls()
    mail: MailSettings = MailSettings()
    telemetry: TelemetrySection = TelemetrySection()
    metrics: Literal["authenticated", "open", "off"] = "authenticated"
    """Who may read /metrics: those who may send to all gateways, all, or none."""
    incoming_default: IncomingSettings = IncomingSettings()
    outgoing_default: OutgoingSettings = OutgoingSettings()
    incoming_by_queue: Mapping[str, IncomingSettings] = field(default_factory=dict)
    outgoing_by_queue: Mapping[str, OutgoingSettings] = field(default_factory=dict)

    def incoming(self, queue: str) -> IncomingSettings:
        return self.incoming_by_queue.get(queue, self.incoming_default)

    def outgoing(self, queue: str) -> OutgoingSettings:
        return self.outgoing_by_queue.get(queue, self.outgoing_default)

    def with_tls(self, certificate: Path, key: Path | None) -> Settings:
        """Return settings with the certificate of the command line; the password of its key stays."""
        password = self.tls.own.key_password if self.tls.own is not None else None
        own = OwnCertificate(certificate=certificate, key=key, key_password=password)
        return replace(self, tls=replace(self.tls, own=own))

    def with_ca(self, ca: Path) -> Settings:
        """Return settings with the authorities of the command line wherever the file names none."""

        def trust_authority(outgoing: OutgoingSettings) -> OutgoingSettings:
            return outgoing if outgoing.ca is not None else replace(outgoing, ca=ca)

        relay = self.mail.relay
        if relay is not None and relay.ca is None:
            relay = replace(relay, ca=ca)
        return replace(
            self,
            mail=replace(self.mail, relay=relay),
            outgoing_default=trust_authority(self.outgoing_default),
            outgoing_by_queue={queue: trust_authority(outgoing) for queue, outgoing in self.outgoing_by_queue.items()},
        )

    def server_context(self) -> ssl.SSLContext | None:
        """Return the TLS context of the node's server; None if it serves without TLS."""
        if self.tls.own is not None:
            return server_context(self.tls.own, self.tls.client_ca)
        if self.tls.client_ca is not None:
            raise OperatorError(f"{self.file}: [tls] client_ca: client certificates need a certificate of the node too")
        return None
