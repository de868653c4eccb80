"""What an engine has committed, done again by the interpreter: the same messages, one after the other in that order.

A folded step stands for a message and all that came and went because of it. If the engine has done what a serial
execution does, both make the same messages on the way and hold the same ones in the end, in whatever order messages of
one priority were taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from demaq.store.protocol import Committed, NewMessage, Step, Store
from tests.support.reference.comparing import BoundedInterpreter, body_of
from tests.support.reference.interpreter import Interpreter, Kept

_SLICES_MAX = 1000


class SerialRun:
    """An interpreter that follows the steps of an engine."""

    def __init__(
        self,
        text: str,
        now: Any,
        hops_max: int,
        failing_in_two_ways: frozenset[str],
        comes_and_goes: Callable[[str], bool],
        messages_max: int,
        is_paused: Callable[[str], bool] = lambda queue: False,
    ) -> None:
        """`comes_and_goes` says of a queue whether its messages can be part of a folded step, and `is_paused` whether
        they wait now."""
        self.interpreter: Interpreter = BoundedInterpreter(text, now, hops_max)
        BoundedInterpreter.messages_max = messages_max
        self._failing_in_two_ways = failing_in_two_ways
        self._comes_and_goes = comes_and_goes
        self._is_paused = is_paused
        self._known: dict[int, Kept] = {}
        """What the engine's messages are here."""
        self._numbers: dict[str, int] = {}

    def arrived(self, number: int, queue: str, body: str, properties: Mapping[str, str]) -> None:
        self.interpreter.enqueue(queue, body, properties)
        self._know(number, self.interpreter.stored[-1])

    def follow(self, steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        timers: list[tuple[NewMessage, int]] = []
        for step, done in zip(steps, committed, strict=True):
            created = list(zip(step.created, done.created, strict=True))
            if step.fired is not None:
                timers += created
                continue
            assert step.processed is not None
            before = len(self.interpreter.made)
            self._process(self._known[step.processed], step.elided > 0)
            made = self.interpreter.made[before:]
            if step.elided:
                made = [kept for kept in made if not self._comes_and_goes(kept.queue)]
            self._same(created, made)
        if any([step.fired is not None for step in steps]):
            before = len(self.interpreter.made)
            self.interpreter._fire_timers()
            self._same(timers, self.interpreter.made[before:])

    def _process(self, message: Kept, folded: bool) -> None:
        assert not message.processed
        before = len(self.interpreter.made)
        self.interpreter._process(message)
        came: list[Kept] = []
        while folded:
            made = self.interpreter.made[before:]
            waiting = [kept for kept in made if not kept.processed and self.interpreter.pertaining(kept.queue)]
            waiting = [kept for kept in waiting if not self._is_paused(kept.queue)]
            waiting.sort(key=lambda kept: (-self.interpreter.program.queues[kept.queue].priority, kept.number))
            if not waiting or not self._comes_and_goes(waiting[0].queue):
                assert not [kept for kept in waiting if self._comes_and_goes(kept.queue)], "somebody else was in front"
                # At the end: one of them may be in a slice that a later one resets.
                assert all([kept.gone_at is not None for kept in came]), "it came, and has not gone"
                return
            self.interpreter._process(waiting[0])
            came.append(waiting[0])

    def _same(self, created: list[tuple[NewMessage, int]], made: list[Kept]) -> None:
        for (_, number), kept in zip(created, made, strict=False):
            self._know(number, kept)
        ours = [self._of_engine(new.queue, new.body, new.properties, new.rule) for new, _ in created]
        theirs = [self._of_interpreter(kept) for kept in made]
        assert ours == theirs, f"made {ours}, and serially {theirs}"

    def _know(self, number: int, kept: Kept) -> None:
        self._known[number] = kept
        self._numbers[str(number)] = kept.number

    def assert_same_state(self, store: Store) -> None:
        """All that is visible, and in slices, is the same."""
        snapshot = store.snapshot()
        for queue in self.interpreter.program.queues:
            found = [
                (self._of_engine(m.queue, m.body, m.properties, m.rule), m.processed is not None)
                for m in store.queue(queue, snapshot)
            ]
            kept = [k for k in self.interpreter.stored if k.queue == queue and k.gone_at is None]
            assert sorted(found) == sorted([(self._of_interpreter(k), k.processed) for k in kept]), queue
        for slicing in self.interpreter.program.slicings:
            slices = {
                key: sorted([self._known[m.seq].number for m in store.slice(slicing, key, snapshot)])
                for key, _ in store.slice_keys(slicing, None, _SLICES_MAX)
            }
            expected: dict[str, list[int]] = {}
            for each in self.interpreter.stored:
                for name, key in each.slices:
                    if name == slicing:
                        expected.setdefault(key, []).append(each.number)
            assert slices == expected, slicing

    def _of_engine(self, queue: str, body: str, properties: Mapping[str, Any], rule: str | None) -> tuple[Any, ...]:
        declared = {n: v.text for n, v in properties.items() if not n.startswith("demaq:") and n != "timeout"}
        return (queue, body_of(body, self._numbers, self._failing_in_two_ways), sorted(declared.items()), str(rule))

    def _of_interpreter(self, kept: Kept) -> tuple[Any, ...]:
        declared = {name: value.text for name, value in kept.properties.items() if name != "timeout"}
        body = body_of(kept.body, {}, self._failing_in_two_ways)
        return (kept.queue, body, sorted(declared.items()), str(kept.rule))
