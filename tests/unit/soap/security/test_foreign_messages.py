"""Messages as other software writes them, filled in without xmlsec."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from demaq.soap.refusals import SoapRefusal
from demaq.soap.security import AlgorithmSuite, MessageParts, SecurityRequirements, TrustStore
from demaq.soap.security import algorithm_suite as algorithms
from demaq.soap.security.token_references import subject_key_of, thumbprint_of
from tests.support.soap.independent_crypto import encode, encrypt, encrypt_key, sign
from tests.support.soap.security_parties import (
    NAMESPACES,
    SOAP,
    WSA,
    client_certificate,
    make_certificate,
    make_private_key,
    receive,
    service_certificate,
)

WSSE, WSU, DS, XENC = (NAMESPACES[prefix] for prefix in ("wsse", "wsu", "ds", "xenc"))
X509 = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-x509-token-profile-1.0"
MESSAGE = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-soap-message-security-1.0"
MESSAGE_1_1 = "http://docs.oasis-open.org/wss/oasis-wss-soap-message-security-1.1"
C14N = "http://www.w3.org/2001/10/xml-exc-c14n#"
SIGNED = SecurityRequirements(timestamp=True, signed=MessageParts(body=True, timestamp=True))
BOTH = replace(SIGNED, encrypted=MessageParts(body=True))


def certificate_text(certificate=None):
    return encode((certificate or client_certificate()).public_bytes(Encoding.DER))


def finish(text, key=None):
    root = etree.fromstring(text)
    sign(root, key or make_private_key("client"))
    return root


def reference(uri, prefixes="", prefix="ds:"):
    inclusive = f'<ec:InclusiveNamespaces xmlns:ec="{C14N}" PrefixList="{prefixes}"/>' if prefixes else ""
    return (
        f'<{prefix}Reference URI="#{uri}">\n<{prefix}Transforms>\n<{prefix}Transform Algorithm="{C14N}">{inclusive}'
        f'</{prefix}Transform>\n</{prefix}Transforms>\n<{prefix}DigestMethod Algorithm="{algorithms.SHA256}"/>\n'
        f"<{prefix}DigestValue/>\n</{prefix}Reference>\n"
    )


def java_style(body, key_info, extra="", method=algorithms.RSA_SHA256):
    """WSS4J as CXF uses it: new elements first, inclusive prefixes, white space, long Ids."""
    return f"""<soap:Envelope xmlns:soap="{SOAP["1.1"]}"><SOAP-ENV:Header xmlns:SOAP-ENV="{SOAP["1.1"]}">
