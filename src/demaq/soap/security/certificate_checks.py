"""What a certificate must be, apart from who issued it: dates, use, strength of its key.

RFC 5280 defines the extensions. A certificate without an extension about its use may be used for everything.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from demaq.soap.qualified_names import shorten
from demaq.soap.security.algorithm_suite import AlgorithmSuite

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, Extensions, KeyUsage

_PURPOSES: Final = frozenset(
    {
        "2.5.29.37.0",  # any
        "1.3.6.1.5.5.7.3.1",  # servers of TLS
        "1.3.6.1.5.5.7.3.2",  # clients of TLS
        "1.3.6.1.5.5.7.3.4",  # mail
    }
)
"""Extended uses of certificates that sign and decrypt messages. There is none for SOAP."""
_UNDERSTOOD: Final = frozenset(
    {
        "2.5.29.14",  # subject key identifier
        "2.5.29.15",  # key usage
        "2.5.29.17",  # subject alternative name
        "2.5.29.19",  # basic constraints
        "2.5.29.32",  # certificate policies
        "2.5.29.35",  # authority key identifier
        "2.5.29.37",  # extended key usage
    }
)


class UnfitCertificate(Exception):
    """Says what is wrong with a certificate."""


def check_signer(certificate: Certificate, now: datetime, suite: AlgorithmSuite) -> None:
    """Raise UnfitCertificate if signatures with this certificate are not accepted."""
    extensions = _check(certificate, now, suite)
    usage = read_key_usage(extensions)
    if usage is not None and not (usage.digital_signature or usage.content_commitment):
        raise UnfitCertificate("its key is not for signatures")


def check_recipient(certificate: Certificate, now: datetime, suite: AlgorithmSuite) -> None:
    """Raise UnfitCertificate if nothing may be encrypted for this certificate."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    extensions = _check(certificate, now, suite)
    usage = read_key_usage(extensions)
    if usage is not None and not (usage.key_encipherment or usage.data_encipherment):
        raise UnfitCertificate("its key is not for encryption")
    if not isinstance(certificate.public_key(), rsa.RSAPublicKey):
        raise UnfitCertificate("its key is not of kind RSA, and cannot encrypt keys")


def check_dates(certificate: Certificate, now: datetime) -> None:
    if now < certificate.not_valid_before_utc:
        raise UnfitCertificate(f"it is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC")
    if now > certificate.not_valid_after_utc:
        raise UnfitCertificate(f"it has expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC")


def read_extensions(certificate: Certificate) -> Extensions:
    """Return the extensions. Raises UnfitCertificate if they are malformed, or one is critical and not understood."""
    try:
        extensions = certificate.extensions
    except ValueError:
        raise UnfitCertificate("its extensions are malformed") from None
    for extension in extensions:
        if extension.critical and extension.oid.dotted_string not in _UNDERSTOOD:
            raise UnfitCertificate(f"its critical extension {extension.oid.dotted_string} is not understood")
    return extensions


def read_key_usage(extensions: Extensions) -> KeyUsage | None:
    from cryptography import x509

    try:
        return extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return None


def describe_subject(certificate: Certificate) -> str:
    """Return the subject as in RFC 4514, cut for an error message."""
    try:
        return shorten(certificate.subject.rfc4514_string())
    except ValueError:
        return "an unreadable subject"


def _check(certificate: Certificate, now: datetime, suite: AlgorithmSuite) -> Extensions:
    check_dates(certificate, now)
    _check_key(certificate, suite)
    extensions = read_extensions(certificate)
    _check_purpose(extensions)
    return extensions


def _check_purpose(extensions: Extensions) -> None:
    from cryptography import x509

    try:
        purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    if _PURPOSES.isdisjoint([purpose.dotted_string for purpose in purposes]):
        raise UnfitCertificate("it is for another use than messages")


def _check_key(certificate: Certificate, suite: AlgorithmSuite) -> None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise UnfitCertificate("its key is of an unknown kind") from None
    if isinstance(key, rsa.RSAPublicKey):
        if not suite.rsa_bits_min <= key.key_size <= suite.rsa_bits_max:
            raise UnfitCertificate(
                f"its RSA key has {key.key_size} bits, not {suite.rsa_bits_min} to {suite.rsa_bits_max}"
            )
    elif isinstance(key, ec.EllipticCurvePublicKey):
        if key.curve.key_size < suite.curve_bits_min:
            raise UnfitCertificate(f"its curve has {key.curve.key_size} bits, fewer than {suite.curve_bits_min}")
    else:
        raise UnfitCertificate("its key is neither of kind RSA nor EC")
