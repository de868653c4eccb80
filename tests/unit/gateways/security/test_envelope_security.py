"""Two gateways that exchange secured envelopes with keys from files, and what each policy needs of the settings."""

from __future__ import annotations

import logging
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from demaq.errors import OperatorError
from demaq.gateways.security.envelope_security import EnvelopeSecurity, is_unsecured_fault
from demaq.gateways.security.file_watch import LOOK_EVERY_SECONDS
from demaq.gateways.security.secrets import Secret
from demaq.gateways.security.security_needs import GatewayRole
from demaq.gateways.settings import MessageSecuritySettings
from demaq.soap.faults import write_fault
from demaq.soap.refusals import SoapRefusal
from demaq.soap.security import (
    AlgorithmSuite,
    ExchangeRequirements,
    MessageParts,
    PasswordForm,
    ProtectedEnvelope,
    ProtectionOrder,
    SecurityRequirements,
    TokenForm,
    UsernameRequirement,
    VerifiedEnvelope,
)
from demaq.soap.security.algorithm_suite import ECDSA_SHA256
from tests.support.drawing import draw_until
from tests.support.gateways.security.message_key_files import PASSWORD, USER, MessageKeyFiles, WallClock
from tests.support.soap.security_parties import (
    NAMESPACES,
    MemoryReplayCache,
    canonical,
    make_certificate,
    make_envelope,
    private_pem,
)

NOTHING = SecurityRequirements()
SIGNED = SecurityRequirements(timestamp=True, signed=MessageParts(body=True, timestamp=True))
ENCRYPTED = SecurityRequirements(encrypted=MessageParts(body=True))
BOTH = replace(SIGNED, encrypted=MessageParts(body=True))
CONFIRMING = replace(BOTH, signature_confirmation=True)
DIGEST = SecurityRequirements(timestamp=True, username=UsernameRequirement())
TEXT = SecurityRequirements(username=UsernameRequirement(password=PasswordForm.TEXT))
NAME = SecurityRequirements(username=UsernameRequirement(password=PasswordForm.NONE))
FULL = ExchangeRequirements(
    request=replace(BOTH, username=UsernameRequirement(signed=True, encrypted=True)), answer=CONFIRMING
)
SERVICE, CLIENT = "incoming.orders", "outgoing.bank"


