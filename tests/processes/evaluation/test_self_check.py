"""Native answers are compared with Saxon's: on the state they were made of, seldom, and with consequences."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from demaq import Node
from demaq.cli.status import _native_lines
from demaq.documents import parse_document
from demaq.evaluation.native import native_functions, native_run, self_check
from demaq.evaluation.native.health import NativeReport
from demaq.evaluation.native.ledger import NativeLedger, NativeNotes
from demaq.evaluation.native.native_settings import FIRST_CHECKS, EvaluatorName, NativeSettings, native_settings
from demaq.evaluation.native.self_check import SelfCheck
from demaq.evaluation.outcomes import Enqueued, Outcome
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.memory_state import MemoryState
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.evaluation.workers.worker import Worker
from demaq.evaluation.workers.worker_connection import EvaluatorGone, Limits
from demaq.evaluation.workers.worker_protocol import CheckNative, EvaluateMessages, Request
from demaq.server.self_check_thread import SelfCheckThread
from demaq.store import SqliteStore
from demaq.store.protocol import NewMessage
from demaq.testing.lab import Lab, load_text
from tests.support.native import saxon
from tests.support.programs import NOW

PROGRAM = "create queue q create queue o create rule r for q if (/m) then do enqueue <o>{string-length(/m)}</o> into o"
STATEFUL = """
create queue q create queue s create queue o create collection k
create property key as xs:string fixed queue q value /*/@k
create slicing bykey on key
create rule members for bykey if (/m) then do enqueue <o>{count(qs:slice())}</o> into o
create rule found for q if (/m) then
  do enqueue <o>{collection("k")/*/@n, qs:queue("s")[/s/v = qs:message()/m/v]}</o> into o
create rule all for q if (/m) then do enqueue <o>{count(qs:queue("o")), count(qs:queue("s"))}</o> into o
"""
WAIT_SECONDS_MAX = 60


class Checked:
    """A program whose native answers are checked when the test says so."""

    def __init__(self, text: str, check_every: int = 1000) -> None:
        compiled = compile_program(load_text(text), saxon())
        self.check = SelfCheck(NativeSettings(check_every=check_every))
        self.evaluator = SaxonEvaluator(compiled, self_check=self.check)
        self.reports: list[NativeReport] = []
        self.evaluator.health.report = self.reports.append
        slicings = {slicing.name: slicing.property for slicing in compiled.plan.program.slicings.values()}
        self.state = MemoryState(self.evaluator, slicings, NOW)

    def run(self, body: str) -> list[str]:
        [outcome] = self.evaluator.evaluate([self.state.add("q", parse_document(body))], self.state, NOW)
        return made(outcome)


def made(outcome: Outcome) -> list[str]:
    return [action.document.text for action in outcome.actions if isinstance(action, Enqueued)]


def wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native rules do not know how long anything is."""
    monkeypatch.setitem(native_functions.CALLED, "one_text", lambda texts: "wrong")


def test_a_difference_leaves_the_rule_to_saxon_and_keeps_message_and_results(monkeypatch: pytest.MonkeyPatch):
    wrong(monkeypatch)
    checked = Checked(PROGRAM)
    assert checked.run("<m>four</m>") == ["<o>5</o>"], "the native rule is wrong on purpose"
    checked.evaluator.check()
    [report] = checked.reports
    assert (report.kind, report.queue, report.rule) == ("difference", "q", "r")
    assert report.message == "<m>four</m>"
    assert "<o>5</o>" in report.native
    assert "<o>4</o>" in report.saxon
    assert str(report.at).endswith(":1:31")
    assert not checked.evaluator.is_native("q")
    assert checked.run("<m>four</m>") == ["<o>4</o>"]


def test_a_difference_leaves_no_other_rule_of_the_queue_to_saxon(monkeypatch: pytest.MonkeyPatch):
    wrong(monkeypatch)
    checked = Checked(
        f"{PROGRAM} create rule other for q if (/m) then do enqueue <p/> into o"
        ' create rule saxons for q if (/m/x) then do enqueue <s>{map { "a": 1 }?a}</s> into o'
    )
    assert checked.run("<m>four</m>") == ["<o>5</o>", "<p/>"]
    checked.evaluator.check()
    assert list(checked.evaluator.health.withdrawn) == ["r"]
    assert checked.run("<m>four</m>") == ["<o>4</o>", "<p/>"]
    assert checked.run("<m>four<x/></m>") == ["<o>4</o>", "<p/>", "<s>1</s>"]
    native = checked.evaluator.native
    assert native is not None
    assert [rule.name for rule in native.queue("q").rules if rule.body is None] == ["r", "saxons"]
    while len(checked.check):
        checked.evaluator.check()
    assert [report.rule for report in checked.reports] == ["r"]


