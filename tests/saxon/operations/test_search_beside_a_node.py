"""A search over many messages reads in small pieces and keeps nothing open between them, so no node waits for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from demaq.errors import StoreError
from demaq.operations import search as searching
from demaq.operations import xpath_filter
from demaq.operations.search import MessageSelection, open_search_reader, search, search_all
from demaq.operations.xpath_filter import open_filter
from demaq.store.message_scan import Scan, ScanResult
from demaq.store.opening import open_store_readonly
from demaq.store.protocol import NewMessage, StoredMessage
from demaq.store.sql_store import SqlStore
from demaq.store.sqlite_database import FILE_NAME
from demaq.testing import Lab

APPLICATION = """
create queue orders create queue archive create queue out kind mailbox
create rule r for orders if (/order) then do enqueue <done>{/order/@id}</done> into out
"""
STORED = 12_000
SLOW = MessageSelection(queues=("archive",), xpath="//never")
ENDLESS = "some $n in 1 to 2000000000 satisfies 2 * $n = 2 * string-length(name(/*)) + 1"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Path]]:
    where = tmp_path_factory.mktemp("search") / "store"
    with Lab(APPLICATION, where) as lab:
        body = f"<m>{'text ' * 40}</m>"
        lab.store.append([NewMessage(queue="archive", body=body, properties={}, created=lab.now)] * STORED)
        yield lab, where


def send(lab: Lab) -> None:
    """Send a message, and see that it is processed."""
    before = len(lab.read_queue("out"))
    lab.enqueue("orders", '<order id="1"/>')
    lab.run_until_idle()
    assert len(lab.read_queue("out")) == before + 1


def checkpoint(where: Path) -> tuple[int, int, int]:
    """Write all of the log into the database. The first figure is 1 if a reader keeps the store from it."""
    with closing(sqlite3.connect(where / FILE_NAME, timeout=0)) as database:
        row: tuple[int, int, int] = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return row


def test_messages_are_processed_while_a_slow_expression_is_evaluated(node: tuple[Lab, Path]):
    lab, where = node
    calls = 0

    def evaluate_slowly(messages: Sequence[StoredMessage]) -> list[bool]:
        """Between two statements of the search, whatever time an expression takes, everything else goes on."""
        nonlocal calls
        calls += 1
        if calls % 10 == 1:
            send(lab)
            assert checkpoint(where)[0] == 0, "the search has no transaction open"
        return [False] * len(messages)

    with open_search_reader(where) as store:
        page = search(store, SLOW, matches=evaluate_slowly)
    assert page.found == ()
    assert page.texts == STORED
    assert calls > STORED / searching.TEXTS_MAX


class Observed:
    """A store that notes how much each statement of a search may read."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.rows: list[int] = []
        self.texts: list[int] = []

    def scan(self, scan: Scan) -> ScanResult:
        found = self._store.scan(scan)
        self.rows.append(scan.rows_max)
        assert found.scanned <= scan.rows_max
        assert len(found.heads) <= scan.limit
        return found

    def messages(self, seqs: Sequence[int]) -> list[StoredMessage]:
        self.texts.append(len(seqs))
        return self._store.messages(seqs)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a search does not ask for {name}")


def test_each_statement_of_a_search_is_bounded_and_so_is_a_page(
    node: tuple[Lab, Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(searching, "ROWS_PER_PIECE", 1_000)
    monkeypatch.setattr(searching, "CHARACTERS_PER_PIECE", 20_000)
    with open_search_reader(node[1]) as store:
        observed: Any = Observed(store)
        page = search(observed, SLOW, matches=lambda found: [False] * len(found), rows_max=5_000, texts_max=3_000)
        assert page.next_start is not None, "it says where to go on"
        assert page.scanned <= 5_000
        assert page.texts <= 3_000
        assert max(observed.rows) <= 1_000
        assert max(observed.texts) <= 20_000 // 200 + searching.TEXTS_FIRST, "by the sizes of the last texts"
        pages = list(search_all(observed, SLOW, last=store.snapshot(), matches=lambda found: [False] * len(found)))
        assert sum([each.texts for each in pages]) == STORED, "in the end, at all of them"


def test_a_statement_that_takes_too_long_is_ended(node: tuple[Lab, Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(searching, "STATEMENT_SECONDS_MAX", 0.0)
    with open_search_reader(node[1]) as store, pytest.raises(StoreError):
        search(store, SLOW, matches=lambda found: [False] * len(found))


def test_an_expression_without_end_is_given_up_message_by_message(
    node: tuple[Lab, Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(xpath_filter, "SECONDS_MAX", 0.3)
    with closing(open_store_readonly(node[1])) as store, open_filter(ENDLESS, {}, node[1]) as matches:
        page = search(store, SLOW, matches=matches, texts_max=2)
        assert (page.texts, page.found, matches.failed) == (2, (), 2)
        assert page.next_start is not None
        send(node[0])
