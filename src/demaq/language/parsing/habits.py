"""Recognise habits of other languages: what an author probably meant at a syntax error.

The parser calls these functions when it fails at a token; the result replaces "expected X, found Y" by the actual
mistake, its location and what to write instead. Nothing here changes what is accepted.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from demaq.language.parsing.characters import NCNAME

NO_COMMENT_HINT = "comments are written (: … :)"
NOT_COMPUTED_HINT = (
    "write the name of a queue; to choose one: if (…) then do enqueue … into a else do enqueue … into b; "
    "where an outgoing gateway sends to is set by `with Recipient value …`"
)


@dataclass(frozen=True, slots=True)
class Stop:
    """A token that the parser cannot use, the end of the token before it, and what was expected."""

    text: str
    kind: str
    value: str
    start: int
    end: int
    last_end: int
    expected: str

    @property
    def before(self) -> str:
        """Return the word or character that ends before the token."""
        match = _LAST_TOKEN.search(self.text, max(0, self.last_end - 60), self.last_end)
        return match.group() if match else ""

    @property
    def is_separate(self) -> bool:
        """Return whether there is white space between the token and the one before it."""
        return self.last_end < self.start


@dataclass(frozen=True, slots=True)
class Mistake:
    message: str
    start: int
    end: int
    hint: str | None


_LAST_TOKEN = re.compile(r"(?:[\w.:-]*\w|\S)$")
_COMMENT = re.compile(r"(?:(?<=\s)|^)(?:--(?!>)|//(?=\s|$)|#(?=\s|$)|/\*(?=[\s*])|\(\*|<!--)", re.MULTILINE)
_COMMENT_END = re.compile(r"[\s*]\*/")
_COMMENT_LINE = re.compile(r"--|//|#|/\*|\(\*|<!--")
_ACTION = re.compile(r"do\s+(?:enqueue|reset|insert|delete|replace|rename)\b")
_CONTROL = re.compile(r"if\s*\(|(?:for|let)\s+\$")
_DO = re.compile(r"(?:do\s+)?(enqueue|reset)\b", re.IGNORECASE)
_NAME = re.compile(NCNAME)

_QUOTES = "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a\u0060\u00b4"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"
_CHARACTERS = {
    **dict.fromkeys(_QUOTES, ("is no quote of the language", "strings stand in \" or '")),
    **dict.fromkeys(_DASHES, ("is a dash", "write the character - for a hyphen or minus")),
    "\u2260": ("is not an operator", "write `!=`"),
    "\u2264": ("is not an operator", "write `<=`"),
    "\u2265": ("is not an operator", "write `>=`"),
    "^": ("is not an operator", "write `math:pow($a, $b)`"),
    "~": ("is not an operator", "write `matches($text, $pattern)` to compare with a pattern"),
    "\\": (
        "has no meaning here",
        "inside a string a quote is doubled and a line end is `&#10;`; to divide write `div`",
    ),
}

_INFIX = {
    "like": 'write `contains($text, "part")` or `matches($text, "pattern")`',
    "contains": 'contains is a function: contains($text, "part")',
    "matches": 'matches is a function: matches($text, "pattern")',
    "in": 'write `=`: it is true if any item is equal, as in @state = ("new", "open")',
    "not": 'write `not(… = …)`, as in not(@state = ("new", "open"))',
    "between": "write `$n >= 1 and $n <= 9`",
    "equals": "write `=` or `eq`",
    "xor": "write `boolean($a) != boolean($b)`",
    "instanceof": "write `instance of`",
}
_KEYWORDS = frozenset(
    {
        *("and", "or", "not", "if", "then", "else", "do", "enqueue", "reset", "into", "with", "value", "key", "to"),
        *("for", "let", "in", "return", "where", "order", "by", "group", "some", "every", "satisfies", "as", "on"),
        *("create", "queue", "property", "slicing", "collection", "rule", "fixed", "inherited", "declare", "module"),
        *("kind", "mode", "schema", "priority", "errorqueue", "interface", "port", "endpoint", "replyto", "using"),
        *("eq", "ne", "lt", "le", "gt", "ge", "is", "div", "idiv", "mod", "union", "intersect", "except", "instance"),
        *("of", "treat", "castable", "cast", "namespace", "function", "variable", "import", "policy"),
    }
)
_ELSE_IF = ("elif", "elsif", "elseif", "elseIf")
_ENDS = ("end", "endif", "fi", "done", "}", ")")


def explain(stop: Stop) -> Mistake | None:
    """Return the mistake at an unexpected token, if a habit of another language explains it."""
    return (
        _comment(stop)
        or _operator(stop)
        or _semicolon(stop)
        or _missing_comma(stop)
        or _word(stop)
        or _neighbours(stop)
        or _infix(stop)
    )


def explain_character(text: str, start: int) -> Mistake | None:
    """Return the mistake at a character that begins no token."""
    character = text[start]
    if character == "&":
        end = re.compile("&(?:amp;)?&?(?:amp;)?").match(text, start)
        written = end.group() if end else "&"
        return Mistake(f"`{written}` is not an operator", start, start + len(written), "write `and`")
    if character in _CHARACTERS:
        what, hint = _CHARACTERS[character]
        return Mistake(f"`{character}` {what}", start, start + 1, hint)
    if unicodedata.category(character) in ("Zs", "Cf"):
        name = unicodedata.name(character, "unnamed").lower()
        hint = "write a plain blank; such characters come along when text is copied from a web page"
        return Mistake(f"the invisible character U+{ord(character):04X} ({name}) is no blank", start, start + 1, hint)
    return None


def explain_branch(stop: Stop, start: int) -> Mistake | None:
    """Return the mistake in a branch without actions and without a following `else`."""
    if stop.value == "then" and re.compile(r"if\b").match(stop.text, start):
        return Mistake("the condition stands in parentheses", start, start + 2, "if (CONDITION) then ACTION")
    return explain_missing_do(stop.text, start) or explain(stop)


def explain_missing_do(text: str, start: int) -> Mistake | None:
    """Return the mistake of an action without `do`."""
    match = _DO.match(text, start)
    if match is None:
        return None
    word = match.group(1).lower()
    pattern = "do enqueue MESSAGE into QUEUE" if word == "enqueue" else "do reset, or do reset SLICING key KEY"
    if match.group() != match.group().lower():
        return _lower_case(match.group(), match.start(), match.end())
    return Mistake("an action begins with `do`", match.start(), match.end(), pattern)


def explain_statement(stop: Stop, statement: str) -> Mistake | None:
    """Return the mistake after a statement (of the kind `statement`) that no other statement follows."""
    foreign = _COMMENT_LINE.match(stop.text, stop.start)
    return (
        (_explain_no_comment(foreign) if foreign else _comment(stop))
        or _comma_or_parenthesis_after(stop, statement)
        or _semicolon(stop)
        or _missing_comma(stop)
        or _end_word(stop)
        or _word(stop)
        or _statement_word(stop, statement)
    )


def explain_comment(text: str, start: int) -> Mistake | None:
    """Return the mistake of another language's comment at an offset."""
    match = _COMMENT.match(text, start)
    return _explain_no_comment(match) if match else None