def test_a_filter_that_refuses_what_saxon_does_not_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(native_functions.CALLED, "has", lambda items: False)
    checked = Checked(
        "create queue q create queue o"
        ' create rule r for q if (//x[map { "a": 1 }?a = 1]) then do enqueue <s>1</s> into o'
    )
    assert checked.run("<m><x/></m>") == [], "the filter is wrong on purpose"
    checked.evaluator.check()
    assert list(checked.evaluator.health.withdrawn) == ["r"]
    assert checked.run("<m><x/></m>") == ["<s>1</s>"]


def test_saxon_is_asked_on_the_state_that_native_rules_have_read():
    checked = Checked(STATEFUL)
    checked.state.add_to_collection("k", parse_document('<k n="1"/>'))
    for number in range(3):
        checked.state.add("s", parse_document(f"<s><v>{number % 2}</v></s>"))
        before = checked.run(f'<m k="{number % 2}"><v>0</v></m>')
        assert len(before) == 3
    assert checked.evaluator.health.answers == 3
    for _ in range(3):  # what comes later changes nothing
        checked.state.add("s", parse_document("<s><v>0</v></s>"))
        checked.state.add("q", parse_document('<m k="0"/>'))
    while len(checked.check):
        checked.evaluator.check()
    assert (checked.check.checked, checked.reports) == (3, [])


def test_a_rule_that_reads_other_state_than_saxon_differs(monkeypatch: pytest.MonkeyPatch):
    text = """create queue q create queue s create queue o
    create rule found for q if (/m) then do enqueue <o>{qs:queue("s")[/s/v = qs:message()/m/v]}</o> into o"""
    checked = Checked(text)
    [rule] = checked.evaluator.native.queue("q").rules  # type: ignore[union-attr]
    monkeypatch.setattr(native_run.NativeRule, "keys", (lambda root, run: ["s-other"],))
    assert rule.keys[0](None, None) == ["s-other"]  # type: ignore[arg-type]
    checked.run("<m><v>1</v></m>")
    checked.evaluator.check()
    assert ["Saxon has asked for" in report.saxon for report in checked.reports] == [True]


def test_the_first_messages_of_each_rule_are_checked_and_then_one_in_many():
    check = SelfCheck(native_settings("auto", 50))
    due = [number for number in range(1, 401) if check.is_due(["r"])]
    assert due == [*range(1, FIRST_CHECKS + 1), 150, 200, 250, 300, 350, 400]
    assert check.is_due(["r", "new"]), "a rule that comes later is new"
    assert not any([SelfCheck(native_settings("auto", 0)).is_due(["r"]) for _ in range(10)])


def test_what_waits_to_be_checked_is_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(self_check, "WAITING_MAX", 3)
    monkeypatch.setattr(self_check, "WAITING_CHARACTERS_MAX", 100)
    checked = Checked(PROGRAM)
    checked.run(f"<m>{'x' * 100}</m>")
    assert (len(checked.check), checked.check.skipped) == (0, 1)
    for _ in range(5):
        checked.run("<m/>")
    assert (len(checked.check), checked.check.skipped) == (3, 3)
    checked.evaluator.check()
    assert len(checked.check) == 0
    checked.run("<m/>")
    assert (len(checked.check), checked.reports) == (1, [])


def test_an_answer_of_much_state_is_not_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(self_check, "STATE_MESSAGES_MAX", 2)
    checked = Checked(STATEFUL)
    for _ in range(3):
        checked.state.add("s", parse_document("<s/>"))
    checked.run('<m k="1"/>')
    assert (len(checked.check), checked.check.skipped) == (0, 1)


def stored(folder: Path, count: int) -> list[int]:
    with closing(SqliteStore(folder)) as store:
        new = [NewMessage(queue="q", body="<m>four</m>", properties={}, created=NOW, priority=0) for _ in range(count)]
        return list(store.append(new))


def test_a_worker_tells_what_it_has_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    wrong(monkeypatch)
    seqs = stored(tmp_path / "store", 2)
    worker = Worker(load_text(PROGRAM).files(), tmp_path / "store")
    worker.answer(EvaluateMessages(seqs=seqs, snapshot=2, now=NOW))
    notes = worker.notes()
    assert (notes.answers, notes.waiting, notes.checked, notes.reports) == (2, 2, 0, ())
    worker.answer(CheckNative())
    notes = worker.notes()
    assert (notes.answers, notes.waiting, notes.checked, len(notes.reports)) == (0, 0, 2, 1)
    assert [rule for rule, _ in notes.withdrawn] == ["r"]
    assert worker.notes() == NativeNotes()


