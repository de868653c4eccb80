"""Every form and parameter with values that no page has offered: refused or answered, and never a failure of ours."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from demaq.console.console_settings import ConsoleSettings
from demaq.console.routes import PAGES
from demaq.console.selection_form import FIELDS
from tests.saxon.console.test_hostile_content import HOSTILE, expect_harmless
from tests.support.console.client import ConsoleClient
from tests.support.console.shop import make_shop
from tests.support.drawing import example_count

VALUES = (
    *("", " ", "0", "1", "-1", "17", "99999999999999999999", "1e3", "٣", "NaN", "\0", "\x1b[31m", "\ud7ff", "😀" * 50),
    *(
        "orders",
        "troubles",
        "order",
        "waits",
        "unmatched",
        "newest",
        "queue",
        "rule",
        "gateway",
        "*",
        "FORG0001",
        "%",
        "a=b",
    ),
    *("2h", "7d", "9999999d", "2026-05-01", "0001-01-01T00:00:00-23:59", "9999-12-31T23:59:59+00:00", "x" * 3000),
    *(
        "../../etc/passwd",
        "/console/..",
        "'; DROP TABLE messages; --",
        "<order/>",
        "<a",
        "//item",
        "$x",
        "doc('file:///etc/passwd')",
    ),
    *HOSTILE,
)
NAMES = (
    *FIELDS,
    *(
        "q",
        "start",
        "limit",
        "order",
        "after",
        "before",
        "filter",
        "busy",
        "code",
        "message",
        "result",
        "target",
        "saxon",
    ),
    *(
        "kind",
        "name",
        "part",
        "action",
        "who",
        "why",
        "text",
        "all_rules",
        "again",
        "last",
        "dry_run",
        "body",
        "csrf",
        "next",
    ),
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleClient]:
    store: Path = make_shop(tmp_path_factory.mktemp("fuzz"))
    made = ConsoleClient(ConsoleSettings(store=str(store), open_role="administer"))
    yield made
    made.close()


def test_no_parameter_and_no_form_makes_a_page_fail(client: ConsoleClient, chance: random.Random):
    csrf = client.get("/console/pause?kind=queue&name=orders").csrf()
    statuses: Counter[int] = Counter()
    for _ in range(example_count(400, "CONSOLE_REQUESTS")):
        page = chance.choice(PAGES)
        path = page.path
        for part in ("{id}", "{slicing}"):
            path = path.replace(part, quote(chance.choice((*VALUES, "1", "2", "order")), safe="", errors="replace"))
        given = {name: chance.choice(VALUES) for name in chance.sample(NAMES, chance.randint(0, 6))}
        if page.method == "GET":
            address = f"{path}?{urlencode(given, errors='replace')}"
            found = client.get(address)
        else:
            address = f"{path} {given}"
            token = {"csrf": csrf} if chance.random() < 0.8 else {}
            found = client.post(path, {**given, **token}) if chance.random() < 0.7 else client.call(path, given)
        statuses[found.status] += 1
        assert found.status < 500 or found.status == 503, (address, found.text[:600])
        expect_harmless(found, address)
    assert {200, 400, 404} <= set(statuses)


def test_bodies_that_are_no_forms_are_refused(client: ConsoleClient, chance: random.Random):
    kinds = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/xml", "")
    pieces = (
        b"",
        b"{",
        b"[]",
        b'{"a": [[[[[]]]]]}',
        b"\xff\xfe",
        b"a=b&" * 500,
        b"[" * 100_000,
        b'{"kind": {"x": 1}}',
        b"%ff=%00",
    )
    for _ in range(example_count(100, "CONSOLE_BODIES")):
        page = chance.choice([page for page in PAGES if page.method == "POST"])
        path = page.path.replace("{id}", "1")
        found = client.send("POST", path, chance.choice(pieces), {"content-type": chance.choice(kinds)})
        assert 400 <= found.status < 500, (path, found.status)
