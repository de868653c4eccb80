"""What a message sees in a round is what it would see if messages were processed one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from demaq.engine.engine import Engine
from demaq.engine.round import SERIAL, THROUGHPUT
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.store import MemoryStore
from demaq.testing.lab import load_text
from tests.support.engines import local_engine
from tests.support.reference.eager_engine import EagerEngine

NOW = datetime(2026, 3, 1, tzinfo=UTC)

RESET_BY_NAME = """
create queue resets create queue makers create queue items create queue out
create property g as xs:string fixed queue {first} value /*/@g create slicing byG on g
create property k as xs:string fixed queue items value /*/@k create slicing byK on k
create rule end for resets if (/end) then do reset byK key "K"
create rule seen for byG if (qs:slice()/nothing) then do enqueue <never/> into out
create rule make for makers if (/make) then do enqueue <item k="K"/> into items
create rule join for byK if ({joins}) then do enqueue <joined/> into out
"""
ONE_SLICING = """
create queue in create queue out
create property k as xs:string queue in value /*/@k create slicing s on k
create rule make for in if (/make) then do enqueue <item k="K"/> into in
create rule end for s if (/end) then do reset
create rule slow for s if (/open and qs:slice()/nothing) then do enqueue <never/> into out
create rule join for s if (/item) then do enqueue <joined>{count(qs:slice())}</joined> into out
"""
ORDER = """
create queue in create queue old create queue new create queue asks create queue out
create property g as xs:string queue in value /*/@g create slicing s on g
create rule first for in if (/first) then do enqueue <a/> into old
create rule slow for s if (qs:slice()/nothing) then do enqueue <never/> into out
create rule second for in if (/second) then (do enqueue <b/> into new, do enqueue <ask/> into asks)
create rule ask for asks if (true()) then do enqueue <last>{ORDERED}</last> into out
"""
INDEX = """
create queue in create queue old create queue asks create queue out
create property g as xs:string queue in value /*/@g create slicing s on g
create rule put for in if (/put) then do enqueue <e>{/put/@k}</e> into old
create rule slow for s if (qs:slice()/nothing) then do enqueue <never/> into out
create rule ask for asks if (/ask) then
  do enqueue <found>{qs:queue("old")[/e/@k = qs:message()/ask/@k]/e/@k/string()}</found> into out
create rule then for in if (/put/@k = "2") then do enqueue <ask k="2"/> into asks
"""


def ordered(expression: str) -> str:
    return ORDER.replace("ORDERED", expression)


CASES = {
    "a join after a reset": (
        RESET_BY_NAME.format(first="resets", joins="qs:slice()/item"),
        [("resets", '<wait g="1"/>'), ("resets", '<end g="1"/>'), ("makers", "<make/>")],
        ["<joined/>"],
    ),
    "no join before a reset": (
        RESET_BY_NAME.format(first="makers", joins="/item"),
        [("makers", '<wait g="1"/>'), ("makers", '<make g="1"/>'), ("resets", "<end/>")],
        [],
    ),
    "a plain reset, and a message of the same slice created after it": (
        ONE_SLICING,
        [("in", '<open k="K"/>'), ("in", '<end k="K"/>'), ("in", "<make/>")],
        ["<joined>1</joined>"],
    ),
    "the last of two queues": (
        ordered('(qs:queue("old") | qs:queue("new"))[last()]/*/name()'),
        [("in", '<wait g="1"/>'), ("in", '<first g="1"/>'), ("in", "<second/>")],
        ["<last>b</last>"],
    ),
    "before the message itself": (
        ordered('exists(qs:queue("old")[. << qs:message()])'),
        [("in", '<wait g="1"/>'), ("in", '<first g="1"/>'), ("in", "<second/>")],
        ["<last>true</last>"],
    ),
    "two keys of one index": (
        INDEX.replace('k="2"/> into asks', 'k="2"/> into asks').replace(
            "[/e/@k = qs:message()/ask/@k]", '[/e/@k = (qs:message()/ask/@k, "1")]'
        ),
        [("in", '<wait g="1"/>'), ("in", '<put g="1" k="1"/>'), ("in", '<put k="2"/>')],
        ["<found>1 2</found>"],
    ),
    "a slice beside a queue": (
        ordered('(qs:queue("old") | qs:slice())[last()]/*/name()').replace("for asks", "for t")
        + "create property h as xs:string queue new, asks value 'h' create slicing t on h",
        [("in", '<wait g="1"/>'), ("in", '<first g="1"/>'), ("in", "<second/>")],
        ["<last>ask</last>", "<last>ask</last>"],
    ),
}


def run(program: str, arrivals: Sequence[tuple[str, str]], size: int, folds: bool) -> list[str]:
    compiled = compile_program(load_text(program))
    evaluator = SaxonEvaluator(compiled)
    store = MemoryStore()
    kind: type[Engine] = EagerEngine if folds else Engine
    policy = THROUGHPUT if folds else SERIAL
    engine = local_engine(evaluator, store, lambda: NOW, kind, messages_max=size, policy=policy)
    for queue, body in arrivals:
        engine.enqueue(queue, body)
    engine._round_messages = size
    while engine.run_round():
        pass
    return [message.body for message in store.queue("out", store.snapshot())]


@pytest.mark.parametrize(("size", "folds"), [(1, False), (2, False), (3, False), (50, False), (3, True), (50, True)])
@pytest.mark.parametrize("case", CASES)
def test_a_round_of_any_size_gives_what_one_message_at_a_time_gives(case: str, size: int, folds: bool) -> None:
    program, arrivals, expected = CASES[case]
    assert run(program, arrivals, size, folds) == expected
