"""Encrypt parts of an envelope: data with a new key, and that key for the receiver's certificate. xmlsec does most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lxml import etree

from demaq.errors import MessageError
from demaq.soap.qualified_names import clark
from demaq.soap.security.algorithm_suite import (
    AES128_CBC,
    AES256_CBC,
    KEY_BYTES,
    MGF1_SHA256,
    RSA_OAEP,
    SHA256,
    AlgorithmSuite,
)
from demaq.soap.security.element_writer import RandomBytes, add_element, encode_base64, make_element, make_id
from demaq.soap.security.own_key import load_public_key
from demaq.soap.security.wss_names import (
    DS,
    ENCRYPTED_CONTENT,
    ENCRYPTED_ELEMENT,
    ENCRYPTED_HEADER,
    ENCRYPTED_KEY,
    WSSE_1_1,
    XENC,
    XENC_1_1,
)
from demaq.xml_escaping import escape
from demaq.xml_parsers import parse_characters

if TYPE_CHECKING:
    import xmlsec
    from cryptography.x509 import Certificate

_NOTHING = b"<!---->"
"""The content of an empty element: xmlsec encrypts no empty text, and canonicalization removes comments."""

_BLOCK_BYTES = 16
"""Of AES."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKey:
    """A key for the data of one message."""

    algorithm: str
    secret: bytes

    def __repr__(self) -> str:
        return f"SessionKey({self.algorithm})"


def make_session_key(suite: AlgorithmSuite, random: RandomBytes) -> SessionKey:
    algorithm = suite.data[0]
    return SessionKey(algorithm=algorithm, secret=random(KEY_BYTES[algorithm]))


def encrypt_content(element: etree._Element, key: SessionKey, random: RandomBytes) -> etree._Element:
    """Put an EncryptedData into the place of everything in an element, and return it."""
    pieces = [escape(element.text or "").encode()]
    for child in element:
        pieces.append(etree.tostring(child, encoding="utf-8", with_tail=False))
        pieces.append(escape(child.tail or "").encode())
    data = _encrypt(b"".join(pieces) or _NOTHING, key, ENCRYPTED_CONTENT, random)
    for child in list(element):
        element.remove(child)
    element.text = None
    element.append(data)
    return data


def encrypt_element(element: etree._Element, key: SessionKey, random: RandomBytes) -> etree._Element:
    """Put an EncryptedData into the place of an element, and return it."""
    data = _encrypt(etree.tostring(element, encoding="utf-8", with_tail=False), key, ENCRYPTED_ELEMENT, random)
    _replace(element, data)
    return data


def encrypt_header(block: etree._Element, key: SessionKey, random: RandomBytes, soap: str) -> etree._Element:
    """Put an EncryptedHeader into the place of a header block, and return it (SOAP Message Security 1.1, 9.3)."""
    wrapper = etree.Element(ENCRYPTED_HEADER, nsmap={"wsse11": WSSE_1_1})
    for name in ("mustUnderstand", "actor", "role"):
        value = block.get(clark(soap, name))
        if value is not None:
            wrapper.set(clark(soap, name), value)
    text = etree.tostring(block, encoding="utf-8", with_tail=False)
    wrapper.append(_encrypt(text, key, ENCRYPTED_ELEMENT, random))
    _replace(block, wrapper)
    return wrapper


def make_encrypted_key(
    key: SessionKey, certificate: Certificate, suite: AlgorithmSuite, random: RandomBytes
) -> tuple[etree._Element, etree._Element]:
    """Return an EncryptedKey without references, and its empty KeyInfo."""
    algorithm = suite.key_transport[0]
    # To xmlsec a key is data like others, which it encrypts with the key of the certificate.
    made = _template(algorithm)
    if algorithm == RSA_OAEP:
        method = made[0]
        add_element(method, DS, "DigestMethod", Algorithm=SHA256)
        add_element(method, XENC_1_1, "MGF", Algorithm=MGF1_SHA256)
    made = _run(made, load_public_key(certificate), key.secret)
    made.tag = ENCRYPTED_KEY
    made.set("Id", make_id("EK", random))
    return made, _add_key_info(made)


def _encrypt(data: bytes, key: SessionKey, kind: str, random: RandomBytes) -> etree._Element:
    import xmlsec

    template = _template(key.algorithm)
    template.set("Id", make_id("ED", random))
    template.set("Type", kind)
    if key.algorithm in (AES128_CBC, AES256_CBC):
        template[1][0].text = encode_base64(_encrypt_cbc(data, key.secret, random))
        return template
    return _run(template, xmlsec.Key.from_binary_data(xmlsec.constants.KeyDataAes, key.secret), data)


def _encrypt_cbc(data: bytes, secret: bytes, random: RandomBytes) -> bytes:
    """Return the initialization vector and the encrypted text.

    The octets of the padding are free but for the last one (XML Encryption 1.1, 5.2). xmlsec draws them; those of
    PKCS #7 are read by all, and gSOAP takes others for text.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    count = _BLOCK_BYTES - len(data) % _BLOCK_BYTES
    vector = random(_BLOCK_BYTES)
    encryptor = Cipher(algorithms.AES(secret), modes.CBC(vector)).encryptor()
    return vector + encryptor.update(data + bytes([count]) * count) + encryptor.finalize()


def _template(algorithm: str) -> etree._Element:
    template = make_element(XENC, "EncryptedData")
    add_element(template, XENC, "EncryptionMethod", Algorithm=algorithm)
    add_element(add_element(template, XENC, "CipherData"), XENC, "CipherValue")
    return template


def _run(template: etree._Element, key: xmlsec.Key, data: bytes) -> etree._Element:
    import xmlsec

    context = xmlsec.EncryptionContext()
    context.key = key
    try:
        made = context.encrypt_binary(template, data)
    except xmlsec.Error:
        raise MessageError("decryptionFailure", "the message cannot be encrypted for its receiver") from None
    # Names that xmlsec has made are not those by which lxml finds elements: parsed again, they are.
    return parse_characters(etree.tostring(made))


def _add_key_info(encrypted: etree._Element) -> etree._Element:
    """Add a KeyInfo after the EncryptionMethod."""
    key_info = etree.Element(clark(DS, "KeyInfo"), nsmap={"ds": DS})
    encrypted.insert(1, key_info)
    return key_info


def _replace(element: etree._Element, replacement: etree._Element) -> None:
    parent = element.getparent()
    assert parent is not None, "a part is inside of the envelope"
    replacement.tail = element.tail
    parent.replace(element, replacement)
