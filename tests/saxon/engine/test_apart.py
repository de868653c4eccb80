"""Messages that take long are evaluated apart: the others go on, and the result is that of a serial execution.

Everything happens in one thread: what is evaluated apart is evaluated when it is started, on the snapshot of that
moment, and ends when the test says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from demaq.engine.engine import Engine
from demaq.engine.round import Evaluation, RoundPolicy
from demaq.engine.slow_messages import LONG_MAX, LOSSES_MAX, QUICK_MAX
from demaq.errors import EvaluatorUnavailable, StoreError, SystemFault
from demaq.evaluation.local_evaluator import LocalEvaluator
from demaq.evaluation.outcomes import NOT_EVALUATED, Deferral, Outcome, RuleError
from demaq.evaluation.round_request import RoundRequest, RoundResult
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.store import MemoryStore
from demaq.store.protocol import Committed, Step, StoredMessage
from demaq.testing.lab import load_text
from tests.support.engines import read_request

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PROGRAM = """
create queue in create queue other create queue urgent priority 9 create queue log create queue out create queue made
create queue later kind echo
create property k as xs:string fixed queue in, other, made value /*/@k
create slicing s on k
create rule answer for in if (/m) then do enqueue <a n="{/m/@n}" log="{count(qs:queue("log"))}"/> into out
create rule write for other if (/m) then (do enqueue <a n="{/m/@n}"/> into out, do enqueue <l/> into log)
create rule make for other if (/make) then do enqueue <m n="made" k="{/make/@to}"/> into made
create rule wait for other if (/wait) then do enqueue <l/> into later with timeout value 0 with target value "log"
create rule look for in if (/look) then do enqueue <a n="later" later="{count(qs:queue("later"))}"/> into out
create rule first for urgent if (/m) then do enqueue <a n="{/m/@n}"/> into out
create rule follow for made if (/m) then do enqueue <a n="{/m/@n}"/> into out
create rule members for s if (qs:slice()/none) then do enqueue <never/> into out
"""


def is_slow(message: StoredMessage) -> bool:
    return "<slow/>" in message.body


class Deferring(LocalEvaluator):
    """Defers messages with <slow/> in their text, as a process does that takes long over them, and those with <untried/>
    as if others of their queue had just taken long."""

    def run(self, request: RoundRequest) -> RoundResult:
        result = RoundResult([self._defer(message) for message in request.batch])
        quick = [position for position, outcome in enumerate(result.outcomes) if outcome is None]
        result.insert(quick, super().run(request.select(quick)))
        return result

    def _defer(self, message: StoredMessage) -> Outcome | None:
        if is_slow(message):
            return Outcome(deferred=Deferral("slow"))
        if "<untried/>" in message.body:
            return Outcome(deferred=Deferral("others were slow", was_tried=False))
        return None


class Lane:
    """Evaluates at once, and remembers what it was asked."""

    def __init__(self, rules: SaxonEvaluator, store: MemoryStore) -> None:
        self._rules = rules
        self._store = store
        self.sifted: list[list[int]] = []
        self.alone: list[list[int]] = []
        self.fails: Callable[[StoredMessage], bool] = lambda message: False
        self.error: Exception | None = None

    def sift(self, request: RoundRequest) -> RoundResult:
        self.sifted.append(request.seqs)
        found: list[Outcome | None] = []
        for position, message in enumerate(request.batch):
            if is_slow(message):
                found.append(Outcome(deferred=Deferral("slow")))
                break
            found += self._evaluate(request.select([position]))
        return RoundResult([*found, *[None] * (len(request.batch) - len(found))])

    def evaluate_alone(self, request: RoundRequest) -> RoundResult:
        if self.error is not None:
            raise self.error
        self.alone.append(request.seqs)
        if self.fails(request.batch[0]):
            error = RuleError(rule="answer", kind="systemError", code=NOT_EVALUATED, description="endless", at=None)
            return RoundResult([Outcome(errors=[error]) for _ in request.batch])
        return RoundResult([*self._evaluate(request)])

    def _evaluate(self, request: RoundRequest) -> list[Outcome]:
        messages, reader = read_request(request, self._store)
        return self._rules.evaluate(messages, reader, request.now)


class Running:
    """An engine whose evaluations apart end when they are released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float = 5.0) -> None:
        compiled = compile_program(load_text(PROGRAM))
        self.store = MemoryStore()
        self.lane = Lane(SaxonEvaluator(compiled), self.store)
        rules = SaxonEvaluator(compiled)
        self.engine = Engine(
            compiled.plan,
            Deferring(rules, self.store),
            self.store,
            lambda: NOW,
            receiver=rules,
            policy=RoundPolicy(exact=False),
            lanes=[self.lane, self.lane],
        )
        self.is_released = True

        def start(evaluation: Evaluation, done: Callable[[], None] = lambda: None) -> None:
            evaluation._run()
            evaluation.seconds = seconds
            evaluation._evaluate = lambda: RoundResult([*evaluation.outcomes])
            evaluation._thread = _Ended()  # type: ignore[assignment]

        monkeypatch.setattr(Evaluation, "start", start)
        monkeypatch.setattr(Evaluation, "is_done", lambda evaluation: self.is_released)

    def send(self, queue: str, *bodies: str) -> None:
        for body in bodies:
            self.engine.enqueue(queue, body)

    def drain(self) -> None:
        for _ in range(50):
            if not self.engine.run_round() and (not self.engine.slow_messages or not self.is_released):
                return
        raise AssertionError("it does not come to an end")

    @property
    def answers(self) -> list[str]:
        return [message.body.split('"')[1] for message in self.store.stored("out", 0, 1000)]


class _Ended:
    """Instead of a thread."""

    def join(self) -> None:
        pass


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Running:
    return Running(monkeypatch)


def slow(n: object, k: str | None = None) -> str:
    return quick(n, k).replace("/>", "><slow/></m>")


def quick(n: object, k: str | None = None) -> str:
    return f'<m n="{n}"/>' if k is None else f'<m n="{n}" k="{k}"/>'


def test_other_queues_slices_and_priorities_go_on_while_a_message_takes_long(running: Running) -> None:
    running.is_released = False
    running.send("in", slow("slow", "A"), quick("same queue", "B"))
    running.send("other", quick("other", "C"))
    running.send("urgent", quick("urgent"))
    running.drain()
    assert running.answers == ["urgent", "same queue", "other"]
    running.is_released = True
    running.drain()
    assert running.answers == ["urgent", "same queue", "other", "slow"]


def test_members_of_a_slice_stay_in_their_order(running: Running) -> None:
    running.is_released = False
    running.send("in", quick(0, "A"), slow(1, "A"), quick(2, "A"))
    running.send("other", quick(3, "A"), '<make to="A" k="C"/>', quick(4, "B"))
    running.drain()
    assert running.answers == ["0", "4"]
    running.is_released = True
    running.drain()
    assert running.answers == ["0", "4", "1", "2", "3", "made"]


def test_two_slow_messages_of_a_slice_are_evaluated_one_after_the_other(running: Running) -> None:
    running.send("in", slow(1, "A"), slow(2, "A"), slow(3, "B"))
    running.drain()
    assert running.lane.alone == [[1], [3], [2]]
    assert running.answers == ["1", "3", "2"]


def test_a_message_that_took_long_by_itself_is_not_sifted(running: Running) -> None:
    running.send("in", slow("slow"))
    running.drain()
    assert running.lane.alone == [[1]]
    assert running.lane.sifted == []


def test_a_message_that_was_deferred_without_being_tried_does_not_wait_for_slow_ones(running: Running) -> None:
    running.is_released = False
    running.send("other", slow("slow"))
    running.engine.run_round()
    running.send("in", '<m n="quick"><untried/></m>')
    running.engine.run_round()
    assert running.lane.alone == [[1]]
    assert running.lane.sifted == [[2]]
    running.is_released = True
    running.drain()
    assert sorted(running.answers) == ["quick", "slow"]


def test_what_has_missed_a_change_is_evaluated_again(running: Running) -> None:
    running.send("in", slow("slow"))
    running.engine.run_round()  # deferred, and begun
    running.send("other", quick("other"))
    running.is_released = False
    running.drain()  # there is an entry in the log now, which the slow message has not seen
    running.is_released = True
    running.drain()
    assert [message.body for message in running.store.stored("out", 0, 10)] == [
        '<a n="other"/>',
        '<a n="slow" log="1"/>',
    ]
    assert len(running.lane.alone) == 2


def test_a_message_that_always_misses_something_makes_the_rounds_wait_in_the_end(running: Running) -> None:
    running.send("in", slow("slow"))
    running.engine.run_round()
    for number in range(50):
        running.is_released = False
        running.send("other", quick(number))  # each time something changes before it is done
        running.engine.run_round()
        running.is_released = True
        running.engine.run_round()
        if "slow" in running.answers:
            break
    assert "slow" in running.answers
    assert len(running.lane.alone) == LOSSES_MAX + 1


def test_messages_of_a_queue_under_suspicion_are_evaluated_apart_until_some_were_quick(running: Running) -> None:
    running.lane.fails = is_slow
    running.send("in", slow("slow"))
    running.drain()
    assert list(running.engine.slow_messages.suspected) == ["in"]
    running.send("in", *[quick(n) for n in range(QUICK_MAX + 3)])
    running.drain()
    assert sum([len(batch) for batch in running.lane.sifted]) >= QUICK_MAX
    assert not running.engine.slow_messages.suspected
    sifted = len(running.lane.sifted)
    running.send("in", quick("again"))
    running.drain()
    assert len(running.lane.sifted) == sifted
    assert running.answers == [*[str(n) for n in range(QUICK_MAX + 3)], "again"]


def test_a_new_message_is_not_sifted_after_all_that_do_not_end(running: Running) -> None:
    running.is_released = False
    running.send("in", *[slow(n) for n in range(10)])
    running.engine.run_round()  # the first one is sifted
    running.send("in", quick("good"))
    running.engine.run_round()
    running.is_released = True
    running.drain()
    assert "good" in running.answers
    assert [batch[0] for batch in running.lane.sifted[:3]] == [1, 11, 3], (
        "the good one is number 11, and 2 was found with it"
    )


def test_a_rule_that_failed_puts_all_its_queues_under_suspicion(running: Running) -> None:
    def fail(request: RoundRequest) -> RoundResult:
        error = RuleError(rule="members", kind="systemError", code=NOT_EVALUATED, description="endless", at=None)
        return RoundResult([Outcome(errors=[error])])

    running.lane.evaluate_alone = fail  # type: ignore[method-assign]
    running.send("in", slow("slow", "A"))
    running.drain()
    assert set(running.engine.slow_messages.suspected) == {"in", "other", "made"}


def test_messages_that_take_long_and_end_by_themselves_are_soon_evaluated_several_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    running = Running(monkeypatch, seconds=0.6)
    running.send("in", *[slow(n) for n in range(40)])
    running.drain()
    assert sorted(running.answers, key=int) == [str(n) for n in range(40)]
    assert max([len(batch) for batch in running.lane.alone]) > 1
    sifted = len(running.lane.sifted)
    assert running.engine.slow_messages.suspected["in"].long >= LONG_MAX
    running.send("in", slow("more"))
    running.drain()
    assert len(running.lane.sifted) == sifted


def test_a_process_that_does_not_start_is_waited_for_and_nothing_else_is(running: Running, monkeypatch) -> None:
    monkeypatch.setattr("demaq.engine.slow_messages.PAUSE_SECONDS", 0.0)
    running.lane.error = EvaluatorUnavailable("no memory")
    running.send("in", slow("slow"))
    for _ in range(5):
        running.engine.run_round()
    running.send("other", quick("other"))
    assert running.engine.run_round()
    assert running.answers == ["other"]
    running.lane.error = None
    running.drain()
    assert running.answers == ["other", "slow"]


def test_a_mistake_of_ours_parks_the_message_in_the_end(running: Running) -> None:
    running.lane.error = RuntimeError("a mistake")
    running.send("in", slow("slow"), quick("quick"))
    for _ in range(50):
        with suppress(SystemFault):
            running.engine.run_round()
    assert not running.engine.slow_messages
    assert running.answers == ["quick"]


def test_what_is_evaluated_while_a_collection_is_loaded_is_evaluated_again(running: Running) -> None:
    running.send("in", slow("slow"))
    running.engine.run_round()
    before = len(running.lane.alone)
    assert before == 1
    running.engine.forget_ahead()
    running.drain()
    assert len(running.lane.alone) == before + 1
    assert running.answers == ["slow"]


@pytest.mark.parametrize("losses", [0, LOSSES_MAX])
def test_a_message_whose_commit_failed_and_took_place_is_not_evaluated_again(
    running: Running, monkeypatch: pytest.MonkeyPatch, losses: int
) -> None:
    running.send("in", slow("slow", "A"))
    running.engine.run_round()
    commit = running.store.commit

    def fail_afterwards(steps: Sequence[Step], *_: object) -> list[Committed]:
        commit(steps, elide=True)
        raise StoreError("the disk has failed")

    monkeypatch.setattr(running.store, "commit", fail_afterwards)
    with pytest.raises(StoreError):
        running.engine.run_round()
    monkeypatch.setattr(running.store, "commit", commit)
    for entry in running.engine.slow_messages._entries.values():
        entry.losses = losses
    running.send("in", quick("quick", "A"))
    running.drain()
    assert running.answers == ["slow", "quick"]
    assert not running.engine.slow_messages


def test_a_message_that_a_failed_round_has_deferred_is_evaluated_once(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.engine.policy = RoundPolicy(exact=False, ahead=True)
    running.engine.slow_messages.lanes = [running.lane] * 3
    monkeypatch.setattr(running.engine.evaluator, "rounds_max", 2)
    running.engine.round_messages_least = running.engine._round_messages = 2
    for n in "12":  # a round of each two; the second one is evaluated before the first one has deferred a message
        running.send("other", quick(f"quick {n}"))
        running.send("in", slow(f"slow {n}", n))
    running.engine.round_messages_max = 4
    running.is_released = False
    commit = running.store.commit
    failed: list[Step] = []

    def fail_once(steps: Sequence[Step], *given: Any) -> list[Committed]:
        if not failed and any(["quick 2" in new.body for step in steps for new in step.created]):
            failed.extend(steps)
            raise RuntimeError("a mistake of ours")
        return commit(steps, *given)

    monkeypatch.setattr(running.store, "commit", fail_once)
    running.drain()
    assert failed
    asked = [seq for seqs in (*running.lane.sifted, *running.lane.alone) for seq in seqs]
    assert sorted(asked) == sorted(set(asked))
    running.is_released = True
    running.drain()
    assert sorted(running.answers) == ["quick 1", "quick 2", "slow 1", "slow 2"]
    assert not running.engine.slow_messages


@pytest.mark.parametrize("losses", [0, LOSSES_MAX])
def test_a_message_whose_evaluation_could_not_begin_is_evaluated_when_the_store_can_be_read(
    running: Running, monkeypatch: pytest.MonkeyPatch, losses: int
) -> None:
    snapshot = running.store.snapshot

    def fail_if_apart() -> int:
        if running.engine.slow_messages:
            raise StoreError("the disk has failed")
        return snapshot()

    monkeypatch.setattr(running.store, "snapshot", fail_if_apart)
    running.send("in", slow("slow", "A"))
    with pytest.raises(StoreError):
        running.engine.run_round()
    for entry in running.engine.slow_messages._entries.values():
        entry.losses = losses
    with pytest.raises(StoreError):
        running.engine.run_round()
    monkeypatch.setattr(running.store, "snapshot", snapshot)
    running.send("in", quick("quick", "A"))
    running.drain()
    assert running.answers == ["slow", "quick"]
    assert not running.engine.slow_messages


def test_a_round_that_was_begun_is_not_lost_if_what_is_apart_cannot_be_read(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(seqs: Sequence[int]) -> list[StoredMessage]:
        raise StoreError("the disk has failed")

    running.send("in", slow("slow"))
    running.send("other", quick("other"))
    with monkeypatch.context() as failing:
        failing.setattr(running.store, "messages", fail)
        for _ in range(3):
            with suppress(StoreError):
                running.engine.run_round()
            running.send("other", quick("more"))
    running.drain()
    assert sorted(running.answers) == ["more", "more", "more", "other", "slow"]
    assert running.engine._rounds._views == []


def test_timers_whose_firing_failed_and_took_place_are_seen_by_what_is_evaluated_apart(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.send("other", "<wait/>")
    running.drain()
    running.send("in", "<look><slow/></look>")
    running.engine.run_round()  # deferred, and evaluated on a snapshot with a timer
    commit: Any = running.store.commit

    def fail_afterwards(*given: Any) -> list[Committed]:
        commit(*given)
        raise StoreError("the disk has failed")

    with monkeypatch.context() as failing:
        failing.setattr(running.store, "commit", fail_afterwards)
        with pytest.raises(StoreError):
            running.engine.fire_timers()
    running.drain()
    assert [message.body for message in running.store.stored("out", 0, 10)] == ['<a n="later" later="0"/>']


def test_members_of_a_slice_do_not_wait_for_a_message_that_could_not_be_set_apart(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(seqs: object) -> StoredMessage:
        raise StoreError("the disk has failed")

    running.send("in", slow("slow", "A"), quick("quick", "A"))
    with monkeypatch.context() as failing:
        failing.setattr(running.store, "message", fail)
        failing.setattr(running.store, "messages", fail)
        with pytest.raises(StoreError):
            running.engine.run_round()
    monkeypatch.setattr(f"{__name__}.is_slow", lambda message: False)  # a round takes it the next time
    running.drain()
    assert running.answers == ["slow", "quick"]
