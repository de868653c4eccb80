"""Roles, sessions, and requests that another site has made a browser send."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from demaq.console.access import IDLE_SECONDS, SESSION_SECONDS, SESSIONS_MAX, Sessions, is_same_origin
from demaq.console.console_settings import ConsoleSettings, make_console_settings, may_serve_unasked
from demaq.console.routes import PAGES
from demaq.console.web_app import _safe_next
from demaq.gateways.security.credential_file import ROLES, TOKENS, USERS, Entry, Role, add_entry, remove_entry
from demaq.gateways.security.passwords import password_hash
from demaq.gateways.security.tokens import new_token, token_hash
from demaq.gateways.settings import IncomingSettings
from demaq.store.opening import open_store
from tests.support.console.client import HOST, ConsoleClient

PASSWORD = "correct horse battery staple"
TOKEN = new_token()


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> ConsoleSettings:
    folder = tmp_path_factory.mktemp("access")
    open_store(folder / "store").close()
    hashed = password_hash(PASSWORD)
    for role in ROLES:
        add_entry(folder / "users", USERS, Entry(name=role, hash=hashed, role=role, queues=frozenset()))
    add_entry(folder / "users", USERS, Entry(name="shop", hash=hashed))
    add_entry(folder / "tokens", TOKENS, Entry(name="robot", hash=token_hash(TOKEN), role="read", queues=frozenset()))
    return ConsoleSettings(
        store=str(folder / "store"), auth=("basic", "bearer"), users=folder / "users", tokens=folder / "tokens"
    )


@pytest.fixture
def client(settings: ConsoleSettings) -> Iterator[ConsoleClient]:
    made = ConsoleClient(settings)
    yield made
    made.close()


def log_in(client: ConsoleClient, user: str, password: str = PASSWORD) -> int:
    csrf = client.get("/console/login").csrf()
    return client.post("/console/login", {"csrf": csrf, "user": user, "password": password}).status


def test_without_a_session_pages_lead_to_the_login_and_the_api_refuses(client: ConsoleClient):
    page = client.get("/console/messages?queue=a")
    assert (page.status, page.headers["location"]) == (303, "/console/login?next=%2Fconsole%2Fmessages%3Fqueue%3Da")
    for each in PAGES:
        path = each.path.replace("{id}", "1").replace("{slicing}", "s")
        found = client.get(path) if each.method == "GET" else client.post(path, {})
        assert found.status in ((401,) if each.method == "POST" or path.startswith("/api") else (303,)), path


def test_a_session_begins_with_a_password_and_ends_with_the_logout(client: ConsoleClient):
    assert log_in(client, "read", "wrong password") == 401
    assert log_in(client, "read") == 303
    cookie = client.cookies["demaq-session"]
    page = client.get("/console/help")
    assert page.status == 200
    assert client.post("/console/logout", {"csrf": "x"}).status == 403
    assert client.post("/console/logout", {"csrf": page.csrf()}).status == 303
    client.cookies["demaq-session"] = cookie
    assert client.get("/console/help").status == 303


def test_a_login_leads_where_one_wanted_to_go_also_after_a_wrong_password(client: ConsoleClient):
    page = client.get("/console/login?next=%2Fconsole%2Ferrors")
    for password, status in (("wrong password", 401), (PASSWORD, 303)):
        found = re.search(r'name="next" value="([^"]*)"', page.text)
        assert found is not None
        fields = {"csrf": page.csrf(), "user": "read", "password": password, "next": found[1]}
        page = client.post("/console/login", fields)
        assert page.status == status
    assert page.headers["location"] == "/console/errors"


def test_another_method_is_refused_with_those_that_are_allowed(client: ConsoleClient):
    answer = client.send("PUT", "/api/pause", b"", {})
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(client: ConsoleClient):
    csrf = client.get("/console/login").csrf()
    page = client.post("/console/login", {"csrf": csrf, "user": "read", "password": PASSWORD})
    assert {"httponly", "samesite=strict", "path=/"} <= {
        part.strip().lower() for part in page.headers["set-cookie"].split(";")
    }


def test_a_user_without_a_role_is_a_sender_and_not_let_in(client: ConsoleClient):
    assert log_in(client, "shop") == 403


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_what_it_may_and_no_more(client: ConsoleClient, role: Role):
    assert log_in(client, role) == 303
    csrf = client.get("/console/help").csrf()
    for each in PAGES:
        path = each.path.replace("{id}", "1").replace("{slicing}", "s")
        fields = {"csrf": csrf}
        found = client.get(path) if each.method == "GET" else client.post(path, fields)
        is_allowed = ROLES.index(each.role) <= ROLES.index(role)
        assert (found.status != 403) == is_allowed, (path, found.status, found.text[:300])
        assert found.status < 500 or found.status == 503, (path, found.text)


def test_a_token_lets_a_program_read_and_not_act(client: ConsoleClient):
    shown = {"authorization": f"Bearer {TOKEN}"}
    assert client.get("/api/queues", **shown).json == []
    assert client.call("/api/pause", {"kind": "queue", "name": "a", "why": "b"}, **shown).status == 403
    assert client.get("/api/queues", authorization="Bearer wrong").status == 401


def test_a_removed_user_is_out_with_the_next_request(settings: ConsoleSettings, client: ConsoleClient):
    add_entry(settings.users, USERS, Entry(name="guest", hash=password_hash(PASSWORD), role="read"))
    client.app._authenticator._user_files[settings.users]._watch._seen = None  # type: ignore[attr-defined]
    import time

    time.sleep(1.1)
    assert log_in(client, "guest") == 303
    assert client.get("/console/help").status == 200
    remove_entry(settings.users, USERS, "guest")
    time.sleep(1.1)
    assert client.get("/console/help").status == 303


def test_an_action_needs_the_token_of_the_session_and_the_same_origin(client: ConsoleClient):
    log_in(client, "operate")
    csrf = client.get("/console/help").csrf()
    asked = {"kind": "queue", "name": "a", "why": "b"}
    assert client.post("/console/pause", {**asked, "csrf": "wrong"}).status == 403
    assert client.post("/console/pause", asked).status == 403
    good = {**asked, "csrf": csrf}
    assert client.post("/console/pause", good, sec_fetch_site="cross-site").status == 403
    assert client.post("/console/pause", good, origin="http://evil.example").status == 403
    assert client.call("/api/pause", asked).status == 403
    assert client.post("/console/pause", good).status not in (401, 403)
    assert client.call("/api/pause", asked, x_csrf_token=csrf).status not in (401, 403)


def test_an_open_console_answers_to_its_own_names_only(settings: ConsoleSettings):
    client = ConsoleClient(ConsoleSettings(store=settings.store, open_role="administer"))
    try:
        assert client.get("/console/help").status == 200
        assert client.get("/console/help", host="evil.example:8080").status == 421
        assert client.post("/console/pause", {"kind": "queue", "name": "a", "why": "b"}).status == 403
        # A form of another site cannot send JSON, and JSON of a script of another site is not sent without our leave.
        assert client.send("POST", "/api/pause", b'{"kind": "queue"}', {"content-type": "text/plain"}).status == 400
        assert client.call("/api/pause", {"kind": "queue"}, origin="http://evil.example").status == 403
    finally:
        client.close()


def test_where_others_reach_it_without_users_everyone_may_read_and_no_one_act(tmp_path: Path):
    incoming = IncomingSettings()
    assert make_console_settings("s", incoming, "127.0.0.1").open_role == "administer"
    assert make_console_settings("s", incoming, "0.0.0.0").open_role == "read"
    assert may_serve_unasked(incoming, "127.0.0.1")
    assert not may_serve_unasked(incoming, "0.0.0.0")
    assert may_serve_unasked(IncomingSettings(auth=("basic",)), "0.0.0.0")
    assert not may_serve_unasked(IncomingSettings(auth=("certificate",)), "0.0.0.0")


def test_settings_survive_the_way_to_the_process(settings: ConsoleSettings):
    assert ConsoleSettings.from_json(settings.to_json()) == settings


def test_sessions_end_by_time_and_are_bounded():
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    cookie = sessions.begin("joe", "h")
    now[0] += IDLE_SECONDS - 1
    assert sessions.find(cookie) is not None
    now[0] += IDLE_SECONDS + 1
    assert sessions.find(cookie) is None
    cookie = sessions.begin("joe", "h")
    began = now[0]
    while now[0] - began < SESSION_SECONDS:
        assert sessions.find(cookie) is not None
        now[0] += IDLE_SECONDS - 1
    now[0] = began + SESSION_SECONDS + 1
    assert sessions.find(cookie) is None
    for _ in range(SESSIONS_MAX + 10):
        sessions.begin("joe", "h")
    assert len(sessions) == SESSIONS_MAX


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site", "origin": f"http://{HOST}", "host": HOST}, False),
        ({"origin": f"http://{HOST}", "host": HOST}, True),
        ({"origin": "null", "host": HOST}, False),
        ({"origin": f"https://{HOST}", "host": HOST}, False),
        ({"sec-fetch-site": "same-origin", "origin": "http://evil", "host": HOST}, False),
    ],
)
def test_the_origin_of_a_request_is_recognised(headers: dict[str, str], expected: bool | None):
    assert is_same_origin(headers, "http") is expected


@pytest.mark.parametrize(
    "to",
    [
        "//evil.example",
        "https://evil.example/console",
        "/consolex/../../",
        "/console\\evil",
        "",
        None,
        "/console/login",
        "/\r\nX: y",
    ],
)
def test_the_login_leads_to_pages_of_the_console_only(to: str | None):
    assert _safe_next(to).startswith("/console")
    assert "evil" not in _safe_next(to)
