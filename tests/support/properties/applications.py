"""Applications and what happens to them, drawn from shapes of a small vocabulary, so that things meet often.

Messages look like `<m><n>2</n><k>1</k><v>x</v></m>`. Most rules count `n` down; the hop limit ends the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from demaq.language.program.program import SYSTEM_ERRORS
from tests.support.reference.comparing import Event

KEYS = ["1", "1", "1", "2", "01", "x"]
TEXTS = ["x", "x", "y", "5"]
HOPS_MAX = 5


@dataclass
class Application:
    """The text of a program, and what a test must know of it to send messages."""

    text: str
    queues: list[str]
    settable: dict[str, list[str]]
    """Properties that may be set on messages from outside, by queue."""
    failing_in_two_ways: frozenset[str] = frozenset()
    """Rules of which an expression may fail, besides the enqueuing."""


class Shapes:
    """Draws statements, with what has been declared so far."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.queues: list[str] = []
        self.echoes: list[str] = []
        self.properties: dict[str, tuple[str, str, list[str]]] = {}
        """Type, variant and queues."""
        self.slicings: dict[str, str] = {}
        self.slicing: str | None = None
        """The one whose rule is being drawn."""

    def pick(self, *options: str) -> str:
        return str(self.draw(st.sampled_from(options)))

    def chance(self, of: int) -> bool:
        """One in so many; shrinks towards no."""
        return bool(self.draw(st.integers(0, of - 1)) == of - 1)

    def some(self, options: list[str], least: int = 1) -> list[str]:
        return list(self.draw(st.lists(st.sampled_from(options), min_size=least, max_size=3, unique=True)))

    # statements

    def application(self) -> Application:
        names = [f"q{n}" for n in range(int(self.pick("2", "2", "3", "3", "4", "6")))]
        header = f"module app errorqueue {self.pick(*names[:2])};" if self.chance(3) else ""
        self.queues = names
        self.echoes = [name for name in names[2:] if self.chance(5)]
        lines = [header, *[self.queue(name) for name in names]]
        lines += [self.declared_property(f"p{n}") for n in range(self.draw(st.integers(0, 3)))]
        if self.properties:
            lines += [self.declared_slicing(f"s{n}") for n in range(self.draw(st.integers(0, 2)))]
        rules = {f"r{n}": self.rule(f"r{n}") for n in range(self.draw(st.integers(2, 6)))}
        lines += rules.values()
        settable = {
            queue: [name for name, (_, variant, on) in self.properties.items() if queue in on and variant != "fixed"]
            for queue in names
        }
        return Application(
            text="\n".join(lines),
            queues=[name for name in names if name not in self.echoes],
            settable=settable,
            failing_in_two_ways=frozenset(
                [name for name, text in rules.items() if "<v>{xs:integer" in text or "<v>{1 div" in text]
            ),
        )

    def queues_to_be_used(self) -> list[str]:
        """On which there may be properties, and rules but for echo queues."""
        return [*self.queues, SYSTEM_ERRORS]

    def errorqueue(self) -> str:
        plain = [name for name in self.queues if name not in self.echoes]
        return f" errorqueue {self.pick(*plain)}" if self.chance(3) else ""

    def queue(self, name: str) -> str:
        text = f"create queue {name}"
        if name in self.echoes:
            text += " kind echo"
        elif name != "q0" and self.chance(10):
            text += ' kind outgoingGateway endpoint "http://nowhere.example/"'
        if self.chance(5):
            text += " mode transient"
        if self.chance(3):
            text += f" priority {self.pick('1', '2', '-1')}"
        return text + self.errorqueue()

    def declared_property(self, name: str) -> str:
        type_ = self.pick("string", "integer")
        variant = self.pick("", "", "inherited", "fixed")
        on = self.some(self.queues_to_be_used())
        parts = ""
        for queue in on:
            value = self.pick("//k", "(//k)[1]", "(//k)[1]", "//v", '"1"', "count(//k)")
            if type_ == "integer":
                value = self.pick("(//k)[. castable as xs:integer][1]", "//k[. castable as xs:integer]", "//k", "1")
            parts += f" queue {queue}"
            if variant == "fixed" or not self.chance(4):
                parts += f" value {value}"
        self.properties[name] = (type_, variant, on)
        return f"create property {name} as xs:{type_} {variant}{parts}"

    def declared_slicing(self, name: str) -> str:
        self.slicings[name] = self.pick(*self.properties)
        return f"create slicing {name} on {self.slicings[name]}"

    def rule(self, name: str) -> str:
        slicings = [name for name, of in self.slicings.items() if set(self.properties[of][2]) - set(self.echoes)]
        self.slicing = self.pick(*slicings) if slicings and self.chance(2) else None
        queues = [name for name in self.queues_to_be_used() if name not in self.echoes]
        target = self.slicing or self.pick("q0", "q0", "q1", *queues)
        head = f"create rule {name} for {target}{self.errorqueue()}"
        if self.chance(12):
            # Fails on some messages. With another `if` inside it need not: what cannot act may be left unevaluated.
            return f"{head} if (xs:integer((//k)[1]) > 0) then {self.enqueue()}"
        condition = self.condition(1)
        if not self.chance(4):
            condition = f"number((//n)[1]) > 0 and {condition}"
        return f"{head} if ({condition}) then {self.actions(2)}"

    # conditions

    def condition(self, depth: int) -> str:
        if depth and self.chance(4):
            first, second = self.condition(0), self.condition(0)
            return self.pick(f"({first} and {second})", f"({first} or {second})", f"not({first})")
        queue = self.pick(*self.queues)
        shapes = ["true()"] * 6
        shapes += ["/m", "/a", "/error", "/error", '//k = "1"', '//v = "x"', "not(//v)", "count(//k) = 1"]
        shapes += [
            f'count(qs:queue("{queue}")) >= 2',
            f'exists(qs:queue("{queue}"))',
            f'exists(qs:queue("{queue}")[/m/k = qs:message()//k])',
            f'not(qs:queue("{queue}")[//k = qs:message()//k])',
            f'qs:queue("{queue}")//v = "x"',
            "count(qs:queue()) < 3",
            'qs:property("demaq:rule") = "r0"',
        ]
        if self.properties:
            name = self.pick(*self.properties)
            shapes += [
                f'exists(qs:property("{name}"))',
                f'string(qs:property("{name}")) = "1"',
                f'exists(qs:queue("{queue}")[string(qs:property("{name}", .)) = string(qs:property("{name}"))])',
            ]
        if self.slicing is not None:
            more = [
                "count(qs:slice()) = 2",
                "qs:slice()/a",
                'not(qs:slice()//v = "x")',
                "qs:slice()//k = qs:message()//k",
            ]
            shapes = [*shapes, *more, *more, 'string(qs:slicekey()) = "1"', "count(qs:slice()) > 2"]
        return self.pick(*shapes)

    # actions

    def actions(self, depth: int) -> str:
        if depth == 0 or not self.chance(3):
            return self.reset() if self.slicings and self.chance(3) else self.enqueue()
        less = depth - 1
        return self.pick(
            f"({self.actions(less)}, {self.actions(less)})",
            f"if ({self.condition(0)}) then {self.actions(less)}",
            f"if ({self.condition(0)}) then {self.actions(less)} else {self.actions(less)}",
            f"for $x in //k return {self.actions(less)}",
        )

    def reset(self) -> str:
        if self.slicing is not None and not self.chance(3):
            return "do reset"
        slicing = self.pick(*self.slicings)
        key = self.pick('"1"', "(//k)[1]", f'qs:property("{self.slicings[slicing]}")', "//k", "()")
        return f"do reset {slicing} key {key}"

    def enqueue(self) -> str:
        queue = self.pick(*self.queues)
        text = f"do enqueue {self.message()} into {queue}"
        if queue in self.echoes:
            timeout = self.pick("0", "5", "-1", 'xs:dayTimeDuration("PT10S")', "(//v)[1]", "5.5")
            # An echo queue as target is refused by the check where it can be read, and else when the timer is set.
            targets = [f'"{name}"' if name not in self.echoes else f'concat("{name}", "")' for name in self.queues]
            target = self.pick(*targets, "string((//v)[1])")
            text += f" with timeout value {timeout} with target value {target}"
        for name, (_, variant, on) in self.properties.items():
            if queue in on and variant != "fixed" and self.chance(4):
                value = self.pick('"1"', '"2"', "//k", "()", '("1", "1")')
                text += f" with {name} value {value}"
        return text

    def message(self) -> str:
        root = self.pick("m", "m", "a")
        inner = "<n>{number((//n)[1]) - 1}</n>"
        for _ in range(self.draw(st.integers(1, 3))):
            inner += self.content()
        return self.pick(*[f"<{root}>{inner}</{root}>"] * 8, ".", "//v")

    def content(self) -> str:
        queue = self.pick(*self.queues)
        shapes = ["{(//k)[1]}", "{(//k)[1]}", "{//k}", "{//v}", "<v>x</v>", "<v>{xs:integer((//v)[1])}</v>", "<k>2</k>"]
        shapes += [
            f'<c>{{count(qs:queue("{queue}"))}}</c>',
            "<c>{count(qs:queue())}</c>",
            "<v>{1 div (count(//k) - 1)}</v>",
            f'{{(qs:queue("{queue}")//k)[1]}}',
            f'<c>{{qs:queue("{queue}")[//k = qs:message()//k] ! name(*)}}</c>',
        ]
        if self.properties:
            shapes.append(f'<p>{{qs:property("{self.pick(*self.properties)}")}}</p>')
        if self.slicing is not None:
            shapes += ["<k>{qs:slicekey()}</k>", "<c>{count(qs:slice())}</c>", "<c>{qs:slice()/* ! name(.)}</c>"]
        return self.pick(*shapes)


