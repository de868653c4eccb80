"""Messages that a node evaluates in its own process: which ones, and what becomes of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from demaq.compiler.planner import make_plan
from demaq.documents import Document, parse_document
from demaq.errors import MessageError
from demaq.evaluation.arrival_request import ArrivalRequest, Arriving, Passed
from demaq.evaluation.cascade.versions import index_name
from demaq.evaluation.native.ledger import NativeLedger, NativeNotes
from demaq.evaluation.native.native_settings import FIRST_CHECKS, NativeSettings
from demaq.evaluation.quick_evaluator import (
    ASKING_MESSAGES,
    CHARACTERS_MAX,
    MESSAGES_MAX,
    READ_MAX,
    READ_TIMES_MAX,
    SHARE_CHARACTERS_MAX,
    OwnShare,
    QuickEvaluator,
    find_quick_queues,
)
from demaq.store import MemoryStore
from demaq.store.protocol import NewMessage
from demaq.testing.lab import load_text

NOW = datetime(2026, 3, 1, tzinfo=UTC)
QUEUES = "create queue in create queue out create queue next create queue saxon "
COPY = f"{QUEUES} create rule copy for in if (/m) then do enqueue <n>{{string(/m)}}</n> into out"


class Asked:
    """A quick evaluator whose results need no check, unless it is said how often."""

    def __init__(self, text: str, check_every: int = 0) -> None:
        self.ledger = NativeLedger()
        settings = NativeSettings(check_every=check_every)
        self.store = MemoryStore()
        self.quick = QuickEvaluator(make_plan(load_text(text)), self.store, self.ledger, settings)

    def choose(self, *bodies: str, queue: str = "in", workers: int = 0) -> OwnShare:
        return self.quick.choose([Arriving(queue, body, may_pass=True) for body in bodies], workers)

    def run(self, *bodies: str) -> list[object] | None:
        messages = [Arriving("in", body, may_pass=True) for body in bodies]
        result = self.quick.run(ArrivalRequest(messages=messages, snapshot=self.store.snapshot(), now=NOW))
        return None if result is None else [*result.arrived]


def texts(arrived: list[object] | None) -> list[object]:
    assert arrived is not None
    return [[made.text for made in each.created] if isinstance(each, Passed) else type(each) for each in arrived]


def test_a_small_message_of_a_quick_rule_is_evaluated_here():
    asked = Asked(COPY)
    assert asked.choose("<m>1</m>") == OwnShare(1)
    assert texts(asked.run("<m>1</m>", "<x/>", "<m>")) == [["<n>1</n>"], [], MessageError]


def test_what_native_rules_leave_to_saxon_is_left_to_a_worker():
    asked = Asked(
        f"{QUEUES} create rule halve for in if (/m) then do enqueue <n>{{2 idiv xs:integer(/m)}}</n> into out"
    )
    assert texts(asked.run("<m>1</m>")) == [["<n>2</n>"]]
    assert asked.run("<m>0</m>") is None


def test_many_messages_or_large_ones_are_given_to_workers():
    asked = Asked(COPY)
    assert asked.choose(*["<m/>"] * MESSAGES_MAX) == OwnShare(MESSAGES_MAX)
    assert asked.choose(*["<m/>"] * (MESSAGES_MAX + 1)) == OwnShare(0)
    assert asked.choose(f"<m>{'x' * CHARACTERS_MAX[1]}</m>") == OwnShare(0)


def test_a_parsed_message_is_as_large_as_its_text():
    asked = Asked(COPY)
    large = f"<m>{'x' * CHARACTERS_MAX[1]}</m>"
    for body, here in (("<m/>", 1), (large, 0)):
        assert asked.quick.choose([Arriving("in", b"", parse_document(body))]) == OwnShare(here)
    unwritten = Document(None, parse_document("<m/>").native_root)
    assert asked.quick.choose([Arriving("in", b"", unwritten)]) == OwnShare(0), "its size is not known"


def test_of_many_messages_a_share_is_evaluated_here_while_workers_evaluate_the_others():
    asked = Asked(COPY)
    assert asked.choose(*["<m/>"] * 100, workers=1) == OwnShare((100 + ASKING_MESSAGES) // 2)
    assert asked.choose(*["<m/>"] * 100, workers=3) == OwnShare((100 + ASKING_MESSAGES) // 4)
    assert asked.choose(*["<m/>"] * (MESSAGES_MAX + 1), workers=1) == OwnShare(MESSAGES_MAX + 1)
    large = f"<m>{'x' * (CHARACTERS_MAX[1] - 7)}</m>"
    assert asked.choose(*[large] * 6, workers=1) == OwnShare(0), "more than a share may have"
    assert asked.choose(*["<m/>"] * 99, f"{large} ", workers=1) == OwnShare(0)
    assert 6 * len(large) > SHARE_CHARACTERS_MAX
    with asked.quick._lock:
        assert asked.choose(*["<m/>"] * 100, workers=1) == OwnShare(0), "another thread evaluates"


@pytest.mark.parametrize(
    ("rule", "characters"),
    [
        ("if (/m) then do enqueue <n/> into out", CHARACTERS_MAX[1]),
        ("if (/m) then do enqueue <n>{for $a in //a return <b>{string($a/@k)}</b>}</n> into out", CHARACTERS_MAX[1]),
        ("if (//a = //b) then do enqueue <n/> into out", CHARACTERS_MAX[2]),
        ("if (/m) then do enqueue <n>{for $a in //a return count(//b)}</n> into out", CHARACTERS_MAX[2]),
        ("if (/m) then do enqueue <n>{for $a in //a, $b in //b return count(//c)}</n> into out", None),
        ('if (matches(/m, "(x+x+)+y")) then do enqueue <n/> into out', None),
        ("if (/m) then do enqueue <n>{sum(1 to xs:integer(/m))}</n> into out", None),
        ("if (qs:queue('next')/m) then do enqueue <n/> into out", None),
        ("if (/m) then do enqueue <n>{local:twice(/m)}</n> into out", None),
        ("if (/m) then do enqueue <n>{map { 'a' : 1 }?a}</n> into out", None),
        ("if (/m) then do enqueue <n/> into saxon", None),
        ("if (/m) then do enqueue <n/> into next", CHARACTERS_MAX[2]),
        ("if (/m) then do enqueue <n>{for $a in //a return //b}</n> into next", None),
        ("if (/m) then do enqueue <n/> into in", CHARACTERS_MAX[1]),
        ("if (//a = //b) then do enqueue <n/> into in", None),
        ("if (/m/@a = /m/@b) then do enqueue <n/> into in", CHARACTERS_MAX[1]),
        ("if (qs:queue('next')[/m/k = qs:message()//k]) then do enqueue <n/> into out", CHARACTERS_MAX[1]),
        ("if (qs:queue('next')[/m/k = qs:message()//k]/n = //n) then do enqueue <n/> into out", None),
        ("if (qs:queue('next')[/m/@k = qs:message()/m/@k]) then do enqueue <n/> into out", CHARACTERS_MAX[1]),
        ("if (/m/x[@v = qs:message()/m/y/@v]) then do enqueue <n/> into out", CHARACTERS_MAX[2]),
        ("if (/m/x[@v = qs:message()/m/@v]) then do enqueue <n/> into out", CHARACTERS_MAX[1]),
        (
            "if (/m/x[@v = qs:queue('next')[/m/@k = qs:message()/m/@k]/m/y/@v]) then do enqueue <n/> into out",
            CHARACTERS_MAX[2],
        ),
        ("if (/m/x[qs:message()/m/y[@v = qs:message()/m/z/@v]]) then do enqueue <n/> into out", None),
    ],
)
def test_the_size_up_to_which_rules_are_quick_depends_on_their_loops(rule: str, characters: int | None):
    text = (
        "declare function local:twice($a) { ($a, $a) };"
        f"{QUEUES} create rule r for in {rule} "
        'create rule s for saxon if (matches(/m, "x+")) then do enqueue <n/> into out '
        "create rule t for next if (//a != //b) then do enqueue <n/> into out"
    )
    assert find_quick_queues(make_plan(load_text(text))).get("in") == characters


def test_what_grows_with_each_of_its_messages_is_given_to_a_worker():
    asked = Asked(f"{QUEUES} create rule twice for in if (/m) then do enqueue <m>{{/m/a, /m/a}}</m> into in")
    assert asked.choose("<m/>") == OwnShare(1)
    assert asked.run("<m/>") is not None
    assert asked.run(f"<m><a>{'x' * 5_000}</a></m>") is None


def test_many_messages_of_a_slice_or_with_one_key_are_given_to_a_worker():
    rules = (
        "create property k as xs:string queue in value /m/@k create slicing s on k "
        'create rule look for in if (exists(qs:queue("next")[/m/@k = qs:message()/m/@k]/m/b)) then do enqueue <n/> into out '
        "create rule join for s if (count(qs:slice()) > 2) then do enqueue <s/> into out"
    )
    asked = Asked(QUEUES + rules)
    assert asked.choose('<m k="1"/>') == OwnShare(1)
    for key, count in (("few", READ_MAX), ("many", READ_MAX + 1)):
        body = f'<m k="{key}"/>'
        member = NewMessage(queue="in", body=body, properties={}, created=NOW, slices=(("s", key),))
        asked.store.append([member] * count)
    assert asked.run('<m k="few"/>') is not None
    assert asked.run('<m k="many"/>') is None


READS = {
    "slice": """create rule pair for s
      if (count(for $x in qs:slice()/m/x return qs:slice()/m/y[@v = $x/@v]) > 0) then do enqueue <n/> into out""",
    "look-up": """create rule find for in
      if (qs:queue("kept")[/m/@k = qs:message()/m/@k]/m/x[@v = qs:message()/m/@k]) then do enqueue <n/> into out""",
}


@pytest.mark.parametrize("rule", READS.values(), ids=READS)
def test_messages_that_are_large_together_are_read_by_workers(rule: str):
    keyed = "create queue kept create property k as xs:string queue in, kept value /m/@k create slicing s on k "
    asked = Asked(QUEUES + keyed + rule)
    limit = READ_TIMES_MAX * find_quick_queues(make_plan(load_text(QUEUES + keyed + rule)))["in"]
    index = [] if "slice" in rule else [index_name(each) for each in asked.quick._rules.plan.indexes]
    for key, size in (("small", limit - 1000), ("large", limit)):
        body = f'<m k="{key}">{" " * size}</m>'
        entries = tuple([(name, f"s{key}") for name in index])
        member = NewMessage(queue="kept", body=body, properties={}, created=NOW, slices=(("s", key),), entries=entries)
        asked.store.append([member])
    assert asked.choose('<m k="small"/>') == OwnShare(1)
    assert asked.run('<m k="small"/>') is not None
    assert asked.run('<m k="large"/>') is None


def test_messages_of_a_group_that_are_large_together_in_a_slice_are_read_by_workers():
    keyed = "create property k as xs:string queue in value /m/@k create slicing s on k "
    asked = Asked(QUEUES + keyed + READS["slice"])
    bodies = [f'<m k="1"><x v="{number}"/>{" " * 1000}</m>' for number in range(40)]
    assert asked.choose(*bodies, workers=1).here
    assert asked.run(*bodies) is None


def test_the_first_messages_and_some_of_the_others_are_checked_by_workers():
    asked = Asked(COPY, check_every=FIRST_CHECKS + 50)
    chosen = [asked.choose("<m/>") for _ in range(FIRST_CHECKS + 60)]
    assert chosen[:FIRST_CHECKS] == [OwnShare(0, check=True)] * FIRST_CHECKS
    assert [number for number, share in enumerate(chosen, 1) if share.check][FIRST_CHECKS:] == [FIRST_CHECKS + 50]


def test_if_one_of_many_messages_is_to_be_checked_that_is_one_of_the_workers():
    asked = Asked(COPY, check_every=1000)
    chosen = [asked.choose(*["<m/>"] * 100, workers=1) for _ in range(21)]
    assert [number for number, share in enumerate(chosen, 1) if share.check] == [1, 10, 20]
    assert {share.here for share in chosen} == {(100 + ASKING_MESSAGES) // 2}


def test_a_rule_that_was_withdrawn_is_nowhere_evaluated_natively():
    asked = Asked(COPY)
    asked.ledger.add(NativeNotes(withdrawn=(("copy", "it differs"),)))
    assert asked.choose("<m/>") == OwnShare(0)


def test_rules_are_counted_as_in_a_worker():
    asked = Asked(COPY)
    asked.run("<m>1</m>", "<x/>")
    assert asked.ledger.counts["answers"] == 2
    assert asked.ledger.work["copy"][0] == 2
    assert asked.ledger.work["copy"][0] == 2, "it is counted once"


def test_a_queue_whose_messages_take_long_is_left_to_workers_but_not_because_its_rules_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
):
    asked = Asked(COPY)
    monkeypatch.setattr("demaq.evaluation.quick_evaluator.SLOW_SECONDS", 0.0)
    assert asked.run("<m>1</m>") is not None
    assert asked.choose("<m/>") == OwnShare(1), "its first message has loaded them"
    assert asked.run("<m>1</m>") is not None
    assert asked.choose("<m/>") == OwnShare(0)
