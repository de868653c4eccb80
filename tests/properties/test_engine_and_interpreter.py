"""Whatever an application is and whatever arrives: engine and interpreter end with the same messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from demaq.errors import MessageError, ProgramError
from demaq.store.memory import MemoryStore
from demaq.testing import Lab, LabMessage
from demaq.testing.lab import START
from tests.properties.applications import HOPS_MAX, Application, Event, applications, histories
from tests.reference.interpreter import Interpreter, Kept, Refused
from tests.reference.rule_oracle import canonical

MESSAGES_MAX = 60
"""An application that makes more of them is not looked at any further: the interpreter takes its time."""

RAN = {"programs": 0, "refused": 0, "phases": 0, "messages": 0, "errors": 0, "cut": 0}
"""What was tried, for whoever wants to know how much it was."""

_FOR_READERS = re.compile(r"<description>.*?</description>|<location [^>]*/>|<at>[^<]*</at>", re.DOTALL)


# --- two views of a message that must be equal ------------------------------------------------------------------------


def body_of(text: str, numbers: dict[str, int], application: Application) -> str:
    """A body without what may differ between two runs; ids become positions."""
    plain = _FOR_READERS.sub("", text)
    plain = re.sub(r"<messageId>(\d+)<", lambda m: f"<messageId>{numbers.get(m[1], m[1])}<", plain)

    def failed(match: re.Match[str]) -> str:
        # Which of several errors is raised is left open (XQuery 3.1, 2.3.4): so is the kind of a rule's error if it
        # constructs a message that cannot be constructed for a queue that would not take it.
        several = match[2] in application.failing_in_two_ways and match[1] != "systemError"
        return f"<error><failed/><rule>{match[2]}</rule>{match[3]}" if several else match[0]

    return re.sub(
        r"<error><(\w+)></\1><rule>(\w+)</rule>(.*?)<code>[^<]*</code>",
        failed,
        canonical(plain).decode(),
        flags=re.DOTALL,
    )


class EngineSide:
    """The engine in a laboratory. Ids become positions in the order in which messages came to be."""

    def __init__(self, application: Application, on_disk: bool) -> None:
        self.application = application
        store = None if on_disk else MemoryStore(now=lambda: self.lab.now)
        self.lab = Lab(application.text, store=store, hops_max=HOPS_MAX)
        self._arrived: list[str] = []

    def do(self, event: Event) -> str:
        """Do it; the answer is the kind of error of a message that was refused."""
        if event.what == "arrive":
            try:
                self._arrived.append(self.lab.enqueue(event.queue, event.body, dict(event.properties)))
            except MessageError as refusal:
                return refusal.kind
        elif event.what == "run":
            self.lab.run_until_idle()
        elif event.what == "advance":
            self.lab.advance(event.seconds)
        elif event.what == "crash":
            self.lab.crash()
        elif event.what == "collect":
            self.lab.collect_garbage()
        elif event.what == "take":
            self.lab.take(event.queue, 1)
        return ""

    def view(self) -> dict[str, Any]:
        lab = self.lab
        made = sorted([m for queue in lab.program.queues for m in lab.made(queue)], key=lambda m: int(m.id))
        ids = sorted([*self._arrived, *[message.id for message in made]], key=int)
        numbers = {id_: position + 1 for position, id_ in enumerate(ids)}

        def views(messages: Iterable[LabMessage]) -> list[Any]:
            return [self._view(message, numbers) for message in messages]

        found: dict[str, Any] = {"made": views(made)}
        for queue in lab.program.queues:
            found[f"visible in {queue}"] = views(lab.messages(queue))
            found[f"stored in {queue}"] = views(lab.stored(queue))
            found[f"processed in {queue}"] = [message.processed for message in lab.messages(queue)]
        for slicing in lab.program.slicings:
            keys = [key for key, _ in lab.store.slice_keys(slicing, "", 1000)]
            if lab.slice(slicing, ""):
                keys.insert(0, "")
            found[f"slices of {slicing}"] = {key: views(lab.slice(slicing, key)) for key in dict.fromkeys(keys)}
        return found

    def _view(self, message: LabMessage, numbers: dict[str, int]) -> Any:
        declared = {n: v for n, v in message.properties.items() if not n.startswith("demaq:") and n != "timeout"}
        trigger = numbers[message.trigger] if message.trigger is not None else None
        origin = numbers[message.properties["demaq:origin"]]
        body = body_of(message.body, numbers, self.application)
        return (numbers[message.id], message.queue, body, sorted(declared.items()), message.rule, trigger, origin)


class InterpreterSide:
    def __init__(self, application: Application) -> None:
        self.application = application
        self.interpreter = Interpreter(application.text, START, HOPS_MAX)

    def do(self, event: Event) -> str:
        interpreter = self.interpreter
        if event.what == "arrive":
            try:
                interpreter.enqueue(event.queue, event.body, dict(event.properties))
            except Refused as refusal:
                return str(refusal)
        elif event.what == "run":
            interpreter.run_until_idle()
        elif event.what == "advance":
            interpreter.advance(event.seconds)
        elif event.what == "crash":
            interpreter.crash()
        elif event.what == "collect":
            interpreter.collect_garbage()
        elif event.what == "take":
            interpreter.take(event.queue, 1)
        return ""

    def view(self) -> dict[str, Any]:
        interpreter = self.interpreter
        found: dict[str, Any] = {"made": [self._view(kept) for kept in interpreter.made]}
        for queue in interpreter.program.queues:
            visible = interpreter.messages(queue)
            found[f"visible in {queue}"] = [self._view(kept) for kept in visible]
            found[f"stored in {queue}"] = [self._view(kept) for kept in interpreter.stored if kept.queue == queue]
            found[f"processed in {queue}"] = [kept.processed for kept in visible]
        for slicing in interpreter.program.slicings:
            slices = sorted(interpreter.slices(slicing).items())
            found[f"slices of {slicing}"] = {key: [self._view(kept) for kept in members] for key, members in slices}
        return found

    def _view(self, kept: Kept) -> Any:
        declared = {name: value.text for name, value in kept.properties.items() if name != "timeout"}
        body = body_of(kept.body, {}, self.application)
        trigger = kept.trigger.number if kept.trigger is not None else None
        return (kept.number, kept.queue, body, sorted(declared.items()), kept.rule, trigger, kept.origin.number)


# --- the comparison ---------------------------------------------------------------------------------------------------


def compare(application: Application, phases: list[list[Event]], on_disk: bool) -> None:
    note(application.text)
    try:
        engine = EngineSide(application, on_disk)
    except ProgramError:
        RAN["refused"] += 1
        return
    RAN["programs"] += 1
    with engine.lab:
        interpreter = InterpreterSide(application)
        for phase in phases:
            for event in phase:
                if event.what == "take" and not interpreter.interpreter.is_mailbox(event.queue):
                    continue
                note(str(event))
                assert engine.do(event) == interpreter.do(event)
                if interpreter.interpreter.count > MESSAGES_MAX:
                    RAN["cut"] += 1
                    return
            RAN["phases"] += 1
            expected, actual = interpreter.view(), engine.view()
            for what in expected:
                assert actual[what] == expected[what], what
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