def test_every_process_learns_which_rules_are_left_to_saxon(tmp_path: Path):
    seqs = stored(tmp_path / "store", 1)
    ledger = NativeLedger()
    first = ProcessEvaluator(
        load_text(PROGRAM).files(), tmp_path / "store", native=native_settings("auto"), ledger=ledger
    )
    with closing(first), closing(first.twin()) as second:
        request = EvaluateMessages(seqs=seqs, snapshot=1, now=NOW)
        assert made(first._ask(request, Limits(30))[0]) == ["<o>4</o>"]
        assert ledger.counts["answers"] == 1
        assert first.has_checks
        first.check_when_idle()
        assert not first.has_checks
        assert (ledger.counts["checked"], ledger.counts["differences"]) == (1, 0)
        ledger.add(NativeNotes(withdrawn=(("r", "somebody else has found a reason"),)))
        for evaluator in (first, second):
            assert made(evaluator._ask(request, Limits(30))[0]) == ["<o>4</o>"]
        assert ledger.counts["answers"] == 1, "Saxon has answered"


def test_after_a_check_that_does_not_end_there_are_no_more(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    class Stuck(ProcessEvaluator):
        def _exchange(self, request: Request, limits: Limits, announce: bool = False) -> Any:
            raise EvaluatorGone("it did not end")

    evaluator = Stuck({}, tmp_path)
    evaluator._checks_waiting = 1
    with caplog.at_level(logging.WARNING, "demaq.node"):
        evaluator.check_when_idle()
        evaluator.check_when_idle()
    assert evaluator._ledger.status()["checks_failed"] is True
    assert not evaluator.has_checks
    assert len(caplog.records) == 1


def test_checks_take_less_than_a_hundredth_of_the_time():
    calls: list[float] = []

    def check() -> None:
        calls.append(time.monotonic())
        time.sleep(0.02)

    thread = SelfCheckThread(check)
    thread.start()
    time.sleep(1.5)
    thread.close()
    assert len(calls) == 1, "the next one may come after two seconds"


def test_a_ledger_shows_what_native_rules_have_done():
    ledger = NativeLedger()
    report = NativeReport(kind="difference", queue="q", rule="r", at=None, description="different", message="<m/>")
    ledger.add(NativeNotes(answers=3, fallbacks=1, checked=2, reports=(report,), withdrawn=(("r", "different"),)))
    status = ledger.status()
    assert (status["answers"], status["differences"], status["withdrawn"]) == (3, 1, {"r": "different"})
    assert status["reports"][0]["message"] == "<m/>"
    assert list(_native_lines(status)) == [
        "native     3 messages, 1 left to Saxon",
        "checked    2 answers, 1 different",
        "left       r to Saxon: different",
    ]
    ledger.checks_failed = True
    assert any(["there are no more" in line for line in _native_lines(ledger.status())])


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("evaluator", "answers"), [("auto", 5), ("saxon", 0)])
def test_a_node_checks_its_native_rules_while_it_runs_and_saxon_can_do_all(
    tmp_path: Path, evaluator: EvaluatorName, answers: int
):
    file = tmp_path / "app.dmq"
    file.write_text(PROGRAM)
    node = Node(file, tmp_path / "store", evaluator=evaluator)
    node.start()
    try:
        for _ in range(5):
            node.enqueue("q", "<m>four</m>")
        wait_until(lambda: node.steps == 5)
        wait_until(lambda: node.read_status()["native"]["checked"] == answers)
        assert node.read_status()["native"]["answers"] == answers
        assert [m.body for m in node.store.queue("o", node.store.snapshot())] == ["<o>4</o>"] * 5
    finally:
        node.stop()


def test_a_laboratory_leaves_everything_to_saxon_if_it_is_asked_to(monkeypatch: pytest.MonkeyPatch):
    wrong(monkeypatch)
    for evaluator, length in (("auto", 5), ("saxon", 4)):
        with Lab(PROGRAM, evaluator=evaluator) as lab:  # type: ignore[arg-type]
            lab.enqueue("q", "<m>four</m>")
            lab.run_until_idle()
            assert [message.body for message in lab.read_queue("o")] == [f"<o>{length}</o>"]
    with pytest.raises(ValueError, match="evaluator 'other' is not known; there are 'auto', 'saxon'"):
        Lab(PROGRAM, evaluator="other")  # type: ignore[arg-type]


def test_answers_with_namespaces_that_are_relative_addresses_can_be_compared():
    text = "create queue q create queue o create rule r for q if (/m) then do enqueue <o>{/m}</o> into o"
    checked = Checked(text)
    checked.run("<m xmlns:p='u'><p:a/></m>")
    checked.evaluator.check()

    assert checked.check.checked == 1
    assert checked.reports == []
