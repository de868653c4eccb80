"""Traces that a node sends to a collector: trees of conversations, over nodes, through crashes, and when none listens."""

from __future__ import annotations

import contextlib
import smtplib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk")

from demaq.gateways.settings import MailSettings, OutgoingSettings, RelaySettings, Settings
from demaq.server.gateways import Gateways
from demaq.server.http_address import Address
from demaq.server.node import Node
from demaq.server.telemetry import Telemetry, TelemetrySettings, traces_address
from demaq.span_recorder import Sampling
from tests.support.gateways.nodes import ANY_PORT, Running, wait_until
from tests.support.gateways.peers import Script, other_side
from tests.support.server.collector import Collector, GotSpan, collector
from tests.support.soap.wsdls import document_wsdl

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CHAIN = """
create queue orders kind incomingGateway endpoint "/orders"
create queue checks
create queue results
create queue shipped
create rule check for orders if (/order) then do enqueue <check>{//n}</check> into checks
create rule decide for checks if (/check) then do enqueue <result>{//n}</result> into results
create rule ship for results if (/result) then do enqueue <shipped/> into shipped
create rule fail for results if (/result/n = "0") then do enqueue <x>{1 idiv 0}</x> into shipped
"""
ALL = Sampling()
TREE = [
    ("process checks", "process orders"),
    ("process orders", "receive orders"),
    ("process results", "process checks"),
]


@contextmanager
def traced(
    folder: Path,
    application: str,
    to: Collector,
    sampling: Sampling = ALL,
    keep: timedelta = timedelta(0),
    name: str = "one",
    settings: Settings | None = None,
    queue_max: int = 2048,
    smtp: Address | None = None,
    **files: str,
) -> Iterator[Running]:
    folder = folder / name
    folder.mkdir(exist_ok=True)
    for file, text in files.items():
        (folder / file.replace("_", ".")).write_text(text)
    (folder / "app.dmq").write_text(application)
    node = Node(folder / "app.dmq", folder / "store", keep=keep)
    found = TelemetrySettings(
        endpoint=traces_address(to.address),
        sampling=sampling,
        delay_seconds=0.05,
        service=f"demaq-{name}",
        queue_max=queue_max,
    )
    node.record_spans(Telemetry(found, node.store.epochs().message_name))
    gateways = Gateways(node, settings or Settings(), ANY_PORT, smtp)
    gateways.start()
    node.start()
    try:
        yield Running(node, gateways, [])
    finally:
        gateways.stop_receiving()
        node.stop(drain=True)


def named(spans: list[GotSpan], name: str) -> GotSpan:
    [found] = [span for span in spans if span.name == name]
    return found


@pytest.mark.parametrize("keep", [timedelta(0), timedelta(days=1)], ids=["elided", "kept"])
def test_a_conversation_is_one_trace_that_continues_that_of_the_sender(tmp_path: Path, keep: timedelta):
    with collector() as to:
        with traced(tmp_path, CHAIN, to, keep=keep) as here:
            answer = here.post("/orders", "<order><n>1</n></order>", traceparent=PARENT, tracestate="v=1,w=2")
            assert answer.status_code == 202
            here.node.wait_until_idle(10)
        assert to.trees() == {TRACE: [*TREE, ("receive orders", "?")]}
        spans = to.spans()
        received = named(spans, "receive orders")
        assert received.parent == "00f067aa0ba902b7"
        assert {span.state for span in spans} == {"v=1,w=2"}
        assert received.attributes["http.response.status_code"] == 202
        assert {span.service for span in spans} == {"demaq-one"}
        orders = named(spans, "process orders")
        assert orders.attributes["messaging.destination.name"] == "orders"
        assert orders.attributes["demaq.rules.fired"] == ["check"]
        assert orders.attributes["demaq.outcome"] == "processed"
        assert orders.attributes["demaq.messages.created"] == 1
        assert orders.attributes["demaq.queues.created"] == ["checks"]
        assert all([span.started <= span.ended for span in spans])
        assert all([span.error is None for span in spans])


