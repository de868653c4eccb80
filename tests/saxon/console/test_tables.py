"""Every table of every page has its filter, and an address that repeats it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from lxml import html

from demaq.console.console_settings import ConsoleSettings
from demaq.console.routes import PAGES
from demaq.operations.pause import make_pause
from demaq.store.opening import open_store
from demaq.store.protocol import Attempt, Postponed
from tests.support.console.client import ConsoleClient
from tests.support.console.shop import make_shop

NONSENSE = "zzz-nothing"
WITHOUT_TABLES = {
    "/console/messages/{id}/why",
    "/console/messages/{id}/body",
    "/console/errors/{id}",
    "/console/pause",
}
NO_DATA = {"/console/help"}
"""Its table lists keys of the keyboard."""
PARAMETERS = {
    "/console/slices/{slicing}": {"key": "2"},
    "/console/notable-slices": {"slicing": "order"},
    "/console/purge": {"queue": "reports"},
    "/console/search": {"queue": "orders"},
}
"""What a page is asked for to show a table."""
PARTS_OF_OTHERS = {"value", "key"}
"""Fields of a search that mean something beside another one: the value of a property, the key of a slice."""


class Node:
    """Says what a node on Spark says of itself."""

    def status(self) -> dict[str, Any]:
        counts = {"inline": 1, "spark": 2}
        native = {"answers": 0, "fallbacks": 0, "checked": 0, "differences": 0, "withdrawn": {}}
        said = {"pid": 1, "started": "now", "processed": 2, "waiting": 0, "rounds": counts, "messages": counts}
        executor = {"id": "7", "host": "worker.example", "cores": 4, "tasks": 3}
        where = {"pipeline": "spark", "why": "asked for", "tasks": 3, "executors": [executor]}
        return {**said, **where, "apart": {"messages": 0, "queues": []}, "native": native, "paused": [], "fault": None}

    def metrics(self) -> str:
        timed = 'demaq_rule_seconds_total{rule="check"} 0.5\n'
        return (
            timed + 'demaq_request_seconds_count{gateway="orders"} 6\ndemaq_request_seconds_sum{gateway="orders"} 1\n'
        )


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return a store with something in every table, and the parts of addresses."""
    where = make_shop(tmp_path_factory.mktemp("tables"))
    with closing(open_store(where)) as store:
        error = store.visible("troubles", 0, 1)[0].seq
        sent = store.unsent("partner", None, 1)[0].message
        now = datetime.now(UTC)
        attempt = Attempt(
            message=sent, queue="partner", number=1, at=now, seconds=1, destination="http://x/", result="again"
        )
        store.postpone([Postponed(message=sent, due=now, attempt=attempt)])
        pause, entry = make_pause("queue", "reports", "anna", "stock-taking", now)
        store.change_pauses([pause], [], entry)
    return where, {"{id}": str(sent), "{slicing}": "order", "error": str(error)}


@pytest.fixture
def client(places: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsoleClient]:
    made = ConsoleClient(ConsoleSettings(store=str(places[0]), open_role="administer"))
    node: Any = Node()
    monkeypatch.setattr(made.app._monitor, "_find", lambda place: node)
    yield made
    made.close()


def read(client: ConsoleClient, address: str) -> html.HtmlElement:
    answer = client.get(address)
    assert answer.status == 200, (address, answer.text[-500:])
    return html.fromstring(answer.text)


def count_rows(page: html.HtmlElement) -> int:
    return len(page.xpath("//main//table/tbody/tr[not(td[contains(@class, 'empty')])]"))


def fill(form: html.FormElement, name: str, value: str) -> dict[str, str]:
    """Return what a browser sends for a form whose field of this name has this value."""
    return {**{key: found for key, found in form.form_values() if found}, name: value}


PATHS = [page.path for page in PAGES if page.method == "GET" and page.path.startswith("/console")]


@pytest.mark.parametrize("path", PATHS)
def test_a_table_has_its_filter_and_an_address(client: ConsoleClient, places: tuple[Path, dict[str, str]], path: str):
    parts = {**places[1], "{id}": places[1]["error"]} if path.startswith("/console/errors") else places[1]
    address = path.replace("{id}", parts["{id}"]).replace("{slicing}", parts["{slicing}"])
    if path in WITHOUT_TABLES:
        named = "?kind=queue&name=orders" if path == "/console/pause" else ""
        assert b"<table" not in client.get(address + named).body
        return
    query = PARAMETERS.get(path, {})
    page = read(client, f"{address}?{urlencode(query)}" if query else address)
    tables = page.xpath("//main//table")
    assert tables or path == "/console/plans", "the test sees no table: the shop has nothing for it"
    if path in NO_DATA:
        return
    if path == "/console/messages/{id}":
        [link] = page.xpath("//section[.//table]//a[@class = 'filtered']/@href")
        assert link == f"/console/deliveries?message={parts['{id}']}", "the table is there, with its filter"
        return
    forms = page.xpath("//main//form[@method = 'get' and contains(@class, 'f')]")
    assert len(forms) == 1, "one form for the tables of the page"
    form = forms[0]
    assert form.get("action") in (None, address), "its address is that of the page"
    fields = [field for field in form.inputs if field.get("name") and field.get("type") != "hidden"]
    assert fields
    for field in fields:
        if field.tag == "select":
            value = [option for option in field.value_options if option][-1]
        elif field.get("type") == "checkbox":
            value = "1"
        else:
            value = {"since": "2h", "until": "2h", "message": "999999", "xpath": "//" + "zzz"}.get(field.name, NONSENSE)
        sent = fill(form, field.name, value)
        found = f"{address}?{urlencode(sent)}"
        again = read(client, found)
        [same] = [
            each for each in again.xpath("//main//form[@method = 'get']")[0].inputs if each.get("name") == field.name
        ]
        shown = "1" if same.get("type") == "checkbox" and same.checked else same.value
        assert shown == value, f"{field.name} is repeated by its address"
        for live in again.xpath("//*[@id = 'live']/@hx-get"):
            assert dict(parse_qsl(urlsplit(live).query))[field.name] == value, "what is live is filtered, too"
        if value in (NONSENSE, "999999") and field.name not in PARTS_OF_OTHERS:
            assert count_rows(again) == 0, f"{field.name} leaves rows of some table"


def test_every_page_of_a_filtered_table_is_filtered(client: ConsoleClient):
    page = read(client, "/console/messages?queue=orders&limit=2")
    [following] = page.xpath("//a[@rel = 'next']/@href")
    assert dict(parse_qsl(urlsplit(following).query)).items() >= {"queue": "orders", "limit": "2"}.items()
    assert {row[2].text_content().strip() for row in read(client, following).xpath("//table/tbody/tr")} == {"orders"}
