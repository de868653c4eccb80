"""Whatever is paused and resumed, and when: what an engine commits is what a serial execution does, and nothing that is
paused is processed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from demaq.engine.round import THROUGHPUT
from demaq.errors import MessageError, ProgramError
from demaq.evaluation.cascade.cascade import Cascades
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.store import MemoryStore
from demaq.store.operator_records import AuditRecord, Pause
from demaq.store.protocol import Committed, Step
from demaq.testing.lab import load_text
from tests.saxon.properties.test_rounds_are_serial import bursts, conversations, requests
from tests.support.engines import local_engine
from tests.support.properties.applications import HOPS_MAX, Application, applications, arrivals
from tests.support.reference.comparing import Event, TooMany
from tests.support.reference.eager_engine import EagerEngine
from tests.support.reference.serial_run import SerialRun

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MESSAGES_MAX = 80
RAN = {"programs": 0, "steps": 0, "folded": 0, "waited": 0, "by rule": 0, "resumed": 0, "cut": 0}
"""How much was tried."""


def follow(application: Application, arriving: list[list[Event]], size: int, at_once: int, drawn: Random) -> None:
    """Run bursts of messages in rounds, pause and resume parts between them, and let the interpreter follow."""
    note(application.text)
    try:
        compiled = compile_program(load_text(application.text))
    except ProgramError:
        return
    RAN["programs"] += 1
    evaluator = SaxonEvaluator(compiled)
    store = MemoryStore()
    done: list[tuple[Sequence[Step], Sequence[Committed]]] = []
    engine = local_engine(
        evaluator,
        store,
        lambda: NOW,
        EagerEngine,
        size,
        at_once,
        hops_max=HOPS_MAX,
        observe=lambda steps, committed: done.append((steps, committed)),
        policy=THROUGHPUT,
    )
    engine._round_messages = size
    engine.round_messages_least = 1
    is_possible = Cascades(evaluator).is_possible
    serial = SerialRun(
        application.text,
        NOW,
        HOPS_MAX,
        application.failing_in_two_ways,
        lambda queue: is_possible(queue) and queue not in engine.pauses.queues,
        MESSAGES_MAX,
        lambda queue: queue in engine.pauses.queues,
    )
    queues: dict[int, str] = {}
    parts = [("queue", queue.name) for queue in compiled.plan.program.queues.values() if queue.kind != "echo"]
    parts += [("rule", name) for name in compiled.plan.rules]

    def pause_some() -> None:
        chosen = drawn.sample(parts, drawn.choice([0, 1, 1, 2])) if parts else []
        note(f"paused {chosen}")
        entry = AuditRecord(at=NOW, who="test", action="pause", subject="")
        pauses = [Pause(kind=kind, name=name, who="test", why="", since=NOW) for kind, name in chosen]  # type: ignore[arg-type]
        RAN["resumed"] += bool(engine.pauses) and not pauses
        store.change_pauses(pauses, list(engine.pauses.by_part), entry)
        store.change_pauses(pauses, (), entry)
        engine.set_pauses(store.pauses())
        RAN["by rule"] += any([kind == "rule" for kind, _ in chosen])

    def follow_commits() -> None:
        for steps, committed in done:
            for step, commit in zip(steps, committed, strict=True):
                if step.processed is not None:
                    assert queues[step.processed] not in engine.pauses.queues, "it is paused"
                queues.update(zip(commit.created, [new.queue for new in step.created], strict=True))
            RAN["steps"] += len(steps)
            RAN["folded"] += sum([step.elided > 0 for step in steps])
            serial.follow(steps, committed)
        done.clear()

    try:
        for burst in arriving:
            for event in burst:
                with suppress(MessageError):
                    number = engine.enqueue(event.queue, event.body, dict(event.properties))
                    queues[number] = event.queue
                    serial.arrived(number, event.queue, event.body, dict(event.properties))
            for _ in range(drawn.randrange(5)):
                pause_some()
                for _ in range(drawn.randrange(1, 4)):
                    engine.run_round()
                    engine.fire_timers()
                    follow_commits()
            RAN["waited"] += any([message.queue in engine.pauses.queues for message in store.pending(99)])
        engine.set_pauses(())
        while engine.run_round() or engine.fire_timers():
            follow_commits()
        follow_commits()
        assert store.pending(1) == []
        serial.assert_same_state(store)
    except TooMany:
        RAN["cut"] += 1


few = settings(max_examples=max(5, settings().max_examples // 20))
sizes, rounds_at_once, randoms = st.integers(1, 8), st.integers(1, 3), st.randoms(use_true_random=False)


@few
@given(st.data())
def test_applications_that_are_paused_do_what_a_serial_execution_does(data: Any) -> None:
    application = data.draw(applications())
    drawn = data.draw(bursts(arrivals(application)))
    follow(application, drawn, data.draw(sizes), data.draw(rounds_at_once), data.draw(randoms))


@few
@given(st.data())
def test_conversations_that_are_paused_do_what_a_serial_execution_does(data: Any) -> None:
    drawn = data.draw(conversations())
    follow(drawn, data.draw(bursts(requests())), data.draw(sizes), data.draw(rounds_at_once), data.draw(randoms))


def test_what_was_tried_is_what_matters() -> None:
    if RAN["programs"] > 10:  # all tests of this file have run
        assert RAN["waited"], RAN
        assert RAN["by rule"], RAN
        assert RAN["folded"], RAN
