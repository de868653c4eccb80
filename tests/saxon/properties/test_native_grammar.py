"""Native rules do what Saxon does: the same outcomes, with and without them, whatever the message."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from demaq.compiler.emit.python.queue_code import emit_intake
from demaq.documents import parse_document
from demaq.errors import MessageError, ProgramError
from demaq.evaluation.native.native_properties import NativeProperties
from demaq.evaluation.outcomes import Enqueued, Outcome
from demaq.evaluation.round_request import PropertyRequest, compute_one
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.processor import Saxon
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.memory_state import MemoryState
from tests.support.programs import NOW, program
from tests.support.reference.rule_oracle import canonical

SAXON: list[Saxon] = []

NAMES = ["a", "b", "c"]
VALUES = ["1", "2", "2.5", " 3 ", "-4", "1e3", "1234567", "0.00001", "x", "y z", "", "&lt;&amp;&quot;", "ä€𝄞", "0"]
UNUSUAL_VALUES = ["INF", "NaN", "-0", "1_0", "٣", "+5", ".5", "5.", "99999999999999999999", "&#13;", "a&#10;b"]
DECLARATIONS = [
    ' xmlns="urn:p"',
    ' xmlns="urn:d"',
    ' xmlns:z="urn:z"',
    ' xmlns:p="urn:q"',
    ' xmlns:q="urn:q"',
    ' xmlns=""',
]
STATEMENTS = """
declare namespace p = "urn:p";
declare namespace other = "urn:q";
create queue q create queue o create queue s
create collection k
create property key as xs:string fixed queue q, s value /*/@k
create property number as xs:integer queue s value (//c)[1]
create property handed as xs:string inherited queue q, s value //nobody
create property free as xs:string queue o value /o/a
create property yes as xs:boolean inherited queue q, s value (//a)[1] = "1"
create property exact as xs:decimal queue o value (//b)[1]
create slicing bykey on key
"""


class Grammar:
    """Makes up expressions that are native, most of them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.variables: list[str] = []
        self.slicing = False

    def pick(self, *options: Any) -> Any:
        return self.random.choice(options)

    def chance(self, of: int) -> bool:
        return self.random.randrange(of) == 0

    def name(self) -> str:
        return str(self.pick(*NAMES, *NAMES, "p:a", "other:b"))

    def literal(self) -> str:
        return '"' + str(self.pick("1", "2", "x", "y z", "", "2.5")) + '"'

    # nodes

    def elements(self, depth: int, focus: str = "document") -> str:
        """A path to elements, from a document or from an element."""
        name = self.name()
        starts = {"document": ["//", "//", "/r/", "/*/", "r/", "qs:message()//", "/"], "element": ["", "", ".//", "*/"]}
        kind = self.random.randrange(8)
        if self.variables and kind == 0:
            path = f"{self.pick(*self.variables)}{self.pick('/', '//')}{name}"
        elif kind == 1 and depth > 0:
            path = f"({self.elements(depth - 1, focus)} | {self.elements(depth - 1, focus)})"
        elif kind == 2 and depth > 0:
            path = f"({self.elements(depth - 1, focus)})[{self.predicate(depth - 1)}]"
        elif kind == 3 and depth > 0:
            path = f"{self.state(depth - 1)}//{name}"
        else:
            path = self.pick(*starts[focus]) + name
        for _ in range(self.pick(0, 0, 1)):
            if depth > 0 and self.chance(3):
                path += f"[{self.predicate(depth - 1)}]"
            path += f"{self.pick('/', '/', '//')}{self.name()}"
        if depth > 0 and self.chance(3):
            path += f"[{self.predicate(depth - 1)}]"
        return str(path)

    def predicate(self, depth: int) -> str:
        return str(
            self.pick(
                "1",
                "2",
                "last()",
                "position() <= 2",
                "position() = last()",
                "@k",
                f"@k = {self.literal()}",
                f". = {self.literal()}",
                f"@k = {self.pick('1', '2.5', '3e0')}",
                f"count({self.name()}) = 1",
                self.elements(depth, "element"),
                self.condition(depth, "element"),
            )
        )

    def state(self, depth: int) -> str:
        read = self.pick('qs:queue("s")', 'collection("k")', "qs:slice()" if self.slicing else 'qs:queue("s")')
        kind = self.random.randrange(4)
        if kind == 0:
            return f"{read}[/*/{self.name()} = qs:message()//{self.name()}]"
        if kind == 1:
            return f"{read}[.//{self.name()} = {self.literal()}]"
        if kind == 2 and depth > 0:
            return f"{read}[{self.condition(depth - 1)}]"
        return str(read)

    # values

    def values(self, depth: int, focus: str = "document") -> str:
        """Any number of values, or nodes to take them from."""
        kind = self.random.randrange(8)
        if kind == 0:
            return self.literal()
        if kind == 1:
            return f"{self.elements(depth, focus)}/@{self.pick('k', 'i')}"
        if kind == 2 and depth > 0:
            return f"({self.literal()}, {self.literal()})"
        if kind == 3:
            return f"distinct-values({self.elements(depth, focus)})"
        if kind == 4:
            return f"data({self.elements(depth, focus)}/@k)"
        if kind == 5:
            return f"{self.elements(depth, focus)}/text()"
        if kind == 6:
            return str(self.pick('qs:property("key")', 'qs:property("handed")', 'qs:property("yes")', "string(.)"))
        return self.elements(depth, focus)

    def number(self, depth: int, focus: str = "document") -> str:
        kind = self.random.randrange(9)
        less = depth - 1
        if kind < 2 or depth <= 0:
            return str(self.pick("1", "2", "3e0", f"count({self.elements(0, focus)})"))
        if kind == 2:
            return f"sum({self.elements(less, focus)}/@k)"
        if kind == 3:
            return f"sum({self.elements(less, focus)}/(@k * @i))"
        if kind == 4:
            return f"{self.pick('max', 'min')}({self.elements(less, focus)}/@k)"
        if kind == 5:
            return f"({self.number(less, focus)} {self.pick('+', '-', '*')} {self.number(less, focus)})"
        if kind == 6:
            return f"(({self.elements(less, focus)})[1]/@k {self.pick('+', '*')} {self.pick('2', '0.5', '1e0')})"
        if kind == 7:
            return f"{self.pick('xs:double', 'xs:integer')}(({self.elements(less, focus)})[1]/@k)"
        return f"string-length({self.text(less, focus)})"

    def text(self, depth: int, focus: str = "document") -> str:
        kind = self.random.randrange(6)
        less = depth - 1
        if kind == 0 or depth <= 0:
            return f"string(({self.elements(0, focus)})[1])"
        if kind == 1:
            return f"concat({self.text(less, focus)}, {self.literal()})"
        if kind == 2:
            return f'string-join({self.values(less, focus)}, "+")'
        if kind == 3:
            return f"normalize-space({self.text(less, focus)})"
        if kind == 4:
            return f"({self.text(less, focus)} || {self.literal()})"
        return f"string({self.pick('.', self.number(less, focus))})"

    def condition(self, depth: int, focus: str = "document") -> str:
        kind = self.random.randrange(11)
        less = depth - 1
        if kind < 2 or depth <= 0:
            return self.elements(0, focus)
        if kind == 2:
            return f"{self.values(less, focus)} {self.pick('=', '=', '!=')} {self.values(less, focus)}"
        if kind == 3:
            operator = self.pick("=", "!=", "<", "<=", ">", ">=")
            return f"{self.values(less, focus)} {operator} {self.number(less, focus)}"
        if kind == 4:
            return f"({self.condition(less, focus)} {self.pick('and', 'or')} {self.condition(less, focus)})"
        if kind == 5:
            asked = self.pick(self.elements(less, focus), self.elements(less, focus), 'qs:property("yes")')
            return f"{self.pick('not', 'exists', 'empty', 'boolean')}({asked})"
        if kind == 6:
            kind_, name = self.pick("some", "every"), self.variable()
            condition = f"{name}/@k = {self.literal()}"
            return f"({kind_} {name} in {self.elements(less, focus)} satisfies {condition})"
        if kind == 7:
            function = self.pick("contains", "starts-with", "ends-with")
            return f"{function}({self.text(less, focus)}, {self.literal()})"
        if kind == 8:
            return f"{self.number(less, focus)} {self.pick('=', '<', '>')} {self.number(less, focus)}"
        if kind == 9:
            return f"count({self.elements(less, focus)}) {self.pick('eq', 'gt', 'le')} {self.random.randrange(3)}"
        return f"exists({self.state(less)})"

    def variable(self) -> str:
        return f"$v{self.random.randrange(1000)}"

    # what is made

    def made(self, depth: int) -> str:
        name = self.pick("o", "a", "b", "o", "p:o", "other:a")
        declared = ("", ' p:n="1"', ' xmlns:p="urn:r"', ' xmlns:x="urn:p" x:n="2"')
        attributes = self.pick(
            "", *declared, ' n="{{1}} &lt;"', f' n="{{{self.values(0)}}}"', f' m="x{{{self.number(depth - 1)}}}"'
        )
        parts = [self.part(depth) for _ in range(self.random.randrange(4))]
        return f"<{name}{attributes}>{self.pick('', ' ', ' t ')}{''.join(parts)}</{name}>"

    def part(self, depth: int) -> str:
        kind = self.random.randrange(12)
        less = depth - 1
        if kind < 2 or depth <= 0:
            return f"{{ {self.elements(0)} }}"
        if kind == 2:
            return self.made(less)
        if kind == 3:
            return f"{{ {self.values(less)} }}"
        if kind == 4:
            return f"{{ {self.number(less)} }}"
        if kind == 5:
            return f"{{ {self.elements(less)}/@k }}"
        if kind == 6:
            name = self.variable()
            self.variables.append(name)
            made = self.pick(f"<i>{{ {name}/@k, {name}/b }}</i>", f"string({name})", name, self.made(less))
            where = f" where {self.condition(less)}" if self.chance(3) else ""
            self.variables.pop()
            return f"{{ for {name} in {self.elements(less)}{where} return {made} }}"
        if kind == 7:
            test = self.condition(less)
            return f"{{ if ({test}) then {self.made(less)} else {self.pick('()', self.made(less))} }}"
        if kind == 8:
            name = self.variable()
            made = f"({name}, {name})" if self.chance(2) else name
            return f"{{ let {name} := {self.pick(self.made(less), self.elements(less))} return {made} }}"
        if kind == 9:
            return f"{{ {self.text(less)} }}"
        if kind == 10:
            return f"{{ ({self.elements(less)} ! {self.pick('@k', 'string()', 'b', 'count(c)')}) }}"
        return f"{{ {self.pick('.', 'qs:message()', '/*', self.state(less))} }}"

    def actions(self, depth: int) -> str:
        kind = self.random.randrange(7)
        less = depth - 1
        if kind < 3 or depth <= 0:
            queue = self.pick("o", "s", "q")
            handed = f" with handed value {self.values(0)}"
            others = ["", handed, f" with yes value {self.pick('//c', self.condition(1))}"]
            with_ = self.pick("", *others) if queue != "o" else self.pick("", f" with exact value {self.values(0)}")
            return f"do enqueue {self.pick(self.made(2), self.made(2), self.elements(1), '.')} into {queue}{with_}"
        if kind == 3:
            return f"do reset bykey key {self.pick(self.literal(), self.values(0))}"
        if kind == 4:
            return f"({self.actions(less)}, {self.actions(less)})"
        if kind == 5:
            name = self.variable()
            bound = self.elements(less)
            self.variables.append(name)
            found = f"{self.pick(f'let {name} :=', f'for {name} in')} {bound} return {self.actions(less)}"
            self.variables.remove(name)
            return found
        otherwise = f" else {self.actions(less)}" if self.chance(2) else ""
        return f"if ({self.condition(less)}) then {self.actions(less)}{otherwise}"


