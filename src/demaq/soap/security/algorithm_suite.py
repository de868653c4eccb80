"""The algorithms of XML Signature and XML Encryption, and which of them two parties agree on.

What is not in a suite is refused. Those of the default suite are sound today; weaker ones work if a policy asks for
them by name: SHA-1 in signatures, AES-CBC, which lets an attacker change what is not signed, and RSA 1.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from demaq.soap.security.wss_names import DS, XENC, XENC_1_1

_MORE: Final = "http://www.w3.org/2001/04/xmldsig-more#"

RSA_SHA256: Final = f"{_MORE}rsa-sha256"
RSA_SHA384: Final = f"{_MORE}rsa-sha384"
RSA_SHA512: Final = f"{_MORE}rsa-sha512"
ECDSA_SHA256: Final = f"{_MORE}ecdsa-sha256"
ECDSA_SHA384: Final = f"{_MORE}ecdsa-sha384"
ECDSA_SHA512: Final = f"{_MORE}ecdsa-sha512"
RSA_SHA1: Final = f"{DS}rsa-sha1"
ECDSA_SHA1: Final = f"{_MORE}ecdsa-sha1"

SHA256: Final = f"{XENC}sha256"
SHA384: Final = f"{_MORE}sha384"
SHA512: Final = f"{XENC}sha512"
SHA1: Final = f"{DS}sha1"

AES128_GCM: Final = f"{XENC_1_1}aes128-gcm"
AES256_GCM: Final = f"{XENC_1_1}aes256-gcm"
AES128_CBC: Final = f"{XENC}aes128-cbc"
AES256_CBC: Final = f"{XENC}aes256-cbc"

RSA_OAEP: Final = f"{XENC_1_1}rsa-oaep"
"""Of XML Encryption 1.1; we use it with SHA-256 for both of its functions."""
RSA_OAEP_MGF1P: Final = f"{XENC}rsa-oaep-mgf1p"
RSA_1_5: Final = f"{XENC}rsa-1_5"

MGF1_SHA1: Final = f"{XENC_1_1}mgf1sha1"
MGF1_SHA256: Final = f"{XENC_1_1}mgf1sha256"

KEY_BYTES: Final[Mapping[str, int]] = {AES128_GCM: 16, AES256_GCM: 32, AES128_CBC: 16, AES256_CBC: 32}
"""The lengths of keys for data."""
MALLEABLE: Final = frozenset({AES128_CBC, AES256_CBC, RSA_1_5})
"""How these fail can be used to decrypt, so a sender must not see where processing ended."""
RSA_SIGNATURES: Final = frozenset({RSA_SHA256, RSA_SHA384, RSA_SHA512, RSA_SHA1})
ECDSA_SIGNATURES: Final = frozenset({ECDSA_SHA256, ECDSA_SHA384, ECDSA_SHA512, ECDSA_SHA1})
OAEP_DIGESTS: Final = frozenset({SHA1, SHA256})
"""Inside of OAEP nothing depends on collisions, so SHA-1 is sound there."""
OAEP_MASKS: Final = frozenset({MGF1_SHA1, MGF1_SHA256})


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmSuite:
    """The accepted algorithms of each kind. The first that fits the keys is used for sending."""

    signatures: tuple[str, ...] = (RSA_SHA256, ECDSA_SHA256)
    digests: tuple[str, ...] = (SHA256,)
    data: tuple[str, ...] = (AES256_GCM, AES128_GCM)
    key_transport: tuple[str, ...] = (RSA_OAEP_MGF1P, RSA_OAEP)
    """RSA_OAEP_MGF1P first, because more software knows it."""
    rsa_bits_min: int = 2048
    rsa_bits_max: int = 8192
    """Larger keys only cost time."""
    curve_bits_min: int = 256

    def __post_init__(self) -> None:
        known = (
            (self.signatures, RSA_SIGNATURES | ECDSA_SIGNATURES),
            (self.digests, frozenset({SHA1, SHA256, SHA384, SHA512})),
            (self.data, frozenset(KEY_BYTES)),
            (self.key_transport, frozenset({RSA_OAEP, RSA_OAEP_MGF1P, RSA_1_5})),
        )
        for chosen, possible in known:
            if not chosen or not possible.issuperset(chosen):
                raise ValueError(f"unknown algorithms, or none: {', '.join(sorted(set(chosen) - possible))}")
