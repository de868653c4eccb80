"""Add a security header to an envelope: timestamp, user, signature, encryption.

The header has its elements in the order in which a receiver processes them: what was done last to the message is first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from lxml import etree

from demaq.errors import MessageError, OperatorError
from demaq.soap.qualified_names import ENVELOPES, clark
from demaq.soap.security.certificate_checks import UnfitCertificate, check_recipient, describe_subject
from demaq.soap.security.element_writer import RandomBytes, add_element, encode_base64, ensure_id
from demaq.soap.security.encryption import (
    encrypt_content,
    encrypt_element,
    encrypt_header,
    make_encrypted_key,
    make_session_key,
)
from demaq.soap.security.header_reader import decode_base64, only_child
from demaq.soap.security.own_key import OwnKey
from demaq.soap.security.protected_parts import select_elements, select_headers
from demaq.soap.security.secured_envelope import SecuredEnvelope
from demaq.soap.security.security_requirements import ProtectionOrder, SecurityRequirements
from demaq.soap.security.signatures import compute_signature, make_signature
from demaq.soap.security.timestamps import write_timestamp
from demaq.soap.security.token_references import write_token_reference
from demaq.soap.security.username_tokens import UserCredential, write_username_token
from demaq.soap.security.wss_names import DS, ENCRYPTED_DATA, SECURITY, TIMESTAMP, WSSE, WSSE_1_1, WSU, XENC

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

LIFETIME: Final = timedelta(minutes=5)
"""How long a message that we send is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectedEnvelope:
    """An envelope with its security header."""

    data: bytes
    signature_values: tuple[bytes, ...]
    """What an answer with signature confirmation must repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """What a sender needs to secure envelopes. What a policy does not ask for may be left out."""

    requirements: SecurityRequirements
    own_key: OwnKey | None = None
    partner: Certificate | None = None
    """The certificate for which is encrypted."""
    credential: UserCredential | None = None
    lifetime: timedelta = LIFETIME


def secure(
    envelope: bytes,
    protection: Protection,
    *,
    now: datetime,
    random: RandomBytes,
    request_signatures: Sequence[bytes] = (),
) -> ProtectedEnvelope:
    """Return an envelope with everything that is required of it.

    `request_signatures` are the signature values of the request, if this is an answer that confirms them. Raises
    OperatorError if a key or password is missing, and MessageError if the envelope cannot be secured.
    """
    opened = SecuredEnvelope(envelope)
    if opened.find_security() is not None:
        raise MessageError("refused", "the envelope has a security header already")
    if not protection.requirements.needs_header:
        return ProtectedEnvelope(data=envelope, signature_values=())
    return _HeaderWriter(opened, protection, now, random).write(request_signatures)


class _HeaderWriter:
    """Writes the header of one envelope."""

    def __init__(self, envelope: SecuredEnvelope, protection: Protection, now: datetime, random: RandomBytes) -> None:
        self._envelope = envelope
        self._protection = protection
        self._requirements = protection.requirements
        self._now = now
        self._random = random
        self._security = _add_security(envelope)
        self._token: etree._Element | None = None
        self._first_protection: etree._Element | None = None
        """What was done last: the next one comes before it."""

    def write(self, request_signatures: Sequence[bytes]) -> ProtectedEnvelope:
        required = self._requirements
        signed = self._write_tokens(request_signatures)
        signed += [*select_headers(self._envelope, required.signed), *select_elements(self._envelope, required.signed)]
        if required.signed.body:
            signed.append(self._envelope.body)
        values: list[bytes] = []
        if required.order is ProtectionOrder.SIGN_BEFORE_ENCRYPT:
            values += self._sign(signed)
            self._encrypt(signed)
        else:
            values += self._sign(self._encrypt(signed))
        return ProtectedEnvelope(
            data=etree.tostring(self._envelope.root, encoding="utf-8", xml_declaration=True),
            signature_values=tuple(values),
        )

    def _write_tokens(self, request_signatures: Sequence[bytes]) -> list[etree._Element]:
        """Add timestamp, confirmations and user, and return those of them that are signed."""
        required, signed = self._requirements, []
        if required.timestamp:
            timestamp = write_timestamp(self._security, self._now, self._protection.lifetime, self._random)
            signed += [timestamp] if required.signed.timestamp else []
        if required.signature_confirmation:
            confirmed = _write_confirmations(self._security, request_signatures, self._random)
            signed += confirmed if required.is_signed else []
        if required.username is not None:
            if self._protection.credential is None:
                raise OperatorError("the policy asks for a user, and the gateway has none")
            self._token = write_username_token(
                self._security, required.username, self._protection.credential, self._now, self._random
            )
            signed += [self._token] if required.username.signed else []
            self._first_protection = self._token  # a key that decrypts it must come first
        return signed

    def _sign(self, targets: Iterable[etree._Element]) -> list[bytes]:
        if not self._requirements.is_signed:
            return []
        targets = list(dict.fromkeys(targets)) or self._security.findall(TIMESTAMP)
        if not targets:
            raise MessageError("refused", "the envelope has nothing that the policy wants signed")
        key = self._protection.own_key
        if key is None:
            raise OperatorError("the policy asks for a signature, and the gateway has no key")
        signature, key_info = make_signature(targets, key, self._requirements.suite, self._random)
        form = self._requirements.signing_tokens[0]
        write_token_reference(key_info, self._security, key.certificate, form, self._random)
        if self._requirements.order is ProtectionOrder.SIGN_BEFORE_ENCRYPT:
            self._security.append(signature)
            self._first_protection = self._first_protection if self._token is not None else signature
        else:
            self._insert(signature)
        compute_signature(signature, targets, key)
        return [decode_base64(only_child(signature, clark(DS, "SignatureValue")), "a signature")]

    def _encrypt(self, signed: Iterable[etree._Element]) -> list[etree._Element]:
        """Encrypt all parts, and return what stands for the signed ones now."""
        required, envelope = self._requirements, self._envelope
        headers = select_headers(envelope, required.encrypted)
        elements = select_elements(envelope, required.encrypted)
        if required.username is not None and required.username.encrypted and self._token is not None:
            elements.append(self._token)
        inside = [*headers, *([envelope.body] if required.encrypted.body else [])]
        elements = [one for one in elements if one not in headers and not _is_inside(one, [*inside, *elements])]
        if not (headers or elements or required.encrypted.body):
            return list(signed)
        covers = _find_covers(signed, [*headers, *elements], envelope.body if required.encrypted.body else None)
        replaced = self._encrypt_parts(headers, elements)
        return [replaced[cover] if cover is not None else target for target, cover in covers]

    def _encrypt_parts(
        self, headers: Sequence[etree._Element], elements: Sequence[etree._Element]
    ) -> Mapping[etree._Element, etree._Element]:
        partner = self._check_partner()
        suite, random = self._requirements.suite, self._random
        key = make_session_key(suite, random)
        soap = ENVELOPES[self._envelope.version]
        replaced = {block: encrypt_header(block, key, random, soap) for block in headers}
        for element in elements:
            replaced[element] = encrypt_element(element, key, random)
            if element is self._token:
                self._first_protection = replaced[element]
        if self._requirements.encrypted.body:
            replaced[self._envelope.body] = encrypt_content(self._envelope.body, key, random)
        encrypted_key, key_info = make_encrypted_key(key, partner, suite, random)
        form = self._requirements.encryption_tokens[0]
        write_token_reference(key_info, self._security, partner, form, random)
        references = add_element(encrypted_key, XENC, "ReferenceList")
        for made in replaced.values():
            data = made if made.tag == ENCRYPTED_DATA else only_child(made, ENCRYPTED_DATA)
            add_element(references, XENC, "DataReference", URI=f"#{data.get('Id')}")
        self._insert(encrypted_key)
        return replaced

    def _check_partner(self) -> Certificate:
        partner = self._protection.partner
        if partner is None:
            raise OperatorError("the policy asks for encryption, and there is no certificate of the receiver")
        try:
            check_recipient(partner, self._now, self._requirements.suite)
        except UnfitCertificate as error:
            subject = describe_subject(partner)
            raise MessageError("invalidCertificate", f"the certificate of {subject}: {error}") from None
        return partner

    def _insert(self, protection: etree._Element) -> None:
        """Put a Signature or EncryptedKey before what was done to the message earlier."""
        if self._first_protection is None:
            self._security.append(protection)
        else:
            self._first_protection.addprevious(protection)
        self._first_protection = protection


def _add_security(envelope: SecuredEnvelope) -> etree._Element:
    soap = ENVELOPES[envelope.version]
    if envelope.header is None:
        envelope.header = etree.Element(clark(soap, "Header"))
        envelope.body.addprevious(envelope.header)
    security = etree.Element(SECURITY, nsmap={"wsse": WSSE, "wsu": WSU})
    envelope.header.insert(0, security)
    security.set(clark(soap, "mustUnderstand"), "1")
    return security


def _write_confirmations(
    security: etree._Element, values: Sequence[bytes], random: Callable[[int], bytes]
) -> list[etree._Element]:
    """Add a SignatureConfirmation for each value, or one without a value (section 8.5)."""
    made = []
    encoded: list[str | None] = [encode_base64(value) for value in values]
    for value in encoded or [None]:
        confirmation = add_element(security, WSSE_1_1, "SignatureConfirmation")
        if value is not None:
            confirmation.set("Value", value)
        ensure_id(confirmation, random)
        made.append(confirmation)
    return made


def _is_inside(element: etree._Element, others: Sequence[etree._Element]) -> bool:
    return any([around in others for around in element.iterancestors()])


def _find_covers(
    targets: Iterable[etree._Element], encrypted: Sequence[etree._Element], body: etree._Element | None
) -> list[tuple[etree._Element, etree._Element | None]]:
    """Return each target with the encrypted part that it is or is inside of; None if it stays in the envelope.

    Only the content of the Body is encrypted, so the Body itself stays.
    """
    found = []
    for target in targets:
        ancestors = list(target.iterancestors())
        cover = next((one for one in [target, *ancestors] if one in encrypted), None)
        if cover is None and body is not None and body in ancestors:
            cover = body
        found.append((target, cover))
    return found
