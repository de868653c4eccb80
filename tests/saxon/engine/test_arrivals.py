"""Messages that are evaluated before they are stored: what is committed, and what is stored first all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from demaq.engine.engine import Engine
from demaq.engine.intake import IncomingMessage
from demaq.engine.round import THROUGHPUT, RoundPolicy
from demaq.errors import EvaluatorUnavailable, MessageError, StoreError
from demaq.evaluation.arrival_request import ArrivalRequest, ArrivalResult
from demaq.evaluation.local_evaluator import LocalEvaluator
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.language.program.program import SYSTEM_ERRORS
from demaq.store import MemoryStore
from demaq.store.request_names import digest_of, make_request
from demaq.testing.lab import load_text

NOW = datetime(2026, 3, 1, tzinfo=UTC)
COPY = """
create queue in create queue out create queue log
create rule copy for in if (/m) then do enqueue <n>{string(/m)}</n> into out
create rule fail for in if (/m = "0") then do enqueue <q>{1 idiv /m}</q> into out
"""
JOIN = """
create queue in create queue out create queue other
create property k as xs:string queue in value /m/@k
create slicing s on k
create rule join for s if (count(qs:slice()) = 2) then (do enqueue <pair>{string-join(qs:slice()/m, "+")}</pair> into out, do reset)
create rule other for other if (/m) then do enqueue <seen>{count(qs:queue("in"))}</seen> into out
"""


class Pool:
    """Evaluates in this process, divided among so many workers, and lets something happen meanwhile."""

    def __init__(self, rules: SaxonEvaluator, store: MemoryStore) -> None:
        self.local = LocalEvaluator(rules, store)
        self.workers = 1
        self.meanwhile: Callable[[], None] | None = None
        self.asked: list[ArrivalRequest] = []
        self.failure: Exception | None = None
        self.is_late = False
        self.is_busy = False

    def run_arrivals(
        self, divide: Callable[[int], Sequence[ArrivalRequest]], workers_max: int
    ) -> list[ArrivalResult] | None:
        if self.is_busy:
            return []
        requests = divide(self.workers)
        self.asked += requests
        if self.failure is not None:
            raise self.failure
        if self.is_late:
            return None
        found = self.local.run_arrivals(lambda _: requests, 1)
        if self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            act()
        return found


class Running:
    def __init__(self, text: str, policy: RoundPolicy = THROUGHPUT, is_idle: bool = True) -> None:
        rules = SaxonEvaluator(compile_program(load_text(text)))
        self.store = MemoryStore(now=lambda: NOW)
        self.pool = Pool(rules, self.store)
        self.commits: list[int] = []
        self.engine = Engine(
            *(rules.compiled.plan, self.pool.local, self.store, lambda: NOW),
            receiver=rules,
            policy=policy,
            arrivals=self.pool,
        )
        if is_idle:
            self.drain()

    def drain(self) -> None:
        while self.engine.run_round():
            pass

    def bodies(self, queue: str) -> list[str]:
        return [message.body for message in self.store.stored(queue, 0, 100)]


@pytest.fixture(params=[THROUGHPUT, RoundPolicy(exact=False, ahead=True, fuse=True)], ids=["elided", "kept"])
def policy(request: pytest.FixtureRequest) -> RoundPolicy:
    found: RoundPolicy = request.param
    return found


def test_a_message_is_processed_with_the_commit_that_stores_it(policy: RoundPolicy):
    running = Running(COPY, policy)
    numbers = running.engine.enqueue_all("in", ["<m>1</m>", b"<m>2</m>", "<x/>"])
    assert running.bodies("out") == ["<n>1</n>", "<n>2</n>"]
    assert running.bodies("in") == ([] if policy.elide else ["<m>1</m>", "<m>2</m>", "<x/>"])
    created = running.store.stored("out", 0, 10)
    assert [(message.trigger, message.origin, message.hops) for message in created] == [(n, n, 1) for n in numbers[:2]]
    assert numbers == sorted(set(numbers))
    assert running.engine.arrivals.processed == 3
    assert not running.engine.run_round()


def test_the_next_numbers_come_after_all_of_them(policy: RoundPolicy):
    running = Running(COPY, policy)
    seen: list[int] = []
    for _ in range(3):
        seen += running.engine.enqueue_all("in", ["<m>1</m>", "<m>2</m>"])
        seen += [message.seq for message in running.store.stored("out", max(seen), 10)]
    assert seen == sorted(set(seen))
    assert running.store.snapshot() >= max(seen)


def test_an_error_of_a_rule_is_a_message(policy: RoundPolicy):
    running = Running(COPY, policy)
    running.engine.enqueue("in", "<m>0</m>")
    assert running.bodies("out") == ["<n>0</n>"]
    [error] = running.bodies(SYSTEM_ERRORS)
    assert "FOAR0001" in error


def test_one_that_is_refused_refuses_all_of_its_call_and_nothing_is_stored(policy: RoundPolicy):
    running = Running(COPY, policy)
    with pytest.raises(MessageError, match="Premature end"):
        running.engine.enqueue_all("in", ["<m>1</m>", "<m>"])
    with pytest.raises(MessageError, match="no property"):
        running.engine.enqueue_all("in", ["<m>1</m>", IncomingMessage("<m>1</m>", {"none": "1"})])
    assert running.bodies("out") == []
    assert running.engine._rounds._views == []


def test_members_of_a_slice_meet_whether_they_come_together_or_not(policy: RoundPolicy):
    running = Running(JOIN, policy)
    running.engine.enqueue("in", "<m k='1'>a</m>")
    running.engine.enqueue_all("in", ["<m k='2'>b</m>", "<m k='1'>c</m>", "<m k='2'>d</m>"])
    assert sorted(running.bodies("out")) == ["<pair>a+c</pair>", "<pair>b+d</pair>"]
    assert running.engine.arrivals.processed == 4


@pytest.mark.parametrize("workers", [2, 3])
def test_members_of_a_slice_meet_if_several_workers_evaluate_them(policy: RoundPolicy, workers: int):
    running = Running(JOIN, policy)
    running.pool.workers = workers
    running.engine.enqueue_all("in", [f"<m k='{n % 3}'>{n}</m>" for n in range(6)])
    running.drain()
    assert sorted(running.bodies("out")) == ["<pair>0+3</pair>", "<pair>1+4</pair>", "<pair>2+5</pair>"]


def test_a_message_that_waits_comes_first():
    running = Running(JOIN, is_idle=False)  # it is not known whether something waits
    running.engine.enqueue("in", "<m k='1'>a</m>")
    assert running.engine.arrivals.processed == 0
    running.drain()
    running.engine.enqueue("in", "<m k='1'>b</m>")
    assert running.bodies("out") == ["<pair>a+b</pair>"]
    assert running.engine.arrivals.processed == 1


def test_a_message_does_not_overtake_one_of_its_queue_that_waits():
    running = Running(COPY)
    running.pool.is_busy = True
    running.engine.enqueue("in", "<m>1</m>")
    running.pool.is_busy = False
    running.engine.enqueue("in", "<m>2</m>")
    assert running.bodies("out") == []
    running.drain()
    running.engine.enqueue("in", "<m>3</m>")
    assert running.bodies("out") == ["<n>1</n>", "<n>2</n>", "<n>3</n>"]
    assert running.engine.arrivals.processed == 1


def test_what_arrives_meanwhile_is_seen(policy: RoundPolicy):
    running = Running(JOIN, policy)

    def arrive() -> None:
        running.engine.append(running.engine.receive_all("in", ["<m k='1'>a</m>"]))

    running.pool.meanwhile = arrive
    running.engine.enqueue_all("in", ["<m k='1'>b</m>"])
    running.drain()
    assert running.bodies("out") == ["<pair>a+b</pair>"]


def test_a_request_of_a_known_name_is_processed_once(policy: RoundPolicy):
    running = Running(JOIN, policy)
    request = make_request("name", digest_of(["x"]))
    sent = IncomingMessage("<m k='1'>a</m>", {}, request)
    first = running.engine.enqueue_all("in", [sent])
    assert running.engine.enqueue_all("in", [sent, IncomingMessage("<m k='1'>b</m>"), sent])[0] == first[0]
    running.drain()
    assert running.bodies("out") == ["<pair>a+b</pair>"]
    assert running.engine.enqueue("in", "<m k='5'>a</m>", request="other") == running.engine.enqueue(
        "in", "<m k='5'>a</m>", request="other"
    )


@pytest.mark.parametrize("trouble", ["late", "unavailable", "store", "busy"])
def test_a_message_is_stored_first_if_no_worker_can_evaluate_it(trouble: str):
    running = Running(COPY)
    running.pool.is_late = trouble == "late"
    running.pool.is_busy = trouble == "busy"
    failures: dict[str, Any] = {"unavailable": EvaluatorUnavailable("gone"), "store": StoreError("away")}
    running.pool.failure = failures.get(trouble)
    running.engine.enqueue("in", "<m>1</m>")
    assert running.bodies("in") == ["<m>1</m>"]
    assert running.engine._rounds._views == []
    running.pool.failure, running.pool.is_late, running.pool.is_busy = None, False, False
    running.drain()
    assert running.bodies("out") == ["<n>1</n>"]
    asked = len(running.pool.asked)
    running.engine.enqueue("in", "<m>2</m>")
    is_asked_again = len(running.pool.asked) > asked
    assert is_asked_again == (trouble == "busy"), "a queue whose messages took too long is left alone for a while"
    running.drain()
    assert running.bodies("out") == ["<n>1</n>", "<n>2</n>"]


def test_nothing_is_evaluated_before_it_is_stored_if_a_rule_asks_for_its_number():
    text = "create queue in create queue out create rule r for in if (/m) then do enqueue <n>{qs:property('demaq:id')}</n> into out"
    running = Running(text)
    [number] = running.engine.enqueue_all("in", ["<m/>"])
    assert running.bodies("out") == []
    running.drain()
    assert running.bodies("out") == [f"<n>{number}</n>"]


def test_a_commit_that_fails_stores_nothing(policy: RoundPolicy, monkeypatch: pytest.MonkeyPatch):
    running = Running(COPY, policy)

    def fail(*_: object) -> Any:
        raise StoreError("no room")

    with monkeypatch.context() as broken:
        broken.setattr(running.store, "commit", fail)
        with pytest.raises(StoreError):
            running.engine.enqueue("in", "<m>1</m>")
    assert running.engine._rounds._views == []
    running.engine.enqueue("in", "<m>2</m>")
    running.drain()  # after the failure it is not known whether something waits
    assert running.bodies("out") == ["<n>2</n>"]


def test_while_they_are_excluded_messages_are_stored_first_and_those_begun_are_waited_for():
    running = Running(COPY)
    order: list[str] = []

    def exclude() -> None:
        with running.engine.arrivals.excluded():
            order.append("excluded")
            running.engine.enqueue("in", "<m>2</m>")
            order.append(f"processed: {running.engine.arrivals.processed}")

    thread = threading.Thread(target=exclude)
    waits = threading.Event()

    def start() -> None:
        thread.start()
        waits.wait(0.1)
        order.append("evaluated")

    running.pool.meanwhile = start
    running.engine.enqueue_all("in", ["<m>1</m>"])
    thread.join()
    assert order == ["evaluated", "excluded", "processed: 1"]
    running.drain()
    assert running.bodies("out") == ["<n>1</n>", "<n>2</n>"]
