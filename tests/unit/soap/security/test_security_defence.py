"""What attackers try: wrapped and doubled elements, other transforms, weaker algorithms, headers without end."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from lxml import etree

from demaq.soap import make_fault_answer
from demaq.soap.refusals import SoapRefusal
from demaq.soap.security import (
    AlgorithmSuite,
    ElementPath,
    MessageParts,
    ProtectionOrder,
    SecurityLimits,
    SecurityRequirements,
    TrustStore,
    UsernameRequirement,
    VerificationSettings,
)
from demaq.soap.security import algorithm_suite as algorithms
from demaq.soap.security.security_faults import UNDECIPHERABLE
from tests.support.soap.security_parties import (
    BODY_SIGNED,
    CARD,
    FULL,
    NAMESPACES,
    SOAP,
    WSA,
    canonical,
    client_certificate,
    make_certificate,
    make_envelope,
    make_own_key,
    receive,
    send,
    service_certificate,
    service_key,
)

WSSE, WSU, DS, XENC = NAMESPACES["wsse"], NAMESPACES["wsu"], NAMESPACES["ds"], NAMESPACES["xenc"]
BODY = SecurityRequirements(signed=MessageParts(body=True))
ENCRYPTED = SecurityRequirements(encrypted=MessageParts(body=True))


class Opened:
    """A secured envelope that an attacker edits."""

    def __init__(self, data):
        self.root: Any = etree.fromstring(data)
        self.suite = AlgorithmSuite()

    def find(self, path):
        (found,) = self.root.xpath(path, namespaces=NAMESPACES)
        return found

    @property
    def security(self):
        return self.find("/*/*/wsse:Security")

    @property
    def header(self):
        return self.root[0]

    @property
    def body(self):
        return self.root[1]

    @property
    def data(self):
        return etree.tostring(self.root)


def refuse(data, requirements, text, code=None, kind=None, **changes):
    with pytest.raises(SoapRefusal, match=text) as refused:
        receive(data, requirements, **changes)
    if code is not None:
        assert refused.value.protocol is not None
        assert refused.value.protocol.subcodes == (f"Q{{{WSSE}}}{code}",)
    if kind is not None:
        assert refused.value.kind == kind
    return refused.value


# What is processed is what was signed


def move_body(attack, wrapper, keep_id):
    """Put the signed Body where nothing is processed, and another in its place."""
    signed = attack.body
    evil = copy.deepcopy(signed)
    if not keep_id:
        del evil.attrib[f"{{{WSU}}}Id"]
    evil[0][0].text = "evil"
    attack.root.replace(signed, evil)
    wrapper.append(signed)


def wrap_in_header(attack):
    return etree.SubElement(attack.header, "{urn:w}wrapper")


def wrap_in_security(attack):
    return etree.SubElement(attack.security, "{urn:w}wrapper")


def wrap_in_object(attack):
    return etree.SubElement(attack.find("//ds:Signature"), f"{{{DS}}}Object")


def wrap_in_body(attack):
    return attack.body[0]


def wrap_in_token(attack):
    return attack.find("//wsse:BinarySecurityToken")


def wrap_in_timestamp(attack):
    return attack.find("//wsu:Timestamp")


@pytest.mark.parametrize("keep_id", [True, False], ids=["same Id", "no Id"])
@pytest.mark.parametrize(
    "place",
    [wrap_in_header, wrap_in_security, wrap_in_object, wrap_in_body, wrap_in_token, wrap_in_timestamp],
)
def test_a_signed_body_elsewhere_does_not_cover_another_one(place, keep_id):
    requirements = replace(BODY_SIGNED, signed=MessageParts(body=True))
    attack = Opened(send(requirements))
    if place is wrap_in_body:
        signed, evil = attack.body, etree.Element(attack.body.tag)
        attack.root.replace(signed, evil)
        if keep_id:
            evil.set(f"{{{WSU}}}Id", signed.get(f"{{{WSU}}}Id"))
        etree.SubElement(evil, "{urn:w}wrapper").append(signed)
    else:
        move_body(attack, place(attack), keep_id)
    refused = refuse(attack.data, requirements, r".")
    assert refused.kind in ("invalidSignature", "refused")


def test_a_second_body_is_refused():
    attack = Opened(send(BODY))
    second = copy.deepcopy(attack.body)
    del second.attrib[f"{{{WSU}}}Id"]
    attack.root.append(second)
    refuse(attack.data, BODY, "one Body")


def test_a_signed_header_elsewhere_does_not_cover_another_one():
    attack = Opened(send(BODY_SIGNED))
    signed = attack.find("//wsa:Action")
    evil = copy.deepcopy(signed)
    del evil.attrib[f"{{{WSU}}}Id"]
    evil.text = "urn:evil"
    attack.header.replace(signed, evil)
    etree.SubElement(attack.header, "{urn:w}wrapper").append(signed)
    refuse(attack.data, BODY_SIGNED, "not in a place", "FailedCheck", "invalidSignature")


@pytest.mark.parametrize("place", ["//wsse:BinarySecurityToken", "//ds:KeyInfo", "//wsse:Security", "/*/*[2]/*"])
def test_a_signed_header_cannot_be_hidden(place):
    """Headers may be absent, but not if they were signed: the signature stays valid wherever they are."""
    requirements = SecurityRequirements(signed=MessageParts(headers=(f"{{{WSA}}}*",)))
    attack = Opened(send(requirements))
    attack.find(place).append(attack.find("//wsa:MessageID"))
    refused = refuse(attack.data, requirements, r".")
    assert refused.kind in ("invalidSignature", "refused")


def test_an_encrypted_header_cannot_be_hidden():
    """Found by random changes: a signed header block in an EncryptedHeader that was moved into the security header."""
    attack = Opened(send(FULL))
    attack.find("//ds:KeyInfo[ancestor::ds:Signature]").append(
        attack.find("//wsse11:EncryptedHeader/xenc:EncryptedData")
    )
    refuse(attack.data, FULL, "not in a place", "FailedCheck", "invalidSignature")


@pytest.mark.parametrize("order", ProtectionOrder)
def test_a_header_cannot_be_hidden_by_leaving_it_encrypted(order):
    """Found by random changes: the list of what is encrypted is not signed."""
    requirements = replace(FULL, order=order)
    attack = Opened(send(requirements))
    references = attack.find("//xenc:ReferenceList")
    references.remove(references[0])
    refused = refuse(attack.data, requirements, r".")
    assert refused.kind in ("decryptionFailure", "invalidSignature")


def test_an_element_cannot_be_hidden_by_leaving_it_encrypted():
    requirements = SecurityRequirements(
        signed=MessageParts(body=True),
        encrypted=MessageParts(elements=(CARD,)),
        order=ProtectionOrder.ENCRYPT_BEFORE_SIGN,
    )
    attack = Opened(send(requirements))
    attack.find("//xenc:ReferenceList").clear()
    refuse(attack.data, requirements, "not in a list", "InvalidSecurity", "decryptionFailure")


def test_encrypted_data_of_the_application_is_left_alone():
    data = f'<x:EncryptedData xmlns:x="{XENC}">for others</x:EncryptedData>'.encode()
    envelope = make_envelope().replace(b"4711 0815", data)
    for requirements in (BODY, FULL):
        assert b"for others" in receive(send(requirements, envelope=envelope), requirements).data


def test_a_signed_element_of_the_body_cannot_be_moved_out_of_its_path():
    path = ElementPath(path="/*/*/o:order/o:card", namespaces=(("o", "urn:orders"),))
    requirements = SecurityRequirements(signed=MessageParts(elements=(path,)))
    attack = Opened(send(requirements))
    attack.find("//*[local-name()='item']").append(attack.find("//*[local-name()='card']"))
    refuse(attack.data, requirements, "not in a place", "FailedCheck", "invalidSignature")


def test_a_second_header_block_must_be_signed_too():
    attack = Opened(send(BODY_SIGNED))
    etree.SubElement(attack.header, f"{{{WSA}}}ReplyTo").text = "urn:evil"
    refuse(attack.data, BODY_SIGNED, "ReplyTo is not signed", "FailedCheck", "invalidSignature")


def test_a_header_of_another_namespace_is_not_said_to_be_signed():
    attack = Opened(send(BODY_SIGNED))
    etree.SubElement(attack.header, "{urn:w}free").text = "by anyone"
    assert receive(attack.data, BODY_SIGNED).signed_headers == {f"{{{WSA}}}Action", f"{{{WSA}}}MessageID"}


@pytest.mark.parametrize("attribute", [f"{{{WSU}}}Id", "Id", "ID", "{http://www.w3.org/XML/1998/namespace}id"])
@pytest.mark.parametrize("place", ["/*/*[2]/*", "/*/*[1]/*[2]", "//ds:KeyInfo"])
def test_an_id_that_is_used_is_unique_among_all_kinds_of_ids(attribute, place):
    attack = Opened(send(BODY))
    attack.find(place).set(attribute, attack.body.get(f"{{{WSU}}}Id"))
    refuse(attack.data, BODY, "twice", "InvalidSecurity", "invalidSignature")


def test_ids_of_the_application_may_repeat():
    envelope = make_envelope().replace(b'<item no="1">', b'<item Id="1"/><item Id="1">')
    receive(send(BODY, envelope=envelope), BODY)
    twice = make_envelope().replace(
        b'<item no="1">', f'<item xmlns:u="{WSU}" u:Id="1"/><item xmlns:u="{WSU}" u:Id="1">'.encode()
    )
    refuse(send(BODY, envelope=twice), BODY, "twice")


def test_an_id_of_another_attribute_is_no_id():
    attack = Opened(send(BODY))
    value = attack.body.attrib.pop(f"{{{WSU}}}Id")
    attack.body.set("Id", value)
    refuse(attack.data, BODY, "no element has the Id")


def test_parts_of_two_messages_are_not_combined():
    """Each is signed by the same sender, in a signature of its own."""
    headers = SecurityRequirements(signed=MessageParts(headers=(f"{{{WSA}}}*",)))
    one, other = Opened(send(BODY)), Opened(send(headers, envelope=make_envelope(text="18")))
    for child in other.security:
        one.security.append(child)
    for block in (one.find("//wsa:Action"), one.find("//wsa:MessageID")):
        one.header.remove(block)
    for block in (other.find("//wsa:Action"), other.find("//wsa:MessageID")):
        one.header.append(block)
    both = SecurityRequirements(signed=MessageParts(body=True, headers=(f"{{{WSA}}}*",)))
    receive(one.data, BODY)
    receive(one.data, headers)
    refuse(one.data, both, "not together", "FailedCheck", "invalidSignature")


def test_an_element_selected_by_a_path_must_be_signed_where_it_is():
    requirements = SecurityRequirements(signed=MessageParts(elements=(CARD,)))
    attack = Opened(send(requirements))
    second = copy.deepcopy(attack.find("//*[local-name()='card']"))
    del second.attrib[f"{{{WSU}}}Id"]
    attack.body[0].append(second)
    refuse(attack.data, requirements, "card is not signed")


# Only what WS-Security needs of XML Signature


def change(element, **attributes):
    for name, value in attributes.items():
        element.set(name, value)


@pytest.mark.parametrize(
    "uri",
    ["", "http://localhost/x", "file:///etc/passwd", "cid:a", "#", "#xpointer(/)", "#xpointer(id('x'))", "# a", "a"],
)
def test_only_elements_of_the_envelope_are_referred_to(uri):
    attack = Opened(send(BODY))
    change(attack.find("//ds:Reference"), URI=uri)
    refuse(attack.data, BODY, "not to an Id", "InvalidSecurity", "invalidSignature")


def test_a_reference_without_an_address_is_refused():
    attack = Opened(send(BODY))
    del attack.find("//ds:Reference").attrib["URI"]
    refuse(attack.data, BODY, "not to an Id")


@pytest.mark.parametrize(
    "transform",
    [
        "http://www.w3.org/TR/1999/REC-xslt-19991116",
        "http://www.w3.org/TR/1999/REC-xpath-19991116",
        "http://www.w3.org/2002/06/xmldsig-filter2",
        "http://www.w3.org/2000/09/xmldsig#enveloped-signature",
        "http://www.w3.org/2000/09/xmldsig#base64",
        "http://www.w3.org/TR/2001/REC-xml-c14n-20010315",
        "http://www.w3.org/2001/10/xml-exc-c14n#WithComments",
        "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-soap-message-security-1.0#STR-Transform",
        "",
    ],
)
@pytest.mark.parametrize("place", ["//ds:Transform", "//ds:CanonicalizationMethod"])
def test_the_only_transform_is_exclusive_canonicalization(transform, place):
    attack = Opened(send(BODY))
    change(attack.find(place), Algorithm=transform)
    refuse(attack.data, BODY, "exclusive canonicalization", "UnsupportedAlgorithm", "refused")


def test_a_second_transform_is_refused():
    attack = Opened(send(BODY))
    attack.find("//ds:Transforms").append(copy.deepcopy(attack.find("//ds:Transform")))
    refuse(attack.data, BODY, "children of Transforms")


def test_a_signature_is_not_left_out_of_what_it_signs():
    """The transform is accepted only where it changes nothing."""
    attack = Opened(send(replace(BODY, timestamp=True)))
    leave_out_signature(attack)
    change(attack.security, **{f"{{{WSU}}}Id": "all"})
    change(attack.find("//ds:Reference"), URI="#all")
    refuse(attack.data, BODY, "inside of what it signs", "InvalidSecurity")


@pytest.mark.parametrize("content", ["<x/>", '<ds:XPath xmlns:ds="http://www.w3.org/2000/09/xmldsig#">//*</ds:XPath>'])
def test_the_transform_that_leaves_a_signature_out_has_no_content(content):
    attack = Opened(send(BODY))
    leave_out_signature(attack).append(etree.fromstring(content))
    refuse(attack.data, BODY, "children of Transform ", "InvalidSecurity")


def test_a_signature_is_left_out_only_before_canonicalization_and_once():
    attack = Opened(send(BODY))
    leave_out_signature(attack)
    leave_out_signature(attack)
    refuse(attack.data, BODY, "children of Transforms")
    attack = Opened(send(BODY))
    transform = leave_out_signature(attack)
    transform.getparent().append(transform)
    refuse(attack.data, BODY, "children of Transforms")


def leave_out_signature(attack):
    """Add the transform for enveloped signatures before the other one, and return it."""
    made = etree.Element(f"{{{DS}}}Transform", Algorithm=f"{DS}enveloped-signature")
    attack.find("//ds:Transforms").insert(0, made)
    return made


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("//ds:SignatureMethod", f"{{{DS}}}HMACOutputLength"),
        ("//ds:Transform", "{http://www.w3.org/1999/XSL/Transform}stylesheet"),
        ("//ds:Signature", f"{{{DS}}}Object"),
        ("//ds:SignedInfo", f"{{{DS}}}Object"),
        ("//ds:Reference", f"{{{DS}}}DigestValue"),
    ],
)
def test_unknown_elements_in_a_signature_are_refused(place, name):
    attack = Opened(send(BODY))
    etree.SubElement(attack.find(place), name).text = "1"
    refuse(attack.data, BODY, r"children of|more than", "InvalidSecurity")


def test_a_signature_without_references_is_refused():
    attack = Opened(send(BODY))
    attack.find("//ds:SignedInfo").remove(attack.find("//ds:Reference"))
    refuse(attack.data, BODY, "children of SignedInfo")


@pytest.mark.parametrize(
    ("place", "algorithm"),
    [
        ("//ds:SignatureMethod", "http://www.w3.org/2000/09/xmldsig#hmac-sha1"),
        ("//ds:SignatureMethod", "http://www.w3.org/2001/04/xmldsig-more#hmac-sha256"),
        ("//ds:SignatureMethod", algorithms.RSA_SHA1),
        ("//ds:SignatureMethod", "urn:none"),
        ("//ds:DigestMethod", algorithms.SHA1),
        ("//ds:DigestMethod", "http://www.w3.org/2001/04/xmldsig-more#md5"),
    ],
)
def test_no_algorithm_is_weaker_than_agreed_on(place, algorithm):
    attack = Opened(send(BODY))
    change(attack.find(place), Algorithm=algorithm)
    refuse(attack.data, BODY, "agreed on", "UnsupportedAlgorithm", "refused")


def test_a_method_for_another_kind_of_key_is_refused():
    attack = Opened(send(BODY))
    change(attack.find("//ds:SignatureMethod"), Algorithm=algorithms.ECDSA_SHA256)
    refuse(attack.data, BODY, "another method", "FailedCheck", "invalidSignature")


@pytest.mark.parametrize("place", ["//ds:SignatureValue", "//ds:DigestValue", "//wsse:BinarySecurityToken"])
@pytest.mark.parametrize("text", ["", "AAAA", "?", "é", None])
def test_values_that_are_none_are_refused(place, text):
    attack = Opened(send(BODY))
    found = attack.find(place)
    if text is None:
        found.insert(0, etree.Element("{urn:w}element"))
    else:
        found.text = text
    refuse(attack.data, BODY, r".")


@pytest.mark.parametrize(
    "key_info",
    [
        "<ds:KeyName>client</ds:KeyName>",
        "<ds:KeyValue><ds:RSAKeyValue/></ds:KeyValue>",
        "<wsse:SecurityTokenReference/>",
        "<wsse:SecurityTokenReference><wsse:Embedded/></wsse:SecurityTokenReference>",
        '<wsse:SecurityTokenReference><wsse:Reference URI="#missing"/></wsse:SecurityTokenReference>',
        '<wsse:SecurityTokenReference><wsse:Reference URI="http://localhost/"/></wsse:SecurityTokenReference>',
        '<wsse:SecurityTokenReference><wsse:KeyIdentifier ValueType="urn:x">AAAA</wsse:KeyIdentifier></wsse:SecurityTokenReference>',
        '<wsse:SecurityTokenReference><wsse:KeyIdentifier ValueType="http://docs.oasis-open.org/wss/oasis-wss-soap-message-security-1.1#ThumbprintSHA1">AAAA</wsse:KeyIdentifier></wsse:SecurityTokenReference>',
        "<wsse:SecurityTokenReference><ds:X509Data/></wsse:SecurityTokenReference>",
        "<ds:X509Data><ds:X509Certificate>AAAA</ds:X509Certificate></ds:X509Data>",
        "<ds:X509Data><ds:X509IssuerSerial><ds:X509IssuerName/><ds:X509SerialNumber>x</ds:X509SerialNumber></ds:X509IssuerSerial></ds:X509Data>",
        f"<ds:X509Data><ds:X509IssuerSerial><ds:X509IssuerName/><ds:X509SerialNumber>{'9' * 5000}</ds:X509SerialNumber></ds:X509IssuerSerial></ds:X509Data>",
    ],
)
def test_a_certificate_that_is_not_named_is_not_guessed(key_info):
    attack = Opened(send(BODY))
    parent = attack.find("//ds:KeyInfo").getparent()
    parent.replace(
        attack.find("//ds:KeyInfo"),
        etree.fromstring(f'<ds:KeyInfo xmlns:ds="{DS}" xmlns:wsse="{WSSE}">{key_info}</ds:KeyInfo>'),
    )
    refuse(attack.data, BODY, r".")


def test_a_token_outside_of_the_header_is_not_used():
    attack = Opened(send(BODY))
    etree.SubElement(attack.header, "{urn:w}wrapper").append(attack.find("//wsse:BinarySecurityToken"))
    refuse(attack.data, BODY, "of this header", "UnsupportedSecurityToken")


# What is missing, and what is too much


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize("requirements", [BODY, ENCRYPTED, SecurityRequirements(timestamp=True)])
def test_a_message_without_a_header_is_refused(version, requirements):
    refused = refuse(make_envelope(version), requirements, "no security header", "InvalidSecurity", "refused")
    assert refused.version == version


def test_a_message_that_is_not_signed_or_not_encrypted_is_refused():
    plain = send(SecurityRequirements(timestamp=True))
    refuse(plain, BODY, "not signed", "InvalidSecurity", "invalidSignature")
    refuse(plain, ENCRYPTED, "Body is not encrypted", "InvalidSecurity", "decryptionFailure")
    headers = SecurityRequirements(encrypted=MessageParts(headers=(f"{{{WSA}}}Action",)))
    refuse(plain, headers, "Action is not encrypted", "InvalidSecurity", "decryptionFailure")
    elements = SecurityRequirements(encrypted=MessageParts(elements=(CARD,)))
    refuse(plain, elements, "card is not encrypted", "InvalidSecurity", "decryptionFailure")


def test_a_body_that_is_encrypted_in_part_is_refused():
    attack = Opened(send(ENCRYPTED))
    etree.SubElement(attack.body, "{urn:w}plain")
    refuse(attack.data, ENCRYPTED, "Body is not encrypted")
    attack = Opened(send(ENCRYPTED))
    attack.body[0].tail = "plain"
    refuse(attack.data, ENCRYPTED, "Body is not encrypted")


def test_the_order_is_that_of_the_policy():
    for order in ProtectionOrder:
        other = next(one for one in ProtectionOrder if one is not order)
        refuse(send(replace(FULL, order=order)), replace(FULL, order=other), "order", "InvalidSecurity")


def test_https_is_demanded_of_the_gateway():
    requirements = SecurityRequirements(https=True, username=UsernameRequirement())
    data = send(requirements)
    refuse(data, requirements, "HTTPS", "InvalidSecurity")
    assert receive(data, requirements, is_https=True).sender.user == "ann"


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_there_is_one_header_for_this_node(version):
    name = "actor" if version == "1.1" else "role"
    nexts = {"1.1": "http://schemas.xmlsoap.org/soap/actor/next", "1.2": f"{SOAP['1.2']}/role/next"}
    for role, is_ours in ((None, True), ("", True), (nexts[version], True), ("urn:other", False)):
        attack = Opened(send(BODY, version))
        second = etree.SubElement(attack.header, f"{{{WSSE}}}Security")
        if role is not None:
            second.set(f"{{{SOAP[version]}}}{name}", role)
        if is_ours:
            refuse(attack.data, BODY, "several security headers", "InvalidSecurity")
        else:
            assert b"urn:other" in receive(attack.data, BODY).data


def test_a_header_for_another_node_is_not_used():
    attack = Opened(send(BODY))
    attack.security.set(f"{{{SOAP['1.1']}}}actor", "urn:other")
    refuse(attack.data, BODY, "no security header")


def test_unknown_tokens_are_refused():
    attack = Opened(send(BODY))
    etree.SubElement(attack.security, "{urn:oasis:names:tc:SAML:2.0:assertion}Assertion")
    refuse(attack.data, BODY, "Assertion", "UnsupportedSecurityToken", "refused")


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"header_bytes_max": 1000}, "1,000 bytes"),
        ({"elements_max": 5}, "5 elements"),
        ({"depth_max": 2}, "nested"),
        ({"tokens_max": 0}, "more than 0 BinarySecurityToken"),
        ({"signatures_max": 0}, "more than 0 Signature"),
        ({"references_max": 1}, "too much encrypted data"),
        ({"keys_max": 0}, "too much encrypted data"),
    ],
)
def test_a_header_has_limits(limits, text):
    settings = VerificationSettings(limits=SecurityLimits(**limits))
    refuse(send(FULL), FULL, text, "InvalidSecurity", "refused", settings=settings)


def test_a_signature_has_a_limited_number_of_references():
    settings = VerificationSettings(limits=SecurityLimits(references_max=3))
    refuse(send(BODY_SIGNED), BODY_SIGNED, "more than 3 references", "InvalidSecurity", "refused", settings=settings)


def test_prefixes_that_only_the_content_uses_are_signed():
    attack = send(BODY).replace(b'xmlns:t="urn:types"', b'xmlns:t="urn:evil"')
    refuse(attack, BODY, "not valid", "FailedCheck", "invalidSignature")


def test_comments_in_signed_parts_are_left_out_as_they_are_not_signed():
    data = send(BODY).replace(b">17<", b">1<!-- by anyone -->7<").replace(b">unsigned<", b">un<!-- kept -->signed<")
    received = receive(data, BODY).data
    assert b">17<" in received
    assert b"un<!-- kept -->signed" in received


def test_limits_hold_for_what_is_decrypted():
    requirements = SecurityRequirements(username=UsernameRequirement(encrypted=True))
    data = send(requirements)
    size = len(etree.tostring(Opened(data).security))
    receive(data, requirements, settings=VerificationSettings(limits=SecurityLimits(elements_max=17)))
    settings = VerificationSettings(limits=SecurityLimits(elements_max=14))
    with pytest.raises(SoapRefusal, match="elements"):
        receive(data, requirements, settings=settings)
    assert size > 0


@pytest.mark.parametrize("data", [b"", b"<a/>", b"no XML", b"<!DOCTYPE a []><a/>", "é".encode("latin-1"), b"\0"])
def test_anything_else_than_an_envelope_is_refused(data):
    with pytest.raises(SoapRefusal):
        receive(data, BODY)


# Decryption fails in one way


def test_a_key_for_another_certificate_is_refused():
    data = send(FULL, partner=make_certificate("other"))
    refuse(data, FULL, "not known", "SecurityTokenUnavailable", "decryptionFailure")
    binary = replace(FULL, encryption_tokens=tuple(reversed(FULL.encryption_tokens)))
    data = send(binary, partner=make_certificate("other"))
    refuse(data, binary, "another certificate", "SecurityTokenUnavailable", "decryptionFailure")


def test_an_old_key_of_ours_still_decrypts():
    old = make_certificate("old")
    data = send(FULL, partner=old)
    receive(data, FULL, own_keys=(service_key(), make_own_key("old", old)))


def damage_key(attack):
    value = attack.find("//xenc:EncryptedKey//xenc:CipherValue")
    value.text = ("A" if value.text[0] != "A" else "B") + value.text[1:]


def shorten_key(attack):
    attack.find("//xenc:EncryptedKey//xenc:CipherValue").text = "AAAA"


def damage_data(attack):
    value = attack.find("/*/*[2]//xenc:CipherValue")
    value.text = ("A" if value.text[0] != "A" else "B") + value.text[1:]


def shorten_data(attack):
    attack.find("/*/*[2]//xenc:CipherValue").text = "AAAA"


def take_another_key(attack):
    other = Opened(send(replace(ENCRYPTED, suite=attack.suite)))
    attack.find("//xenc:EncryptedKey//xenc:CipherValue").text = other.find("//xenc:EncryptedKey//xenc:CipherValue").text


@pytest.mark.parametrize("damage", [damage_key, shorten_key, damage_data, shorten_data, take_another_key])
@pytest.mark.parametrize(
    "suite",
    [AlgorithmSuite(), AlgorithmSuite(data=(algorithms.AES256_CBC,), key_transport=(algorithms.RSA_1_5,))],
    ids=["GCM and OAEP", "CBC and RSA 1.5"],
)
@pytest.mark.parametrize("requirements", [ENCRYPTED, FULL], ids=["encrypted", "signed and encrypted"])
def test_all_failures_of_decryption_look_the_same(damage, suite, requirements):
    requirements = replace(requirements, suite=suite)
    attack = Opened(send(requirements))
    attack.suite = suite
    damage(attack)
    refused = refuse(attack.data, requirements, r".", "FailedCheck", "decryptionFailure")
    assert refused.message == UNDECIPHERABLE


def test_with_malleable_encryption_a_wrong_signature_looks_like_failed_decryption():
    suite = AlgorithmSuite(data=(algorithms.AES256_CBC,))
    requirements = replace(FULL, suite=suite)
    for break_it in (
        lambda attack: change(
            attack.find("//ds:Signature/ds:SignedInfo/ds:Reference[1]/ds:DigestMethod"), Algorithm="x"
        ),
        lambda attack: attack.security.remove(attack.find("//wsu:Timestamp")),
    ):
        attack = Opened(send(requirements))
        break_it(attack)
        assert refuse(attack.data, requirements, r".").message == UNDECIPHERABLE


@pytest.mark.parametrize(
    "plain",
    [
        b"</s:Body><s:Body>",
        b"<a>",
        b"</a>",
        b"<!--",
        b"<![CDATA[",
        b"\xff",
        b"&undeclared;",
        b"<!DOCTYPE a>",
        b"\0",
        b"<a " + b"b" * 2000 + b"='1'/>",
        b"<a>" * 300 + b"</a>" * 300,
        b"<p:a/>",
    ],
)
def test_decrypted_text_stays_in_its_place(plain):
    """An attacker can encrypt anything for us."""
    from demaq.soap.security import encryption

    envelope = f'<s:Envelope xmlns:s="{SOAP["1.1"]}"><s:Body>MARK</s:Body></s:Envelope>'.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encryption, "escape", lambda text: plain.decode("latin-1") if text == "MARK" else text)
        data = send(ENCRYPTED, envelope=envelope)
    if plain == b"\xff":  # encoded as text it is a character
        receive(data, ENCRYPTED)
    else:
        assert refuse(data, ENCRYPTED, r".").message == UNDECIPHERABLE


@pytest.mark.parametrize(
    ("place", "attribute", "value", "code"),
    [
        ("/*/*[2]//xenc:EncryptionMethod", "Algorithm", algorithms.AES256_CBC, "UnsupportedAlgorithm"),
        (
            "/*/*[2]//xenc:EncryptionMethod",
            "Algorithm",
            "http://www.w3.org/2001/04/xmlenc#tripledes-cbc",
            "UnsupportedAlgorithm",
        ),
        (
            "//xenc:EncryptedKey/xenc:EncryptionMethod",
            "Algorithm",
            "http://www.w3.org/2001/04/xmlenc#kw-aes256",
            "UnsupportedAlgorithm",
        ),
        ("/*/*[2]//xenc:EncryptedData", "Type", "urn:other", "UnsupportedSecurityToken"),
        ("//xenc:DataReference", "URI", "#missing", "InvalidSecurity"),
        ("//xenc:DataReference", "URI", "http://localhost/", "InvalidSecurity"),
    ],
)
def test_other_encryption_is_refused_by_name(place, attribute, value, code):
    attack = Opened(send(ENCRYPTED))
    attack.find(place).set(attribute, value)
    refuse(attack.data, ENCRYPTED, r".", code)


def test_encrypted_keys_with_other_parameters_are_refused():
    for name, algorithm in (
        (f"{{{DS}}}DigestMethod", "urn:x"),
        (f"{{{XENC}}}OAEPparams", ""),
        ("{http://www.w3.org/2009/xmlenc11#}MGF", algorithms.MGF1_SHA256),
    ):
        attack = Opened(send(ENCRYPTED))
        etree.SubElement(attack.find("//xenc:EncryptedKey/xenc:EncryptionMethod"), name).set("Algorithm", algorithm)
        refuse(attack.data, ENCRYPTED, "agreed on", "UnsupportedAlgorithm")


def test_a_reference_to_other_data_is_refused():
    attack = Opened(send(ENCRYPTED))
    cipher = attack.find("/*/*[2]//xenc:CipherValue")
    data = cipher.getparent()
    data.replace(cipher, etree.Element(f"{{{XENC}}}CipherReference", URI="file:///etc/passwd"))
    refuse(attack.data, ENCRYPTED, "no CipherValue", "InvalidSecurity")


def test_data_is_decrypted_once():
    attack = Opened(send(ENCRYPTED))
    attack.find("//xenc:ReferenceList").append(copy.deepcopy(attack.find("//xenc:DataReference")))
    refuse(attack.data, ENCRYPTED, "repeated", "InvalidSecurity")


def test_data_that_nothing_refers_to_stays_encrypted_and_does_not_count():
    attack = Opened(send(ENCRYPTED))
    attack.find("//xenc:EncryptedKey").remove(attack.find("//xenc:ReferenceList"))
    refuse(attack.data, ENCRYPTED, "Body is not encrypted")


# Faults


SECRETS = (b"pass <", b"PRIVATE", b"4711 0815", b"Traceback")


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_each_refusal_is_a_fault_with_its_code(version):
    tampered = send(FULL, version).replace(b"</wsu:Created>", b"0</wsu:Created>")
    refused = refuse(tampered, FULL, r".")
    answer = make_fault_answer(version, refused)
    if version == "1.1":
        assert f'<faultcode xmlns:c="{WSSE}">c:'.encode() in answer.data
        assert answer.status == 500
    else:
        assert b"<soapenv:Value>soapenv:Sender</soapenv:Value><soapenv:Subcode>" in answer.data
        assert f'<soapenv:Value xmlns:c="{WSSE}">c:'.encode() in answer.data
        assert answer.status == 400
    assert not [secret for secret in SECRETS if secret in answer.data]


def test_what_a_trust_store_does_not_know_is_not_available():
    requirements = replace(BODY, signing_tokens=tuple(reversed(BODY.signing_tokens))[1:])
    refuse(
        send(requirements),
        requirements,
        "not known",
        "SecurityTokenUnavailable",
        "invalidSignature",
        trust=TrustStore(),
    )
    assert canonical(receive(send(requirements), requirements).data) == canonical(make_envelope())
    assert client_certificate() != service_certificate()
