"""Queues of which some rules are native and others are Saxon's: outcomes are those of Saxon alone.

Programs are drawn: rules that are native or not, in their conditions or in their actions, on queues and slicings, with
state and without, few or so many that they are picked, and some that fail on some messages.

    MIXED_QUEUES=2000 ./test tests/saxon/properties/test_mixed_queues.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from demaq.compiler.plan import Index
from demaq.documents import Document, parse_document
from demaq.errors import MessageError, ProgramError
from demaq.evaluation.native.native_rules import LeftRules
from demaq.evaluation.native.native_settings import NativeSettings
from demaq.evaluation.native.self_check import SelfCheck, describe_outcome
from demaq.evaluation.outcomes import AskedMessage, ExpectedReads, Outcome, Reads
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.memory_state import MemoryState
from demaq.messages import Message
from demaq.testing.lab import load_text
from tests.saxon.properties.test_native_grammar import STATEMENTS, Grammar, document
from tests.support.drawing import draw_until, run_seed
from tests.support.native import saxon
from tests.support.programs import NOW

PROGRAMS = 60
MESSAGES = 8
CASCADES = 2
"""So many messages are evaluated with all that follows from them."""
MUST_OCCUR = (
    "messages with native and Saxon's rules that fire",
    "messages that Saxon is not asked about because of filters",
    "messages with a rule that falls back while another one does not",
    "messages of many rules that are picked natively",
    "errors",
    "errors of Saxon's rules on messages on which a native rule fires",
    "reads of Saxon's rules",
    "reads of native rules",
    "slicing rules that fire",
    "native results that were checked",
)


@pytest.mark.draws
def test_outcomes_are_saxons_whatever_rules_share_a_queue():
    seen: Counter[str] = Counter()
    seed = run_seed()
    for _ in draw_until(lambda: all([seen[what] for what in MUST_OCCUR]), PROGRAMS, "MIXED_QUEUES"):
        try:
            compare(seed, seen)
        except ProgramError:  # what was drawn has no meaning
            seen["programs without meaning"] += 1
        seed += 1
    print(dict(seen))
    assert all([seen[what] for what in MUST_OCCUR]), seen


def compare(seed: int, seen: Counter[str]) -> None:
    random = Random(seed)
    text = f"{STATEMENTS}\n{draw_rules(random)}"
    compiled = compile_program(load_text(text), saxon())
    check = SelfCheck(NativeSettings(check_every=1))
    mixed, plain = Watched(compiled, self_check=check), SaxonEvaluator(compiled, native=False)
    reports: list[str] = []
    mixed.health.report = lambda report: reports.append(f"{report}\n{report.native}\n{report.saxon}")
    state = MemoryState(plain, {"bykey": "key"}, NOW)
    state.add_to_collection("k", parse_document(document(random)))
    arrived = draw_messages(random, state)
    mixed.make_nodes([message for message in arrived if random.randrange(3) == 0])
    found = mixed.evaluate(arrived, state, NOW)
    expected = plain.evaluate(arrived, state, NOW)
    for message, mine, theirs in zip(arrived, found, expected, strict=True):
        said = f"seed {seed}\n{text}\n{message.document.text}\nonly rule: {message.only_rule}"
        assert describe_outcome(mine) == describe_outcome(theirs), said
        assert [error.at for error in mine.errors] == [error.at for error in theirs.errors], said
        assert mine.members == theirs.members, said
        [again] = mixed.evaluate([message], OnlyRead(state, mine.reads), NOW)
        assert describe_outcome(again) == describe_outcome(mine), f"it has read more than it says\n{said}"
        count(seen, mixed, message, mine)
    whole = plain.cascade(arrived[:CASCADES], state, NOW, deep=True)
    others = mixed.cascade(arrived[:CASCADES], state, NOW, deep=True)
    assert described(others.outcomes) == described(whole.outcomes), f"seed {seed}\n{text}"
    assert described(others.descendants) == described(whole.descendants), f"seed {seed}\n{text}"
    while len(check):
        mixed.check()
    seen["native results that were checked"] += check.checked
    assert not reports, f"seed {seed}\n{text}\n" + "\n".join(reports)


class Watched(SaxonEvaluator):
    """Notes what native rules have left to Saxon, by message."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.left: dict[int, list[str] | None] = {}

    def _run_native(self, name: str, asked: Sequence[AskedMessage], *others: Any) -> LeftRules | None:
        left = super()._run_native(name, asked, *others)
        for number, each in enumerate(asked):
            self.left[each.message.seq] = None if left is None else left.get(number, [])
        return left


