"""What one side secures, the other accepts: all forms, algorithms, parts and orders, in both versions of SOAP."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import pytest
from lxml import etree

from demaq.errors import MessageError, OperatorError
from demaq.soap.refusals import SoapRefusal
from demaq.soap.security import (
    AlgorithmSuite,
    ElementPath,
    ExchangeRequirements,
    MessageParts,
    PasswordForm,
    ProtectionOrder,
    SecurityRequirements,
    TokenForm,
    TrustStore,
    UsernameRequirement,
    secure,
    verify,
)
from demaq.soap.security import algorithm_suite as algorithms
from tests.support.soap.security_parties import (
    BODY_SIGNED,
    CARD,
    FULL,
    NAMESPACES,
    NOW,
    PASSWORD,
    SOAP,
    WSA,
    MemoryReplayCache,
    canonical,
    client_certificate,
    client_key,
    make_certificate,
    make_envelope,
    make_own_key,
    make_protection,
    make_verification,
    receive,
    send,
    service_certificate,
    service_key,
)

VERSIONS = ["1.1", "1.2"]


def make_suite(field: str, *chosen: str) -> AlgorithmSuite:
    fields: dict[str, Any] = {field: chosen}
    return AlgorithmSuite(**fields)


def find(data, path):
    return etree.fromstring(data).xpath(path, namespaces=NAMESPACES)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("order", ProtectionOrder)
@pytest.mark.parametrize("requirements", [BODY_SIGNED, FULL], ids=["signed", "signed and encrypted"])
def test_a_receiver_gets_the_envelope_that_was_secured(version, order, requirements):
    requirements = replace(requirements, order=order, username=UsernameRequirement(signed=True, encrypted=True))
    received = receive(send(requirements, version), requirements)
    assert canonical(received.data) == canonical(make_envelope(version))
    assert received.version == version
    assert received.sender.user == "ann"
    assert received.sender.certificate == client_certificate()
    assert received.sender.subject == "CN=client,O=Test\\, Inc.,C=DE"
    assert received.is_body_signed
    assert received.signed_headers == {f"{{{WSA}}}Action", f"{{{WSA}}}MessageID"}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_header_must_be_understood(version):
    (security,) = find(send(BODY_SIGNED, version), "//wsse:Security")
    assert security.get(f"{{{SOAP[version]}}}mustUnderstand") == "1"


@pytest.mark.parametrize("form", TokenForm)
def test_certificates_are_named_in_every_form(form):
    requirements = replace(FULL, signing_tokens=(form,), encryption_tokens=(form,))
    data = send(requirements)
    assert receive(data, requirements).sender.certificate == client_certificate()
    others = tuple([other for other in TokenForm if other is not form])
    with pytest.raises(SoapRefusal, match="accepted form"):
        receive(data, replace(requirements, signing_tokens=others, encryption_tokens=others))


def test_a_certificate_without_a_subject_key_identifier_has_a_computed_one():
    certificate = make_certificate("bare", subject_key=False)
    requirements = replace(BODY_SIGNED, signing_tokens=(TokenForm.SUBJECT_KEY_IDENTIFIER,))
    data = send(requirements, own_key=make_own_key("bare", certificate))
    assert receive(data, requirements, trust=TrustStore(certificates=[certificate])).sender.certificate == certificate


def test_a_key_of_a_curve_signs_with_ecdsa():
    certificate = make_certificate("curve", kind="ec256")
    data = send(BODY_SIGNED, own_key=make_own_key("curve", certificate, "ec256"))
    assert find(data, "string(//ds:SignatureMethod/@Algorithm)") == algorithms.ECDSA_SHA256
    received = receive(data, BODY_SIGNED, trust=TrustStore(certificates=[certificate]))
    assert received.sender.certificate == certificate


@pytest.mark.parametrize(
    ("field", "algorithm"),
    [
        ("signatures", algorithms.RSA_SHA1),
        ("signatures", algorithms.RSA_SHA384),
        ("signatures", algorithms.RSA_SHA512),
        ("digests", algorithms.SHA1),
        ("digests", algorithms.SHA512),
        ("data", algorithms.AES128_GCM),
        ("data", algorithms.AES256_CBC),
        ("data", algorithms.AES128_CBC),
        ("key_transport", algorithms.RSA_OAEP),
        ("key_transport", algorithms.RSA_OAEP_MGF1P),
        ("key_transport", algorithms.RSA_1_5),
    ],
)
def test_other_algorithms_work_if_they_are_asked_for_and_are_refused_if_not(field, algorithm):
    asked = replace(FULL, suite=make_suite(field, algorithm))
    data = send(asked)
    assert canonical(receive(data, asked).data) == canonical(make_envelope())
    default = AlgorithmSuite()
    remaining = tuple([other for other in getattr(default, field) if other != algorithm])
    with pytest.raises(SoapRefusal, match="agreed on") as refused:
        receive(data, replace(FULL, suite=make_suite(field, *remaining)))
    assert refused.value.protocol is not None
    assert refused.value.protocol.subcodes == (f"Q{{{NAMESPACES['wsse']}}}UnsupportedAlgorithm",)


@pytest.mark.parametrize("order", ProtectionOrder)
def test_elements_are_selected_by_paths(order):
    requirements = SecurityRequirements(
        signed=MessageParts(elements=(CARD, ElementPath(path="/*/*[2]/*/*[1]"))),
        encrypted=MessageParts(elements=(CARD,)),
        order=order,
    )
    data = send(requirements)
    assert b">4711" not in data
    assert b">17<" in data
    received = receive(data, requirements)
    assert canonical(received.data) == canonical(make_envelope())
    assert not received.is_body_signed


@pytest.mark.parametrize("order", ProtectionOrder)
def test_an_element_in_an_encrypted_body_is_signed_with_it(order):
    requirements = SecurityRequirements(
        signed=MessageParts(elements=(CARD,)), encrypted=MessageParts(body=True, elements=(CARD,)), order=order
    )
    assert canonical(receive(send(requirements), requirements).data) == canonical(make_envelope())


@pytest.mark.parametrize("body", ["", "text & <b xmlns='urn:b'>more</b> text", "<a/><?p i?><b/>"])
@pytest.mark.parametrize("order", ProtectionOrder)
def test_any_content_of_a_body_is_encrypted(body, order):
    envelope = (
        f'<s:Envelope xmlns:s="{SOAP["1.1"]}"><s:Body>{body.replace("& ", "&amp; ")}</s:Body></s:Envelope>'.encode()
    )
    requirements = SecurityRequirements(signed=MessageParts(body=True), encrypted=MessageParts(body=True), order=order)
    received = receive(send(requirements, envelope=envelope), requirements)
    text = canonical(received.data).replace(b"<!---->", b"").replace(b"<s:Header></s:Header>", b"")
    assert text == canonical(envelope)


@pytest.mark.parametrize("form", [PasswordForm.TEXT, PasswordForm.DIGEST])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_user_is_known_by_the_password(form, version):
    requirements = SecurityRequirements(username=UsernameRequirement(password=form))
    data = send(requirements, version)
    assert (PASSWORD.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").encode() in data) == (
        form is PasswordForm.TEXT
    )
    received = receive(data, requirements)
    assert received.sender.user == "ann"
    assert received.sender.certificate is None


def test_a_user_without_a_password_is_believed_only_if_a_signature_covers_the_name():
    for is_signed in (True, False):
        requirements = replace(BODY_SIGNED, username=UsernameRequirement(password=PasswordForm.NONE, signed=is_signed))
        assert receive(send(requirements), requirements).sender.user == ("ann" if is_signed else None)


def test_what_is_not_asked_for_is_left_out():
    assert send(SecurityRequirements()) == make_envelope()
    assert send(SecurityRequirements(https=True)) == make_envelope()
    assert find(send(SecurityRequirements(timestamp=True)), "local-name(//wsse:Security/*)") == "Timestamp"
    received = receive(make_envelope(), SecurityRequirements())
    assert canonical(received.data) == canonical(make_envelope())
    assert received.sender.user is None
    assert received.sender.subject is None


def test_an_answer_confirms_the_signature_of_its_request():
    exchange = ExchangeRequirements(
        request=FULL,
        answer=SecurityRequirements(timestamp=True, signed=MessageParts(body=True), signature_confirmation=True),
    )
    sent = secure(make_envelope(), make_protection(exchange.request), now=NOW, random=secrets.token_bytes)
    received = receive(sent.data, exchange.request)
    assert received.signature_values == sent.signature_values
    answer = secure(
        make_envelope(text="answer"),
        make_protection(exchange.answer, own_key=service_key(), partner=received.sender.certificate),
        now=NOW,
        random=secrets.token_bytes,
        request_signatures=received.signature_values,
    )
    client = make_verification(
        exchange.answer, own_keys=(client_key(),), trust=TrustStore(certificates=[service_certificate()])
    )

    def accept(values, data=answer.data):
        return verify(
            data, client, now=NOW, random=secrets.token_bytes, replays=MemoryReplayCache(), request_signatures=values
        )

    assert accept(sent.signature_values).sender.certificate == service_certificate()
    for others in ((), (b"other",), (*sent.signature_values, b"other")):
        with pytest.raises(SoapRefusal, match="confirm"):
            accept(others)
    empty = send(exchange.answer, own_key=service_key())
    assert find(empty, "count(//wsse11:SignatureConfirmation[not(@Value)])") == 1
    assert accept((), empty).sender.certificate == service_certificate()
    without = send(replace(exchange.answer, signature_confirmation=False), own_key=service_key())
    with pytest.raises(SoapRefusal, match="confirm"):
        accept((), without)


def test_a_confirmation_must_be_signed():
    requirements = SecurityRequirements(signed=MessageParts(body=True), signature_confirmation=True)
    data = send(replace(requirements, signature_confirmation=False))
    added = b'<c:SignatureConfirmation xmlns:c="' + NAMESPACES["wsse11"].encode() + b'"/></wsse:Security>'
    with pytest.raises(SoapRefusal, match="SignatureConfirmation is not signed"):
        receive(data.replace(b"</wsse:Security>", added), requirements)


def test_schemas_of_messages_need_not_know_ids():
    requirements = SecurityRequirements(signed=MessageParts(elements=(CARD,)))
    assert b"Id=" not in receive(send(requirements), requirements).data


@pytest.mark.parametrize(
    ("requirements", "missing", "text"),
    [
        (BODY_SIGNED, "own_key", "no key"),
        (FULL, "partner", "no certificate of the receiver"),
        (SecurityRequirements(username=UsernameRequirement()), "credential", "asks for a user"),
    ],
)
def test_what_a_sender_lacks_is_the_operators_turn(requirements, missing, text):
    lacking: dict[str, Any] = {missing: None}
    with pytest.raises(OperatorError, match=text):
        secure(make_envelope(), replace(make_protection(requirements), **lacking), now=NOW, random=secrets.token_bytes)


def test_nothing_is_encrypted_for_a_certificate_that_does_not_fit():
    for certificate, text in (
        (make_certificate("service", days=(-10, -1)), "expired"),
        (make_certificate("service", usage={"digital_signature": True}), "not for encryption"),
        (make_certificate("curve", kind="ec256"), "not of kind RSA"),
    ):
        with pytest.raises(MessageError, match=text) as refused:
            send(FULL, partner=certificate)
        assert refused.value.kind == "invalidCertificate"


def test_an_envelope_is_secured_once():
    with pytest.raises(MessageError, match="already"):
        send(BODY_SIGNED, envelope=send(BODY_SIGNED))


def test_a_key_that_fits_no_algorithm_is_the_operators_turn():
    with pytest.raises(OperatorError, match="fits none"):
        send(replace(BODY_SIGNED, suite=AlgorithmSuite(signatures=(algorithms.ECDSA_SHA256,))))


@pytest.mark.parametrize(
    "make",
    [
        lambda: SecurityRequirements(signed=MessageParts(timestamp=True)),
        lambda: SecurityRequirements(encrypted=MessageParts(timestamp=True), timestamp=True),
        lambda: SecurityRequirements(signing_tokens=()),
        lambda: AlgorithmSuite(signatures=("urn:unknown",)),
        lambda: AlgorithmSuite(data=()),
    ],
)
def test_requirements_that_cannot_be_met_are_not_made(make):
    with pytest.raises(ValueError, match=r"."):
        make()


@pytest.mark.parametrize("path", ["//[", "//p:x", "count(//*)", "//@*"])
def test_a_path_that_selects_no_elements_is_noticed_or_selects_nothing(path):
    requirements = SecurityRequirements(timestamp=True, signed=MessageParts(elements=(ElementPath(path=path),)))
    if path in ("//[", "//p:x"):
        with pytest.raises(OperatorError, match="XPath"):
            send(requirements)
    else:
        assert find(send(requirements), "count(//ds:Reference)") == 1, "the timestamp is signed"
        assert receive(send(requirements), requirements).sender.certificate == client_certificate()
        with pytest.raises(MessageError, match="nothing that the policy wants signed"):
            send(replace(requirements, timestamp=False))
