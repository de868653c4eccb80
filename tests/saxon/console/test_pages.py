"""Every page and every request of the API, on a shop, in this process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demaq.console import slices_page
from demaq.console.console_settings import ConsoleSettings
from demaq.console.routes import PAGES
from demaq.store.opening import open_store_readonly
from tests.support.console.client import ConsoleClient
from tests.support.console.shop import make_shop


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_shop(tmp_path_factory.mktemp("console"))


@pytest.fixture
def client(store: Path) -> Iterator[ConsoleClient]:
    made = ConsoleClient(ConsoleSettings(store=str(store), open_role="administer"))
    yield made
    made.close()


def addresses(store: Path) -> dict[str, str]:
    """Return an address for each page that is read."""
    opened = open_store_readonly(store)
    error = opened.visible("troubles", 0, 1)[0].seq
    opened.close()
    parts = {"{id}": str(error), "{slicing}": "order"}
    found = {}
    for page in PAGES:
        if page.method == "GET":
            path = page.path
            for name, value in parts.items():
                path = path.replace(name, value)
            if page.path.endswith("/slices/{slicing}"):
                path += "?key=1"
            if page.path == "/console/notable-slices":
                path += "?slicing=order"
            if page.path == "/console/pause":
                path += "?kind=queue&name=orders"
            if page.path == "/console/purge":
                path += "?queue=reports"
            found[page.path] = path
    return found


def test_every_page_answers_with_its_headers(client: ConsoleClient, store: Path):
    for address in addresses(store).values():
        page = client.get(address)
        assert page.status == 200, (address, page.text[:500])
        assert page.headers["x-content-type-options"] == "nosniff"
        assert "unsafe" not in page.headers["content-security-policy"]
        if page.headers["content-type"].startswith("text/html"):
            assert "<script>" not in page.text
            assert not re.search(r"\sstyle=|\son[a-z]+=", page.text), address


def test_an_empty_store_has_pages_too(tmp_path: Path):
    from demaq.store.opening import open_store

    open_store(tmp_path / "empty").close()
    client = ConsoleClient(ConsoleSettings(store=str(tmp_path / "empty"), open_role="administer"))
    try:
        for address in (
            "",
            "/messages",
            "/slices",
            "/errors",
            "/deliveries",
            "/timers",
            "/rounds",
            "/audit",
            "/search",
        ):
            assert client.get(f"/console{address}").status == 200, address
        assert client.get("/console/plans").status == 404
    finally:
        client.close()


def test_a_message_is_shown_with_its_body_properties_and_conversation(client: ConsoleClient):
    page = client.get("/console/messages/1").text
    assert '<span class="tag">&lt;order</span>' in page
    assert "Meyer &amp;amp; Sons" in page
    assert "<dd>Meyer &amp; Sons</dd>" in page
    assert "check →" in page


def test_a_message_that_is_not_there_is_said_to_be_not_there(client: ConsoleClient):
    assert client.get("/console/messages/999999").status == 404
    assert client.get("/api/messages/999999").json["error"].startswith("there is no message 999999")
    assert client.get("/console/messages/1e9").status == 400
    assert client.get("/console/nothing").status == 404
    assert client.get("/api/nothing").json == {"error": "there is no such page"}


def test_the_body_is_downloaded_and_never_interpreted(client: ConsoleClient):
    page = client.get("/console/messages/1/body")
    assert page.headers["content-type"] == "application/octet-stream"
    assert page.headers["content-disposition"].startswith("attachment")
    assert page.text.startswith("<order")


def test_errors_are_grouped_by_rule_and_code(client: ConsoleClient):
    [group] = client.get("/api/errors").json["groups"]
    assert (group["rule"], group["code"], group["count"]) == ("discount", "FORG0001", 3)
    assert sum(group["trend"]) == 3
    assert "discount" in client.get("/console/errors?rule=discount").text


def test_a_slice_has_its_former_lifetimes(client: ConsoleClient):
    history = client.get("/api/slices/order?key=1").json
    assert [len(lifetime["members"]) for lifetime in history["lifetimes"]][-1] == 0
    assert client.get("/console/slices/order?key=3").status == 200
    assert client.get("/console/slices/nothing?key=3").status == 404


def test_a_search_finds_by_text_queue_state_property_and_slice(client: ConsoleClient):
    def find(query: str) -> list[str]:
        return [message["id"] for message in client.get(f"/api/search?{query}").json["messages"]]

    assert len(find("queue=orders&text=Huber")) == 3
    assert len(find("queue=orders&state=unmatched")) == len(find("state=unmatched"))
    assert len(find("queue=checked")) >= 3
    assert len(find("slicing=order&key=3")) == 3
    assert find("queue=checked&order=oldest")[0] == min(find("queue=checked"), key=int)
    assert client.get("/api/search?state=odd").status == 400
    assert client.get("/api/search?since=yesterday").status == 400
    assert client.get("/api/search?slicing=odd").status == 400


def test_a_list_is_read_in_pages(client: ConsoleClient):
    first = client.get("/api/messages?limit=2").json
    second = client.get(f"/api/messages?limit=2&start={first['next']}").json
    assert int(first["messages"][-1]["id"]) > int(second["messages"][0]["id"])


def test_a_queue_is_paused_and_resumed_with_a_reason(client: ConsoleClient):
    csrf = client.get("/console/pause?kind=queue&name=orders").csrf()
    asked = {"csrf": csrf, "kind": "queue", "name": "orders", "why": "the bank is closed"}
    assert client.post("/console/pause", {**asked, "why": " "}).status == 400
    assert client.post("/console/pause", asked).status == 303
    assert "the bank is closed" in client.get("/console/messages?queue=orders").text
    assert client.get("/api/pauses").json[0]["name"] == "orders"
    assert "paused" in client.get("/console").text
    assert client.post("/console/resume", asked).status == 303
    assert client.get("/api/pauses").json == []
    assert [entry["action"] for entry in client.get("/api/audit").json["records"]][:2] == ["resume", "pause"]
    assert client.post("/console/pause", {**asked, "name": "nothing"}).status == 409
    assert client.post("/console/pause", {**asked, "kind": "house"}).status == 400


def test_messages_are_purged_after_a_dry_run(tmp_path: Path):
    client = ConsoleClient(ConsoleSettings(store=str(make_shop(tmp_path)), open_role="administer"))
    try:
        dry = client.call("/api/purge", {"queue": "reports", "dry_run": True}).json
        assert dry["messages"] > 0
        page = client.get("/console/purge?queue=reports")
        assert f"{dry['messages']} would be removed" in page.text
        fields = {"csrf": page.csrf(), "queue": "reports", "why": "old"}
        assert "removed" in client.post("/console/purge", fields).text
        assert client.call("/api/purge", {"queue": "reports", "dry_run": True}).json["messages"] == 0
        assert client.call("/api/purge", {"why": "all of them"}).status == 409
        assert client.call("/api/purge", {"xpath": "//report", "dry_run": True}).status == 400
        assert client.call("/api/purge", {"xpath": "//report", "why": "some of them"}).status == 400
    finally:
        client.close()


@pytest.mark.parametrize(
    ("page", "section"),
    [
        ("", "/console"),
        ("/messages/1", "/console/messages"),
        ("/search", "/console/messages"),
        ("/requeue?error=*", "/console/errors"),
        ("/notable-slices?slicing=order", "/console/slices"),
        ("/help", None),
        ("/pause?kind=queue&name=orders", None),
    ],
)
def test_a_page_shows_the_section_it_belongs_to(client: ConsoleClient, page: str, section: str | None):
    found = re.findall(r'<a href="([^"]*)"[^>]* aria-current="page"', client.get(f"/console{page}").text)
    assert found == ([] if section is None else [section])


def test_the_largest_slices_say_of_how_many_they_are(client: ConsoleClient, monkeypatch: pytest.MonkeyPatch):
    assert "Among the first" not in client.get("/console/notable-slices?slicing=order").text
    monkeypatch.setattr(slices_page, "ROWS_MAX", 2)
    assert "Among the first 2 memberships" in client.get("/console/notable-slices?slicing=order").text


class OnSpark:
    """Says what a node on Spark says of itself."""

    def status(self) -> dict[str, Any]:
        executor = {"id": "7", "host": "<b>worker</b>.example", "cores": 4, "tasks": 3}
        counts = {"inline": 0, "spark": 2}
        native = {"answers": 0, "fallbacks": 0, "checked": 0, "differences": 0, "withdrawn": {}}
        apart = {"messages": 0, "queues": []}
        said = {"pid": 1, "started": "now", "processed": 2, "waiting": 0, "rounds": counts, "messages": counts}
        where = {"pipeline": "spark", "why": "asked for", "tasks": 3, "executors": [executor]}
        return {**said, **where, "apart": apart, "native": native, "paused": [], "fault": None}

    def metrics(self) -> str:
        return ""


def test_the_executors_of_spark_are_listed(client: ConsoleClient, monkeypatch: pytest.MonkeyPatch):
    node: Any = OnSpark()
    monkeypatch.setattr(client.app._monitor, "_find", lambda place: node)
    page = client.get("/console/rounds").text
    assert "<th>Executor</th>" in page
    row = '<td>7</td><td>&lt;b&gt;worker&lt;/b&gt;.example</td><td class="number">4</td><td class="number">3</td>'
    assert row in page


def test_an_error_is_tried_repaired_and_requeued(tmp_path: Path):
    client = ConsoleClient(ConsoleSettings(store=str(make_shop(tmp_path)), open_role="operate"))
    try:
        error = client.get("/api/errors").json["groups"][0]["newest"]["seq"]
        page = client.get(f"/console/errors/{error}")
        assert "half" in page.text
        text = '<order id="23" discount="60"><customer>Huber</customer><item euros="12"/></order>'
        fields = {"csrf": page.csrf(), "text": text}
        tried = client.post(f"/console/errors/{error}/try", fields)
        assert "Would fire: discount" in tried.text, tried.text[-3000:]
        broken = client.post(f"/console/errors/{error}/try", {**fields, "text": "<order"})
        assert "would refuse it" in broken.text
        done = client.post(f"/console/errors/{error}/requeue", {**fields, "why": "a typing error"})
        assert done.status == 303, done.text[-2000:]
        assert (
            "discount=</span>" in client.get(done.headers["location"]).text
            or "60" in client.get(done.headers["location"]).text
        )
        plan = client.call("/api/requeue", {"error": "FORG0001", "rule": "discount", "dry_run": True}).json
        assert plan["messages"] == 3
        report = client.call("/api/requeue", {"error": "FORG0001", "rule": "discount", "why": "again"}).json
        assert len(report["requeued"]) == 3
    finally:
        client.close()