def draw_rules(random: Random) -> str:
    grammar = Grammar(random)
    found: list[str] = []
    for number in range(random.choice([2, 3, 4, 9])):
        grammar.slicing = random.randrange(3) == 0
        target = "bykey" if grammar.slicing else "q"
        condition, actions = grammar.condition(2), grammar.actions(2)
        match random.randrange(12):
            case 0:
                condition = f"{condition} and {saxons(grammar.condition(1))}"
            case 1:
                condition = f"{saxons(condition)} and {grammar.condition(1)}"
            case 2:
                condition = f"//{grammar.name()}[{saxons(grammar.condition(1, 'element'))}]"
            case 3:
                failing = saxons(f"xs:integer(@{random.choice('ki')}) lt 3")
                condition = f"//{grammar.name()}[{failing}]/{random.choice(['a', 'b', '@k', '@i'])}"
            case 4 | 7:
                made = f"do enqueue <o>{{ {saxons(grammar.elements(1))} }}</o> into {random.choice('oqs')}"
                actions = random.choice([made, f"({actions}, {made})"])
            case 5:
                number_of = random.choice(["(//a)[1]/@k", "(//b)[1]", "(//c)[1]/@i"])
                condition = f"{condition} and xs:integer({number_of}) lt 3"
            case 6:
                made = 'do enqueue <o>{ if (//b) then error(QName("urn:e", "e:own"), "no") else 1 }</o> into o'
                actions = random.choice([made, f"({actions}, {made})"])
        if random.randrange(3) == 0:
            condition = f"//{grammar.name()} and {condition}"
        elif random.randrange(3) == 0:
            node = random.choice([f"//{grammar.name()}", f"//{grammar.name()}/@k", "/r/@k"])
            condition = f"{node} = {random.choice([grammar.literal(), f'({grammar.literal()}, {grammar.literal()})'])}"
        found.append(f"create rule r{number} for {target} if ({condition}) then {actions}")
    return "\n".join(found)


def saxons(expression: str) -> str:
    """Return an expression with the same value that is not native."""
    return f'map {{ "v": ({expression}) }}?v'


def draw_messages(random: Random, state: MemoryState) -> list[Message]:
    arrived: list[Message] = []
    while len(arrived) < MESSAGES:
        try:
            state.add("s", parse_document(document(random)))
            message = state.add("q", parse_document(document(random)))
        except MessageError:  # a property has several values
            continue
        if random.randrange(8) == 0:
            message = replace(message, only_rule=f"r{random.randrange(2)}")
        arrived.append(message)
    return arrived


class OnlyRead:
    """State without everything that an outcome says it has not read."""

    def __init__(self, state: MemoryState, reads: Reads) -> None:
        self._state = state
        self._reads = reads

    def queue(self, name: str) -> Sequence[Message]:
        return self._state.queue(name) if name in self._reads.queues else []

    def slice(self, slicing: str, key: str) -> Sequence[Message]:
        return self._state.slice(slicing, key) if (slicing, key) in self._reads.slices else []

    def lookup(self, index: Index, entries: Sequence[str]) -> Sequence[Message]:
        return self._state.lookup(index, [each for each in entries if (index.number, each) in self._reads.entries])

    def find(self, index: Index, entries: Sequence[str]) -> Collection[int]:
        return [message.seq for message in self.lookup(index, entries)]

    def collection(self, name: str) -> Sequence[Document]:
        return self._state.collection(name) if name in self._reads.collections else []

    def expect(self, reads: ExpectedReads) -> None:
        pass


def described(outcomes: Any) -> list[Any]:
    return [None if outcome is None else describe_outcome(outcome) for outcome in outcomes]


def count(seen: Counter[str], mixed: Watched, message: Message, outcome: Outcome) -> None:
    assert mixed.native is not None
    queue = mixed.native.queue("q")
    native = {rule.name for rule in queue.rules if rule.body is not None}
    left = mixed.left.get(message.seq)
    if left is None:
        seen["messages that are Saxon's alone"] += 1
        return
    rules = {rule.name: rule for rule in queue.rules}
    fired = set(outcome.fired)
    failed = {error.rule for error in outcome.errors}
    seen["messages with native and Saxon's rules that fire"] += bool(fired & native) and bool(fired - native)
    seen["messages that Saxon is not asked about because of filters"] += not left and not queue.is_native
    fallen = native & set(left)
    seen["messages with a rule that falls back while another one does not"] += bool(fallen) and bool(native - fallen)
    seen["messages of many rules that are picked natively"] += queue.picker is not None
    seen["errors"] += len(failed)
    seen["errors of Saxon's rules on messages on which a native rule fires"] += bool(failed - native and fired & native)
    for name in fired:
        reader = "native" if name in native and name not in left else "Saxon's"
        seen[f"reads of {reader} rules"] += rules[name].plan.needs_state
        seen["slicing rules that fire"] += rules[name].slicing is not None
