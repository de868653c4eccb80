"""Each assertion that is understood, and each that is refused with its name, line and column."""

from __future__ import annotations

from datetime import timedelta

import pytest

from demaq.soap.addressing.addressing_versions import ADDRESSING_1_0, ADDRESSING_2004
from demaq.soap.policy.gateway_policy import AddressingPolicy, AnswerAddresses, GatewayPolicy, ReliabilityPolicy
from demaq.soap.policy.policy_suites import GCM_SUITES, SUITES
from demaq.soap.reliability.delivery_assurance import Assurance, DeliveryAssurance
from demaq.soap.reliability.reliability_versions import RELIABILITY_1_0, RELIABILITY_1_1
from demaq.soap.security import (
    AlgorithmSuite,
    ElementPath,
    ExchangeRequirements,
    MessageParts,
    PasswordForm,
    ProtectionOrder,
    SecurityRequirements,
    TokenForm,
    UsernameRequirement,
)
from demaq.soap.security.algorithm_suite import AES128_CBC, AES256_GCM, RSA_1_5, RSA_SHA1, RSA_SHA256, SHA1, SHA256
from tests.support.soap.policies import (
    SP_1_1,
    SP_1_2,
    WSA,
    asymmetric,
    nested,
    read,
    refusals,
    suite,
    transport,
    user,
    x509,
)

SIGNED_BODY = "<sp:SignedParts><sp:Body/></sp:SignedParts>"
INCLUDED = (TokenForm.BINARY_TOKEN, TokenForm.EMBEDDED)
REFERENCED = (TokenForm.ISSUER_SERIAL, TokenForm.SUBJECT_KEY_IDENTIFIER, TokenForm.THUMBPRINT)


def security(content: str, **namespaces: str) -> ExchangeRequirements:
    found = read(content, **namespaces).security
    assert found is not None
    return found


def reliability(content: str) -> ReliabilityPolicy:
    found = read(content).reliability
    assert found is not None
    return found


def test_an_empty_policy_demands_nothing():
    assert read("") == GatewayPolicy()
    assert read("").is_empty


# --- reliability -----------------------------------------------------------------------------------------------------


def test_reliability_of_2005_has_times_and_no_assurance():
    found = reliability(
        '<wsrm:RMAssertion><wsrm:InactivityTimeout Milliseconds="600000"/><wsrm:ExponentialBackoff/>'
        '<wsrm:BaseRetransmissionInterval Milliseconds="3000"/><wsrm:AcknowledgementInterval Milliseconds="200"/>'
        "</wsrm:RMAssertion>"
    )
    assert found == ReliabilityPolicy(
        version=RELIABILITY_1_0,
        inactivity_timeout=timedelta(minutes=10),
        retransmission_interval=timedelta(seconds=3),
        exponential_backoff=True,
        acknowledgement_interval=timedelta(seconds=0.2),
    )


@pytest.mark.parametrize("times", list(Assurance))
@pytest.mark.parametrize("in_order", [True, False])
def test_reliability_1_1_has_a_delivery_assurance(times, in_order):
    inside = f"<wsrmp:{times.value}/>{'<wsrmp:InOrder/>' if in_order else ''}"
    found = reliability(nested("wsrmp:RMAssertion", nested("wsrmp:DeliveryAssurance", inside)))
    assert (found.version, found.assurance) == (RELIABILITY_1_1, DeliveryAssurance(times, in_order))


def test_reliability_is_exactly_once_and_in_order_unless_it_says_otherwise():
    for content in ("<wsrmp:RMAssertion/>", "<wsrm:RMAssertion/>", nested("wsrmp:RMAssertion")):
        assert reliability(content).assurance == DeliveryAssurance(Assurance.EXACTLY_ONCE, True)


