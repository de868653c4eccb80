"""The laboratory: what it promises to those who test their applications."""

from __future__ import annotations

import tempfile
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from demaq.errors import MessageError, ProgramError, StillBusy
from demaq.store import MemoryStore, SqliteStore
from demaq.testing import Lab

PROGRAM = """
create queue in create queue out create queue quick mode transient create queue later kind echo
create collection prices
create property number as xs:integer queue in value /*/@n
create property day as xs:date queue in
create slicing numbers on number
create rule copy for in if (/m) then do enqueue <copy>{/m/@n}</copy> into out
"""


@pytest.fixture
def no_folders_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield
    assert list(tmp_path.iterdir()) == []


# --- crashes ---------------------------------------------------------------------------------------------------------


def test_a_crash_leaves_the_log_as_it_was_and_the_store_recovers_from_it(tmp_path: Path, monkeypatch):
    with Lab(PROGRAM, tmp_path) as lab:
        lab.enqueue("in", '<m n="1"/>')
        lab.enqueue("quick", "<q/>")
        log = (tmp_path / "store.db-wal").read_bytes()
        file = (tmp_path / "store.db").read_bytes()
        assert log
        opened_on: dict[str, bytes] = {}

        def opened(folder: Path, **options: Any) -> SqliteStore:
            opened_on.update({path.name: path.read_bytes() for path in folder.glob("store.db*")})
            return SqliteStore(folder, **options)

        monkeypatch.setattr("demaq.testing.lab.SqliteStore", opened)
        lab.crash()
        assert opened_on == {"store.db": file, "store.db-wal": log}
        assert [message.processed for message in lab.read_queue("in")] == [False]
        assert lab.read_queue("quick") == []
        lab.run_until_idle()
        lab.crash()
        assert [message.body for message in lab.read_queue("out")] == ['<copy n="1"/>']
        assert not list(tmp_path.glob("crash-*"))


def test_only_a_store_in_a_folder_survives_a_crash():
    with Lab(PROGRAM, MemoryStore()) as lab, pytest.raises(RuntimeError):
        lab.crash()


def test_a_laboratory_that_is_closed_does_not_crash(tmp_path: Path):
    for store in (None, tmp_path):
        with Lab(PROGRAM, store) as lab:
            pass
        with pytest.raises(RuntimeError, match="closed"):
            lab.crash()
        lab.close()


# --- garbage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pipeline", ["serial", "inline"])
@pytest.mark.parametrize("in_memory", [False, True])
def test_what_is_done_with_is_collected_at_the_very_moment_it_is(pipeline: Any, in_memory: bool):
    """The laboratory's clock stands still, and a store that is handed in has another one."""
    with Lab(PROGRAM, MemoryStore() if in_memory else None, pipeline=pipeline) as lab:
        lab.enqueue("in", "<m/>")
        lab.enqueue("in", "<other/>")
        assert lab.collect_garbage() == 0
        lab.run_until_idle()
        assert len(lab.read_stored("in")) == 2
        assert lab.collect_garbage() == 2
        assert (lab.read_stored("in"), len(lab.read_queue("out"))) == ([], 1)
        assert lab.collect_garbage() == 0
        lab.take("out")
        assert lab.collect_garbage() == 1
        assert lab.read_stored("out") == []


# --- rest ------------------------------------------------------------------------------------------------------------


def test_an_application_that_never_rests_is_an_error_that_says_what_is_pending(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("demaq.testing.lab.ROUNDS_MAX", 5)
    monkeypatch.setattr("demaq.engine.round.STEPS_MAX", 1)
    program = """
    create queue a create queue box kind mailbox create queue later kind echo
    create rule r for a if (true()) then (
      do enqueue . into a, do enqueue . into a, do enqueue . into box,
      do enqueue . into later with timeout value 9 with target value "box")
    """
    with Lab(program) as lab:
        lab.enqueue("a", "<m/>")
        with pytest.raises(StillBusy, match=r"still not idle after 5 rounds; messages wait: [\d,]+ in a") as raised:
            lab.run_until_idle()
        assert raised.value.pending["a"] > 5
        assert list(raised.value.pending) == ["a"], "nobody will process the others"


def test_a_step_processes_one_message_and_answers_it():
    with Lab(PROGRAM) as lab:
        first, second = lab.enqueue("in", '<m n="1"/>'), lab.enqueue("in", '<m n="2"/>')
        step = lab.step()
        assert step is not None
        assert (step.id, step.processed) == (first, True)
        assert [message.processed for message in lab.read_queue("in")] == [True, False]
        assert len(lab.read_created("out")) == 1
        step = lab.step()
        assert step is not None
        assert step.id == second
        assert lab.step() is None


def test_a_step_fires_timers_when_no_message_is_left():
    with Lab(PROGRAM) as lab:
        lab.enqueue("later", '<m n="3"/>', {"timeout": timedelta(0), "target": "in"})
        step = lab.step()
        assert step is not None
        assert (step.queue, step.body) == ("in", '<m n="3"/>')


# --- looking ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["1", "01", " 1 ", 1])
def test_a_key_is_found_however_it_is_written(key: object):
    with Lab(PROGRAM) as lab:
        sent = lab.enqueue("in", '<m n="+001"/>', {"day": date(2026, 5, 1)})
        assert [(message.id, message.properties["day"]) for message in lab.read_slice("numbers", key)] == [
            (sent, "2026-05-01")
        ]
        assert lab.read_slice("numbers", 2) == []


def test_a_slip_in_a_name_does_not_look_like_an_empty_queue():
    with Lab(PROGRAM) as lab:
        for look in (lab.read_queue, lab.read_stored, lab.read_created, lab.take):
            with pytest.raises(MessageError, match=r"there is no queue inn; did you mean in\?"):
                look("inn")
        with pytest.raises(MessageError, match=r"there is no slicing number; did you mean numbers\?"):
            lab.read_slice("number", 1)
        with pytest.raises(MessageError, match="many is no key of slicing numbers"):
            lab.read_slice("numbers", "many")


# --- collections -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("collections", "said"),
    [
        ({"prices": ["<p/>", "<p"]}, "document 2 of collection prices: line 1, column "),
        ({"price": ["<p/>"]}, "there is no collection price; did you mean prices?"),
    ],
)
def test_collections_that_are_refused_leave_nothing(no_folders_left, collections: dict[str, list[str]], said):
    with pytest.raises(MessageError) as raised:
        Lab(PROGRAM, collections=collections)
    assert said in str(raised.value)


def test_of_several_collections_none_is_loaded_where_one_is_refused(tmp_path: Path):
    with pytest.raises(MessageError):
        Lab(PROGRAM, tmp_path, {"prices": ["<p/>"], "price": ["<p/>"]})
    with Lab(PROGRAM, tmp_path) as lab:
        assert lab.store.collections() == []


def test_slips_in_the_use_of_a_lab_are_errors():
    with pytest.raises(TypeError, match="collection prices is a list of documents"):
        Lab(PROGRAM, collections={"prices": "<p/>"})
    with pytest.raises(ProgramError, match="<application>:1:13: "):
        Lab("create queue")
    with Lab(PROGRAM) as lab, pytest.raises(ValueError, match="time does not go back"):
        lab.advance(-5)
