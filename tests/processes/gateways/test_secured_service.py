"""A running node demands what a policy of WS-Security says: every request and answer as bytes on a wire."""

from __future__ import annotations

import base64
import copy
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from demaq.gateways.settings import IncomingSettings, Settings
from demaq.gateways.settings.settings import MessageSecuritySettings
from demaq.soap.policy.statement_policies import read_policy_text
from demaq.soap.security import (
    ExchangeRequirements,
    ProtectedEnvelope,
    Protection,
    TrustStore,
    UserCredential,
    Verification,
    VerifiedEnvelope,
    secure,
    verify,
)
from tests.processes.gateways.test_reliable_service import ORDER, order, wsdl
from tests.processes.gateways.test_reliable_service import policy as reliability_policy
from tests.support.gateways.client import Response
from tests.support.gateways.nodes import Running, running
from tests.support.soap.independent_crypto import decrypt_cbc, sign
from tests.support.soap.policies import asymmetric, nested, policy, suite, user
from tests.support.soap.raw_reliability import KINDS, WSRM, RawSource
from tests.support.soap.security_parties import (
    NAMESPACES,
    MemoryReplayCache,
    make_certificate,
    make_own_key,
    make_private_key,
    private_pem,
)

APPLICATION = """
declare namespace o = "urn:orders";
create queue shop kind incomingGateway interface shop.wsdl port OrdersPort USING
create queue answers kind outgoingGateway
create queue remarks
create rule note for shop if (/o:note) then do enqueue <seen>{string(/o:note)}</seen> into remarks
create rule who for shop if (/o:order) then do enqueue <from>{qs:property("demaq:sender")}</from> into remarks
create rule order for shop
  if (/o:order) then do enqueue <o:confirmation><o:number>{string(/o:order/o:pieces)}</o:number></o:confirmation> into answers
"""
PASSWORD = "correct horse battery staple"
BINDING = asymmetric(suite(), "<sp:IncludeTimestamp/>", "<sp:OnlySignEntireHeadersAndBody/>")
PARTS = '<sp:SignedParts><sp:Body/><sp:Header Namespace="http://www.w3.org/2005/08/addressing"/></sp:SignedParts>'
SIGNED = policy(f"{BINDING}{PARTS}")
CONFIRMED = policy(f"{BINDING}{PARTS}{nested('sp:Wss11', '<sp:RequireSignatureConfirmation/>')}")
ENCRYPTED = policy(f"{BINDING}{PARTS}<sp:EncryptedParts><sp:Body/></sp:EncryptedParts>")
DIGEST = policy(nested("sp:SupportingTokens", user("<sp:WssUsernameToken10/>", "<sp:HashPassword/>")))
NOW = datetime.now(UTC)
LONG = (-10, 36500)
DS = NAMESPACES["ds"]


@pytest.fixture(scope="module")
def certificates():
    return {name: make_certificate(name, days=LONG) for name in ("client", "service", "stranger")}


class Party:
    """A client of the service, with its own keys."""

    def __init__(self, here: Running, exchange: ExchangeRequirements, certificates, soap: str = "1.1") -> None:
        self.here, self.exchange, self.certificates, self.soap = here, exchange, certificates, soap

    def write(self, body: str, action: str = ORDER, blocks: str = "") -> bytes:
        return RawSource(self.here.client, "/shop", self.soap).write(action, blocks, body).encode()

    def secure(
        self, envelope: bytes, *, signer: str = "client", password: str = PASSWORD, now=None
    ) -> ProtectedEnvelope:
        protection = Protection(
            requirements=self.exchange.request,
            own_key=make_own_key(signer, self.certificates[signer]),
            partner=self.certificates["service"],
            credential=UserCredential("ann", password),
        )
        return secure(envelope, protection, now=now or datetime.now(UTC), random=secrets.token_bytes)

    def post(self, data: bytes, action: str = ORDER) -> Response:
        headers = {"Content-Type": KINDS[self.soap]} | ({"SOAPAction": f'"{action}"'} if self.soap == "1.1" else {})
        return self.here.client.post("/shop", data, headers)

    def verify(self, response: Response, signatures=()) -> VerifiedEnvelope:
        verification = Verification(
            requirements=self.exchange.answer,
            own_keys=[make_own_key("client", self.certificates["client"])],
            trust=TrustStore(certificates=[self.certificates["service"]]),
        )
        return verify(
            response.content,
            verification,
            now=datetime.now(UTC),
            random=secrets.token_bytes,
            replays=MemoryReplayCache(),
            request_signatures=signatures,
        )


