"""What the policy of a gateway needs of its settings, found out before the first message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

from demaq.errors import OperatorError
from demaq.gateways.security.message_keys import KeyMaterial
from demaq.gateways.settings.settings import MessageSecuritySettings
from demaq.soap.security import ExchangeRequirements, PasswordForm, SecurityRequirements, TokenForm
from demaq.soap.security.certificate_checks import (
    UnfitCertificate,
    check_dates,
    check_recipient,
    check_signer,
    describe_subject,
)
from demaq.soap.security.signatures import choose_method

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

GatewayRole = Literal["service", "client"]
_IN_MESSAGE: Final = frozenset({TokenForm.BINARY_TOKEN, TokenForm.EMBEDDED})
"""The forms in which a message brings the certificate itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityNeeds:
    """The policy of one gateway and its settings."""

    exchange: ExchangeRequirements
    settings: MessageSecuritySettings
    section: str
    role: GatewayRole

    def expect_settings(self) -> None:
        """Raise OperatorError if a setting is missing, or no settings can serve the policy."""
        if self.exchange.answer.username is not None:
            raise OperatorError(f"[{self.section}] the policy asks for users in answers; only requests can have them")
        if self.role == "service" and self.exchange.answer.is_encrypted and not self.exchange.request.is_signed:
            problem = "requests are not signed, so there is no certificate to encrypt for"
            raise OperatorError(f"[{self.section}] the policy asks for encrypted answers, but {problem}")
        for key, purpose in self._missing():
            raise OperatorError(f"[{self.section}] {key} is missing: the policy needs it to {purpose}")

    def expect_fit_keys(self, keys: KeyMaterial, now: datetime) -> None:
        """Raise OperatorError if a key or certificate does not serve the policy now."""
        if keys.own_key is not None:
            self._expect_fit_own(keys.own_key.certificate, now)
        if keys.partner is not None and self._sent.is_encrypted:
            try:
                check_recipient(keys.partner, now, self._sent.suite)
            except UnfitCertificate as error:
                raise self._unfit("security_partner", keys.partner, str(error)) from None

    @property
    def _sent(self) -> SecurityRequirements:
        return self.exchange.answer if self.role == "service" else self.exchange.request

    @property
    def _received(self) -> SecurityRequirements:
        return self.exchange.request if self.role == "service" else self.exchange.answer

    def _missing(self) -> Iterator[tuple[str, str]]:
        """Yield missing settings, each with what it is needed for."""
        sent, received = ("answers", "requests") if self.role == "service" else ("requests", "answers")
        for key, value in (("security_key", self.settings.key), ("security_certificate", self.settings.certificate)):
            if value is None and self._sent.is_signed:
                yield key, f"sign {sent}"
            if value is None and self._received.is_encrypted:
                yield key, f"decrypt {received}"
        if self._received.is_signed:
            yield from self._missing_trust(received)
        if self.role == "client" and self._sent.is_encrypted and self.settings.partner is None:
            yield "security_partner", f"encrypt {sent}"
        yield from self._missing_users()

    def _missing_trust(self, received: str) -> Iterator[tuple[str, str]]:
        if not self.settings.trusted and not self.settings.roots:
            yield "security_trusted or security_roots", f"verify signatures of {received}"
        is_in_message = not _IN_MESSAGE.isdisjoint(self._received.signing_tokens)
        if not is_in_message and not self.settings.trusted and not self.settings.known:
            yield "security_trusted or security_known", f"find certificates that {received} only refer to"

    def _missing_users(self) -> Iterator[tuple[str, str]]:
        username = self.exchange.request.username
        if username is None:
            return
        has_password = username.password is not PasswordForm.NONE
        if self.role == "service":
            if has_password and self.settings.users is None:
                yield "security_users", "check passwords of requests"
            return
        if self.settings.user is None:
            yield "security_user", "name a user in requests"
        if has_password and self.settings.password is None:
            yield "security_password", "prove the user of requests"

    def _expect_fit_own(self, certificate: Certificate, now: datetime) -> None:
        from cryptography.hazmat.primitives.asymmetric import rsa

        try:
            if self._sent.is_signed:
                check_signer(certificate, now, self._sent.suite)
                choose_method(certificate, self._sent.suite)
            if self._received.is_encrypted:
                check_dates(certificate, now)
                if not isinstance(certificate.public_key(), rsa.RSAPublicKey):
                    raise UnfitCertificate("its key is not of kind RSA, and cannot decrypt keys")
        except (UnfitCertificate, OperatorError) as error:
            raise self._unfit("security_certificate", certificate, str(error)) from None

    def _unfit(self, key: str, certificate: Certificate, problem: str) -> OperatorError:
        return OperatorError(f"[{self.section}] {key}: the certificate of {describe_subject(certificate)}: {problem}")
