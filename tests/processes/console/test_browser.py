"""The console in a real browser: what operators do, page by page."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demaq.gateways.security.credential_file import USERS, Entry, add_entry
from demaq.gateways.security.passwords import password_hash
from tests.support.console.browser import CHROMIUM, RunningConsole, open_browser, run_console, wait_until
from tests.support.console.shop import APPLICATION, FAILING, ORDER, STUCK

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no chromium: apt-get install chromium"),
]
PAGES = (
    *("", "/messages", "/slices", "/errors", "/deliveries", "/timers", "/plans", "/rounds", "/audit", "/search"),
    *("/requeue?error=*", "/purge?queue=orders", "/notable-slices?slicing=order"),
    *("/help", "/messages/1", "/slices/order?key=1", "/search?text=euros", "/pause?kind=queue&name=orders"),
)
CUT_OFF = """[...document.querySelectorAll('nav a, main td, main th, main label, main button')]
  .filter(each => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest('thead'))
  .map(each => each.innerText)"""
"""What cannot be read without scrolling to the side. Pictures may be larger."""
OVERLAPPING = """[...document.querySelectorAll('main label')].filter(each => each.scrollWidth > each.clientWidth + 1)
  .map(each => each.innerText)"""
PASSWORD = "correct horse battery staple"


def read_api(node: RunningConsole, path: str) -> Any:
    with urllib.request.urlopen(f"{node.url}/api/{path}", timeout=30) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    store = tmp_path_factory.mktemp("browser") / "shop"
    with run_console(APPLICATION, store) as running:
        running.send("orders", ORDER.format(1, 30), ORDER.format(2, 300), FAILING.format(21), FAILING.format(22), STUCK)
        running.send("payments", '<payment id="1" euros="500"/>')
        wait_until(lambda: read_api(running, "errors")["errors"] == 2)
        yield running


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_and_nothing_complains(node: RunningConsole, scheme: str):
    error = read_api(node, "errors")["groups"][0]["newest"]["seq"]
    with open_browser(node.url) as (page, observed):
        page.emulate_media(color_scheme=scheme)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            for path in (*PAGES, f"/errors/{error}"):
                page.goto(f"/console{path}")
                assert page.locator("main h1").count() == 1, path
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
                assert page.evaluate(CUT_OFF) == [], (path, width)
                assert page.evaluate(OVERLAPPING) == [], (path, width)
                background = page.evaluate("getComputedStyle(document.body).backgroundColor")
                assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]
        assert observed.complaints == []


def test_a_stuck_message_is_found_and_it_is_said_why(node: RunningConsole):
    with open_browser(node.url) as (page, observed):
        page.goto("/console")
        page.keyboard.press("/")
        page.keyboard.type("queue:orders Nobody")
        page.keyboard.press("Enter")
        page.locator("table.rows tbody td a").first.click()
        verdict = page.locator(".verdict", has_text="check").first
        verdict.wait_for()
        assert "did not" in verdict.inner_text() or "not asked" in verdict.inner_text()
        assert "item" in verdict.inner_text()
        assert observed.complaints == []


def test_an_error_is_repaired_tried_and_run_again(node: RunningConsole):
    with open_browser(node.url) as (page, observed):
        page.goto("/console/errors")
        page.get_by_role("link", name="Cannot convert").first.click()
        text = page.locator("textarea")
        text.fill(text.input_value().replace("half", "75"))
        page.get_by_role("button", name="Try").click()
        page.locator("#tried", has_text="Would fire: discount").wait_for()
        page.get_by_label("Why").fill("a typing error of the shop")
        page.get_by_role("button", name="Run again").click()
        page.locator(".banner.good", has_text="Requeued").wait_for()
        page.locator(".verdict.fired", has_text="discount").wait_for()
        page.goto("/console/audit")
        assert "a typing error of the shop" in page.locator("table.rows").last.inner_text()
        page.goto("/console/errors")
        page.get_by_role("link", name="Run all again").click()
        assert "dry run" in page.locator("main").inner_text()
        page.get_by_label("Why").fill("all of them")
        page.get_by_role("button", name="Run").click()
        page.locator(".banner.good", has_text="requeued").wait_for()
        assert observed.complaints == []


def test_a_queue_is_paused_and_that_is_seen_without_loading_the_page_again(node: RunningConsole):
    with open_browser(node.url) as (page, observed):
        page.goto("/console")
        assert page.locator(".demaq-flow .paused").count() == 0
        other = page.context.new_page()
        other.goto("/console/messages?queue=payments")
        other.get_by_role("link", name="Pause…").click()
        other.get_by_label("Why").fill("the bank <b>is</b> closed")
        other.get_by_role("button", name="Pause").click()
        assert "the bank <b>is</b> closed" in other.locator(".banner.warn").inner_text()
        node.send("payments", '<payment id="2" euros="900"/>')
        page.locator(".demaq-flow .paused", has_text="1 wait").wait_for()
        other.get_by_role("link", name="Resume…").click()
        other.get_by_role("button", name="Resume").click()
        page.locator(".demaq-flow .paused").wait_for(state="detached")
        assert observed.complaints == []


def test_the_keyboard_leads_everywhere(node: RunningConsole):
    with open_browser(node.url) as (page, observed):
        page.goto("/console")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        for key, path in {"e": "errors", "s": "slices", "t": "timers", "m": "messages"}.items():
            page.keyboard.press("g")
            page.keyboard.press(key)
            page.wait_for_url(f"**/console/{path}")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url("**/console/messages/*")
        assert observed.complaints == []


def test_pages_are_readable_without_javascript(node: RunningConsole):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        page = browser.new_context(base_url=node.url, java_script_enabled=False).new_page()
        for path in PAGES:
            page.goto(f"/console{path}")
            assert page.locator("main h1").count() == 1
        page.goto("/console/messages/1")
        page.get_by_role("link", name="Which rules fired").click()
        assert page.locator(".verdict").count() == 3
        browser.close()


def test_a_user_without_the_role_looks_and_cannot_act(tmp_path: Path):
    for role in ("read", "operate"):
        entry = Entry(name=f"{role}er", hash=password_hash(PASSWORD), role=role, queues=frozenset())
        add_entry(tmp_path / "users", USERS, entry)
    (tmp_path / "settings.toml").write_text('[node]\nauth = "basic"\n')
    options = ("--settings", str(tmp_path / "settings.toml"))
    with run_console(APPLICATION, tmp_path / "shop", *options, cwd=tmp_path) as node, open_browser(node.url) as opened:
        page, observed = opened
        page.goto("/console/messages?queue=orders")
        page.wait_for_url("**/console/login?next=*")
        page.get_by_label("User").fill("reader")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/console/messages?queue=orders")
        assert page.get_by_role("link", name="Pause…").count() == 0
        answer = page.request.post("/console/pause", form={"kind": "queue", "name": "orders", "why": "x"})
        assert answer.status == 403
        assert page.goto("/console/pause?kind=queue&name=orders").status == 403
        observed.complaints = [said for said in observed.complaints if "403" not in said]
        page.goto("/console")
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("User").fill("operateer")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.goto("/console/messages?queue=orders")
        assert page.get_by_role("link", name="Pause…").count() == 1
        assert page.get_by_role("link", name="Purge…").count() == 0
        assert observed.complaints == []


def test_a_conversation_is_followed_over_two_nodes(tmp_path: Path):
    (tmp_path / "second.dmq").write_text(
        "create queue inbox kind incomingGateway\ncreate queue archive kind mailbox\n"
        "create rule file for inbox if (/notice) then do enqueue <filed/> into archive\n"
    )
    with run_console(tmp_path / "second.dmq", tmp_path / "second") as second:
        first_text = APPLICATION.read_text().replace("http://127.0.0.1:9/inbox", f"{second.url}/inbox")
        (tmp_path / "first.dmq").write_text(first_text)
        options = ("--console-store", str(tmp_path / "second"))
        with run_console(tmp_path / "first.dmq", tmp_path / "first", *options) as first:
            first.send("orders", ORDER.format(1, 300))
            wait_until(lambda: read_api(second, "search?queue=archive")["messages"])
            with open_browser(first.url) as (page, observed):
                page.goto("/console/messages/1")
                tree = page.locator(".tree").inner_text()
                assert "tellPartner" in tree
                assert "second" in tree
                assert "archive" in tree
                assert observed.complaints == []
