"""Evaluation in another process, and what happens when it does not come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from demaq.documents import Document
from demaq.engine.engine import Engine
from demaq.errors import EvaluatorUnavailable, MessageError
from demaq.evaluation.round_request import PropertyRequest, PropertyResult
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.workers.child import EvaluatorProcess, Start
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.evaluation.workers.receiver import Receiver, TakesLong
from demaq.evaluation.workers.worker_connection import Limits
from demaq.evaluation.workers.worker_protocol import EvaluateMessages, EvaluateRule, Request, RunRound
from demaq.store.sqlite import SqliteStore
from tests.support.programs import program

PROGRAM = """
declare function local:forever($n) { if ($n < 0) then $n else local:forever($n + 1) };
create queue a create queue b create queue e
create property k as xs:integer queue a value //k
create rule endless for a errorqueue e if (//endless) then do enqueue <x>{local:forever(1)}</x> into b
create rule fine for a if (//k) then do enqueue <y>{//k, count(qs:queue("b"))}</y> into b
"""
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@contextmanager
def running(folder: Path, text: str, kind: type[ProcessEvaluator], timeout_seconds: float = 2) -> Iterator[Engine]:
    loaded = program(folder, text)
    store = SqliteStore(folder / "store", now=lambda: NOW)
    evaluator = kind(loaded.files(), folder / "store", rule_timeout_seconds=timeout_seconds)
    yield Engine(compile_program(loaded).plan, evaluator, store, lambda: NOW, receiver=evaluator)
    evaluator.close()
    store.close()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with running(tmp_path, PROGRAM, ProcessEvaluator) as engine:
        yield engine


def drain(engine: Engine) -> None:
    while engine.run_round():
        pass


def bodies(engine: Engine, queue: str) -> list[str]:
    return [message.body for message in engine.store.stored(queue, 0, 100)]


def test_rules_are_evaluated_in_the_other_process_on_the_same_store(engine: Engine) -> None:
    engine.enqueue("a", "<m><k>1</k></m>")
    engine.enqueue("a", "<m><k>2</k></m>")
    drain(engine)
    assert bodies(engine, "b") == ["<y><k>1</k>0</y>", "<y><k>2</k>1</y>"]


def test_what_intake_refuses_is_refused_through_the_other_process(engine: Engine) -> None:
    with pytest.raises(MessageError) as refusal:
        engine.enqueue("a", "<m><k>one</k></m>")
    assert refusal.value.kind == "propertyError"


@pytest.mark.slow
def test_a_rule_that_never_ends_costs_only_itself(engine: Engine) -> None:
    for n in (1, 2):
        engine.enqueue("a", f"<m><k>{n}</k></m>")
    engine.enqueue("a", "<m><endless/><k>3</k></m>")
    for n in (4, 5):
        engine.enqueue("a", f"<m><k>{n}</k></m>")
    drain(engine)
    assert [body[:10] for body in bodies(engine, "b")] == [f"<y><k>{n}</k>"[:10] for n in (1, 2, 3, 4, 5)]
    (error,) = bodies(engine, "e")
    assert error.startswith("<error><systemError/><rule>endless</rule><queue>a</queue>")
    assert "did not end within 2 s" in error
    assert '<location file="app.dmq" line="5" column="1"/>' in error
    assert bodies(engine, "demaq:errors") == []
    assert isinstance(engine.evaluator, ProcessEvaluator)
    assert engine.evaluator.replaced >= 1


@pytest.mark.slow
def test_a_rule_that_never_ends_is_known_also_where_its_message_is_alone(engine: Engine) -> None:
    engine.enqueue("a", "<m><endless/></m>")
    drain(engine)
    (error,) = bodies(engine, "e")
    assert "<rule>endless</rule>" in error
    assert bodies(engine, "b") == []


class KilledEvaluator(ProcessEvaluator):
    """Its process is killed whenever the rule with the number 1 is to be evaluated."""

    def _ask(self, request: Request, limits: Limits) -> Any:
        match request:
            case EvaluateMessages() | RunRound() | EvaluateRule(rule=1):
                self._connected().kill()
        return super()._ask(request, limits)


THREE_RULES = """
create queue a create queue b create queue e create property n as xs:integer queue b value count(//n)
create rule one for a if (/m) then do enqueue <one>{count(qs:queue("a"))}</one> into b
create rule two for a errorqueue e if (/m) then do enqueue <two/> into b
create rule three for a if (/m) then do enqueue <three/> into b
"""


def test_a_rule_that_ends_its_process_is_named_and_the_others_act(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("demaq.evaluation.workers.process.ATTEMPTS_MAX", 2)
    with running(tmp_path, THREE_RULES, KilledEvaluator) as engine:
        engine.enqueue("a", "<m/>")
        drain(engine)
        assert bodies(engine, "b") == ["<one>1</one>", "<three/>"]
        (error,) = bodies(engine, "e")
        assert error.startswith("<error><systemError/><rule>two</rule>")
        assert "came to its end" in error
        assert isinstance(engine.evaluator, ProcessEvaluator)
        assert engine.evaluator.replaced == 3


def test_a_sender_does_not_notice_that_the_process_is_killed(engine: Engine) -> None:
    assert isinstance(engine.evaluator, ProcessEvaluator)
    engine.evaluator.start()
    assert engine.evaluator.pid is not None
    os.kill(engine.evaluator.pid, signal.SIGKILL)
    engine.enqueue("a", "<m/>", {"k": "1"})  # what a sender sets, the process checks
    assert engine.evaluator.replaced == 1


@pytest.mark.slow
def test_when_many_rules_never_end_the_others_are_given_up_with_them(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("demaq.evaluation.workers.process.RULES_GIVEN_UP_MAX", 2)
    rules = [f"create rule r{n} for a if (/m) then do enqueue <x>{{local:forever(1)}}</x> into a\n" for n in range(4)]
    forever = "declare function local:forever($n) { if ($n < 0) then $n else local:forever($n + 1) };"
    with running(tmp_path, f"{forever} create queue a {''.join(rules)}", ProcessEvaluator, 0.5) as engine:
        engine.enqueue("a", "<m/>")
        drain(engine)
        errors = bodies(engine, "demaq:errors")
        assert [f"<rule>r{n}</rule>" in error for n, error in enumerate(errors)] == [True] * 4
        assert ["did not end" in error for error in errors] == [True, True, False, False]
        assert ["was not asked" in error for error in errors] == [False, False, True, True]


FORGETS_TO_CLOSE = """
import sys
from pathlib import Path
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.store.sqlite import SqliteStore

folder = Path(sys.argv[1])
store = SqliteStore(folder)
ProcessEvaluator({"a.dmq": "create queue a"}, folder).start()
raise SystemExit(3)
"""


def test_a_program_that_forgets_to_close_its_evaluator_ends_all_the_same(tmp_path: Path) -> None:
    script = tmp_path / "forgets.py"
    script.write_text(FORGETS_TO_CLOSE)
    done = subprocess.run([sys.executable, str(script), str(tmp_path / "store")], timeout=60, check=False)
    assert done.returncode == 3


@pytest.mark.slow
def test_a_property_that_does_not_end_is_an_error_of_its_own_message(tmp_path: Path) -> None:
    loaded = program(tmp_path, 'create queue a create property p as xs:boolean queue a value matches(., "^(a+)+$")')
    SqliteStore(tmp_path / "store").close()
    first = ProcessEvaluator(loaded.files(), tmp_path / "store", rule_timeout_seconds=2)
    with closing(first), closing(first.twin()) as second:
        receiver = Receiver(first, second)
        texts = ["aaa", "b", "a" * 45 + "b", "c"]
        arrivals = [PropertyRequest(queue="a", document=Document(f"<m>{text}</m>"), now=NOW) for text in texts]
        quick = receiver.quick.compute_properties(arrivals)
        assert [type(answer) for answer in quick] == [PropertyResult, PropertyResult, TakesLong, PropertyResult]
        answers = receiver.compute_properties(arrivals)
        assert [type(answer) for answer in answers] == [PropertyResult, PropertyResult, MessageError, PropertyResult]
        assert isinstance(answers[2], MessageError)
        assert answers[2].kind == "propertyError"
        assert "did not end within 2 s" in answers[2].message


def test_a_process_that_dies_at_once_is_one_that_did_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demaq.evaluation.workers.bare_worker._PROGRAM", "")
    large = {"a.dmq": "create queue a" + " " * 10_000_000}  # more than fits into the socket
    with closing(ProcessEvaluator(large, tmp_path / "store")) as evaluator:
        with pytest.raises(EvaluatorUnavailable, match="did not start"):
            evaluator.start()
        with pytest.raises(EvaluatorUnavailable, match="did not start"):
            evaluator.start()


def test_a_thread_that_waits_for_a_process_that_is_closed_gets_an_error(tmp_path: Path) -> None:
    with running(tmp_path, PROGRAM, ProcessEvaluator, timeout_seconds=60) as engine:
        assert isinstance(engine.evaluator, ProcessEvaluator)
        engine.evaluator.start()
        engine.enqueue("a", "<m><endless/></m>")
        with ThreadPoolExecutor(1) as thread:
            round_ = thread.submit(engine.run_round)
            while not engine.evaluator._asking.locked():
                time.sleep(0.01)
            engine.evaluator.close()
            with pytest.raises(EvaluatorUnavailable, match="the node stops"):
                round_.result(30)
        with pytest.raises(EvaluatorUnavailable, match="the node stops"):
            engine.evaluator.start()
        assert engine.evaluator.pid is None


def test_a_process_that_is_launched_while_the_node_stops_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteStore(tmp_path / "store").close()
    evaluator = ProcessEvaluator(program(tmp_path, PROGRAM).files(), tmp_path / "store")
    take = evaluator._spares.take

    def take_meanwhile(start: Start) -> EvaluatorProcess:
        process = take(start)
        evaluator.stop()
        return process

    monkeypatch.setattr(evaluator._spares, "take", take_meanwhile)
    with closing(evaluator):
        with pytest.raises(EvaluatorUnavailable, match="the node stops"):
            evaluator.start()
        assert evaluator.pid is None