def test_a_rule_that_fails_is_an_error_of_its_span(tmp_path: Path):
    with collector() as to:
        with traced(tmp_path, CHAIN, to) as here:
            here.post("/orders", "<order><n>0</n></order>", traceparent=PARENT)
            here.node.wait_until_idle(10)
        results = named(to.spans(), "process results")
        assert results.attributes["demaq.rules.failed"] == ["fail"]
        assert results.attributes["demaq.outcome"] == "failed"
        assert results.attributes["demaq.messages.errors"] == 1
        assert results.error is not None
        assert results.error.startswith("fail: ")


def test_every_message_of_a_burst_has_its_tree(tmp_path: Path):
    with collector() as to:
        with traced(tmp_path, CHAIN, to) as here:
            for _ in range(30):
                assert here.post("/orders", "<order><n>1</n></order>").status_code == 202
            here.node.enqueue_all("orders", ["<order><n>1</n></order>"] * 100)
            here.node.wait_until_idle(20)
        trees = list(to.trees().values())
        assert len(trees) == 130
        assert trees.count([*TREE, ("receive orders", None)]) == 30
        local = [*TREE[:1], ("process orders", None), *TREE[2:]]
        assert trees.count(local) == 100


def test_a_share_of_traces_is_recorded_and_each_of_them_whole(tmp_path: Path):
    with collector() as to:
        with traced(tmp_path, CHAIN, to, Sampling(0.3)) as here:
            for _ in range(60):
                assert here.post("/orders", "<order><n>1</n></order>").status_code == 202
            here.node.enqueue_all("orders", ["<order><n>1</n></order>"] * 200)
            here.node.wait_until_idle(20)
            here.post("/orders", "<order><n>1</n></order>", traceparent=PARENT)
            here.post("/orders", "<order><n>1</n></order>", traceparent=PARENT.replace("4736-", "4737-")[:-1] + "0")
            here.node.wait_until_idle(20)
        trees = to.trees()
        assert 30 < len(trees) < 150
        assert {len(tree) for tree in trees.values()} == {3, 4}
        assert TRACE in trees
        assert TRACE.replace("4736", "4737") not in trees


SENDING = """
create queue orders kind incomingGateway endpoint "/orders"
create queue later kind echo
create queue due
create queue supplier kind outgoingGateway endpoint "{address}/s" replyto answers
create queue answers
create rule wait for orders
  if (/order) then do enqueue <w/> into later with timeout value xs:dayTimeDuration("PT0.2S") with target value "due"
create rule ask for due if (/w) then do enqueue <ask/> into supplier
create queue heard
create rule hear for answers if (/a) then do enqueue . into heard
"""


def test_timers_attempts_and_replies_are_in_the_trace(tmp_path: Path):
    script = Script()
    script.say("/s", 503, (200, {"Content-Type": "application/xml"}, b"<a/>"))
    settings = Settings(outgoing_default=OutgoingSettings(retry_first_seconds=0.05))
    with collector() as to, other_side(script) as supplier:
        application = SENDING.replace("{address}", supplier.address)
        with traced(tmp_path, application, to, settings=settings) as here:
            here.post("/orders", "<order/>", traceparent=PARENT, tracestate="v=1")
            wait_until(lambda: any([span.name == "process answers" for span in to.spans()]))
        assert to.trees()[TRACE] == sorted(
            [
                ("receive orders", "?"),
                ("process orders", "receive orders"),
                ("wait later", "process orders"),
                ("process due", "wait later"),
                ("send supplier", "process due"),
                ("attempt supplier", "send supplier"),
                ("attempt supplier", "send supplier"),
                ("process answers", "send supplier"),
            ],
            key=str,
        )
        attempts = [span for span in to.spans() if span.name == "attempt supplier"]
        assert [span.attributes["demaq.outcome"] for span in attempts] == ["again", "sent"]
        assert [got.headers["traceparent"] for got in supplier.got] == [f"00-{TRACE}-{span.id}-01" for span in attempts]
        assert {got.headers["tracestate"] for got in supplier.got} == {"v=1"}


FIRST = """
create queue orders kind incomingGateway endpoint "/orders"
create queue other kind outgoingGateway endpoint "{address}/orders"
create rule ask for orders if (/order) then do enqueue . into other
"""


