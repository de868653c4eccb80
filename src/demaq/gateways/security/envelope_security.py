"""WS-Security for the envelopes of one gateway: its policy, applied with the keys and users that its settings name.

An answer is encrypted for the certificate that has signed its request. A request that was not verified has none that
could be relied on, and no signatures to confirm: the fault that answers it is signed, if answers are, and neither
encrypted nor a confirmation. SOAP Message Security 1.1 leaves open how faults are secured (section 12), and other
services send them without a security header. So a client must expect a fault in the clear, and not believe it:
`verify_answer` refuses it, and `is_unsecured_fault` recognises it.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from demaq.documents import parse_document
from demaq.errors import MessageError, OperatorError
from demaq.gateways.security.message_keys import KeyMaterial, MessageKeys
from demaq.gateways.security.security_needs import GatewayRole, SecurityNeeds
from demaq.gateways.settings.settings import MessageSecuritySettings
from demaq.soap.envelope import detect_version
from demaq.soap.faults import read_fault
from demaq.soap.security import (
    ExchangeRequirements,
    MessageParts,
    ProtectedEnvelope,
    Protection,
    ReplayCache,
    SecurityRequirements,
    UserCredential,
    Verification,
    VerificationSettings,
    VerifiedEnvelope,
    secure,
    verify,
)
from demaq.soap.security.certificate_checks import UnfitCertificate, check_recipient, describe_subject
from demaq.soap.security.security_faults import invalid_token

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_log = logging.getLogger(__name__)


class EnvelopeSecurity:
    """Verifies and secures the messages of one gateway. May be used by several threads."""

    def __init__(
        self,
        exchange: ExchangeRequirements,
        settings: MessageSecuritySettings,
        *,
        section: str,
        role: GatewayRole,
        clock: Callable[[], datetime],
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """Read the files of keys, certificates and users. Raises OperatorError if one is not as it should be.

        `section` is that of the settings, such as `incoming.orders`, for errors.
        """
        self._exchange: Final = exchange
        self._settings: Final = settings
        self._role: Final = role
        self._clock: Final = clock
        self._random: Final = random
        self._needs: Final = SecurityNeeds(exchange=exchange, settings=settings, section=section, role=role)
        self._keys: Final = MessageKeys(settings, section, lambda: clock().timestamp())
        self._used = self._keys.current()

    def check_settings(self) -> None:
        """Raise OperatorError if the policy needs a setting that is missing, or a key that does not serve now."""
        self._needs.expect_settings()
        self._needs.expect_fit_keys(self._keys.current(), self._clock())

    def verify_request(self, envelope: bytes, replays: ReplayCache, *, is_https: bool) -> VerifiedEnvelope:
        """Return a request that fulfils the policy, and that can be answered by it. Raises SoapRefusal."""
        assert self._role == "service", "only a service gets requests"
        verified = self._verify(envelope, self._exchange.request, replays, is_https=is_https)
        self._expect_recipient(verified)
        return verified

    def secure_answer(self, envelope: bytes, request: VerifiedEnvelope | None) -> bytes:
        """Return an answer as the policy has it, for the sender of a request.

        Without a request, which is one that was not verified, only a fault may be sent, neither encrypted nor with a
        confirmation. Raises MessageError if the answer cannot be secured, and OperatorError if that is because of a
        key that was replaced.
        """
        assert self._role == "service", "only a service sends answers"
        if request is None:
            if not is_unsecured_fault(envelope):
                raise ValueError("a request that was not verified is answered by nothing but a fault")
            return self._secure(envelope, _without_request(self._exchange.answer)).data
        partner = request.sender.certificate
        return self._secure(envelope, self._exchange.answer, partner, request.signature_values).data

    def secure_request(self, envelope: bytes) -> ProtectedEnvelope:
        """Return a request as the policy has it.

        Raises MessageError if it cannot be secured, and OperatorError if that is because of a key that was replaced.
        """
        assert self._role == "client", "only a client sends requests"
        return self._secure(envelope, self._exchange.request, self._current_keys().partner)

    def verify_answer(
        self, envelope: bytes, replays: ReplayCache, *, request_signatures: Sequence[bytes], is_https: bool
    ) -> VerifiedEnvelope:
        """Return an answer that fulfils the policy, a fault too. Raises SoapRefusal, also for an unsecured fault.

        `request_signatures` are the `signature_values` of the request as it was sent.
        """
        assert self._role == "client", "only a client gets answers"
        return self._verify(envelope, self._exchange.answer, replays, request_signatures, is_https=is_https)

    def _verify(
        self,
        envelope: bytes,
        requirements: SecurityRequirements,
        replays: ReplayCache,
        request_signatures: Sequence[bytes] = (),
        *,
        is_https: bool,
    ) -> VerifiedEnvelope:
        keys, settings = self._current_keys(), self._settings
        verification = Verification(
            requirements=requirements,
            own_keys=keys.decryption_keys,
            trust=keys.trust,
            users=keys.users,
            settings=VerificationSettings(
                clock_skew=timedelta(seconds=settings.clock_skew_seconds),
                lifetime_max=timedelta(seconds=settings.lifetime_seconds),
            ),
        )
        return verify(
            envelope,
            verification,
            now=self._clock(),
            random=self._random,
            replays=replays,
            is_https=is_https,
            request_signatures=request_signatures,
        )

    def _secure(
        self,
        envelope: bytes,
        requirements: SecurityRequirements,
        partner: Certificate | None = None,
        request_signatures: Sequence[bytes] = (),
    ) -> ProtectedEnvelope:
        settings = self._settings
        password = settings.password.reveal() if settings.password is not None else ""
        protection = Protection(
            requirements=requirements,
            own_key=self._current_keys().own_key,
            partner=partner,
            credential=UserCredential(settings.user, password) if settings.user is not None else None,
            lifetime=timedelta(seconds=settings.lifetime_seconds),
        )
        return secure(
            envelope, protection, now=self._clock(), random=self._random, request_signatures=request_signatures
        )

    def _current_keys(self) -> KeyMaterial:
        """Return the keys. New ones that do not serve the policy are used all the same: others in the files may."""
        keys = self._keys.current()
        if keys is not self._used:
            self._used = keys
            try:
                self._needs.expect_fit_keys(keys, self._clock())
            except OperatorError as error:
                _log.warning("%s", error)
        return keys

    def _expect_recipient(self, request: VerifiedEnvelope) -> None:
        """Raise SoapRefusal if the answer could not be encrypted, before the request is processed."""
        certificate = request.sender.certificate
        if not self._exchange.answer.is_encrypted or certificate is None:
            return
        try:
            check_recipient(certificate, self._clock(), self._exchange.answer.suite)
        except UnfitCertificate as error:
            refusal = invalid_token(f"the certificate of {describe_subject(certificate)}: {error}")
            refusal.version = request.version
            raise refusal from None


def is_unsecured_fault(envelope: bytes) -> bool:
    """Return whether a fault is in an envelope in the clear.

    For what `verify_answer` has refused: the service has failed, or someone on the way says so. The text of the fault
    is not to be trusted.
    """
    try:
        tree = parse_document(envelope).tree
        return detect_version(tree) is not None and read_fault(tree) is not None
    except MessageError:
        return False


def _without_request(answer: SecurityRequirements) -> SecurityRequirements:
    """Return what is required of the fault that answers a request that was not verified."""
    return replace(answer, encrypted=MessageParts(), signature_confirmation=False)
