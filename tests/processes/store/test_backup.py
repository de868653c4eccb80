"""Backups of stores on SQLite, and what other nodes and operators notice of a restored store."""

from __future__ import annotations

import resource
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from demaq.cli import main as cli
from demaq.errors import StoreDamaged, StoreError
from demaq.store import SqliteStore, continuity, sqlite_database
from demaq.store.backup import back_up, restore
from demaq.store.location import StoreLocation, place_of
from demaq.store.sqlite_database import LOG_NAME
from demaq.store.store_verification import verify_store
from tests.support.gateways.nodes import running, wait_until
from tests.support.store.backup_contract import BackupContract, fill
from tests.support.store.contract import new
from tests.support.store.damage import written_store

PAGES_MAX = 1000
RECEIVER = "create queue inbox kind incomingGateway endpoint '/inbox'"
SENDER = """
create queue orders
create queue out kind outgoingGateway endpoint "{address}/inbox"
create rule send for orders if (/order) then do enqueue . into out
"""


class TestBackupOfSqlite(BackupContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> StoreLocation:
        return place_of(tmp_path / "store")

    @pytest.fixture
    def other_place(self, tmp_path: Path) -> StoreLocation:
        return place_of(tmp_path / "other")


@pytest.mark.slow
def test_what_a_restored_node_sends_is_not_taken_for_what_was_sent_since_the_backup(tmp_path: Path):
    for name in ("there", "here"):
        (tmp_path / name).mkdir()
    with running(tmp_path / "there", RECEIVER) as there:
        application = SENDER.format(address=there.address)
        with running(tmp_path / "here", application) as here:
            here.node.enqueue("orders", "<order>1</order>")
            there.wait_for("inbox", 1)
            wait_until(lambda: not here.node.store.unsent("out", None, 1))
            back_up(place_of(tmp_path / "here" / "store"), tmp_path / "backup")
            here.node.enqueue("orders", "<order>2</order>")
            there.wait_for("inbox", 2)
            sent = [message.seq for message in here.stored("out")]
        restore(tmp_path / "backup", place_of(tmp_path / "here" / "again"))
        with running(tmp_path / "here", application, store="again") as here:
            here.node.enqueue("orders", "<order>3</order>")
            there.wait_for("inbox", 3)
            assert [message.seq for message in here.stored("out")] == sent  # the same number, given out again
        assert there.bodies("inbox") == [f"<order>{number}</order>" for number in (1, 2, 3)]


@pytest.mark.parametrize("version", range(sqlite_database.COUNTING_VERSION, len(sqlite_database.MIGRATIONS)))
def test_a_backup_of_an_older_version_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int):
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_database, "MIGRATIONS", sqlite_database.MIGRATIONS[:version])
        store = SqliteStore(tmp_path / "store")
        numbers = store.append([new(), new()])
        store.close()
    back_up(place_of(tmp_path / "store"), tmp_path / "backup")
    report = restore(tmp_path / "backup", place_of(tmp_path / "restored"))
    assert report.messages == len(numbers)
    with closing(SqliteStore.open_readonly(tmp_path / "restored")) as restored:
        assert [message.seq for message in restored.stored(None, 0, 9)] == numbers


def test_a_store_that_has_lost_the_end_of_its_log_is_not_backed_up(tmp_path: Path):
    written_store(tmp_path / "store", 7, "no")
    log = tmp_path / "store" / LOG_NAME
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    with pytest.raises(StoreDamaged, match="has lost its newest commits"):
        back_up(place_of(tmp_path / "store"), tmp_path / "backup")
    with pytest.raises(StoreDamaged, match="nothing was restored"):
        restore(tmp_path / "store", place_of(tmp_path / "again"))
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_backup_ends_while_a_node_commits_after_each_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = SqliteStore(tmp_path / "store")
    store.append([new(body=f"<m>{'x' * 50_000}</m>") for _ in range(10)])
    pages = 0

    def commit(*_: int) -> None:
        nonlocal pages
        pages += 1
        assert pages < PAGES_MAX, "it begins again with each commit"
        store.append([new()])

    monkeypatch.setattr(sqlite_database, "PAGES_AT_ONCE", 1)
    monkeypatch.setattr(sqlite_database, "_allow_interrupt", commit)
    made = back_up(place_of(tmp_path / "store"), tmp_path / "backup")
    assert pages > 100
    assert (made.newest, store.snapshot()) == (10, 10 + pages)
    store.close()


def test_commits_while_a_store_is_examined_are_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with closing(SqliteStore(tmp_path / "store")) as store:
        count = continuity._count

        def count_and_commit(folder: Path) -> tuple[int, int] | None:
            counted = count(folder)
            store.append([new()])
            return counted

        monkeypatch.setattr(continuity, "_count", count_and_commit)
        assert verify_store(tmp_path / "store").findings == []


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path):
    with closing(SqliteStore(tmp_path / "store")) as store:
        store.append([new(body=f"<m>{'x' * 100_000}</m>") for _ in range(20)])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
    try:
        with pytest.raises(StoreError, match=r"could not be written: the disk is full or faulty"):
            back_up(place_of(tmp_path / "store"), tmp_path / "backup")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_operators_back_up_and_restore_by_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    with closing(SqliteStore(Path("shop"))) as store:
        fill(store)
        newest = store.snapshot()
        assert cli.run(cli.demaq, ["backup", "--store", "shop", "monday"]) == 0
    size = Path("monday/store.db").stat().st_size
    assert capsys.readouterr() == (f"shop: 34 messages, newest number {newest}, {size:,} bytes in monday\n", "")
    for words, reason in [
        (["backup", "--store", "shop", "monday"], "monday exists already; give the name of a new folder"),
        (["restore", "monday", "--store", "shop"], "shop exists already; give the name of a new folder"),
        (["restore", "tuesday", "--store", "new"], "there is no backup in tuesday"),
        (
            ["backup", "--store", "shop", "postgresql://u:secret@h/d"],
            "a backup is a folder: give the name of a new one",
        ),
        (["restore", "postgresql://u:secret@h/d"], "a backup is a folder, as demaq backup makes it"),
    ]:
        assert cli.run(cli.demaq, words) == 1
        assert capsys.readouterr() == ("", f"demaq: {reason}\n")
    shutil.rmtree("shop")
    assert cli.run(cli.demaq, ["restore", "monday", "--store", "shop"]) == 0
    said = f"shop: 34 messages, newest number {newest} from monday; a new epoch begins\n"
    assert capsys.readouterr() == (said, "")
    assert cli.run(cli.demaq, ["verify", "--store", "shop"]) == 0
