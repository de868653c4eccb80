"""What a policy says is what `secure` sends and `verify` demands, for requests and for answers."""

from __future__ import annotations

import secrets

import pytest

from demaq.soap.policy.statement_policies import read_policy_text
from demaq.soap.refusals import SoapRefusal
from demaq.soap.security import ExchangeRequirements, TrustStore, secure
from tests.support.soap.policies import CXF, GSOAP, METRO, SIGNED_BODY, WCF_TRANSPORT, asymmetric, policy, suite
from tests.support.soap.security_parties import (
    NOW,
    canonical,
    client_certificate,
    client_key,
    make_envelope,
    make_protection,
    receive,
    send,
    service_certificate,
    service_key,
)

ENCRYPTED_FIRST = policy(
    asymmetric(suite("sp:Basic128Sha256"), "<sp:IncludeTimestamp/><sp:EncryptBeforeSigning/>")
    + "<sp:SignedParts><sp:Body/></sp:SignedParts>"
    + "<sp:EncryptedElements><sp:XPath xmlns:o='urn:orders'>//o:card</sp:XPath></sp:EncryptedElements>"
)
POLICIES = {
    "CXF": CXF,
    "Metro": METRO,
    "WCF": WCF_TRANSPORT,
    "gSOAP": GSOAP,
    "body": SIGNED_BODY,
    "encrypted first": ENCRYPTED_FIRST,
}


def exchange_of(name: str) -> ExchangeRequirements:
    found = read_policy_text(POLICIES[name].encode()).security
    assert found is not None
    return found


@pytest.mark.parametrize("name", POLICIES)
def test_a_request_and_its_answer_fulfil_the_policy_they_were_made_with(name):
    exchange = exchange_of(name)
    request = receive(send(exchange.request), exchange.request, is_https=exchange.request.https)
    assert canonical(request.data) == canonical(make_envelope())

    service = make_protection(exchange.answer, own_key=service_key(), partner=client_certificate())
    answer = secure(
        make_envelope(text="18"),
        service,
        now=NOW,
        random=secrets.token_bytes,
        request_signatures=request.signature_values,
    )
    received = receive(
        answer.data,
        exchange.answer,
        own_keys=(client_key(),),
        trust=TrustStore(certificates=[service_certificate()]),
        is_https=exchange.answer.https,
        request_signatures=request.signature_values,
    )
    assert canonical(received.data) == canonical(make_envelope(text="18"))


@pytest.mark.parametrize("name", POLICIES)
def test_a_request_without_protection_does_not_fulfil_a_policy(name):
    with pytest.raises(SoapRefusal):
        receive(make_envelope(), exchange_of(name).request, is_https=True)


@pytest.mark.parametrize("name", ["CXF", "Metro", "encrypted first"])
def test_a_signed_body_does_not_fulfil_a_policy_that_asks_for_more(name):
    with pytest.raises(SoapRefusal):
        receive(send(exchange_of("body").request), exchange_of(name).request)


def test_a_policy_of_https_is_not_fulfilled_without():
    required = exchange_of("WCF").request
    with pytest.raises(SoapRefusal):
        receive(send(required), required, is_https=False)
