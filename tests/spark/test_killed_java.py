"""When the Java of a node or of a command is killed, one line says so, and there is no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import demaq
from demaq.store.sqlite import SqliteStore
from demaq.testing.lab import Lab
from tests.support.spark.listening import with_descendants

pytestmark = pytest.mark.slow

APPLICATION = """
declare function local:until($n, $end) { if ($n > $end) then $n else local:until($n + 1, $end) };
create queue orders create queue work create queue parcels
create rule pack for work if (/order) then do enqueue <parcel n="{local:until(1, 1000000)}"/> into parcels
"""
COUNT = 12_000
SECONDS_MAX = 240.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("killed")
    (folder / "shop.dmq").write_text(APPLICATION)
    rows = "".join([f'<order id="{number}"/>\n' for number in range(COUNT)])
    (folder / "orders.xml").write_text(f"<orders>{rows}</orders>")
    (folder / "order.xml").write_text("<order/>")
    with Lab(folder / "shop.dmq", folder / "store"):
        pass
    return folder


@contextmanager
def running(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of Demaq in the folder, whose output goes to a file."""
    with (
        open(folder / "output", "wb") as output,
        subprocess.Popen(
            [sys.executable, "-m", "demaq.cli", *words, "--store", "store", "--master", "local[2]"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path(demaq.__file__).parents[1])},
            stdout=output,
            stderr=output,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def kill_java_of(process: subprocess.Popen[bytes]) -> None:
    found = [pid for pid in with_descendants(process.pid) if Path(f"/proc/{pid}/comm").read_text().strip() == "java"]
    assert len(found) == 1
    os.kill(found[0], signal.SIGKILL)


def count_in(folder: Path, queue: str) -> int:
    store = SqliteStore.open_readonly(folder / "store")
    try:
        return len(store.stored(queue, 0, COUNT))
    finally:
        store.close()


def said_in(folder: Path) -> list[str]:
    lines = (folder / "output").read_text().splitlines()
    assert not [line for line in lines if "Traceback" in line or "Error" in line], lines
    return lines


def test_a_load_without_its_java_ends_with_one_line(folder: Path) -> None:
    with running(folder, "load", "orders", "orders.xml", "--rows", "order") as process:
        wait_until(lambda: count_in(folder, "orders"))
        kill_java_of(process)
        assert process.wait(SECONDS_MAX) == 1
    starting, *_, last = said_in(folder)
    assert starting == "starting Spark on local[2] …"
    assert last.startswith("demaq: Spark could not run a job of ")
    assert last.endswith(" tasks: its Java has ended")
    assert len([line for line in said_in(folder) if line.startswith("demaq: ")]) == 1


def test_an_export_without_its_java_ends_with_one_line_and_leaves_no_folder(folder: Path) -> None:
    before = {path.name for path in folder.iterdir()}
    with running(folder, "export", "orders", "exported", "--to", "parquet") as process:
        wait_until(lambda: list(folder.glob(".exported.unfinished-*/_temporary")) or process.poll() is not None)
        kill_java_of(process)
        assert process.wait(SECONDS_MAX) == 1
    *_, last = said_in(folder)
    assert last.startswith("demaq: Spark cannot write to ")
    assert last.endswith(": its Java has ended")
    assert {path.name for path in folder.iterdir()} == before


def test_a_node_without_its_java_continues_without_spark(folder: Path) -> None:
    with running(folder, "run", "shop.dmq", "--http", "127.0.0.1:0", "--pipeline", "spark") as process:
        wait_until(
            lambda: "of its tasks evaluate rules" in (folder / "output").read_text() or process.poll() is not None
        )
        assert process.poll() is None, said_in(folder)
        send = [sys.executable, "-m", "demaq.cli", "send", "work", "order.xml", "--store", "store"]
        subprocess.run(send, cwd=folder, check=True, capture_output=True)
        kill_java_of(process)  # about when it is evaluated
        wait_until(lambda: count_in(folder, "parcels") == 1)
        subprocess.run(send, cwd=folder, check=True, capture_output=True)
        wait_until(lambda: count_in(folder, "parcels") == 2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS_MAX) == 0
    warnings = [line for line in said_in(folder) if "evaluating locally until Spark works again" in line]
    assert len(warnings) == 1, said_in(folder)
