"""Typed expressions on atomic values, drawn from the signatures of XQuery and XPath Functions and Operators 3.1.

Values are literals, or text of the message: numbers in every lexical form, dates with and without time zones, durations,
texts with characters of all planes, and now and then something that cannot be cast. Each production is noted by its name,
so that a test can tell which ones occurred. It knows nothing about which expressions are translated.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.support.reference.atomic_texts import CONTENT, PATTERNS, draw_pattern

TYPES = {
    "i": "xs:integer",
    "d": "xs:decimal",
    "f": "xs:double",
    "b": "xs:boolean",
    "day": "xs:date",
    "at": "xs:dateTime",
    "time": "xs:time",
    "span": "xs:dayTimeDuration",
    "months": "xs:yearMonthDuration",
}
GENERAL = ("=", "!=", "<", "<=", ">", ">=")
VALUE = ("eq", "ne", "lt", "le", "gt", "ge")
STRING_LITERALS = ('""', '"x"', '"y z"', '"a"', '"b"', '"Ä𝄞"', '"-"', '","', '"A-1,B-2"', '"ß"', '" "', '"x1y22"')
NUMBER_PICTURES = (
    '"0"',
    '"0.00"',
    '"#,##0.00"',
    '"#0.###"',
    '"000.0#"',
    '"€0.0"',
    '"0%"',
    '"#,###"',
    '"0 EUR"',
    '"#,##0"',
)
DATE_PICTURES = ('"[Y0001]-[M01]-[D01]"', '"[D].[M].[Y]"', '"[D01]/[M1]/[Y01]"', '"[F1] [[x]] [D1]"', '"[Y0]_[M]"')
TIME_PICTURES = ('"[H01]:[m01]"', '"[H]:[m]:[s]"', '"[H1].[m1].[s1]"', '"[h]:[m] [P]"')
NAME_PICTURES = ('"[F]"', '"[FNn], [D] [MNn] [Y]"', '"[FN,3-3] [Mn]"', '"[D1o] [MNn,3-3]"')
REPLACEMENTS = ('""', '"_"', '"$0$0"', '"[$1]"', '"\\$"', '"\\"', '"$1-$2"')
DERIVED = ("int", "long", "byte", "unsignedInt", "positiveInteger", "nonNegativeInteger", "negativeInteger", "short")


class AtomicGrammar:
    """Draws expressions; each method is named after the type of their values."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.drawn: set[str] = set()
        """The productions of the expression that was drawn last."""

    def rule(self, depth: int) -> str:
        """Return what follows the name of a rule and of its queue."""
        self.drawn = set()
        expr = self.random.choice((self.any, self.any, self.sequence_result, self.boolean))(depth)
        return f"if (true()) then do enqueue <o>{{ {expr} }}</o> into o"

    # --- helpers

    def pick(self, options: tuple[str, ...]) -> str:
        return self.random.choice(options)

    def chance(self, of: int) -> bool:
        return self.random.randrange(of) == 0

    def note(self, name: str, text: str) -> str:
        self.drawn.add(name)
        return text

    def call(self, name: str, *args: str) -> str:
        return self.note(name, f"{name}({', '.join(args)})")

    def one_of(self, *kinds: Callable[[], str]) -> str:
        return self.random.choice(kinds)()

    def pattern(self) -> str:
        return f'"{self.pick(PATTERNS) if self.chance(2) else draw_pattern(self.random)}"'

    def content(self, kind: str) -> str:
        """One child of the message, or none: untyped."""
        return self.pick((f"/r/{kind}[1]", f"/r/{kind}[2]", f"(//{kind})[1]", f"/r/@{kind}", f"/r/{kind}[last()]"))

    def typed(self, kind: str) -> str:
        """A value that is cast from the message."""
        name = TYPES[kind]
        if self.chance(3):
            return self.note(f"cast as {name}", f"({self.content(kind)} cast as {name}?)")
        return self.call(name, self.content(kind))

    def derived(self, names: tuple[str, ...], arg: str) -> str:
        """A value of a type that is derived from another one."""
        return self.note(f"derived like {names[0]}", f"xs:{self.pick(names)}({arg})")

    # --- numbers

    def integer(self, d: int) -> str:
        if d <= 0:
            return self.one_of(
                lambda: self.pick(("0", "1", "2", "3", "10", "30", "7", "12345678901234567890")),
                lambda: self.typed("i"),
            )
        i = self.integer
        return self.one_of(
            lambda: self.integer(0),
            lambda: self.typed("i"),
            lambda: self.arithmetic(i(d - 1), self.pick(("+", "-", "*", "idiv", "mod")), i(d - 1)),
            lambda: self.arithmetic(self.number(d - 1), "idiv", self.number(d - 1)),
            lambda: self.call("string-length", self.string(d - 1)),
            lambda: self.call("count", self.sequence(d - 1)),
            lambda: self.call("compare", self.string(d - 1), self.string(d - 1)),
            lambda: self.rounded(i(d - 1)),
            lambda: self.note("unary", f"(-{i(d - 1)})"),
            lambda: self.call(self.pick(("year", "month", "day")) + "-from-date", self.day(d - 1)),
            lambda: self.call(
                self.pick(("year", "month", "day", "hours", "minutes")) + "-from-dateTime", self.at(d - 1)
            ),
            lambda: self.call(self.pick(("hours", "minutes")) + "-from-time", self.time(d - 1)),
            lambda: self.call(self.pick(("days", "hours", "minutes")) + "-from-duration", self.span(d - 1)),
            lambda: self.call(self.pick(("years", "months")) + "-from-duration", self.months(d - 1)),
            lambda: self.derived(DERIVED, self.one_of(lambda: self.content("i"), lambda: i(d - 1))),
            lambda: self.call("xs:integer", self.number(d - 1)),
            lambda: self.call("sum", self.integers(d - 1)),
            lambda: self.call(self.pick(("max", "min")), self.integers(d - 1)),
            lambda: self.conditional(i, d),
        )

    def decimal(self, d: int) -> str:
        if d <= 0:
            return self.one_of(
                lambda: self.pick(("0.5", "1.0", "2.75", ".1", "19.99", "0.000001", "3.", "0.19", "100.00")),
                lambda: self.typed("d"),
            )
        e = lambda: self.one_of(lambda: self.decimal(d - 1), lambda: self.integer(d - 1))  # noqa: E731
        return self.one_of(
            lambda: self.decimal(0),
            lambda: self.typed("d"),
            lambda: self.arithmetic(self.decimal(d - 1), self.pick(("+", "-", "*", "mod")), e()),
            lambda: self.arithmetic(e(), self.pick(("+", "-", "*", "mod")), self.decimal(d - 1)),
            lambda: self.arithmetic(e(), "div", e()),
            lambda: self.rounded(self.decimal(d - 1)),
            lambda: self.note("unary", f"(-{self.decimal(d - 1)})"),
            lambda: self.call("seconds-from-dateTime", self.at(d - 1)),
            lambda: self.call("seconds-from-time", self.time(d - 1)),
            lambda: self.call("seconds-from-duration", self.span(d - 1)),
            lambda: self.note("span div span", f"({self.span(d - 1)} div {self.span(d - 1)})"),
            lambda: self.call("xs:decimal", self.number(d - 1)),
            lambda: self.call("sum", f"({self.decimal(d - 1)}, {e()})"),
            lambda: self.call("sum", "//d/xs:decimal(.)"),
            lambda: self.call("avg", self.integers(d - 1)),
            lambda: self.call("avg", "//d/xs:decimal(.)"),
            lambda: self.call(self.pick(("max", "min")), f"({self.decimal(d - 1)}, {e()})"),
            lambda: self.conditional(self.decimal, d),
        )

    def double(self, d: int) -> str:
        if d <= 0:
            return self.one_of(
                lambda: self.pick(("1e0", "2.5e0", "0e0", "1e6", "1e-7", "1.5e3", "12345678.9e0")),
                lambda: self.typed("f"),
                lambda: self.call("number", self.content(self.pick(("f", "d", "i", "s")))),
            )
        n = lambda: self.number(d - 1)  # noqa: E731
        signs = ("+", "-", "*", "div", "mod")
        return self.one_of(
            lambda: self.double(0),
            lambda: self.arithmetic(self.double(d - 1), self.pick(signs), n()),
            lambda: self.arithmetic(n(), self.pick(signs), self.double(d - 1)),
            lambda: self.arithmetic(self.content(self.pick(("f", "d", "i"))), self.pick(signs), n()),
            lambda: self.rounded(self.double(d - 1)),
            lambda: self.note("unary", f"(-{self.double(d - 1)})"),
            lambda: self.call("number", self.any(d - 1)),
            lambda: self.call("xs:double", n()),
            lambda: self.call("xs:float", n()),
            lambda: self.call("sum", f"//{self.pick(('f', 'd', 'i'))}"),
            lambda: self.call("avg", f"//{self.pick(('f', 'd', 'i'))}"),
            lambda: self.call(self.pick(("max", "min")), f"//{self.pick(('f', 'd', 'i'))}"),
            lambda: self.call("sum", f"({n()}, {n()})"),
            lambda: self.conditional(self.number, d),
        )

    def number(self, d: int) -> str:
        return self.random.choice((self.integer, self.decimal, self.double))(d)

    def integers(self, d: int) -> str:
        return self.one_of(
            lambda: f"({self.integer(d - 1)}, {self.integer(d - 1)}, {self.integer(d - 1)})",
            lambda: "//i/xs:integer(.)",
            lambda: f"(//s ! {self.call('string-length', '.')})",
        )

    def arithmetic(self, left: str, sign: str, right: str) -> str:
        return self.note(sign, f"({left} {sign} {right})")

    def rounded(self, number: str) -> str:
        if self.chance(3):
            return self.call(self.pick(("round", "round-half-to-even")), number, self.pick(("0", "1", "2", "-1")))
        return self.call(self.pick(("abs", "floor", "ceiling", "round", "round-half-to-even")), number)

    def conditional(self, kind: Callable[[int], str], d: int) -> str:
        return self.note("if", f"(if ({self.boolean(d - 1)}) then {kind(d - 1)} else {kind(d - 1)})")

    # --- strings

    def text(self, d: int) -> str:
        """A string, or something that is cast to one as an argument, or nothing."""
        return self.one_of(lambda: self.string(d), lambda: self.string(d), lambda: self.content("s"))

    def string(self, d: int) -> str:
        if d <= 0:
            return self.one_of(
                lambda: self.pick(STRING_LITERALS), lambda: self.call("string", self.content(self.pick(tuple(CONTENT))))
            )
        t, n = lambda: self.text(d - 1), lambda: self.number(d - 1)
        return self.one_of(
            lambda: self.string(0),
            lambda: self.call("string", self.any(d - 1)),
            lambda: self.call("xs:string", self.any(d - 1)),
            lambda: self.note("||", f"({self.any(d - 1)} || {self.any(d - 1)})"),
            lambda: self.call("concat", self.any(d - 1), self.any(d - 1), t()),
            lambda: self.call("string-join", self.sequence(d - 1), self.pick(STRING_LITERALS)),
            lambda: self.call("substring", t(), n()),
            lambda: self.call(
                "substring", t(), self.pick(("1", "2", "0", "-1", "1.5")), self.pick(("1", "2", "3", n()))
            ),
            lambda: self.call(self.pick(("substring-before", "substring-after")), t(), t()),
            lambda: self.call(self.pick(("upper-case", "lower-case", "normalize-space", "encode-for-uri")), t()),
            lambda: self.call("normalize-unicode", t(), self.pick(('"NFC"', '"NFD"', '"NFKC"', '"NFKD"'))),
            lambda: self.call("translate", t(), self.string(0), self.string(0)),
            lambda: self.call("replace", t(), self.pattern(), self.pick(REPLACEMENTS)),
            lambda: self.call("codepoints-to-string", self.call("string-to-codepoints", t())),
            lambda: self.call(self.pick(("max", "min")), f"({self.string(d - 1)}, {self.string(d - 1)})"),
            lambda: self.derived(("token", "normalizedString", "NCName", "language"), t()),
            lambda: self.conditional(self.string, d),
            lambda: self.formatted(d),
        )

    def formatted(self, d: int) -> str:
        """A number, date or time by a picture."""
        return self.one_of(
            lambda: self.call("format-number", self.number(d - 1), self.pick(NUMBER_PICTURES)),
            lambda: self.call("format-number", self.decimal(d - 1), self.pick(NUMBER_PICTURES)),
            lambda: self.call("format-integer", self.integer(d - 1), self.pick(('"00"', '"1"', '"#,##0"', '"0000"'))),
            lambda: self.call("format-date", self.day(d - 1), self.pick(DATE_PICTURES)),
            lambda: self.call("format-date", self.day(d - 1), self.pick(NAME_PICTURES), '"en"', "()", "()"),
            lambda: self.call("format-dateTime", self.at(d - 1), self.pick((*DATE_PICTURES, *TIME_PICTURES))),
            lambda: self.call("format-time", self.time(d - 1), self.pick(TIME_PICTURES)),
        )

    # --- dates and durations

    def day(self, d: int) -> str:
        if d <= 0:
            return self.one_of(lambda: self.typed("day"), lambda: 'xs:date("2020-03-01")')
        return self.one_of(
            lambda: self.day(0),
            lambda: self.note("date + span", f"({self.day(d - 1)} {self.pick(('+', '-'))} {self.span(d - 1)})"),
            lambda: self.note("date + months", f"({self.day(d - 1)} {self.pick(('+', '-'))} {self.months(d - 1)})"),
            lambda: self.call("xs:date", self.at(d - 1)),
            lambda: self.call("adjust-date-to-timezone", self.day(d - 1), self.zone()),
            lambda: self.call(self.pick(("max", "min")), f"({self.day(d - 1)}, {self.day(d - 1)})"),
            lambda: self.call("current-date"),
        )

    def at(self, d: int) -> str:
        if d <= 0:
            return self.one_of(lambda: self.typed("at"), lambda: 'xs:dateTime("2020-03-01T10:15:00Z")')
        return self.one_of(
            lambda: self.at(0),
            lambda: self.note("dateTime + span", f"({self.at(d - 1)} {self.pick(('+', '-'))} {self.span(d - 1)})"),
            lambda: self.note("dateTime + months", f"({self.at(d - 1)} {self.pick(('+', '-'))} {self.months(d - 1)})"),
            lambda: self.call("xs:dateTime", self.day(d - 1)),
            lambda: self.call("dateTime", self.day(d - 1), self.time(d - 1)),
            lambda: self.call("adjust-dateTime-to-timezone", self.at(d - 1), self.zone()),
            lambda: self.call("current-dateTime"),
        )

    def time(self, d: int) -> str:
        if d <= 0:
            return self.one_of(lambda: self.typed("time"), lambda: 'xs:time("09:30:00")')
        return self.one_of(
            lambda: self.time(0),
            lambda: self.note("time + span", f"({self.time(d - 1)} {self.pick(('+', '-'))} {self.span(d - 1)})"),
            lambda: self.call("xs:time", self.at(d - 1)),
            lambda: self.call("adjust-time-to-timezone", self.time(d - 1), self.zone()),
            lambda: self.call("current-time"),
        )

    def zone(self) -> str:
        return self.pick(("()", 'xs:dayTimeDuration("PT0S")', 'xs:dayTimeDuration("-PT5H")', "implicit-timezone()"))

    def span(self, d: int) -> str:
        if d <= 0:
            return self.one_of(lambda: self.typed("span"), lambda: 'xs:dayTimeDuration("PT90M")')
        kind = self.random.choice((self.day, self.at, self.time))
        return self.one_of(
            lambda: self.span(0),
            lambda: self.note("moment - moment", f"({kind(d - 1)} - {kind(d - 1)})"),
            lambda: self.note("span + span", f"({self.span(d - 1)} {self.pick(('+', '-'))} {self.span(d - 1)})"),
            lambda: self.note("span * number", f"({self.span(d - 1)} {self.pick(('*', 'div'))} {self.number(d - 1)})"),
            lambda: self.call("timezone-from-dateTime", self.at(d - 1)),
            lambda: self.call("timezone-from-date", self.day(d - 1)),
            lambda: self.call("timezone-from-time", self.time(d - 1)),
            lambda: self.call(self.pick(("sum", "avg", "max", "min")), f"({self.span(d - 1)}, {self.span(d - 1)})"),
            lambda: self.call("sum", f"({self.span(d - 1)}, {self.span(d - 1)})", 'xs:dayTimeDuration("PT0S")'),
        )

    def months(self, d: int) -> str:
        if d <= 0:
            return self.one_of(lambda: self.typed("months"), lambda: 'xs:yearMonthDuration("P3M")')
        m = self.months
        return self.one_of(
            lambda: m(0),
            lambda: self.note("months + months", f"({m(d - 1)} {self.pick(('+', '-'))} {m(d - 1)})"),
            lambda: self.note("months * number", f"({m(d - 1)} {self.pick(('*', 'div'))} {self.number(d - 1)})"),
            lambda: self.call("sum", f"({m(d - 1)}, {m(d - 1)})", 'xs:yearMonthDuration("P0M")'),
        )

    # --- booleans

    def boolean(self, d: int) -> str:
        if d <= 0:
            return self.one_of(lambda: self.pick(("true()", "false()")), lambda: self.typed("b"))
        t = lambda: self.text(d - 1)  # noqa: E731
        return self.one_of(
            lambda: self.comparison(d),
            lambda: self.comparison(d),
            lambda: self.comparison(d),
            lambda: self.call(
                self.pick(("contains", "starts-with", "ends-with", "contains-token")), t(), self.string(d - 1)
            ),
            lambda: self.call("matches", t(), self.pattern()),
            lambda: self.call("matches", t(), self.pattern(), self.pick(('"i"', '"s"', '"q"', '""'))),
            lambda: self.call(self.pick(("not", "boolean")), self.effective(d - 1)),
            lambda: self.note("and", f"({self.effective(d - 1)} {self.pick(('and', 'or'))} {self.effective(d - 1)})"),
            lambda: self.castable(d),
            lambda: self.instance_of(d),
            lambda: self.call("deep-equal", f"({self.any(d - 1)}, {self.any(d - 1)})", self.sequence(d - 1)),
            lambda: self.call("xs:boolean", self.any(d - 1)),
            lambda: self.call("exists", self.sequence(d - 1)),
        )

    def effective(self, d: int) -> str:
        """What has an effective boolean value."""
        return self.random.choice((self.boolean, self.boolean, self.number, self.string, self.mixed))(d)

    def comparison(self, d: int) -> str:
        pairs = (
            (self.number, self.number),
            (self.number, lambda _: self.content(self.pick(("i", "d", "f")))),
            (self.string, self.string),
            (self.string, lambda _: self.content("s")),
            (lambda _: "//s", lambda _: "//s"),
            (self.boolean, self.boolean),
            (self.boolean, lambda _: self.content("b")),
            (self.day, self.day),
            (self.day, lambda _: self.content("day")),
            (self.at, self.at),
            (self.at, lambda _: self.content("at")),
            (self.time, self.time),
            (self.span, self.span),
            (self.span, lambda _: self.content("span")),
            (self.months, self.months),
            (self.sequence, self.sequence),
            (self.mixed, self.mixed),
        )
        left, right = self.random.choice(pairs)
        sides = [left(d - 1), right(d - 1)]
        self.random.shuffle(sides)
        sign = self.pick(GENERAL if self.chance(2) else VALUE)
        return self.note(sign, f"({sides[0]} {sign} {sides[1]})")

    def castable(self, d: int) -> str:
        kind = self.pick(tuple(TYPES))
        name = self.pick((*TYPES.values(), *[f"xs:{each}" for each in DERIVED], "xs:string", "xs:float", "xs:NCName"))
        return self.note(
            "castable as",
            f"({self.one_of(lambda: self.content(kind), lambda: self.any(d - 1))} castable as {name}{self.pick(('', '?'))})",
        )

    def instance_of(self, d: int) -> str:
        name = self.pick(
            (*TYPES.values(), "xs:string", "xs:numeric", "xs:anyAtomicType", "xs:untypedAtomic", "xs:float")
        )
        value = self.random.choice((self.any, self.mixed, self.sequence))(d - 1)
        return self.note("instance of", f"({value} instance of {name}{self.pick(('', '?', '*', '+'))})")

    # --- several types

    def any(self, d: int) -> str:
        """One value, or none, of any type."""
        kinds = (self.integer, self.decimal, self.double, self.string, self.boolean, self.day, self.at, self.time)
        return self.random.choice(
            (*kinds, self.span, self.months, self.mixed, lambda _: self.content(self.pick(tuple(CONTENT))))
        )(d)

    def mixed(self, d: int) -> str:
        """A value whose type is known at run time only."""
        one, other = self.random.choices(
            (self.integer, self.decimal, self.double, self.string, self.day, self.span), k=2
        )
        return self.note("mixed", f"(if ({self.boolean(d - 1)}) then {one(d - 1)} else {other(d - 1)})")

    def sequence(self, d: int) -> str:
        return self.one_of(
            lambda: f"({self.any(d - 1)}, {self.any(d - 1)})",
            lambda: f"({self.number(d - 1)}, {self.number(d - 1)}, {self.number(d - 1)})",
            lambda: f"({self.string(d - 1)}, {self.string(d - 1)})",
            lambda: f"//{self.pick(tuple(CONTENT))}",
            lambda: f"data(//{self.pick(tuple(CONTENT))})",
            lambda: self.sequence_result(d - 1),
        )

    def sequence_result(self, d: int) -> str:
        return self.one_of(
            lambda: self.call("distinct-values", self.sequence(d - 1)),
            lambda: self.call("index-of", self.sequence(d - 1), self.any(d - 1)),
            lambda: self.call("tokenize", self.text(d - 1)),
            lambda: self.call("tokenize", self.text(d - 1), self.pattern()),
            lambda: self.call("string-to-codepoints", self.text(d - 1)),
            lambda: f"({self.any(d - 1)}, {self.any(d - 1)})",
            lambda: self.note(
                "treat as",
                f"({self.number(d - 1)} treat as {self.pick(('xs:numeric', 'xs:decimal', 'xs:double'))}{self.pick(('', '?', '*'))})",
            ),
            lambda: self.call(self.pick(("max", "min", "sum", "avg")), self.sequence(d - 1)),
        )