@contextmanager
def service(folder: Path, text: str, certificates, soap: str = "1.1", reliable: bool = False) -> Iterator[Party]:
    files = {"sec.xml": text, "shop.wsdl": wsdl(soap), "rm.xml": reliability_policy("1.1")}
    for name, content in files.items():
        (folder / name).write_text(content)
    for name in ("client", "service"):
        (folder / f"{name}.pem").write_bytes(certificates[name].public_bytes(Encoding.PEM))
    (folder / "service.key").write_bytes(private_pem("service"))
    (folder / "people").write_text(f"ann:{PASSWORD}\n")
    for name in ("service.key", "people"):
        (folder / name).chmod(0o600)
    own = MessageSecuritySettings(
        key=folder / "service.key",
        certificate=folder / "service.pem",
        trusted=(folder / "client.pem",),
        users=folder / "people",
    )
    using = "using WS-Security policy sec.xml" + (" using WS-ReliableMessaging policy rm.xml" if reliable else "")
    settings = Settings(incoming_default=replace(IncomingSettings(), security=own))
    exchange = read_policy_text(text.encode()).security
    assert exchange is not None
    with running(folder, APPLICATION.replace("USING", using), settings) as here:
        yield Party(here, exchange, certificates, soap)


def error_kinds(here: Running) -> list[str]:
    return [str(etree.fromstring(body)[0].tag) for body in here.bodies("demaq:errors")]


def fault_code(response: Response) -> str:
    tree = etree.fromstring(response.content)
    found = tree.xpath("string(//*[local-name()='faultcode'] | //*[local-name()='Subcode']/*[local-name()='Value'])")
    return str(found).rpartition(":")[2]


@pytest.mark.parametrize("soap", ["1.1", "1.2"])
@pytest.mark.parametrize(
    "text", [SIGNED, CONFIRMED, ENCRYPTED, DIGEST], ids=["signed", "confirmed", "encrypted", "user"]
)
def test_a_request_as_the_policy_has_it_is_answered_as_the_policy_has_it(tmp_path, certificates, text, soap):
    with service(tmp_path, text, certificates, soap) as party:
        sent = party.secure(party.write(order(5)))
        response = party.post(sent.data)
        assert response.status_code == 200, response.text
        answer = party.verify(response, sent.signature_values)
        assert b">5<" in answer.data
        if text is ENCRYPTED:
            assert b"confirmation" not in response.content
        party.here.wait_for("remarks", 1)
        [sender] = party.here.bodies("remarks")
        assert ("ann" if text is DIGEST else "CN=client") in sender


@pytest.mark.parametrize("soap", ["1.1", "1.2"])
def test_what_is_not_as_the_policy_has_it_is_refused_by_its_fault_and_becomes_an_error_message(
    tmp_path, certificates, soap
):
    with service(tmp_path, SIGNED, certificates, soap) as party:
        good = party.secure(party.write(order(5))).data
        expected = []

        def refused(data: bytes, code: str, kind: str) -> None:
            response = party.post(data)
            assert response.status_code == (500 if soap == "1.1" else 400), response.text
            assert fault_code(response) == code
            expected.append(kind)
            assert error_kinds(party.here) == expected

        refused(party.write(order(5)), "InvalidSecurity", "refused")
        refused(good.replace(b">5<", b">6<"), "FailedCheck", "invalidSignature")
        refused(
            party.secure(party.write(order(5)), signer="stranger").data, "InvalidSecurityToken", "invalidCertificate"
        )
        old = party.secure(party.write(order(5)), now=datetime.now(UTC) - timedelta(hours=1)).data
        refused(old, "MessageExpired", "refused")
        refused(wrap(good), "FailedCheck", "invalidSignature")
        assert party.post(good).status_code == 200
        refused(good, "MessageExpired", "refused")
        assert len(party.here.stored("shop")) == 1


