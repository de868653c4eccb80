"""Whatever is guessed, folded and begun early: what an engine commits is what a serial execution does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from demaq.engine.round import THROUGHPUT
from demaq.errors import MessageError, ProgramError
from demaq.evaluation.cascade.cascade import Cascades
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.store import MemoryStore
from demaq.store.protocol import Committed, Step
from demaq.testing.lab import load_text
from tests.support.engines import local_engine
from tests.support.properties.applications import HOPS_MAX, Application, applications, arrivals
from tests.support.reference.comparing import Event, TooMany
from tests.support.reference.eager_engine import EagerEngine
from tests.support.reference.serial_run import SerialRun

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MESSAGES_MAX = 80
RAN = {"programs": 0, "steps": 0, "folded": 0, "again": 0, "ahead": 0, "cut": 0}
"""How much was tried."""


def follow(application: Application, bursts: list[list[Event]], size: int, at_once: int) -> None:
    """Run bursts of messages in rounds of a size, several at once, and let the interpreter follow."""
    note(application.text)
    try:
        compiled = compile_program(load_text(application.text))
    except ProgramError:
        return
    RAN["programs"] += 1
    evaluator = SaxonEvaluator(compiled)
    store = MemoryStore()
    done: list[tuple[Sequence[Step], Sequence[Committed]]] = []

    def note_steps(steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        done.append((steps, committed))

    engine = local_engine(
        evaluator,
        store,
        lambda: NOW,
        EagerEngine,
        size,
        at_once,
        hops_max=HOPS_MAX,
        observe=note_steps,
        policy=THROUGHPUT,
    )
    engine._round_messages = size
    engine.round_messages_least = 1
    comes_and_goes = Cascades(evaluator).is_possible
    serial = SerialRun(application.text, NOW, HOPS_MAX, application.failing_in_two_ways, comes_and_goes, MESSAGES_MAX)
    try:
        for burst in bursts:
            for event in burst:
                note(str(event))
                with suppress(MessageError):
                    number = engine.enqueue(event.queue, event.body, dict(event.properties))
                    serial.arrived(number, event.queue, event.body, dict(event.properties))
            while engine.run_round() or engine.fire_timers():
                RAN["again"] += engine._rounds.evaluated_again
                for steps, committed in done:
                    RAN["steps"] += len(steps)
                    RAN["folded"] += sum([step.elided > 0 for step in steps])
                    serial.follow(steps, committed)
                done.clear()
            serial.assert_same_state(store)
    except TooMany:
        RAN["cut"] += 1
    RAN["ahead"] += engine.begun_ahead


sizes = st.integers(1, 8)
rounds_at_once = st.integers(1, 3)
few = settings(max_examples=max(5, settings().max_examples // 10))


@few
@given(st.data())
def test_what_is_committed_is_what_a_serial_execution_does(data: Any) -> None:
    application = data.draw(applications())
    follow(application, data.draw(bursts(arrivals(application))), data.draw(sizes), data.draw(rounds_at_once))


@few
@given(st.data())
def test_conversations_that_may_meet_are_what_a_serial_execution_does(data: Any) -> None:
    application = data.draw(conversations())
    follow(application, data.draw(bursts(requests())), data.draw(sizes), data.draw(rounds_at_once))


def bursts(events: st.SearchStrategy[Event]) -> st.SearchStrategy[list[list[Event]]]:
    return st.lists(st.lists(events, min_size=2, max_size=8), min_size=1, max_size=2)


@st.composite
def requests(draw: Any) -> Event:
    key, other = draw(st.sampled_from("aabcdefgh")), draw(st.sampled_from("aabcdefgh"))
    return Event("arrive", draw(st.sampled_from(["in", "in", "in", "results"])), f"<m><k>{key}</k><o>{other}</o></m>")


@st.composite
def conversations(draw: Any) -> Application:
    """A request leads to checks, these to results, these to a join that ends it; and sometimes a rule interferes."""

    def pick(*options: str) -> str:
        return str(draw(st.sampled_from(options)))

    def sometimes(text: str) -> str:
        return pick("", "", text)

    k, o = "<k>{//k/text()}</k>", "<o>{//o/text()}</o>"
    somewhere = [f"do enqueue <x>{k}{o}</x> into {queue}" for queue in ("log", "unforeseen", "out", "checks", "waits")]
    somewhere = [
        text + " with timeout value 0 with target value 'log'" if "waits" in text else text for text in somewhere
    ]
    interfering = [
        *somewhere,
        "do reset s key string(//o)",
        "do reset t key string(//o)",
        'if (qs:queue("log")[/x/k = qs:message()//k]) then do enqueue <seen/> into out',
        'if (count(qs:queue("log")) > 1) then do enqueue <many>{count(qs:queue("log"))}</many> into out',
        'if (count(qs:queue("results")) > 2) then do enqueue <many>{count(qs:queue("results"))}</many> into out',
        "if (//k = 'b') then do enqueue <e>{1 div count(//none)}</e> into out",
    ]
    extra = "".join(
        [
            f"create rule odd{n} for {pick('in', 'checks', 'results', 'log', 's', 't', 'unforeseen')}"
            f" if ({pick('/m', '/c', '/r', '/x', 'true()')} and number(count(//x)) < 2) then {pick(*interfering)}\n"
            for n in range(draw(st.integers(0, 3)))
        ]
    )
    text = f"""
    create queue in create queue checks{sometimes(" priority 1")} create queue results{sometimes(" priority 1")}
    create queue log{sometimes(" mode transient")} create queue unforeseen create queue out create queue waits kind echo
    create property k as xs:string {pick("", "inherited")} queue results value //k {sometimes("queue in value //k")}
    create property o as xs:string queue {pick("checks", "results", "log", "in", "unforeseen")} value //o
    create slicing s on k create slicing t on o
    create rule start for in if (/m) then (for $n in 1 to 2 return do enqueue <c><n>{{$n}}</n>{k}{o}</c> into checks)
    create rule check for checks if (/c) then do enqueue <r>{{//n}}{k}{o}</r> into results
    create rule join for s if (/r and count(qs:slice()[/r]) = {pick("2", "2", "3")}) then
      (do enqueue <d>{{//k/text(), count(qs:slice()), qs:slice()//n/text()}}</d> into out{sometimes("," + pick(*somewhere))}
       {pick(", do reset", ", do reset", ", do reset", "")})
    create rule known for unforeseen if (qs:queue()[qs:property("demaq:queue", .) = "unforeseen"]) then
      do enqueue <u>{{count(qs:queue("out"))}}</u> into out
    {extra}"""
    return Application(text=text, queues=["in"], settable={})
