"""Whatever is guessed, folded and begun early: what an engine commits is what a serial execution does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from demaq.errors import MessageError, ProgramError
from demaq.rounds.cascade import Cascades
from demaq.rounds.compiled import compile_program
from demaq.rounds.evaluator import SaxonEvaluator
from demaq.scheduler.intake import explicit_properties
from demaq.store import MemoryStore
from demaq.store.protocol import Committed, Step
from demaq.testing.lab import load_text
from tests.properties.applications import HOPS_MAX, Application, applications, arrivals
from tests.reference.comparing import Event, TooMany
from tests.reference.eager_engine import EagerEngine
from tests.reference.serial_run import SerialRun

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MESSAGES_MAX = 80
RAN = {"programs": 0, "steps": 0, "folded": 0, "again": 0, "ahead": 0, "cut": 0}
"""What was tried, for whoever wants to know how much it was."""


def follow(application: Application, bursts: list[list[Event]], size: int) -> None:
    """Run bursts of messages in rounds of a size, and let the interpreter follow."""
    note(application.text)
    try:
        compiled = compile_program(load_text(application.text))
    except ProgramError:
        return
    RAN["programs"] += 1
    evaluator = SaxonEvaluator(compiled)
    evaluator.messages_max = size
    store = MemoryStore()
    done: list[tuple[Sequence[Step], Sequence[Committed]]] = []

    def note_steps(steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        done.append((steps, committed))

    engine = EagerEngine(
        compiled.plan,
        evaluator,
        store,
        lambda: NOW,
        HOPS_MAX,
        note_steps,
        elide=True,
        exact=False,
        fold=True,
        ahead=True,
    )
    engine._round_messages = size
    comes_and_goes = Cascades(evaluator).is_possible
    serial = SerialRun(application.text, NOW, HOPS_MAX, application.failing_in_two_ways, comes_and_goes, MESSAGES_MAX)
    try:
        for burst in bursts:
            for event in burst:
                note(str(event))
                with suppress(MessageError):
                    given_properties = explicit_properties(engine.program, event.queue, dict(event.properties))
                    number = engine.enqueue(event.queue, event.body, given_properties)
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


@settings(max_examples=max(5, settings().max_examples // 5))
@given(st.data())
def test_what_is_committed_is_what_a_serial_execution_does(data: Any) -> None:
    application = data.draw(applications())
    burst = st.lists(arrivals(application), min_size=2, max_size=8)
    size = data.draw(st.integers(1, 8))
    note(f"rounds of {size}")
    follow(application, data.draw(st.lists(burst, min_size=1, max_size=2)), size)