def test_reliability_needs_addressing():
    assert read("<wsrmp:RMAssertion/>").addressing == AddressingPolicy(version=ADDRESSING_1_0)
    assert read("<wsrm:RMAssertion/>").addressing == AddressingPolicy(version=ADDRESSING_2004)
    assert read("<wsrm:RMAssertion/><wsaw:UsingAddressing/>").addressing == AddressingPolicy(version=ADDRESSING_1_0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (nested("wsrmp:RMAssertion", "<wsrmp:SequenceSTR/>"), ["2:32 wsrmp:SequenceSTR is not supported"]),
        (
            nested("wsrmp:RMAssertion", "<wsrmp:SequenceTransportSecurity/>"),
            ["2:32 wsrmp:SequenceTransportSecurity is not supported"],
        ),
        (
            "<wsrmp:RMAssertion><wsrmp:Nope/></wsrmp:RMAssertion>",
            ["2:20 wsrmp:Nope of an RMAssertion is not supported"],
        ),
        (
            '<wsrm:RMAssertion><wsrm:InactivityTimeout Milliseconds="-1"/></wsrm:RMAssertion>',
            ['2:19 wsrm:InactivityTimeout has no number of milliseconds, but "-1"'],
        ),
        (
            nested("wsrmp:RMAssertion", nested("wsrmp:DeliveryAssurance", "<wsrmp:InOrder/>")),
            ["2:32 wsrmp:DeliveryAssurance says 0 times how often a message is delivered, not once"],
        ),
        (
            nested("wsrmp:RMAssertion", nested("wsrmp:DeliveryAssurance", "<wsrmp:ExactlyOnce/><x:Soon/>")),
            ["2:89 x:Soon is not supported"],
        ),
        ("<wsrmp:RMAssertion/><wsrm:RMAssertion/>", ["2:21 wsrm:RMAssertion is given twice, differently"]),
        ("<wsrm:RMAssertion x:a='b'/>", ["2:1 the attribute a of an RMAssertion is not supported"]),
    ],
)
def test_what_is_not_supported_of_reliability_is_refused(content, words):
    assert refusals(content) == words


# --- addressing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "answers"),
    [
        ("<wsaw:UsingAddressing/>", AnswerAddresses.ANY),
        ("<wsam:Addressing/>", AnswerAddresses.ANY),
        (nested("wsam:Addressing"), AnswerAddresses.ANY),
        (nested("wsam:Addressing", "<wsam:AnonymousResponses/>"), AnswerAddresses.ANONYMOUS),
        (nested("wsam:Addressing", "<wsam:NonAnonymousResponses/>"), AnswerAddresses.ELSEWHERE),
        (
            nested("wsam:Addressing", "<wsam:AnonymousResponses/>") + "<wsaw:UsingAddressing/>",
            AnswerAddresses.ANONYMOUS,
        ),
    ],
)
def test_addressing_is_required_with_answers_to_certain_addresses(content, answers):
    assert read(content).addressing == AddressingPolicy(version=ADDRESSING_1_0, answers=answers)


def test_what_is_not_supported_of_addressing_is_refused():
    both = nested("wsam:Addressing", "<wsam:AnonymousResponses/><wsam:NonAnonymousResponses/>")
    assert refusals(both) == ["2:56 no answer can be both anonymous and not"]
    assert refusals(nested("wsam:Addressing", "<x:a/>")) == ["2:30 x:a is not supported"]
    apart = (
        nested("wsam:Addressing", "<wsam:AnonymousResponses/>"),
        nested("wsam:Addressing", "<wsam:NonAnonymousResponses/>"),
    )
    assert refusals("\n".join(apart)) == ["3:1 wsam:Addressing wants answers to other addresses"]


def test_several_assertions_of_addressing_hold_together():
    anonymous = nested("wsam:Addressing", "<wsam:AnonymousResponses/>")
    for content in (f"<wsaw:UsingAddressing/>{anonymous}", f"{anonymous}<wsaw:UsingAddressing/>", anonymous * 2):
        assert read(content).addressing == AddressingPolicy(version=ADDRESSING_1_0, answers=AnswerAddresses.ANONYMOUS)


# --- security: bindings ----------------------------------------------------------------------------------------------


def test_parts_without_a_binding_are_signed_with_sound_algorithms_and_x509_in_any_form():
    found = security(SIGNED_BODY)
    expected = SecurityRequirements(signed=MessageParts(body=True))
    assert found == ExchangeRequirements(request=expected, answer=expected)
    assert found.request.suite == AlgorithmSuite()


