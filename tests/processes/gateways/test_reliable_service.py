"""A running node is the destination of sequences: every request and answer as bytes on a wire."""

from __future__ import annotations

import http.server
import json
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from lxml import etree

from demaq.gateways.security.recipients import Recipients
from demaq.gateways.settings import IncomingSettings, Settings
from tests.support.gateways.nodes import Running, running, wait_until
from tests.support.soap.raw_reliability import WSA, WSA_2004, WSRM, RawSource
from tests.support.soap.wsdls import HEAD, MESSAGES, PORT_TYPE, TAIL, TYPES, binding

APPLICATION = """
declare namespace o = "urn:orders";
create queue shop kind incomingGateway interface shop.wsdl port OrdersPort using WS-ReliableMessaging policy rm.xml
create queue plain kind incomingGateway interface shop.wsdl port OrdersPort endpoint "/plain"
create queue answers kind outgoingGateway
create queue remarks
create queue failures
create rule note for shop if (/o:note) then do enqueue <seen>{string(/o:note)}</seen> into remarks
create rule order for shop
  if (/o:order) then do enqueue <o:confirmation><o:number>{string(/o:order/o:pieces)}</o:number></o:confirmation> into answers
create rule orderPlain for plain
  if (/o:order) then do enqueue <o:confirmation><o:number>1</o:number></o:confirmation> into answers
"""
SERVICE = """<wsdl:service name="Shop"><wsdl:port name="OrdersPort" binding="t:OrdersBinding">
  <{soap}:address location="http://example.org/shop"/></wsdl:port></wsdl:service>"""
NOTE = "urn:shop/remark"
ORDER = "urn:shop/placeOrder"
VERSIONS = pytest.mark.parametrize(
    ("soap", "rm", "wsa"), [("1.1", "1.1", WSA), ("1.2", "1.1", WSA), ("1.1", "1.0", WSA_2004), ("1.2", "1.0", WSA)]
)


def policy(rm: str, assurance: str = "<wsp:Policy><rm:ExactlyOnce/><rm:InOrder/></wsp:Policy>") -> str:
    if rm == "1.0":
        return (
            '<wsp:Policy xmlns:wsp="http://schemas.xmlsoap.org/ws/2004/09/policy">'
            '<r:RMAssertion xmlns:r="http://schemas.xmlsoap.org/ws/2005/02/rm/policy"/></wsp:Policy>'
        )
    inside = f"<rm:DeliveryAssurance>{assurance}</rm:DeliveryAssurance>" if assurance else ""
    return (
        '<wsp:Policy xmlns:wsp="http://www.w3.org/ns/ws-policy" xmlns:rm="http://docs.oasis-open.org/ws-rx/wsrmp/200702">'
        f"<rm:RMAssertion><wsp:Policy>{inside}</wsp:Policy></rm:RMAssertion></wsp:Policy>"
    )


def wsdl(soap: str) -> str:
    service = SERVICE.format(soap="soap" if soap == "1.1" else "soap12")
    return f"{HEAD}<wsdl:types>{TYPES}</wsdl:types>{MESSAGES}{PORT_TYPE}{binding(soap)}{service}{TAIL}"


def service(folder: Path, soap: str = "1.1", rm: str = "1.1", settings: Settings | None = None, text: str = ""):
    (folder / "rm.xml").write_text(text or policy(rm))
    (folder / "shop.wsdl").write_text(wsdl(soap))
    return running(folder, APPLICATION, settings)


def note(text: object) -> str:
    return f'<o:note xmlns:o="urn:orders">{text}</o:note>'


def order(pieces: object) -> str:
    return f'<o:order xmlns:o="urn:orders"><o:item>tea</o:item><o:pieces>{pieces}</o:pieces></o:order>'


def seen(here: Running) -> list[str]:
    return [str(etree.fromstring(body).text) for body in here.bodies("remarks")]


