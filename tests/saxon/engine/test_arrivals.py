"""Messages that are evaluated before they are stored: what is committed, and what is stored first all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from demaq.engine.engine import HOPS_MAX, Engine
from demaq.engine.intake import IncomingMessage
from demaq.engine.round import THROUGHPUT, RoundPolicy
from demaq.errors import EvaluatorUnavailable, MessageError, StoreError
from demaq.evaluation.arrival_request import ArrivalRequest, ArrivalResult
from demaq.evaluation.local_evaluator import LocalEvaluator
from demaq.evaluation.native.ledger import NativeLedger
from demaq.evaluation.native.native_settings import NativeSettings
from demaq.evaluation.quick_evaluator import ASKING_MESSAGES, QuickEvaluator
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

    @property
    def rounds_max(self) -> int:
        return 2

    def run_arrivals(
        self,
        divide: Callable[[int], Sequence[ArrivalRequest]],
        workers_max: int,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[ArrivalResult] | None:
        if self.is_busy:
            return []
        requests = divide(self.workers)
        self.asked += requests
        meanwhile()
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
    def __init__(
        self, text: str, policy: RoundPolicy = THROUGHPUT, is_idle: bool = True, is_quick: bool = False
    ) -> None:
        """With `is_quick`, what can be evaluated without a worker is."""
        rules = SaxonEvaluator(compile_program(load_text(text)))
        self.store = MemoryStore(now=lambda: NOW)
        self.pool = Pool(rules, self.store)
        quick = None
        if is_quick:
            settings = NativeSettings(check_every=0)
            quick = QuickEvaluator(rules.plan, self.store, NativeLedger(), settings)
        self.woken = threading.Event()
        self.engine = Engine(
            *(rules.compiled.plan, self.pool.local, self.store, lambda: NOW),
            receiver=rules,
            policy=policy,
            arrivals=self.pool,
            quick=quick,
            wake=self.woken.set,
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


@pytest.mark.parametrize("queue", ["in", "other"])
def test_what_a_node_evaluates_without_a_worker_is_stored_like_what_a_worker_evaluates(policy: RoundPolicy, queue: str):
    text = (
        COPY
        + """
    create queue other create queue last create queue later kind echo
    create property k as xs:string inherited queue other, last, out value /m
    create rule first for other if (/m) then (
      do enqueue <l>{qs:property("k")}</l> into last,
      do enqueue <t/> into later with timeout value 60 with target value "in")
    create rule second for last if (/l) then do enqueue <n>{string(/l)}</n> into out
    """
    )
    stored: list[list[Any]] = []
    asked: list[int] = []
    for is_quick in (False, True):
        running = Running(text, policy, is_quick=is_quick)
        sent: list[list[str | bytes]] = [
            [b"<m>1</m>"],
            ["<x/>"],
            ["<m>0</m>"],
            ["<m>2</m>", "\ufeff<m>3</m>"],
            ["<m>4</m>"] * 30,
            ["<m>0</m>", *["<m>5</m>"] * 29],
        ]
        for bodies in sent:
            running.engine.enqueue_all(queue, bodies)
        asked.append(sum([len(request.messages) for request in running.pool.asked]))
        queues = running.engine.program.queues
        stored.append([message for name in queues for message in running.store.stored(name, 0, 100)])
    assert stored[0] == stored[1]
    assert len(stored[0]) > 10
    # In the queue `in` the error of `<m>0</m>` is Saxon's: then workers are given the node's share as well.
    share = (30 + ASKING_MESSAGES) // 2
    left = 2 * (30 - share)
    assert asked == [65, left + 1 + share if queue == "in" else left]


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


def test_of_two_requests_of_one_name_in_one_commit_only_the_first_is_new(policy: RoundPolicy):
    running = Running(COPY, policy)
    named = [IncomingMessage(f"<m>{n}</m>", {}, make_request("name", digest_of([str(n)]))) for n in range(3)]
    evaluated = running.engine.arrivals.evaluate([("in", each) for each in named], running.engine.clock())
    assert evaluated is not None
    stored = evaluated.commit()
    assert len({number for number, _ in stored}) == 1
    assert [is_new for _, is_new in stored] == [True, False, False]
    running.drain()
    assert running.bodies("out") == ["<n>0</n>"]


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


def _ignore(seq: int) -> None:
    """Make a function of a sender's call that returns nothing."""


FORK = """
create queue in create queue checks create queue out create queue log
create property k as xs:string queue in value /*/@k
create slicing s on k
create rule fork for in if (/m) then do enqueue <c k="{/m/@k}"/> into checks
create rule check for checks if (/c) then (do enqueue <r k="{/c/@k}"/> into in, do enqueue <l k="{/c/@k}"/> into log)
create rule decide for s if (qs:slice()/m and qs:slice()/r) then (
  do enqueue <d k="{qs:slicekey()}">{count(qs:slice())}</d> into out, do reset)
"""


