"""Applications whose messages are evaluated on arrival in every way there is, and what is sent to them.

A message is `<m k="1" o="2" n="2" v="x"/>`: two keys, how many hops it has left, and a text. The name of its element
says which rules are for it. Some queues are read by rules and others never, so that messages pass, are folded, or have
to be stored; some rules fail, some ask for what only stored messages have, and some need Saxon.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from demaq.engine.intake import IncomingMessage

NAMES = ("m", "m", "m", "c", "r")
COPIED = 'k="{/*/@k}" o="{/*/@o}" n="{/*/@n - 1}" v="{/*/@v}"'


@dataclass
class ArrivingApplication:
    """The text of a program, and what a test must know of it to send messages."""

    text: str
    queues: list[str]
    """Those that messages are sent to."""
    boxes: list[str]
    rules: list[str]
    settable: dict[str, list[str]]
    """Properties that may be set on messages from outside, by queue."""


def draw_arriving(rng: random.Random) -> ArrivingApplication:
    return _Drawn(rng).application()


class _Drawn:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.entries = [f"in{number}" for number in range(rng.choice((1, 2, 2, 3)))]
        self.inner = [f"q{number}" for number in range(rng.choice((1, 2, 2, 3)))]
        self.boxes = ["out", "log"]
        self.urgent = ["urgent"] if rng.random() < 0.4 else []
        """Queues whose messages wait for their rules, which ask for numbers."""
        self.known = ["known"] if rng.random() < 0.6 else []
        self.errors = ["errors"] if rng.random() < 0.6 else []
        self.later = ["later"] if rng.random() < 0.4 else []
        is_plain = rng.random() < 0.4
        """Whether most messages only lead to others."""
        self.slicings = {"s": "k"} if rng.random() < (0.3 if is_plain else 0.7) else {}
        if self.slicings and rng.random() < 0.5:
            self.slicings["t"] = "o"
        every = [*self.entries, *self.inner, *self.boxes, *self.errors]
        self.read = self.errors * rng.choice((0, 1, 1)) if is_plain else rng.sample(every, rng.choice((0, 0, 1, 1, 2)))
        """Queues that rules may read as a whole, or in the order of their messages."""
        self.leaves = [name for name in (*self.entries, *self.inner) if rng.random() < (0.6 if is_plain else 0.2)]
        """Queues whose messages only lead to ones that no rule is for."""
        self.slicing: str | None = None
        self.target = ""
        self.settable: dict[str, list[str]] = {}

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def pick(self, *options: str) -> str:
        return self.rng.choice(options)

    def application(self) -> ArrivingApplication:
        with_rules = [*self.entries, *self.inner]
        lines = [self.queue(name) for name in (*with_rules, *self.boxes, *self.known, *self.errors)]
        lines += [f"create queue {name} priority {self.pick('1', '5')}" for name in self.urgent]
        lines += [f"create queue {name} kind echo" for name in self.later]
        lines += [self.property(slicing, name) for slicing, name in self.slicings.items()]
        lines += [f"create slicing {slicing} on {name}" for slicing, name in self.slicings.items()]
        if self.chance(0.25):
            lines.append(f"create property e as xs:integer queue {self.pick(*self.entries)} value /*/@v")
        targets = [*self.entries, *self.inner, *self.slicings, *self.slicings]
        targets += [self.pick(*targets) for _ in range(self.rng.choice((0, 1, 2, 3)))]
        if self.known and self.chance(0.3):
            targets.append("known")
        targets += self.urgent
        rules = [self.rule(f"r{number}", target) for number, target in enumerate(targets)]
        if self.errors and self.chance(0.7):
            seen = f"{{count({self.state(self.read)})}}" if self.read and self.chance(0.5) else ""
            into = self.pick(*self.boxes, *self.inner)
            body = f'<x k="1" o="1" n="1" v="z">{seen}</x>'
            rules.append(f"create rule failed for errors if (/error) then do enqueue {body} into {into}")
        names = [f"r{number}" for number in range(len(targets))]
        queues = [*self.entries, *self.entries, *self.inner, *self.known]
        return ArrivingApplication("\n".join([*lines, *rules]), queues, self.boxes, names, self.settable)

    def queue(self, name: str) -> str:
        text = f"create queue {name}"
        if name not in self.boxes and self.chance(0.25):
            text += f" priority {self.pick('1', '5', '5', '-1')}"
        if self.errors and name != "errors" and self.chance(0.4):
            text += " errorqueue errors"
        if self.chance(0.1):
            text += " mode transient"
        return text

    def property(self, slicing: str, name: str) -> str:
        some = [*self.entries, *self.inner, *self.boxes]
        on = [queue for queue in some if self.rng.random() < (0.2 if queue in self.boxes else 0.5)]
        variant = self.pick("", "", "inherited", "fixed")
        text = f"create property {name} as xs:string {variant}"
        for queue in on or [self.entries[0]]:
            text += f" queue {queue} value /*/@{name}"
            if variant != "fixed":
                self.settable.setdefault(queue, []).append(name)
        return text

    def rule(self, name: str, target: str) -> str:
        self.slicing = target if target in self.slicings else None
        self.target = target
        head = f"create rule {name} for {target}"
        if self.errors and self.chance(0.1):
            head += " errorqueue errors"
        root = self.pick(*NAMES)
        conditions = [self.pick(f"/{root}", "/*/@k"), "/*/@n > 0"]
        if self.chance(0.3):
            conditions.append(self.condition())
        if target in self.urgent or self.chance(0.06):
            conditions.insert(0, 'qs:property("demaq:id")')
        actions = [self.action() for _ in range(self.rng.choice((1, 1, 1, 2, 3)))]
        done = actions[0] if len(actions) == 1 else f"({', '.join(actions)})"
        return f"{head} if ({' and '.join(conditions)}) then {done}"

    def condition(self) -> str:
        count = self.pick("= 2", "> 1", "< 3", "= 1")
        if self.slicing is not None and self.chance(0.7):
            return self.pick(f"count(qs:slice()) {count}", "qs:slice()/r", "count(qs:slice()/c) = 2")
        shapes = ['/*/@v = "x"', '/*/@k = "1"', "/*/@k = /*/@o", 'not(/*/@v = "y")']
        if self.known:
            shapes.append(f"count({self.look_up()}) {count}")
        if self.read:
            shapes.append(f"count({self.state(self.read)}) {count}")
        return self.pick(*shapes)

    def look_up(self) -> str:
        return f'qs:queue("known")[/*/@k = qs:message()/*/@{self.pick("k", "o")}]'

    def state(self, queues: list[str]) -> str:
        return f'qs:queue("{self.pick(*queues)}")'

    def action(self) -> str:
        if self.slicings and self.target not in self.leaves and self.chance(0.25):
            slicing = self.pick(*self.slicings)
            own = self.slicing is not None and self.chance(0.7)
            return "do reset" if own else f"do reset {slicing} key string(/*/@{self.pick('k', 'o')})"
        name = self.pick(*NAMES)
        body = f"<{name} {COPIED}>{self.content()}</{name}>"
        if self.later and self.chance(0.15):
            seconds, target = self.pick("0", "0", "5"), self.pick(*self.entries, *self.inner, *self.boxes)
            return f'do enqueue {body} into later with timeout value {seconds} with target value "{target}"'
        queue = self.pick(*self.boxes, *self.boxes, *self.inner, *self.inner, *self.entries, *self.known)
        if self.target in self.leaves:
            queue = self.pick(*self.boxes, *self.urgent)
        return f"do enqueue {body} into {queue}"

    def content(self) -> str:
        shapes = ["", "", "{string(/*/@v)}"]
        if self.known:
            shapes += 2 * [f"{{count({self.look_up()})}}"]
        if self.slicing is not None:
            shapes += ["{count(qs:slice())}", "{qs:slice()/*/@v/string()}"]
        if self.read:
            shapes += [f"{{count({self.state(self.read)})}}", f"{{{self.state(self.read)}/*/name()}}"]
            shapes += [f"{{({self.state(self.read)})[last()]/*/@v/string()}}"]
        if self.chance(0.25 if self.target in self.leaves else 0.15):
            return self.pick('{1 idiv string-length(replace(/*/@v, "y", ""))}', "{1 idiv count(/*[@v != 'y'])}")
        return self.pick(*shapes)


def draw_incoming(
    rng: random.Random, application: ArrivingApplication, queue: str, requests: list[str]
) -> IncomingMessage:
    """Return a message for a queue, which is refused now and then. `requests` are the names of those that were sent."""
    name, left = rng.choice(NAMES), rng.choice((1, 2, 2, 3, 0))
    key, other = rng.choice("1112345678"), rng.choice("12345")
    text = f'<{name} k="{key}" o="{other}" n="{left}" v="{rng.choice("xxyz5")}"/>'
    if rng.random() < 0.02:
        text = text[:-2]
    body: str | bytes = text.encode() if rng.random() < 0.4 else text
    given: dict[str, str] = {}
    for name in application.settable.get(queue, ()):
        if rng.random() < 0.1:
            given[name] = rng.choice("123")
    request = None
    if rng.random() < 0.05:
        request = rng.choice(requests) if requests and rng.random() < 0.7 else f"name-{len(requests)}"
        requests.append(request)
    hops = rng.choice((1, 4, 6)) if rng.random() < 0.03 else 0
    return IncomingMessage(body, given, request, hops=hops)