@VERSIONS
def test_messages_in_any_order_are_enqueued_once_and_in_order(tmp_path, chance: random.Random, soap, rm, wsa):
    with service(tmp_path, soap, rm) as here:
        source = RawSource(here.client, "/shop", soap, rm, wsa)
        created = source.create()
        assert (created.status, created.body) == (200, "CreateSequenceResponse")
        numbers = list(range(1, 13)) * 2
        chance.shuffle(numbers)
        received: set[int] = set()
        for number in numbers:
            answer = source.send(number, note(number), NOTE)
            received.add(number)
            assert answer.status == 200
            assert {n for low, high in answer.ranges or [] for n in range(low, high + 1)} == received
        here.wait_for("remarks", 12)
        assert seen(here) == [str(number) for number in range(1, 13)]


def test_a_source_that_creates_again_under_the_same_message_id_gets_the_same_sequence(tmp_path):
    with service(tmp_path) as here:
        source = RawSource(here.client, "/shop")
        first = source.create("urn:uuid:1").text("Identifier")
        assert source.create("urn:uuid:1").text("Identifier") == first
        assert source.create("urn:uuid:2").text("Identifier") != first
        assert len(here.node.store.sequences("in")) == 2


@pytest.mark.parametrize("soap", ["1.1", "1.2"])
def test_a_node_that_was_ended_knows_its_sequences_and_what_was_held_back(tmp_path, soap):
    with service(tmp_path, soap) as here:
        source = RawSource(here.client, "/shop", soap)
        source.create()
        assert source.send(1, note(1), NOTE).ranges == [(1, 1)]
        assert source.send(3, note(3), NOTE).ranges == [(1, 1), (3, 3)]
        here.wait_for("remarks", 1)
    with running(tmp_path, APPLICATION) as here:
        source.client = here.client
        assert source.send(3, note(3), NOTE).ranges == [(1, 1), (3, 3)], "not stored again"
        assert source.send(2, note(2), NOTE).ranges == [(1, 3)]
        here.wait_for("remarks", 3)
        assert seen(here) == ["1", "2", "3"]
        arrived = [message.properties["demaq:arrived"].text for message in here.stored("shop")]
        assert arrived[2] < arrived[1], "the third one came before the second"


def test_a_request_is_answered_with_its_acknowledgement_and_a_repeated_one_by_the_same_answer(tmp_path):
    with service(tmp_path) as here:
        source = RawSource(here.client, "/shop")
        source.create()
        first = source.send(1, order(5), ORDER, message_id="urn:uuid:7")
        assert (first.status, first.body, first.text("number"), first.ranges) == (200, "confirmation", "5", [(1, 1)])
        assert first.text("RelatesTo") == "urn:uuid:7"
        assert first.text("Action") == "urn:shop:Orders:placeOrderResponse"
        again = source.send(1, order(5), ORDER, message_id="urn:uuid:7", asks=True)
        assert (again.body, again.text("number"), again.ranges) == ("confirmation", "5", [(1, 1)])
        assert len(here.stored("shop")) == 1


def test_an_invalid_message_is_refused_kept_and_acknowledged_so_that_those_after_it_go_on(tmp_path):
    with service(tmp_path) as here:
        source = RawSource(here.client, "/shop")
        source.create()
        refused = source.send(1, order("many"), ORDER)
        assert (refused.status, refused.fault, refused.ranges) == (500, "Client", [(1, 1)])
        again = source.send(1, order("many"), ORDER)
        assert (again.fault, again.ranges) == ("Client", [(1, 1)])
        assert source.send(2, note(2), NOTE).ranges == [(1, 2)]
        here.wait_for("remarks", 1)
        assert len(here.stored("demaq:errors")) == 1


def test_closing_releases_what_was_held_back_and_the_end_is_acknowledged(tmp_path):
    with service(tmp_path) as here:
        source = RawSource(here.client, "/shop")
        source.create()
        source.send(1, note(1), NOTE)
        source.send(3, note(3), NOTE)
        closed = source.close(3)
        assert (closed.body, closed.ranges, closed.is_final) == ("CloseSequenceResponse", [(1, 1), (3, 3)], True)
        here.wait_for("remarks", 2)
        assert source.send(2, note(2), NOTE).fault == "SequenceClosed"
        assert source.send(3, note(3), NOTE).ranges == [(1, 1), (3, 3)]
        ended = source.terminate(3)
        assert (ended.body, ended.status) == ("TerminateSequenceResponse", 200)
        assert source.terminate(3).body == "TerminateSequenceResponse"
        assert source.send(4, note(4), NOTE).fault == "SequenceTerminated"
        assert seen(here) == ["1", "3"]