def test_a_trace_continues_over_two_nodes(tmp_path: Path):
    with collector() as to:
        with (
            traced(tmp_path, CHAIN, to, name="two") as second,
            traced(tmp_path, FIRST.replace("{address}", second.address), to) as first,
        ):
            first.post("/orders", "<order><n>1</n></order>", traceparent=PARENT)
            wait_until(lambda: len(to.spans()) >= 8)
        [tree] = to.trees().values()
        assert sorted(tree, key=str) == sorted(
            [
                ("receive orders", "?"),
                ("process orders", "receive orders"),
                ("send other", "process orders"),
                ("attempt other", "send other"),
                ("receive orders", "attempt other"),
                *TREE,
            ],
            key=str,
        )
        assert {span.service for span in to.spans()} == {"demaq-one", "demaq-two"}


SOAP_FIRST = """
declare namespace o = "urn:orders";
create queue shop kind incomingGateway endpoint "/OrdersPort" interface shop.wsdl port OrdersPort
create queue other kind outgoingGateway interface other.wsdl port OrdersPort
create rule pass for shop if (/o:note) then do enqueue . into other
"""
SOAP_SECOND = """
declare namespace o = "urn:orders";
create queue shop kind incomingGateway endpoint "/OrdersPort" interface shop.wsdl port OrdersPort
create queue notes
create rule keep for shop if (/o:note) then do enqueue . into notes
"""
ENVELOPE = """<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body>
<o:note xmlns:o="urn:orders">hello</o:note></e:Body></e:Envelope>"""


def test_a_trace_continues_over_soap(tmp_path: Path):
    wsdl = document_wsdl()
    with collector() as to, traced(tmp_path, SOAP_SECOND, to, name="two", shop_wsdl=wsdl) as second:
        other = wsdl.replace("http://shop.invalid", second.address)
        with traced(tmp_path, SOAP_FIRST, to, shop_wsdl=wsdl, other_wsdl=other) as first:
            headers = {"SOAPAction": '"urn:shop/remark"', "traceparent": PARENT, "tracestate": "v=1"}
            answer = first.post("/OrdersPort", ENVELOPE, "text/xml", **headers)
            assert answer.status_code == 202, answer.text
            wait_until(lambda: len(to.spans()) >= 6)
        assert to.trees() == {
            TRACE: sorted(
                [
                    ("receive shop", "?"),
                    ("process shop", "receive shop"),
                    ("send other", "process shop"),
                    ("attempt other", "send other"),
                    ("receive shop", "attempt other"),
                    ("process shop", "receive shop"),
                ],
                key=str,
            )
        }
        assert {span.state for span in to.spans()} == {"v=1"}
        assert [span.parent for span in to.spans()].count("00f067aa0ba902b7") == 1


