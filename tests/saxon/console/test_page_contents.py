"""What the pages of deliveries, sequences, timers, plans, rounds and the flow show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner
from lxml import etree, html

from demaq.cli.main import demaq
from demaq.console.console_settings import ConsoleSettings
from demaq.server import metrics
from demaq.soap.addressing.endpoint_reference import EndpointReference
from demaq.soap.reliability.inbound_sequence import InboundSequence
from demaq.soap.reliability.number_ranges import NumberRanges
from demaq.soap.reliability.outbound_sequence import OutboundSequence, OutboundState, PendingNumber
from demaq.soap.reliability.reliability_versions import RELIABILITY_1_1
from demaq.store.opening import open_store
from demaq.store.protocol import Attempt, Postponed, SequenceChanges, SequenceMessage, StoredSequence
from tests.support.console.client import ConsoleClient
from tests.support.console.shop import APPLICATION, make_shop

PEER = "http://partner.example/inbox"
FAILED_AT = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
NEXT_AT = datetime(2099, 3, 1, 9, 30, tzinfo=UTC)
ACKS_TO = EndpointReference(version=RELIABILITY_1_1.addressing, address="http://here.example/acks")


class Shop:
    def __init__(self, folder: Path) -> None:
        self.store = make_shop(folder)
        with closing(open_store(self.store)) as store:
            self.waiting, self.other = [each.message for each in store.unsent("partner", None, 9)][:2]
            self.timers = store.timers(None, 99)
            for number in (1, 2, 3):
                self._fail(store, number)
            store.change_sequences(make_sequences(self.waiting))

    def _fail(self, store: Any, number: int) -> None:
        attempt = Attempt(
            message=self.waiting,
            queue="partner",
            number=number,
            at=FAILED_AT + timedelta(minutes=number),
            seconds=1.25,
            destination=PEER,
            result="again",
            status="503",
            kind="noConnection",
            reason="closed on <Sundays>",
        )
        store.postpone([Postponed(message=self.waiting, due=NEXT_AT, attempt=attempt)])


def make_sequences(message: int) -> SequenceChanges:
    """An outgoing sequence in which this message is not acknowledged, and an incoming one with a gap."""
    outbound = OutboundSequence(
        version=RELIABILITY_1_1,
        acks_to=ACKS_TO,
        creation_id="urn:create:1",
        identifier="urn:sequence:out",
        state=OutboundState.OPEN,
        next_number=5,
        acknowledged=NumberRanges.of([(1, 3)]),
        pending=(PendingNumber(4, attempts=2),),
    )
    received = NumberRanges.of([(1, 2), (4, 4)])
    inbound = InboundSequence(
        identifier="urn:sequence:in",
        version=RELIABILITY_1_1,
        acks_to=ACKS_TO,
        received=received,
        held=NumberRanges.of([(4, 4)]),
    )
    return SequenceChanges(
        sequences=(
            StoredSequence(
                direction="out",
                name="urn:create:1",
                queue="partner",
                peer=PEER,
                content=outbound.to_json(),
                has_ended=False,
                changed=FAILED_AT,
            ),
            StoredSequence(
                direction="in",
                name="urn:sequence:in",
                queue="orders",
                peer="them",
                content=inbound.to_json(),
                has_ended=False,
                changed=FAILED_AT,
            ),
        ),
        added=(
            SequenceMessage(direction="out", sequence="urn:create:1", number=4, message=message),
            SequenceMessage(direction="in", sequence="urn:sequence:in", number=4, held="<held/>"),
        ),
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("contents"))


@pytest.fixture
def client(shop: Shop) -> Iterator[ConsoleClient]:
    made = ConsoleClient(ConsoleSettings(store=str(shop.store), open_role="administer"))
    yield made
    made.close()


def read(client: ConsoleClient, path: str, **query: object) -> html.HtmlElement:
    answer = client.get(f"/console{path}" + (f"?{urlencode(query)}" if query else ""))
    assert answer.status == 200, answer.text
    return html.fromstring(answer.text)


def rows(page: html.HtmlElement, heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading; empty if there is none before the next heading."""
    found = page.xpath(
        "//table[preceding::*[self::h1 or self::h2 or self::h3][1][normalize-space() = $title]]", title=heading
    )
    return [[_text(cell) for cell in row] for table in found for row in table.xpath("tbody/tr")]


def _text(element: html.HtmlElement) -> str:
    return " ".join(element.text_content().split())


# deliveries and sequences


