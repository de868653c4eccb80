"""The next rounds are evaluated while one is committed: what comes of it is the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from demaq.compiler.planner import make_plan
from demaq.engine.engine import Engine
from demaq.engine.intake import IncomingMessage
from demaq.engine.round import THROUGHPUT
from demaq.errors import SystemFault
from demaq.evaluation.round_request import RoundRequest, RoundResult
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.store import MemoryStore, SqliteStore
from demaq.store.protocol import StoredMessage
from demaq.testing.lab import load_text
from tests.support.engines import local_engine
from tests.support.programs import FEW_SLICES
from tests.support.reference.eager_engine import EagerEngine

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ROUND = 7

WITH_AN_ERROR = """
create queue in create queue seen create queue out
create rule one for in if (true()) then do enqueue <s/> into seen
create rule failing for in errorqueue seen if (/bad) then do enqueue <s>{1 div count(//none)}</s> into seen
create rule count for in if (/last) then do enqueue <n>{count(qs:queue("seen"))}</n> into out
"""


class Counting(ProcessEvaluator):
    """Says how often it was asked ahead of time. Several rounds at once take turns."""

    messages_max = ROUND
    ahead = 0
    losing = -1
    """The number of the call that fails, counted from 0."""

    def run(self, request: RoundRequest) -> RoundResult:
        self.ahead += threading.current_thread() is not threading.main_thread()
        self.losing -= 1
        if self.losing == -1:
            raise RuntimeError("lost")
        return super().run(request)


@contextmanager
def engine_for(program: str, folder: Path, ahead: bool, at_once: int = 1) -> Iterator[tuple[Engine, Counting]]:
    loaded = load_text(program)
    store = SqliteStore(folder)
    evaluator = Counting(loaded.files(), folder)
    evaluator.rounds_max = at_once
    evaluator.start()  # rounds are as large as their time allows
    try:
        policy = replace(THROUGHPUT, ahead=ahead)
        engine = Engine(make_plan(loaded), evaluator, store, lambda: NOW, receiver=evaluator, policy=policy)
        engine._round_messages = ROUND
        engine.round_messages_least = 1
        yield engine, evaluator
        engine.forget_ahead()
    finally:
        evaluator.close()
        store.close()


def end(folder: Path, ahead: bool, messages: int, slices: int, at_once: int = 1) -> tuple[dict[str, list[str]], int]:
    """What is there in the end, and how many rounds began ahead of their time."""
    with engine_for(FEW_SLICES, folder / f"{ahead} {slices} {at_once}", ahead, at_once) as (engine, evaluator):
        for start in range(0, messages, 50):
            sent = [IncomingMessage(f"<m><k>{n % slices}</k><v>{n}</v></m>") for n in range(start, start + 50)]
            engine.enqueue_all("in", sent)
        while engine.run_round():
            pass
        snapshot = engine.store.snapshot()
        left = {q: [m.body for m in engine.store.queue(q, snapshot)] for q in ("in", "totals", "log")}
        return left, evaluator.ahead


@pytest.mark.parametrize("slices", [2, 5, 100])
def test_it_ends_as_if_each_round_had_waited_for_the_one_before_it(slices: int, tmp_path: Path) -> None:
    expected, none = end(tmp_path, ahead=False, messages=100, slices=slices)
    found, some = end(tmp_path, ahead=True, messages=100, slices=slices)
    assert found == expected
    assert none == 0
    assert some > 0
    # Smaller rounds: what a message leads to may come before other messages, which have nothing to do with it.
    several, most = end(tmp_path, ahead=True, messages=100, slices=slices, at_once=3)
    assert {queue: sorted(bodies) for queue, bodies in several.items()} == {
        queue: sorted(bodies) for queue, bodies in expected.items()
    }
    assert most > 0


def test_where_too_much_does_not_hold_rounds_wait_for_each_other(tmp_path: Path) -> None:
    _, meeting = end(tmp_path, ahead=True, messages=200, slices=1)
    _, independent = end(tmp_path, ahead=True, messages=200, slices=1000)
    assert 0 < meeting < independent


def test_a_round_that_fails_ahead_is_tried_again_in_its_turn(tmp_path: Path) -> None:
    with engine_for(FEW_SLICES, tmp_path / "store", ahead=True) as (engine, evaluator):
        engine.enqueue_all("in", [IncomingMessage(f"<m><k>{n}</k><v>{n}</v></m>") for n in range(3 * ROUND)])
        evaluator.losing = 1
        while True:
            with suppress(SystemFault):
                if not engine.run_round():
                    break
        assert evaluator.losing < -1
        assert evaluator.ahead > 0
        assert sum([waiting for _, waiting in engine.store.counts().values()]) == len(engine.store.waiting("log", 100))


def test_what_arrives_counts_as_stored_after_all_that_was_evaluated(tmp_path: Path) -> None:
    program = """
    create queue in create queue seen create queue out
    create rule count for in if (true()) then do enqueue <n>{count(qs:queue("seen"))}</n> into out
    """
    with engine_for(program, tmp_path / "store", ahead=True) as (engine, evaluator):
        engine.enqueue_all("in", [IncomingMessage("<m/>") for _ in range(2 * ROUND)])
        engine.run_round()
        assert evaluator.ahead == 1
        engine.enqueue("seen", "<s/>")
        engine.run_round()
        assert {m.body for m in engine.store.waiting("out", 100)} == {"<n>0</n>"}


def test_what_arrives_while_a_round_is_evaluated_is_begun_before_that_is_committed(tmp_path: Path) -> None:
    with engine_for(FEW_SLICES, tmp_path / "store", ahead=True) as (engine, evaluator):
        engine.enqueue("in", "<m><k>1</k><v>1</v></m>")
        begin_ahead = engine._begin_ahead

        def another_one_arrives(batch: Sequence[StoredMessage]) -> None:
            engine.enqueue("in", "<m><k>2</k><v>2</v></m>")
            begin_ahead(batch)

        engine._begin_ahead = another_one_arrives  # type: ignore[method-assign]
        engine.run_round()
        assert evaluator.ahead == 1


def test_few_messages_are_not_divided_among_several_rounds(tmp_path: Path) -> None:
    with engine_for(FEW_SLICES, tmp_path / "store", ahead=True, at_once=3) as (engine, evaluator):
        engine.round_messages_least = ROUND
        engine.enqueue_all("in", [IncomingMessage(f"<m><k>{n}</k><v>{n}</v></m>") for n in range(ROUND - 1)])
        engine.run_round()
        assert evaluator.ahead == 0


def eager(program: str, size: int) -> EagerEngine:
    """Processes messages in rounds of a size, each begun ahead."""
    compiled = compile_program(load_text(program))
    rules = SaxonEvaluator(compiled)
    engine = local_engine(rules, MemoryStore(), lambda: NOW, EagerEngine, messages_max=size, policy=THROUGHPUT)
    engine._round_messages = size
    return engine


def out_of(engine: Engine, messages: Sequence[tuple[str, str]]) -> list[str]:
    """What is in the queue `out` after messages were processed."""
    for queue, body in messages:
        engine.enqueue(queue, body)
    while True:
        with suppress(SystemFault):
            if not engine.run_round():
                return [message.body for message in engine.store.queue("out", engine.store.snapshot())]


def test_a_slice_with_another_message_than_foreseen_was_not_seen() -> None:
    """As many messages come into the slice, and the last one is the same, but the first one is another."""
    program = """
    create queue flags create queue x create queue a create queue b create queue parts create queue out
    create property k as xs:string queue parts value "k"
    create slicing s on k
    create rule raise for x if (true()) then do enqueue <flag/> into flags
    create rule first for a if (true()) then do enqueue <a>{count(qs:queue("flags"))}</a> into parts
    create rule second for b if (true()) then do enqueue <b/> into parts
    create rule both for s if (/b and count(qs:slice()) = 2) then do enqueue <sum>{qs:slice()/a/text()}</sum> into out
    """
    messages = [("x", "<x/>"), ("x", "<x/>"), ("a", "<a/>"), ("b", "<b/>"), ("x", "<x/>")]
    assert out_of(eager(program, 2), messages) == ["<sum>2</sum>"]


def test_an_error_message_among_messages_that_were_foreseen_is_seen() -> None:
    assert out_of(eager(WITH_AN_ERROR, 10), [("in", "<bad/>"), ("in", "<last/>")]) == ["<n>2</n>"]


def test_a_message_that_a_reset_has_released_before_a_snapshot_is_gone_when_it_is_processed() -> None:
    program = """
    create queue a create queue z create queue e create queue x
    create queue held create queue later create queue errs create queue out
    create property k as xs:string queue held value "k"
    create slicing s on k
    create rule make for a if (true()) then do enqueue <h/> into held
    create rule end for z if (true()) then do reset s key "k"
    create rule fail for e errorqueue errs if (true()) then do enqueue <e>{1 div count(//none)}</e> into out
    create rule again for x if (exists(qs:queue("errs"))) then do enqueue <y/> into later
    create rule nothing for held if (/never) then do enqueue <n/> into out
    create rule count for later if (true()) then do enqueue <n>{count(qs:queue("held"))}</n> into out
    """
    messages = [("a", "<a/>"), ("z", "<z/>"), ("e", "<e/>"), ("x", "<x/>")]
    assert out_of(eager(program, 10), messages) == ["<n>0</n>"]


def test_a_message_that_waits_to_be_sent_is_still_there_when_its_rules_have_run() -> None:
    program = """
    create queue post kind outgoingGateway endpoint "http://nowhere.example/" create queue later create queue out
    create rule made for post if (/m) then do enqueue <l>{//k}</l> into later
    create rule look for later if (true()) then
      do enqueue <n>{count(qs:queue("post")[//k = qs:message()//k])}</n> into out
    """
    assert out_of(eager(program, 10), [("post", "<m><k>1</k></m>")]) == ["<n>1</n>"]


def test_a_round_that_fails_while_messages_are_evaluated_again_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = eager(WITH_AN_ERROR, 10)
    run, calls = engine.evaluator.run, count(1)

    def fails_once(request: RoundRequest) -> RoundResult:
        if next(calls) == 2:
            raise RuntimeError("lost")
        return run(request)

    monkeypatch.setattr(engine.evaluator, "run", fails_once)
    assert out_of(engine, [("in", "<bad/>"), ("in", "<last/>")]) == ["<n>2</n>"]
    assert next(calls) > 2
    assert engine._rounds._views == []
