"""Make and verify signatures with xmlsec. Which elements are signed is decided before, by our own code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lxml import etree

from demaq.errors import OperatorError
from demaq.soap.qualified_names import local_name
from demaq.soap.security.algorithm_suite import ECDSA_SIGNATURES, RSA_SIGNATURES, AlgorithmSuite
from demaq.soap.security.element_writer import RandomBytes, add_element, ensure_id, make_element, make_id
from demaq.soap.security.own_key import OwnKey, load_public_key
from demaq.soap.security.security_faults import failed_check
from demaq.soap.security.signature_reader import SignatureStructure
from demaq.soap.security.wss_names import DS, ENCRYPTED_DATA, EXCLUSIVE_C14N, WSU, WSU_ID

if TYPE_CHECKING:
    import xmlsec
    from cryptography.x509 import Certificate

_PREFIXES_MAX = 100


def make_signature(
    targets: Iterable[etree._Element], key: OwnKey, suite: AlgorithmSuite, random: RandomBytes
) -> tuple[etree._Element, etree._Element]:
    """Return a Signature of elements that is not computed yet, and its empty KeyInfo."""
    signature = make_element(DS, "Signature", Id=make_id("SIG", random))
    signed_info = add_element(signature, DS, "SignedInfo")
    add_element(signed_info, DS, "CanonicalizationMethod", Algorithm=EXCLUSIVE_C14N)
    add_element(signed_info, DS, "SignatureMethod", Algorithm=choose_method(key.certificate, suite))
    for target in targets:
        reference = add_element(signed_info, DS, "Reference", URI=f"#{_id_of(target, random)}")
        transform = add_element(add_element(reference, DS, "Transforms"), DS, "Transform", Algorithm=EXCLUSIVE_C14N)
        prefixes = _prefixes_around(target)
        if prefixes:
            add_element(transform, EXCLUSIVE_C14N, "InclusiveNamespaces", PrefixList=" ".join(prefixes))
        add_element(reference, DS, "DigestMethod", Algorithm=suite.digests[0])
        add_element(reference, DS, "DigestValue")
    add_element(signature, DS, "SignatureValue")
    return signature, add_element(signature, DS, "KeyInfo")


def compute_signature(signature: etree._Element, targets: Iterable[etree._Element], key: OwnKey) -> None:
    """Fill in digests and value of a Signature that is in its place."""
    import xmlsec

    context = xmlsec.SignatureContext()
    context.key = key.load()
    for target in targets:
        _register(context, target, WSU_ID if WSU_ID in target.attrib else "Id")
    try:
        context.sign(signature)
    except xmlsec.Error:
        raise OperatorError("the message cannot be signed with the key of the gateway") from None


def verify_signature(signature: SignatureStructure, certificate: Certificate) -> None:
    """Raise SoapRefusal if the key of a certificate has not signed exactly the elements that are referred to."""
    import xmlsec

    try:
        context = xmlsec.SignatureContext()
        context.key = load_public_key(certificate)
        for target, attribute in signature.targets:
            _register(context, target, attribute)
        context.verify(signature.element)
    except (xmlsec.Error, ValueError, TypeError):
        raise failed_check("a signature is not valid") from None


def choose_method(certificate: Certificate, suite: AlgorithmSuite) -> str:
    """Return the first method of a suite that the key of a certificate can be used with."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    methods = RSA_SIGNATURES if isinstance(certificate.public_key(), rsa.RSAPublicKey) else ECDSA_SIGNATURES
    for method in suite.signatures:
        if method in methods:
            return method
    raise OperatorError("the key of the gateway fits none of the algorithms for signatures that were agreed on")


def _prefixes_around(target: etree._Element) -> list[str]:
    """Return the prefixes that are declared around an element.

    They are signed with it, because it may use them in its content (`xsi:type="t:order"`), where exclusive
    canonicalization does not see them.
    """
    parent = target.getparent()
    prefixes = parent.nsmap if parent is not None else {}
    return sorted([prefix if prefix is not None else "#default" for prefix in prefixes])[:_PREFIXES_MAX]


def _id_of(target: etree._Element, random: RandomBytes) -> str:
    found = target.get("Id") if target.tag == ENCRYPTED_DATA else None
    return found if found is not None else ensure_id(target, random)


def _register(context: xmlsec.SignatureContext, target: etree._Element, attribute: str) -> None:
    """Let xmlsec find an element by its Id. It finds no others, as no document type declares any."""
    context.register_id(target, local_name(attribute), WSU if attribute == WSU_ID else None)
