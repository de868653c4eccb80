"""Process a security header from its first child to the last: verify signatures, decrypt what is referred to.

What was done last by the sender is first in the header. Elements that were signed or encrypted are noted at the
envelope; whether that is what a policy requires is decided afterwards, in verify_envelope.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lxml import etree

from demaq.soap.qualified_names import child_elements, clark
from demaq.soap.security.algorithm_suite import MALLEABLE
from demaq.soap.security.decryption import Decryptor, transport_of
from demaq.soap.security.envelope_ids import EnvelopeIds
from demaq.soap.security.header_reader import algorithm_of, name_of
from demaq.soap.security.protected_parts import DECRYPTED, DECRYPTED_CONTENT, select_elements
from demaq.soap.security.secured_envelope import SecuredEnvelope, is_blank
from demaq.soap.security.security_faults import failed_check, failed_decryption, invalid_security, unsupported_token
from demaq.soap.security.signature_reader import check_key_kind, read_signature
from demaq.soap.security.signatures import verify_signature
from demaq.soap.security.token_references import read_certificate, thumbprint_of
from demaq.soap.security.trust_store import TrustStore
from demaq.soap.security.verification_settings import SecurityLimits
from demaq.soap.security.wss_names import (
    BINARY_TOKEN,
    ENCRYPTED_CONTENT,
    ENCRYPTED_DATA,
    ENCRYPTED_HEADER,
    ENCRYPTED_KEY,
    REFERENCE_LIST,
    SIGNATURE,
    SIGNATURE_CONFIRMATION,
    TIMESTAMP,
    USERNAME_TOKEN,
    XENC,
)

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_SIGNED_TOKENS = frozenset(
    {
        *(BINARY_TOKEN, TIMESTAMP, USERNAME_TOKEN, SIGNATURE_CONFIRMATION),
        *(SIGNATURE, ENCRYPTED_KEY, ENCRYPTED_DATA, REFERENCE_LIST),
    }
)
_TOO_DEEP = etree.XPath("boolean(.//*[count(ancestor::*) > $depth])")
_COUNT = etree.XPath("count(.//*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSignature:
    """A valid signature by a trusted certificate."""

    note: str
    """The note of the elements that it covers."""
    certificate: Certificate
    value: bytes
    replay_key: str
    position: int


class HeaderProcessor:
    """Processes the header of one envelope."""

    def __init__(
        self,
        envelope: SecuredEnvelope,
        decryptor: Decryptor,
        trust: TrustStore,
        limits: SecurityLimits,
        now: datetime,
    ) -> None:
        self.signatures: list[VerifiedSignature] = []
        self.decrypted_at: list[int] = []
        """The positions in the header of what has decrypted something."""
        self.is_malleable = False
        """Whether anything was encrypted so that the way in which a message fails would help to decrypt it."""
        self._envelope = envelope
        self._decryptor = decryptor
        self._trust = trust
        self._limits = limits
        self._now = now
        self._ids = EnvelopeIds(envelope.root)
        self._position = 0
        self._keys = self._references = 0
        self._handlers: Mapping[str, Callable[[etree._Element], None]] = {
            SIGNATURE: self._verify,
            ENCRYPTED_KEY: self._decrypt,
            REFERENCE_LIST: self._decrypt,
            BINARY_TOKEN: _skip,
            TIMESTAMP: _skip,
            USERNAME_TOKEN: _skip,
            SIGNATURE_CONFIRMATION: _skip,
        }

    def process(self) -> None:
        """Verify and decrypt everything. Raises SoapRefusal."""
        self._check_limits(self._security)
        # Children before the position stay as they are: an EncryptedData among them would have been refused.
        while self._position < len(children := child_elements(self._security)):
            child = children[self._position]
            handle = self._handlers.get(str(child.tag))
            if handle is None:
                raise unsupported_token(f"{name_of(child)[:100]} in the security header is not understood")
            handle(child)
            self._position += 1
        for signature in self.signatures:  # in the end, when signed ciphertext has become what it is
            self._check_places(self._envelope.noted(signature.note), self._security)

    @property
    def _security(self) -> etree._Element:
        found = self._envelope.find_security()
        if found is None:
            raise invalid_security("the security header is gone after decryption")
        return found

    def _check_limits(self, security: etree._Element) -> None:
        """Raise SoapRefusal for a header that holds more than allowed, now or after decryption."""
        limits = self._limits
        if len(etree.tostring(security)) > limits.header_bytes_max:
            raise invalid_security(f"the security header has more than {limits.header_bytes_max:,} bytes")
        if int(float(str(_COUNT(security)))) > limits.elements_max:
            raise invalid_security(f"the security header has more than {limits.elements_max:,} elements")
        if _TOO_DEEP(security, depth=limits.depth_max + 2):
            raise invalid_security(f"elements of the security header are nested more than {limits.depth_max} levels")
        for tag, most in (
            (SIGNATURE, limits.signatures_max),
            (BINARY_TOKEN, limits.tokens_max),
            (TIMESTAMP, 1),
            (USERNAME_TOKEN, 1),
            (SIGNATURE_CONFIRMATION, limits.signatures_max),
        ):
            if len(security.findall(tag)) > most:
                raise invalid_security(f"the security header has more than {most} {tag.rpartition('}')[2]} elements")

    def _verify(self, element: etree._Element) -> None:
        security, suite = self._security, self._decryptor.requirements.suite
        signature = read_signature(element, self._ids, suite, self._limits.references_max)
        certificate = read_certificate(
            signature.key_info,
            security,
            self._ids,
            self._trust.find,
            self._decryptor.requirements.signing_tokens,
            "invalidSignature",
        )
        self._trust.check(certificate, self._now, suite)
        check_key_kind(certificate, signature.method)
        verify_signature(signature, certificate)
        note = f"signed {len(self.signatures)}"
        for target, _ in signature.targets:
            self._envelope.note(note, target)
        # Not the value of the signature: with ECDSA anyone can make a second one from it that is valid as well.
        info = etree.tostring(signature.signed_info, method="c14n", exclusive=True, with_comments=False)
        key = hashlib.sha256(thumbprint_of(certificate) + info).hexdigest()
        self.signatures.append(
            VerifiedSignature(
                note=note,
                certificate=certificate,
                value=signature.value,
                replay_key=f"signature:{key}",
                position=self._position,
            )
        )

    def _check_places(self, targets: Sequence[etree._Element], security: etree._Element) -> None:
        """Raise SoapRefusal if a signed element is where it is not processed as what it was signed as.

        Otherwise a signed header block could be hidden, in an unknown block or in a token, without breaking the
        signature. Signed are the Body, what is in it together with it, header blocks, and parts of the security header.
        """
        envelope, required = self._envelope, self._decryptor.requirements.signed
        blocks = envelope.header_blocks()
        selected = select_elements(envelope, required)
        for target in targets:
            is_processed = (
                target is envelope.body
                or target in blocks
                or any([one is target or target in one.iterancestors() for one in selected])
                or (target.getparent() is security and str(target.tag) in _SIGNED_TOKENS)
                or (envelope.body in targets and envelope.body in target.iterancestors())
            )
            if not is_processed:
                raise failed_check("a signed element is not in a place where it is processed")

    def _decrypt(self, holder: etree._Element) -> None:
        """Decrypt what an EncryptedKey or a ReferenceList refers to, and parse the envelope again."""
        self._keys += 1
        targets = self._decryptor.list_references(holder, self._ids)
        self._references += len(targets)
        if self._keys > self._limits.keys_max or self._references > self._limits.references_max:
            raise invalid_security("the security header refers to too much encrypted data")
        suite = self._decryptor.requirements.suite
        agreed = MALLEABLE.intersection([*suite.data, *suite.key_transport])  # others are refused by name
        self.is_malleable = self.is_malleable or not agreed.isdisjoint(_encryption_methods(holder, targets))
        if not targets:
            return
        texts = self._decryptor.decrypt(targets, holder, self._security, self._ids)
        replacements = [(self._note_decrypted(data), text) for data, text in zip(targets, texts, strict=True)]
        token = f"demaq-{self._decryptor.random(16).hex()}"
        self._envelope.replace_with_text(replacements, token)
        self._ids = EnvelopeIds(self._envelope.root)
        self._check_limits(self._security)
        self.decrypted_at.append(self._position)

    def _note_decrypted(self, data: etree._Element) -> etree._Element:
        """Note what comes out of an EncryptedData, and return what it takes the place of."""
        parent = data.getparent()
        if parent is None:
            raise failed_decryption()
        if data.get("Type") == ENCRYPTED_CONTENT:
            texts = [parent.text, *[child.tail for child in parent]]
            if len(child_elements(parent, 2)) == 1 and all([is_blank(text) for text in texts]):
                self._envelope.note(DECRYPTED_CONTENT, parent)
            return data
        replaced = data
        if parent.tag == ENCRYPTED_HEADER:
            if parent.getparent() is not self._envelope.header or len(child_elements(parent, 2)) != 1:
                raise invalid_security("an EncryptedHeader is no header block, or has more than one child")
            replaced = parent
        self._envelope.note(DECRYPTED, replaced)
        return replaced


def _encryption_methods(holder: etree._Element, targets: list[etree._Element]) -> list[str]:
    keys = [holder, *[key for data in targets for key in data.iter(ENCRYPTED_KEY)]]
    methods = [data.find(clark(XENC, "EncryptionMethod")) for data in targets if data.tag == ENCRYPTED_DATA]
    return [*[transport_of(key) for key in keys], *[algorithm_of(method) for method in methods if method is not None]]


def _skip(_: etree._Element) -> None:
    """Tokens are used where something refers to them, and checked in the end."""