def document(random: Random) -> str:
    is_unusual = random.randrange(6) == 0
    is_namespaced = random.randrange(3) == 0

    def element(depth: int) -> str:
        name = "r" if depth == 3 else random.choice(NAMES)
        declared = ""
        if is_namespaced:
            declared = random.choice(["", "", *DECLARATIONS]) if depth < 3 else ' xmlns:p="urn:p" xmlns:q="urn:q"'
            name = name if depth == 3 else random.choice([name, name, "p:a", "q:b"])
        values = [*VALUES, *UNUSUAL_VALUES] if is_unusual else VALUES
        attributes = declared
        for attribute in random.choice([(), ("k",), ("i", "k"), ("k",)]):
            attributes += f' {attribute}="{random.choice(values)}"'
        content = random.choice([*values, "", "", ""])
        for _ in range(random.randint(0, 3 if depth else 0)):
            content += element(depth - 1) + random.choice(["", "", "t", " "])
        if is_unusual and random.randrange(8) == 0:
            content += random.choice(
                ["<!--x-->", "<?x y?>", '<p:a xmlns:p="urn:u">1</p:a>', '<a xmlns="urn:u"/>', "<![CDATA[<]]>"]
            )
        return f"<{name}{attributes}>{content}</{name}>"

    return element(3)


