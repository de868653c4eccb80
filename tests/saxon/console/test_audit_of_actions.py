"""Everything that an operator does is an audit record: by the command line, the HTTP API and the console."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from demaq.cli.main import SECTIONS, demaq
from demaq.console.console_settings import ConsoleSettings
from demaq.console.routes import PAGES
from demaq.operations.audit import ACTIONS
from demaq.store.opening import open_store_readonly
from demaq.store.operator_records import AuditRecord
from demaq.store.sqlite_database import FILE_NAME
from tests.support.console.client import ConsoleClient
from tests.support.console.shop import APPLICATION, make_shop

WHY = "because of a test"
REPAIRED = '<order id="21" discount="60"><customer>Huber</customer><item euros="12"/></order>'


class Shop:
    """A store with something to do for every action, and the three ways to act on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = make_shop(folder)
        self.client = ConsoleClient(ConsoleSettings(store=str(self.store), open_role="administer"))
        with closing(open_store_readonly(self.store)) as opened:
            self.errors = [message.seq for message in opened.visible("troubles", 0, 9)]
            self.sent = opened.visible("partner", 0, 1)[0].seq

    def audit(self) -> list[AuditRecord]:
        with closing(open_store_readonly(self.store)) as opened:
            return list(opened.audit(None, 100))

    def command(self, *words: str, store: bool = True) -> None:
        options = ["--store", str(self.store)] if store else []
        done = CliRunner().invoke(demaq, [*words, *options], input="a long password\n")
        assert done.exit_code == 0, (words, done.output, done.exception)

    def api(self, path: str, **fields: object) -> None:
        answer = self.client.call(f"/api/{path}", {"why": WHY, **fields})
        assert answer.status == 200, answer.text

    def console(self, path: str, **fields: str) -> None:
        csrf = self.client.get("/console/pause?kind=queue&name=reports").csrf()
        answer = self.client.post(f"/console/{path}", {"csrf": csrf, "why": WHY, **fields})
        assert answer.status in (200, 303), answer.text[-2000:]

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)


@dataclass(frozen=True)
class Case:
    way: str
    """The command, or the path of the page or request."""
    action: str
    subject: str
    """Of the record."""
    act: Callable[[Shop], None]
    before: Callable[[Shop], None] = lambda shop: None
    has_reason: bool = True


def pause(shop: Shop) -> None:
    shop.command("pause", "queue", "checked")


def restore(shop: Shop) -> None:
    backup, former = shop.folder / "backup", shop.folder / "former"
    shop.command("backup", str(backup))
    shop.store.rename(former)
    shop.command("restore", str(backup))


def damage(shop: Shop) -> None:
    """Change a row of the store without its checksum."""
    with closing(sqlite3.connect(shop.store / FILE_NAME)) as database, database:
        database.execute("UPDATE messages SET queue = 'other' WHERE seq = 1")


