"""Read a Signature strictly, before any of it is computed: only references to elements of the envelope are left.

Everything else that XML Signature allows (XSLT, XPath, external addresses, manifests, truncated values) is a way to
have one thing signed and another processed, or to keep the receiver busy, and WS-Security needs none of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lxml import etree

from demaq.soap.qualified_names import child_elements, clark
from demaq.soap.security.algorithm_suite import ECDSA_SIGNATURES, RSA_SIGNATURES, AlgorithmSuite
from demaq.soap.security.envelope_ids import EnvelopeIds
from demaq.soap.security.header_reader import (
    algorithm_of,
    decode_base64,
    expect_children,
    optional_child,
)
from demaq.soap.security.security_faults import failed_check, invalid_security, unsupported_algorithm
from demaq.soap.security.wss_names import DS, ENVELOPED_SIGNATURE, EXCLUSIVE_C14N

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_INCLUSIVE: Final = clark(EXCLUSIVE_C14N, "InclusiveNamespaces")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureStructure:
    """A Signature whose structure is as expected. Nothing of it has been verified."""

    element: etree._Element
    signed_info: etree._Element
    key_info: etree._Element
    method: str
    value: bytes
    targets: tuple[tuple[etree._Element, str], ...]
    """The elements that are referred to, each with the name of the attribute that has its Id."""


def read_signature(
    element: etree._Element, ids: EnvelopeIds, suite: AlgorithmSuite, references_max: int
) -> SignatureStructure:
    """Return the parts of a Signature. Raises SoapRefusal."""
    signed_info, value, key_info = expect_children(
        element, clark(DS, "SignedInfo"), clark(DS, "SignatureValue"), clark(DS, "KeyInfo")
    )
    children = child_elements(signed_info, references_max + 3)
    if len(children) > references_max + 2:
        raise invalid_security(f"a signature has more than {references_max} references")
    expected = ("CanonicalizationMethod", "SignatureMethod", *["Reference"] * max(1, len(children) - 2))
    expect_children(signed_info, *[clark(DS, name) for name in expected])
    _expect_exclusive(children[0])
    method = algorithm_of(children[1])
    if method not in suite.signatures:
        raise unsupported_algorithm("the algorithm of a signature is not one that was agreed on")
    expect_children(children[1])  # a length of the value would shorten it
    return SignatureStructure(
        element=element,
        signed_info=signed_info,
        key_info=key_info,
        method=method,
        value=decode_base64(value, "a signature"),
        targets=tuple([_read_reference(reference, ids, suite) for reference in children[2:]]),
    )


def check_key_kind(certificate: Certificate, method: str) -> None:
    """Raise SoapRefusal if the key of a certificate cannot have made a signature by this method."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    methods = RSA_SIGNATURES if isinstance(certificate.public_key(), rsa.RSAPublicKey) else ECDSA_SIGNATURES
    if method not in methods:
        raise failed_check("a signature is by another method than its certificate has a key for")


def _read_reference(reference: etree._Element, ids: EnvelopeIds, suite: AlgorithmSuite) -> tuple[etree._Element, str]:
    transforms, digest, value = expect_children(
        reference, clark(DS, "Transforms"), clark(DS, "DigestMethod"), clark(DS, "DigestValue")
    )
    is_enveloped = _read_transforms(transforms)
    if algorithm_of(digest) not in suite.digests:
        raise unsupported_algorithm("the algorithm of a digest is not one that was agreed on")
    decode_base64(value, "a digest")
    target, attribute = ids.resolve_attribute(reference.get("URI", ""))
    if is_enveloped and target in reference.iterancestors():
        raise invalid_security("a signature is inside of what it signs")
    return target, attribute


def _read_transforms(transforms: etree._Element) -> bool:
    """Return whether the signature is left out of what it signs, before that is canonicalized.

    This is of no use where the signature is somewhere else, but allowed (Basic Security Profile 1.1, R5423), and done
    by xml-crypto.
    """
    one = clark(DS, "Transform")
    listed = child_elements(transforms, 3)
    is_enveloped = len(listed) == 2 and algorithm_of(listed[0]) == ENVELOPED_SIGNATURE
    found = expect_children(transforms, *([one, one] if is_enveloped else [one]))
    if is_enveloped:
        expect_children(found[0])
    _expect_exclusive(found[-1])
    return is_enveloped


def _expect_exclusive(element: etree._Element) -> None:
    """Raise SoapRefusal unless an element names exclusive canonicalization without comments."""
    if algorithm_of(element) != EXCLUSIVE_C14N:
        raise unsupported_algorithm("only exclusive canonicalization without comments is accepted as a transform")
    if optional_child(element, _INCLUSIVE) is not None:
        expect_children(element, _INCLUSIVE)
    else:
        expect_children(element)