MAIL_SECOND = """
create queue orders kind incomingGateway endpoint "mailto:orders@example.org"
create queue strict kind incomingGateway endpoint "mailto:strict@example.org" schema order.xsd
create queue seen
create rule see for orders if (/order) then do enqueue . into seen
"""
MAIL_FIRST = """
create queue orders kind incomingGateway endpoint "/orders"
create queue other kind outgoingGateway endpoint "mailto:orders@example.org"
create rule ask for orders if (/order) then do enqueue . into other
"""
SCHEMA = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="order" type="xs:integer"/>
</xs:schema>"""


def test_a_trace_continues_over_mail(tmp_path: Path):
    with collector() as to:
        with traced(tmp_path, MAIL_SECOND, to, name="two", smtp=ANY_PORT, order_xsd=SCHEMA) as second:
            assert second.gateways.listener is not None
            relay = RelaySettings(host="127.0.0.1", port=second.gateways.listener.port, tls="never")
            settings = Settings(mail=MailSettings(relay=relay, sender="one@example.org"))
            with traced(tmp_path, MAIL_FIRST, to, settings=settings) as first:
                first.post("/orders", "<order/>", traceparent=PARENT, tracestate="v=1,w=2")
                wait_until(lambda: len(to.spans()) >= 6)
        assert to.trees() == {
            TRACE: sorted(
                [
                    ("receive orders", "?"),
                    ("process orders", "receive orders"),
                    ("send other", "process orders"),
                    ("attempt other", "send other"),
                    ("receive orders", "attempt other"),
                    ("process orders", "receive orders"),
                ],
                key=str,
            )
        }
        assert {span.state for span in to.spans()} == {"v=1,w=2"}
        received = [span for span in to.spans() if span.name == "receive orders" and span.service == "demaq-two"]
        assert [span.attributes["messaging.destination.name"] for span in received] == ["orders"]
        assert "http.response.status_code" not in received[0].attributes


def test_a_mail_has_a_span_for_each_queue_and_a_refusal_is_its_error(tmp_path: Path):
    mail = "From: a@example.org\r\nTraceparent: {parent}\r\nContent-Type: application/xml\r\n\r\n<order>x</order>\r\n"
    with collector() as to:
        with traced(tmp_path, MAIL_SECOND, to, smtp=ANY_PORT, order_xsd=SCHEMA) as here:
            assert here.gateways.listener is not None
            with smtplib.SMTP("127.0.0.1", here.gateways.listener.port, "client.example", timeout=30) as client:
                for parent, names in ((PARENT, ("orders", "strict")), ("nonsense", ("orders",))):
                    addresses = [f"{name}@example.org" for name in names]
                    with contextlib.suppress(smtplib.SMTPDataError):
                        client.sendmail("a@example.org", addresses, mail.format(parent=parent))
            here.node.wait_until_idle(10)
        own = to.trees().pop(TRACE)
        assert own == [("process orders", "receive orders"), ("receive orders", "?"), ("receive strict", "?")]
        [other] = [tree for trace, tree in to.trees().items() if trace != TRACE]
        assert other == [("process orders", "receive orders"), ("receive orders", None)]
        assert {span.name: span.error for span in to.spans() if span.error} == {"receive strict": "schemaViolation"}


def test_a_trace_continues_after_a_restart(tmp_path: Path):
    waiting = SENDING.replace("PT0.2S", "PT2S").replace("{address}", "http://127.0.0.1:9")
    with collector() as to:
        with traced(tmp_path, waiting, to) as here:
            here.post("/orders", "<order/>", traceparent=PARENT)
            here.node.wait_until_idle(10)
        assert [span.name for span in to.spans() if span.name == "wait later"] == []
        with traced(tmp_path, waiting, to) as here:
            wait_until(lambda: any([span.name == "process due" for span in to.spans()]))
        tree = to.trees()[TRACE]
        assert ("wait later", "process orders") in tree
        assert ("process due", "wait later") in tree


@pytest.mark.parametrize("parent", ["", "00-0-0-0", PARENT.upper(), "ff" + PARENT[2:], PARENT + "-x", "00-" + "0" * 32])
def test_a_wrong_parent_begins_a_new_trace(tmp_path: Path, parent: str):
    with collector() as to:
        with traced(tmp_path, CHAIN, to) as here:
            assert here.post("/orders", "<order><n>1</n></order>", traceparent=parent).status_code == 202
            here.node.wait_until_idle(10)
        [tree] = to.trees().values()
        assert tree == [*TREE, ("receive orders", None)]


def test_a_collector_that_is_dead_or_slow_does_not_hold_up_the_node(tmp_path: Path):
    with other_side(lambda got: (time.sleep(90), (200, {}, b""))[1]) as side:  # type: ignore[func-returns-value]
        with traced(tmp_path, CHAIN, Collector(side), queue_max=50) as here:
            began = time.monotonic()
            here.node.enqueue_all("orders", ["<order><n>1</n></order>"] * 100)
            assert here.node.wait_until_idle(60)
            assert here.post("/orders", "<order><n>1</n></order>").status_code == 202
            assert time.monotonic() - began < 80
            telemetry = here.node.telemetry
            assert telemetry is not None
            wait_until(lambda: telemetry.export.dropped > 0)
            assert "demaq_spans_dropped_total" in here.client.get("/metrics").text
            ended = time.monotonic()
        assert time.monotonic() - ended < 60