def rules(random: Random, count: int) -> str:
    grammar = Grammar(random)
    found: list[str] = []
    for number in range(count):
        grammar.slicing = random.randrange(3) == 0
        target = "bykey" if grammar.slicing else "q"
        bare = "do reset" if grammar.slicing and random.randrange(6) == 0 else grammar.actions(2)
        found.append(f"create rule r{number} for {target} if ({grammar.condition(2)}) then {bare}")
    return "\n".join(found)


@given(seed=st.integers(min_value=0, max_value=2**48))
def test_outcomes_are_the_same_with_and_without_native_rules(seed: int):
    event(f"native: {compare(seed)}")


def compare(seed: int) -> bool:
    """Whether the rules that a seed makes are native."""
    random = Random(seed)
    text = f"{STATEMENTS}\n{rules(random, random.randint(1, 3))}"
    if not SAXON:
        SAXON.append(Saxon())
    with tempfile.TemporaryDirectory() as folder:
        try:
            compiled = compile_program(program(Path(folder), text), SAXON[0])
        except ProgramError:  # what was made up has no meaning
            return False
    native, plain = SaxonEvaluator(compiled), SaxonEvaluator(compiled, native=False)
    slicings = {slicing.name: slicing.property for slicing in compiled.plan.program.slicings.values()}
    state = MemoryState(plain, slicings, NOW)
    state.add_to_collection("k", parse_document(document(random)))
    intakes = {queue: NativeProperties(emit_intake(queue, compiled.plan)) for queue in ("s", "q")}
    arrived = []
    for _ in range(4):
        for queue, intake in intakes.items():
            found = parse_document(document(random))
            computed = intake.compute(found)
            try:
                received = compute_one(plain, PropertyRequest(queue=queue, document=found, now=NOW))
            except MessageError:  # more than one value of a property, or none of its type
                assert computed is None, found.text
                continue
            assert computed in (None, (received.properties, received.entries)), found.text
            message = state.add(queue, found)
            if queue == "q":
                arrived.append(message)
    expected = plain.evaluate(arrived, state, NOW)
    for message, mine, theirs in zip(arrived, native.evaluate(arrived, state, NOW), expected, strict=True):
        assert described(mine) == described(theirs), f"{text}\n{message.document.text}"
    return native.is_native("q")


def described(outcome: Outcome) -> tuple[Any, ...]:
    return (
        outcome.fired,
        [action(each) for each in outcome.actions],
        [(error.rule, error.code) for error in outcome.errors],
    )


def action(each: Any) -> tuple[Any, ...]:
    if isinstance(each, Enqueued):
        properties = [(n, v.type, v.text, v.key) for n, v in each.properties.items()]
        return each.rule, each.queue, canonical(each.document.text), properties, each.entries
    return each.rule, each.slicing, each.key