def test_an_asymmetric_binding_says_how_each_message_names_its_certificates():
    found = security(asymmetric(suite()) + SIGNED_BODY)
    assert (found.request.signing_tokens, found.request.encryption_tokens) == (INCLUDED, REFERENCED)
    assert (found.answer.signing_tokens, found.answer.encryption_tokens) == (REFERENCED, REFERENCED)


@pytest.mark.parametrize(
    ("include", "in_request", "in_answer"),
    [
        ("Always", True, True),
        ("AlwaysToRecipient", True, False),
        ("AlwaysToInitiator", False, True),
        ("Never", False, False),
    ],
)
def test_a_token_is_in_the_messages_that_it_is_included_in(include, in_request, in_answer):
    initiator = x509(include, "<sp:RequireThumbprintReference/>")
    found = security(asymmetric(suite(), initiator=initiator, recipient=x509("Always")))
    thumbprint = (TokenForm.THUMBPRINT,)
    assert found.request.signing_tokens == (INCLUDED if in_request else thumbprint)
    assert found.answer.encryption_tokens == (INCLUDED if in_answer else thumbprint)


@pytest.mark.parametrize(
    ("required", "form"),
    [
        ("RequireIssuerSerialReference", TokenForm.ISSUER_SERIAL),
        ("RequireKeyIdentifierReference", TokenForm.SUBJECT_KEY_IDENTIFIER),
        ("RequireThumbprintReference", TokenForm.THUMBPRINT),
    ],
)
def test_a_token_that_is_not_included_is_named_as_required(required, form):
    found = security(asymmetric(suite(), recipient=x509("Never", f"<sp:{required}/>")))
    assert found.request.encryption_tokens == found.answer.signing_tokens == (form,)


def test_tokens_for_signatures_and_for_encryption_may_differ():
    content = nested(
        "sp:AsymmetricBinding",
        nested("sp:InitiatorSignatureToken", x509("Always")),
        nested("sp:InitiatorEncryptionToken", x509("Never", "<sp:RequireThumbprintReference/>")),
        nested("sp:RecipientSignatureToken", x509("Never", "<sp:RequireIssuerSerialReference/>")),
        nested("sp:RecipientEncryptionToken", x509("Never", "<sp:RequireKeyIdentifierReference/>")),
        suite(),
    )
    found = security(content)
    assert (found.request.signing_tokens, found.request.encryption_tokens) == (
        INCLUDED,
        (TokenForm.SUBJECT_KEY_IDENTIFIER,),
    )
    assert (found.answer.signing_tokens, found.answer.encryption_tokens) == (
        (TokenForm.ISSUER_SERIAL,),
        (TokenForm.THUMBPRINT,),
    )


def test_a_timestamp_is_signed_and_the_order_is_as_the_policy_says():
    found = security(asymmetric(suite(), "<sp:IncludeTimestamp/><sp:EncryptBeforeSigning/>"))
    for side in (found.request, found.answer):
        assert (side.timestamp, side.signed) == (True, MessageParts(timestamp=True))
        assert side.order is ProtectionOrder.ENCRYPT_BEFORE_SIGN
    assert security(asymmetric(suite())).request.order is ProtectionOrder.SIGN_BEFORE_ENCRYPT


def test_a_confirmation_is_asked_of_answers_alone():
    found = security(asymmetric(suite()) + nested("sp:Wss11", "<sp:RequireSignatureConfirmation/>"))
    assert (found.request.signature_confirmation, found.answer.signature_confirmation) == (False, True)


