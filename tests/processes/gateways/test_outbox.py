"""What lies in outgoing gateways is sent: once where the other side says so, again where that helps, else it is an error."""

from __future__ import annotations

import gzip
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from email import message_from_bytes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from aiosmtpd.controller import Controller
from lxml import etree

from demaq.engine.error_routing import kind_of, read_error
from demaq.engine.intake import IncomingMessage
from demaq.errors import EvaluatorUnavailable, StoreError
from demaq.gateways.security.recipients import Recipients
from demaq.gateways.security.tls import OwnCertificate
from demaq.gateways.settings import MailSettings, OutgoingSettings, RelaySettings, Settings
from demaq.schemas import schema_text
from demaq.store.protocol import Attempt, Postponed, StoredMessage
from tests.processes.gateways.mail.test_sending import Receiver
from tests.support.gateways.nodes import Running, running, wait_until
from tests.support.gateways.peers import Answer, Got, OtherSide, Script, other_side, slowly
from tests.support.soap.policies import SIGNED_BODY

RETRY_SECONDS = 0.05
ATTEMPTS = 4
QUICK = {"retry_first_seconds": RETRY_SECONDS, "retry_seconds_max": 0.2, "attempts": ATTEMPTS, "timeout_seconds": 5.0}
STEADY = 1_000_000
"""More failures in a row than any test has: what one test makes fail does not concern the others."""

ALL_RECIPIENTS = Recipients.of(["*:*", "localhost:*", "127.0.0.1:*", "mailto:*"])
APPLICATION = """
module sender errorqueue failures;

create queue start
create queue failures
create queue confirmErrors
create queue answers
create queue strictAnswers schema answer.xsd
create queue strictErrors
create queue seen

create queue out kind outgoingGateway
create queue fixed kind outgoingGateway endpoint "ADDRESS/fixed"
create queue ordered kind outgoingGateway
create queue few kind outgoingGateway
create queue rated kind outgoingGateway
create queue throttled kind outgoingGateway
create queue guarded kind outgoingGateway
create queue patient kind outgoingGateway
create queue impatient kind outgoingGateway
create queue asking kind outgoingGateway replyto answers
create queue strictly kind outgoingGateway replyto strictAnswers errorqueue strictErrors
create queue service kind outgoingGateway interface service.wsdl port PricesPort replyto answers
create queue private kind outgoingGateway
create queue stranger kind outgoingGateway
create queue mail kind outgoingGateway
create queue told kind outgoingGateway endpoint "ADDRESS/told"
create queue nowhere kind outgoingGateway endpoint "DEAD/"
create queue protected kind outgoingGateway endpoint "ADDRESS/protected" using WS-Security policy policy.xml

create property customer as xs:string inherited queue start value string(/send/@customer)
  queue asking, answers, failures
create property line as xs:string queue ordered value /m/@line
create slicing lines on line

create rule toOut for start errorqueue confirmErrors
  if (/send[@via = "out"]) then do enqueue /send/* into out with Recipient value string(/send/@to)
create rule toOutPlain for start
  if (/send[@via = "nobody"]) then do enqueue /send/* into out
create rule toFixed for start
  if (/send[@via = "fixed"]) then do enqueue /send/* into fixed
create rule toFixedElsewhere for start
  if (/send[@via = "elsewhere"]) then do enqueue /send/* into fixed with Recipient value string(/send/@to)
create rule toAsking for start
  if (/send[@via = "asking"]) then do enqueue /send/* into asking with Recipient value string(/send/@to)
create rule toStrictly for start
  if (/send[@via = "strictly"]) then do enqueue /send/* into strictly with Recipient value string(/send/@to)
create rule toService for start
  if (/send[@via = "service"]) then do enqueue /send/* into service
create rule toMail for start
  if (/send[@via = "mail"]) then do enqueue /send/* into mail with Recipient value "mailto:ann@example.org"
create rule tellFailure for start errorqueue told
  if (/send[@via = "told"]) then do enqueue /send/* into out with Recipient value string(/send/@to)
create rule tellNobody for start errorqueue nowhere
  if (/send[@via = "untold"]) then do enqueue /send/* into out with Recipient value string(/send/@to)
create rule look for ordered
  if (/m/@look) then do enqueue <seen/> into seen
"""
ANSWER_SCHEMA = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="answer" type="xs:integer"/>
</xs:schema>"""
WSDL = """<wsdl:definitions xmlns:wsdl="http://schemas.xmlsoap.org/wsdl/"
    xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/"
    xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:c="urn:carrier" targetNamespace="urn:carrier">
  <wsdl:types><xs:schema targetNamespace="urn:carrier" elementFormDefault="qualified">
    <xs:element name="parcel" type="xs:integer"/><xs:element name="price" type="xs:decimal"/>
  </xs:schema></wsdl:types>
  <wsdl:message name="Parcel"><wsdl:part name="body" element="c:parcel"/></wsdl:message>
  <wsdl:message name="Price"><wsdl:part name="body" element="c:price"/></wsdl:message>
  <wsdl:portType name="Prices"><wsdl:operation name="ask">
    <wsdl:input message="c:Parcel"/><wsdl:output message="c:Price"/>
  </wsdl:operation></wsdl:portType>
  <wsdl:binding name="PricesBinding" type="c:Prices">
    <soap:binding transport="http://schemas.xmlsoap.org/soap/http"/>
    <wsdl:operation name="ask"><soap:operation soapAction="urn:carrier/ask"/>
      <wsdl:input><soap:body use="literal"/></wsdl:input><wsdl:output><soap:body use="literal"/></wsdl:output>
    </wsdl:operation>
  </wsdl:binding>
  <wsdl:service name="Carrier"><wsdl:port name="PricesPort" binding="c:PricesBinding">
    <soap:address location="ADDRESS/prices"/>
  </wsdl:port></wsdl:service>