def _comment(stop: Stop) -> Mistake | None:
    """Recognise a comment of another language, on the token's line or, if the token begins it, on the line before."""
    text, start = stop.text, stop.start
    line = text.rfind("\n", 0, start) + 1
    lines = [line]
    if not text[line:start].strip() and line > 0:
        lines.append(text.rfind("\n", 0, line - 1) + 1)
    for first in lines:
        match = _COMMENT.search(text, first)
        if match is None or match.start() > start or (first != line and match.start() >= line):
            continue
        if match.group() == "/*" and _COMMENT_END.search(text, match.end()) is None:
            continue
        between = text[match.end() : start]
        is_quoted = any([text.count(quote, first, match.start()) % 2 for quote in "\"'"])
        if not is_quoted and "</" not in between and "/>" not in between:
            return _explain_no_comment(match)
    return None


def _explain_no_comment(match: re.Match[str]) -> Mistake:
    return Mistake(f"`{match.group()}` does not begin a comment", match.start(), match.end(), NO_COMMENT_HINT)


def _operator(stop: Stop) -> Mistake | None:
    """Recognise operators of other languages for which XQuery has another one, or a keyword."""
    text, value, start = stop.text, stop.value, stop.start
    touching = text[max(0, start - 2) : start] if not stop.is_separate else ""
    if value == "=" and touching.endswith(("=", "!=")):
        written = re.compile("!?=+$").search(text, 0, start)
        first = written.start() if written else start
        whole = text[first:start] + re.compile("=+").findall(text[start : start + 3])[0]
        hint = "write `!=`" if whole.startswith("!") else "write `=`, or `eq` to compare exactly one value"
        return Mistake(f"`{whole}` is not an operator", first, first + len(whole), hint)
    if value == ">" and touching.endswith("<"):
        return Mistake("`<>` is not an operator", start - 1, start + 1, "write `!=`, or `not(a = b)`")
    if value == "!":
        if touching.endswith("="):
            return Mistake("`=!` is not an operator", start - 1, start + 1, "write `!=`, or `not(a = b)`")
        return Mistake("`!` does not negate", start, start + 1, "write `not(…)`")
    if value == "%":
        return Mistake("`%` is not an operator", start, start + 1, "write `mod`")
    if value == "?":
        return Mistake("`?` chooses nothing here", start, start + 1, "write `if (CONDITION) then A else B`")
    if value == ":=" and stop.expected == "`in`":
        return Mistake("expected `in`, found `:=`", start, stop.end, "for $x in … return …; a `let` has `:=`")
    if value == ":=":
        return Mistake("`:=` has no place here", start, start + 2, "write `let $x := … return …`; to compare write `=`")
    if value == "{":
        return _brace(stop)
    if value == "}" and text[: stop.last_end].endswith(("++", "--")):
        signs = text[stop.last_end - 2 : stop.last_end]
        return Mistake(f"`{signs}` is not an operator", stop.last_end - 2, stop.last_end, "variables never change")
    return None