@st.composite
def applications(draw: Any) -> Application:
    return Shapes(draw).application()


@st.composite
def arrivals(draw: Any, application: Application) -> Event:
    shapes = Shapes(draw)
    queue = shapes.pick("q0", "q0", *application.queues)
    keys = "".join([f"<k>{key}</k>" for key in draw(st.lists(st.sampled_from(KEYS), max_size=2))])
    texts = "".join([f"<v>{text}</v>" for text in draw(st.lists(st.sampled_from(TEXTS), max_size=1))])
    root = shapes.pick("m", "m", "a")
    body = f"<{root}><n>{shapes.pick('2', '1', '2', '3', '0')}</n>{keys}{texts}</{root}>"
    given = [(name, shapes.pick(*KEYS)) for name in application.settable[queue] if shapes.chance(4)]
    return Event("arrive", queue, body, tuple(given))


@st.composite
def histories(draw: Any, application: Application, crashes: bool) -> list[list[Event]]:
    """Phases: a burst of arrivals, and something that happens then."""
    shapes = Shapes(draw)
    phases: list[list[Event]] = []
    for _ in range(draw(st.integers(1, 3))):
        burst = draw(st.lists(arrivals(application), min_size=2, max_size=6))
        if crashes and shapes.chance(4):
            burst.append(Event("crash"))
        what = shapes.pick("run", "run", "run", "advance", "advance")
        after = [Event(what, seconds=int(shapes.pick("3", "5", "20")))]
        if crashes and shapes.chance(3):
            after.append(Event("crash"))
        if shapes.chance(3):
            after.append(Event("collect"))
        if shapes.chance(4):
            after.append(Event("take", shapes.pick(*application.queues)))
        phases.append([*burst, *after])
    phases[-1].append(Event("advance", seconds=30))
    return phases