def test_https_protects_all_parts():
    found = security(transport(suite(), "<sp:IncludeTimestamp/>") + SIGNED_BODY + "<sp:EncryptedParts/>")
    expected = SecurityRequirements(https=True, timestamp=True, suite=SUITES["Basic256Sha256"])
    assert found == ExchangeRequirements(request=expected, answer=expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sp:Basic256", (RSA_SHA1, SHA1, SUITES["Basic256"].data[0])),
        ("sp:Basic128Sha256", (RSA_SHA256, SHA256, AES128_CBC)),
        ("sp:Basic256Sha256Rsa15", (RSA_SHA256, SHA256, SUITES["Basic256"].data[0])),
        ("cxf:Basic256GCM", (RSA_SHA1, SHA1, AES256_GCM)),
    ],
)
def test_a_suite_names_its_algorithms(name, expected):
    found = security(asymmetric(suite(name)), cxf="http://cxf.apache.org/custom/security-policy").request.suite
    assert (found.signatures, found.digests, found.data) == tuple([(each,) for each in expected])
    assert (found.key_transport == (RSA_1_5,)) == name.endswith("Rsa15")


def test_weak_algorithms_are_used_only_if_they_are_asked_for():
    assert not any(
        [RSA_SHA1 in suite_.signatures or SHA1 in suite_.digests for name, suite_ in SUITES.items() if "Sha256" in name]
    )
    assert len(SUITES) == 8
    assert len(GCM_SUITES) == 2


# --- security: parts and users ---------------------------------------------------------------------------------------


def test_headers_bodies_and_elements_are_collected_from_all_assertions():
    found = security(
        f'<sp:SignedParts><sp:Body/><sp:Header Namespace="{WSA}"/></sp:SignedParts>'
        f'<sp:SignedParts><sp:Header Name="To" Namespace="{WSA}"/></sp:SignedParts>'
        "<sp:SignedElements><sp:XPath> //x:a </sp:XPath></sp:SignedElements>"
        "<sp:EncryptedParts/><sp:EncryptedElements><sp:XPath>/*/*/x:card</sp:XPath></sp:EncryptedElements>"
    ).request
    assert found.signed.body
    assert found.signed.headers == (f"{{{WSA}}}*", f"{{{WSA}}}To")
    assert [path.path for path in found.signed.elements] == ["//x:a"]
    assert ("x", "urn:x") in found.signed.elements[0].namespaces
    assert (found.encrypted.body, found.encrypted.elements[0].path) == (True, "/*/*/x:card")
    assert found.encrypted.elements == (ElementPath(path="/*/*/x:card", namespaces=(("x", "urn:x"),)),)


def test_a_comment_in_an_xpath_does_not_end_it():
    content = "<sp:SignedElements><sp:XPath>/*/*<!-- of the -->/*/x:a</sp:XPath></sp:SignedElements>"
    assert security(content).request.signed.elements[0].path == "/*/*/*/x:a"


@pytest.mark.parametrize(
    ("holder", "signed", "encrypted"),
    [
        ("SupportingTokens", False, False),
        ("SignedSupportingTokens", True, False),
        ("EncryptedSupportingTokens", False, True),
        ("SignedEncryptedSupportingTokens", True, True),
    ],
)
def test_a_user_is_in_requests_and_protected_by_the_message_or_by_https(holder, signed, encrypted):
    tokens = nested(f"sp:{holder}", user("<sp:WssUsernameToken10/>"))
    found = security(asymmetric(suite()) + tokens)
    assert found.request.username == UsernameRequirement(
        password=PasswordForm.TEXT, nonce=False, created=False, signed=signed, encrypted=encrypted
    )
    assert found.answer.username is None
    by_https = security(transport(suite()) + tokens).request.username
    assert by_https == UsernameRequirement(password=PasswordForm.TEXT, nonce=False, created=False)


def test_a_hashed_password_has_nonce_and_time_and_a_text_has_them_if_asked():
    hashed = security(
        nested("sp:SupportingTokens", user("<sp:HashPassword/><sp:WssUsernameToken11/>"))
    ).request.username
    assert hashed == UsernameRequirement(password=PasswordForm.DIGEST, nonce=True, created=True)
    text = security(nested("sp:SupportingTokens", user("<sp13:Nonce/><sp13:Created/>"))).request.username
    assert text == UsernameRequirement(password=PasswordForm.TEXT, nonce=True, created=True)


def test_the_older_version_of_security_policies_means_the_same():
    older = asymmetric(suite(), namespace=SP_1_1) + SIGNED_BODY + nested("sp:SupportingTokens", user(namespace=SP_1_1))
    newer = asymmetric(suite()) + SIGNED_BODY + nested("sp:SupportingTokens", user())
    assert security(older, sp=SP_1_1) == security(newer)