def _brace(stop: Stop) -> Mistake | None:
    if stop.before == "$":
        return Mistake("a variable's name has no braces", stop.start, stop.end, "write `$name`")
    if re.compile(rf"\{{\s*(?:{NCNAME}|\"[^\"]*\"|'[^']*')\s*:(?!:)").match(stop.text, stop.start):
        return Mistake(
            "expected an expression, found `{`", stop.start, stop.end, 'a map is written map { "key": value }'
        )
    if stop.before == "catch":
        return Mistake("`catch` does not say what it catches", stop.start, stop.end, "catch * { … }")
    hint = "parentheses keep actions and values together: if (…) then (A, B) else C"
    if stop.expected == "`then`":
        hint = f"if (CONDITION) then ACTION; {hint}"
    if stop.expected.startswith("`return`"):
        return Mistake("`return` is missing before `{`", stop.start, stop.end, "for $x in … return (A, B)")
    return Mistake(f"expected {stop.expected}, found `{{`", stop.start, stop.end, hint)


def _semicolon(stop: Stop) -> Mistake | None:
    rest = stop.text[stop.end : stop.end + 200].lstrip()
    if stop.value == ";":
        if stop.expected.startswith("`return`"):
            return Mistake(
                "`;` does not end a `let`", stop.start, stop.end, "write `return` instead: let $x := … return …"
            )
        if _ACTION.match(rest) or rest.startswith(("}", ")")):
            return Mistake("`;` does not join actions", stop.start, stop.end, "actions are joined by a comma: A, B")
    elif stop.before == ";" and _ACTION.match(stop.text, stop.start):
        at = stop.text.rfind(";", 0, stop.start)
        return Mistake("`;` ends the rule; it does not join actions", at, at + 1, "write a comma instead: A, B")
    return None


