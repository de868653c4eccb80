"""Whose signatures are accepted: chains, dates, uses and keys of certificates, and files of keys."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from demaq.errors import OperatorError
from demaq.soap.refusals import SoapRefusal
from demaq.soap.security import AlgorithmSuite, TrustStore, UserCredential, UserPasswords, read_own_key
from demaq.soap.security.distinguished_names import are_same_names
from tests.support.soap.security_parties import (
    BODY_SIGNED,
    NAMESPACES,
    NOW,
    client_certificate,
    client_key,
    make_certificate,
    make_own_key,
    private_pem,
    receive,
    send,
)

CA: dict[str, Any] = {"ca": True, "usage": {"key_cert_sign": True}}


def check(certificate, *, now=NOW, **store):
    TrustStore(**store).check(certificate, now, AlgorithmSuite())


def refuse(certificate, text, *, now=NOW, **store):
    with pytest.raises(SoapRefusal, match=text) as refused:
        check(certificate, now=now, **store)
    assert refused.value.kind == "invalidCertificate"
    assert refused.value.protocol is not None
    assert refused.value.protocol.subcodes == (f"Q{{{NAMESPACES['wsse']}}}InvalidSecurityToken",)


def test_a_certificate_is_trusted_directly_or_by_its_root():
    root = make_certificate("root", **CA)
    leaf = make_certificate("leaf", issuer="root")
    check(leaf, certificates=[leaf])
    check(leaf, roots=[root])
    refuse(leaf, "no trusted root")
    refuse(leaf, "no trusted root", known=[leaf, root])
    refuse(leaf, "no trusted root", certificates=[root])  # trusted to sign messages, not certificates


def test_a_chain_goes_through_known_certificates():
    root, between = make_certificate("root", **CA), make_certificate("between", issuer="root", **CA)
    leaf = make_certificate("leaf", issuer="between")
    check(leaf, roots=[root], known=[between])
    refuse(leaf, "no trusted root", roots=[root])
    narrow = make_certificate("root", ca=True, path_length=0)
    refuse(leaf, "no trusted root", roots=[narrow], known=[between])
    check(make_certificate("leaf", issuer="root"), roots=[narrow])


def test_a_chain_that_is_too_long_or_a_circle_ends():
    quick = {"kind": "ec256", "issuer_kind": "ec256", **CA}  # nine keys of RSA take half a second
    chain = [make_certificate(f"ca{n}", issuer=f"ca{n + 1}", **quick) for n in range(8)]
    root = make_certificate("ca8", **quick)
    leaf = make_certificate("leaf", issuer="ca0", issuer_kind="ec256")
    check(make_certificate("leaf", issuer="ca4", issuer_kind="ec256"), roots=[root], known=chain)
    refuse(leaf, "no trusted root", roots=[root], known=chain)
    circle = [make_certificate("ca0", issuer="ca1", **quick), make_certificate("ca1", issuer="ca0", **quick)]
    refuse(leaf, "no trusted root", roots=[root], known=circle)


@pytest.mark.parametrize(
    "root",
    [
        lambda: make_certificate("root"),
        lambda: make_certificate("root", ca=True, usage={"digital_signature": True}),
        lambda: make_certificate("root", **CA, days=(-10, -1)),
        lambda: make_certificate("root", kind="ec256", **CA),
    ],
    ids=["no authority", "not for certificates", "expired", "another key"],
)
def test_an_issuer_must_be_a_valid_authority(root):
    refuse(make_certificate("leaf", issuer="root"), "no trusted root", roots=[root()])


def test_dates_are_those_of_now():
    leaf = make_certificate("leaf")
    refuse(leaf, "not valid before", now=NOW - timedelta(days=11), certificates=[leaf])
    refuse(leaf, "expired", now=NOW + timedelta(days=11), certificates=[leaf])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"usage": {"key_encipherment": True}}, "not for signatures"),
        ({"purposes": (ExtendedKeyUsageOID.CODE_SIGNING,)}, "another use"),
        ({"kind": "rsa1024"}, "1024 bits"),
        ({"kind": "ec192"}, "192 bits"),
        (
            {"extensions": ((x509.UnrecognizedExtension(ObjectIdentifier("1.2.3.4"), b"\x05\x00"), True),)},
            "1.2.3.4 is not understood",
        ),
    ],
)
def test_a_certificate_for_something_else_is_refused_even_if_it_is_trusted(changes, text):
    leaf = make_certificate("unfit", **changes)
    refuse(leaf, text, certificates=[leaf])


@pytest.mark.parametrize(
    "changes",
    [
        {"usage": {"digital_signature": True}},
        {"usage": {"content_commitment": True}},
        {"purposes": (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.CODE_SIGNING)},
        {"kind": "ec256"},
    ],
)
def test_a_certificate_for_signatures_is_accepted(changes):
    leaf = make_certificate("fit", **changes)
    check(leaf, certificates=[leaf])


def test_a_message_of_an_untrusted_sender_is_refused():
    stranger = make_certificate("stranger")
    with pytest.raises(SoapRefusal, match="stranger") as refused:
        receive(send(BODY_SIGNED, own_key=make_own_key("stranger", stranger)), BODY_SIGNED)
    assert refused.value.kind == "invalidCertificate"


def test_a_certificate_with_the_same_names_and_another_key_does_not_verify():
    """The serial number, issuer and subject of a trusted certificate prove nothing."""
    imitation = make_certificate("client", kind="ec256")
    with pytest.raises(SoapRefusal, match="no trusted root"):
        receive(send(BODY_SIGNED, own_key=make_own_key("client", imitation, "ec256")), BODY_SIGNED)


@pytest.mark.parametrize(
    ("written", "is_same"),
    [
        ("CN=client,O=Test\\, Inc.,C=DE", True),
        ("C=DE,O=Test\\, Inc.,CN=client", True),
        ('C=DE, O="Test, Inc.", CN=client', True),
        ("CN=CLIENT, O=Test\\2C Inc., C=de", True),
        ("OID.2.5.4.3=client,2.5.4.10=Test\\, Inc.,C=DE", True),
        ("CN=client+O=Test\\, Inc.,C=DE", True),
        ("CN=client,O=Test\\, Inc.", False),
        ("CN=clients,O=Test\\, Inc.,C=DE", False),
        ("CN=client,O=Test,O=Inc.,C=DE", False),
        ("", False),
        ("\\", False),
    ],
)
def test_names_of_issuers_are_compared_as_every_stack_writes_them(written, is_same):
    assert are_same_names(written, client_certificate().issuer.rfc4514_string()) == is_same
    assert are_same_names("/C=DE/CN=root", "CN=root,C=DE")


def test_secrets_are_in_no_representation():
    secret = private_pem("client").decode().splitlines()[1]
    for value in (client_key(), UserCredential("ann", secret), UserPasswords({"ann": secret})):
        assert secret not in repr(value)
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(client_key())


def test_files_of_keys_are_read_with_their_passwords():
    pem = client_certificate().public_bytes(Encoding.PEM)
    assert read_own_key(private_pem("client", password=b"open"), pem, b"open").certificate == client_certificate()
    secret = private_pem("client")
    for key, certificate, text in (
        (private_pem("client", password=b"open"), pem, "cannot be read"),
        (b"-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----", pem, "cannot be read"),
        (secret, b"nothing", "cannot be read"),
        (private_pem("service"), pem, "does not belong"),
    ):
        with pytest.raises(OperatorError, match=text) as failed:
            read_own_key(key, certificate)
        assert secret.decode().splitlines()[1] not in str(failed.value)
