"""Expressions drawn from the grammar of XQuery 3.1, and documents to evaluate them on.

Each method is a production of the grammar (https://www.w3.org/TR/xquery-31/#nt-bnf), and says what kind of value it is
drawn for: most of what is drawn has a meaning, and now and then an operand is of another kind than it should be. It
knows nothing about which expressions are translated. What is rarely used in rules is drawn rarely.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from random import Random

PROLOG = (
    """declare namespace p = "urn:p"; declare namespace o = "urn:q"; declare namespace u = "http://exämple.org/é";"""
)
"""Declares the prefixes that are drawn."""
FUNCTIONS = """
declare variable $two := 2; declare variable $word as xs:string := "x"; declare variable $some := ("1", "2", "x");
declare variable $tree := <t><a k="1">x</a><b k="2"><a/></b><a k="x">2</a></t>;
declare function local:size($s) { count($s) };
declare function local:first($s as element()*) as element()? { $s[1] };
declare function local:named($e as element()?, $n as xs:string) as xs:boolean { local-name($e) = $n };
declare function local:text($t as xs:string?) as xs:string { concat("<", $t, ">") };
declare function local:wrap($s as item()*) as element() { <w n="{local:size($s)}">{$s}</w> };
declare function local:plus($a as xs:double?, $b as xs:integer) as xs:double? { $a + $b };
declare function local:total($n as node()*) { sum($n ! number()) };
""".replace("\n", " ")
"""Declares functions and variables."""
STATEMENTS = """
create queue e kind echo
create property key as xs:string queue o value /o/@k
create property size as xs:integer queue o value count(/o/*)
create property since as xs:date queue s
create property id as xs:string fixed queue s value /*/@k
""".replace("\n", " ")
"""Declares an echo queue, and properties of what is made and of what is read."""
DEFAULTS = ("", "", """declare default element namespace "urn:p";""", """declare default element namespace "urn:d";""")
"""What a prolog may add."""
NAMES = ("a", "b", "c", "r")
ATTRIBUTES = ("k", "i")
AXES = ("child", "descendant", "attribute", "self", "descendant-or-self", "following-sibling", "following")
REVERSE_AXES = ("parent", "ancestor", "preceding-sibling", "preceding", "ancestor-or-self")
GENERAL = ("=", "!=", "<", "<=", ">", ">=")
VALUE = ("eq", "ne", "lt", "le", "gt", "ge")
INTEGERS = ("0", "1", "2", "3", "7", "1000000", "999999999999999", "9007199254740993", "12345678901234567890")
DECIMALS = ("0.5", "2.5", "1.0", ".1", "3.", "0.000001", "1234567.5")
DOUBLES = ("1e0", "2.5e0", "1e6", "1e-7", "0e0", "1E3", "1e308", "2e308", "1e-400", "9007199254740992e0")
STRINGS = ('""', '"1"', '"2"', '"x"', '"y z"', '" 3 "', '"2.5"', "'a''b'", '"&lt;"', '"ä€𝄞"', '"true"', '"NaN"')
RARE_FUNCTIONS = (
    "avg({s})",
    "number({o})",
    "abs({n})",
    "round({n})",
    "upper-case({t})",
    "substring({t}, {n})",
    "substring-before({t}, {t})",
    "translate({t}, {t}, {t})",
    "tokenize({t})",
    "matches({t}, {t})",
    "root({e})",
    "node-name({e})",
    "path({e})",
    "position()",
    "last()",
)


NAME_FUNCTIONS = ("name", "local-name", "local-name", "namespace-uri")
SEQUENCE_FUNCTIONS = (
    "reverse({s})",
    "subsequence({s}, {n})",
    "subsequence({s}, {n}, {n})",
    "head({s})",
    "tail({s})",
    "zero-or-one({s})",
    "one-or-more({s})",
    "exactly-one({s})",
    "insert-before({s}, {n}, {s})",
    "remove({s}, {n})",
    "sort({s})",
    "unordered({s})",
)
"""Functions from sequences to sequences of the same kind."""
TIMEOUTS = (
    '"PT1H"',
    '"PT90S"',
    "5",
    "2.5",
    "'P1D'",
    '"2026-01-01T00:00:00"',
    'xs:dayTimeDuration("PT30M")',
    'xs:dateTime("2026-05-05T10:00:00+02:00")',
    "current-dateTime()",
    'current-dateTime() + xs:dayTimeDuration("P1D")',
    "/*/@k",
    "()",
)
KIND_TESTS = ("node()", "text()", "*", "element()", "comment()", "processing-instruction()", "element(a)", "element(*)")


REPEATED_CHARACTERS_MAX = 200
"""Nothing longer is repeated, or else rules would become long."""
_VARIABLE = re.compile(r"\$\w+")
_BOUND = re.compile(r"(?:for|let|some|every|at|by|count) (\$\w+)")


def _repeatable(draw: Callable[[Grammar, int], str]) -> Callable[[Grammar, int], str]:
    """A production that now and then repeats what it has drawn for the same rule."""

    @functools.wraps(draw)
    def draw_or_repeat(self: Grammar, depth: int) -> str:
        drawn = self.drawn.setdefault(draw.__name__, [])
        if drawn and self.chance(6):
            repeated = self.pick(drawn)
            if self.is_in_scope(repeated):
                return repeated
        made = draw(self, depth)
        if len(made) <= REPEATED_CHARACTERS_MAX:
            drawn.append(made)
        return made

    return draw_or_repeat


class Grammar:
    """Draws expressions."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._variables: list[tuple[str, str]] = []
        """Those in scope, and of what kind they are."""
        self.drawn: dict[str, list[str]] = {}
        """What was drawn for a rule, by production."""

    def is_in_scope(self, expr: str) -> bool:
        """Whether all variables of an expression are known here, or bound in it."""
        known = {name for name, _ in self._variables} | set(_BOUND.findall(expr)) | {"$two", "$word", "$some", "$tree"}
        return set(_VARIABLE.findall(expr)) <= known

    def pick(self, options: Sequence[str]) -> str:
        return self.random.choice(options)

    def chance(self, of: int) -> bool:
        return self.random.randrange(of) == 0

    def _one_of(self, depth: int, weighted: Sequence[tuple[int, Callable[[int], str]]]) -> str:
        [drawn] = self.random.choices([each for _, each in weighted], [weight for weight, _ in weighted])
        return drawn(depth - 1)

    # --- expressions of a kind

    def any(self, depth: int) -> str:
        """An Expr of whatever kind."""
        kinds = (self.elements, self.attributes, self.texts, self.string, self.number, self.boolean, self.sequence)
        return self.random.choice((*kinds, self.elements, self.node_sequence, self.any_nodes))(depth)

    def any_nodes(self, depth: int) -> str:
        """Nodes of whatever kind."""
        if depth > 0 and self.chance(2):
            return self.random.choice((self.element, self.computed, self.computed))(depth - 1)
        return self.nodes(depth)

    def _or_any(self, depth: int, kind: Callable[[int], str]) -> str:
        """Mostly of a kind."""
        return self.any(depth) if self.chance(9) else kind(depth)

    @_repeatable
    def elements(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(("//", "/*/", "/r/", "", ".//", "/descendant::", "//*/")) + self.name()
        return self._one_of(
            depth,
            [
                (6, self.path),
                (2, self.filtered_elements),
                (1, self.union),
                (2, self.node_sequence),
                (1, lambda d: self.flwor(d, self.elements)),
                (1, lambda d: self.conditional(d, self.elements)),
                (1, lambda d: f"({self.elements(d)} ! {self.step(d)})"),
                (1, lambda d: self.variable("elements") or self.path(d)),
                (1, self.documents),
                (
                    1,
                    lambda d: (
                        f"{self.pick(('$tree', self.element(d), self.in_path(self.elements(d))))}/{self.inner_step(d)}"
                    ),
                ),
                (1, lambda d: self.pick((".", "/", "/*", "root()", "..", "*", "self::node()"))),
                (1, lambda d: self.sequence_function(d, self.elements)),
                (1, lambda d: f"local:{self.pick(('first', 'wrap'))}({self.elements(d)})"),
                (1, lambda d: self.choice(d, self.elements)),
            ],
        )

    @_repeatable
    def attributes(self, depth: int) -> str:
        separator = self.pick(("/@", "/@", "//@", "/attribute::"))
        name = self.pick(ATTRIBUTES) if not self.chance(6) else self.pick(("*", "p:n", "*:n", "p:*", "xml:lang"))
        if depth <= 0:
            return self.pick((f"@{name}", f"//@{name}", f"/*{separator}{name}"))
        found = f"{self.in_path(self.elements(depth - 1))}{separator}{name}"
        return f"{found}[{self.predicate(depth - 1)}]" if self.chance(5) else found

    def nodes(self, depth: int) -> str:
        """Children of any kind."""
        found = f"{self.in_path(self.elements(depth - 1))}/{self.pick(('node()', 'node()', 'comment()'))}"
        return f"{found}[{self.predicate(depth - 1)}]" if self.chance(5) else found

    def texts(self, depth: int) -> str:
        found = f"{self.in_path(self.elements(depth - 1))}/text()"
        return f"{found}[{self.predicate(depth - 1)}]" if self.chance(10) else found

    @_repeatable
    def string(self, depth: int) -> str:
        if depth <= 0:
            return self.pick((self.pick(STRINGS), "string(.)", "string()"))
        o = lambda d: self._or_any(d, self.optional)  # noqa: E731
        t = lambda d: self._or_any(d, self.optional_string)  # noqa: E731
        return self._one_of(
            depth,
            [
                (2, lambda d: self.pick(STRINGS)),
                (3, lambda d: f"string({o(d)})"),
                (1, lambda d: f"xs:string({o(d)})"),
                (2, lambda d: f"concat({', '.join([o(d) for _ in range(self.random.randint(2, 4))])})"),
                (2, lambda d: f"({o(d)} || {o(d)})"),
                (2, lambda d: f"string-join({self.any(d)}{self.pick(('', ', ' + t(d), ', ' + self.pick(STRINGS)))})"),
                (2, lambda d: f"normalize-space({self.pick(('', t(d), t(d)))})"),
                (1, lambda d: self.variable("string") or self.pick(STRINGS)),
                (1, lambda d: self.conditional(d, self.string)),
                (1, lambda d: self.choice(d, self.string)),
                (3, self.name_function),
                (1, lambda d: f"local:text({self._or_any(d, self.optional_string)})"),
                (1, lambda d: self.pick(("$word", "$some", 'qs:property("key")', self.message_property(d)))),
                (1, self.rare_function),
            ],
        )

    def message_property(self, depth: int) -> str:
        of = self.pick(("", ", .", ", qs:message()", ', qs:queue("s")[1]', f", {self.optional_node(depth)}"))
        return f'qs:property("{self.pick(("key", "id", "id", "since", "size", "demaq:queue"))}"{of})'

    def name_function(self, depth: int) -> str:
        """The name of a node or of the context item."""
        of = self.pick(("", self.optional_node(depth), f"({self.attributes(depth)})[1]"))
        return f"{self.pick(NAME_FUNCTIONS)}({of})"

    def optional_string(self, depth: int) -> str:
        """A string, or something that is cast to one, or nothing."""
        return self.random.choice((self.string, self.string, self.optional_node))(depth)

    @_repeatable
    def optional_node(self, depth: int) -> str:
        kind = self.random.choice((self.elements, self.attributes, self.elements))
        if self.chance(4):
            return self.pick((".", f"@{self.pick(ATTRIBUTES)}", f"/*/@{self.pick(ATTRIBUTES)}", "/*"))
        return f"({kind(depth - 1)})[{self.pick(('1', '1', '2', 'last()'))}]"

    def optional(self, depth: int) -> str:
        """One item, or none; or what else stands for nothing."""
        if depth > 0 and self.chance(8):
            return f"({self.any(depth - 1)}, {self.string(depth - 1)})[1]"
        return self.random.choice((self.string, self.number, self.optional_node, self.boolean, self.optional_node))(
            depth
        )

    @_repeatable
    def number(self, depth: int) -> str:
        if depth <= 0:
            usual = (self.pick(INTEGERS), self.pick(INTEGERS[:5]), self.pick(DECIMALS), self.pick(DOUBLES))
            return self.pick((*usual, draw_number(self.random).lstrip("+-")))
        n = lambda d: self._or_any(d, self.optional_number)  # noqa: E731
        t = lambda d: self._or_any(d, self.optional_string)  # noqa: E731
        return self._one_of(
            depth,
            [
                (2, lambda d: self.number(0)),
                (4, lambda d: f"count({self.any(d)})"),
                (4, lambda d: f"sum({self._or_any(d, self.numbers)})"),
                (2, lambda d: f"{self.pick(('max', 'min'))}({self._or_any(d, self.numbers)})"),
                (5, lambda d: f"({n(d)} {self.pick(('+', '-', '*', '+', '*'))} {n(d)})"),
                (1, lambda d: f"({n(d)} {self.pick(('div', 'idiv', 'mod'))} {n(d)})"),
                (2, lambda d: f"string-length({self.pick(('', t(d), t(d), t(d)))})"),
                (2, lambda d: f"{self.pick(('xs:double', 'xs:integer'))}({self._or_any(d, self.optional)})"),
                (1, lambda d: self.conditional(d, self.number)),
                (1, lambda d: self.variable("number") or self.number(0)),
                (1, lambda d: f"local:plus({n(d)}, {self.pick(('$two', '1', 'count(*)', n(d)))})"),
                (1, lambda d: f"local:{self.pick(('size', 'total'))}({self.any(d)})"),
                (1, lambda d: self.pick(("$two", f"({self.any(d)} => count())", f"({n(d)} => local:plus(1))"))),
                (1, lambda d: f"-{n(d)}" if self.chance(3) else self.pick(("position()", "last()"))),
                (1, self.rare_function),
            ],
        )

    def optional_number(self, depth: int) -> str:
        return self.random.choice((self.number, self.number, self.optional_node))(depth)

    def numbers(self, depth: int) -> str:
        """Any number of them, or of nodes that may hold them."""
        s = self.random.randrange(6)
        if s == 0:
            return f"({', '.join([self.number(depth - 1) for _ in range(self.random.randint(0, 3))])})"
        if s == 1:
            return f"{self.in_path(self.elements(depth - 1))}/({self.number(depth - 1)})"
        if s == 2:
            return f"({self.any(depth - 1)} ! {self.number(depth - 1)})"
        if s == 3:
            return f"({self.in_path(self.elements(depth - 1))}/(@k * @i))"
        return self.attributes(depth) if s == 4 else self.elements(depth)

    @_repeatable
    def boolean(self, depth: int) -> str:
        if depth <= 0:
            return self.pick(("true()", "false()", f"@{self.pick(ATTRIBUTES)} = {self.pick(STRINGS)}"))
        t = lambda d: self._or_any(d, self.optional_string)  # noqa: E731
        return self._one_of(
            depth,
            [
                (5, lambda d: f"({self.any(d)} {self.pick(GENERAL)} {self.any(d)})"),
                (4, lambda d: f"({self._or_any(d, self.numbers)} {self.pick(GENERAL)} {self._or_any(d, self.number)})"),
                (3, lambda d: f"({self.attributes(d)} {self.pick(GENERAL[:2])} {self.pick(STRINGS)})"),
                (3, lambda d: f"({self.optional(d)} {self.pick(VALUE)} {self.optional(d)})"),
                (2, lambda d: f"({self.number(d)} {self.pick(VALUE)} {self.number(d)})"),
                (2, lambda d: f"({self.condition(d)} {self.pick(('and', 'or'))} {self.condition(d)})"),
                (3, lambda d: f"{self.pick(('not', 'boolean'))}({self.condition(d)})"),
                (3, lambda d: f"{self.pick(('exists', 'empty'))}({self.any(d)})"),
                (3, lambda d: f"{self.pick(('contains', 'starts-with', 'ends-with'))}({t(d)}, {t(d)})"),
                (2, self.quantified),
                (1, lambda d: f"({self.optional_node(d)} {self.pick(('is', '<<', '>>'))} {self.optional_node(d)})"),
                (1, lambda d: self.pick(("true()", "false()"))),
                (1, lambda d: self.conditional(d, self.boolean)),
                (1, lambda d: f"({self.any(d)} instance of {self.sequence_type()})"),
                (1, lambda d: f"deep-equal({self.any(d)}, {self.any(d)})"),
                (1, lambda d: f"local:named({self.optional_node(d)}, {self.pick(('$word', 'name(*[1])', t(d)))})"),
            ],
        )

    def sequence_type(self) -> str:
        """SequenceType."""
        kinds = ("element()", "element(a)", "node()", "item()", "attribute()", "text()", "document-node()")
        atomic = ("xs:string", "xs:integer", "xs:boolean", "xs:double", "xs:untypedAtomic", "xs:anyAtomicType")
        return f"{self.pick(kinds + atomic)}{self.pick(('', '?', '*', '+'))}"

    @_repeatable
    def condition(self, depth: int) -> str:
        """Something that has an effective boolean value, mostly."""
        kinds = (self.boolean, self.boolean, self.elements, self.attributes, self.string, self.number, self.any)
        return self.random.choice(kinds)(depth)

    def sequence(self, depth: int) -> str:
        """ParenthesizedExpr, or what makes sequences of atomic values."""
        kind = self.random.randrange(8)
        if kind == 6:
            return self.sequence_function(depth, self.any)
        if kind == 7:
            return f"index-of({self.any(depth - 1)}, {self.optional(depth - 1)})"
        if kind == 0:
            return f"distinct-values({self.any(depth - 1)})"
        if kind == 1:
            return f"data({self.any(depth - 1)})"
        if kind == 2:
            return f"({self.any(depth - 1)} ! {self.any(depth - 1)})"
        if kind == 3:
            return self.flwor(depth, self.any)
        if kind == 4 and self.chance(3):
            return f"({self.number(depth - 1)} to {self.number(depth - 1)})"
        return f"({', '.join([self.any(depth - 1) for _ in range(self.random.randint(0, 3))])})"

    def node_sequence(self, depth: int) -> str:
        return f"({', '.join([self.elements(depth - 1) for _ in range(self.random.randint(1, 3))])})"

    # --- paths

    def name(self) -> str:
        return self.pick(NAMES) if not self.chance(8) else self.pick(("*", "p:a", "*:a", "p:*", "o:b"))

    def in_path(self, expr: str) -> str:
        """An expression before a slash: a step needs parentheses unless it is a path."""
        return expr if expr.startswith(("/", "(", ".", "$")) and expr not in ("/",) else f"({expr})"

    def path(self, depth: int) -> str:
        """PathExpr."""
        if self.chance(4):
            start = f"{self.in_path(self.elements(depth - 1))}{self.pick(('/', '/', '//'))}"
        else:
            start = self.pick(("/", "//", "/r/", "/*/", "", ".//", "//", "qs:message()//", "/r//"))
        steps = [self.step(depth - 1) for _ in range(self.pick_count())]
        path = start + steps[0]
        for step in steps[1:]:
            path += self.pick(("/", "/", "//")) + step
        return path

    def pick_count(self) -> int:
        return self.random.choice((1, 1, 2, 2, 3))

    def step(self, depth: int) -> str:
        """AxisStep or PostfixExpr."""
        if depth > 0 and self.chance(12):
            return f"({self.elements(depth - 1)})"
        if self.chance(6):
            axis = self.pick(REVERSE_AXES + AXES)
            test = self.name() if self.chance(2) else self.pick(KIND_TESTS)
            found = f"{axis}::{test}"
        elif self.chance(5):
            found = f"{self.pick(('descendant', 'child', 'descendant'))}::{self.name()}"
        else:
            found = self.name()
        for _ in range(self.random.choice((0, 0, 0, 1, 1, 2))):
            found += f"[{self.predicate(depth - 1)}]"
        return found

    def inner_step(self, depth: int) -> str:
        """A step that may be any expression."""
        return self.pick(
            (self.step(depth), f"({self.elements(depth)})", f"({self.union(depth)})/{self.name()}", self.element(depth))
        )

    def predicate(self, depth: int) -> str:
        """The Expr inside of a Predicate."""
        if depth <= 0 or self.chance(2):
            return self.pick(
                (
                    "1",
                    "2",
                    "last()",
                    f"position() {self.pick(GENERAL)} {self.pick(('1', '2', 'last()', '1.5'))}",
                    f"@{self.pick(ATTRIBUTES)}",
                    f"@{self.pick(ATTRIBUTES)} {self.pick(GENERAL)} {self.pick(STRINGS + INTEGERS + DECIMALS)}",
                    f". {self.pick(GENERAL)} {self.pick(STRINGS + INTEGERS)}",
                    f"{self.name()}",
                    f'{self.pick(NAME_FUNCTIONS)}() {self.pick(("=", "!="))} "{self.pick(NAMES)}"',
                    f"@{self.pick(ATTRIBUTES)} and {self.pick(('1', 'last()', self.name()))}",
                    "last() - 1",
                    "position() = last()",
                    "0",
                    "1.0",
                )
            )
        return self.random.choice((self.condition, self.boolean, self.elements, self.number))(depth)

    def filtered_elements(self, depth: int) -> str:
        return f"({self.elements(depth - 1)})[{self.predicate(depth - 1)}]"

    def union(self, depth: int) -> str:
        operator = self.pick(("|", "|", "union", "union", "intersect", "except")) if self.chance(3) else "|"
        return f"({self.elements(depth - 1)} {operator} {self.elements(depth - 1)})"

    def documents(self, depth: int) -> str:
        """State, or something in it."""
        read = self.pick(('qs:queue("s")', 'collection("k")', "qs:message()", 'qs:queue("s")'))
        if self.chance(3):
            read += f"[{self.pick(('/*/@k', './/a', '/*/a'))} = {self.pick((self.pick(STRINGS), 'qs:message()//b'))}]"
        return f"{read}{self.pick(('/', '//', '//'))}{self.step(depth - 1)}" if not self.chance(5) else read

    # --- control

    def variable(self, kind: str) -> str | None:
        known = [name for name, other in self._variables if other == kind or self.chance(9)]
        return self.pick(known) if known else None

    def flwor(self, depth: int, result: Callable[[int], str]) -> str:
        """FLWORExpr."""
        known = len(self._variables)
        clauses = ""
        for _ in range(self.random.choice((1, 1, 2, 3))):
            name = f"$v{self.random.randrange(10_000)}"
            kind = self.pick(("elements", "elements", "string", "number"))
            bound = {"elements": self.elements, "string": self.string, "number": self.numbers}[kind](depth - 1)
            if self.chance(3):
                clauses += f"let {name} := {bound} "
            elif self.chance(5):
                position = f"$n{self.random.randrange(10_000)}"
                clauses += f"for {name} at {position} in {bound} "
                self._variables.append((position, "number"))
            else:
                clauses += f"for {name} in {bound} "
            self._variables.append((name, kind))
        clauses += self.later_clauses(depth)
        made = f"({clauses}return {result(depth - 1)})"
        del self._variables[known:]
        return made

    def later_clauses(self, depth: int) -> str:
        """WhereClause, OrderByClause, CountClause, GroupByClause."""
        clauses = f"where {self.condition(depth - 1)} " if self.chance(3) else ""
        if self.chance(10):
            name = f"$g{self.random.randrange(10_000)}"
            clauses += f"group by {name} := {self.optional(depth - 1)} "
            clauses += f"order by {name} " if self.chance(2) else ""
            self._variables.append((name, "string"))
        if self.chance(4):
            keys = [self.order_spec(depth) for _ in range(self.random.choice((1, 1, 2)))]
            clauses += f"{self.pick(('', '', 'stable '))}order by {', '.join(keys)} "
        if self.chance(8):
            name = f"$c{self.random.randrange(10_000)}"
            clauses += f"count {name} "
            self._variables.append((name, "number"))
            clauses += f"where {name} {self.pick(GENERAL)} {self.pick(('1', '2', self.number(depth - 1)))} "
        if self.chance(8):
            clauses += f"where {self.condition(depth - 1)} "
        return clauses

    def order_spec(self, depth: int) -> str:
        """OrderSpec: the key is mostly an attribute, or something of one of the variables."""
        key = self.optional(depth - 1)
        node = self.variable("elements")
        if node and not self.chance(4):
            of = self.pick((f"/@{self.pick(ATTRIBUTES)}", "", f"/{self.name()}[1]", "/@k/string()", "/count(*)"))
            key = f"{node}{of}"
        return key + self.pick(("", " ascending", " descending")) + self.pick(("", " empty least", " empty greatest"))

    def choice(self, depth: int, kind: Callable[[int], str]) -> str:
        """SwitchExpr or TypeswitchExpr."""
        if self.chance(2):
            cases = " ".join(
                [f"case {self.optional(depth - 1)} return {kind(depth - 1)}" for _ in range(self.random.randint(1, 2))]
            )
            return f"(switch ({self.optional(depth - 1)}) {cases} default return {kind(depth - 1)})"
        cases = " ".join(
            [f"case {self.sequence_type()} return {kind(depth - 1)}" for _ in range(self.random.randint(1, 2))]
        )
        return f"(typeswitch ({self.any(depth - 1)}) {cases} default return {kind(depth - 1)})"

    def sequence_function(self, depth: int, kind: Callable[[int], str]) -> str:
        numbers = self.pick(("0", "1", "2", "3", "1.5", "-1", self.number(depth - 1)))
        return self.pick(SEQUENCE_FUNCTIONS).format(s=kind(depth - 1), n=numbers)

    def quantified(self, depth: int) -> str:
        """QuantifiedExpr."""
        name = f"$v{self.random.randrange(10_000)}"
        bound = self._or_any(depth - 1, self.elements)
        self._variables.append((name, "elements"))
        made = f"({self.pick(('some', 'every'))} {name} in {bound} satisfies {self.condition(depth - 1)})"
        self._variables.pop()
        return made

    def conditional(self, depth: int, kind: Callable[[int], str]) -> str:
        """IfExpr."""
        otherwise = self.pick(("()", kind(depth - 1)))
        then, otherwise = self.random.sample((kind(depth - 1), otherwise), 2)
        return f"(if ({self.condition(depth - 1)}) then {then} else {otherwise})"

    def rare_function(self, depth: int) -> str:
        return self.pick(RARE_FUNCTIONS).format(
            s=self.any(depth - 1),
            o=self.optional(depth - 1),
            n=self.number(depth - 1),
            t=self.string(depth - 1),
            e=self.elements(depth - 1),
        )

    # --- constructors

    def element(self, depth: int) -> str:
        """DirElemConstructor."""
        name = self.pick(("o", "a", "i", "p:o", "o:e", "u:o")) if self.chance(3) else "o"
        attributes = ""
        names = ("k", "n", "p:n", "xmlns:z", "xmlns", "xml:lang", "xmlns:p")
        for attribute in self.random.sample(names, self.random.choice((0, 0, 0, 1, 2))):
            value = self.pick(
                ("v", " v\n ", "{{}}", "&lt;&#10;", f"{{ {self.any(depth - 1)} }}", f"x{{{self.any(0)}}}")
            )
            if attribute.startswith("xmlns"):
                value = self.pick(("urn:z", "urn:d", "urn:p")) if attribute != "xmlns" or not self.chance(6) else ""
            attributes += f' {attribute}="{_quoted(value)}"'
        content = "".join([self.content(depth - 1) for _ in range(self.random.choice((0, 1, 1, 2, 3)))])
        return f"<{name}{attributes}>{content}</{name}>"

    def content(self, depth: int) -> str:
        """DirElemContent."""
        if depth <= 0 or self.chance(5):
            return self.pick(
                (" ", "t", " t ", "{{", "&amp;", "&#13;", "{()}", '{""}', "{/*/@k}", "{//a}", "{.}", "<i/>")
            )
        if self.chance(4):
            return self.element(depth - 1)
        if self.chance(12):
            return self.pick(("<!--c-->", "<![CDATA[<]]>", "<?p i?>", " <![CDATA[ ]]>"))
        if self.chance(6):
            return f"{{ {self.computed(depth - 1)} }}"
        if self.chance(4):
            made = lambda d: self.element(d)  # noqa: E731
            return f"{{ {self.random.choice((self.flwor, self.conditional))(depth - 1, made)} }}"
        return f"{{ {self.any(depth)} }}"

    def computed(self, depth: int) -> str:
        """ComputedConstructor."""
        name = self.pick(("a", "k", "n", "p:n", f"{{ {self.string(depth - 1)} }}", "{'a'}", "{local-name(/*)}"))
        content = self.any(depth - 1) if not self.chance(5) else ""
        match self.random.randrange(8):
            case 0 | 1 | 2:
                return f"element {name} {{ {content} }}"
            case 3 | 4 | 5:
                return f"attribute {name} {{ {content} }}"
            case 6:
                return f"text {{ {content} }}"
            case _:
                return f"{self.pick(('comment', 'document'))} {{ {content} }}"

    def rule(self, depth: int) -> str:
        """What follows the name of a rule and of its queue."""
        self.drawn = {}
        condition = "true()" if self.chance(2) else self.condition(depth - 1)
        made = self.element(depth) if self.chance(3) else f"<o>{{ {self.any(depth)} }}</o>"
        if self.chance(8):
            made = self.random.choice((self.computed, self.optional_node, self.any_nodes))(depth)
        if self.chance(10):
            timeout = self.pick((self.pick(TIMEOUTS), self.any(depth - 1)))
            return f'if ({condition}) then do enqueue {made} into e with timeout value {timeout} with target value "o"'
        given = f" with {self.pick(('key', 'size', 'other'))} value {self.any(depth - 1)}" if self.chance(6) else ""
        if self.chance(12):
            return f"if ({condition}) then {self.flwor(depth, lambda d: f'do enqueue {made} into o{given}')}"
        return f"if ({condition}) then do enqueue {made} into o{given}"


def _quoted(value: str) -> str:
    """Inside of an enclosed expression quotation marks are as they are; the value itself must have none."""
    return value


# --- documents

VALUES = (
    "1",
    "2",
    "2.5",
    " 3 ",
    "-4",
    "1e3",
    "1234567",
    "0.00001",
    "x",
    "y z",
    "",
    "&lt;&amp;&quot;",
    "ä€𝄞",
    "0",
    "7",
    "1",
)
UNUSUAL_VALUES = ("INF", "NaN", "-0", "1_0", "٣", "+5", ".5", "5.", "99999999999999999999", "&#13;", "a&#10;b", "1e400")
UNUSUAL_CONTENT = ("<!--x-->", "<?x y?>", '<p:a xmlns:p="urn:u">1</p:a>', '<a xmlns="urn:u"/>', "<![CDATA[<]]>")
ROOTS = (
    "",
    "",
    "",
    ' xmlns:p="urn:p" xmlns:o="urn:q"',
    ' xmlns:p="urn:p"',
    ' xmlns="urn:p"',
    ' xmlns="urn:p"',
    ' xmlns="urn:d" xmlns:p="urn:p"',
    ' xmlns:o="urn:p" xmlns:p="urn:p"',
)
COMMON_CONTENT = ("<!--x-->", "<?x y?>", "<![CDATA[<]]>", '<a xmlns="">1</a>', '<o:b xmlns:o="urn:q" k="2"/>')


NUMBERS = ("1", "2", "2.5", "10", "-4", "0", "1000000")


def draw_number(random: Random) -> str:
    """A number in any form that XQuery has for one: prices, sums of binary fractions, long, tiny and huge ones."""
    match random.randrange(8):
        case 0 | 1:
            return f"{random.randrange(10_000_000) / 100:.2f}"
        case 2:
            return repr(random.randrange(1 << 30) / (1 << random.randrange(30)))
        case 3:
            return str(random.randrange(10 ** random.randint(1, 20)))
        case 4:
            return f"{random.randrange(10 ** random.randint(1, 18))}e{random.randint(-30, 30)}"
        case 5:
            return repr(random.uniform(-1, 1) * 10 ** random.randint(-8, 8))
        case 6:
            return random.choice(("+5", "-0.50", "007", ".25", "1E+2", "3.", "0.1", "0.2", "0.7", "1e0", "100.00"))
        case _:
            return f"{random.randrange(1000)}.{random.randrange(10 ** random.randint(1, 17))}"


def draw_document(random: Random) -> str:
    """A document; one in six has values that are unusual, one in four comments and further namespaces."""
    is_unusual = random.randrange(6) == 0
    is_varied = random.randrange(4) == 0
    is_numeric = random.randrange(2) == 0
    declared = random.choice(ROOTS)
    values: tuple[str, ...] = (*VALUES, *UNUSUAL_VALUES) if is_unusual else NUMBERS if is_numeric else VALUES
    if is_numeric and random.randrange(2):
        values = (*NUMBERS, *[draw_number(random) for _ in range(12)])

    def element(depth: int) -> str:
        name = "r" if depth == 3 else random.choice(NAMES)
        if "xmlns:p" in declared and depth < 3 and random.randrange(3) == 0:
            name = "o:b" if "xmlns:o" in declared and random.randrange(2) else "p:a"
        attributes = declared if depth == 3 else ""
        for attribute in random.choice([(), ("k",), ("i", "k"), ("k",), ("i",)]):
            attributes += f' {attribute}="{random.choice(values)}"'
        if "xmlns:p" in declared and random.randrange(8) == 0:
            attributes += ' p:n="1"'
        if random.randrange(20) == 0:
            attributes += ' xml:lang="en"'
        content = random.choice((*values, "", "", ""))
        for _ in range(random.randint(0, 3 if depth else 0)):
            content += element(depth - 1) + random.choice(("", "", "t", " "))
        if is_unusual and random.randrange(8) == 0:
            content += random.choice(UNUSUAL_CONTENT)
        if is_varied and random.randrange(5) == 0:
            content += random.choice(COMMON_CONTENT) + random.choice(("", "t"))
        return f"<{name}{attributes}>{content}</{name}>"

    root = element(3)
    return f"<!--x-->{root}<?x y?>" if is_varied and random.randrange(6) == 0 else root
