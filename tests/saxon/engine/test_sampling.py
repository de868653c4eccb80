"""Conversations that are kept as examples: whole, as many as asked for, and nothing of the others."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from demaq.engine.engine import Engine
from demaq.engine.intake import IncomingMessage
from demaq.engine.message_factory import MessageFactory
from demaq.engine.round import THROUGHPUT, RoundPolicy
from demaq.engine.sampling import Sampler
from demaq.errors import MessageError
from demaq.evaluation.local_evaluator import LocalEvaluator
from demaq.evaluation.round_request import PropertyRequest, PropertyResult
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.workers.receiver import TakesLong
from demaq.messages import PropertyValue
from demaq.quantities import SampleRate, sample_rate_of
from demaq.store import MemoryStore
from demaq.store.protocol import NewMessage
from demaq.system_properties import ERROR_LEVEL, SAMPLED
from demaq.testing.lab import load_text
from tests.support.drawing import draw_until

PROGRAM = """
create queue in create queue work create queue both create queue later kind echo create queue late
create queue failed create queue told kind mailbox
create property id as xs:string queue both value string(/*/@id)
create slicing pairs on id
create rule first for in if (/m) then (
  do enqueue <w id="{/m/@id}" n="{/m/@n}"/> into work, do enqueue <one id="{/m/@id}"/> into both)
create rule second for work errorqueue failed if (xs:integer(/w/@n) gt 0) then
  (do enqueue <w id="{/w/@id}" n="{/w/@n - 1}"/> into work)
create rule third for work errorqueue failed if (/w/@n = "0") then do enqueue <two id="{/w/@id}"/> into both
create rule broken for work errorqueue failed if (/w/@n = "2") then do enqueue <x>{1 idiv 0}</x> into both
create rule join for pairs if (qs:slice()/one and qs:slice()/two) then (
  do enqueue <t id="{qs:slicekey()}"/> into later with timeout value xs:dayTimeDuration("PT1M") with target value "late",
  do reset)
create rule end for late if (/t) then do enqueue <done id="{/t/@id}"/> into told
create rule see for failed if (/error) then do enqueue <seen id="{/error/initialMessage/*/@id}"/> into told
"""


class Running:
    def __init__(self, policy: RoundPolicy, rate: SampleRate | None) -> None:
        rules = SaxonEvaluator(compile_program(load_text(PROGRAM)))
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        self.store = MemoryStore(now=lambda: self.now)
        local = LocalEvaluator(rules, self.store)
        self.engine = Engine(
            *(rules.compiled.plan, local, self.store, lambda: self.now), receiver=rules, policy=policy, arrivals=local
        )
        self.engine.factory.sampler = None if rate is None else Sampler(rate)

    def run(self) -> None:
        while self.engine.run_round():
            pass

    def conversations(self) -> dict[str, Counter[tuple[str, str | None, str]]]:
        """Return all stored messages, without the numbers in errors, by the id in the first one's body."""
        found: dict[str, Counter[tuple[str, str | None, str]]] = {}
        for message in self.store.stored(None, 0, 100_000):
            key = message.body.partition('id="')[2].partition('"')[0]
            body = "error" if message.queue == "failed" else message.body
            found.setdefault(key, Counter())[(message.queue, message.rule, body)] += 1
        return found


def test_chosen_conversations_are_whole_and_of_others_only_what_is_not_done(chance: random.Random):
    met = Counter({"fused": 0, "elided": 0})
    for _ in draw_until(lambda: all(met.values()), 8, "SAMPLES"):
        of = chance.randint(1, 6)
        rate = SampleRate(chance.randint(1, of), of)
        everything = Running(replace(THROUGHPUT, elide=False, fold=False), None)
        sampled = Running(replace(THROUGHPUT, elide=SAMPLED), rate)
        plain = Running(THROUGHPUT, None)
        count = 0
        for _ in range(chance.randint(1, 6)):
            bodies = [f'<m id="{count + n}" n="{chance.randint(0, 3)}"/>' for n in range(chance.randint(1, 9))]
            count += len(bodies)
            waits = chance.random() < 0.5
            for each in (everything, sampled, plain):
                each.engine.enqueue_all("in", [IncomingMessage(body) for body in bodies])
                if waits:
                    each.run()
        for each in (everything, sampled, plain):
            each.run()
            each.now += timedelta(hours=1)
            while each.engine.fire_timers():
                each.run()
        met["fused"] += sampled.engine.arrivals.processed

        whole, found, least = everything.conversations(), sampled.conversations(), plain.conversations()
        kept = {key for key in found if any(queue == "in" for queue, _, _ in found[key])}
        assert len(kept) == sum(1 for n in range(count) if n * rate.chosen % rate.of < rate.chosen)
        for key in whole:
            assert found[key] == (whole[key] if key in kept else least[key])
        met["elided"] += sum((whole[key] - found[key]).total() for key in whole)
        marked = {m.origin for m in sampled.store.stored(None, 0, 100_000) if SAMPLED in m.properties}
        assert len(marked) == len(kept)
    assert all(met.values()), met