def test_a_sequence_of_1_0_ends_with_its_last_message(tmp_path):
    with service(tmp_path, rm="1.0") as here:
        source = RawSource(here.client, "/shop", rm="1.0", wsa=WSA_2004)
        source.create()
        source.send(1, note(1), NOTE)
        marker = source.send(2, "", f"{WSRM['1.0']}/LastMessage", is_last=True)
        assert marker.ranges == [(1, 2)]
        assert source.send(3, note(3), NOTE).fault == "LastMessageNumberExceeded"
        assert source.terminate().status == 202
        here.wait_for("remarks", 1)
        assert seen(here) == ["1"]


def test_an_acknowledgement_can_be_asked_for_alone(tmp_path):
    with service(tmp_path) as here:
        source = RawSource(here.client, "/shop")
        source.create()
        nothing = source.ask()
        assert (nothing.status, nothing.ranges) == (200, [])
        source.send(1, note(1), NOTE)
        assert source.ask().ranges == [(1, 1)]


@pytest.mark.parametrize(("soap", "status"), [("1.1", 500), ("1.2", 400)], ids=["SOAP 1.1", "SOAP 1.2"])
def test_what_is_not_known_or_not_in_a_sequence_is_refused_by_the_fault_that_is_meant_for_it(tmp_path, soap, status):
    with service(tmp_path, soap) as here:
        source = RawSource(here.client, "/shop", soap)
        source.identifier = "urn:uuid:unknown"
        for answer in (source.send(1, note(1), NOTE), source.ask(), source.close(), source.terminate()):
            assert (answer.status, answer.fault) == (status, "UnknownSequence")
            assert answer.text("Action") == f"{WSRM['1.1']}/fault"
        required = source.post(NOTE, "", note(1))
        assert (required.status, required.fault) == (status, "WSRMRequired")
        source.create()
        rollover = source.send(2**63, note(1), NOTE)
        assert (rollover.status, rollover.fault) == (status, "MessageNumberRollover")
        invalid = source.post(NOTE, source.sequence_block(0), note(1))
        assert invalid.status == status
        assert source.create(acks_to="http://198.51.100.7/acks").fault == "CreateSequenceRefused"
        older = RawSource(here.client, "/shop", soap, "1.0")
        assert older.create().fault == "CreateSequenceRefused"
        assert here.bodies("remarks") == []


def test_a_sequence_can_be_used_through_its_own_gateway_alone(tmp_path):
    application = APPLICATION.replace(
        'create queue plain kind incomingGateway interface shop.wsdl port OrdersPort endpoint "/plain"',
        "create queue plain kind incomingGateway interface shop.wsdl port OrdersPort using WS-ReliableMessaging policy rm.xml",
    )
    (tmp_path / "rm.xml").write_text(policy("1.1"))
    (tmp_path / "shop.wsdl").write_text(wsdl("1.1"))
    with running(tmp_path, application) as here:
        source = RawSource(here.client, "/shop")
        source.create()
        other = RawSource(here.client, "/plain", identifier=source.identifier)
        assert other.send(1, order(1), ORDER).fault == "UnknownSequence"
        assert other.terminate().fault == "UnknownSequence"
        assert source.send(1, note(1), NOTE).ranges == [(1, 1)]


def test_a_gateway_without_reliability_does_not_understand_a_sequence(tmp_path):
    with service(tmp_path) as here:
        source = RawSource(here.client, "/plain", identifier="urn:uuid:1")
        assert source.send(1, order(1), ORDER).fault == "MustUnderstand"


