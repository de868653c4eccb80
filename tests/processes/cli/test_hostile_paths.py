"""Paths that are not what a command needs, and names that are no UTF-8: one line and an exit code, never a traceback."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import demaq
from demaq.cli import main as cli

BAD = "BAD"
COMMANDS = (
    "check BAD", "explain BAD", "graph BAD", "format BAD", "try BAD --queue a m.xml", "try app.dmq --queue a BAD",
    "send a m.xml --store BAD", "take b --store BAD", "messages a --store BAD", "show 1 --store BAD",
    "trace 1 --store BAD", "trace 1 --also BAD",
    "queues --store BAD", "slices s --store BAD", "errors --store BAD", "timers --store BAD",
    "deliveries --store BAD", "redeliver 1 --store BAD", "collections list --store BAD", "status --store BAD",
    "gc --store BAD", "tokens add x --file BAD", "tokens remove x --file BAD", "users list --file BAD",
    "users remove x --file BAD",
)  # fmt: skip


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    Path("app.dmq").write_text("create queue a create queue b create rule r for a if (/m) then do enqueue <n/> into b")
    Path("m.xml").write_text("<m/>")
    Path("file").write_text("")
    Path("binary").write_bytes(bytes(range(256)) * 50)
    Path("loop").symlink_to("loop")
    for name in ("alien", "text", "nested"):
        Path(name).mkdir()
    with sqlite3.connect("alien/store.db") as connection:
        connection.execute("CREATE TABLE t (a)")
    connection.close()
    Path("text/store.db").write_text("hello " * 2000)
    Path("nested/store.db").mkdir()
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
    return ["no/such", "binary", "loop", "socket", "file/below", "alien", "text", "nested", "x" * 5000]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_of_the_wrong_kind_is_an_error_and_no_traceback(
    paths: list[str], capsys: pytest.CaptureFixture[str], command: str
):
    for path in paths:
        code = cli.run(cli.demaq, command.replace(BAD, path).split())
        said = capsys.readouterr()
        assert code in (0, 1, 2), path
        assert code == 0 or said.err, path
        assert "Traceback" not in said.err, path


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["C", "POSIX"])
def test_names_that_are_not_ascii_work_in_every_locale(tmp_path: Path, locale: str):
    folder = tmp_path / "ünï"
    folder.mkdir()
    (folder / "prögramm.dmq").write_text(
        "create queue a create queue späße kind mailbox\n"
        "create rule r for a if (/m) then do enqueue <n>ü</n> into späße",
        encoding="utf-8",
    )
    (folder / "m.xml").write_text("<m/>")
    environment = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment["PYTHONPATH"] = str(Path(demaq.__file__).parents[1])

    def run(*words: str | bytes) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "demaq.cli", *words], cwd=folder, env=environment, capture_output=True, check=False
        )
        assert b"Traceback" not in done.stderr
        return done.returncode, (done.stdout + done.stderr).decode("utf-8")

    assert run("check", "prögramm.dmq") == (0, "prögramm.dmq: 2 queues, 0 slicings, 1 rule, no problems\n")
    code, said = run("try", "prögramm.dmq", "--queue", "a", "m.xml")
    assert (code, "enqueue into späße\n    <n>ü</n>" in said) == (0, True)
    assert run("queues", "--store", "störe") == (1, "demaq: there is no store in störe\n")
    assert run("queues", "--store", b"st\xf6re") == (1, "demaq: there is no store in st\\udcf6re\n")
