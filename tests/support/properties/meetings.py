"""Applications whose messages meet: slices, queues, indexes and mailboxes that many rules read and change.

Written from the language reference, not from the engine: every action, every way to read state and every clause that
has an effect on order is drawn. Each expression is drawn twice over, as text and as a function in Python, so that an
application can be run without Saxon, many hundreds a minute. A message is `<m a="1" b="2" t="x" n="2">`: two keys, a
text, and how many hops it has left.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from demaq.messages import Message

TEXTS = ("x", "y", "z", "5")
HISTORIES = 2
"""So many for each application: to draw and plan one takes longer than to run it."""
Arrival = tuple[str, str]
_ATTRIBUTE = re.compile(r'(\w)="([^"]*)"')


class Asked(Protocol):
    """A message that a rule is asked about, with the state that it may read. What is read is written down."""

    message: Message

    def queue(self, name: str | None) -> list[Message]: ...
    def slice(self) -> list[Message]: ...
    def find(self, queue: str, attribute: str, value: str) -> list[Message]: ...


class Failed(Exception):
    """A dynamic error; the argument is its code."""


@dataclass(frozen=True)
class Reset:
    slicing: str | None
    key: str | None


@dataclass(frozen=True)
class Enqueue:
    queue: str
    body: str
    explicit: tuple[tuple[str, str], ...]


Action = Reset | Enqueue
Nodes = Callable[[Asked], list[Message]]
Value = Callable[[Asked], str]
Test = Callable[[Asked], bool]


@dataclass
class ModelRule:
    test: Test
    actions: list[Callable[[Asked], Action]]


@dataclass
class History:
    """What happens to an application: bursts of arrivals, and some more while rounds are evaluated."""

    bursts: list[list[Arrival]]
    meanwhile: list[tuple[str, ...]]
    """`("arrive", queue, body)`, `("take", queue, limit)`, `("nothing",)`: what happens during evaluations in turn."""


@dataclass
class Meeting:
    """An application, and some histories."""

    text: str
    rules: dict[str, ModelRule]
    values: dict[tuple[str, str], str]
    """The value of each property on each queue: an attribute, or a constant."""
    histories: list[History]
    features: set[str] = field(default_factory=set)


@lru_cache(maxsize=10_000)
def attributes(text: str) -> dict[str, str]:
    """Those of a message, if it is one of ours."""
    return dict(_ATTRIBUTE.findall(text.partition(">")[0])) if text.startswith("<m ") else {}


def draw_meeting(rng: random.Random) -> Meeting:
    return _Drawn(rng).meeting()


def _attribute(message: Message, name: str) -> str | None:
    return attributes(message.document.text).get(name)


class _Drawn:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.features: set[str] = set()
        self.is_sparse = rng.random() < 0.5
        """Messages meet now and then, instead of all the time: there are more keys, and whole queues are seldom read."""
        self.keys = tuple("12345678") if self.is_sparse else rng.choice((("1", "2"), ("1", "2", "3")))
        self.sharing = rng.choice((0.2, 0.4)) if self.is_sparse else 0.6
        self.basic = [f"q{n}" for n in range(rng.choice((2, 3, 3, 4)))]
        self.boxes = [f"box{n}" for n in range(rng.choice((1, 1, 2)))]
        self.gates = ["gate"] if self.chance(0.2, "outgoing gateways") else []
        self.boxes += self.gates
        self.echoes = ["later"] if rng.random() < 0.3 else []
        self.slicings = {f"s{n}": f"p{n}" for n in range(rng.choice((1, 2, 2, 3)))}
        self.settable: dict[str, list[str]] = {}
        self.values: dict[tuple[str, str], str] = {}
        self.rules: dict[str, ModelRule] = {}
        self.slicing: str | None = None

    def meeting(self) -> Meeting:
        lines = [self.queue(name) for name in (*self.basic, *self.boxes)]
        lines += [f"create queue {name} kind echo" for name in self.echoes]
        lines += [self.property(name) for name in self.slicings.values()]
        lines += [f"create slicing {name} on {on}" for name, on in self.slicings.items()]
        lines += [self.rule(f"r{n}") for n in range(self.rng.choice((3, 4, 5, 6, 7)))]
        if len(self.slicings) > 1:
            self.features.add("several slicings")
        histories = [self.history() for _ in range(HISTORIES)]
        return Meeting("\n".join(lines), self.rules, self.values, histories, self.features)

    def history(self) -> History:
        rng = self.rng
        bursts = [[self.arrival() for _ in range(rng.choice((2, 3, 4, 6, 8)))] for _ in range(rng.choice((1, 1, 2)))]
        return History(bursts, [self.event() for _ in range(rng.choice((0, 0, 0, 2, 6)))])

    def pick(self, *options: str) -> str:
        return self.rng.choice(options)

    def chance(self, share: float, feature: str | None = None) -> bool:
        yes = self.rng.random() < share
        if yes and feature is not None:
            self.features.add(feature)
        return yes

    # statements

    def queue(self, name: str) -> str:
        text = f"create queue {name}"
        if name in self.gates:  # nothing is sent here, so that its messages stay
            text += ' kind outgoingGateway endpoint "http://nowhere.example/"'
        if self.chance(0.25, "priorities"):
            text += f" priority {self.pick('1', '2', '-1')}"
        if self.chance(0.15, "transient queues"):
            text += " mode transient"
        if self.chance(0.2, "error queues"):
            text += f" errorqueue {self.pick(*self.basic, *self.boxes)}"
        return text

    def property(self, name: str) -> str:
        queues = [queue for queue in (*self.basic, *self.boxes) if self.rng.random() < self.sharing] or [self.basic[0]]
        variant = self.pick("", "fixed", "fixed", "inherited")
        text = f"create property {name} as xs:{self.pick('string', 'string', 'integer')} {variant}"
        if variant != "fixed":
            for queue in queues:
                self.settable.setdefault(queue, []).append(name)
        together = self.pick("a", "a", "b") if self.chance(0.5) else None
        for queue in queues:
            value = self.values[(name, queue)] = together or self.pick("a", "b", "1")
            text += f" queue {queue} value {value if value == '1' else f'/m/@{value}'}"
        return text

    def rule(self, name: str) -> str:
        self.slicing = self.pick(*self.slicings) if self.rng.random() < 0.55 else None
        target = self.slicing or self.pick(*self.basic, *self.gates)
        if self.chance(0.15, "error queues"):
            target += f" errorqueue {self.pick(*self.basic, *self.boxes)}"
        condition, test = self.condition()
        if self.chance(0.06, "rules that ask for numbers"):  # which only stored messages have
            condition = f'qs:property("demaq:id") and {condition}'
        actions = [self.action() for _ in range(self.rng.choice((1, 1, 2, 2, 3)))]
        self.rules[name] = ModelRule(test, [act for _, act in actions])
        shown = ", ".join([text for text, _ in actions])
        return f"create rule {name} for {target} if (/m/@n > 0 and {condition}) then {shown if len(actions) == 1 else f'({shown})'}"

    # conditions and values

    def condition(self) -> tuple[str, Test]:
        if self.chance(0.05, "errors"):  # alone: of `and` and `or` XQuery may evaluate either operand first
            return "xs:integer(/m/@t) > 0", lambda m: _integer(_attribute(m.message, "t")) > 0
        text, test = self.test()
        if self.rng.random() < 0.7:
            return text, test
        other_text, other = self.test()
        if self.chance(0.5):
            return f"({text} and {other_text})", lambda m: test(m) and other(m)
        return f"({text} or {other_text})", lambda m: test(m) or other(m)

    def test(self) -> tuple[str, Test]:
        kind = self.pick(*["plain"] * (6 if self.is_sparse else 3), "state", "state", "state", "order")
        if kind == "plain":
            a, b = self.pick("a", "b"), self.rng.choice(self.keys)
            wanted = self.pick(*TEXTS)
            return self.rng.choice(
                [
                    ("true()", lambda m: True),
                    ("true()", lambda m: True),
                    (f'/m/@t = "{wanted}"', lambda m: _attribute(m.message, "t") == wanted),
                    (f'/m/@{a} = "{b}"', lambda m: _attribute(m.message, a) == b),
                    ("/m/@a = /m/@b", lambda m: _attribute(m.message, "a") == _attribute(m.message, "b")),
                    ('not(/m/@t = "y")', lambda m: _attribute(m.message, "t") != "y"),
                ]
            )
        if kind == "order":
            return self.order_test()
        text, nodes = self.nodes()
        count, wanted = self.rng.choice((1, 2, 3)), self.pick(*TEXTS)
        return self.rng.choice(
            [
                (f"count({text}) >= {count}", lambda m: len(nodes(m)) >= count),
                (f"count({text}) = {count}", lambda m: len(nodes(m)) == count),
                (f"count({text}) < {count}", lambda m: len(nodes(m)) < count),
                (f"empty({text})", lambda m: not nodes(m)),
                (f'{text}/m/@t = "{wanted}"', lambda m: wanted in _texts(nodes(m))),
            ]
        )

    def order_test(self) -> tuple[str, Test]:
        self.features.add("document order")
        (one_text, one), (two_text, two) = self.nodes(), self.nodes()
        wanted, place = self.pick(*TEXTS), self.pick("last()", "1")
        at = -1 if place == "last()" else 0
        before = self.chance(0.5)
        return self.rng.choice(
            [
                (
                    f'({one_text} | {two_text})[{place}]/m/@t = "{wanted}"',
                    lambda m: wanted in _texts(_ordered([*one(m), *two(m)])[at:][:1]),
                ),
                (
                    f"exists({one_text}[. {'<<' if before else '>>'} qs:message()])",
                    lambda m: any(
                        [(each.seq < m.message.seq) if before else (each.seq > m.message.seq) for each in one(m)]
                    ),
                ),
            ]
        )

    def nodes(self) -> tuple[str, Nodes]:
        """Messages of a queue, of a slice, or found by a key."""
        queue = self.pick(*self.basic, *self.boxes)
        by, key = self.pick("a", "b"), self.rng.choice(self.keys)
        shapes: list[tuple[str, Nodes]] = [
            (f'qs:queue("{queue}")', lambda m: m.queue(queue)),
            ("qs:queue()", lambda m: m.queue(None)),
            (
                f'qs:queue("{queue}")[/m/@a = qs:message()/m/@{by}]',
                lambda m: m.find(queue, "a", _attribute(m.message, by) or ""),
            ),
            (f'qs:queue("{queue}")[/m/@b = "{key}"]', lambda m: m.find(queue, "b", key)),
        ]
        if self.slicing is not None:
            shapes += [("qs:slice()", lambda m: m.slice())] * 4
        return self.rng.choice(shapes[2:] if self.is_sparse and not self.chance(0.1) else shapes)

    def value(self) -> tuple[str, Value]:
        kind = self.pick(*["plain"] * (6 if self.is_sparse else 1), "count", "texts", "order", "order", "fails")
        text, nodes = self.nodes()
        if kind == "count":
            return f"{{count({text})}}", lambda m: str(len(nodes(m)))
        if kind == "texts":
            return f"{{{text}/m/@t/string()}}", lambda m: " ".join(_texts(nodes(m)))
        if kind == "order":
            self.features.add("document order")
            other_text, other = self.nodes()
            return (
                f"{{({text} | {other_text})/m/@t/string()}}",
                lambda m: " ".join(_texts(_ordered([*nodes(m), *other(m)]))),
            )
        if kind == "fails" and self.chance(0.3, "errors"):
            return "{1 idiv count(/m[@t != 'x'])}", lambda m: _divided(int(_attribute(m.message, "t") != "x"))
        return self.rng.choice([("v", lambda m: "v"), ("{/m/@t/string()}", lambda m: _attribute(m.message, "t") or "")])

    # actions

    def action(self) -> tuple[str, Callable[[Asked], Action]]:
        if self.chance(0.3, "resets"):
            return self.reset()
        text, body = self.message()
        if self.echoes and self.chance(0.2, "timers"):
            target, seconds = self.pick(*self.basic, *self.boxes), self.pick("0", "1", "5")
            set_there = (("timeout", seconds), ("target", target))
            shown = f'do enqueue {text} into later with timeout value {seconds} with target value "{target}"'
            return shown, lambda m: Enqueue("later", body(m), set_there)
        queue = self.pick(*self.basic, *self.basic, *self.boxes)
        shown = f"do enqueue {text} into {queue}"
        explicit: list[tuple[str, Value]] = []
        for name in self.settable.get(queue, ()):
            if self.chance(0.15, "explicit properties"):
                key_text, key = self.key()
                shown += f" with {name} value {key_text}"
                explicit.append((name, key))
        return shown, lambda m: Enqueue(queue, body(m), tuple([(name, key(m)) for name, key in explicit]))

    def reset(self) -> tuple[str, Callable[[Asked], Action]]:
        if self.slicing is not None and self.rng.random() < 0.5:
            return "do reset", lambda m: Reset(None, None)
        self.features.add("resets by name")
        slicing = self.pick(*self.slicings)
        text, key = self.key()
        return f"do reset {slicing} key {text}", lambda m: Reset(slicing, key(m))

    def key(self) -> tuple[str, Value]:
        by = self.pick("a", "b", "")
        if by:
            return f"/m/@{by}", lambda m: _attribute(m.message, by) or ""
        key = self.rng.choice(self.keys)
        return f'"{key}"' if self.chance(0.5) else key, lambda m: key

    def message(self) -> tuple[str, Value]:
        chosen = {
            "a": self.pick("a", "a", "b", "=" + self.rng.choice(self.keys)),
            "b": self.pick("b", "a", "=" + self.rng.choice(self.keys)),
            "t": self.pick("t", *["=" + text for text in TEXTS]),
        }
        value_text, value = self.value()
        shown = " ".join([f'{k}="{v[1:] if v[0] == "=" else f"{{/m/@{v}}}"}"' for k, v in chosen.items()])

        def body(m: Asked) -> str:
            mine = {k: v[1:] if v[0] == "=" else _attribute(m.message, v) for k, v in chosen.items()}
            left = int(_attribute(m.message, "n") or 0) - 1
            inner = value(m)
            written = " ".join([f'{k}="{v}"' for k, v in mine.items()])
            return f'<m {written} n="{left}"><v>{inner}</v></m>' if inner else f'<m {written} n="{left}"><v/></m>'

        return f'<m {shown} n="{{/m/@n - 1}}"><v>{value_text}</v></m>', body

    # what happens

    def arrival(self) -> Arrival:
        return self.pick(*self.basic, *self.basic, *self.boxes), self.body()

    def body(self) -> str:
        a, b = self.rng.choice(self.keys), self.rng.choice(self.keys)
        return f'<m a="{a}" b="{b}" t="{self.pick(*TEXTS)}" n="{self.pick("0", "1", "2", "3", "3", "4")}"/>'

    def event(self) -> tuple[str, ...]:
        kind = self.pick("arrive", "arrive", "take", "nothing")
        if kind == "arrive":
            return ("arrive", *self.arrival())
        boxes = [name for name in self.boxes if name not in self.gates]
        return ("take", self.pick(*boxes), self.pick("1", "2", "9")) if kind == "take" else ("nothing",)


def _texts(messages: Sequence[Message]) -> list[str]:
    found = [_attribute(message, "t") for message in messages]
    return [text for text in found if text is not None]


def _ordered(messages: Sequence[Message]) -> list[Message]:
    """In document order, each once."""
    return sorted({message.id: message for message in messages}.values(), key=lambda message: message.seq)


def _integer(text: str | None) -> int:
    if text is None or not text.isdigit():
        raise Failed("FORG0001")
    return int(text)


def _divided(by: int) -> str:
    if not by:
        raise Failed("FOAR0001")
    return str(1 // by)
