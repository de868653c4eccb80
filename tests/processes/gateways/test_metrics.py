"""What a node tells about itself: what Prometheus reads, and `demaq status`."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from demaq.cli import main as cli
from demaq.gateways.counters import BOUNDS_SECONDS, Durations
from demaq.gateways.security.credential_file import TOKENS, Entry, add_entry
from demaq.gateways.security.tokens import new_token, token_hash
from demaq.gateways.settings import IncomingSettings, OutgoingSettings, Settings
from demaq.server.control_server import ControlServer
from tests.support.gateways.nodes import Running, running, wait_until
from tests.support.gateways.peers import Answer, Got, OtherSide, other_side
from tests.support.soap.policies import SIGNED_BODY

APPLICATION = """
create queue orders kind incomingGateway
create queue guarded kind incomingGateway
create queue supplier kind outgoingGateway endpoint "{address}/s"
create queue patient kind outgoingGateway endpoint "{address}/p"
create queue secret kind outgoingGateway endpoint "{address}/x" using WS-Security policy file.xml
create queue done
create rule ask for orders if (/order) then do enqueue . into supplier
create rule wait for orders if (/wish) then do enqueue . into patient
create rule fail for orders if (/wrong) then do enqueue <n>{xs:integer(/wrong)}</n> into done
"""
Sample = tuple[str, frozenset[tuple[str, str]]]


@pytest.fixture(scope="module")
def supplier() -> Iterator[OtherSide]:
    def answer(got: Got) -> Answer:
        return (503 if got.path == "/p" else 202), {}, b""

    with other_side(answer) as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("metrics")


@pytest.fixture(scope="module")
def token(folder: Path) -> str:
    token = new_token()
    add_entry(
        folder / "tokens", TOKENS, Entry(name="prometheus", hash=token_hash(token), queues=frozenset(["/metrics"]))
    )
    return token


@pytest.fixture(scope="module")
def here(supplier: OtherSide, folder: Path, token: str) -> Iterator[Running]:
    unauthenticated = IncomingSettings(auth=())
    settings = Settings(
        incoming_default=IncomingSettings(auth=("bearer",), tokens=folder / "tokens"),
        incoming_by_queue={"orders": unauthenticated},
        outgoing_default=OutgoingSettings(retry_first_seconds=3600, retry_seconds_max=3600, breaker_failures=1),
    )
    (folder / "file.xml").write_text(SIGNED_BODY)
    with running(folder, APPLICATION.replace("{address}", supplier.address), settings) as found:
        control = ControlServer(found.node)
        found.client.headers["Authorization"] = f"Bearer {token}"
        yield found
        control.close()


def scrape(here: Running) -> dict[Sample, float]:
    answer = here.client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: dict[Sample, float] = {}
    for family in text_string_to_metric_families(answer.text):
        assert family.documentation.endswith(".")
        for sample in family.samples:
            about = (sample.name, frozenset(sample.labels.items()))
            assert about not in found
            found[about] = sample.value
    return found


def value(found: dict[Sample, float], name: str, **labels: str) -> float:
    return found.get((name, frozenset(labels.items())), 0.0)


def test_counts_are_right(here: Running, supplier: OtherSide):
    before = scrape(here)
    for body in ("<order/>", "<order/>", "<wish/>", "<wrong>n</wrong>"):
        assert here.post("/orders", body).status_code == 202
    assert here.post("/orders", "<order>").status_code == 400
    wait_until(lambda: len(here.node.store.attempts(None, None, 9)) == 3)
    wait_until(lambda: here.node.steps == 4)
    outbox = here.gateways.outbox
    assert outbox is not None
    wait_until(lambda: sum(outbox.results.counts.values()) == 3)  # an attempt is stored before it is counted
    found = scrape(here)

    def more(name: str, **labels: str) -> float:
        return value(found, name, **labels) - value(before, name, **labels)

    assert more("demaq_requests_total", gateway="orders", status="202") == 4
    assert more("demaq_requests_total", gateway="orders", status="400") == 1
    assert more("demaq_request_seconds_count", gateway="orders") == 5
    assert more("demaq_request_seconds_bucket", gateway="orders", le="+Inf") == 5
    assert more("demaq_request_seconds_sum", gateway="orders") > 0
    assert more("demaq_messages_accepted_total", gateway="orders") == 4
    assert more("demaq_messages_refused_total", gateway="orders", kind="notWellFormed") == 1
    assert more("demaq_messages_processed_total") == 4
    assert more("demaq_rounds_total", where="inline") >= 1
    assert more("demaq_round_messages_total", where="inline") >= 4
    assert 0 <= more("demaq_messages_processed_on_arrival_total") <= 4
    for rule, fired, failed in (("ask", 2, 0), ("wait", 1, 0), ("fail", 0, 1)):
        assert more("demaq_rule_fired_total", rule=rule) == fired
        assert more("demaq_rule_failed_total", rule=rule) == failed
        assert more("demaq_rule_asked_total", rule=rule) >= 4
        assert more("demaq_rule_seconds_total", rule=rule) > 0
    assert more("demaq_error_messages_total", kind="dynamicError") == 1
    assert more("demaq_deliveries_total", queue="supplier", result="sent") == 2
    assert more("demaq_deliveries_total", queue="patient", result="again") == 1
    assert more("demaq_delivery_seconds_count", queue="supplier") == 2
    assert more("demaq_outbox_messages", queue="patient") == 1
    assert value(found, "demaq_outbox_messages", queue="supplier") == 0
    assert 0 < value(found, "demaq_outbox_oldest_age_seconds", queue="patient") < 60
    assert value(found, "demaq_open_breakers", queue="patient") == 1
    assert value(found, "demaq_gateway_left_out", gateway="secret") == 1
    assert value(found, "demaq_queue_messages", queue="demaq:errors") == 2
    assert value(found, "demaq_queue_unprocessed", queue="orders") == 0
    assert value(found, "demaq_store_readable") == 1
    assert value(found, "demaq_fault") == 0
    assert value(found, "demaq_next_message_age_seconds") == 0
    assert value(found, "demaq_queue_oldest_age_seconds", queue="orders") == 0
    assert 0 < value(found, "demaq_queue_oldest_age_seconds", queue="demaq:errors") < 60
    assert value(found, "process_resident_memory_bytes") > 1_000_000
    assert value(found, "demaq_evaluator_resident_memory_bytes", evaluator="rules") > 1_000_000


def test_the_page_asks_who_reads_it_where_gateways_do_and_counts_who_may_not(here: Running):
    before = scrape(here)
    assert here.client.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert here.post("/guarded", "<a/>", Authorization="Bearer wrong").status_code == 401
    after = scrape(here)
    for place in ("/metrics", "guarded"):
        labels = {"gateway": place, "reason": "wrong"}
        assert value(after, "demaq_authentication_failures_total", **labels) == 1 + value(
            before, "demaq_authentication_failures_total", **labels
        )
    assert here.post("/guarded", "<a/>").status_code == 403
    assert here.client.get("/healthz", headers={"Authorization": ""}).status_code == 200


def test_the_page_is_only_read(here: Running):
    assert here.client.post("/metrics").status_code == 405


def test_scraping_does_not_hold_up_senders(here: Running, monkeypatch: pytest.MonkeyPatch):
    assert here.gateways._metrics is not None
    begun, ended = threading.Event(), threading.Event()

    def slow() -> bytes:
        begun.set()
        ended.wait(10)
        return b""

    monkeypatch.setattr(here.gateways._metrics, "text", slow)
    scraping = threading.Thread(target=here.client.get, args=["/metrics"])
    scraping.start()
    assert begun.wait(10)
    began = time.monotonic()
    assert here.post("/orders", "<x/>").status_code == 202
    assert time.monotonic() - began < 5
    ended.set()
    scraping.join()


def test_status_tells_how_gateways_go(here: Running, capsys: pytest.CaptureFixture[str]):
    store = ["--store", str(here.node.folder)]
    sent = len(here.node.store.attempts("supplier", None, 99))
    assert here.post("/orders", "<order/>").status_code == 202

    def is_counted() -> bool:  # a moment after it is stored
        assert cli.run(cli.demaq, ["status", *store, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["gateways"]
        return bool(found["attempts"].get("supplier") == {"sent": sent + 1}) and found["waiting_for_answers"] == 0

    wait_until(is_counted)
    assert cli.run(cli.demaq, ["status", *store]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"gateways   at {here.address}" in lines
    assert any([line.startswith("received   orders: ") and " x 202" in line for line in lines])
    assert f"sending    supplier: 0 waiting, {sent + 1} sent, 0 tried again, 0 given up" in lines
    assert [line for line in lines if line.startswith("left out   secret: it asks for WS-Security")]
    assert cli.run(cli.demaq, ["status", *store, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["gateways"]
    assert found["http"] == here.address
    assert found["attempts"]["supplier"] == {"sent": sent + 1}
    assert found["requests"]["orders"]["202"] == sum(found["accepted"].values())
    assert found["waiting_for_answers"] == 0


def test_durations_are_counted_up_to_each_bound():
    durations = Durations()
    for seconds in (0.0005, 0.001, 0.3, 1000.0):
        durations.add(seconds)
    found = dict(durations.up_to())
    assert (found["0.001"], found["0.25"], found["0.5"], found["60.0"], found["+Inf"]) == (2, 2, 3, 3, 4)
    assert durations.seconds == pytest.approx(1000.3015)
    assert len(found) == len(BOUNDS_SECONDS) + 1