def test_a_waiting_delivery_is_shown_with_its_attempts_and_its_next_time(client: ConsoleClient, shop: Shop):
    waiting = rows(read(client, "/deliveries"), "Waiting to be sent")
    assert [row[0] for row in waiting] == [str(shop.other), *[row[0] for row in waiting[1:]]], "the next one first"
    [row] = [row for row in waiting if row[0] == str(shop.waiting)]
    assert row[1] == "partner"
    assert row[3].startswith("2099-03-01 09:30:00 in ")
    assert row[4] == "3"
    attempts = rows(read(client, "/deliveries"), "Last attempts")
    assert [row[3] for row in attempts] == ["3", "2", "1"]
    assert attempts[0] == [
        *(str(shop.waiting), "partner", "2026-03-01 09:03:00", "3", "failed, tried again 503", PEER, "1.25 s"),
        "noConnection: closed on <Sundays>",
    ]


def test_deliveries_are_those_of_a_gateway_a_message_or_a_result(client: ConsoleClient, shop: Shop):
    of_one = read(client, "/deliveries", message=shop.waiting)
    assert [row[0] for row in rows(of_one, "Waiting to be sent")] == [str(shop.waiting)]
    assert [row[1] for row in rows(of_one, "Sequences")] == ["partner"]
    of_other = read(client, "/deliveries", message=shop.other)
    assert rows(of_other, "Last attempts") == rows(of_other, "Sequences") == []
    assert rows(read(client, "/deliveries", result="sent"), "Last attempts") == []
    assert rows(read(client, "/deliveries", queue="nothing"), "Waiting to be sent") == []


def test_a_reliable_sequence_is_shown_with_its_numbers(client: ConsoleClient, shop: Shop):
    incoming, outgoing = rows(read(client, "/deliveries"), "Sequences")
    assert incoming[:5] == ["in", "orders", "created", "them", "urn:sequence:in"]
    assert incoming[5] == "received 1-2, 4, held back 4"
    assert outgoing[:5] == ["out", "partner", "open", PEER, "urn:sequence:out"]
    assert outgoing[5] == f"acknowledged 1-3, not acknowledged 4 (message {shop.waiting})"
    assert outgoing[6] == "2026-03-01 09:00:00"


# timers


def test_a_timer_is_shown_with_its_time_and_where_it_comes_back(client: ConsoleClient, shop: Shop):
    found = rows(read(client, "/timers"), "Timers")
    first = shop.timers[0]
    assert first.timer is not None
    assert len(found) == len(shop.timers) > 1
    assert found[0][:3] == [str(first.seq), "reminders", f"{first.timer.due:%Y-%m-%d %H:%M:%S}"]
    assert found[0][3].endswith(" ago"), "the laboratory has a clock of its own, and no node has let it come back"
    assert found[0][4:] == ["reports", "remind", first.body]


def test_timers_that_are_asked_for_are_found_after_others(client: ConsoleClient, shop: Shop):
    last = shop.timers[-1]
    assert rows(read(client, "/timers", target="nowhere", limit=1), "Timers") == []
    assert len(rows(read(client, "/timers", target="reports", limit=1), "Timers")) == 1
    page, numbers = read(client, "/timers", limit=2), []
    while True:
        numbers += [row[0] for row in rows(page, "Timers")]
        following = page.xpath("//a[@rel = 'next']/@href")
        if not following:
            break
        page = html.fromstring(client.get(following[0]).text)
    assert numbers == [str(timer.seq) for timer in shop.timers]
    assert numbers[-1] == str(last.seq)


# plans


def test_a_plan_is_shown_with_the_warnings_of_the_application(client: ConsoleClient):
    warnings = [_text(each) for each in read(client, "/plans").xpath("//ul[@class = 'warnings']/li")]
    assert len(warnings) == 2
    assert warnings[0].startswith('DQ1502 nothing in the application fills queue "payments", and it has rules')
    assert "shop.dmq:5" in warnings[0]
    assert warnings[0].endswith("only a client can")


def test_a_plan_says_what_is_native_and_what_saxon_gets_and_why(client: ConsoleClient):
    page = read(client, "/plans")
    states = {
        _text(each.xpath("h2/a")[0]): _text(each.xpath("h2/span[contains(@class, 'state')]")[0])
        for each in page.xpath("//article")
    }
    assert states == dict.fromkeys(("check", "discount", "tellPartner", "remind", "ship"), "native") | {
        "describe": "Saxon"
    }
    assert "6 rules, 5 native" in _text(page.xpath("//p[@class = 'sub']")[0])
    [only] = read(client, "/plans", saxon=1).xpath("//article")
    said = dict(
        zip([_text(each) for each in only.xpath(".//dt")], [_text(each) for each in only.xpath(".//dd")], strict=True)
    )
    assert said["left to Saxon"].startswith("an expression of the kind “map constructor”")
    assert "shop.dmq:37" in said["left to Saxon"]
    assert "write it with paths, comparisons, FLWOR expressions" in said["left to Saxon"]
    assert said["enqueues into"] == "reports"
    assert said["errors go to"] == "troubles"


# rounds

