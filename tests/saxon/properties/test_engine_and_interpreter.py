"""Whatever an application is and whatever arrives: engine and interpreter end with the same messages."""

from __future__ import annotations

from typing import Any, Literal

from hypothesis import given, note, settings
from hypothesis import strategies as st

from demaq.errors import ProgramError
from tests.support.properties.applications import HOPS_MAX, Application, applications, histories
from tests.support.reference.comparing import EngineSide, Event, InterpreterSide, TooMany, assert_same

MESSAGES_MAX = 60
"""An application that makes more of them is not looked at any further: the interpreter takes its time."""

RAN = {"programs": 0, "refused": 0, "phases": 0, "messages": 0, "errors": 0, "cut": 0}
"""How much was tried."""


def compare(
    application: Application,
    phases: list[list[Event]],
    on_disk: bool,
    pipeline: Literal["serial", "inline", "spark"] = "inline",
) -> None:
    note(application.text)
    try:
        engine = EngineSide(application.text, HOPS_MAX, application.failing_in_two_ways, on_disk, pipeline)
    except ProgramError:
        RAN["refused"] += 1
        return
    RAN["programs"] += 1
    with engine.lab:
        interpreter = InterpreterSide(application.text, HOPS_MAX, application.failing_in_two_ways, MESSAGES_MAX)
        for phase in phases:
            for event in phase:
                if event.what == "take" and not interpreter.is_mailbox(event.queue):
                    continue
                note(str(event))
                try:
                    expected = interpreter.do(event)
                except TooMany:
                    RAN["cut"] += 1
                    return
                assert engine.do(event) == expected
            RAN["phases"] += 1
            assert_same(engine, interpreter)
        RAN["messages"] += interpreter.interpreter.count
        RAN["errors"] += sum([kept.level >= 0 for kept in interpreter.interpreter.made])


few = settings(max_examples=max(5, settings().max_examples // 5))
"""Of each kind: compiling a program takes its time."""


@few
@given(st.data())
def test_engine_and_interpreter_end_with_the_same_messages(data: Any) -> None:
    application = data.draw(applications())
    compare(application, data.draw(histories(application, crashes=False)), on_disk=False)


@few
@given(st.data())
def test_engine_and_interpreter_agree_across_crashes(data: Any) -> None:
    application = data.draw(applications())
    compare(application, data.draw(histories(application, crashes=True)), on_disk=True)
