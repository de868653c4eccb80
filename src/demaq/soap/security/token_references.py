"""Name a certificate in a KeyInfo, and find the certificate that one names (X.509 Certificate Token Profile 1.1)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from lxml import etree

from demaq.soap.qualified_names import child_elements, clark
from demaq.soap.security.distinguished_names import are_same_names
from demaq.soap.security.element_writer import RandomBytes, add_element, encode_base64, ensure_id, make_element
from demaq.soap.security.envelope_ids import EnvelopeIds
from demaq.soap.security.header_reader import decode_base64, name_of, only_child, optional_child, text_of
from demaq.soap.security.security_faults import invalid_security, invalid_token, unavailable_token, unsupported_token
from demaq.soap.security.security_requirements import TokenForm
from demaq.soap.security.wss_names import (
    BASE64,
    BINARY_TOKEN,
    DS,
    THUMBPRINT_SHA1,
    TOKEN_REFERENCE,
    WSSE,
    X509_SUBJECT_KEY,
    X509_V3,
)

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

CertificateFinder = Callable[[Callable[["Certificate"], bool]], "Certificate | None"]
"""Returns a known certificate for which a predicate holds."""

_X509_DATA = clark(DS, "X509Data")
_ISSUER_SERIAL = clark(DS, "X509IssuerSerial")
_CERTIFICATE = clark(DS, "X509Certificate")
_SERIAL_DIGITS_MAX = 60
"""20 bytes (RFC 5280) have fewer."""


def write_token_reference(
    key_info: etree._Element,
    security: etree._Element,
    certificate: Certificate,
    form: TokenForm,
    random: RandomBytes,
) -> None:
    """Add to a KeyInfo a reference to a certificate. A BinarySecurityToken becomes the first child of the header."""
    reference = add_element(key_info, WSSE, "SecurityTokenReference")
    if form is TokenForm.BINARY_TOKEN:
        token_id = ensure_id(_add_binary_token(security, certificate), random)
        add_element(reference, WSSE, "Reference", URI=f"#{token_id}", ValueType=X509_V3)
    elif form is TokenForm.ISSUER_SERIAL:
        serial = add_element(add_element(reference, DS, "X509Data"), DS, "X509IssuerSerial")
        add_element(serial, DS, "X509IssuerName", certificate.issuer.rfc4514_string())
        add_element(serial, DS, "X509SerialNumber", str(certificate.serial_number))
    elif form is TokenForm.EMBEDDED:
        data = add_element(reference, DS, "X509Data")
        add_element(data, DS, "X509Certificate", encode_base64(_encode(certificate)))
    else:
        is_thumbprint = form is TokenForm.THUMBPRINT
        add_element(
            reference,
            WSSE,
            "KeyIdentifier",
            encode_base64(thumbprint_of(certificate) if is_thumbprint else subject_key_of(certificate)),
            ValueType=THUMBPRINT_SHA1 if is_thumbprint else X509_SUBJECT_KEY,
            EncodingType=BASE64,
        )


def read_certificate(
    key_info: etree._Element,
    security: etree._Element,
    ids: EnvelopeIds,
    find: CertificateFinder,
    accepted: Sequence[TokenForm],
    kind: str,
) -> Certificate:
    """Return the certificate that a KeyInfo names. Raises SoapRefusal, if it is not known with this kind of error.

    A certificate in the message may be any: that it is trusted is checked by the caller.
    """
    forms = list(_named_certificates(key_info, security, ids, find))
    usable = [named for form, named in forms if form in accepted]
    if not usable:
        words = ", ".join([form.value for form in accepted])
        raise unsupported_token(f"a certificate is not named in an accepted form ({words})")
    certificate = usable[0]()
    if certificate is None:
        raise unavailable_token("a certificate that the message refers to is not known", kind)
    return certificate


def thumbprint_of(certificate: Certificate) -> bytes:
    return hashlib.sha1(_encode(certificate), usedforsecurity=False).digest()


def subject_key_of(certificate: Certificate) -> bytes:
    """Return the identifier in the certificate, or else that of RFC 5280, 4.2.1.2, method 1."""
    from cryptography import x509

    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    except (x509.ExtensionNotFound, ValueError):
        return x509.SubjectKeyIdentifier.from_public_key(certificate.public_key()).digest


_Named = tuple[TokenForm, Callable[[], "Certificate | None"]]


def _named_certificates(
    key_info: etree._Element, security: etree._Element, ids: EnvelopeIds, find: CertificateFinder
) -> Iterator[_Named]:
    """Yield the forms in which a certificate is named, each with a function that returns it. The best is first."""
    reference = optional_child(key_info, TOKEN_REFERENCE)
    holder = only_child(key_info, _X509_DATA) if reference is None else reference
    if reference is None:
        yield from _in_x509_data(holder, find)
        return
    named = child_elements(reference, 2)
    if len(named) != 1:
        raise invalid_security("a SecurityTokenReference does not have one child")
    if named[0].tag == clark(WSSE, "Reference"):
        yield TokenForm.BINARY_TOKEN, lambda: _read_binary_token(named[0], security, ids)
    elif named[0].tag == clark(WSSE, "KeyIdentifier"):
        yield _by_identifier(named[0], find)
    elif named[0].tag == _X509_DATA:
        yield from _in_x509_data(named[0], find)
    else:
        raise unsupported_token(f"a certificate cannot be named by {name_of(named[0])}")


def _in_x509_data(data: etree._Element, find: CertificateFinder) -> Iterator[_Named]:
    certificate, serial = optional_child(data, _CERTIFICATE), optional_child(data, _ISSUER_SERIAL)
    key = optional_child(data, clark(DS, "X509SKI"))
    if certificate is not None:
        yield TokenForm.EMBEDDED, lambda: _decode(decode_base64(certificate, "a certificate"))
    if serial is not None:
        yield TokenForm.ISSUER_SERIAL, lambda: _find_issuer_serial(serial, find)
    if key is not None:
        wanted = decode_base64(key, "a key identifier")
        yield TokenForm.SUBJECT_KEY_IDENTIFIER, lambda: find(lambda known: subject_key_of(known) == wanted)


def _by_identifier(identifier: etree._Element, find: CertificateFinder) -> _Named:
    wanted = decode_base64(identifier, "a key identifier")
    kind = identifier.get("ValueType")
    if kind == THUMBPRINT_SHA1:
        return TokenForm.THUMBPRINT, lambda: find(lambda known: thumbprint_of(known) == wanted)
    if kind == X509_V3:  # the whole certificate as an identifier, by gSOAP
        return TokenForm.EMBEDDED, lambda: _decode(wanted)
    if kind == X509_SUBJECT_KEY:
        return TokenForm.SUBJECT_KEY_IDENTIFIER, lambda: find(lambda known: subject_key_of(known) == wanted)
    raise unsupported_token("a key identifier is neither a thumbprint nor that of a subject key")


def _find_issuer_serial(element: etree._Element, find: CertificateFinder) -> Certificate | None:
    issuer = text_of(only_child(element, clark(DS, "X509IssuerName")))
    written = text_of(only_child(element, clark(DS, "X509SerialNumber"))).strip()
    if not written.isdecimal() or not written.isascii() or len(written) > _SERIAL_DIGITS_MAX:
        raise invalid_security("a serial number of a certificate is no number")
    serial = int(written)
    return find(lambda known: known.serial_number == serial and are_same_names(issuer, known.issuer.rfc4514_string()))


def _read_binary_token(reference: etree._Element, security: etree._Element, ids: EnvelopeIds) -> Certificate:
    token = ids.resolve(reference.get("URI", ""))
    if token.tag != BINARY_TOKEN or token.getparent() is not security:
        raise unsupported_token("a reference is not to a BinarySecurityToken of this header")
    if token.get("ValueType") != X509_V3 or token.get("EncodingType", BASE64) != BASE64:
        raise unsupported_token("a BinarySecurityToken is no X.509 certificate in base64")
    return _decode(decode_base64(token, "a certificate"))


def _add_binary_token(security: etree._Element, certificate: Certificate) -> etree._Element:
    token = make_element(WSSE, "BinarySecurityToken", ValueType=X509_V3, EncodingType=BASE64)
    token.text = encode_base64(_encode(certificate))
    security.insert(0, token)
    return token


def _encode(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.DER)


def _decode(der: bytes) -> Certificate:
    from cryptography import x509

    try:
        certificate = x509.load_der_x509_certificate(der)
        certificate.subject.rfc4514_string()  # a malformed one is noticed when it is read
    except ValueError:
        raise invalid_token("a certificate is malformed") from None
    return certificate