<wsse:Security xmlns:wsse="{WSSE}" xmlns:wsu="{WSU}" soap:mustUnderstand="1">
<wsse:BinarySecurityToken EncodingType="{MESSAGE}#Base64Binary" ValueType="{X509}#X509v3" wsu:Id="X509-5f">{certificate_text()}</wsse:BinarySecurityToken>
{extra}<wsu:Timestamp wsu:Id="TS-1"><wsu:Created>2026-05-01T12:00:00.001Z</wsu:Created><wsu:Expires>2026-05-01T12:05:00.001Z</wsu:Expires></wsu:Timestamp>
<ds:Signature xmlns:ds="{DS}" Id="SIG-4"><ds:SignedInfo><ds:CanonicalizationMethod Algorithm="{C14N}"><ec:InclusiveNamespaces xmlns:ec="{C14N}" PrefixList="SOAP-ENV soap"/></ds:CanonicalizationMethod><ds:SignatureMethod Algorithm="{method}"/>
{reference("TS-1", "wsse SOAP-ENV soap")}{reference("id-3", "")}{reference("X509-5f", "")}</ds:SignedInfo><ds:SignatureValue/>
<ds:KeyInfo Id="KI-2"><wsse:SecurityTokenReference wsu:Id="STR-3">{key_info}</wsse:SecurityTokenReference></ds:KeyInfo></ds:Signature>
</wsse:Security></SOAP-ENV:Header><soap:Body xmlns:wsu="{WSU}" wsu:Id="id-3">{body}</soap:Body></soap:Envelope>"""


JAVA_REFERENCE = f'<wsse:Reference URI="#X509-5f" ValueType="{X509}#X509v3"/>'
ORDER = '<ns2:order xmlns:ns2="urn:orders" xmlns="urn:x">17</ns2:order>'


def identifier(kind, value):
    return f'<wsse:KeyIdentifier EncodingType="{MESSAGE}#Base64Binary" ValueType="{kind}">{encode(value)}</wsse:KeyIdentifier>'


@pytest.mark.parametrize(
    "key_info",
    [
        lambda: JAVA_REFERENCE,
        lambda: '<wsse:Reference URI="#X509-5f"/>',
        lambda: identifier(f"{X509}#X509v3", client_certificate().public_bytes(Encoding.DER)),
        lambda: identifier(f"{MESSAGE_1_1}#ThumbprintSHA1", thumbprint_of(client_certificate())),
        lambda: identifier(f"{X509}#X509SubjectKeyIdentifier", subject_key_of(client_certificate())),
        lambda: (
            "<ds:X509Data><ds:X509IssuerSerial><ds:X509IssuerName>C=DE, O=&quot;Test, Inc.&quot;, CN=client</ds:X509IssuerName>"
            f"<ds:X509SerialNumber>{client_certificate().serial_number}</ds:X509SerialNumber></ds:X509IssuerSerial></ds:X509Data>"
        ),
    ],
    ids=[
        "direct",
        "direct without a type",
        "certificate as identifier",
        "thumbprint",
        "subject key",
        "issuer and serial number",
    ],
)
def test_a_signature_of_wss4j_is_accepted(key_info):
    root = finish(java_style(ORDER, key_info()))
    received = receive(etree.tostring(root), SIGNED)
    assert received.sender.certificate == client_certificate()
    assert b">17<" in received.data
    with pytest.raises(SoapRefusal, match="not valid"):
        receive(etree.tostring(root).replace(b">17<", b">18<"), SIGNED)


def test_a_signature_of_xml_crypto_is_accepted_which_is_left_out_of_what_it_does_not_contain():
    text = java_style(ORDER, JAVA_REFERENCE)
    left_out = f'<ds:Transforms>\n<ds:Transform Algorithm="{DS}enveloped-signature"/>'
    root = etree.fromstring(text.replace("<ds:Transforms>", left_out))
    sign(root, make_private_key("client"))
    assert receive(etree.tostring(root), SIGNED).sender.certificate == client_certificate()
    with pytest.raises(SoapRefusal, match="not valid"):
        receive(etree.tostring(root).replace(b">17<", b">18<"), SIGNED)


def test_a_signature_with_a_curve_by_other_software_is_accepted():
    certificate = make_certificate("foreign", kind="ec256")
    text = java_style(ORDER, JAVA_REFERENCE, method=algorithms.ECDSA_SHA256)
    text = text.replace(certificate_text(), certificate_text(certificate))
    data = etree.tostring(finish(text, make_private_key("foreign", "ec256")))
    assert receive(data, SIGNED, trust=TrustStore(certificates=[certificate])).sender.certificate == certificate


def encrypted_key(secret, references, digest="", oaep=algorithms.RSA_OAEP_MGF1P, key_info=""):
    key = service_certificate().public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    chosen = hashes.SHA256() if digest else hashes.SHA1()
    method = f'<ds:DigestMethod xmlns:ds="{DS}" Algorithm="{digest}"/>' if digest else ""
    mask: hashes.HashAlgorithm = hashes.SHA1()
    if oaep == algorithms.RSA_OAEP:
        mask = hashes.SHA256()
        method += f'<xenc11:MGF xmlns:xenc11="http://www.w3.org/2009/xmlenc11#" Algorithm="{algorithms.MGF1_SHA256}"/>'
    listed = "".join([f'<xenc:DataReference URI="#{one}"/>' for one in references])
    return (
        f'<xenc:EncryptedKey xmlns:xenc="{XENC}" Id="EK-1"><xenc:EncryptionMethod Algorithm="{oaep}">{method}</xenc:EncryptionMethod>'
        f"{key_info}<xenc:CipherData><xenc:CipherValue>{encrypt_key(secret, key, chosen, mask)}</xenc:CipherValue></xenc:CipherData>"
        + (f"<xenc:ReferenceList>{listed}</xenc:ReferenceList>" if listed else "")
        + "</xenc:EncryptedKey>"
    )


def encrypted_data(plain, secret, name, kind="Content", key_info=""):
    return (
        f'<xenc:EncryptedData xmlns:xenc="{XENC}" Id="{name}" Type="{XENC}{kind}"><xenc:EncryptionMethod Algorithm="{algorithms.AES128_GCM}"/>'
        f"{key_info}<xenc:CipherData>\n<xenc:CipherValue>{encrypt(plain, secret)}</xenc:CipherValue>\n</xenc:CipherData></xenc:EncryptedData>"
    )


@pytest.mark.parametrize(
    ("digest", "oaep"),
    [
        ("", algorithms.RSA_OAEP_MGF1P),
        (algorithms.SHA256, algorithms.RSA_OAEP_MGF1P),
        (algorithms.SHA256, algorithms.RSA_OAEP),
    ],
)
@pytest.mark.parametrize("plain", [ORDER.encode(), b"\n  " + ORDER.encode() + b"<!-- c -->\n"])
def test_a_body_that_wss4j_signed_and_then_encrypted_is_accepted(digest, oaep, plain):
    secret = os.urandom(16)
    serial = service_certificate().serial_number
    key_info = (
        f'<ds:KeyInfo xmlns:ds="{DS}"><wsse:SecurityTokenReference><ds:X509Data><ds:X509IssuerSerial>'
        f"<ds:X509IssuerName>CN=service,O=Test\\, Inc.,C=DE</ds:X509IssuerName><ds:X509SerialNumber>{serial}</ds:X509SerialNumber>"
        "</ds:X509IssuerSerial></ds:X509Data></wsse:SecurityTokenReference></ds:KeyInfo>"
    )
    key = encrypted_key(secret, ["ED-2"], digest, oaep, key_info)
    signed = etree.tostring(finish(java_style(plain.decode(), JAVA_REFERENCE, extra=key)))
    data = signed.replace(plain.replace(b"<!-- c -->", b"<!-- c -->"), encrypted_data(plain, secret, "ED-2").encode())
    received = receive(data, BOTH)
    assert b">17<" in received.data
    assert received.is_body_signed


def dotnet_style(secret, body, signature, order):
    """WCF with mutual certificates: other prefixes, a default namespace, an encrypted signature, a list of its own."""
    link = f'<KeyInfo xmlns="{DS}"><o:SecurityTokenReference xmlns:o="{WSSE}"><o:Reference URI="#EK-1"/></o:SecurityTokenReference></KeyInfo>'
    thumbprint = encode(thumbprint_of(service_certificate()))
    key_info = (
        f'<KeyInfo xmlns="{DS}"><o:SecurityTokenReference xmlns:o="{WSSE}"><o:KeyIdentifier ValueType="{MESSAGE_1_1}#ThumbprintSHA1" '
        f'EncodingType="{MESSAGE}#Base64Binary">{thumbprint}</o:KeyIdentifier></o:SecurityTokenReference></KeyInfo>'
    )
    protected = {
        "key": encrypted_key(secret, [], key_info=key_info),
        "list": f'<e:ReferenceList xmlns:e="{XENC}"><e:DataReference URI="#_3"/><e:DataReference URI="#_4"/></e:ReferenceList>',
        "signature": encrypted_data(signature, secret, "_4", "Element", link) if signature else "SIGNATURE",
    }
    parts = "".join([protected[name] for name in order])
    content = encrypted_data(body, secret, "_3", "Content", link) if signature else body.decode()
    return f"""<s:Envelope xmlns:s="{SOAP["1.2"]}" xmlns:a="{WSA}" xmlns:u="{WSU}"><s:Header><a:Action s:mustUnderstand="1" u:Id="_5">urn:order</a:Action><a:MessageID u:Id="_6">urn:uuid:1</a:MessageID><a:To s:mustUnderstand="1" u:Id="_7">http://localhost/</a:To><o:Security s:mustUnderstand="1" xmlns:o="{WSSE}"><u:Timestamp u:Id="uuid-1"><u:Created>2026-05-01T12:00:00.000Z</u:Created><u:Expires>2026-05-01T12:05:00.000Z</u:Expires></u:Timestamp><o:BinarySecurityToken u:Id="uuid-2" ValueType="{X509}#X509v3" EncodingType="{MESSAGE}#Base64Binary">{certificate_text()}</o:BinarySecurityToken>{parts}</o:Security></s:Header><s:Body u:Id="_2">{content}</s:Body></s:Envelope>"""


