"""Decrypt parts of an envelope with xmlsec.

Which key was asked for, and by which algorithm, is no secret: a wrong one is refused with its name. Everything after
that has one text. A key that cannot be decrypted is replaced by a random one, so that its message fails like one whose
data is wrong, and as late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lxml import etree

from demaq.soap.qualified_names import child_elements, clark
from demaq.soap.security.algorithm_suite import (
    KEY_BYTES,
    OAEP_DIGESTS,
    OAEP_MASKS,
    RSA_1_5,
    RSA_OAEP,
)
from demaq.soap.security.element_writer import RandomBytes, add_element, encode_base64, make_element
from demaq.soap.security.envelope_ids import EnvelopeIds
from demaq.soap.security.header_reader import algorithm_of, decode_base64, only_child, optional_child
from demaq.soap.security.own_key import OwnKey
from demaq.soap.security.security_faults import (
    failed_decryption,
    invalid_security,
    unavailable_token,
    unsupported_algorithm,
    unsupported_token,
)
from demaq.soap.security.security_requirements import SecurityRequirements
from demaq.soap.security.token_references import read_certificate
from demaq.soap.security.wss_names import (
    DS,
    ENCRYPTED_CONTENT,
    ENCRYPTED_DATA,
    ENCRYPTED_ELEMENT,
    ENCRYPTED_KEY,
    REFERENCE_LIST,
    TOKEN_REFERENCE,
    WSSE,
    XENC,
    XENC_1_1,
)

if TYPE_CHECKING:
    import xmlsec
    from cryptography.x509 import Certificate

_METHOD = clark(XENC, "EncryptionMethod")
_KEY_INFO = clark(DS, "KeyInfo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decryptor:
    """Decrypts what one security header refers to."""

    own_keys: Sequence[OwnKey]
    requirements: SecurityRequirements
    random: RandomBytes

    def list_references(self, holder: etree._Element, ids: EnvelopeIds) -> list[etree._Element]:
        """Return the EncryptedData elements that an EncryptedKey or a ReferenceList refers to."""
        listed = holder if holder.tag == REFERENCE_LIST else optional_child(holder, REFERENCE_LIST)
        found = []
        for reference in child_elements(listed) if listed is not None else []:
            if reference.tag != clark(XENC, "DataReference"):
                raise unsupported_token("a ReferenceList refers to something else than data")
            target = ids.resolve(reference.get("URI", ""))
            if target.tag != ENCRYPTED_DATA or target in found:
                raise invalid_security("a reference to encrypted data is not to an EncryptedData, or repeated")
            found.append(target)
        return found

    def decrypt(
        self, targets: Sequence[etree._Element], holder: etree._Element, security: etree._Element, ids: EnvelopeIds
    ) -> list[bytes]:
        """Return the texts in EncryptedData elements. `holder` refers to them. Each key is decrypted once."""
        known: dict[tuple[etree._Element, int], bytes] = {}
        texts = []
        for data in targets:
            algorithm = self._check_data(data)
            key = (holder if holder.tag == ENCRYPTED_KEY else _find_key(data, security, ids)), KEY_BYTES[algorithm]
            if key not in known:
                known[key] = self._decrypt_key(*key, security, ids)
            texts.append(_decrypt_data(data, algorithm, known[key]))
        return texts

    def _check_data(self, data: etree._Element) -> str:
        """Return the algorithm of an EncryptedData. Raises SoapRefusal if it is not one that was agreed on."""
        if data.get("Type") not in (ENCRYPTED_CONTENT, ENCRYPTED_ELEMENT):
            raise unsupported_token("an EncryptedData is neither an element nor the content of one")
        algorithm = algorithm_of(only_child(data, _METHOD))
        if algorithm not in self.requirements.suite.data:
            raise unsupported_algorithm("data is encrypted with another algorithm than was agreed on")
        return algorithm

    def _decrypt_key(
        self, encrypted: etree._Element, key_bytes: int, security: etree._Element, ids: EnvelopeIds
    ) -> bytes:
        method = only_child(encrypted, _METHOD)
        self._check_transport(method)
        own = self._own_key(encrypted, security, ids)
        fallback = self.random(key_bytes)  # made in any case
        secret = _decrypt(encrypted, list(_parameters(method)), own.load())
        return secret if secret is not None and len(secret) == key_bytes else fallback

    def _check_transport(self, method: etree._Element) -> None:
        """Raise SoapRefusal if a key is encrypted in another way than was agreed on."""
        digest, mask = optional_child(method, clark(DS, "DigestMethod")), optional_child(method, clark(XENC_1_1, "MGF"))
        algorithm = algorithm_of(method)
        others = len(child_elements(method)) - (digest is not None) - (mask is not None)
        is_known = (
            algorithm in self.requirements.suite.key_transport
            and (digest is None or (algorithm_of(digest) in OAEP_DIGESTS and algorithm != RSA_1_5))
            and (mask is None or (algorithm_of(mask) in OAEP_MASKS and algorithm == RSA_OAEP))
            and others == 0
        )
        if not is_known:
            raise unsupported_algorithm("a key is encrypted with another algorithm than was agreed on")

    def _own_key(self, encrypted: etree._Element, security: etree._Element, ids: EnvelopeIds) -> OwnKey:
        key_info = optional_child(encrypted, _KEY_INFO)
        if key_info is None and len(self.own_keys) == 1:
            return self.own_keys[0]
        if key_info is None:
            raise unavailable_token("an encrypted key does not say for which certificate it is", "decryptionFailure")
        certificates = [own.certificate for own in self.own_keys]
        found: Certificate = read_certificate(
            key_info,
            security,
            ids,
            lambda matches: next((each for each in certificates if matches(each)), None),
            self.requirements.encryption_tokens,
            "decryptionFailure",
        )
        if found not in certificates:
            raise unavailable_token("the message is encrypted for another certificate", "decryptionFailure")
        return self.own_keys[certificates.index(found)]


def transport_of(encrypted_key: etree._Element) -> str:
    """Return the algorithm of an EncryptedKey."""
    method = encrypted_key.find(_METHOD)
    return algorithm_of(method) if method is not None else ""


def _find_key(data: etree._Element, security: etree._Element, ids: EnvelopeIds) -> etree._Element:
    """Return the EncryptedKey that the KeyInfo of an EncryptedData has in it or refers to."""
    key_info = only_child(data, _KEY_INFO)
    inside = optional_child(key_info, ENCRYPTED_KEY)
    if inside is not None:
        return inside
    reference = only_child(only_child(key_info, TOKEN_REFERENCE), clark(WSSE, "Reference"))
    target = ids.resolve(reference.get("URI", ""))
    if target.tag != ENCRYPTED_KEY or target.getparent() is not security:
        raise unsupported_token("data is not encrypted with an EncryptedKey of this header")
    return target


def _decrypt_data(data: etree._Element, algorithm: str, secret: bytes) -> bytes:
    import xmlsec

    plain = _decrypt(data, [algorithm], xmlsec.Key.from_binary_data(xmlsec.constants.KeyDataAes, secret))
    if plain is None:
        raise failed_decryption()
    return plain


def _parameters(method: etree._Element) -> Iterator[str]:
    """Yield the algorithms of an EncryptionMethod: its own, of the digest, of the mask. An empty one is not given."""
    yield algorithm_of(method)
    for tag in (clark(DS, "DigestMethod"), clark(XENC_1_1, "MGF")):
        found = method.find(tag)
        yield algorithm_of(found) if found is not None else ""


def _decrypt(encrypted: etree._Element, algorithms: Sequence[str], key: xmlsec.Key) -> bytes | None:
    """Return what is in an EncryptedData or EncryptedKey, or None.

    xmlsec gets an EncryptedData that has nothing but a method and bytes: no Type, by which it would change the tree,
    and no KeyInfo or CipherReference, which it would follow.
    """
    import xmlsec

    cipher = only_child(only_child(encrypted, clark(XENC, "CipherData")), clark(XENC, "CipherValue"))
    copy = make_element(XENC, "EncryptedData")
    method = add_element(copy, XENC, "EncryptionMethod", Algorithm=algorithms[0])
    for algorithm, namespace, name in zip(algorithms[1:], (DS, XENC_1_1), ("DigestMethod", "MGF"), strict=False):
        if algorithm:
            add_element(method, namespace, name, Algorithm=algorithm)
    value = encode_base64(decode_base64(cipher, "a CipherValue"))
    add_element(add_element(copy, XENC, "CipherData"), XENC, "CipherValue", value)
    context = xmlsec.EncryptionContext()
    context.key = key
    try:
        plain: object = context.decrypt(copy)
    except (xmlsec.Error, ValueError, TypeError):
        return None
    return plain if isinstance(plain, bytes) else None
