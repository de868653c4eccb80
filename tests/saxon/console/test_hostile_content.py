"""Markup in bodies, properties, keys, names and reasons never becomes markup of a page."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from demaq.console.console_settings import ConsoleSettings
from demaq.xml_escaping import escape
from tests.support.console.client import ConsoleClient, Page
from tests.support.console.shop import make_shop

MARK = "xss7"
HOSTILE = (
    f"<script>{MARK}()</script>",
    f'"><img src=x onerror={MARK}()>',
    f"'><svg/onload={MARK}()>",
    f"</textarea><b {MARK}>",
    f"{{{{ 1234 * 4321 }}}}{{% {MARK} %}}",
    f"javascript:{MARK}()",
    f"--><{MARK}>",
    f"]]><{MARK}>",
)
ALLOWED_SCRIPTS = {"/console/static/htmx.min.js", "/console/static/console.js"}


class Reader(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "script" and known.get("src") not in ALLOWED_SCRIPTS:
            self.found.append(f"script {known}")
        if tag in ("iframe", "object", "embed", "base", "style") or MARK in tag:
            self.found.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name == "style" or MARK in name:
                self.found.append(f"{tag} {name}={value}")
            if name in ("href", "src", "action", "formaction") and not (value or "").startswith(("/console", "#main")):
                self.found.append(f"{tag} {name}={value}")


def expect_harmless(page: Page, address: str) -> None:
    if not page.headers.get("content-type", "").startswith("text/html"):
        assert page.headers["x-content-type-options"] == "nosniff"
        return
    reader = Reader()
    reader.feed(page.text)
    assert reader.found == [], (address, reader.found)
    assert "5332114" not in page.text, address


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sent: list[tuple[str, str]] = []
    for number, text in enumerate(HOSTILE):
        data = escape(text).replace('"', "&quot;")
        sent.append(
            ("orders", f'<order id="{data}" discount="1"><customer>{data}</customer><item euros="200"/></order>')
        )
        sent.append(("orders", f'<order id="{number}" discount="{data}"><customer>{data}</customer></order>'))
        sent.append(("payments", f'<payment id="{data}" euros="1"><?{MARK} ?><!-- <{MARK}> --></payment>'))
    return make_shop(tmp_path_factory.mktemp("hostile"), sent)


@pytest.fixture
def client(store: Path) -> Iterator[ConsoleClient]:
    made = ConsoleClient(ConsoleSettings(store=str(store), open_role="administer"))
    yield made
    made.close()


def test_stored_markup_is_text_on_every_page(client: ConsoleClient):
    found = client.get("/api/search?limit=500").json["messages"]
    assert any([MARK in message["body"] for message in found])
    assert any([MARK in str(message["properties"]) for message in found])
    sizes = []
    for message in found:
        for address in (f"/console/messages/{message['id']}", f"/console/errors/{message['id']}"):
            page = client.get(address)
            expect_harmless(page, address)
            sizes.append(MARK in page.text)
    assert any(sizes)
    lists = (
        "",
        "/messages",
        "/slices?slicing=order",
        "/errors",
        "/errors?rule=discount",
        "/timers",
        "/deliveries",
        "/plans",
    )
    for address in (*lists, "/search?text=x", "/audit", "/rounds", "/requeue?error=*", "/purge?queue=orders"):
        expect_harmless(client.get(f"/console{address}"), address)
    for text in HOSTILE:
        for slicing in ("order", text):
            address = f"/console/slices/{quote(slicing, safe='')}?key={quote(text)}"
            expect_harmless(client.get(address), address)


def test_markup_in_reasons_and_names_is_text(client: ConsoleClient):
    csrf = client.get("/console/pause?kind=queue&name=orders").csrf()
    for text in HOSTILE:
        fields = {"csrf": csrf, "kind": "queue", "name": "orders", "why": text}
        assert client.post("/console/pause", fields).status == 303
        for address in (
            "/console",
            "/console/messages?queue=orders",
            "/console/audit",
            "/console/pause?kind=queue&name=orders",
        ):
            page = client.get(address)
            assert MARK in page.text
            expect_harmless(page, address)
        client.post("/console/resume", fields)


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_in_parameters_is_text(client: ConsoleClient, text: str, chance: random.Random):
    names = (
        "filter",
        "queue",
        "state",
        "text",
        "rule",
        "code",
        "slicing",
        "key",
        "q",
        "since",
        "result",
        "message",
        "after",
        "start",
        "limit",
        "name",
        "kind",
        "who",
        "action",
        "next",
        "error",
        "property",
        "value",
    )
    for path in (
        "",
        "/messages",
        "/search",
        "/slices",
        "/errors",
        "/deliveries",
        "/timers",
        "/plans",
        "/rounds",
        "/audit",
        "/pause",
        "/purge",
        "/nothing",
        "/login",
    ):
        for _ in range(4):
            given = dict.fromkeys(chance.sample(names, chance.choice((1, 1, 3, 8))), text)
            address = f"/console{path}?{urlencode(given)}"
            page = client.get(address)
            assert page.status < 500, (address, page.text)
            expect_harmless(page, address)
    assert not re.search(MARK, client.get(f"/console/{quote(text, safe='')}").headers.get("location", ""))
