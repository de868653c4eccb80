"""Cascades: what messages lead to, evaluated without the store, and only ever a guess."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from demaq.engine.engine import Engine
from demaq.engine.round import RoundPolicy
from demaq.evaluation.cascade.conversations import Conversation, _Member
from demaq.evaluation.outcomes import StateReader
from demaq.evaluation.round_request import RoundResult
from demaq.evaluation.saxon.compiled import CompiledProgram, compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.messages import Message
from demaq.store import MemoryStore
from demaq.store.protocol import Committed, Elision, SequenceChanges, Step
from demaq.testing.lab import load_text
from tests.support.engines import local_engine

NOW = datetime(2026, 3, 1, tzinfo=UTC)

CONVERSATION = """
create queue requests create queue checks create queue results create queue answers
create property id as xs:string queue requests, checks, results value //id
create slicing request on id
create rule split for requests if (/request) then
  for $n in 1 to 3 return do enqueue <check n="{$n}">{//id}</check> into checks
create rule check for checks if (/check) then do enqueue <result>{/check/@n}{//id}</result> into results
create rule join for request if (count(qs:slice()/result) = 3) then
  (do enqueue <answer>{//id}</answer> into answers, do reset)
"""


class Counting(SaxonEvaluator):
    def __init__(self, compiled: CompiledProgram) -> None:
        super().__init__(compiled)
        self.rounds = 0

    def cascade(
        self,
        messages: Sequence[Message],
        reader: StateReader,
        now: datetime,
        deep: bool,
        fold: bool = False,
        paused: frozenset[str] = frozenset(),
        whole: frozenset[int] = frozenset(),
    ) -> RoundResult:
        self.rounds += 1
        return super().cascade(messages, reader, now, deep, fold, paused, whole)


class Commits(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.commits = 0

    def commit(
        self, steps: Sequence[Step], elide: Elision = False, changes: SequenceChanges | None = None
    ) -> list[Committed]:
        self.commits += 1
        return super().commit(steps, elide, changes)


def engine_for(program: str, elide: bool = False) -> tuple[Engine, Counting, Commits]:
    evaluator = Counting(compile_program(load_text(program)))
    store = Commits()
    return local_engine(evaluator, store, lambda: NOW, policy=RoundPolicy(elide=elide)), evaluator, store


def bodies(engine: Engine, queue: str) -> list[str]:
    return [message.body for message in engine.store.queue(queue, engine.store.snapshot())]


def test_whole_conversations_take_one_round_and_one_commit() -> None:
    engine, evaluator, store = engine_for(CONVERSATION)
    for n in range(20):
        engine.enqueue("requests", f"<request><id>{n}</id></request>")
    assert engine.run_round() == 20 * 7
    assert bodies(engine, "answers") == [f"<answer><id>{n}</id></answer>" for n in range(20)]
    assert evaluator.rounds == 1
    assert store.commits == 1
    assert engine.store.slice_keys("request", None, 10) == []


def test_what_comes_and_goes_within_a_round_never_reaches_the_store() -> None:
    engine, _, store = engine_for(CONVERSATION, elide=True)
    engine.enqueue("requests", "<request><id>1</id></request>")
    engine.run_round()
    assert [message.queue for message in store.stored(None, 0, 100)] == ["answers"]
    # The numbers are taken all the same.
    assert store.stored("answers", 0, 1)[0].seq > 10


def test_independent_messages_share_rounds_with_conversations() -> None:
    alone = "create queue notes create queue copies create rule copy for notes if (/note) then do enqueue <copy>{/note/@n}</copy> into copies"
    engine, evaluator, _ = engine_for(CONVERSATION + alone, elide=True)
    engine.policy = replace(engine.policy, fold=True)
    for n in range(20):
        engine.enqueue("requests", f"<request><id>{n}</id></request>")
        engine.enqueue("notes", f'<note n="{n}"/>')
    assert engine.run_round() == 20 * 7 + 20
    assert bodies(engine, "answers") == [f"<answer><id>{n}</id></answer>" for n in range(20)]
    assert bodies(engine, "copies") == [f'<copy n="{n}"/>' for n in range(20)]
    assert evaluator.rounds == 1


def test_a_cascade_leaves_no_cycles_for_the_garbage_collector() -> None:
    gc.collect()
    engine, _, _ = engine_for(CONVERSATION)
    for n in range(3):
        engine.enqueue("requests", f"<request><id>{n}</id></request>")
    # The collector is off in all tests (tests/conftest.py).
    engine.run_round()
    assert not [each for each in gc.get_objects() if isinstance(each, _Member | Conversation)]


def test_messages_found_by_several_keys_are_in_the_order_in_which_they_came() -> None:
    program = """
    create queue in create queue invoices create queue questions create queue answers
    create rule make for in if (/m) then (
      do enqueue <invoice><id>b</id></invoice> into invoices,
      do enqueue <invoice><id>a</id></invoice> into invoices,
      do enqueue <question><id>a</id><id>b</id></question> into questions)
    create rule look for questions if (/question) then
      do enqueue <found>{qs:queue("invoices")[/invoice/id = qs:message()/question/id]/invoice/id/text()}</found>
        into answers
    """
    engine, evaluator, _ = engine_for(program)
    engine.enqueue("in", "<m/>")
    assert engine.run_round() == 2
    assert evaluator.rounds == 1
    assert bodies(engine, "answers") == ["<found>ba</found>"]


def test_rules_that_ask_for_numbers_wait_until_there_are_any() -> None:
    program = """
    create queue a create queue b create queue c
    create rule one for a if (true()) then do enqueue <b/> into b
    create rule two for b if (true()) then do enqueue <c of="{qs:property("demaq:id")}"/> into c
    """
    engine, _, store = engine_for(program)
    engine.enqueue("a", "<a/>")
    while engine.run_round():
        pass
    [made] = store.stored("b", 0, 10)
    assert bodies(engine, "c") == [f'<c of="{made.seq}"/>']


def test_a_message_that_waits_outside_the_round_is_not_overtaken() -> None:
    program = """
    create queue a create queue b create queue log
    create rule one for a if (true()) then do enqueue <b>{/a/text()}</b> into b
    create rule two for b if (true()) then
      do enqueue <seen by="{/b}" a="{count(qs:queue("a"))}"/> into log
    """
    engine, _, _ = engine_for(program)
    engine.round_messages_max = 2
    for n in range(5):
        engine.enqueue("a", f"<a>{n}</a>")
    while engine.run_round():
        pass
    assert bodies(engine, "log") == [f'<seen by="{n}" a="0"/>' for n in range(5)]


def test_the_most_urgent_of_what_is_made_goes_first() -> None:
    program = """
    create queue a create queue urgent priority 9 create queue slow priority -9 create queue log
    create rule one for a if (true()) then (
      do enqueue <s>{string(/a)}</s> into slow, do enqueue <u>{string(/a)}</u> into urgent)
    create rule two for urgent if (true()) then do enqueue . into log
    create rule three for slow if (true()) then do enqueue . into log
    create rule four for a if (true()) then do enqueue . into log
    """
    engine, _, _ = engine_for(program)
    for n in range(2):
        engine.enqueue("a", f"<a>{n}</a>")
    while engine.run_round():
        pass
    assert bodies(engine, "log") == ["<a>0</a>", "<u>0</u>", "<a>1</a>", "<u>1</u>", "<s>0</s>", "<s>1</s>"]


def test_a_chain_that_never_ends_leaves_room_for_others() -> None:
    program = "create queue a create rule r for a if (true()) then do enqueue <n>{. + 1}</n> into a"
    engine, _, _ = engine_for(program)
    engine.enqueue("a", "<n>0</n>")
    done = engine.run_round()
    assert 1 <= done < 10_000
    assert engine.store.pending(1)


@pytest.mark.slow
def test_a_recursion_without_end_is_an_error_of_its_rule_alone() -> None:
    program = """
    declare function local:down($n) { 1 + local:down($n + 1) };
    create queue a create queue b create queue c
    create rule one for a if (true()) then do enqueue <b>{string(/a)}</b> into b
    create rule endless for b if (/b = 1) then
      let $f := function($f) { 1 + $f($f) } return do enqueue <c>{$f($f)}</c> into c
    create rule down for b if (/b = 2) then do enqueue <c>{local:down(1)}</c> into c
    create rule condition for b if (local:down(if (/b = 3) then 1 else 2) = 0) then do enqueue <c/> into c
    create rule fine for b if (true()) then do enqueue <c>{string(/b)}</c> into c
    """
    engine, _, store = engine_for(program)
    for n in range(4):
        engine.enqueue("a", f"<a>{n}</a>")
    while engine.run_round():
        pass
    assert bodies(engine, "c") == [f"<c>{n}</c>" for n in range(4)]
    failed = [message.rule for message in store.stored("demaq:errors", 0, 100)]
    assert sorted(map(str, failed)) == ["condition"] * 4 + ["down", "endless"]