def test_a_reliable_gateway_takes_no_message_without_an_envelope(tmp_path):
    with service(tmp_path) as here:
        answer = here.post("/shop", note(1))
        assert answer.status_code == 500
        assert "no SOAP envelope" in answer.text
        assert here.stored("shop") == []


@pytest.mark.parametrize(
    ("assurance", "expected"),
    [
        ("<wsp:Policy><rm:ExactlyOnce/></wsp:Policy>", ["3", "1", "2"]),
        ("<wsp:Policy><rm:AtLeastOnce/></wsp:Policy>", ["3", "1", "2"]),
        ("<wsp:Policy><rm:AtMostOnce/><rm:InOrder/></wsp:Policy>", ["3"]),
        ("<wsp:Policy><rm:ExactlyOnce/><rm:InOrder/></wsp:Policy>", ["1", "2", "3"]),
    ],
)
def test_messages_are_delivered_as_the_policy_assures(tmp_path, assurance, expected):
    with service(tmp_path, text=policy("1.1", assurance)) as here:
        source = RawSource(here.client, "/shop")
        source.create()
        for number in (3, 1, 1, 2):
            source.send(number, note(number), NOTE)
        here.wait_for("remarks", len(expected))
        assert seen(here) == expected


def test_a_sequence_that_has_expired_is_over(tmp_path):
    with service(tmp_path) as here:
        source = RawSource(here.client, "/shop")
        source.create(expires="PT0.3S")
        assert source.send(1, note(1), NOTE).ranges == [(1, 1)]
        wait_until(lambda: source.send(2, note(2), NOTE).fault == "SequenceTerminated")


ONLY_ORDERS = (
    ('<wsdl:operation name="remark"><wsdl:input message="t:Note"/></wsdl:operation>', ""),
    (
        '<wsdl:operation name="remark"><soap:operation soapAction="urn:shop/remark"/>\n'
        '    <wsdl:input><soap:body use="literal"/></wsdl:input></wsdl:operation>',
        "",
    ),
)


def test_an_offered_sequence_is_accepted_if_every_operation_has_an_answer(tmp_path):
    with service(tmp_path) as here:
        declined = RawSource(here.client, "/shop").create(offer="urn:uuid:answers")
        assert declined.tree is not None
        assert declined.tree.find(f".//{{{WSRM['1.1']}}}Accept") is None
    text = wsdl("1.1")
    for before, after in ONLY_ORDERS:
        assert before in text
        text = text.replace(before, after)
    (tmp_path / "shop.wsdl").write_text(text)
    with running(tmp_path, APPLICATION, store="other") as here:
        source = RawSource(here.client, "/shop")
        created = source.create(offer="urn:uuid:answers")
        assert created.tree is not None
        [address] = created.tree.findall(f".//{{{WSRM['1.1']}}}Accept//{{{WSA}}}Address")
        assert address.text == "http://example.org/shop"
        for number in (1, 2, 2, 1):
            answer = source.send(number, order(number), ORDER)
            assert answer.tree is not None
            place = answer.tree.find(f".//{{{WSRM['1.1']}}}Sequence")
            assert place is not None
            assert [child.text for child in place] == ["urn:uuid:answers", str(number)]
            assert answer.text("number") == str(number)
        refused = source.send(3, order("many"), ORDER)
        assert refused.tree is not None
        assert refused.tree.findtext(f".//{{{WSRM['1.1']}}}MessageNumber") == "3"