def _missing_comma(stop: Stop) -> Mistake | None:
    """Recognise an action or a conditional before which a comma is missing."""
    word = re.compile(r"\w+").match(stop.text, stop.start)
    if word is None or not (_ACTION.match(stop.text, stop.start) or _CONTROL.match(stop.text, stop.start)):
        return None
    first, last = stop.start, word.end()
    if stop.expected == "`then`":
        return Mistake(f"`then` is missing before `{word.group()}`", first, last, "if (CONDITION) then ACTION")
    if stop.expected.startswith("`return`"):
        hint = "for $x in … return ACTION; let $x := … return ACTION"
        return Mistake(f"`return` is missing before `{word.group()}`", first, last, hint)
    if stop.before == "return" and stop.expected.startswith("`else`"):
        at = stop.text.rfind("return", 0, stop.start)
        return Mistake("`return` belongs to a `for` or `let`", at, at + 6, "leave it out: if (…) then ACTION")
    if stop.expected.startswith(("`)`", "`}`", "a statement")):
        return Mistake(
            f"a comma is missing before `{word.group()}`", first, last, "actions are joined by a comma: A, B"
        )
    return None


def _word(stop: Stop) -> Mistake | None:
    """Recognise keywords of other languages, and our own in capitals."""
    value = stop.value
    if stop.kind != "name":
        return None
    if value in _ELSE_IF:
        return Mistake(f"`{value}` is not a word of the language", stop.start, stop.end, "write `else if (…) then …`")
    if value not in _KEYWORDS and value.lower() in _KEYWORDS:
        return _lower_case(value, stop.start, stop.end)
    before = stop.before
    if before in ("for", "let", "foreach") and stop.is_separate:
        at = stop.text.rfind(before, 0, stop.start)
        if before == "foreach" or value == "each":
            return Mistake("a loop begins with `for`", at, stop.end, "for $x in … return …")
        return Mistake(f"`{value}` is no variable", stop.start, stop.end, f"write `{before} ${value}`")
    if stop.expected == "`$`":
        return Mistake(f"`{value}` is no variable", stop.start, stop.end, f"write `${value}`")
    return None


def _lower_case(value: str, start: int, end: int) -> Mistake:
    hint = f"keywords are written in small letters: {value.lower()}"
    return Mistake(f"`{value}` is not a word of the language", start, end, hint)


def _infix(stop: Stop) -> Mistake | None:
    """Recognise a word between two operands that is no operator."""
    if stop.kind == "name" and stop.value in _INFIX and stop.expected.startswith(("`)`", "`]`", "`}`", "`else`")):
        hint = _INFIX[stop.value]
        return Mistake(f"`{stop.value}` is not an operator", stop.start, stop.end, hint)
    return None


def _neighbours(stop: Stop) -> Mistake | None:
    """Recognise mistakes by what is before the token."""
    text, before = stop.text, stop.before
    if stop.kind == "name" and not stop.is_separate and before in ("'", '"'):
        hint = f"a {before} inside a string is doubled: {before * 2}"
        return Mistake(f"the string ends before `{stop.value}`", stop.last_end - 1, stop.last_end, hint)
    if before == "return" and stop.expected.startswith(("`}`", "`)`")):
        at = text.rfind("return", 0, stop.start)
        return Mistake(
            "`return` belongs to a `for` or `let`", at, at + 6, "leave it out: a function's body is its value"
        )
    if before == "," and stop.value in (")", "}", "]"):
        at = text.rfind(",", 0, stop.start)
        return Mistake(f"nothing follows this comma but `{stop.value}`", at, at + 1, "leave the comma out")
    if stop.value == "$" and before == "foreach":
        at = text.rfind("foreach", 0, stop.start)
        return Mistake("a loop begins with `for`", at, at + 7, "for $x in … return …")
    if stop.value == "in" and re.compile(r"for\s*\(\s*\$[\w.-]+\s*$").search(text, max(0, stop.start - 80), stop.start):
        at = text.rfind("(", 0, stop.start)
        return Mistake("a `for` has no parentheses", at, at + 1, "for $x in … return …")
    if stop.value == "@":
        return Mistake("a step is missing its `/`", stop.start, stop.end, "attributes are written a/@id")
    return None