def test_each_queue_has_its_examples_from_its_first_message_on():
    sampler = Sampler(SampleRate(1, 3))
    chosen = [
        [SAMPLED in sampler.choose(queue, IncomingMessage("<m/>")).inherited for queue in ("a", "b")] for _ in range(7)
    ]
    assert chosen == [[n % 3 == 0] * 2 for n in range(7)]


def make_checked(count: int) -> list[NewMessage]:
    """Messages as `demaq load` has checked them elsewhere."""
    rules = SaxonEvaluator(compile_program(load_text(PROGRAM)))
    now = datetime(2026, 3, 1, tzinfo=UTC)
    sent = [IncomingMessage(f'<m id="{n}" n="1"/>', request=f"load {n}") for n in range(count)]
    found = MessageFactory(rules.compiled.plan, rules).receive_all("in", sent, now)
    return [each for each in found if isinstance(each, NewMessage)]


def test_messages_that_were_checked_elsewhere_are_among_the_chosen_ones():
    running = Running(replace(THROUGHPUT, elide=SAMPLED), SampleRate(1, 4))
    checked = make_checked(10)
    assert running.engine.append_checked(checked[:5]) == [True] * 5
    running.run()
    assert running.engine.append_checked(checked[5:]) == [True] * 5
    running.run()
    kept = [message.body for message in running.store.stored("in", 0, 99)]
    assert kept == ['<m id="0" n="1"/>', '<m id="4" n="1"/>', '<m id="8" n="1"/>']
    whole = running.conversations()["4"]
    assert {queue for queue, _, _ in whole} == {"in", "work", "both", "later"}


def test_what_has_a_mark_or_is_an_error_is_not_counted():
    sampler = Sampler(SampleRate(1, 2))
    [plain] = make_checked(1)
    error = replace(plain, properties={ERROR_LEVEL: PropertyValue.string("queue")})
    caused = replace(plain, trigger=1)
    [marked] = sampler.choose_checked([plain])
    assert SAMPLED in marked.properties
    assert sampler.choose_checked([error, caused, marked]) == [error, caused, marked]
    assert [SAMPLED in each.properties for each in sampler.choose_checked([plain, plain])] == [False, True]


def test_messages_that_could_not_be_evaluated_on_arrival_are_chosen_all_the_same(monkeypatch: pytest.MonkeyPatch):
    running = Running(replace(THROUGHPUT, elide=SAMPLED), SampleRate(1, 2))
    monkeypatch.setattr(running.engine.arrivals, "_begin", lambda: False)
    for number in range(6):
        running.engine.enqueue_all("in", [IncomingMessage(f'<m id="{number}" n="0"/>')])
        running.run()
    assert [message.body[7:8] for message in running.store.stored("in", 0, 99)] == ["0", "2", "4"]


class LeavesFirst:
    """A PropertyEvaluator that leaves the first message of each call to one that has the time."""

    def __init__(self, rules: SaxonEvaluator) -> None:
        self._rules = rules

    def compute_properties(self, arrivals: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        return [TakesLong(), *self._rules.compute_properties(arrivals)[1:]]

    def migrate_properties(self, requests: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        return self._rules.migrate_properties(requests)


def test_a_message_that_takes_long_to_check_is_counted_once(monkeypatch: pytest.MonkeyPatch):
    rules = SaxonEvaluator(compile_program(load_text(PROGRAM)))
    factory = MessageFactory(rules.compiled.plan, rules)
    monkeypatch.setattr(factory, "_compute_natively", lambda queue, document: None)
    factory.sampler = Sampler(SampleRate(1, 2))
    now, chosen = datetime(2026, 3, 1, tzinfo=UTC), []
    for number in range(6):
        sent = [IncomingMessage(f'<one id="{number}"/>')]
        [first] = factory.receive_all("both", sent, now, LeavesFirst(rules))
        assert isinstance(first, TakesLong)
        [again] = factory.receive_all("both", sent, now)
        assert isinstance(again, NewMessage)
        chosen.append(SAMPLED in again.properties)
    assert chosen == [True, False] * 3


@pytest.mark.parametrize("text", ["", "1", "1/", "/2", "0/5", "2/1", "1/1.5", "-1/2", "1/2/3", "1/0", " 1/2"])
def test_what_is_no_share_is_refused(text: str):
    with pytest.raises(ValueError, match="is no share such as 1/100"):
        sample_rate_of(text)


def test_a_share_may_be_all():
    assert sample_rate_of("1/1") == SampleRate(1, 1)
    assert sample_rate_of("3/100") == SampleRate(3, 100)