class Listener:
    """Keeps what is posted to it."""

    def __init__(self, port: int = 0) -> None:
        self.got: list[etree._Element] = []
        got = self.got

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                got.append(etree.fromstring(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(202)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/here"

    def texts(self, name: str) -> list[str]:
        return [str(one.xpath(f"string((//*[local-name()='{name}'])[1])")) for one in self.got]


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def allowing(listener: Listener) -> Settings:
    own = replace(IncomingSettings(), answer_recipients=Recipients.of([f"127.0.0.1:{listener.server.server_port}"]))
    return Settings(incoming_default=own)


def test_acknowledgements_go_to_another_address_if_the_settings_allow_it(tmp_path, listener: Listener):
    with service(tmp_path, settings=allowing(listener)) as here:
        source = RawSource(here.client, "/shop")
        assert source.create(acks_to=listener.address).body == "CreateSequenceResponse"
        answer = source.send(1, note(1), NOTE)
        assert (answer.status, answer.ranges) == (202, None)
        wait_until(lambda: len(listener.got) == 1)
        assert listener.texts("Action") == [f"{WSRM['1.1']}/SequenceAcknowledgement"]
        assert listener.texts("To") == [listener.address]
        assert listener.texts("Identifier") == [source.identifier]


def test_an_acknowledgement_that_is_asked_for_alone_goes_to_the_other_address_as_well(tmp_path, listener: Listener):
    with service(tmp_path, settings=allowing(listener)) as here:
        source = RawSource(here.client, "/shop")
        source.create(acks_to=listener.address)
        answer = source.ask()
        assert (answer.status, answer.ranges) == (202, None)
        wait_until(lambda: len(listener.got) == 1)
        assert listener.texts("Identifier") == [source.identifier]
        closed = source.close()
        assert (closed.status, closed.body, closed.is_final) == (200, "CloseSequenceResponse", True)


def test_the_last_message_of_1_0_is_acknowledged_at_the_other_address_as_well(tmp_path, listener: Listener):
    with service(tmp_path, rm="1.0", settings=allowing(listener)) as here:
        source = RawSource(here.client, "/shop", rm="1.0")
        source.create(acks_to=listener.address)
        answer = source.send(1, "", f"{WSRM['1.0']}/LastMessage", is_last=True)
        assert (answer.status, answer.ranges) == (202, None)
        wait_until(lambda: len(listener.got) == 1)
        [acknowledgement] = listener.got
        [found] = acknowledgement.iter(f"{{{WSRM['1.0']}}}AcknowledgementRange")
        assert dict(found.attrib) == {"Lower": "1", "Upper": "1"}


def test_the_answer_to_create_sequence_goes_where_reply_to_says(tmp_path, listener: Listener):
    with service(tmp_path, settings=allowing(listener)) as here:
        source = RawSource(here.client, "/shop")
        answer = source.create("urn:uuid:1", acks_to=listener.address, reply_to=listener.address)
        assert (answer.status, answer.body) == (202, None)
        wait_until(lambda: len(listener.got) == 1)
        assert listener.texts("RelatesTo") == ["urn:uuid:1"]
        [identifier] = listener.texts("Identifier")
        assert [stored.name for stored in here.node.store.sequences("in")] == [identifier]


def test_the_command_line_shows_what_was_received_and_what_is_held_back(tmp_path, capsys):
    from demaq.cli.main import demaq, run

    with service(tmp_path) as here:
        source = RawSource(here.client, "/shop")
        source.create()
        for number in (1, 2, 4):
            source.send(number, note(number), NOTE)
        store = str(tmp_path / "store")
        assert run(demaq, ["sequences", "--store", store]) == 0
        shown = capsys.readouterr().out
        assert f"shop: created\n          {source.identifier}\n" in shown
        assert "received 1-2, 4, held back 4" in shown
        source.terminate()
        assert run(demaq, ["sequences", "shop", "--json", "--store", store]) == 0
        assert json.loads(capsys.readouterr().out) == []
        assert run(demaq, ["sequences", "--all", "--direction", "in", "--json", "--store", store]) == 0
        [found] = json.loads(capsys.readouterr().out)
        assert (found["state"], found["received"], found["heldBack"]) == ("terminated", [[1, 2], [4, 4]], [])


def test_the_served_wsdl_has_the_policy_that_clients_have_to_follow(tmp_path):
    with service(tmp_path) as here:
        reliable = etree.fromstring(here.client.get("/shop?wsdl").content)
        [reference] = reliable.xpath("//*[local-name()='binding']/*[local-name()='PolicyReference']/@URI")
        [embedded] = reliable.xpath(
            "//*[local-name()='Policy'][@*[local-name()='Id'] = $name]", name=str(reference)[1:]
        )
        assert embedded.xpath(".//*[local-name()='RMAssertion']//*[local-name()='InOrder']")
        plain = etree.fromstring(here.client.get("/plain?wsdl").content)
        assert plain.xpath("//*[local-name()='port'][@name='OrdersPort']")


PLAIN = """
declare namespace o = "urn:orders";
create queue shop kind incomingGateway interface shop.wsdl port OrdersPort
create queue answers kind outgoingGateway
create queue again
create rule order for shop
  if (/o:order) then (
    do enqueue <o:confirmation><o:number>{string(/o:order/o:pieces)}</o:number></o:confirmation> into answers,
    do enqueue <o:later/> into again
  )
create rule twice for again
  if (/o:later) then do enqueue <o:confirmation><o:number>99</o:number></o:confirmation> into answers
"""


def test_an_answer_goes_to_the_address_that_the_request_names_and_only_the_first_one(tmp_path, listener: Listener):
    (tmp_path / "shop.wsdl").write_text(wsdl("1.1"))
    with running(tmp_path, PLAIN, allowing(listener)) as here:
        source = RawSource(here.client, "/shop")
        accepted = source.post(ORDER, "", order(5), "urn:uuid:5", listener.address)
        assert (accepted.status, accepted.body) == (202, None)
        here.wait_for("demaq:errors")
        wait_until(lambda: len(listener.got) == 1)
        assert listener.texts("number") == ["5"]
        assert listener.texts("RelatesTo") == ["urn:uuid:5"]
        assert listener.texts("Action") == ["urn:shop:Orders:placeOrderResponse"]
        [error] = here.bodies("demaq:errors")
        assert "<connectionClosed" in error
        nowhere = source.post(ORDER, "", order(6), "urn:uuid:6", f"{WSA}/none")
        assert (nowhere.status, nowhere.body) == (202, None)
        here.wait_for("demaq:errors", 2)
        assert len(listener.got) == 1


def test_an_answer_to_another_address_is_sent_until_it_is_accepted_after_a_restart_as_well(tmp_path, chance):
    (tmp_path / "shop.wsdl").write_text(wsdl("1.1"))
    late = Listener()
    late.server.server_close()  # no one is there yet
    with running(tmp_path, PLAIN, allowing(late)) as here:
        source = RawSource(here.client, "/shop")
        assert source.post(ORDER, "", order(7), "urn:uuid:7", late.address).status == 202
        here.wait_for("answers")
    there = Listener(late.server.server_port)
    thread = threading.Thread(target=there.server.serve_forever)
    thread.start()
    try:
        with running(tmp_path, PLAIN, allowing(late)):
            wait_until(lambda: len(there.got) >= 1)
        assert there.texts("number") == ["7"]
    finally:
        there.server.shutdown()
        thread.join()
        there.server.server_close()


def test_an_address_that_is_not_allowed_is_refused_on_the_connection(tmp_path):
    (tmp_path / "shop.wsdl").write_text(wsdl("1.1"))
    with running(tmp_path, PLAIN) as here:
        refused = RawSource(here.client, "/shop").post(ORDER, "", order(5), "urn:uuid:5", "http://198.51.100.7/here")
        assert (refused.status, refused.fault) == (500, "OnlyAnonymousAddressSupported")
        assert here.stored("shop") == []


def test_a_policy_of_anonymous_answers_refuses_other_addresses_that_the_settings_allow(tmp_path, listener: Listener):
    addressing = (
        '<a:Addressing xmlns:a="http://www.w3.org/2007/05/addressing/metadata"><wsp:Policy><a:AnonymousResponses/>'
        "</wsp:Policy></a:Addressing></wsp:Policy>"
    )
    text = policy("1.1").removesuffix("</wsp:Policy>") + addressing
    with service(tmp_path, settings=allowing(listener), text=text) as here:
        source = RawSource(here.client, "/shop")
        refused = source.create(reply_to=listener.address)
        assert (refused.status, refused.fault) == (500, "OnlyAnonymousAddressSupported")
        assert source.create().body == "CreateSequenceResponse"
        assert listener.got == []
