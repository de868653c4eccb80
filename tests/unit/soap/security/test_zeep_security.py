"""zeep's WS-Security and ours, in both directions: users, signatures, both forms of certificates."""

from __future__ import annotations

from dataclasses import replace

import pytest
import xmlsec
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree
from zeep.exceptions import SignatureVerificationFailed
from zeep.wsse import utils
from zeep.wsse.signature import BinarySignature, MemorySignature
from zeep.wsse.username import UsernameToken

from demaq.soap.refusals import SoapRefusal
from demaq.soap.security import (
    AlgorithmSuite,
    MessageParts,
    PasswordForm,
    SecurityRequirements,
    TokenForm,
    UsernameRequirement,
)
from demaq.soap.security import algorithm_suite as algorithms
from tests.support.soap.security_parties import (
    NOW,
    PASSWORD,
    canonical,
    client_certificate,
    make_envelope,
    private_pem,
    receive,
    send,
    service_certificate,
)

SIGNED = SecurityRequirements(timestamp=True, signed=MessageParts(body=True, timestamp=True))
VERSIONS = ["1.1", "1.2"]


class MemoryBinarySignature(MemorySignature):
    """BinarySignature without files."""

    apply = BinarySignature.apply


def make_signature(kind, **options):
    methods = {
        "signature_method": xmlsec.constants.TransformRsaSha256,
        "digest_method": xmlsec.constants.TransformSha256,
        **options,
    }
    return kind(private_pem("client"), client_certificate().public_bytes(Encoding.PEM), **methods)


def apply(plugin, version="1.1"):
    envelope = etree.fromstring(make_envelope(version))
    security = utils.get_security_header(envelope)
    timestamp = utils.WSU.Timestamp()
    timestamp.extend([utils.WSU.Created("2026-05-01T12:00:00Z"), utils.WSU.Expires("2026-05-01T12:05:00Z")])
    security.append(timestamp)
    return etree.tostring(plugin.apply(envelope, {})[0])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [MemorySignature, MemoryBinarySignature])
def test_what_zeep_signs_is_accepted(kind, version):
    data = apply(make_signature(kind), version)
    received = receive(data, SIGNED)
    assert received.sender.certificate == client_certificate()
    assert canonical(received.data) == canonical(make_envelope(version))
    with pytest.raises(SoapRefusal, match="not valid"):
        receive(data.replace(b">17<", b">18<"), SIGNED)


def test_the_certificate_of_zeep_is_found_by_issuer_and_serial_number():
    requirements = replace(SIGNED, signing_tokens=(TokenForm.ISSUER_SERIAL,))
    assert receive(apply(make_signature(MemorySignature)), requirements).sender.certificate == client_certificate()


def test_the_default_of_zeep_is_sha_1_and_must_be_asked_for():
    data = apply(make_signature(MemorySignature, signature_method=None, digest_method=None))
    with pytest.raises(SoapRefusal, match="agreed on"):
        receive(data, SIGNED)
    suite = AlgorithmSuite(signatures=(algorithms.RSA_SHA1,), digests=(algorithms.SHA1,))
    receive(data, replace(SIGNED, suite=suite))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("form", TokenForm)
def test_zeep_accepts_what_we_sign(version, form):
    data = send(replace(SIGNED, signing_tokens=(form,)), version)
    make_signature(MemorySignature).verify(etree.fromstring(data))
    with pytest.raises(SignatureVerificationFailed):
        make_signature(MemorySignature).verify(etree.fromstring(data.replace(b">17<", b">18<")))
    other = MemorySignature(private_pem("client"), service_certificate().public_bytes(Encoding.PEM))
    with pytest.raises(SignatureVerificationFailed):
        other.verify(etree.fromstring(data))


@pytest.mark.parametrize("use_digest", [True, False])
@pytest.mark.parametrize("zulu", [True, False])
def test_users_of_zeep_are_known(use_digest, zulu):
    token = UsernameToken("ann", PASSWORD, use_digest=use_digest, created=NOW, zulu_timestamp=zulu)
    form = PasswordForm.DIGEST if use_digest else PasswordForm.TEXT
    requirements = SecurityRequirements(
        username=UsernameRequirement(password=form, nonce=use_digest, created=use_digest)
    )
    data = apply(token)
    assert receive(data, requirements).sender.user == "ann"
    with pytest.raises(SoapRefusal, match="wrong"):
        receive(apply(UsernameToken("ann", "wrong", use_digest=use_digest, created=NOW)), requirements)