class Exchange:
    """A client and a service with one policy and one clock, with files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.files = MessageKeyFiles(folder)
        self.clock = WallClock()
        self.replays = MemoryReplayCache()

    def service(self, policy: ExchangeRequirements, **changes) -> EnvelopeSecurity:
        settings = self.files.service(**changes)
        return EnvelopeSecurity(policy, settings, section=SERVICE, role="service", clock=self.clock)

    def client(self, policy: ExchangeRequirements, **changes) -> EnvelopeSecurity:
        settings = self.files.client(**changes)
        return EnvelopeSecurity(policy, settings, section=CLIENT, role="client", clock=self.clock)

    def receive(self, service: EnvelopeSecurity, request: ProtectedEnvelope | bytes) -> VerifiedEnvelope:
        data = request if isinstance(request, bytes) else request.data
        return service.verify_request(data, self.replays, is_https=False)

    def refuse(self, service: EnvelopeSecurity, request: ProtectedEnvelope | bytes) -> str:
        with pytest.raises(SoapRefusal) as error:
            self.receive(service, request)
        assert PASSWORD not in str(error.value)
        return str(error.value)

    def receive_answer(self, client: EnvelopeSecurity, answer: bytes, sent: ProtectedEnvelope) -> VerifiedEnvelope:
        signatures = sent.signature_values
        return client.verify_answer(answer, self.replays, request_signatures=signatures, is_https=False)

    def refuse_answer(self, client: EnvelopeSecurity, answer: bytes, sent: ProtectedEnvelope) -> str:
        with pytest.raises(SoapRefusal) as error:
            self.receive_answer(client, answer, sent)
        return str(error.value)

    def call(self, client: EnvelopeSecurity, service: EnvelopeSecurity, version: str = "1.1") -> VerifiedEnvelope:
        """Send a request and an answer, both of which must arrive as they were. Return the request."""
        question, reply = make_envelope(version, "question"), make_envelope(version, "reply")
        sent = client.secure_request(question)
        request = self.receive(service, sent)
        assert canonical(request.data) == canonical(question)
        answer = self.receive_answer(client, service.secure_answer(reply, request), sent)
        assert canonical(answer.data) == canonical(reply)
        return request


@pytest.fixture
def exchange(tmp_path: Path) -> Exchange:
    return Exchange(tmp_path)


def find(data: bytes, path: str) -> list[etree._Element]:
    return etree.fromstring(data).findall(path, NAMESPACES)


# --- both directions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_request_and_its_answer_are_signed_encrypted_and_confirmed(exchange: Exchange, version: str):
    client, service = exchange.client(FULL), exchange.service(FULL)
    client.check_settings()
    service.check_settings()
    sent = client.secure_request(make_envelope(version))

    assert b"4711 0815" not in sent.data
    assert PASSWORD.encode() not in sent.data
    request = exchange.receive(service, sent)
    assert request.sender.user == USER
    assert request.sender.certificate == exchange.files.certificates["client"]
    assert request.signature_values == sent.signature_values
    answer = service.secure_answer(make_envelope(version), request)
    assert b"4711 0815" not in answer
    assert len(find(answer, ".//wsse11:SignatureConfirmation")) == 1
    verified = exchange.receive_answer(client, answer, sent)
    assert verified.sender.certificate == exchange.files.certificates["service"]


def test_random_policies_hold_in_both_directions(exchange: Exchange, chance: random.Random):
    drawn: Counter[str] = Counter()
    wanted = ("signed", "encrypted answer", "confirmed", "user")
    for _ in draw_until(lambda: all([drawn[what] for what in wanted]), 40, "DEMAQ_SECURITY_POLICIES"):
        policy = draw_policy(chance)
        client, service = exchange.client(policy), exchange.service(policy)
        client.check_settings()
        service.check_settings()

        request = exchange.call(client, service, chance.choice(["1.1", "1.2"]))

        username = policy.request.username
        assert request.sender.user == (USER if username is not None else None)
        drawn["signed"] += policy.request.is_signed
        drawn["encrypted answer"] += policy.answer.is_encrypted
        drawn["confirmed"] += policy.answer.signature_confirmation
        drawn["user"] += username is not None
    assert [what for what in wanted if not drawn[what]] == []


def draw_policy(chance: random.Random) -> ExchangeRequirements:
    username = None
    if chance.random() < 0.5:
        username = UsernameRequirement(password=chance.choice([PasswordForm.TEXT, PasswordForm.DIGEST]))
    order = chance.choice(list(ProtectionOrder))
    request = replace(chance.choice([NOTHING, SIGNED, ENCRYPTED, BOTH, BOTH]), username=username, order=order)
    answers = [NOTHING, SIGNED, BOTH, CONFIRMING, CONFIRMING] if request.is_signed else [NOTHING, SIGNED]
    return ExchangeRequirements(request=request, answer=replace(chance.choice(answers), order=order))


def test_a_repeated_request_is_refused(exchange: Exchange):
    service = exchange.service(FULL)
    sent = exchange.client(FULL).secure_request(make_envelope())
    exchange.receive(service, sent)

    assert "received before" in exchange.refuse(service, sent)


def test_a_request_in_the_clear_is_refused(exchange: Exchange):
    assert "no security header" in exchange.refuse(exchange.service(FULL), make_envelope())


def test_a_wrong_password_is_refused_without_showing_it(exchange: Exchange):
    policy = ExchangeRequirements(request=DIGEST, answer=NOTHING)
    wrong = exchange.client(policy, password=Secret(f"{PASSWORD}?")).secure_request(make_envelope())

    assert exchange.refuse(exchange.service(policy), wrong) == "the user or the password is wrong"


def test_a_user_without_a_password_needs_no_file_of_users(exchange: Exchange):
    policy = ExchangeRequirements(request=NAME, answer=NOTHING)
    client, service = exchange.client(policy, password=None), exchange.service(policy, users=None)
    client.check_settings()
    service.check_settings()

    assert exchange.call(client, service).sender.user is None


def test_a_message_over_http_is_refused_where_the_policy_wants_https(exchange: Exchange):
    policy = ExchangeRequirements(request=replace(TEXT, https=True), answer=replace(NOTHING, https=True))
    client, service = exchange.client(policy), exchange.service(policy)
    sent = client.secure_request(make_envelope())

    assert "HTTPS" in exchange.refuse(service, sent)
    request = service.verify_request(sent.data, exchange.replays, is_https=True)
    answer = service.secure_answer(make_envelope(), request)
    assert "HTTPS" in exchange.refuse_answer(client, answer, sent)
    client.verify_answer(answer, exchange.replays, request_signatures=(), is_https=True)


def test_an_answer_that_confirms_another_request_is_refused(exchange: Exchange):
    client, service = exchange.client(FULL), exchange.service(FULL)
    sent, other = client.secure_request(make_envelope()), client.secure_request(make_envelope())
    answer = service.secure_answer(make_envelope(), exchange.receive(service, sent))

    assert "does not confirm" in exchange.refuse_answer(client, answer, other)
    exchange.receive_answer(client, answer, sent)


def test_an_answer_is_encrypted_for_the_sender_of_its_request_and_no_other(exchange: Exchange):
    files = exchange.files
    files.write_pair("other")
    service = exchange.service(FULL, trusted=(files.folder / "client.pem", files.folder / "other.pem"))
    client = exchange.client(FULL)
    other = exchange.client(FULL, key=files.folder / "other.key", certificate=files.folder / "other.pem")
    sent = other.secure_request(make_envelope())
    answer = service.secure_answer(make_envelope(), exchange.receive(service, sent))

    assert "that the message refers to is not known" in exchange.refuse_answer(client, answer, sent)
    exchange.receive_answer(other, answer, sent)


def test_a_request_whose_answer_could_not_be_encrypted_is_refused_before_it_is_processed(exchange: Exchange):
    exchange.files.write_pair("client", kind="ec256")
    policy = ExchangeRequirements(request=SIGNED, answer=BOTH)
    sent = exchange.client(policy).secure_request(make_envelope("1.2"))
    service = exchange.service(policy)

    with pytest.raises(SoapRefusal, match="not of kind RSA") as error:
        exchange.receive(service, sent)
    assert (error.value.version, error.value.kind) == ("1.2", "invalidCertificate")
    one_way = exchange.service(ExchangeRequirements(request=SIGNED, answer=NOTHING))
    exchange.replays.keys.clear()
    exchange.receive(one_way, sent)


def test_certificates_that_a_root_has_issued_are_accepted(exchange: Exchange):
    files = exchange.files
    root = files.write_certificates("root.pem", make_certificate("root", ca=True))
    between = files.write_certificates("between.pem", make_certificate("between", issuer="root", ca=True))
    files.write_pair("client", issuer="between")
    sent = exchange.client(FULL).secure_request(make_envelope())

    assert "no trusted root" in exchange.refuse(exchange.service(FULL, trusted=(), roots=(root,)), sent)
    exchange.receive(exchange.service(FULL, trusted=(), roots=(root,), known=(between,)), sent)


def test_how_old_messages_may_be_is_a_setting(exchange: Exchange):
    policy = ExchangeRequirements(request=SIGNED, answer=NOTHING)
    client = exchange.client(policy, lifetime_seconds=60.0)
    patient = exchange.service(policy, clock_skew_seconds=30.0)
    strict = exchange.service(policy, clock_skew_seconds=1.0, lifetime_seconds=10.0)
    sent = client.secure_request(make_envelope())

    exchange.clock.go_on(11)
    assert exchange.refuse(strict, sent) == "the message is too old"
    exchange.clock.go_on(60 + 30 - 11)
    assert exchange.refuse(patient, sent) == "the message has expired"
    exchange.clock.go_on(-1)
    exchange.receive(patient, sent)
    early = client.secure_request(make_envelope())
    exchange.clock.go_on(-31)
    assert "in the future" in exchange.refuse(patient, early)


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_fault_for_a_verified_request_is_secured_like_an_answer(exchange: Exchange, version: str):
    client, service = exchange.client(FULL), exchange.service(FULL)
    sent = client.secure_request(make_envelope(version))
    fault = write_fault(version, "Client", "no such item")
    answer = service.secure_answer(fault, exchange.receive(service, sent))

    assert b"no such item" not in answer
    assert not is_unsecured_fault(answer)
    assert b"no such item" in exchange.receive_answer(client, answer, sent).data


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_fault_for_a_request_that_was_not_verified_is_signed_and_not_encrypted(exchange: Exchange, version: str):
    client, service = exchange.client(FULL), exchange.service(FULL)
    sent = client.secure_request(make_envelope(version))
    answer = service.secure_answer(write_fault(version, "Client", "not signed"), None)

    assert b"not signed" in answer
    assert len(find(answer, ".//ds:Signature")) == 1
    assert find(answer, ".//wsse11:SignatureConfirmation") == find(answer, ".//xenc:EncryptedData") == []
    assert "not encrypted" in exchange.refuse_answer(client, answer, sent)
    assert is_unsecured_fault(answer)


def test_nothing_but_a_fault_goes_unencrypted_to_an_unknown_sender(exchange: Exchange):
    with pytest.raises(ValueError, match="nothing but a fault"):
        exchange.service(FULL).secure_answer(make_envelope(), None)


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_an_unsecured_fault_is_recognised_and_never_an_answer(exchange: Exchange, version: str):
    client = exchange.client(FULL)
    sent = client.secure_request(make_envelope(version))
    fault = write_fault(version, "Server", "anyone may say this")

    assert exchange.refuse_answer(client, fault, sent)
    assert is_unsecured_fault(fault)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not XML",
        b"<fault/>",
        b'<Fault xmlns="http://schemas.xmlsoap.org/soap/envelope/"/>',
        b'<a:Envelope xmlns:a="urn:a"><a:Body/></a:Envelope>',
        make_envelope(),
    ],
)
def test_other_documents_are_no_unsecured_faults(data: bytes):
    assert not is_unsecured_fault(data)


# --- files that are replaced while a node runs -----------------------------------------------------------------------


def test_a_new_key_of_the_service_is_used_without_a_restart_and_the_old_one_no_longer(exchange: Exchange):
    files, clock = exchange.files, exchange.clock
    service, client = exchange.service(FULL), exchange.client(FULL)
    exchange.call(client, service)
    for_old, for_old_late = client.secure_request(make_envelope()), client.secure_request(make_envelope())

    new = files.write_pair("service", of="new service")
    exchange.receive(service, for_old)
    clock.go_on(LOOK_EVERY_SECONDS)

    assert "that the message refers to is not known" in exchange.refuse(service, for_old_late)
    sent = client.secure_request(make_envelope())  # with the new partner, too
    answer = service.secure_answer(make_envelope(), exchange.receive(service, sent))
    assert exchange.receive_answer(client, answer, sent).sender.certificate == new


def test_what_is_encrypted_for_a_former_key_is_decrypted_and_answers_are_signed_with_the_new_one(exchange: Exchange):
    files = exchange.files
    both = private_pem("service") + files.certificates["service"].public_bytes(Encoding.PEM)
    service = exchange.service(FULL, old_keys=(files.write_private("old.pem", both),))
    client = exchange.client(FULL)
    exchange.call(client, service)
    for_old = client.secure_request(make_envelope())

    new = files.write_pair("service", of="new service")
    exchange.clock.go_on(LOOK_EVERY_SECONDS)
    answer = service.secure_answer(make_envelope(), exchange.receive(service, for_old))

    assert exchange.receive_answer(client, answer, for_old).sender.certificate == new


def test_a_client_that_is_no_longer_trusted_is_refused_within_a_second(exchange: Exchange):
    files = exchange.files
    trusted = files.write_certificates("trusted.pem", files.certificates["client"], files.certificates["service"])
    service, client = exchange.service(FULL, trusted=(trusted,)), exchange.client(FULL)
    exchange.call(client, service)

    files.write_certificates("trusted.pem", files.certificates["service"])
    exchange.clock.go_on(LOOK_EVERY_SECONDS)

    assert "no trusted root" in exchange.refuse(service, client.secure_request(make_envelope()))


def test_a_user_that_is_removed_is_refused_within_a_second(exchange: Exchange):
    policy = ExchangeRequirements(request=DIGEST, answer=NOTHING)
    service, client = exchange.service(policy), exchange.client(policy)
    exchange.call(client, service)

    exchange.files.write_private("users", b"bob:b\n")
    exchange.clock.go_on(LOOK_EVERY_SECONDS)

    assert exchange.refuse(service, client.secure_request(make_envelope())) == "the user or the password is wrong"


def test_with_broken_new_files_the_former_ones_stay_in_use_and_no_secret_is_logged(
    exchange: Exchange, caplog: pytest.LogCaptureFixture
):
    files = exchange.files
    service, client = exchange.service(FULL), exchange.client(FULL)
    caplog.set_level(logging.DEBUG)
    exchange.call(client, service)

    key = files.folder.joinpath("service.key").read_bytes()
    files.write_private("service.key", key[: len(key) // 2])
    files.write_private("users", PASSWORD.encode())
    for _ in range(3):
        exchange.clock.go_on(LOOK_EVERY_SECONDS)
        exchange.call(client, service)

    (record,) = [record for record in caplog.records if record.name.startswith("demaq")]
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(f"[{SERVICE}] security_key: {files.folder}/service.key: a key or its")
    assert PASSWORD not in caplog.text
    assert key.splitlines()[1].decode() not in caplog.text
    assert PASSWORD not in repr((vars(service), vars(client)))


def test_a_new_key_that_does_not_serve_the_policy_is_logged(exchange: Exchange, caplog: pytest.LogCaptureFixture):
    service = exchange.service(FULL)
    caplog.set_level(logging.WARNING)

    exchange.files.write_pair("service", kind="ec256")
    exchange.clock.go_on(LOOK_EVERY_SECONDS)
    for _ in range(2):
        exchange.refuse(service, make_envelope())

    assert [record.getMessage() for record in caplog.records] == [
        f"[{SERVICE}] security_certificate: the certificate of CN=service,O=Test\\, Inc.,C=DE: "
        "its key is not of kind RSA, and cannot decrypt keys"
    ]


# --- what a policy needs ---------------------------------------------------------------------------------------------

REFERRING = replace(SIGNED, signing_tokens=(TokenForm.THUMBPRINT, TokenForm.ISSUER_SERIAL))


@pytest.mark.parametrize(
    ("request_", "answer", "missing", "said"),
    [
        (NOTHING, SIGNED, {"key", "certificate"}, "security_key is missing: the policy needs it to sign answers"),
        (NOTHING, SIGNED, {"certificate"}, "security_certificate is missing: the policy needs it to sign answers"),
        (
            ENCRYPTED,
            NOTHING,
            {"key", "certificate"},
            "security_key is missing: the policy needs it to decrypt requests",
        ),
        (
            SIGNED,
            NOTHING,
            {"trusted"},
            "security_trusted or security_roots is missing: the policy needs it to verify signatures of requests",
        ),
        (DIGEST, NOTHING, {"users"}, "security_users is missing: the policy needs it to check passwords of requests"),
        (TEXT, NOTHING, {"users"}, "security_users is missing: the policy needs it to check passwords of requests"),
    ],
)
def test_every_setting_that_a_service_lacks_is_named(
    exchange: Exchange,
    request_: SecurityRequirements,
    answer: SecurityRequirements,
    missing: set[str],
    said: str,
):
    policy = ExchangeRequirements(request=request_, answer=answer)
    exchange.service(policy).check_settings()
    lacking = exchange.service(policy, **without(missing))

    with pytest.raises(OperatorError) as error:
        lacking.check_settings()

    assert str(error.value) == f"[{SERVICE}] {said}"


@pytest.mark.parametrize(
    ("request_", "answer", "missing", "said"),
    [
        (SIGNED, NOTHING, {"key", "certificate"}, "security_key is missing: the policy needs it to sign requests"),
        (
            SIGNED,
            ENCRYPTED,
            {"certificate"},
            "security_certificate is missing: the policy needs it to sign requests",
        ),
        (NOTHING, ENCRYPTED, {"key", "certificate"}, "security_key is missing: the policy needs it to decrypt answers"),
        (
            NOTHING,
            SIGNED,
            {"trusted"},
            "security_trusted or security_roots is missing: the policy needs it to verify signatures of answers",
        ),
        (ENCRYPTED, NOTHING, {"partner"}, "security_partner is missing: the policy needs it to encrypt requests"),
        (
            NAME,
            NOTHING,
            {"user", "password"},
            "security_user is missing: the policy needs it to name a user in requests",
        ),
        (
            TEXT,
            NOTHING,
            {"password"},
            "security_password is missing: the policy needs it to prove the user of requests",
        ),
        (
            DIGEST,
            NOTHING,
            {"password"},
            "security_password is missing: the policy needs it to prove the user of requests",
        ),
    ],
)
def test_every_setting_that_a_client_lacks_is_named(
    exchange: Exchange,
    request_: SecurityRequirements,
    answer: SecurityRequirements,
    missing: set[str],
    said: str,
):
    policy = ExchangeRequirements(request=request_, answer=answer)
    exchange.client(policy).check_settings()
    lacking = exchange.client(policy, **without(missing))

    with pytest.raises(OperatorError) as error:
        lacking.check_settings()

    assert str(error.value) == f"[{CLIENT}] {said}"


def without(names: set[str]) -> dict[str, object]:
    return {name: getattr(MessageSecuritySettings(), name) for name in names}


def test_a_policy_without_requirements_needs_no_settings():
    policy, settings = ExchangeRequirements(request=NOTHING, answer=NOTHING), MessageSecuritySettings()
    roles: tuple[GatewayRole, ...] = ("service", "client")

    for role in roles:
        EnvelopeSecurity(policy, settings, section=SERVICE, role=role, clock=WallClock()).check_settings()


def test_certificates_that_messages_only_refer_to_must_be_known(exchange: Exchange):
    root = exchange.files.write_certificates("root.pem", make_certificate("root", ca=True))
    exchange.files.write_pair("client", issuer="root")
    policy = ExchangeRequirements(request=REFERRING, answer=NOTHING)
    said = "security_trusted or security_known is missing: the policy needs it to find certificates that requests only"

    with pytest.raises(OperatorError, match=said):
        exchange.service(policy, trusted=(), roots=(root,)).check_settings()
    service = exchange.service(policy, trusted=(), roots=(root,), known=(exchange.files.folder / "client.pem",))
    service.check_settings()
    exchange.call(exchange.client(policy), service)


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (
            ExchangeRequirements(request=ENCRYPTED, answer=ENCRYPTED),
            "the policy asks for encrypted answers, but requests are not signed, so there is no certificate to encrypt for",
        ),
        (
            ExchangeRequirements(request=NOTHING, answer=DIGEST),
            "the policy asks for users in answers; only requests can have them",
        ),
    ],
)
def test_a_policy_that_no_settings_can_serve_is_refused(exchange: Exchange, policy: ExchangeRequirements, said: str):
    with pytest.raises(OperatorError) as error:
        exchange.service(policy).check_settings()

    assert str(error.value) == f"[{SERVICE}] {said}"


def test_keys_that_do_not_serve_the_policy_are_refused_before_the_first_message(exchange: Exchange):
    folder = exchange.files.folder
    exchange.files.write_pair("expired", days=(-10, -5))
    exchange.files.write_pair("curve", kind="ec256")
    exchange.files.write_pair("signer", usage={"digital_signature": True})
    exchange.files.write_pair("encipherer", usage={"key_encipherment": True})
    only_curves = replace(SIGNED, suite=AlgorithmSuite(signatures=(ECDSA_SHA256,)))

    def refusal(role: str, policy: ExchangeRequirements, **names: str) -> str:
        changes = {setting: folder / name for setting, name in names.items()}
        side = exchange.service(policy, **changes) if role == "service" else exchange.client(policy, **changes)
        with pytest.raises(OperatorError) as error:
            side.check_settings()
        return str(error.value)

    def pair(name: str) -> dict[str, str]:
        return {"key": f"{name}.key", "certificate": f"{name}.pem"}

    signed_answer = ExchangeRequirements(request=NOTHING, answer=SIGNED)
    encrypted = ExchangeRequirements(request=ENCRYPTED, answer=NOTHING)
    own = f"[{SERVICE}] security_certificate: the certificate of CN="
    partner = f"[{CLIENT}] security_partner: the certificate of CN="
    assert refusal("service", signed_answer, **pair("expired")).startswith(f"{own}expired")
    assert "it has expired on 2026-04-26" in refusal("service", signed_answer, **pair("expired"))
    assert "it has expired" in refusal("service", encrypted, **pair("expired"))
    assert "not of kind RSA" in refusal("service", encrypted, **pair("curve"))
    assert "not for signatures" in refusal("service", signed_answer, **pair("encipherer"))
    assert "fits none of the algorithms" in refusal(
        "service", ExchangeRequirements(request=NOTHING, answer=only_curves)
    )
    assert refusal("client", encrypted, partner="signer.pem").startswith(f"{partner}signer")
    assert "not for encryption" in refusal("client", encrypted, partner="signer.pem")
    assert "it has expired" in refusal("client", encrypted, partner="expired.pem")
    exchange.service(signed_answer, key=folder / "curve.key", certificate=folder / "curve.pem").check_settings()


def test_a_gateway_whose_files_cannot_be_read_is_not_made(exchange: Exchange):
    exchange.files.users.chmod(0o644)

    with pytest.raises(OperatorError, match=r"^\[incoming.orders\] security_users: .*chmod 600"):
        exchange.service(FULL)
