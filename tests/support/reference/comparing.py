"""The engine and the interpreter under the same events, and two views of what they hold that must be equal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import zip_longest
from typing import Any, Literal

import pytest

from demaq.errors import MessageError, StoreError
from demaq.store import SqliteStore
from demaq.store.memory_store import MemoryStore
from demaq.testing import Lab, LabMessage
from demaq.testing.lab import START
from tests.support.reference.interpreter import Interpreter, Kept, Properties, Refused
from tests.support.reference.rule_oracle import canonical
from tests.support.store.faults import no_write_succeeds

_FOR_READERS = re.compile(r"<description>.*?</description>|<location [^>]*/>|<at>[^<]*</at>", re.DOTALL)
_SLICES_MAX = 1000


@dataclass
class Event:
    """Something that happens: `arrive`, `run`, `advance`, `crash`, `collect`, `take`, or `fail`: all writes, for a while.

    After a crash its seconds pass before the restart.
    """

    what: str
    queue: str = ""
    body: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    seconds: float = 0


def body_of(text: str, numbers: dict[str, int], failing_in_two_ways: frozenset[str]) -> str:
    """A body without what may differ between two runs; ids become positions."""
    plain = _FOR_READERS.sub("", text)
    plain = re.sub(r"<messageId>(\d+)<", lambda m: f"<messageId>{numbers.get(m[1], m[1])}<", plain)

    def failed(match: re.Match[str]) -> str:
        # Which of several errors is raised is left open (XQuery 3.1, 2.3.4): so is the kind of a rule's error if it
        # constructs a message that cannot be constructed for a queue that would not take it.
        several = match[2] in failing_in_two_ways and match[1] != "systemError"
        return f"<error><failed/><rule>{match[2]}</rule>{match[3]}" if several else match[0]

    return re.sub(
        r"<error><(\w+)></\1><rule>(\w+)</rule>(.*?)<code>[^<]*</code>",
        failed,
        canonical(plain).decode(),
        flags=re.DOTALL,
    )


class EngineSide:
    """The engine in a laboratory. Ids become positions in the order in which messages came to be."""

    def __init__(
        self,
        text: str,
        hops_max: int,
        failing_in_two_ways: frozenset[str],
        on_disk: bool,
        pipeline: Literal["serial", "inline", "spark"] = "inline",
    ) -> None:
        self._failing_in_two_ways = failing_in_two_ways
        store = None if on_disk else MemoryStore(now=lambda: self.lab.now)
        self.lab = Lab(text, store=store, hops_max=hops_max, pipeline=pipeline)
        self._arrived: list[str] = []

    def do(self, event: Event) -> str:
        """Do it. Return the kind of error of a message that was refused."""
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
            self.lab.now += timedelta(seconds=event.seconds)
        elif event.what == "collect":
            self.lab.collect_garbage()
        elif event.what == "take":
            self.lab.take(event.queue, 1)
        elif event.what == "fail":
            self._fail(event)
        return ""

    def _fail(self, event: Event) -> None:
        """Nothing is acknowledged meanwhile, and nothing that was tried has happened."""
        assert isinstance(self.lab.store, SqliteStore)
        with no_write_succeeds(self.lab.store):
            with pytest.raises((StoreError, MessageError)):
                self.lab.enqueue(event.queue, event.body, dict(event.properties))
            with suppress(StoreError):
                self.lab.run_until_idle()
            with suppress(StoreError):
                self.lab.collect_garbage()

    def view(self) -> dict[str, Any]:
        lab = self.lab
        made = sorted([m for queue in lab.program.queues for m in lab.read_created(queue)], key=lambda m: int(m.id))
        ids = sorted([*self._arrived, *[message.id for message in made]], key=int)
        numbers = {id_: position + 1 for position, id_ in enumerate(ids)}

        def views(messages: Iterable[LabMessage]) -> list[Any]:
            return [self._view(message, numbers) for message in messages]

        found: dict[str, Any] = {"made": views(made)}
        for queue in lab.program.queues:
            found[f"visible in {queue}"] = views(lab.read_queue(queue))
            found[f"stored in {queue}"] = views(lab.read_stored(queue))
            found[f"processed in {queue}"] = [message.processed for message in lab.read_queue(queue)]
        for slicing in lab.program.slicings:
            keys = [key for key, _ in lab.store.slice_keys(slicing, None, _SLICES_MAX)]
            found[f"slices of {slicing}"] = {key: views(lab.read_slice(slicing, key)) for key in keys}
        return found

    def _view(self, message: LabMessage, numbers: dict[str, int]) -> Any:
        declared = {n: v for n, v in message.properties.items() if not n.startswith("demaq:") and n != "timeout"}
        trigger = numbers[message.trigger] if message.trigger is not None else None
        origin = numbers[message.properties["demaq:origin"]]
        body = body_of(message.body, numbers, self._failing_in_two_ways)
        return (numbers[message.id], message.queue, body, sorted(declared.items()), message.rule, trigger, origin)


class TooMany(Exception):
    """More messages than a test can wait for."""


class BoundedInterpreter(Interpreter):
    """Some applications never come to an end; the interpreter, which takes its time, must."""

    messages_max = 10_000

    def _put(self, queue: str, body: str, properties: Properties) -> Kept:
        if self.count >= self.messages_max:
            raise TooMany
        return super()._put(queue, body, properties)


class InterpreterSide:
    def __init__(self, text: str, hops_max: int, failing_in_two_ways: frozenset[str], messages_max: int) -> None:
        self._failing_in_two_ways = failing_in_two_ways
        self.interpreter = BoundedInterpreter(text, START, hops_max)
        self.interpreter.messages_max = messages_max

    def do(self, event: Event) -> str:
        """Do it. Return the kind of error of a message that was refused. Raises TooMany."""
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
            interpreter.restart(event.seconds)
        elif event.what == "collect":
            interpreter.collect_garbage()
        elif event.what == "take":
            interpreter.take(event.queue, 1)
        return ""

    def is_mailbox(self, queue: str) -> bool:
        """Whether messages stay until a client takes them."""
        interpreter = self.interpreter
        waits_for_a_client = interpreter.program.queues[queue].kind in ("basic", "incomingGateway")
        return waits_for_a_client and not interpreter.pertaining(queue)

    def view(self) -> dict[str, Any]:
        interpreter = self.interpreter
        found: dict[str, Any] = {"made": [self._view(kept) for kept in interpreter.made]}
        for queue in interpreter.program.queues:
            stored = [kept for kept in interpreter.stored if kept.queue == queue]
            visible = [kept for kept in stored if kept.gone_at is None]
            found[f"visible in {queue}"] = [self._view(kept) for kept in visible]
            found[f"stored in {queue}"] = [self._view(kept) for kept in stored]
            found[f"processed in {queue}"] = [kept.processed for kept in visible]
        for slicing in interpreter.program.slicings:
            slices: dict[str, list[Any]] = {}
            for kept in interpreter.stored:
                for name, key in kept.slices:
                    if name == slicing:
                        slices.setdefault(key, []).append(self._view(kept))
            found[f"slices of {slicing}"] = slices
        return found

    def _view(self, kept: Kept) -> Any:
        declared = {name: value.text for name, value in kept.properties.items() if name != "timeout"}
        body = body_of(kept.body, {}, self._failing_in_two_ways)
        trigger = kept.trigger.number if kept.trigger is not None else None
        return (kept.number, kept.queue, body, sorted(declared.items()), kept.rule, trigger, kept.origin.number)


def assert_same(engine: EngineSide, interpreter: InterpreterSide) -> None:
    """Both hold the same messages in the same queues and slices, and have made the same."""
    expected, actual = interpreter.view(), engine.view()
    for what in expected:
        assert actual[what] == expected[what], f"{what}\n{_difference(actual[what], expected[what])}"


def _difference(actual: Any, expected: Any) -> str:
    """Where two lists begin to differ; otherwise both, whole."""
    if isinstance(expected, list):
        for ours, theirs in zip_longest(actual, expected):
            if ours != theirs:
                return f"engine      {ours}\ninterpreter {theirs}"
    return f"engine      {actual}\ninterpreter {expected}"