</wsdl:definitions>"""
ENVELOPE = "{http://schemas.xmlsoap.org/soap/envelope/}"


class World:
    """The node and all that it talks to."""

    def __init__(self, here: Running, there: OtherSide, script: Script, dead: str) -> None:
        self.here = here
        self.there = there
        self.script = script
        self.dead = dead
        """Where no server listens."""
        self.receiver = Receiver()
        self.private = there
        self.stranger = there

    def send(self, via: str, path: str = "", body: str = "<m/>", to: str | None = None, **more: str) -> int:
        """Let a rule put a message into a gateway. Return the number of the message that it was made of."""
        said = "".join([f' {name}="{value}"' for name, value in more.items()])
        address = to if to is not None else self.there.address + path
        return self.here.node.enqueue("start", f'<send via="{via}" to="{address}"{said}>{body}</send>')

    def put(self, queue: str, path: str, body: str = "<m/>", to: str | None = None) -> int:
        """A message in a gateway itself."""
        recipient = to if to is not None else self.there.address + path
        return self.here.node.enqueue(queue, body, {"Recipient": recipient})

    def put_all(self, queue: str, messages: list[tuple[str, str]]) -> list[int]:
        """Many at once: where to, and what."""
        return self.here.node.enqueue_all(
            queue, [IncomingMessage(body, {"Recipient": to}, None) for to, body in messages]
        )

    def got(self, path: str, count: int = 1) -> list[Got]:
        wait_until(lambda: len(self.there.at(path)) >= count)
        return self.there.at(path)

    def caused_by(self, seq: int, queue: str) -> StoredMessage:
        """The message of a queue that this one has led to."""
        store = self.here.node.store
        found: list[StoredMessage] = []

        def look() -> bool:
            numbers, known = [seq], []
            while numbers:
                known += numbers
                numbers = [caused for number in numbers for caused in store.caused_by(number)]
            found[:] = [message for message in store.messages(known) if message.queue == queue]
            return bool(found)

        wait_until(look)
        return found[0]

    def error(self, seq: int, queue: str = "failures") -> etree._Element:
        return etree.fromstring(self.caused_by(seq, queue).body)

    @property
    def open_breakers(self) -> int:
        outbox = self.here.gateways.outbox
        assert outbox is not None
        return len(outbox.open_breakers())

    def attempts(self, message: int, count: int) -> list[Attempt]:
        """The first ones first."""
        wait_until(lambda: len(self.here.node.store.attempts(None, message, 99)) >= count)
        return self.here.node.store.attempts(None, message, 99)[::-1]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("outbox")
    script, receiver = Script(), Receiver()
    authority, other_authority = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    own = authority.issue_cert("node.example.org")
    own.private_key_and_cert_chain_pem.write_to_path(folder / "own.pem")
    (folder / "own.pem").chmod(0o600)
    secure, unknown = (_server_side(issuer, authority) for issuer in (authority, other_authority))
    relay = Controller(receiver, hostname="127.0.0.1", port=_free_port())
    by_queue: dict[str, dict[str, Any]] = {
        "few": {"connections": 2},
        "rated": {"rate_per_second": 20.0},
        "throttled": {"gateway_rate_per_second": 20.0, "gateway_burst": 5},
        "guarded": {"breaker_failures": 3, "breaker_pause_seconds": 0.3, "attempts": 50, "connections": 1},
        "patient": {"breaker_failures": 3, "breaker_pause_seconds": 0.3, "attempts": 50},
        "impatient": {"timeout_seconds": 0.3},
        "private": {"ca": folder / "ca.pem", "own": OwnCertificate(certificate=folder / "own.pem")},
        "stranger": {"ca": folder / "ca.pem"},
    }
    with ExitStack() as stack:
        taken = stack.enter_context(socket.socket())
        taken.bind(("127.0.0.1", 0))  # without listening: it refuses, and no other process can have it
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}"
        there = stack.enter_context(other_side(script))
        private = stack.enter_context(other_side(script, tls=secure))
        stranger = stack.enter_context(other_side(script, tls=unknown))
        relay.start()
        stack.callback(relay.stop)
        settings = Settings(
            mail=MailSettings(
                relay=RelaySettings(host="127.0.0.1", port=relay.port, tls="never"), sender="shop@example.org"
            ),
            outgoing_default=_outgoing(),
            outgoing_by_queue={queue: _outgoing(**more) for queue, more in by_queue.items()},
        )
        application = APPLICATION.replace("ADDRESS", there.address).replace("DEAD", dead)
        files: dict[str, Any] = {"service_wsdl": WSDL.replace("ADDRESS", there.address), "answer_xsd": ANSWER_SCHEMA}
        here = stack.enter_context(running(folder, application, settings, policy_xml=SIGNED_BODY, **files))
        world = World(here, there, script, dead)
        world.receiver, world.private, world.stranger = receiver, private, stranger
        yield world


def _outgoing(**more: Any) -> OutgoingSettings:
    return OutgoingSettings(**{"breaker_failures": STEADY, "recipients": ALL_RECIPIENTS, **QUICK, **more})


def _server_side(issuer: trustme.CA, clients: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issuer.issue_cert("127.0.0.1").configure_cert(context)
    clients.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED if issuer is clients else ssl.CERT_NONE
    return context


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


# --- where to ----------------------------------------------------------------------------------------------------------


def test_a_message_is_sent_with_a_name_that_stays_the_same(world: World):
    world.script.say("/twice", 500, 202)
    seq = world.caused_by(world.send("out", "/twice", "<m>ü</m>"), "out").seq

    first, second = world.got("/twice", 2)
    name = f"{world.here.node.store.identity()}/{seq}"
    assert first.body == second.body == "<m>ü</m>".encode()
    assert {got.headers[header] for got in (first, second) for header in ("demaq-message", "idempotency-key")} == {name}
    assert first.headers["content-type"] == "application/xml; charset=utf-8"
    again, sent = world.attempts(seq, 2)
    assert (again.number, again.result, again.status, again.kind) == (
        1,
        "again",
        "500 Internal Server Error",
        "refused",
    )
    assert (sent.number, sent.result, sent.status, sent.kind) == (2, "sent", "202 Accepted", None)
    assert sent.destination == world.there.address + "/twice"
    message = world.here.node.store.message(seq)
    assert message is not None
    assert message.retired is not None
    assert not message.undelivered


def test_a_recipient_comes_before_the_endpoint(world: World):
    world.send("fixed", body="<m>by endpoint</m>")
    world.send("elsewhere", "/elsewhere", "<m>by recipient</m>")
    assert [got.body for got in world.got("/fixed")] == [b"<m>by endpoint</m>"]
    assert [got.body for got in world.got("/elsewhere")] == [b"<m>by recipient</m>"]


def test_a_message_without_an_address_is_an_error(world: World):
    error = world.error(world.send("nobody"))
    assert error[0].tag == "routing"
    assert error.findtext("queue") == "out"


@pytest.mark.parametrize("to", ["ftp://there.invalid/", "there", "http://ann:secret@there.invalid/"])
def test_an_address_that_is_none_is_an_error(world: World, to: str):
    error = world.error(world.send("out", to=to), "confirmErrors")
    assert error[0].tag == "routing"
    assert "secret" not in (error.findtext("description") or "")


def test_a_redirection_is_not_followed(world: World):
    world.script.say("/moved", (307, {"Location": world.there.address + "/thief"}, b""))
    error = world.error(world.send("out", "/moved"), "confirmErrors")
    assert error[0].tag == "refused"
    assert "307" in error.findtext("description", "")
    assert not world.there.at("/thief")


def test_a_gateway_that_asks_for_more_than_we_can_do_sends_nothing(world: World):
    world.here.node.enqueue("protected", "<m/>")
    assert [line for line in world.here.reports if "gateway protected is not at work" in line and "WS-Security" in line]
    world.send("out", "/later")
    world.got("/later")
    assert not world.there.at("/protected")
    assert world.here.node.store.sendings()["protected"][0] == 1


# --- again, or not -----------------------------------------------------------------------------------------------------


def test_the_other_side_says_when_to_come_again(world: World):
    world.script.say("/busy", (503, {"Retry-After": "1"}, b""), 202)
    world.send("out", "/busy")
    first, second = world.got("/busy", 2)
    assert 1.0 <= second.at - first.at < 5.0


def test_who_does_not_listen_is_tried_again_until_it_is_an_error(world: World):
    start = world.send("out", to=world.dead + "/")
    error = world.error(start, "confirmErrors")
    assert error[0].tag == "disconnectedTransport"
    assert error.findtext("rule") == "toOut"
    assert error.findtext("attempt") == str(ATTEMPTS)
    assert f"after {ATTEMPTS} attempts" in error.findtext("description", "")
    seq = int(error.findtext("messageId", ""))
    attempts = world.attempts(seq, ATTEMPTS)
    assert [(a.number, a.result) for a in attempts] == [(1, "again"), (2, "again"), (3, "again"), (4, "failed")]
    assert {a.kind for a in attempts} == {"disconnectedTransport"}


def test_who_does_not_answer_is_tried_again_with_the_same_name(world: World):
    world.script.say("/sleepy", slowly(3), 202)
    seq = world.put("impatient", "/sleepy")
    got = world.got("/sleepy", 2)
    assert len({each.headers["demaq-message"] for each in got}) == 1
    first, second = world.attempts(seq, 2)
    assert (first.result, first.kind, second.result) == ("again", "timeout", "sent")
    assert 0.3 <= first.seconds < 3


def test_an_answer_that_comes_in_drops_is_not_waited_for(world: World):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        seq = world.put("impatient", "", to=f"http://127.0.0.1:{listening.getsockname()[1]}/")
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
            for _ in range(10):
                time.sleep(0.1)
                if world.here.node.store.attempts(None, seq, 1):
                    break
                connection.sendall(b"<")
        assert world.attempts(seq, 1)[0].kind == "timeout"


def test_an_unknown_name_is_an_error_in_the_end(world: World):
    seq = world.put("out", "", to="http://nobody.invalid/")
    assert world.attempts(seq, ATTEMPTS)[-1].kind in ("nameResolution", "disconnectedTransport")


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "refused"), (404, "refused"), (422, "refused"), (401, "authentication")]
)
def test_a_refusal_is_final(world: World, status: int, kind: str):
    path = f"/refuse{status}"
    world.script.say(path, (status, {}, b"<no>we do not want it</no>"))
    error = world.error(world.send("out", path), "confirmErrors")
    assert (error[0].tag, error.findtext("rule"), error.findtext("attempt")) == (kind, "toOut", "1")
    assert str(status) in error.findtext("description", "")
    assert "we do not want it" in error.findtext("description", "")
    assert error.find("initialMessage/m") is not None
    assert len(world.there.at(path)) == 1


# --- order and consideration -------------------------------------------------------------------------------------------


def test_messages_of_a_slice_are_sent_in_order_and_slices_side_by_side(world: World):
    world.script.say("/line", slowly(0.03))
    to = world.there.address + "/line"
    world.put_all("ordered", [(to, f'<m line="{number % 4}">{number}</m>') for number in range(80)])
    got = [int(etree.fromstring(got.body).text or "") for got in world.got("/line", 80)]
    for line in range(4):
        assert [number for number in got if number % 4 == line] == list(range(line, 80, 4))
    assert 2 <= world.script.busy_most["/line"] <= 4
    assert got != sorted(got) or world.script.busy_most["/line"] > 1


def test_a_message_that_is_tried_again_does_not_hold_up_its_slice(world: World):
    world.script.say("/bad", (503, {"Retry-After": "1"}, b""), 202)
    bad, good = world.there.address + "/bad", world.there.address + "/good"
    world.put_all("ordered", [(bad, '<m line="x">1</m>'), (good, '<m line="x">2</m>'), (good, '<m line="x">3</m>')])
    assert [got.body[-5:-4] for got in world.got("/good", 2)] == [b"2", b"3"]
    assert len(world.there.at("/bad")) == 1
    world.got("/bad", 2)


def test_no_more_connections_than_allowed_go_to_one_host(world: World):
    world.script.say("/few", slowly(0.2))
    world.put_all("few", [(world.there.address + "/few", "<m/>")] * 6)
    world.got("/few", 6)
    assert world.script.busy_most["/few"] == 2


def test_no_more_messages_than_allowed_go_to_one_host_each_second(world: World):
    world.put_all("rated", [(world.there.address + "/rated", "<m/>")] * 21)
    got = world.got("/rated", 21)
    assert got[-1].at - got[0].at >= 0.9


def test_a_gateway_sends_no_more_messages_than_allowed_to_all_hosts_together(world: World):
    here = world.there.address + "/throttled"
    other = here.replace("127.0.0.1", "localhost")
    world.put_all("throttled", [(here, "<m/>"), (other, "<m/>")] * 12)
    got = world.got("/throttled", 24)
    assert {one.headers["host"].split(":")[0] for one in got} == {"127.0.0.1", "localhost"}
    # The first may arrive late on a busy machine, so that less than the 0.95 s of nineteen messages are seen.
    assert got[-1].at - got[0].at >= 0.5, "five at once, and nineteen at the rate"


def test_a_host_that_fails_is_left_alone_for_a_while(world: World):
    world.script.say("/down", 500)
    world.put_all("guarded", [(world.there.address + "/down", f"<m>{number}</m>") for number in range(10)])
    wait_until(lambda: world.open_breakers == 1)
    wait_until(lambda: len(world.here.node.store.attempts("guarded", None, 999)) >= 30)
    tried = len(world.there.at("/down"))
    assert tried < 20, "most attempts were not even made"
    assert [a for a in world.here.node.store.attempts("guarded", None, 999) if "not tried" in (a.reason or "")]
    world.script.say("/down", 202)
    wait_until(lambda: "guarded" not in world.here.node.store.sendings())
    assert world.open_breakers == 0
    delivered = {got.body for got in world.there.at("/down")[tried:]}
    assert delivered >= {f"<m>{number}</m>".encode() for number in range(10)}


def test_what_waits_for_a_host_goes_as_soon_as_the_host_is_back_however_long_its_pause_is(world: World):
    world.script.say("/back", 503)
    store = world.here.node.store
    seqs = world.put_all("patient", [(world.there.address + "/back", f"<m>{number}</m>") for number in range(40)])
    wait_until(lambda: min([each.attempts for each in store.unsent("patient", None, 99)]) >= 1)
    later = world.here.node.now + timedelta(hours=1)
    store.postpone([Postponed(message=seq, due=later) for seq in seqs])
    elsewhere = world.put("patient", "", to=world.dead)
    wait_until(lambda: len(store.attempts(None, elsewhere, 99)) >= 3)
    world.script.say("/back", 202)
    world.put("patient", "/back", "<m>probe</m>")
    wait_until(lambda: [each.message for each in store.unsent("patient", None, 99)] == [elsewhere])
    assert {attempt.result for seq in seqs for attempt in store.attempts(None, seq, 1)} == {"sent"}


def test_a_host_that_hangs_does_not_hold_up_another_one_of_the_same_gateway(world: World):
    """However much waits for it."""
    with other_side() as other:
        hangs = [(world.there.address + "/hangs", "<m/>")] * 300
        world.script.answers["/hangs"] = [slowly(2.0)] * 8 + [(202, {}, b"")]
        began = time.monotonic()
        world.put_all("fixed", [*hangs, (other.address + "/", "<m>quick</m>")])
        wait_until(lambda: bool(other.got))
        assert time.monotonic() - began < 1.9


# --- answers -----------------------------------------------------------------------------------------------------------


def test_what_comes_back_is_a_message_that_follows_from_the_request(world: World):
    world.script.say("/ask", (200, {"Content-Type": "application/xml"}, b"<answer>42</answer>"))
    start = world.send("asking", "/ask", customer="ann")
    answer = world.caused_by(start, "answers")
    asked = world.caused_by(start, "asking")
    assert (answer.body, answer.trigger, answer.origin) == ("<answer>42</answer>", asked.seq, start)
    assert answer.properties["customer"].text == "ann"


def test_who_says_that_he_will_answer_later_has_not_answered(world: World):
    world.script.say("/later", (202, {}, b"<accepted/>"))
    asked = world.caused_by(world.send("asking", "/later"), "asking").seq
    assert world.attempts(asked, 1)[0].result == "sent"
    assert world.here.node.store.caused_by(asked) == []


@pytest.mark.parametrize(
    ("answer", "kind"), [(b"<answer>many</answer>", "schemaViolation"), (b"<answer>", "notWellFormed")]
)
def test_an_answer_that_its_queue_does_not_take_is_an_error(world: World, answer: bytes, kind: str):
    world.script.say("/strict", (200, {}, answer))
    start = world.send("strictly", "/strict")
    error = world.error(start, "strictErrors")
    assert error[0].tag == kind
    assert "answer" in error.findtext("description", "")
    assert not world.here.stored("strictAnswers")


SMALL = 20_000
"""So many bytes an answer may have in these tests."""
LARGE = b"<answer>" + b"4" * SMALL + b"</answer>"
PACKED = gzip.compress(b"<answer>42</answer>", mtime=0)
UNUSABLE: dict[str, tuple[dict[str, str], bytes, str, str]] = {
    "large": ({}, LARGE, "refused", "it has more than 20,000 bytes"),
    "bomb": ({"Content-Encoding": "gzip"}, gzip.compress(LARGE * 99, mtime=0), "refused", "more than 20,000 bytes"),
    "coding": ({"Content-Encoding": "br"}, PACKED, "notWellFormed", "packed with 'br'"),
    "twice": ({"Content-Encoding": "gzip, gzip"}, PACKED, "notWellFormed", "packed with 'gzip, gzip'"),
    "damaged": ({"Content-Encoding": "gzip"}, b"\0" + PACKED, "notWellFormed", "is no gzip"),
    "torn": ({"Content-Encoding": "gzip"}, PACKED[:-9], "notWellFormed", "breaks off"),
    "charset": ({"Content-Type": "text/xml; charset=martian"}, b"<a/>", "notWellFormed", "'martian' is not known"),
    "lie": ({"Content-Type": "text/xml; charset=us-ascii"}, b"<a>\xe9</a>", "notWellFormed", "not in us-ascii"),
    "page": ({"Content-Type": "text/html"}, b"<html><br></html>", "notWellFormed", "cannot be used"),
}


@pytest.fixture
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demaq.gateways.outbox.http.ANSWER_BYTES_MAX", SMALL)


@pytest.mark.usefixtures("small_answers")
@pytest.mark.parametrize("name", UNUSABLE)
def test_a_message_is_not_sent_again_for_an_answer_that_cannot_be_used(world: World, name: str):
    headers, body, kind, said = UNUSABLE[name]
    world.script.say(f"/unusable-{name}", (200, headers, body))
    start = world.send("asking", f"/unusable-{name}")
    error = world.error(start)
    assert (error[0].tag, error.findtext("attempt")) == (kind, "1")
    assert "the answer cannot be used" in error.findtext("description", "")
    assert said in error.findtext("description", "")
    asked = world.caused_by(start, "asking").seq
    assert [(a.result, a.status) for a in world.attempts(asked, 1)] == [("failed", "200 OK")]
    assert len(world.there.at(f"/unusable-{name}")) == 1


@pytest.mark.usefixtures("small_answers")
@pytest.mark.parametrize("name", UNUSABLE)
def test_who_wants_no_answer_does_not_care_what_it_is(world: World, name: str):
    headers, body, *_ = UNUSABLE[name]
    world.script.say(f"/unwanted-{name}", (200, headers, body))
    message = world.put("out", f"/unwanted-{name}")
    assert [a.result for a in world.attempts(message, 1)] == ["sent"]


@pytest.mark.usefixtures("small_answers")
def test_a_refusal_counts_by_its_status_however_large_it_is(world: World):
    world.script.say("/large-refusal", (503, {"Retry-After": "0"}, LARGE), (400, {}, LARGE))
    message = world.put("out", "/large-refusal")
    assert [(a.result, a.status) for a in world.attempts(message, 2)] == [
        ("again", "503 Service Unavailable"),
        ("failed", "400 Bad Request"),
    ]


def test_an_answer_is_read_in_the_encoding_that_its_content_type_names(world: World):
    world.script.say("/latin", (200, {"Content-Type": "text/xml; charset=iso-8859-1"}, b"<answer>\xe9</answer>"))
    assert world.caused_by(world.send("asking", "/latin"), "answers").body == "<answer>é</answer>"


def test_a_service_is_asked_as_its_interface_says(world: World):
    def price(got: Got) -> Answer:
        [parcel] = etree.fromstring(got.body).iter("{urn:carrier}parcel")
        euros = f'<price xmlns="urn:carrier">{int(parcel.text or "") / 1000}</price>'
        body = f'<s:Envelope xmlns:s="{ENVELOPE[1:-1]}"><s:Body>{euros}</s:Body></s:Envelope>'
        return 200, {"Content-Type": "text/xml; charset=utf-8"}, body.encode()

    world.script.say("/prices", price)
    start = world.send("service", body='<c:parcel xmlns:c="urn:carrier">2500</c:parcel>')
    answer = world.caused_by(start, "answers")
    assert etree.fromstring(answer.body).text == "2.5"
    assert etree.fromstring(answer.body).tag == "{urn:carrier}price"
    [got] = world.there.at("/prices")
    envelope = etree.fromstring(got.body)
    assert (envelope.tag, envelope[-1].tag) == (f"{ENVELOPE}Envelope", f"{ENVELOPE}Body")
    assert got.headers["soapaction"] == '"urn:carrier/ask"'
    assert got.headers["content-type"].startswith("text/xml")
    assert _as_zeep_reads(world, answer.body) == 2.5


def _as_zeep_reads(world: World, body: str) -> float:
    """What another SOAP library finds in the same answer, with the same WSDL."""
    import zeep

    client = zeep.Client(str(world.here.node.folder.parent / "service.wsdl"))
    operation = client.service._binding._operations["ask"]
    said = f'<s:Envelope xmlns:s="{ENVELOPE[1:-1]}"><s:Body>{body}</s:Body></s:Envelope>'
    return float(operation.process_reply(etree.fromstring(said)))


@pytest.mark.usefixtures("small_answers")
def test_a_service_is_not_asked_again_for_an_answer_that_is_too_large(world: World):
    world.script.say("/prices", (200, {"Content-Type": "text/xml"}, LARGE))
    before = len(world.there.at("/prices"))
    error = world.error(world.send("service", body='<parcel xmlns="urn:carrier">3</parcel>'))
    assert (error[0].tag, error.findtext("attempt")) == ("refused", "1")
    assert len(world.there.at("/prices")) == before + 1


def test_a_fault_is_an_error_that_says_it(world: World):
    fault = "<s:Fault><faultcode>s:Client</faultcode><faultstring>too heavy</faultstring></s:Fault>"
    said = f'<s:Envelope xmlns:s="{ENVELOPE[1:-1]}"><s:Body>{fault}</s:Body></s:Envelope>'.encode()
    world.script.say("/prices", (500, {"Content-Type": "text/xml"}, said))
    before = len(world.there.at("/prices"))
    error = world.error(world.send("service", body='<c:parcel xmlns:c="urn:carrier">9</c:parcel>'))
    assert (error[0].tag, error[0].get("status")) == ("refused", "500")
    assert "too heavy" in error.findtext("description", "")
    assert len(world.there.at("/prices")) == before + 1


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_the_detail_of_a_fault_is_in_the_error_message_whole(world: World, version: str):
    said = FAULTS[version].encode()
    world.script.say("/prices", (500, {"Content-Type": "text/xml"}, said))
    parcel = '<c:parcel xmlns:c="urn:carrier">9</c:parcel>'
    body = world.caused_by(world.send("service", body=parcel), "failures").body
    error = etree.fromstring(body)
    schema = etree.XMLSchema(etree.fromstring(schema_text("error")))
    assert schema.validate(error), schema.error_log
    fault = error.find("fault")
    assert fault is not None
    assert fault.get("version") == version
    assert (fault.findtext("code"), fault.findtext("role")) == ("Client", "urn:hub")
    assert [one.text for one in fault.findall("subcode")] == (["Q{urn:w}Heavy"] if version == "1.2" else [])
    detail = fault.find("detail")
    assert detail is not None
    assert detail.get("{urn:w}unit") == "g"
    assert [child.tag for child in detail] == ["{urn:w}limit", "{urn:w}hint", "error"]
    assert detail.xpath("w:limit/@max", namespaces={"w": "urn:w"}) == ["8"]
    assert detail[1].nsmap["x"] == "urn:x"  # a prefix that only its text uses
    assert error.find("initialMessage/{urn:carrier}parcel") is not None
    report = read_error(body)
    assert report is not None
    assert (report.kind, report.initial) == ("refused", parcel)  # not what is in the detail
    assert kind_of(body) == "refused"


_DETAIL = """<limit max="8" xmlns="urn:w"/><w:hint>x:less</w:hint>
  <error xmlns=""><refused/><code>demaq:x</code><fault version="1.1"/><initialMessage><a/></initialMessage></error>"""
FAULTS = {
    "1.1": f"""<s:Envelope xmlns:s="{ENVELOPE[1:-1]}" xmlns:w="urn:w" xmlns:x="urn:x"><s:Body><s:Fault>
      <faultcode>s:Client</faultcode><faultstring>too heavy</faultstring><faultactor>urn:hub</faultactor>
      <detail w:unit="g">{_DETAIL}</detail></s:Fault></s:Body></s:Envelope>""",
    "1.2": f"""<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:w="urn:w" xmlns:x="urn:x"
      xmlns="urn:w"><s:Body><s:Fault><s:Code><s:Value>s:Sender</s:Value>
      <s:Subcode><s:Value>w:Heavy</s:Value></s:Subcode></s:Code><s:Reason><s:Text xml:lang="en">too heavy</s:Text></s:Reason>
      <s:Role>urn:hub</s:Role><s:Detail w:unit="g">{_DETAIL}</s:Detail></s:Fault></s:Body></s:Envelope>""",
}


@pytest.mark.parametrize(
    "body", ['<c:letter xmlns:c="urn:carrier"/>', '<c:parcel xmlns:c="urn:carrier">heavy</c:parcel>']
)
def test_what_the_interface_does_not_know_is_never_sent(world: World, body: str):
    before = len(world.there.at("/prices"))
    error = world.error(world.send("service", body=body))
    assert error[0].tag == "schemaViolation"
    assert len(world.there.at("/prices")) == before


# --- TLS and mail ------------------------------------------------------------------------------------------------------


def test_a_message_goes_by_tls_with_a_certificate_of_ours(world: World):
    seq = world.put("private", "", "<m>secret</m>", to=world.private.address + "/private")
    assert world.attempts(seq, 1)[0].result == "sent"
    assert [got.body for got in world.private.at("/private")] == [b"<m>secret</m>"]


def test_nothing_goes_to_a_server_whose_certificate_is_not_trusted(world: World):
    seq = world.put("stranger", "", to=world.stranger.address + "/stranger")
    [failed] = world.attempts(seq, 1)
    assert (failed.result, failed.kind) == ("failed", "invalidCertificate")
    assert not world.stranger.at("/stranger")


def test_a_mail_that_is_put_off_is_sent_again_as_the_same(world: World):
    world.receiver.answers = {"data": ["451 come again", "250 OK"]}
    world.receiver.mails.clear()
    mail = world.caused_by(world.send("mail", body="<m>by mail</m>"), "mail")
    first, second = world.attempts(mail.seq, 2)
    assert (first.result, second.result) == ("again", "sent")
    assert "451" in (first.status or "")
    [data] = world.receiver.mails
    received = message_from_bytes(data)
    assert received["Message-ID"] == f"<{mail.seq}@{world.here.node.store.identity()}.demaq.invalid>"
    assert (received["From"], received["To"]) == ("shop@example.org", "ann@example.org")


def test_a_mail_that_is_refused_is_an_error(world: World):
    world.receiver.answers = {"rcpt": ["550 nobody of that name"]}
    error = world.error(world.send("mail"))
    assert error[0].tag == "refused"
    assert "550" in error.findtext("description", "")


# --- errors that are sent themselves -----------------------------------------------------------------------------------


def test_an_error_queue_may_be_a_gateway(world: World):
    world.script.say("/unwanted", 410)
    world.send("told", "/unwanted", "<m>unwanted</m>")
    [got] = world.got("/told")
    error = etree.fromstring(got.body)
    assert (error[0].tag, error.findtext("rule")) == ("refused", "tellFailure")


def test_an_error_queue_that_cannot_be_reached_is_no_loop(world: World):
    start = world.send("untold", to=world.dead + "/")
    error = world.error(start)
    assert error.findtext("queue") == "nowhere"
    time.sleep(0.3)
    store = world.here.node.store
    numbers, queues = [start], []
    while numbers:
        queues += [message.queue for message in store.messages(numbers)]
        numbers = [caused for number in numbers for caused in store.caused_by(number)]
    assert queues == ["start", "out", "nowhere", "failures"]


# --- the life of a message ---------------------------------------------------------------------------------------------


def test_a_message_is_kept_until_it_is_processed_and_delivered(world: World):
    world.script.say("/held", slowly(0.3))
    number = world.put("ordered", "/held", '<m look="yes"/>')
    store = world.here.node.store

    def message() -> Any:
        return store.message(number) or SimpleNamespace(processed=0, retired=0, undelivered=False)

    wait_until(lambda: message().processed is not None)
    assert world.here.stored("seen")
    assert message().undelivered
    assert message().retired is None
    wait_until(lambda: message().retired is not None)
    assert not message().undelivered


@pytest.mark.parametrize(
    "fault", [StoreError("the disk is full"), EvaluatorUnavailable("it is gone"), KeyError("ours")]
)
def test_what_was_acknowledged_is_not_sent_again_for_a_fault_of_ours(
    world: World, monkeypatch: pytest.MonkeyPatch, fault: Exception
):
    engine = world.here.node.engine
    deliver, faults = engine.deliver, [fault, fault]

    def fails_twice(ended: Any) -> None:
        if faults:
            raise faults.pop()
        deliver(ended)

    monkeypatch.setattr(engine, "deliver", fails_twice)
    path = f"/once{type(fault).__name__}"
    seq = world.put("out", path)
    assert world.attempts(seq, 1)[0].result == "sent"
    assert not faults
    assert len(world.there.at(path)) == 1


def test_the_node_is_woken_for_a_reply_whose_commit_failed_and_took_place(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    engine = world.here.node.engine
    deliver, faults, woken = engine.deliver, [StoreError("the disk has failed")], []

    def fail_afterwards(ended: Any) -> None:
        deliver(ended)
        if faults:
            raise faults.pop()

    monkeypatch.setattr(engine, "deliver", fail_afterwards)
    outbox = world.here.gateways.outbox
    assert outbox is not None
    monkeypatch.setattr(outbox._notes, "_wrote", lambda: woken.append(1))
    world.script.say("/doubt", (200, {"Content-Type": "application/xml"}, b"<answer>42</answer>"))
    world.caused_by(world.send("asking", "/doubt"), "answers")
    wait_until(lambda: bool(woken))
    assert len(world.there.at("/doubt")) == 1


@pytest.mark.slow
def test_an_answer_that_can_never_be_stored_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch):
    engine = world.here.node.engine
    deliver = engine.deliver

    def fails_for_answers(ended: Any) -> None:
        if [each for each in ended if each.reply is not None]:
            raise KeyError("ours")
        deliver(ended)

    monkeypatch.setattr(engine, "deliver", fails_for_answers)
    world.script.say("/odd", (200, {}, b"<answer>1</answer>"))
    error = world.error(world.send("asking", "/odd"))
    assert error[0].tag == "systemError"
    assert len(world.there.at("/odd")) == 1


@pytest.mark.slow
def test_a_node_that_was_stopped_sends_the_rest_and_nothing_twice(tmp_path: Path):
    settings = Settings(outgoing_default=_outgoing(connections=4))
    with other_side(slowly(0.02)) as there:
        application = f'create queue out kind outgoingGateway endpoint "{there.address}/"'
        with running(tmp_path, application, settings) as here:
            here.node.enqueue_all("out", [IncomingMessage(f"<m>{number}</m>", {}, None) for number in range(100)])
            wait_until(lambda: len(there.got) >= 20)
        sent = len(there.got)
        assert sent < 100
        with running(tmp_path, application, settings) as here:
            wait_until(lambda: not here.node.store.sendings())
        assert sorted(there.bodies()) == sorted([f"<m>{number}</m>" for number in range(100)])
        assert len({got.headers["demaq-message"] for got in there.got}) == 100
