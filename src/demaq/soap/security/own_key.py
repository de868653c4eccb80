"""A private key of ours with its certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from demaq.errors import OperatorError

if TYPE_CHECKING:
    import xmlsec
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
    from cryptography.x509 import Certificate


class OwnKey:
    """Signs what is sent, and decrypts what was encrypted for its certificate. Its representation has no secret."""

    __slots__ = ("_private", "certificate")

    def __init__(self, private_pem: bytes, certificate: Certificate) -> None:
        """`private_pem` is a key in PKCS #8 without a password. `read_own_key` reads other forms."""
        self._private: Final = private_pem
        self.certificate: Final = certificate

    def load(self) -> xmlsec.Key:
        """Return the key for xmlsec."""
        import xmlsec

        return xmlsec.Key.from_memory(self._private, xmlsec.constants.KeyDataFormatPem)

    def __repr__(self) -> str:
        return f"OwnKey({self.certificate.subject.rfc4514_string()!r})"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a private key stays in its process")


def read_own_key(key_pem: bytes, certificate_pem: bytes, password: bytes | None = None) -> OwnKey:
    """Return a key from the texts of its files. Raises OperatorError, without quoting them."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    try:
        private = serialization.load_pem_private_key(key_pem, password)
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        public = certificate.public_key()
    except (ValueError, TypeError, ArithmeticError) as error:  # causes may quote the file
        raise OperatorError(f"a key or its certificate cannot be read ({type(error).__name__})") from None
    if not isinstance(private, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise OperatorError("a key for WS-Security is of kind RSA or EC")
    if _encode_public(private.public_key()) != _encode_public(public):
        raise OperatorError("a certificate does not belong to its private key")
    plain = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return OwnKey(plain, certificate)


def load_public_key(certificate: Certificate) -> xmlsec.Key:
    """Return the key of a certificate for xmlsec."""
    import xmlsec

    return xmlsec.Key.from_memory(_encode_public(certificate.public_key()), xmlsec.constants.KeyDataFormatPem)


def _encode_public(key: PublicKeyTypes) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