@pytest.mark.parametrize("order", [("key", "list", "signature")])
def test_a_message_of_wcf_with_an_encrypted_signature_is_accepted(order):
    secret, body = os.urandom(16), b'<submit xmlns="urn:orders"><no>17</no></submit>'
    references = "".join([reference(name, prefix="") for name in ("_2", "_5", "_6", "_7", "uuid-1")])
    signature = (
        f'<Signature xmlns="{DS}"><SignedInfo><CanonicalizationMethod Algorithm="{C14N}"/>'
        f'<SignatureMethod Algorithm="{algorithms.RSA_SHA256}"/>{references}</SignedInfo><SignatureValue/><KeyInfo>'
        f'<o:SecurityTokenReference xmlns:o="{WSSE}"><o:Reference URI="#uuid-2"/></o:SecurityTokenReference></KeyInfo></Signature>'
    )
    root = finish(dotnet_style(secret, body, b"", order).replace("SIGNATURE", signature))
    (made,) = root.xpath("//ds:Signature", namespaces=NAMESPACES)
    data = dotnet_style(secret, body, etree.tostring(made, with_tail=False), order).encode()
    requirements = replace(BOTH, signed=MessageParts(body=True, timestamp=True, headers=(f"{{{WSA}}}*",)))
    received = receive(data, requirements)
    assert b"<no>17</no>" in received.data
    assert received.signed_headers == {f"{{{WSA}}}{name}" for name in ("Action", "MessageID", "To")}


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_message_of_gsoap_is_accepted(version):
    """Short Ids, many prefixes at the top, no milliseconds, inclusive prefixes everywhere, KeyInfo after."""
    prefixes = "SOAP-ENV xsi wsu ns"
    text = f"""<?xml version="1.0" encoding="UTF-8"?>
<SOAP-ENV:Envelope xmlns:SOAP-ENV="{SOAP[version]}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:wsu="{WSU}" xmlns:ds="{DS}" xmlns:c14n="{C14N}" xmlns:wsse="{WSSE}" xmlns:ns="urn:orders"><SOAP-ENV:Header><wsse:Security SOAP-ENV:mustUnderstand="true"><wsu:Timestamp wsu:Id="Time"><wsu:Created>2026-05-01T12:00:00Z</wsu:Created><wsu:Expires>2026-05-01T12:00:10Z</wsu:Expires></wsu:Timestamp><wsse:BinarySecurityToken ValueType="{X509}#X509v3" EncodingType="{MESSAGE}#Base64Binary" wsu:Id="X509Token">{certificate_text()}</wsse:BinarySecurityToken><ds:Signature><ds:SignedInfo><ds:CanonicalizationMethod Algorithm="{C14N}"><c14n:InclusiveNamespaces PrefixList="SOAP-ENV wsse"></c14n:InclusiveNamespaces></ds:CanonicalizationMethod><ds:SignatureMethod Algorithm="{algorithms.RSA_SHA256}"></ds:SignatureMethod>{reference("Time", prefixes)}{reference("Body", prefixes)}</ds:SignedInfo><ds:SignatureValue/><ds:KeyInfo><wsse:SecurityTokenReference><wsse:Reference URI="#X509Token" ValueType="{X509}#X509v3"></wsse:Reference></wsse:SecurityTokenReference></ds:KeyInfo></ds:Signature></wsse:Security></SOAP-ENV:Header><SOAP-ENV:Body wsu:Id="Body"><ns:order xsi:type="ns:order"><no>17</no></ns:order></SOAP-ENV:Body></SOAP-ENV:Envelope>"""
    received = receive(etree.tostring(finish(text.encode())), SIGNED)
    assert b"<no>17</no>" in received.data


def test_what_an_attacker_adds_to_a_foreign_message_is_noticed():
    data = etree.tostring(finish(java_style(ORDER, JAVA_REFERENCE)))
    with pytest.raises(SoapRefusal):
        receive(data, replace(SIGNED, suite=AlgorithmSuite(signatures=(algorithms.ECDSA_SHA256,))))
    with pytest.raises(SoapRefusal, match="twice"):
        receive(data.replace(b'wsu:Id="STR-3"', b'wsu:Id="id-3"'), SIGNED)
