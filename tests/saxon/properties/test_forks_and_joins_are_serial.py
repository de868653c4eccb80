"""Requests that fork into checks and are joined by a decision, as they arrive: what is committed is serial.

Most of these conversations end with the transaction in which they arrive, so that only their effects are stored. Others
of the same key come at once, later or meanwhile, look-ups find what has just come, and some rules are left to Saxon.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from demaq.evaluation import quick_evaluator
from demaq.evaluation.arrival_request import Arriving
from demaq.evaluation.native.ledger import NativeLedger
from demaq.evaluation.native.native_settings import NativeSettings
from demaq.evaluation.quick_evaluator import OwnShare, QuickEvaluator
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.testing.lab import load_text
from tests.saxon.properties.test_meetings_are_serial import Run
from tests.support.drawing import draw_until, example_count, run_seed
from tests.support.native import saxon
from tests.support.properties.meetings import History

PROGRAMS = example_count(12, "FORK_PROGRAMS")
HISTORIES = 6
"""For each program: compiling one takes its time."""
NEEDED = (
    *("passed", "conversations that passed", "effects that did not hold", "fused", "arrivals meanwhile", "resets"),
    *("evaluated by the node", "shared with the node"),
)


def draw_application(rng: random.Random) -> str:
    checks = rng.choice((1, 2, 2, 3))
    counted = rng.choice(("", "", '{count(qs:queue("known")[/k/@k = qs:message()/*/@k])}'))
    left = rng.choice(("", "", " idiv 1"))
    lines = [
        f"create queue in {rng.choice(('', '', 'priority 5'))} create queue known create queue out create queue log",
        *[f"create queue c{number} {rng.choice(('', '', 'priority 3'))}" for number in range(checks)],
        "create property k as xs:string queue in value /*/@k",
        "create slicing s on k",
        f"create rule fork for in if (/m) then ({', '.join([_enqueue('c', number, '') for number in range(checks)])})",
    ]
    for number in range(checks):
        result = f'do enqueue <r{number} k="{{/c/@k}}">{counted}</r{number}> into in'
        log = ', do enqueue <l k="{/c/@k}"/> into log' if rng.random() < 0.4 else ""
        lines.append(f"create rule check{number} for c{number} if (/c) then ({result}{log})")
    joined = " and ".join([f"qs:slice()/r{number}" for number in range(checks)])
    lines.append(
        f"create rule decide for s if (qs:slice()/m and {joined}) then ("
        f'do enqueue <d k="{{qs:slicekey()}}">{{count(qs:slice()){left}}}</d> into out, do reset)'
    )
    if rng.random() < 0.5:
        lines.append("create rule note for in if (/x) then do enqueue <n>{1 idiv string-length(/x)}</n> into log")
    if rng.random() < 0.3:
        lines.append('create rule again for known if (/k/@again) then do enqueue <x k="{/k/@k}">z</x> into in')
    return "\n".join(lines)


def _enqueue(kind: str, number: int, content: str) -> str:
    return f'do enqueue <{kind} k="{{/m/@k}}">{content}</{kind}> into {kind}{number}'


def draw_arrival(rng: random.Random, keys: int) -> tuple[str, str]:
    key = rng.randrange(keys)
    if rng.random() < 0.15:
        again = rng.choice(("", "", ' again="1"'))
        return "known", f'<k k="{key}"{again}/>'
    if rng.random() < 0.15:
        return "in", f'<x k="{key}">{rng.choice(("", "x"))}</x>'
    return "in", f'<m k="{key}"/>'


def draw_history(rng: random.Random) -> History:
    keys = rng.choice((2, 5, 20, 20, 50))
    bursts = [[draw_arrival(rng, keys) for _ in range(rng.randrange(1, 9))] for _ in range(rng.randrange(1, 6))]
    meanwhile: list[tuple[str, ...]] = []
    for _ in range(rng.randrange(0, 5)):
        meanwhile.append(rng.choice((("nothing",), ("arrive", *draw_arrival(rng, keys)))))
    return History(bursts=bursts, meanwhile=meanwhile)


def _let_node_evaluate(run: Run, rules: SaxonEvaluator) -> None:
    """Evaluate messages without a worker, or a share of them, if rules are quick."""
    settings = NativeSettings(check_every=0)
    run.engine.arrivals._quick = quick = QuickEvaluator(rules.plan, run.store, NativeLedger(), settings)
    choose = quick.choose

    def count_chosen(messages: Sequence[Arriving], workers: int = 0) -> OwnShare:
        share = choose(messages, workers)
        run.counts["evaluated by the node"] += share.here == len(messages)
        run.counts["shared with the node"] += 0 < share.here < len(messages)
        return share

    quick.choose = count_chosen  # type: ignore[method-assign]


@pytest.mark.draws
def test_forks_and_joins_commit_what_one_message_at_a_time_does(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(quick_evaluator, "MESSAGES_MAX", 1)  # so that a few are many
    monkeypatch.setattr(quick_evaluator, "ASKING_MESSAGES", 0)
    seed = run_seed()
    print(f"DEMAQ_TEST_SEED={seed}")
    counts: Counter[str] = Counter()
    for number, _ in enumerate(draw_until(lambda: all([counts[each] for each in NEEDED]), PROGRAMS, "FORK_PROGRAMS")):
        rng = random.Random(f"{seed} {number}")
        text = draw_application(rng)
        rules = SaxonEvaluator(compile_program(load_text(text), saxon()))
        for _ in range(HISTORIES):
            history = draw_history(rng)
            run = Run(rules, rules, history, rng, counts)
            if rng.random() < 0.4:
                _let_node_evaluate(run, rules)
            try:
                run.run()
            except AssertionError as error:
                shown = f"{text}\n{history}\n{run.settings}"
                raise AssertionError(f"DEMAQ_TEST_SEED={seed}, program {number}: {error}\n{shown}") from error
    print(dict(counts))
