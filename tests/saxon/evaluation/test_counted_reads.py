"""What a rule only counts is not read, and counting index entries gives what evaluating the predicate does."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from demaq.compiler.planner import make_plan
from demaq.engine.round import THROUGHPUT, RoundPolicy
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.store import MemoryStore
from demaq.store.protocol import StoredMessage
from demaq.testing.lab import load_text
from tests.support.drawing import example_count, run_seed
from tests.support.engines import local_engine

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PROGRAMS = example_count(40, "COUNTED_PROGRAMS")
VALUES = ("a", "A", "", " a", "1", "01", "1.0", "NaN", "INF", "é", "a b")
HEAD = "create queue in create queue items create queue out "

COUNTED = (
    "count({read})",
    "if ({read}) then 'y' else 'n'",
    "string(exists({read}))",
    "string(empty({read}))",
    "string(not({read}))",
    "let $found := {read} return (count($found), if ($found) then 'y' else 'n')",
    "let $key := {key} return count(qs:queue('items')[{path} = $key])",
)
NOT_COUNTED = (
    "count({read}/item)",
    "for $key in {key} return count(qs:queue('items')[{path} = $key])",
    "for $key in {key} let $other := $key return count(qs:queue('items')[{path} = $other])",
    "let $found := {read} return (count($found), string-join($found//k, ';'))",
    "count(qs:queue('items')[{path} = {key} and //n])",
    "count(qs:queue('items')[{path} = {key}][//n])",
    "count(qs:queue('items')[{path}[. != 'a'] = {key}])",
    "count(qs:queue('items')[{path} = {key} ! number()])",
    "count(({read}, {read}))",
)
PATHS = ("/item/k", "//k", "/item/@a", "item/k", ".//k")
KEYS = ("qs:message()//k", "qs:message()/m/@a", "'a'", "string(qs:message()/m/@a)")


def program(expression: str) -> str:
    return f"{HEAD} create rule r for in if (/m) then do enqueue <n>{{{expression}}}</n> into out"


def is_counted(expression: str) -> bool:
    plan = make_plan(load_text(program(expression)))
    return any([read.is_counted for read in plan.rules["r"].keyed])


@pytest.mark.parametrize("form", COUNTED)
@pytest.mark.parametrize("path", PATHS)
def test_the_plan_says_what_is_only_counted(form: str, path: str) -> None:
    for key in KEYS:
        read = f"qs:queue('items')[{path} = {key}]"
        assert is_counted(form.format(read=read, path=path, key=key)), (form, path, key)


@pytest.mark.parametrize("form", NOT_COUNTED)
def test_what_needs_more_than_the_key_or_the_number_is_read(form: str) -> None:
    key = "qs:message()//k"
    read = f"qs:queue('items')[//k = {key}]"
    assert not is_counted(form.format(read=read, path="//k", key=key))


def test_nothing_is_read_that_is_only_counted() -> None:
    class Counting(MemoryStore):
        read = 0

        def lookups(self, *args: object) -> dict[str, list[StoredMessage]]:
            self.read += 1
            return super().lookups(*args)  # type: ignore[arg-type]

    store = Counting()
    text = program("count(qs:queue('items')[//k = qs:message()//k])")
    engine = local_engine(SaxonEvaluator(compile_program(load_text(text))), store, lambda: NOW)
    for _ in range(3):
        engine.enqueue("items", "<item><k>a</k></item>")
    engine.enqueue("in", "<m><k>a</k></m>")
    engine.run_round()
    assert [message.body for message in store.stored("out", 0, 9)] == ["<n>3</n>"]
    assert store.read == 0


def run(text: str, native: bool, policy: RoundPolicy, arrivals: list[tuple[str, str]]) -> tuple[list[str], int]:
    rules = SaxonEvaluator(compile_program(load_text(text)), native=native)
    store = MemoryStore()
    engine = local_engine(rules, store, lambda: NOW, policy=policy)
    for queue, body in arrivals:
        engine.enqueue(queue, body)
    while engine.run_round():
        pass
    return [message.body for message in store.stored("out", 0, 1000)], rules.health.answers


@pytest.mark.draws
def test_counting_entries_is_what_saxon_does_with_messages() -> None:
    """Items come and go in the same rounds as the messages that count them."""
    rng = random.Random(run_seed())
    answers = counted = 0
    for _ in range(PROGRAMS):
        path, key, form = rng.choice(PATHS), rng.choice(KEYS), rng.choice((*COUNTED, *COUNTED, *NOT_COUNTED))
        expression = form.format(read=f"qs:queue('items')[{path} = {key}]", path=path, key=key)
        text = program(expression) + (
            " create rule more for in if (/m/more) then do enqueue <item a='{/m/@a}'>{//k}</item> into items"
        )
        if rng.random() < 0.5:
            text += " create rule gone for items if (/item/gone) then do enqueue <n>gone</n> into out"
        counted += is_counted(expression)
        arrivals = [draw_arrival(rng) for _ in range(rng.randrange(2, 12))]
        policy = rng.choice((RoundPolicy(), THROUGHPUT, RoundPolicy(elide=True)))
        policy = RoundPolicy(elide=policy.elide, exact=policy.exact, fold=policy.fold)
        mine, native = run(text, True, policy, arrivals)
        assert mine == run(text, False, policy, arrivals)[0], (text, arrivals, policy)
        answers += native
    assert counted, "nothing was only counted"
    assert answers, "no rule was native"


def draw_arrival(rng: random.Random) -> tuple[str, str]:
    keys = "".join([f"<k>{rng.choice(VALUES)}</k>" for _ in range(rng.randrange(3))])
    extra = rng.choice(("", "", "<n/>", "<gone/>", "<more/>", "<!-- a comment -->"))
    if rng.random() < 0.5:
        return "items", f'<item a="{rng.choice(VALUES)}">{keys}{extra}</item>'
    return "in", f'<m a="{rng.choice(VALUES)}">{keys}{extra}</m>'
