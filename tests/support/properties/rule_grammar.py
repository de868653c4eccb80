"""Programs, rules and messages drawn from one small vocabulary, so that things match often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st

ELEMENTS = ["a", "b", "c"]
VALUES = ["1", "2", "x", ""]
STEPS = [
    "@k",
    "@id",
    "text()",
    "node()",
    "comment()",
    ".",
    "..",
    "self::*",
    "root()",
    "(/)",
    "string()",
    "following::*",
]
STEPS += ["ancestor::*", "ancestor-or-self::node()", "following-sibling::*", "preceding-sibling::node()"]
STEPS += ["descendant-or-self::*"]
STATEMENTS = """
create queue a create queue b create queue c
create property s as xs:string queue a, b, c value (//*:a)[1]
create property n as xs:integer queue a, b, c value (//*:b[. castable as xs:integer])[1]
create property i as xs:decimal inherited queue a, c value (//@k[. castable as xs:decimal])[1]
create property f as xs:string fixed queue b, c value local-name(/*)
create slicing bys on s
create slicing byn on n
"""
PROLOGS = ["", "", 'declare namespace p = "urn:p";', 'declare default element namespace "urn:p";']
FUNCTIONS = """
declare variable $up := function($n) { $n/.. };
declare variable $text := function($n) { string-join($n ! string(), "+") };
declare function local:up($n) { $n/.. };
declare function local:top($n) { $n ! root(.) };
declare function local:text($n) { string-join($n ! string(.), "|") };
declare function local:first($n) { $n[1]/@* };
declare function local:own() { qs:message()//*:a };
declare function local:found($k) { qs:queue("b")[.//*:a = $k] };
declare function local:s() { qs:property("s") };
"""


@dataclass
class Scope:
    """Where an expression stands: what the focus is, which variables there are."""

    focus: str
    """`message`, `node` of the message, or `state`: a document or node of other messages."""
    slicing: bool
    nodes: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    atoms: tuple[str, ...] = ()

    def at(self, focus: str) -> Scope:
        return Scope(focus, self.slicing, self.nodes, self.states, self.atoms)

    def bound(self, kind: str) -> tuple[str, Scope]:
        """A variable of that kind; sometimes one that hides another."""
        number = len(self.nodes) + len(self.states) + len(self.atoms)
        name = f"$v{number % 3}"
        known = {
            other: tuple([item for item in getattr(self, other) if item != name])
            for other in ("nodes", "states", "atoms")
        }
        known[kind] = (*known[kind], name)
        return name, Scope(self.focus, self.slicing, **known)


class Grammar:
    """Makes up pieces of rules. By a seed: what Hypothesis draws piece by piece is slow and nearly always the same."""

    def __init__(self, random: Random, prefixed: bool) -> None:
        self.random = random
        self.prefixed = prefixed

    def pick(self, *options: Any) -> Any:
        return self.random.choice(options)

    def number(self, most: int) -> int:
        return self.random.randint(0, most)

    def name(self) -> str:
        local = self.pick(*ELEMENTS)
        if self.prefixed and self.number(2) == 0:
            return str(self.pick(f"p:{local}", "p:*"))
        return str(self.pick(*[local] * 8, f"*:{local}", "*", f"Q{{urn:p}}{local}"))

    def literal(self) -> str:
        return '"' + str(self.pick(*VALUES)) + '"'

    # nodes

    def steps(self, scope: Scope, depth: int) -> str:
        """A path that begins at the focus."""
        if scope.focus == "message":
            start = self.pick("//", "//", "/", "/*/", "", ".//", "*/", "/m/", "qs:message()//", "/descendant::")
        elif scope.focus == "state":
            start = self.pick("//", "", ".//", "*/", "/*/", "/m/")
        else:
            start = self.pick("", ".//", "", "../", "//", "/*/")
        path = start + self.name() + self.predicates(depth)
        for _ in range(self.pick(0, 0, 0, 1, 2)):
            path += self.pick("/", "/", "//") + self.step(depth)
        return str(path)

    def step(self, depth: int) -> str:
        kind = self.number(11)
        if kind < 5:
            return self.name() + self.predicates(depth)
        return str(self.pick(*STEPS))

    def predicates(self, depth: int) -> str:
        kind = self.number(9)
        if kind < 6 or depth <= 0:
            return ""
        inner = Scope("node", False)
        return str(self.pick("[1]", "[last()]", f"[{self.condition(inner, depth - 1)}]", f"[. = {self.literal()}]"))

    def nodes(self, scope: Scope, depth: int) -> str:
        """Nodes of the message, mostly."""
        kind = self.number(13)
        if kind < 7 or depth <= 0:
            return self.steps(scope, depth)
        if kind == 7 and scope.nodes:
            return str(self.pick(*scope.nodes) + self.pick("", "/.", f"/{self.step(depth)}", f"//{self.name()}"))
        if kind == 8:
            return f"({self.nodes(scope, depth - 1)})[{self.pick('1', 'last()', 'not(. is root())')}]"
        if kind == 9:
            return (
                f"({self.nodes(scope, depth - 1)} {self.pick('|', 'except', 'intersect')} {self.any(scope, depth - 1)})"
            )
        if kind == 10:
            function = self.pick("local:up", "local:top", "$up", "outermost", "innermost", "reverse", "head", "data")
            return f"{function}({self.nodes(scope, depth - 1)})"
        if kind == 11:
            function = self.pick("$up", "local:up#1", "root#1", "local:first(?)", "function($z) { $z/.. }", "name#1")
            return f"for-each({self.nodes(scope, depth - 1)}, {function})"
        if kind == 12:
            # Saxon's parser takes `a ! .//*` for `(a ! .)//*` (test_saxonche.py), and the oracle writes no needless brackets.
            return f"({self.nodes(scope, depth - 1)} ! {self.pick('..', '.', '/*', '(.//*, ())', '@k', 'root(.)')})"
        return str(self.pick("local:own()", "(/)", ".", "qs:message()", "//node()", "/node()", "//@*"))

    def any(self, scope: Scope, depth: int) -> str:
        if self.number(2) == 0 and scope.focus != "node":
            return f"{self.messages(scope, depth)}//{self.name()}"
        return self.nodes(scope, depth)

    # state

    def messages(self, scope: Scope, depth: int) -> str:
        """The same but for collections: no rule says how their documents and messages are ordered."""
        return self.state(scope, depth).replace('collection("k")', "qs:queue()")

    def state(self, scope: Scope, depth: int) -> str:
        """Documents of other messages, or nodes of theirs."""
        reads = ['qs:queue("b")', 'qs:queue("b")', "qs:queue()", 'qs:queue("a")', 'collection("k")', "qs:queue($q)"]
        if scope.slicing:
            reads += ["qs:slice()", "qs:slice()"]
        read = str(self.pick(*reads, *scope.states)).replace("$q", 'concat("", "b")')
        if depth <= 0:
            return read
        inner = scope.at("state")
        kind = self.number(11)
        if kind < 4:
            return f"{read}[{self.keyed(inner, depth - 1)}]"
        if kind == 4:
            return f"{read}{self.pick('/', '//')}{self.name()}[{self.keyed(inner, depth - 1)}]"
        if kind == 5:
            name, below = scope.bound("states")
            return f"(for {name} in {read} where {self.keyed(below, depth - 1, name)} return {name})"
        if kind == 6:
            name, below = scope.bound("states")
            typed = self.pick("", "", " as document-node()*", " as document-node()+")
            return f"(let {name}{typed} := {read} return {name}[{self.keyed(below.at('state'), depth - 1)}])"
        if kind == 7:
            return f"{read}{self.pick('[1]', '[last()]', '[position() = 2]')}[{self.keyed(inner, depth - 1)}]"
        if kind == 8:
            return f"{read}[{self.keyed(inner, depth - 1)} and {self.pick('position() = 1', './/*', 'true()')}]"
        if kind == 9:
            return f"local:found({self.value(scope, depth - 1)})"
        if kind == 10:
            name, below = scope.bound("states")
            return f"(for {name} in {read} return if ({self.keyed(below, depth - 1, name)}) then {name} else ())"
        return read

    def keyed(self, scope: Scope, depth: int, variable: str = "") -> str:
        """A condition on a document of another message, often one that makes a key."""
        if variable:
            path = variable + self.pick("//", "/", "/*/") + self.name() + self.pick("", "", "/@k", "/text()")
        else:
            path = self.steps(scope, 0)
        if self.number(4) == 0:
            path = f"{self.pick('string', 'data', 'xs:string')}(({path})[1])"
        kind = self.number(9)
        if kind < 6:
            return f"{path} = {self.value(scope, depth)}"
        if kind == 6:
            return f"{self.value(scope, depth)} = {path}"
        if kind == 7:
            return f"{path} = {self.value(scope, depth)} and {self.condition(scope, depth - 1)}"
        return self.condition(scope, depth)

    # values

    def value(self, scope: Scope, depth: int) -> str:
        """Something to compare with; not depending on a focus that is not the message."""
        kind = self.number(9)
        if kind == 0 or depth <= 0:
            return self.literal()
        if kind == 1:
            return f"({self.literal()}, {self.literal()})"
        if kind == 2 and scope.atoms:
            return str(self.pick(*scope.atoms))
        if kind == 3 and scope.nodes:
            return str(self.pick(*scope.nodes))
        if kind == 4:
            return str(self.pick('qs:property("s")', 'string(qs:property("n"))', "()", "local:s()"))
        if kind == 5:
            return f"string(qs:message()/*/{self.pick('@k', '@id', 'a[1]', '*[1]')})"
        if kind == 6:
            name, below = scope.bound("atoms")
            return f"(let {name} := {self.value(scope, depth - 1)} return ({name}, {self.value(below, depth - 1)}))"
        if kind == 7:
            return f"(for $z in qs:message()//{self.name()} return string($z))"
        if kind == 8 and scope.slicing:
            return "string(qs:slicekey())"
        return f"qs:message()//{self.name()}"

    # conditions

    def condition(self, scope: Scope, depth: int) -> str:
        if depth <= 0:
            return self.steps(scope, 0)
        kind = self.number(20)
        less = depth - 1
        if kind < 4:
            return self.steps(scope, depth)
        if kind < 8:
            operator = self.pick("=", "=", "=", "!=", "<", ">=")
            return f"{self.nodes(scope, less)} {operator} {self.pick(self.literal(), self.value(scope, less))}"
        if kind == 8:
            return f"({self.condition(scope, less)} {self.pick('and', 'and', 'or')} {self.condition(scope, less)})"
        if kind == 9:
            return f"{self.pick('not', 'exists', 'empty', 'boolean')}({self.nodes(scope, less)})"
        if kind == 10:
            return f"count({self.nodes(scope, less)}) {self.pick('=', '>', '>=', '<')} {self.number(2)}"
        if kind == 11:
            name, below = scope.bound("nodes")
            kind_ = self.pick("some", "every")
            return f"({kind_} {name} in {self.nodes(scope, less)} satisfies {self.condition(below, less)})"
        if kind == 12:
            name, below = scope.bound("states")
            return f"(some {name} in {self.state(scope, 0)} satisfies {self.keyed(below, less, name)})"
        if kind == 13:
            return f"{self.pick('exists', 'empty', 'boolean', 'not')}({self.state(scope, less)})"
        if kind == 14:
            return f"{self.state(scope, less)}//{self.name()} = {self.literal()}"
        if kind == 15:
            return f"(if ({self.condition(scope, less)}) then {self.condition(scope, less)} else {self.condition(scope, less)})"
        if kind == 16:
            return f"(try {{ {self.nodes(scope, less)} = {self.number(2)} }} catch * {{ {self.steps(scope, 0)} }})"
        if kind == 17:
            return f"contains(local:text({self.nodes(scope, less)}), {self.literal()})"
        if kind == 18:
            return f"({self.nodes(scope, less)})[1] {self.pick('eq', 'is', '<<')} ({self.any(scope, less)})[1]"
        if kind == 19:
            name, below = scope.bound("atoms")
            return f"(let {name} := {self.value(scope, less)} return {self.condition(below, less)})"
        return f"deep-equal({self.nodes(scope, less)}, {self.any(scope, less)})"

    # what goes into a message

    def content(self, scope: Scope, depth: int) -> str:
        kind = self.number(11)
        less = depth - 1
        if kind < 3 or depth <= 0:
            return self.nodes(scope, depth)
        if kind < 6:
            return self.state(scope, less)
        if kind == 6:
            return f"count({self.any(scope, less)})"
        if kind == 7:
            return f"local:text({self.any(scope, less)})"
        if kind == 8:
            return f"({self.nodes(scope, less)} ! name())"
        if kind == 9:
            return f"sum({self.nodes(scope, less)})"
        if kind == 10:
            return f"(if ({self.condition(scope, less)}) then {self.content(scope, less)} else ())"
        return f'(for $z in {self.any(scope, less)} return qs:property("s", $z))'

    def message(self, scope: Scope, depth: int) -> str:
        kind = self.number(7)
        if kind == 0:
            return self.nodes(scope, depth)
        if kind == 1:
            return f'<o k="{{{self.value(scope, depth)}}}">{{{self.content(scope, depth)}}}</o>'
        if kind == 2:
            return f"<a>{{local:text({self.any(scope, depth)})}}</a>"
        return f"<o><i>{{{self.content(scope, depth)}}}</i></o>"

    def actions(self, scope: Scope, depth: int) -> str:
        kind = self.number(9)
        if kind < 4 or depth <= 0:
            made = f"do enqueue {self.message(scope, depth)} into {self.pick('a', 'b', 'c')}"
            if self.number(3) == 0:
                value = self.pick(self.literal(), "//*:b", "1.50", f"({self.nodes(scope, 0)})[1]", "()")
                made += f" with {self.pick('s', 's', 'n')} value {value}"
            return made
        if kind == 4:
            return f"do reset {self.pick('bys', 'byn')} key {self.pick(self.literal(), '//*:a', 'count(//*)')}"
        less = depth - 1
        if kind == 5:
            return f"if ({self.condition(scope, less)}) then {self.actions(scope, less)}"
        if kind == 6:
            name, below = scope.bound("nodes")
            return f"let {name} := {self.nodes(scope, less)} return {self.actions(below, less)}"
        if kind == 7:
            name, below = scope.bound("nodes")
            return f"for {name} in {self.nodes(scope, less)} return {self.actions(below, less)}"
        if kind == 8:
            test = self.condition(scope, less)
            return f"if ({test}) then {self.actions(scope, less)} else {self.actions(scope, less)}"
        return f"({self.actions(scope, less)}, {self.actions(scope, less)})"


@dataclass
class Case:
    text: str
    stored: list[tuple[str, str]]
    collected: list[str]
    arriving: list[str]


def document(seed: int) -> str:
    random = Random(seed)

    def element(depth: int) -> str:
        name = random.choice(["m", "m", "a"] if depth == 2 else ELEMENTS)
        space = random.choice([""] * 9 + [' xmlns="urn:p"', ' xmlns=""'])
        for attribute in random.choice([(), (), ("k",), ("id", "k")]):
            space += f' {attribute}="{random.choice(VALUES)}"'
        content = ""
        for _ in range(random.randint(0, depth + 1 if depth else 0)):
            content += element(depth - 1)
        content += random.choice([*VALUES, *VALUES, "<!-- x -->", "<?a x?>"])
        return f"<{name}{space}>{content}</{name}>"

    return random.choice(["{}", "{}", "{}", "{}", "<!--x-->{}", "{}<?a 1?>"]).format(element(2))


def any_rule(grammar: Grammar, scope: Scope) -> str:
    return f"if ({grammar.condition(scope, 2)}) then {grammar.actions(scope, 2)}"


def reading_rule(grammar: Grammar, scope: Scope) -> str:
    """Acts always, and says what it read from other messages: is anything missing?"""
    node, with_node = scope.bound("nodes")
    atom, with_atom = scope.bound("atoms")
    kind = grammar.number(5)
    if kind == 0:
        found = f"local:text({grammar.state(scope, 3)})"
    elif kind == 1:
        bound = f"{grammar.pick('let {} :=', 'for {} in').format(node)} {grammar.nodes(scope, 1)}"
        found = f"({bound} return local:text({grammar.state(with_node, 3)}))"
    elif kind == 2:
        operator = grammar.pick("|", "except", "intersect")
        found = f"({grammar.nodes(scope, 1)} {operator} {grammar.messages(scope, 1)}//{grammar.name()})/string()"
    elif kind == 3:
        test = f"some $z in {grammar.nodes(scope, 1)} satisfies $z = {grammar.literal()}"
        value = f"if ({test}) then {grammar.literal()} else {grammar.literal()}"
        found = f"(let {atom} := {value} return local:text({grammar.state(with_atom, 2)}))"
    else:
        found = f"(let {atom} := {grammar.value(scope, 2)} return local:text({grammar.state(with_atom, 2)}))"
    return f"if (true()) then do enqueue <o>{{{found}}}</o> into c"


def looking_rule(grammar: Grammar, scope: Scope) -> str:
    """Acts always, and says what it saw in the message: does it see more or less than the message?"""
    name, below = scope.bound("nodes")
    seen = grammar.pick(
        f"({grammar.nodes(scope, 3)})",
        f"({grammar.nodes(scope, 3)}) ! name(.)",
        f"let {name} := {grammar.nodes(scope, 2)} return {grammar.nodes(below, 2)}",
        f"{grammar.condition(scope, 3)}",
    )
    return f"if (true()) then do enqueue <o>{{{seen}}}</o> into c"


def choosy_rule(grammar: Grammar, scope: Scope) -> str:
    """Says only whether its condition holds: is it asked whenever it does?"""
    return f"if ({grammar.condition(scope, 3)}) then do enqueue <o/> into c"


SEEDS = st.integers(0, 2**32)


@st.composite
def cases(draw: Any, rule: Callable[[Grammar, Scope], str], rules_most: int) -> Case:
    prolog = draw(st.sampled_from(PROLOGS))
    rules: list[str] = []
    for number, seed in enumerate(draw(st.lists(SEEDS, min_size=1, max_size=rules_most))):
        grammar = Grammar(Random(seed), "namespace p" in prolog)
        target = grammar.pick("a", "a", "a", "bys", "byn")
        rules.append(f"create rule r{number} for {target} {rule(grammar, Scope('message', target != 'a'))}")
    if draw(st.booleans()):  # so many that they are filtered
        rules += [f"create rule f{n} for a if (/never{n}) then do enqueue <z/> into c" for n in range(8)]
    stored = draw(st.lists(SEEDS, max_size=4))
    return Case(
        text="\n".join([prolog, FUNCTIONS, STATEMENTS, *rules]),
        stored=[("a" if seed % 3 == 0 else "b", document(seed)) for seed in stored],
        collected=[document(seed) for seed in draw(st.lists(SEEDS, max_size=1))],
        arriving=[document(seed) for seed in draw(st.lists(SEEDS, min_size=1, max_size=3))],
    )
