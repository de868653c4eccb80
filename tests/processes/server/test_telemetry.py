"""Traces that a node sends to a collector: trees of conversations, over nodes, through crashes, and when none listens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk")

from demaq.gateways.settings import OutgoingSettings, Settings
from demaq.server.gateways import Gateways
from demaq.server.node import Node
from demaq.server.telemetry import Telemetry, TelemetrySettings, traces_address
from demaq.span_recorder import Sampling
from tests.support.gateways.nodes import ANY_PORT, Running, wait_until
from tests.support.gateways.peers import Script, other_side
from tests.support.server.collector import Collector, GotSpan, collector

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
) -> Iterator[Running]:
    folder = folder / name
    folder.mkdir(exist_ok=True)
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
    gateways = Gateways(node, settings or Settings(), ANY_PORT)
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
