"""Clients of a simulated node: they send messages and take them, and repeat what has a name until it is answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from demaq.engine.intake import IncomingMessage
from demaq.errors import MessageError, OperatorError
from demaq.server.node import Node
from tests.support.simulation.applications import Simulated
from tests.support.simulation.node_history import Call, identified
from tests.support.simulation.scheduler import Scheduler

ATTEMPTS_MAX = 20


class Unknown(Exception):
    """A client does not know what has become of its call."""


class Clients:
    """The clients of one run. `busy` is how many of them are at work."""

    def __init__(
        self,
        scheduler: Scheduler,
        application: Simulated,
        mailboxes: Sequence[str],
        call: Callable[[Callable[[Node], list[int]]], list[int]],
        calls: list[Call],
        counts: Counter[str],
    ) -> None:
        """`call` calls the node; `calls` gets what was asked, with the answers."""
        self._scheduler = scheduler
        self._chance = scheduler.chance
        self._application = application
        self._mailboxes = mailboxes
        self._call = call
        self._calls = calls
        self._counts = counts
        self._identities = 0
        self.busy = 0

    def send_and_take(self) -> None:
        chance, scheduler = self._chance, self._scheduler
        try:
            for _ in range(chance.choice((1, 3, 6))):
                scheduler.sleep(chance.choice((0.0, 0.0, 0.001, 0.01, 0.1, 0.5)))
                if chance.random() < 0.1:
                    self._pause_for_a_while()
                self._make_call(self._draw_call())
        finally:
            self.busy -= 1

    def _pause_for_a_while(self) -> None:
        """Pause a queue as an operator does, and resume it, over all restarts."""
        queue = self._application.arrival(self._chance).queue
        self._counts["pauses"] += 1
        self._insist(lambda node: [int(node.pause("queue", queue, "operator", ""))])
        self._scheduler.sleep(self._chance.choice((0.001, 0.1, 0.5)))
        self._insist(lambda node: [int(node.resume("queue", queue, "operator", ""))])

    def _insist(self, act: Callable[[Node], list[int]]) -> None:
        """Call the node until it is known to have done it."""
        while True:
            try:
                self._call(act)
                return
            except (OperatorError, Unknown):
                self._scheduler.sleep(self._chance.choice((0.1, 1.0)))

    def send_one(self) -> None:
        """Send one message, soon."""
        chance = self._chance
        self._scheduler.sleep(chance.choice((0.0, 0.0005, 0.005, 0.02)))
        call = self._draw_call()
        call.request = None
        self._make_call(call)
        self.busy -= 1

    def _draw_call(self) -> Call:
        chance = self._chance
        if self._mailboxes and chance.random() < 0.15:
            return Call("take", chance.choice(self._mailboxes))
        event = self._application.arrival(chance)
        count = chance.choice((2, 3, 8)) if chance.random() < 0.3 else 1
        bodies = [event.body, *[self._another(event.queue) or event.body for _ in range(count - 1)]]
        call = Call("enqueue" if count == 1 else "enqueue_all", event.queue)
        call.properties = dict(event.properties)
        for body in bodies:
            self._identities += 1
            call.bodies.append(identified(body, self._identities))
        if chance.random() < 0.5:
            call.request = f"request-{self._identities}"
        return call

    def _another(self, queue: str) -> str | None:
        event = self._application.arrival(self._chance)
        return event.body if event.queue == queue else None

    def _make_call(self, call: Call) -> None:
        """Call the node, and again if the result is unknown and the call has a name."""
        self._calls.append(call)
        chance = self._chance
        while True:
            call.attempts += 1
            try:
                call.acknowledged.append(self._call(lambda node: _ask(node, call)))
                self._scheduler.note(call.acknowledged[-1])
            except MessageError:
                call.refused += 1
            except (OperatorError, Unknown):
                call.unknown += 1
                self._counts["unknown results"] += 1
                if call.request is not None and call.attempts < ATTEMPTS_MAX:
                    self._scheduler.sleep(chance.choice((0.1, 1.0)))
                    continue
            if call.request is None or chance.random() < 0.7:
                return
            self._counts["repeated requests"] += 1


def _ask(node: Node, call: Call) -> list[int]:
    if call.what == "take":
        return [message.seq for message in node.take(call.queue, 2)]
    if call.what == "enqueue":
        return [node.enqueue(call.queue, call.bodies[0], call.properties, call.request)]
    return node.enqueue_all(
        call.queue,
        [
            IncomingMessage(body, call.properties, None if call.request is None else f"{call.request}-{number}")
            for number, body in enumerate(call.bodies)
        ],
    )
