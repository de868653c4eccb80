"""Conversations whose state no other message reads or changes are one step, with the same result."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from demaq.engine.engine import HOPS_MAX, Engine
from demaq.engine.intake import IncomingMessage
from demaq.engine.round import THROUGHPUT
from demaq.errors import MessageError, ProgramError, StillBusy
from demaq.evaluation.native.self_check import describe_outcome
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.snapshot_reader import Documents, SnapshotReader
from demaq.messages import PropertyValue
from demaq.store import MemoryStore
from demaq.store.protocol import Committed, Step
from demaq.testing import Lab
from demaq.testing.lab import load_text
from tests.saxon.evaluation.test_cascade import CONVERSATION
from tests.support.engines import local_engine
from tests.support.properties.applications import HOPS_MAX as FEW_HOPS
from tests.support.properties.applications import Application, applications, arrivals
from tests.support.properties.small_rounds import in_small_rounds
from tests.support.reference.comparing import body_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)

FOLDING = replace(THROUGHPUT, ahead=False)


class Folding:
    """An engine that folds, and what it has committed."""

    def __init__(self, program: str, hops_max: int = HOPS_MAX) -> None:
        compiled = compile_program(load_text(program))
        self.steps: list[Step] = []
        self.store = MemoryStore()
        self.engine = local_engine(
            SaxonEvaluator(compiled),
            self.store,
            lambda: NOW,
            hops_max=hops_max,
            observe=self._note,
            policy=FOLDING,
        )

    def _note(self, steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        self.steps += steps

    def run(self) -> int:
        done = 0
        while steps := self.engine.run_round():
            done += steps
        return done

    def bodies(self, queue: str) -> list[str]:
        return [message.body for message in self.store.queue(queue, self.store.snapshot())]


def test_a_conversation_is_one_step() -> None:
    folding = Folding(CONVERSATION)
    for n in range(5):
        folding.engine.enqueue("requests", f"<request><id>{n}</id></request>")
    assert folding.run() == 5 * 7
    assert len(folding.steps) == 5
    assert folding.bodies("answers") == [f"<answer><id>{n}</id></answer>" for n in range(5)]
    assert folding.store.slice_keys("request", None, 10) == []
    assert folding.bodies("requests") == []


def test_what_is_left_knows_where_it_comes_from() -> None:
    folding = Folding(CONVERSATION)
    folding.engine.enqueue("requests", "<request><id>1</id></request>")
    folding.run()
    [answer] = folding.store.stored("answers", 0, 10)
    assert answer.rule == "join"
    assert answer.origin == 1
    assert answer.hops == 3
    assert answer.trigger is not None
    assert 1 < answer.trigger < answer.seq
    # Request, six messages that came and went, and the answer; all but the last were processed.
    assert answer.seq == 1 + 1 + 6 * 2 + 1


def test_conversations_that_meet_are_committed_step_by_step() -> None:
    folding = Folding(CONVERSATION)
    for _ in range(2):
        folding.engine.enqueue("requests", "<request><id>same</id></request>")
    folding.run()
    assert len(folding.steps) > 2
    assert Counter(folding.bodies("answers")) == {"<answer><id>same</id></answer>": 2}


def test_what_stays_in_a_slice_is_stored() -> None:
    program = CONVERSATION.replace(", do reset", "")
    folding = Folding(program)
    folding.engine.enqueue("requests", "<request><id>1</id></request>")
    folding.run()
    assert len(folding.bodies("results")) == 3


def test_a_message_that_went_too_far_is_still_an_error() -> None:
    program = """
    create queue a create queue b create queue c create queue d
    create rule one for a if (true()) then do enqueue <b/> into b
    create rule two for b if (true()) then do enqueue <c/> into c
    create rule three for c if (true()) then do enqueue <d/> into d
    """
    for hops_max, left, errors in ((3, ["<d/>"], 0), (2, [], 1)):
        folding = Folding(program, hops_max)
        folding.engine.enqueue("a", "<a/>")
        folding.run()
        assert folding.bodies("d") == left
        assert len(folding.bodies("demaq:errors")) == errors


def test_a_failing_rule_makes_its_error_message_with_the_message_it_is_about() -> None:
    program = """
    create queue a create queue b create queue c
    create rule one for a if (true()) then do enqueue <b>7</b> into b
    create rule two for b if (true()) then do enqueue <c>{1 div (xs:integer(/b) - 7)}</c> into c
    """
    folding = Folding(program)
    folding.engine.enqueue("a", "<a/>")
    folding.run()
    [error] = folding.bodies("demaq:errors")
    assert "<initialMessage><b>7</b></initialMessage>" in error


def test_documents_made_in_one_go_are_in_the_order_in_which_they_were_made() -> None:
    program = """
    create queue in create queue parts create queue out
    create property k as xs:string queue parts value "k"
    create slicing s on k
    create rule split for in if (true()) then
      ((for $n in 1 to 3 return do enqueue <p>{$n}</p> into parts), do enqueue element p { 4 } into parts,
       let $five := <p>5</p> return do enqueue $five into parts)
    create rule join for s if (count(qs:slice()) = 5 and /p = 5) then
      (do enqueue <all>{qs:slice()/p/text()}</all> into out, do reset)
    """
    folding = Folding(program)
    folding.engine.enqueue("in", "<in/>")
    folding.run()
    assert folding.bodies("out") == ["<all>12345</all>"]


def test_a_rule_cannot_tell_what_was_just_made_from_what_was_stored() -> None:
    program = """
    declare copy-namespaces no-preserve, no-inherit;
    create queue a create queue b create queue out
    create rule one for a if (true()) then do enqueue <b xmlns:p="urn:p" p:x=""><c/></b> into b
    create rule two for b if (true()) then do enqueue
      <out>{base-uri(/), "|", sort(in-scope-prefixes(/b/c))}</out> into out
    """
    folding = Folding(program)
    folding.engine.enqueue("a", "<a/>")
    folding.engine.enqueue("b", '<b xmlns:p="urn:p" p:x=""><c/></b>')
    folding.run()
    stored, made = folding.bodies("out")
    assert made == stored


def test_a_message_that_is_left_does_not_wait_for_others_that_come_after_it() -> None:
    program = """
    create queue a create queue b create queue c create queue log create queue out
    create rule one for a if (true()) then (do enqueue <c/> into c, do enqueue <b/> into b)
    create rule two for b if (true()) then do enqueue <x/> into log
    create rule not-foreseen for c if (qs:property("demaq:id")) then
      do enqueue <n>{count(qs:queue("log"))}</n> into out
    """
    folding = Folding(program)
    folding.engine.enqueue("a", "<a/>")
    folding.run()
    assert folding.bodies("out") == ["<n>0</n>"]


@pytest.mark.parametrize("queue_of_c", ["create queue c", "create queue c priority 1"])
def test_a_message_that_is_left_at_the_end_is_no_hindrance(queue_of_c: str) -> None:
    program = f"""
    create queue a create queue b {queue_of_c} create queue out
    create rule one for a if (true()) then do enqueue <b/> into b
    create rule two for b if (true()) then do enqueue <c/> into c
    create rule not-foreseen for c if (qs:property("demaq:id")) then do enqueue <n/> into out
    """
    folding = Folding(program)
    folding.engine.enqueue("a", "<a/>")
    folding.run()
    assert len(folding.steps) == 2


@pytest.mark.parametrize("name", ["demaq:size", "demaq:created", "demaq:rule", "demaq:queue", "demaq:sender"])
def test_what_was_just_made_is_in_the_slices_of_what_the_system_knows(name: str) -> None:
    program = f"""
    create queue a create queue b create queue out
    create slicing s on {name}
    create rule one for a if (true()) then do enqueue <b/> into b
    create rule two for s if (/b) then do enqueue <n>{{count(qs:slice()[/b])}}</n> into out
    """
    folding = Folding(program)
    folding.engine.enqueue_all("a", [IncomingMessage("<a/>", inherited={"demaq:sender": PropertyValue.string("me")})])
    folding.run()
    assert folding.bodies("out") == ["<n>1</n>"]


class FoldingLab(Lab):
    def _start(self) -> Engine:
        rules = SaxonEvaluator(self._compiled)
        return local_engine(rules, self.store, self._clock, hops_max=self._hops_max, policy=FOLDING)


def left_in(lab: Lab, application: Application) -> dict[str, list[tuple[str, ...]]]:
    """What is there, but for the numbers of messages."""
    queues = {
        queue: [
            (body_of(m.body.replace("messageId", "x"), {}, application.failing_in_two_ways), str(m.rule))
            for m in lab.read_queue(queue)
        ]
        for queue in lab.program.queues
    }
    slices = {
        f"slices of {slicing}": [(key, str(count)) for key, count in lab.store.slice_keys(slicing, None, 1000)]
        for slicing in lab.program.slicings
    }
    return {**queues, **slices}  # type: ignore[dict-item]


@pytest.mark.slow
@settings(max_examples=max(5, settings().max_examples // 3))
@given(st.data())
def test_messages_one_at_a_time_lead_to_the_same_with_folding_and_without(data: Any) -> None:
    application = data.draw(applications())
    note(application.text)
    try:
        plain = Lab(application.text, hops_max=FEW_HOPS, pipeline="inline")
    except ProgramError:
        return
    with plain, FoldingLab(application.text, hops_max=FEW_HOPS) as folding, in_small_rounds():
        for event in data.draw(st.lists(arrivals(application), min_size=1, max_size=5)):
            note(str(event))
            for lab in (plain, folding):
                try:
                    lab.enqueue(event.queue, event.body, dict(event.properties))
                    lab.run_until_idle()
                except MessageError:
                    pass
                except StillBusy:  # each message leads to many others
                    return
            assert left_in(folding, application) == left_in(plain, application)


def test_outcomes_are_the_same_after_they_have_travelled() -> None:
    compiled = compile_program(load_text(CONVERSATION))
    rules, store, documents = SaxonEvaluator(compiled), MemoryStore(), Documents()
    engine = local_engine(rules, store, lambda: NOW)
    for name in ("1", "2", "2"):  # the first is folded, the others are not
        engine.enqueue("requests", f"<request><id>{name}</id></request>")
    messages = [documents.message(stored) for stored in store.pending(9)]
    result = rules.cascade(messages, SnapshotReader(store, store.snapshot(), documents), NOW, deep=True, fold=True)
    travelled = pickle.loads(pickle.dumps(result))
    for mine, theirs in zip(
        [*result.outcomes, *result.descendants], [*travelled.outcomes, *travelled.descendants], strict=True
    ):
        assert mine is not None
        assert describe_outcome(theirs) == describe_outcome(mine)
        for name in ("reads", "number", "key", "parent", "seen", "order", "members", "folded", "lost", "deferred"):
            assert getattr(theirs, name) == getattr(mine, name), name
    assert travelled.outcomes[0].folded is not None
    assert [outcome.folded for outcome in travelled.outcomes[1:]] == [None, None]
    assert any([outcome.seen for outcome in travelled.descendants])
