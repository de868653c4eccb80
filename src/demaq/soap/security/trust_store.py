"""Which certificates of others are trusted: some directly, others because a trusted root issued them.

A certificate that is trusted directly needs no issuer, and its own dates and use are checked all the same. Revocation
lists are not read: to revoke a certificate that a root has issued, list the good ones directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from demaq.soap.security.algorithm_suite import AlgorithmSuite
from demaq.soap.security.certificate_checks import (
    UnfitCertificate,
    check_dates,
    check_signer,
    describe_subject,
    read_extensions,
    read_key_usage,
)
from demaq.soap.security.security_faults import invalid_token

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

CHAIN_MAX: Final = 6
"""The most certificates from that of a sender to a root, both counted."""
_WEAK_HASHES: Final = frozenset({"md5", "sha1"})


class TrustStore:
    """Certificates of others. It is never changed; to reload, make another."""

    def __init__(
        self,
        *,
        certificates: Iterable[Certificate] = (),
        roots: Iterable[Certificate] = (),
        known: Iterable[Certificate] = (),
    ) -> None:
        """`certificates` are trusted themselves, and `roots` to issue others.

        `known` are intermediate ones, and those of senders that only refer to their certificate: they are trusted if a
        root has issued them.
        """
        self._trusted = tuple(certificates)
        self._roots = tuple(roots)
        self._known = tuple(known)

    def find(self, matches: Callable[[Certificate], bool]) -> Certificate | None:
        """Return a certificate of a sender that a message refers to."""
        return next((each for each in (*self._trusted, *self._known) if matches(each)), None)

    def check(self, certificate: Certificate, now: datetime, suite: AlgorithmSuite) -> None:
        """Raise SoapRefusal if messages that are signed with a certificate are not accepted."""
        try:
            check_signer(certificate, now, suite)
            if certificate not in self._trusted:
                self._check_chain(certificate, now)
        except UnfitCertificate as error:
            raise invalid_token(f"the certificate of {describe_subject(certificate)}: {error}") from None

    def _check_chain(self, certificate: Certificate, now: datetime) -> None:
        path = [certificate]
        while len(path) < CHAIN_MAX:
            if _uses_weak_hash(path[-1]):
                raise UnfitCertificate("it is signed with SHA-1, MD5 or an unknown algorithm")
            root = next((each for each in self._roots if _has_issued(each, path[-1], len(path) - 1, now)), None)
            if root is not None:
                return
            between = next((each for each in self._known if _has_issued(each, path[-1], len(path) - 1, now)), None)
            if between is None or between in path:
                break
            path.append(between)
        raise UnfitCertificate("no trusted root has issued it")


def _has_issued(issuer: Certificate, certificate: Certificate, below: int, now: datetime) -> bool:
    """Return whether a certificate was issued by a valid authority, with so many authorities below that."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        if issuer.subject != certificate.issuer:
            return False
        certificate.verify_directly_issued_by(issuer)
        check_dates(issuer, now)
        extensions = read_extensions(issuer)
        usage = read_key_usage(extensions)
        constraints = extensions.get_extension_for_class(x509.BasicConstraints).value
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, UnfitCertificate, x509.ExtensionNotFound):
        return False
    if usage is not None and not usage.key_cert_sign:
        return False
    return constraints.ca and (constraints.path_length is None or constraints.path_length >= below)


def _uses_weak_hash(certificate: Certificate) -> bool:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        used = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        return True
    return used is not None and used.name in _WEAK_HASHES