def wrap(data: bytes) -> bytes:
    """The signed Body, hidden in the header, and another one in its place."""
    tree = etree.fromstring(data)
    header, body = tree[0], tree[1]
    hidden = etree.SubElement(header, "{urn:x}hidden")
    hidden.append(copy.deepcopy(body))
    for name in list(body.attrib):
        del body.attrib[name]
    body[0][1].text = "666"
    return etree.tostring(tree)


def test_a_replay_is_refused_after_a_restart_as_well(tmp_path, certificates):
    with service(tmp_path, SIGNED, certificates) as party:
        sent = party.secure(party.write(order(5))).data
        assert party.post(sent).status_code == 200
    with service(tmp_path, SIGNED, certificates) as party:
        response = party.post(sent)
        assert (response.status_code, fault_code(response)) == (500, "MessageExpired")
        assert len(party.here.stored("shop")) == 1


def test_a_wrong_password_is_refused_and_neither_it_nor_the_right_one_is_kept(tmp_path, certificates, caplog):
    text = policy(nested("sp:SupportingTokens", user("<sp:WssUsernameToken10/>")))
    with service(tmp_path, text, certificates) as party:
        wrong = party.post(party.secure(party.write(order(5)), password="hunter2 hunter2").data)
        assert (wrong.status_code, fault_code(wrong)) == (500, "FailedAuthentication")
        bad = party.secure(party.write(order("many"))).data
        assert PASSWORD.encode() in bad
        assert party.post(bad).status_code == 500
        assert party.post(bad[: len(bad) // 2]).status_code in (400, 500)
        assert party.post(party.secure(party.write(order(5))).data).status_code == 200
        assert error_kinds(party.here)[0] == "authentication"
        party.here.wait_for("remarks", 1)
    stored = b"".join([path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()])
    for secret in (PASSWORD, "hunter2 hunter2"):
        assert secret.encode() not in stored
        assert base64.b64encode(secret.encode()) not in stored
        assert secret not in caplog.text


def test_secured_messages_in_a_sequence_are_acknowledged_and_identical_repetitions_too(tmp_path, certificates):
    with service(tmp_path, SIGNED, certificates, reliable=True) as party:
        source = RawSource(party.here.client, "/shop")

        def send(action: str, blocks: str, body: str) -> VerifiedEnvelope:
            sent = party.secure(source.write(action, blocks, body).encode())
            response = party.post(sent.data, action)
            assert response.status_code == 200, response.text
            return party.verify(response)

        rm = "http://docs.oasis-open.org/ws-rx/wsrm/200702"
        anonymous = "<a:Address>http://www.w3.org/2005/08/addressing/anonymous</a:Address>"
        created = send(
            f"{rm}/CreateSequence", "", f"<r:CreateSequence><r:AcksTo>{anonymous}</r:AcksTo></r:CreateSequence>"
        )
        found = re.search(rb"Identifier>([^<]+)<", created.data)
        assert found is not None
        source.identifier = found[1].decode()
        first = party.secure(source.write(ORDER, source.sequence_block(1), order(5)).encode())
        for _ in range(3):  # the very same bytes: a source that keeps what it has signed
            answer = party.verify(party.post(first.data), first.signature_values)
            assert b'Upper="1"' in answer.data
            assert b">5<" in answer.data
        assert len(party.here.stored("shop")) == 1
        unsigned = party.post(source.write(ORDER, source.sequence_block(2), order(6)).encode())
        assert fault_code(unsigned) == "InvalidSecurity"
        other = party.secure(source.write(ORDER, source.sequence_block(2), order(6)).encode(), signer="stranger")
        assert fault_code(party.post(other.data)) == "InvalidSecurityToken"
        assert len(party.here.stored("shop")) == 1


def test_identical_repetitions_of_requests_about_a_sequence_are_answered_as_before(tmp_path, certificates):
    """A relay may send a request twice, and lose the first response; who has signed it cannot know."""
    with service(tmp_path, SIGNED, certificates, reliable=True) as party:
        source = RawSource(party.here.client, "/shop")
        rm = WSRM["1.1"]

        def send(name: str, blocks: str, body: str) -> list[bytes]:
            sent = party.secure(source.write(f"{rm}/{name}", blocks, body).encode())
            responses = [party.post(sent.data, f"{rm}/{name}") for _ in range(3)]
            assert [response.status_code for response in responses] == [200] * 3, responses[-1].text
            return [party.verify(response, sent.signature_values).data for response in responses]

        anonymous = "<a:Address>http://www.w3.org/2005/08/addressing/anonymous</a:Address>"
        create = party.secure(
            source.write(
                f"{rm}/CreateSequence", "", f"<r:CreateSequence><r:AcksTo>{anonymous}</r:AcksTo></r:CreateSequence>"
            ).encode()
        ).data
        found = {re.search(rb"Identifier>([^<]+)<", party.post(create, f"{rm}/CreateSequence").content) for _ in "123"}
        [source.identifier] = {one[1].decode() for one in found if one is not None}
        identifier = f"<r:Identifier>{source.identifier}</r:Identifier>"
        party.post(party.secure(source.write(ORDER, source.sequence_block(1), order(5)).encode()).data)
        for name, blocks, body in [
            ("AckRequested", f"<r:AckRequested>{identifier}</r:AckRequested>", ""),
            ("CloseSequence", "", f"<r:CloseSequence>{identifier}</r:CloseSequence>"),
            ("TerminateSequence", "", f"<r:TerminateSequence>{identifier}</r:TerminateSequence>"),
        ]:
            assert all([b'Upper="1"' in answer for answer in send(name, blocks, body)])
        late = party.post(create, f"{rm}/CreateSequence")
        assert fault_code(late) == "MessageExpired", "a sequence that has ended is not made again by a replay"
        assert len(party.here.node.store.sequences("in")) == 1


def test_a_request_about_a_sequence_that_was_not_carried_out_is_a_replay_the_second_time(tmp_path, certificates):
    with service(tmp_path, SIGNED, certificates, reliable=True) as party:
        source, rm = RawSource(party.here.client, "/shop"), WSRM["1.1"]
        source.identifier = "urn:uuid:0"
        close = f"<r:CloseSequence><r:Identifier>{source.identifier}</r:Identifier></r:CloseSequence>"
        sent = party.secure(source.write(f"{rm}/CloseSequence", "", close).encode()).data
        codes = [fault_code(party.post(sent, f"{rm}/CloseSequence")) for _ in range(2)]
        assert codes == ["Client", "MessageExpired"]


def test_answers_in_aes_cbc_are_padded_as_all_software_reads_it(tmp_path, certificates):
    """Those of PKCS #7: XML Encryption leaves the padding free, and gSOAP takes any other for a part of the body."""
    binding = asymmetric(
        suite("sp:Basic256Sha256Rsa15"), "<sp:IncludeTimestamp/>", "<sp:OnlySignEntireHeadersAndBody/>"
    )
    text = policy(f"{binding}{PARTS}<sp:EncryptedParts><sp:Body/></sp:EncryptedParts>")
    with service(tmp_path, text, certificates) as party:
        lengths = set()
        for pieces in (1, 12, 123, 1234, 12345):
            sent = party.secure(party.write(order(pieces)))
            response = party.post(sent.data)
            assert f">{pieces}<".encode() in party.verify(response, sent.signature_values).data
            key = make_private_key("client")
            assert isinstance(key, rsa.RSAPrivateKey)
            plain = decrypt_cbc(etree.fromstring(response.content), key)
            count = plain[-1]
            assert plain.endswith(b"confirmation>" + bytes([count]) * count)
            lengths.add(count)
        assert len(lengths) == 5


def test_a_signature_that_is_left_out_of_what_it_does_not_contain_is_accepted(tmp_path, certificates):
    """As xml-crypto writes them, by which the npm package soap signs."""
    with service(tmp_path, SIGNED, certificates) as party:
        root = etree.fromstring(party.secure(party.write(order(5))).data)
        for transforms in root.iter(f"{{{DS}}}Transforms"):
            left_out = etree.Element(f"{{{DS}}}Transform", Algorithm=f"{DS}enveloped-signature")
            transforms.insert(0, left_out)
        sign(root, make_private_key("client"))
        response = party.post(etree.tostring(root))
        assert response.status_code == 200, response.text
        assert b">5<" in party.verify(response).data
        changed = party.post(etree.tostring(root).replace(b">5<", b">6<"))
        assert fault_code(changed) == "FailedCheck"


def test_a_header_that_is_damaged_anywhere_is_never_a_fault_of_the_node_and_never_accepted(tmp_path, certificates):
    """Every mutation of a good request is refused with a fault, or leaves what is signed as it was."""
    with service(tmp_path, SIGNED, certificates) as party:
        refused = accepted = 0

        @settings(max_examples=60, deadline=None)
        @given(st.data())
        def damage(data) -> None:
            nonlocal refused, accepted
            good = party.secure(party.write(order(5))).data
            mutated = mutate(good, data)
            response = party.post(mutated)
            assert response.status_code in (200, 400, 413, 415, 422, 500), response.text
            tree = etree.fromstring(response.content)
            if response.status_code == 200:
                accepted += 1
                assert "5" in tree.xpath("//*[local-name()='number']/text()")
            else:
                refused += 1
                assert tree.xpath("//*[local-name()='Fault']") or tree.tag == "error", response.text
                assert "Traceback" not in response.text

        damage()
        assert refused > 20
        bodies = party.here.bodies("shop")
        assert {str(etree.fromstring(body).findtext("{urn:orders}pieces")) for body in bodies} <= {"5"}


def mutate(good: bytes, data) -> bytes:
    """Return the request with one thing changed: in its bytes, or in the tree of its header."""
    kind = data.draw(st.sampled_from(["byte", "cut", "remove", "double", "move", "text", "attribute", "rename"]))
    if kind == "byte":
        at = data.draw(st.integers(0, len(good) - 1))
        return good[:at] + bytes([data.draw(st.integers(0, 255))]) + good[at + 1 :]
    if kind == "cut":
        at = data.draw(st.integers(0, len(good) - 1))
        return good[:at] + good[at + data.draw(st.integers(1, 300)) :]
    tree = etree.fromstring(good)
    elements = [one for one in tree.iter("*") if one.getparent() is not None]
    chosen = data.draw(st.sampled_from(elements))
    parent = chosen.getparent()
    if kind == "remove":
        parent.remove(chosen)
    elif kind == "double":
        parent.insert(data.draw(st.integers(0, len(parent))), copy.deepcopy(chosen))
    elif kind == "move":
        inside = list(chosen.iter("*"))
        target = data.draw(st.sampled_from([one for one in tree.iter("*") if one not in inside] or [tree]))
        target.append(chosen)
    elif kind == "text":
        chosen.text = data.draw(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=20))
    elif kind == "attribute" and chosen.attrib:
        name = data.draw(st.sampled_from(sorted(chosen.attrib)))
        chosen.set(name, data.draw(st.sampled_from(["", "#x", "1", "urn:x", *chosen.attrib.values()])))
    elif kind == "rename":
        chosen.tag = data.draw(st.sampled_from([str(one.tag) for one in elements]))
    return etree.tostring(tree)