INSIDE = asymmetric("<x:mark/>").index("<x:mark/>") + 1


@pytest.mark.parametrize(
    "name",
    ["sp:EncryptSignature", "sp:ProtectTokens", "sp:SignBeforeEncrypting", "x:Custom", "sp:EncryptionToken"],
)
def test_what_a_binding_cannot_have_is_refused_with_its_name(name):
    assert refusals(asymmetric(f"<{name}/>", suite())) == [f"2:{INSIDE} {name} is not supported"]


@pytest.mark.parametrize(
    "name",
    [
        *("SymmetricBinding", "EndorsingSupportingTokens", "SignedEndorsingSupportingTokens", "Trust10", "Trust13"),
        *("RequiredElements", "RequiredParts", "ContentEncryptedElements"),
    ],
)
def test_assertions_of_security_that_are_not_implemented_are_refused(name):
    assert refusals(f"{SIGNED_BODY}\n <sp:{name}/>") == [f"3:2 sp:{name} is not supported"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (nested("sp:Wss11", "<sp:MustSupportRefEncryptedKey/>"), "sp:MustSupportRefEncryptedKey is not supported"),
        (nested("sp:Wss10", "<sp:MustSupportRefEmbeddedToken/>"), "sp:MustSupportRefEmbeddedToken is not supported"),
        (nested("sp:Wss10", "<sp:RequireSignatureConfirmation/>"), "sp:RequireSignatureConfirmation is not supported"),
        (asymmetric(suite("sp:TripleDes")), "sp:TripleDes is not supported"),
        (asymmetric(suite("sp:Basic192")), "sp:Basic192 is not supported"),
        (asymmetric(suite("x:Basic256")), "x:Basic256 is not supported"),
        (asymmetric(nested("sp:AlgorithmSuite")), "sp:AlgorithmSuite does not name one suite"),
        (asymmetric(), "sp:AsymmetricBinding has no AlgorithmSuite"),
        (nested("sp:TransportBinding", suite()), "sp:TransportBinding has no TransportToken"),
        (nested("sp:AsymmetricBinding", suite()), "sp:AsymmetricBinding has no InitiatorToken"),
        (asymmetric(suite(), nested("sp:Layout", "<sp:LaxTsFirst/>")), "sp:LaxTsFirst is not supported"),
        (asymmetric(suite()) + transport(suite()), "sp:TransportBinding is a second binding"),
        (asymmetric(suite(), initiator="<sp:KerberosToken/>"), "sp:KerberosToken is not supported"),
        (asymmetric(suite(), initiator="<x:a/><x:b/>"), "x:a is not supported"),
        (asymmetric(suite(), recipient=x509("Once")), f"IncludeToken {SP_1_2}/IncludeToken/Once is not supported"),
        (asymmetric(suite(), recipient=x509("Never", namespace="urn:x")), "IncludeToken urn:x/IncludeToken/Never is"),
        (asymmetric(suite(), recipient=x509("Never", "<sp:RequireDerivedKeys/>")), "sp:RequireDerivedKeys is not"),
        (asymmetric(suite(), recipient=x509("Never", "<sp:WssX509Pkcs7Token10/>")), "sp:WssX509Pkcs7Token10 is not"),
        (
            asymmetric(suite(), recipient="<sp:X509Token><sp:Issuer/></sp:X509Token>"),
            "sp:Issuer of sp:X509Token is not",
        ),
        (transport(suite(), "<sp:EncryptBeforeSigning/>"), "sp:EncryptBeforeSigning is not supported"),
        (
            nested(
                "sp:TransportBinding",
                suite(),
                nested("sp:TransportToken", '<sp:HttpsToken RequireClientCertificate="true"/>'),
            ),
            "client certificates of HTTPS are not supported here",
        ),
        (
            nested(
                "sp:TransportBinding",
                suite(),
                nested("sp:TransportToken", nested("sp:HttpsToken", "<sp:RequireClientCertificate/>")),
            ),
            "sp:RequireClientCertificate is not supported",
        ),
        (nested("sp:SupportingTokens", user("<sp:NoPassword/>")), "sp:NoPassword is not supported"),
        (nested("sp:SupportingTokens", user("<sp:RequireDerivedKeys/>")), "sp:RequireDerivedKeys is not supported"),
        (nested("sp:SupportingTokens", user(include="Never")), "sp:UsernameToken must be in each request"),
        (nested("sp:SupportingTokens", x509("Always")), "sp:X509Token is not supported"),
        (nested("sp:SupportingTokens", user(), user()), "sp:SupportingTokens has 2 tokens, not one"),
        (nested("sp:SupportingTokens", user()) * 2, "sp:UsernameToken is a second user"),
        ("<sp:SignedParts/>", "sp:SignedParts without children (the Body and all headers) is not supported"),
        ("<sp:SignedParts><sp:Attachments/></sp:SignedParts>", "sp:Attachments of sp:SignedParts is not supported"),
        ("<sp:SignedParts><x:Body/></sp:SignedParts>", "x:Body of sp:SignedParts is not supported"),
        ("<sp13:SignedParts><sp13:Body/></sp13:SignedParts>", "sp13:SignedParts is not supported"),
        ("<sp:X509Token/>", "sp:X509Token is not supported"),
        ('<sp:SignedParts><sp:Header Name="a"/></sp:SignedParts>', "sp:Header needs a Namespace"),
        ("<sp:SignedElements/>", "sp:SignedElements has no XPath"),
        ("<sp:SignedElements><sp:XPath>//(</sp:XPath></sp:SignedElements>", "the XPath //( cannot be used"),
        (
            "<sp:SignedElements><sp:XPath>//n:a</sp:XPath></sp:SignedElements>",
            "the XPath //n:a cannot be used: Undefined namespace prefix",
        ),
        ("<sp:SignedElements><sp:XPath>count(/*)</sp:XPath></sp:SignedElements>", "it selects no elements"),
        (
            '<sp:SignedElements XPathVersion="urn:2"><sp:XPath>/a</sp:XPath></sp:SignedElements>',
            "XPath of version urn:2 is not supported",
        ),
        (
            asymmetric(suite(), "<sp:OnlySignEntireHeadersAndBody/>")
            + "<sp:SignedElements><sp:XPath>/a</sp:XPath></sp:SignedElements>",
            "SignedElements cannot be combined with OnlySignEntireHeadersAndBody",
        ),
        ("<x:Unknown/>", "x:Unknown is not supported"),
    ],
)
def test_what_is_not_supported_of_security_is_refused(content, words):
    found = refusals(content)
    assert any([words in each for each in found]), found
    assert all([each.startswith("2:") for each in found])