CHECKED = {"kind": "queue", "name": "checked"}
CASES = [
    Case("demaq pause", "pause", "queue checked", lambda s: s.command("pause", "queue", "checked", "--why", WHY)),
    Case(
        "demaq resume",
        "resume",
        "rule ship",
        lambda s: s.command("resume", "rule", "ship", "--why", WHY),
        lambda s: s.command("pause", "rule", "ship"),
    ),
    Case("demaq purge", "purge", "message", lambda s: s.command("purge", str(s.errors[2]), "--why", WHY, "--yes")),
    Case(
        "demaq requeue",
        "requeue",
        "message",
        lambda s: s.command("requeue", str(s.errors[0]), "--why", WHY),
    ),
    Case(
        "demaq replay",
        "replay",
        "error",
        lambda s: s.command("replay", "--error", "FORG0001", "--pipeline", "inline"),
        has_reason=False,
    ),
    Case("demaq redeliver", "redeliver", "message", lambda s: s.command("redeliver", str(s.sent), "--why", WHY)),
    Case(
        "demaq collections",
        "load collection",
        "collection prices",
        lambda s: s.command("collections", "load", "prices", s.file("p.xml", "<p/>")),
        has_reason=False,
    ),
    Case("demaq gc", "gc", "messages that are done with", lambda s: s.command("gc"), has_reason=False),
    Case(
        "demaq backfill",
        "migrate",
        "to a changed application",
        lambda s: s.command(
            "backfill", s.file("a.dmq", APPLICATION.read_text() + "create queue more"), "--pipeline", "inline"
        ),
        has_reason=False,
    ),
    Case(
        "demaq users add",
        "add user",
        "user anna",
        lambda s: s.command("users", "add", "anna", "--file", str(s.folder / "u")),
        has_reason=False,
    ),
    Case(
        "demaq users remove",
        "remove user",
        "user bert",
        lambda s: s.command("users", "remove", "bert", "--file", str(s.folder / "u")),
        lambda s: s.command("users", "add", "bert", "--file", str(s.folder / "u")),
        has_reason=False,
    ),
    Case(
        "demaq tokens add",
        "add token",
        "token robot",
        lambda s: s.command("tokens", "add", "robot", "--file", str(s.folder / "t")),
        has_reason=False,
    ),
    Case(
        "demaq tokens remove",
        "remove token",
        "token shop",
        lambda s: s.command("tokens", "remove", "shop", "--file", str(s.folder / "t")),
        lambda s: s.command("tokens", "add", "shop", "--file", str(s.folder / "t")),
        has_reason=False,
    ),
    Case("demaq restore", "restore", "backup ", restore, has_reason=False),
    Case(
        "demaq verify --accept-loss",
        "accept loss",
        "what the store has lost",
        lambda s: s.command("verify", "--accept-loss"),
        damage,
        has_reason=False,
    ),
    Case("/api/pause", "pause", "queue checked", lambda s: s.api("pause", **CHECKED)),
    Case("/api/resume", "resume", "queue checked", lambda s: s.api("resume", **CHECKED), pause),
    Case("/api/requeue", "requeue", "message", lambda s: s.api("requeue", id=str(s.errors[0]))),
    Case("/api/redeliver", "redeliver", "message", lambda s: s.api("redeliver", id=str(s.sent))),
    Case("/api/purge", "purge", "of queue reports", lambda s: s.api("purge", queue="reports")),
    Case("/console/pause", "pause", "queue checked", lambda s: s.console("pause", **CHECKED)),
    Case("/console/resume", "resume", "queue checked", lambda s: s.console("resume", **CHECKED), pause),
    Case(
        "/console/errors/{id}/requeue",
        "requeue",
        "message",
        lambda s: s.console(f"errors/{s.errors[1]}/requeue", text=REPAIRED),
    ),
    Case("/console/requeue", "requeue", "message", lambda s: s.console("requeue", id=str(s.errors[2]))),
    Case("/console/redeliver", "redeliver", "message", lambda s: s.console("redeliver", id=str(s.sent))),
    Case("/console/purge", "purge", "message", lambda s: s.console("purge", id=str(s.errors[2]))),
]
CHANGES_NOTHING = {"/console/errors/{id}/try"}
"""It only shows what would happen."""
MESSAGES_ARE_THE_RECORD = {"send", "load", "take"}
"""What clients do, too: the message says when it came or was taken, and is kept as others are."""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.client.close()


@pytest.mark.parametrize("case", CASES, ids=[case.way for case in CASES])
def test_an_action_is_recorded_with_who_what_and_why(shop: Shop, case: Case):
    case.before(shop)
    known = {record.number for record in shop.audit()}
    case.act(shop)
    [record] = [record for record in shop.audit() if record.number not in known]
    assert record.action == case.action
    assert record.subject.startswith(case.subject)
    assert record.who
    assert record.result, "what became of it"
    if case.has_reason:
        assert record.why == WHY


def test_every_action_has_a_case():
    ways = {case.way for case in CASES}
    asked = {page.path for page in PAGES if page.method == "POST"}
    assert asked - CHANGES_NOTHING == {way for way in ways if way.startswith("/")}
    commands = {way.split()[1] for way in ways if way.startswith("demaq ")}
    assert (
        set(SECTIONS["Act on it"]) | {"restore", "verify", "backfill", "users", "tokens"}
    ) - MESSAGES_ARE_THE_RECORD <= commands
    assert {case.action for case in CASES} == set(ACTIONS), "what can be on record"
