"""`demaq verify` on a store that is intact, on a damaged one, and on none."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from demaq.cli import main as cli
from demaq.store.sqlite_database import FILE_NAME
from demaq.testing.lab import Lab


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("app.dmq").write_text("create queue a create queue b create rule r for a if (/m) then do enqueue <n/> into b")
    with Lab("app.dmq", store=tmp_path / "shop") as lab:
        for number in range(3):
            lab.enqueue("a", f"<m>{number} of a kind</m>")
        lab.run_until_idle()
    return tmp_path / "shop"


def damage(store: Path, statement: str) -> None:
    connection = sqlite3.connect(store / FILE_NAME)
    with connection:
        connection.execute(statement)
    connection.close()


def verify(*options: str) -> int:
    return cli.run(cli.demaq, ["verify", "--store", "shop", *options])


def test_an_intact_store_has_no_damage(store: Path, capsys: pytest.CaptureFixture[str]):
    assert verify() == 0
    out, err = capsys.readouterr()
    assert out.startswith("shop: ")
    assert out.endswith(": no damage\n")
    assert err == ""
    assert verify("--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["store"], found["findings"], found["without_checksum"]) == ("shop", [], 0)


def test_damage_is_named_without_what_is_stored_and_the_exit_code_is_1(store: Path, capsys: pytest.CaptureFixture[str]):
    damage(store, "UPDATE bodies SET body = replace(body, '1 of a kind', '7 of a kind')")
    damage(store, "UPDATE bodies SET body = replace(body, '<n/>', '<o/>') WHERE seq = (SELECT max(seq) FROM bodies)")
    assert verify() == 1
    out, err = capsys.readouterr()
    assert out.endswith((" problems\n", " problem\n"))
    assert "of a kind" not in out + err
    assert "demaq restore BACKUP --store shop" in err
    assert verify("--json") == 1
    assert json.loads(capsys.readouterr().out)["findings"]


def test_a_loss_that_is_accepted_is_reported_and_the_store_works(store: Path, capsys: pytest.CaptureFixture[str]):
    damage(store, "DELETE FROM bodies WHERE seq = (SELECT max(seq) FROM bodies)")
    assert verify() == 1
    capsys.readouterr()
    assert verify("--accept-loss") == 0
    out, err = capsys.readouterr()
    assert out.endswith(": no damage\n")
    assert err.strip()
    with Lab("app.dmq", store=store) as lab:
        lab.enqueue("a", "<m/>")
        lab.run_until_idle()


def test_where_there_is_no_store_nothing_is_made(tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    assert verify() == 1
    assert capsys.readouterr().err == "demaq: there is no store in shop\n"
    assert list(tmp_path.iterdir()) == []