SAMPLES = {
    'demaq_rounds_total{where="inline"}': 10,
    'demaq_rounds_total{where="spark"}': 4,
    "demaq_evaluations_repeated_total": 17,
    "demaq_messages_processed_on_arrival_total": 1200,
    "demaq_evaluator_restarts_total": 1,
    'demaq_rule_seconds_total{rule="check"}': 0.5,
    'demaq_rule_seconds_total{rule="ship"}': 2.25,
    'demaq_rule_asked_total{rule="check"}': 40,
    'demaq_rule_asked_total{rule="ship"}': 30,
    'demaq_request_seconds_sum{gateway="orders"}': 3.0,
    'demaq_request_seconds_count{gateway="orders"}': 60,
    'demaq_delivery_seconds_sum{queue="partner"}': 5.0,
    'demaq_delivery_seconds_count{queue="partner"}': 2,
}


class Node:
    """Says what a node says of itself."""

    def status(self) -> dict[str, Any]:
        native = {
            "answers": 7,
            "fallbacks": 3,
            "checked": 5,
            "differences": 0,
            "withdrawn": {"check": "differs <once>"},
        }
        said = {"pid": 1, "started": "2026-03-01T09:00:00", "processed": 900, "waiting": 3, "fault": None, "paused": []}
        counts = {"rounds": {"inline": 10, "spark": 4}, "messages": {"inline": 255, "spark": 640}}
        where = {"pipeline": "inline", "why": "too few messages for Spark", "tasks": 0, "executors": []}
        return {**said, **counts, **where, "apart": {"messages": 2, "queues": ["orders"]}, "native": native}

    def metrics(self) -> str:
        return "\n".join([f"{name} {value}" for name, value in SAMPLES.items()]) + "\n"


@pytest.fixture
def beside_a_node(client: ConsoleClient, monkeypatch: pytest.MonkeyPatch) -> ConsoleClient:
    node: Any = Node()
    monkeypatch.setattr(client.app._monitor, "_find", lambda place: node)
    return client


def test_rounds_are_shown_with_their_sizes_and_repeated_evaluations(beside_a_node: ConsoleClient):
    page = read(beside_a_node, "/rounds")
    assert [row[:4] for row in rows(page, "Rounds")] == [
        ["worker processes", "10", "255", "25.5"],
        ["Spark", "4", "640", "160.0"],
    ]
    said = dict(
        zip([_text(each) for each in page.xpath("//dt")], [_text(each) for each in page.xpath("//dd")], strict=True)
    )
    assert said["evaluated again"] == "17 because another message of the round had changed what they read"
    assert said["on arrival"] == "1,200 processed with the transaction that stored them"
    assert said["apart"] == "2 slow messages, of orders"
    assert said["why"] == "too few messages for Spark"
    assert said["withdrawn"] == "check: differs <once>"


def test_rounds_show_where_the_time_goes_the_longest_first(beside_a_node: ConsoleClient):
    page = read(beside_a_node, "/rounds")
    assert [row[:3] for row in rows(page, "Rules")] == [["ship", "2.250", "30"], ["check", "0.500", "40"]]
    assert [float(each.get("value")) / float(each.get("max")) for each in page.xpath("//progress")] == [1.0, 0.5 / 2.25]
    assert rows(page, "Gateways") == [["orders", "requests", "60", "50 ms"], ["partner", "deliveries", "2", "2.5 s"]]
    only = read(beside_a_node, "/rounds", filter="CHECK")
    assert [row[0] for row in rows(only, "Rules")] == ["check"]
    assert rows(only, "Gateways") == rows(only, "Rounds") == []


def test_rounds_read_metrics_that_a_node_has():
    exported = Path(metrics.__file__).read_text(encoding="utf-8")
    for sample in SAMPLES:
        name = re.sub(r"(_total|_sum|_count)?(\{.*)?$", "", sample)
        assert f'"{name}"' in exported


# the flow


def test_the_flow_is_the_picture_of_the_command(client: ConsoleClient):
    drawn = CliRunner().invoke(demaq, ["graph", str(APPLICATION)])
    assert drawn.exit_code == 0
    command = etree.fromstring(drawn.stdout.encode())
    page = read(client, "").xpath("//div[contains(@class, 'picture')]")[0]
    nodes, edges = list_parts(command)
    assert (nodes, edges) == list_parts(page)
    assert len(nodes) == 8 + 1 + 6
    assert edges


def list_parts(picture: Any) -> tuple[set[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return the nodes with kinds, names and notes, and the edges with kinds: all but live figures and places."""
    live = {"paused", "failing"}
    nodes = {
        (
            group.get("data-id"),
            " ".join([word for word in group.get("class").split() if word not in live]),
            *[
                "".join(text.itertext())
                for text in group.iter()
                if str(text.tag).rpartition("}")[2] in ("title", "text") and text.get("class") != "figures"
            ],
        )
        for group in picture.iter()
        if group.get("data-id") is not None
    }
    edges = [
        (path.get("data-source"), path.get("data-target"), path.get("class"))
        for path in picture.iter()
        if path.get("data-source") is not None
    ]
    return nodes, sorted(edges)