def _comma_or_parenthesis_after(stop: Stop, statement: str) -> Mistake | None:
    if stop.value == ",":
        return _stray_comma(stop, statement)
    if stop.value == "(" and statement == "queue":
        return Mistake(
            "clauses stand without parentheses", stop.start, stop.end, "create queue NAME kind KIND mode MODE"
        )
    return None


def _stray_comma(stop: Stop, statement: str) -> Mistake:
    space = re.compile(r"\s*").match(stop.text, stop.end)
    following = space.end() if space else stop.end
    comment = explain_comment(stop.text, following)
    if comment is not None:
        return comment
    missing = explain_missing_do(stop.text, following)
    if missing is not None and statement == "rule":
        return missing
    hint = "a comma joins actions; values cannot stand among them, and a list of values needs parentheses"
    if re.compile(rf"(?:with\s|{NCNAME}\s+value\s)").match(stop.text, following):
        hint = "each property has a `with` of its own and no comma: with A value … with B value …"
    elif statement == "queue":
        hint = "the clauses of a queue follow each other without commas, and each queue has a `create queue` of its own"
    return Mistake(f"unexpected `,` after the {statement or 'beginning'}", stop.start, stop.end, hint)


def _end_word(stop: Stop) -> Mistake | None:
    if stop.value in _ENDS and stop.kind != "string":
        hint = "a statement ends where the next one begins, and brackets are closed where they were opened"
        return Mistake(f"`{stop.value}` closes nothing here", stop.start, stop.end, hint)
    return None


def _statement_word(stop: Stop, statement: str) -> Mistake | None:
    value, start, end = stop.value, stop.start, stop.end
    if value == "declare":
        return Mistake("queues, properties, slicings, collections and rules are created", start, end, "write `create`")
    if value == "else":
        hint = "`else` follows the actions of an `if`, without `;` in front; several actions in parentheses: (A, B)"
        return Mistake("`else` without an `if`", start, end, hint)
    if stop.before == "into" or (statement == "rule" and stop.value == "(" and _NAME.search(stop.before)):
        return Mistake("the name of a queue cannot be computed", start, end, NOT_COMPUTED_HINT)
    if value in ("queue", "property", "slicing", "collection", "rule", "function", "namespace", "variable"):
        word = "create" if value in ("queue", "property", "slicing", "collection", "rule") else "declare"
        return Mistake(f"`{word}` is missing before `{value}`", start, end, f"write `{word} {value} …`")
    if statement == "queue" and value in ("persistent", "transient"):
        return Mistake(f"`{value}` is a mode", start, end, f"mode {value}")
    if statement == "queue" and value in ("basic", "mailbox", "incomingGateway", "outgoingGateway", "echo"):
        return Mistake(f"`{value}` is a kind", start, end, f"kind {value}")
    if statement == "queue" and stop.kind == "name":
        clauses = "kind, mode, priority, schema, errorqueue, interface, port, endpoint, replyto, using"
        return Mistake(f"`{value}` is no clause of a queue", start, end, f"clauses are {clauses}")
    if statement == "property" and value == "=":
        return Mistake(
            "expected `value`, found `=`", start, end, "create property NAME as TYPE queue QUEUE value EXPRESSION"
        )
    return None
