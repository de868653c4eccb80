"""Signatures and encryption without xmlsec, to fill in messages as other software writes them.

A template has empty DigestValue, SignatureValue and CipherValue elements. Canonicalization is lxml's, all the rest is
by cryptography.
"""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from lxml import etree

from tests.support.soap.security_parties import NAMESPACES

_INCLUSIVE = "{http://www.w3.org/2001/10/xml-exc-c14n#}InclusiveNamespaces"


def sign(root: Any, key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> None:
    """Fill in the only Signature of an envelope, with SHA-256."""
    (signature,) = root.xpath("//ds:Signature", namespaces=NAMESPACES)
    signed_info = signature[0]
    for reference in signed_info.iterfind("ds:Reference", NAMESPACES):
        wanted = reference.get("URI")[1:]
        (target,) = root.xpath("//*[@wsu:Id=$id or @Id=$id]", namespaces=NAMESPACES, id=wanted)
        digest = hashlib.sha256(
            canonicalize(target, reference.find("ds:Transforms/ds:Transform[last()]", NAMESPACES))
        ).digest()
        reference.find("ds:DigestValue", NAMESPACES).text = encode(digest)
    data = canonicalize(signed_info, signed_info[0])
    if isinstance(key, rsa.RSAPrivateKey):
        value = key.sign(data, padding.PKCS1v15(), hashes.SHA256())
    else:
        r, s = utils.decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
        value = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    signature.find("ds:SignatureValue", NAMESPACES).text = encode(value)


def canonicalize(element: Any, transform: Any) -> bytes:
    inclusive = transform.find(_INCLUSIVE)
    prefixes = inclusive.get("PrefixList", "").split() if inclusive is not None else []
    alone = etree.fromstring(etree.tostring(element, with_tail=False))  # lxml forgets prefixes of ancestors otherwise
    return etree.tostring(
        alone,
        method="c14n",
        exclusive=True,
        with_comments=False,
        inclusive_ns_prefixes=prefixes or None,
    )


def encrypt(plain: bytes, secret: bytes) -> str:
    """Return a CipherValue of AES-GCM."""
    nonce = os.urandom(12)
    return encode(nonce + AESGCM(secret).encrypt(nonce, plain, None))


def encrypt_key(secret: bytes, key: rsa.RSAPublicKey, digest: hashes.HashAlgorithm, mask: hashes.HashAlgorithm) -> str:
    """Return a CipherValue of RSA-OAEP."""
    return encode(key.encrypt(secret, padding.OAEP(padding.MGF1(mask), digest, None)))


def decrypt_cbc(root: Any, key: rsa.RSAPrivateKey) -> bytes:
    """Return the padded text of the only EncryptedData, which is in AES-CBC, with a key in RSA 1.5."""
    encrypted, data = [
        base64.b64decode(root.xpath(f"string(//xenc:{name}/xenc:CipherData)", namespaces=NAMESPACES))
        for name in ("EncryptedKey", "EncryptedData")
    ]
    decryptor = Cipher(algorithms.AES(key.decrypt(encrypted, padding.PKCS1v15())), modes.CBC(data[:16])).decryptor()
    return decryptor.update(data[16:]) + decryptor.finalize()


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
