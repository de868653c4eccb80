"""TLS in both directions: the certificates a node shows, and those it believes.

What is wrong with a file is found when the node starts, and said in one line.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from demaq.errors import OperatorError
from demaq.files import expect_private, file_version
from demaq.gateways.security.certificate_dates import certificates_in, validity
from demaq.gateways.security.secrets import Secret

_log = logging.getLogger(__name__)

TLS_MIN = ssl.TLSVersion.TLSv1_2


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCertificate:
    """A certificate that a node shows, with the certificates above it, and its key: in one PEM file or in two."""

    certificate: Path
    key: Path | None = None
    key_password: Secret | None = None


def server_context(
    own: OwnCertificate, client_ca: Path | None = None, *, clients_must: bool = False, now: datetime | None = None
) -> ssl.SSLContext:
    """Return how a node serves. With `client_ca` clients may show a certificate of that authority, or must."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = TLS_MIN
    _show(context, own, now)
    if client_ca is not None:
        _load_authorities(context, client_ca, now)
        context.verify_mode = ssl.CERT_REQUIRED if clients_must else ssl.CERT_OPTIONAL
    return context


def client_context(
    *, ca: Path | None = None, ca_only: bool = False, own: OwnCertificate | None = None, now: datetime | None = None
) -> ssl.SSLContext:
    """Return how a node calls others: it believes the authorities of the system, those of `ca` too, or those alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = TLS_MIN
    if not (ca_only and ca is not None):
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if ca is not None:
        _load_authorities(context, ca, now)
    if own is not None:
        _show(context, own, now)
    return context


class Renewal:
    """Goes on with a new certificate when its files are replaced, for connections that are made from then on."""

    def __init__(self, context: ssl.SSLContext, own: OwnCertificate) -> None:
        self._context = context
        self._own = own
        self._state = self._look()

    def is_due(self) -> bool:
        """Return whether the files are others than when they were looked at last."""
        return self._look() != self._state

    def renew(self) -> None:
        """Look at the files. Where what is new there does not serve, say so once and go on with the old."""
        state = self._look()
        if state == self._state:
            return
        self._state = state
        try:
            server_context(self._own)  # a try: one that failed halfway would leave a certificate with another one's key
            _show(self._context, self._own, None)
        except OperatorError as error:
            _log.warning("%s; the former certificate stays", error)

    def _look(self) -> list[tuple[int, ...] | None]:
        return [file_version(path) for path in (self._own.certificate, self._own.key) if path is not None]


def _show(context: ssl.SSLContext, own: OwnCertificate, now: datetime | None) -> None:
    certificates = _certificates(own.certificate)
    _expect_valid(own.certificate, certificates[0], now)
    key = own.key or own.certificate
    _expect_private_key(key)
    try:
        context.load_cert_chain(own.certificate, own.key, password=_key_password(key, own.key_password))
    except ssl.SSLError as error:
        raise OperatorError(_describe_fault(error, own)) from None
    except OSError as error:
        raise OperatorError(f"{key}: {error.strerror}") from None


def _load_authorities(context: ssl.SSLContext, ca: Path, now: datetime | None) -> None:
    certificates = _certificates(ca)
    if len(certificates) == 1:  # of several, those that are still valid go on being of use
        _expect_valid(ca, certificates[0], now)
    try:
        context.load_verify_locations(cafile=ca)
    except (ssl.SSLError, OSError):
        raise OperatorError(f"{ca}: a certificate in it cannot be read") from None


def _certificates(path: Path) -> list[bytes]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise OperatorError(f"{path}: {error.strerror}") from None
    found = certificates_in(text)
    if not found:
        raise OperatorError(f"{path}: there is no certificate in it; a PEM file has -----BEGIN CERTIFICATE-----")
    return found


def _expect_valid(path: Path, certificate: bytes, now: datetime | None) -> None:
    dates = validity(certificate)
    if dates is None:
        raise OperatorError(f"{path}: the certificate in it cannot be read")
    first, last = dates
    moment = now or datetime.now(UTC)
    if moment > last:
        raise OperatorError(f"{path}: the certificate has expired on {last:%Y-%m-%d %H:%M:%S} UTC")
    if moment < first:
        raise OperatorError(f"{path}: the certificate is not valid before {first:%Y-%m-%d %H:%M:%S} UTC")


def _expect_private_key(path: Path) -> None:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        mode = path.stat().st_mode
    except OSError as error:
        raise OperatorError(f"{path}: {error.strerror}") from None
    if "PRIVATE KEY-----" not in text:
        raise OperatorError(f"{path}: there is no key in it; a PEM file has -----BEGIN PRIVATE KEY-----")
    expect_private(path, mode)


def _key_password(key: Path, password: Secret | None) -> Callable[[], str]:
    """Return a callback for the password of an encrypted key. Without it, OpenSSL would prompt on the terminal."""

    def answer() -> str:
        if password is None:
            raise OperatorError(f"{key}: the key is encrypted; say where its password is with key_password")
        return password.reveal()

    return answer


def _describe_fault(error: ssl.SSLError, own: OwnCertificate) -> str:
    key = own.key or own.certificate
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"{key}: this is not the key of the certificate in {own.certificate}"
    if own.key_password is not None:
        return f"{key}: the key cannot be read; perhaps its password is another one"
    return f"{key}: certificate and key cannot be used ({(error.reason or 'unknown').lower().replace('_', ' ')})"
