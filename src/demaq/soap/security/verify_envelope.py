"""Verify an envelope against what a policy requires, and return what may be processed.

Each required part is looked up by its place in the envelope, as it is going to be processed, and must be the very
element that was signed. All required parts must be covered by one signature: parts of two messages cannot be combined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from lxml import etree

from demaq.soap.qualified_names import local_name
from demaq.soap.refusals import SoapRefusal
from demaq.soap.security.decryption import Decryptor
from demaq.soap.security.element_writer import RandomBytes, encode_base64
from demaq.soap.security.header_processing import HeaderProcessor, VerifiedSignature
from demaq.soap.security.own_key import OwnKey
from demaq.soap.security.protected_parts import is_content_encrypted, is_encrypted, select_elements, select_headers
from demaq.soap.security.secured_envelope import SecuredEnvelope
from demaq.soap.security.security_faults import (
    failed_authentication,
    failed_check,
    failed_decryption,
    invalid_security,
    replayed_message,
)
from demaq.soap.security.security_requirements import PasswordForm, ProtectionOrder, SecurityRequirements
from demaq.soap.security.timestamps import check_timestamp
from demaq.soap.security.trust_store import TrustStore
from demaq.soap.security.username_tokens import AuthenticatedUser, UserDirectory, check_username_token
from demaq.soap.security.verification_settings import ReplayCache, VerificationSettings
from demaq.soap.security.wss_names import (
    ENCRYPTED_DATA,
    ENCRYPTED_HEADER,
    SIGNATURE_CONFIRMATION,
    TIMESTAMP,
    USERNAME_TOKEN,
    WSU_ID,
)

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderIdentity:
    """Who has sent a message, as far as the policy asks for it."""

    user: str | None = None
    certificate: Certificate | None = None
    """That of the signature over all required parts; an answer can be encrypted for it."""

    @property
    def subject(self) -> str | None:
        """The subject of the certificate, as in RFC 4514."""
        return self.certificate.subject.rfc4514_string() if self.certificate is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedEnvelope:
    """An envelope that fulfils a policy: decrypted, and without the security header for this node."""

    data: bytes
    version: str
    sender: SenderIdentity
    signature_values: tuple[bytes, ...]
    """What an answer with signature confirmation repeats."""
    is_body_signed: bool
    signed_headers: frozenset[str]
    """Names of header blocks of which all are signed. Others may be by anyone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a receiver needs to verify envelopes. What a policy does not ask for may be left out."""

    requirements: SecurityRequirements
    own_keys: Sequence[OwnKey] = ()
    """The keys for which senders may encrypt; old ones, too, after a change of keys."""
    trust: TrustStore = field(default_factory=TrustStore)
    users: UserDirectory | None = None
    settings: VerificationSettings = field(default_factory=VerificationSettings)


def verify(
    envelope: bytes,
    verification: Verification,
    *,
    now: datetime,
    random: RandomBytes,
    replays: ReplayCache,
    is_https: bool = False,
    request_signatures: Sequence[bytes] = (),
) -> VerifiedEnvelope:
    """Return the envelope if it is all that the policy requires. Raises SoapRefusal, and nothing else for bad input.

    `request_signatures` are the values that an answer must confirm, if the policy says so.
    """
    opened = SecuredEnvelope(envelope)
    check = _Check(opened, verification, now, random)
    try:
        return check.run(replays, is_https, request_signatures)
    except SoapRefusal as error:
        is_malleable = check.processor is not None and check.processor.is_malleable
        refusal = failed_decryption() if is_malleable else error
        refusal.version = opened.version
        raise refusal from None


class _Check:
    """The verification of one envelope."""

    def __init__(
        self, envelope: SecuredEnvelope, verification: Verification, now: datetime, random: RandomBytes
    ) -> None:
        self.processor: HeaderProcessor | None = None
        self._envelope = envelope
        self._verification = verification
        self._requirements = verification.requirements
        self._now = now
        self._random = random

    def run(self, replays: ReplayCache, is_https: bool, request_signatures: Sequence[bytes]) -> VerifiedEnvelope:
        if self._requirements.https and not is_https:
            raise invalid_security("the message must come by HTTPS")
        if self._envelope.find_security() is None:
            if self._requirements.needs_header:
                raise invalid_security("there is no security header for this node")
            return self._conclude((), None, None)
        signatures = self._process()
        security = self._envelope.find_security()
        assert security is not None, "it was processed"
        expires = self._check_timestamp(security)
        signature = self._find_covering(signatures, security)
        self._check_encrypted(security)
        self._check_order(signature)
        self._check_confirmations(security, request_signatures)
        user = self._check_user(security)
        self._refuse_replay(replays, signatures, user, security, expires)
        return self._conclude(signatures, signature, user)

    def _process(self) -> Sequence[VerifiedSignature]:
        verification = self._verification
        decryptor = Decryptor(own_keys=verification.own_keys, requirements=self._requirements, random=self._random)
        self.processor = HeaderProcessor(
            self._envelope, decryptor, verification.trust, verification.settings.limits, self._now
        )
        self.processor.process()
        return self.processor.signatures

    def _check_timestamp(self, security: etree._Element) -> datetime | None:
        timestamp = security.find(TIMESTAMP)
        if timestamp is not None:
            return check_timestamp(timestamp, self._now, self._verification.settings)
        if self._requirements.timestamp:
            raise invalid_security("the security header has no Timestamp")
        return None

    def _find_covering(
        self, signatures: Sequence[VerifiedSignature], security: etree._Element
    ) -> VerifiedSignature | None:
        """Return the signature over all required parts; None if none is required."""
        if not self._requirements.is_signed:
            return None
        if not signatures:
            raise invalid_security("the message is not signed", "invalidSignature")
        parts = list(self._signed_parts(security))
        for signature in signatures:
            if all([self._envelope.is_within(part, signature.note) for part in parts]):
                return signature
        uncovered = [part for part in parts if not self._envelope.is_within(part, signatures[0].note)]
        raise failed_check(f"{local_name(str(uncovered[0].tag))[:100]} is not signed, or not together with the rest")

    def _signed_parts(self, security: etree._Element) -> Iterator[etree._Element]:
        envelope, required = self._envelope, self._requirements
        if required.signed.body:
            yield envelope.body
        yield from select_headers(envelope, required.signed)
        yield from select_elements(envelope, required.signed)
        if required.signed.timestamp:
            yield from security.findall(TIMESTAMP)
        if required.signature_confirmation:
            yield from security.findall(SIGNATURE_CONFIRMATION)
        if required.username is not None and required.username.signed:
            yield from security.findall(USERNAME_TOKEN)

    def _check_encrypted(self, security: etree._Element) -> None:
        envelope, required = self._envelope, self._requirements
        parts = [*select_headers(envelope, required.encrypted), *select_elements(envelope, required.encrypted)]
        if required.username is not None and required.username.encrypted:
            parts += security.findall(USERNAME_TOKEN)
        for part in parts:
            if not is_encrypted(envelope, part):
                raise invalid_security(f"{local_name(str(part.tag))[:100]} is not encrypted", "decryptionFailure")
        if required.encrypted.body and not is_content_encrypted(envelope, envelope.body):
            raise invalid_security("the Body is not encrypted", "decryptionFailure")
        self._refuse_undecrypted(security)

    def _refuse_undecrypted(self, security: etree._Element) -> None:
        """Raise SoapRefusal if something for this node is still encrypted: a part that is required could be in it.

        The list of what is encrypted is not signed, so an attacker can shorten it. Encrypted data that comes out of
        decrypted text is the application's.
        """
        envelope = self._envelope
        for data in envelope.root.iter(ENCRYPTED_DATA):
            around = list(data.iterancestors())
            block = next((one for one in [data, *around] if one.getparent() is envelope.header), None)
            is_in_wrapper = block is not None and block.tag == ENCRYPTED_HEADER
            if security in around or is_encrypted(envelope, data) or not envelope.is_for_us(block):
                continue
            if self._requirements.is_encrypted or is_in_wrapper:
                raise invalid_security("encrypted data is not in a list, and was not decrypted", "decryptionFailure")

    def _check_order(self, signature: VerifiedSignature | None) -> None:
        """Raise SoapRefusal if a message was signed and encrypted in the other order."""
        assert self.processor is not None, "the header was processed"
        if signature is None or not self._requirements.is_encrypted:
            return
        is_signed_first = self._requirements.order is ProtectionOrder.SIGN_BEFORE_ENCRYPT
        if any([(position < signature.position) is not is_signed_first for position in self.processor.decrypted_at]):
            raise invalid_security(f"the order is not: {self._requirements.order.value}")

    def _check_confirmations(self, security: etree._Element, request_signatures: Sequence[bytes]) -> None:
        if not self._requirements.signature_confirmation:
            return
        expected = sorted([encode_base64(value) for value in request_signatures] or [""])
        found = sorted(["".join(one.get("Value", "").split()) for one in security.findall(SIGNATURE_CONFIRMATION)])
        if found != expected:
            raise failed_check("the answer does not confirm the signatures of its request")

    def _check_user(self, security: etree._Element) -> AuthenticatedUser | None:
        required = self._requirements.username
        if required is None:
            return None
        token = security.find(USERNAME_TOKEN)
        if token is None:
            raise invalid_security("the security header has no UsernameToken", "authentication")
        if self._verification.users is None and required.password is not PasswordForm.NONE:
            raise failed_authentication()
        users = self._verification.users or _NoUsers()
        return check_username_token(token, required, users, self._now, self._verification.settings)

    def _refuse_replay(
        self,
        replays: ReplayCache,
        signatures: Sequence[VerifiedSignature],
        user: AuthenticatedUser | None,
        security: etree._Element,
        expires: datetime | None,
    ) -> None:
        """Remember nonce and signatures until the message could not be accepted again anyway."""
        forever = self._now + self._verification.settings.replay_memory
        keys: dict[str, datetime] = {}
        for signature in signatures:
            is_bound = all([self._envelope.is_within(one, signature.note) for one in security.findall(TIMESTAMP)])
            keys[signature.replay_key] = expires if expires is not None and is_bound else forever
        if user is not None and user.replay_key is not None:
            keys[user.replay_key] = user.expires or forever
        if keys and not replays.remember(keys):
            raise replayed_message()

    def _conclude(
        self,
        signatures: Sequence[VerifiedSignature],
        signature: VerifiedSignature | None,
        user: AuthenticatedUser | None,
    ) -> VerifiedEnvelope:
        envelope, required = self._envelope, self._requirements.username
        signed = envelope.noted(signature.note) if signature is not None else []
        blocks = envelope.header_blocks()
        unsigned = {str(block.tag) for block in blocks if block not in signed}
        is_proved = required is not None and (required.password is not PasswordForm.NONE or required.signed)
        verified = VerifiedEnvelope(
            data=b"",
            version=envelope.version,
            sender=SenderIdentity(
                user=user.user if user is not None and is_proved else None,
                certificate=signature.certificate if signature is not None else None,
            ),
            signature_values=tuple([each.value for each in signatures]),
            is_body_signed=envelope.body in signed,
            signed_headers=frozenset({str(block.tag) for block in blocks} - unsigned),
        )
        return _with_data(verified, envelope, signed)


class _NoUsers:
    """For tokens without a password."""

    def check_password(self, user: str, password: str) -> bool:
        return False

    def password_of(self, user: str) -> str | None:
        return None


def _with_data(
    verified: VerifiedEnvelope, envelope: SecuredEnvelope, signed: Sequence[etree._Element]
) -> VerifiedEnvelope:
    """Return it with the text of the envelope, without what was there for its security."""
    for element in signed:
        etree.strip_tags(element, etree.Comment)  # canonicalization removes them, so they are by anyone
    security = envelope.find_security()
    if security is not None:
        parent = security.getparent()
        assert parent is not None, "it is in the Header"
        parent.remove(security)
    for element in envelope.root.iter("*"):
        if WSU_ID in element.attrib:
            del element.attrib[WSU_ID]  # schemas of messages do not know it
    return replace(verified, data=etree.tostring(envelope.root, encoding="utf-8"))