# --- alternatives ----------------------------------------------------------------------------------------------------


def test_the_first_alternative_that_is_implemented_is_chosen():
    content = (
        "<wsp:ExactlyOne><sp:SymmetricBinding/><wsp:All><x:a/></wsp:All>"
        f"<wsp:All>{SIGNED_BODY}</wsp:All><wsp:All>{transport(suite())}</wsp:All></wsp:ExactlyOne>"
    )
    assert security(content).request.signed == MessageParts(body=True)


def test_an_optional_assertion_is_used_if_it_is_implemented():
    assert read('<wsrmp:RMAssertion wsp:Optional="true"/>').reliability is not None
    assert read('<x:a wsp:Optional="true"/>').is_empty


def test_without_an_implemented_alternative_the_nearest_one_is_reported():
    content = "<wsp:ExactlyOne>\n<wsp:All><x:a/><x:b/></wsp:All>\n<x:c/>\n<x:d/></wsp:ExactlyOne>"
    assert refusals(content) == ["4:1 x:c is not supported"]
    assert refusals("<x:a/><x:b/>") == ["2:1 x:a is not supported", "2:7 x:b is not supported"]


def test_a_policy_without_alternatives_is_refused():
    assert refusals("<wsp:ExactlyOne/>") == ["1:1 the policy has no alternative, so nothing can fulfil it"]