@pytest.mark.parametrize("is_quick", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_of_a_conversation_that_has_ended_only_the_effects_are_stored(is_quick: bool, workers: int):
    running = Running(FORK, is_quick=is_quick)
    running.pool.workers = workers
    numbers = running.engine.enqueue_all("in", ['<m k="1"/>', '<m k="2"/>'])
    assert running.bodies("in") == running.bodies("checks") == []
    made = {message.body: message for queue in ("out", "log") for message in running.store.stored(queue, 0, 10)}
    assert sorted(made) == ['<d k="1">2</d>', '<d k="2">2</d>', '<l k="1"/>', '<l k="2"/>']
    decided, logged = made['<d k="1">2</d>'], made['<l k="1"/>']
    assert (decided.origin, decided.hops, logged.origin, logged.hops) == (numbers[0], 3, numbers[0], 2)
    assert numbers[0] < (logged.trigger or 0) < (decided.trigger or 0) < decided.seq
    used = [*numbers, *[message.seq for message in made.values()], *[message.trigger for message in made.values()]]
    assert len(set(used)) == len(used)
    assert running.engine.arrivals.processed == 6
    assert not running.engine.run_round()


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_effects_follow_each_other_in_the_order_of_the_messages_whether_these_are_stored_or_not(workers: int):
    text = FORK + 'create rule note for in if (/x) then do enqueue <n k="{/x/@k}"/> into log'
    running = Running(text)
    running.pool.workers = workers
    numbers = running.engine.enqueue_all("in", ['<m k="1"/>', '<x k="2"/>', '<m k="3"/>', '<x k="1"/>'])
    running.drain()
    assert numbers == sorted(numbers)
    logged = running.bodies("log")
    assert logged.index('<n k="2"/>') < logged.index('<n k="1"/>')
    # The last message is in the slice of the first one when that is processed: both have come at once.
    assert sorted(running.bodies("out")) == ['<d k="1">3</d>', '<d k="3">2</d>']


@pytest.mark.parametrize("is_quick", [False, True])
def test_a_conversation_whose_slice_has_a_stored_member_is_no_conversation_of_its_own(is_quick: bool):
    running = Running(FORK, is_quick=is_quick)
    running.engine.enqueue_all("in", ['<x k="1"/>'])
    running.engine.enqueue_all("in", ['<m k="1"/>'])
    running.drain()
    assert running.bodies("out") == ['<d k="1">3</d>']
    assert running.store.slice("s", "1", running.store.snapshot()) == []


def test_what_joins_the_slice_of_a_conversation_meanwhile_is_seen_by_it():
    running = Running(FORK)
    running.pool.meanwhile = lambda: _ignore(running.engine.enqueue("in", '<x k="1"/>'))
    running.engine.enqueue_all("in", ['<m k="1"/>', '<m k="2"/>'])
    running.drain()
    assert sorted(running.bodies("out")) == ['<d k="1">3</d>', '<d k="2">2</d>']
    assert running.engine._rounds._views == []


def test_what_a_look_up_finds_meanwhile_is_seen_by_the_message_that_looks_it_up():
    text = """
    create queue in create queue known create queue out
    create rule ask for in
      if (/m) then do enqueue <n>{count(qs:queue("known")[/k/@id = qs:message()/m/@id])}</n> into out
    """
    running = Running(text)
    running.engine.enqueue("known", '<k id="1"/>')
    running.engine.enqueue_all("in", ['<m id="1"/>', '<m id="2"/>'])
    assert running.bodies("out") == ["<n>1</n>", "<n>0</n>"]
    assert running.bodies("in") == []
    running.pool.meanwhile = lambda: _ignore(running.engine.enqueue("known", '<k id="1"/>'))
    running.engine.enqueue_all("in", ['<m id="1"/>', '<m id="3"/>'])
    running.drain()
    assert running.bodies("out") == ["<n>1</n>", "<n>0</n>", "<n>2</n>", "<n>0</n>"]


@pytest.mark.parametrize("hops", [0, HOPS_MAX])
def test_an_error_of_a_message_that_makes_no_other_difference_is_not_seen_by_one_that_waits(
    policy: RoundPolicy, hops: int
):
    text = """
    create queue in errorqueue errors create queue errors create queue out create queue log create queue waits
    create rule copy for in if (/m) then do enqueue <n>{1 idiv /m}</n> into out
    create rule see for waits if (/w) then do enqueue <seen>{count(qs:queue("errors"))}</seen> into log
    """
    running = Running(text, policy)
    running.pool.meanwhile = lambda: _ignore(running.engine.append(running.engine.receive_all("waits", ["<w/>"]))[0])
    running.engine.enqueue_all("in", [IncomingMessage(f"<m>{hops}</m>", hops=hops)])
    running.drain()
    assert running.bodies("log") == ["<seen>0</seen>"]
    assert len(running.bodies("errors")) == 1


def test_descendants_that_wait_come_before_those_that_have_arrived_with_it(policy: RoundPolicy):
    text = """
    create queue first create queue later create queue urgent priority 5 create queue out
    create rule lead for first if (/m) then do enqueue <u/> into urgent
    create rule ask for urgent
      if (qs:property("demaq:id")) then do enqueue <waiting>{count(qs:queue("later"))}</waiting> into out
    create rule follow for later if (/m) then do enqueue <followed/> into out
    """
    running = Running(text, policy)
    evaluated = running.engine.arrivals.evaluate(
        [("first", IncomingMessage("<m/>")), ("later", IncomingMessage("<m/>"))], NOW
    )
    assert evaluated is not None
    evaluated.commit()
    running.drain()
    assert running.bodies("out") == ["<waiting>1</waiting>", "<followed/>"]


def test_of_messages_that_come_together_none_overtakes_descendants_of_another_one(policy: RoundPolicy):
    text = """
    create queue in create queue urgent priority 5 create queue out
    create rule lead for in if (/m) then (do enqueue <u>{string(/m)}</u> into urgent, do enqueue <n>{string(/m)}</n> into out)
    create rule ask for urgent if (qs:property("demaq:id")) then do enqueue <o>{string(/u)}</o> into out
    """
    running = Running(text, policy)
    numbers = running.engine.enqueue_all("in", ["<m>1</m>", "<m>2</m>"])
    running.drain()
    assert numbers == sorted(numbers)
    assert running.bodies("out") == ["<n>1</n>", "<o>1</o>", "<n>2</n>", "<o>2</o>"]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(
    "first",
    [IncomingMessage("<m>0</m>"), IncomingMessage("<m>0</m>", request="r"), IncomingMessage("<m>0</m>", hops=1)],
)
def test_messages_of_one_sender_leave_in_their_order_whether_they_are_stored_or_not(
    policy: RoundPolicy, first: IncomingMessage, workers: int
):
    running = Running(COPY, policy)
    running.pool.workers = workers
    numbers = running.engine.enqueue_all("in", ["<m>9</m>", first, "<m>1</m>", "<m>2</m>", "<m>3</m>"])
    running.drain()
    assert numbers == sorted(numbers)
    assert running.bodies("out") == ["<n>9</n>", "<n>0</n>", "<n>1</n>", "<n>2</n>", "<n>3</n>"]


def test_messages_of_one_sender_leave_in_their_order_if_what_one_has_read_changes():
    text = """
    create queue in create queue known create queue out
    create rule ask for in
      if (/m) then do enqueue <n>{count(qs:queue("known")[/k/@id = qs:message()/m/@id])}</n> into out
    create rule copy for in if (/x) then do enqueue <x/> into out
    """
    running = Running(text)
    running.pool.meanwhile = lambda: _ignore(running.engine.enqueue("known", '<k id="1"/>'))
    numbers = running.engine.enqueue_all("in", ['<m id="1"/>', "<x/>"])
    running.drain()
    assert numbers == sorted(numbers)
    assert running.bodies("out") == ["<n>1</n>", "<x/>"]


@pytest.mark.parametrize(("body", "is_woken"), [("<wait/>", True), ("<ask/>", True), ("<pass/>", False)])
def test_the_node_is_woken_if_a_descendant_waits(policy: RoundPolicy, body: str, is_woken: bool):
    text = """
    create queue in create queue later kind echo create queue asks create queue out
    create rule wait for in if (/wait) then do enqueue <t/> into later with timeout value 60 with target value "out"
    create rule lead for in if (/ask) then do enqueue <a/> into asks
    create rule pass for in if (/pass) then do enqueue <p/> into out
    create rule ask for asks if (qs:property("demaq:id")) then do enqueue <asked/> into out
    """
    running = Running(text, policy)
    evaluated = running.engine.arrivals.evaluate([("in", IncomingMessage(body))], NOW)
    assert evaluated is not None
    evaluated.commit()
    assert running.woken.is_set() == is_woken


def test_descendants_are_not_overtaken_if_a_commit_seemed_to_fail(monkeypatch: pytest.MonkeyPatch):
    text = """
    create queue in create queue asks create queue out
    create rule lead for in if (/ask) then do enqueue <a/> into asks
    create rule pass for in if (/pass) then do enqueue <passed/> into out
    create rule ask for asks if (qs:property("demaq:id")) then do enqueue <asked/> into out
    """
    running = Running(text)
    commit = running.store.commit

    def commit_and_fail(*args: Any) -> Any:
        commit(*args)
        raise StoreError("it is not known whether it was written")

    with monkeypatch.context() as patched:
        patched.setattr(running.store, "commit", commit_and_fail)
        with pytest.raises(StoreError):
            running.engine.enqueue_all("in", ["<ask/>"])
    running.engine.enqueue_all("in", ["<pass/>"])
    running.drain()
    assert running.bodies("out") == ["<asked/>", "<passed/>"]
