"""The scanner: one token at a time, since tokens depend on the context.

The scanner holds the current token and looks ahead on demand. Inside direct constructors the parser scans characters
instead, and then repositions the scanner. An invalid token is an error only when it becomes the current one: looking
ahead never fails.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from html import entities
from typing import NoReturn

from demaq.errors import ProgramError
from demaq.language import ast
from demaq.language.parsing.characters import (
    NAME_START,
    NAMED_REFERENCE,
    NOT_XML,
    REFERENCE,
    SPACE,
    TOKEN,
    resolve_reference,
)
from demaq.language.parsing.habits import Mistake, Stop, explain, explain_character
from demaq.language.recursion import NESTING_MAX
from demaq.source import Source, SourceLocation

END = "end"
NAME, BRACED, WILD, STRING, NUMBER, SYMBOL, BAD = "name", "braced", "wild", "string", "number", "symbol", "bad"

_KINDS = {kind: kind for kind in (WILD, STRING, NUMBER, SYMBOL)}

_COMMENT_EDGE = re.compile(r"\(:|:\)")
_OPENING = {"(": ")", "[": "]", "{": "}"}
_BRACKETS = frozenset("()[]{}")
_UNCLOSED_BEFORE = frozenset({")", "]", "}", ";", "then", "else", "into", "satisfies"})
"""Tokens that cannot occur inside brackets: the closing bracket is missing before them."""
_MAY_BE_SPACE = frozenset(" \t\n\r(")

SYNTAX = "DQ0101"
TOO_DEEP = "DQ0102"


class Scanner:
    """The current token: its kind, its text as `value`, and where it starts and ends."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.comments: list[ast.Comment] = []
        self._comments_until = 0
        self.kind = SYMBOL
        self.value = ""
        self.start = 0
        self.end = 0
        self.last_end = 0
        self.depth = 0
        self.brackets: list[tuple[int, str]] = []
        """Offsets of the open brackets, each with the quote if it is in an attribute's value."""
        self._ahead: tuple[int, int, tuple[str, str, int]] = (-1, 0, (END, "", 0))
        """The cached token after the one that ends at the first number."""
        bad = NOT_XML.search(self.text)
        if bad is not None:
            self.fail_at(
                f"character U+{ord(bad.group()):04X} is not allowed in a program",
                bad.start(),
                bad.end(),
                hint="inside text write it as a character reference if XML allows it, or remove it",
            )

    # advancing

    def go_to(self, offset: int) -> None:
        """Make the token that begins at or after the offset the current one."""
        start = self._skip_space(offset)
        self.kind, self.value, self.end = self._token_at(start)
        self.start = start
        if self.kind is BAD:
            self._fail_bad_token()

    def advance(self) -> None:
        self.last_end = self.end
        if self.value in _BRACKETS:
            if self.value in _OPENING:
                self.brackets.append((self.start, ""))
            elif self.brackets:
                self.brackets.pop()
        end, start, token = self._ahead
        if end != self.end:
            self.go_to(self.end)
            return
        self.start = start
        self.kind, self.value, self.end = token
        if self.kind is BAD:
            self._fail_bad_token()

    def peek(self, count: int = 1) -> str:
        """Return the text of the next token (or of a later one)."""
        return self.peek_token(count)[1]

    def peek_token(self, count: int = 1) -> tuple[str, str, int]:
        end, _, token = self._ahead
        if end != self.end:
            start = self._skip_space(self.end)
            token = self._token_at(start)
            self._ahead = (self.end, start, token)
        for _ in range(count - 1):
            token = self._token_at(self._skip_space(token[2]))
        return token

    def _token_at(self, start: int) -> tuple[str, str, int]:
        match = TOKEN.match(self.text, start)
        if match is None:
            if start >= len(self.text):
                return END, "", start
            return BAD, self.text[start], start + 1
        end = match.end()
        kind = match.lastgroup
        if kind == "name":
            value = match.group()
            return (WILD if value[-1] == "*" else NAME), value, end
        if kind == "braced":
            value = match.group()
            return (WILD if value[-1] == "*" else BRACED), value, end
        if kind == "number" and NAME_START.match(self.text, end):
            return BAD, match.group(), end
        return _KINDS[str(kind)], match.group(), end

    def _skip_space(self, offset: int) -> int:
        text = self.text
        if text[offset : offset + 1] not in _MAY_BE_SPACE:
            return offset
        while True:
            match = SPACE.match(text, offset)
            offset = match.end() if match else offset
            if not text.startswith("(:", offset):
                return offset
            offset = self._skip_comment(offset)

    def _skip_comment(self, start: int) -> int:
        depth, offset, text = 1, start + 2, self.text
        while depth:
            match = _COMMENT_EDGE.search(text, offset)
            if match is None:
                self.fail_at("this comment is never closed", start, start + 2, hint="add the missing `:)`")
            depth += 1 if match.group() == "(:" else -1
            offset = match.end()
        if start >= self._comments_until:
            self._comments_until = offset
            self.comments.append(ast.Comment(SourceLocation(self.source, start, offset), text[start:offset]))
        return offset

    # locations and names

    def here(self) -> SourceLocation:
        """Return the current token's location."""
        return SourceLocation(self.source, self.start, self.end)

    def since(self, start: int) -> SourceLocation:
        """Return the location from an offset up to the end of the last token read."""
        return SourceLocation(self.source, start, max(start, self.last_end))

    def name(self, what: str = "a name", hint: str | None = None) -> ast.Name:
        """Parse a QName: `local`, `prefix:local` or `Q{uri}local`."""
        at = self.here()
        if self.kind is NAME:
            found = self._plain_name(at)
        elif self.kind is BRACED:
            found = self._braced_name(at)
        else:
            if self.kind is STRING:
                hint = f"names stand without quotes: {self.value[1:-1]}"
            elif hint is None and self.kind is SYMBOL:
                hint = "a name is written here, not an expression"
            elif hint is not None and self.kind is NUMBER:
                self.fail(f"expected {what}, found {self.found()}", hint)
            self.fail_expected(what, hint)
        self.advance()
        return found

    def _plain_name(self, at: SourceLocation) -> ast.Name:
        prefix, colon, local = self.value.rpartition(":")
        return ast.Name(at, local, prefix if colon else None)

    def _braced_name(self, at: SourceLocation) -> ast.Name:
        uri, _, local = self.value[2:].rpartition("}")
        return ast.Name(at, local, None, self.uri_in_braces(uri))

    def uri_in_braces(self, raw: str) -> str:
        return " ".join(self.resolve_references(raw, self.start).split())

    def ncname(self, what: str = "a name without prefix") -> str:
        if self.kind is not NAME or ":" in self.value:
            self.fail_expected(what)
        value = self.value
        self.advance()
        return value

    def string_literal(self, what: str = "a string in quotes") -> ast.StringLiteral:
        if self.kind is not STRING:
            self.fail_expected(what)
        quote = self.value[0]
        raw = self.value[1:-1].replace(quote * 2, quote)
        if "&" in raw:
            raw = self.resolve_references(raw, self.start)
        literal = ast.StringLiteral(self.here(), raw)
        self.advance()
        return literal

    def resolve_references(self, raw: str, start: int) -> str:
        """Replace `&lt;` and `&#x20;` in text that begins at an offset; fails at a stray `&`."""
        pieces, offset = [], 0
        while (ampersand := raw.find("&", offset)) >= 0:
            match = REFERENCE.match(raw, ampersand)
            character = resolve_reference(match) if match else None
            if match is None or character is None:
                self.fail_reference(start, raw[ampersand : match.end() if match else ampersand + 1])
            pieces.append(raw[offset:ampersand])
            pieces.append(character)
            offset = match.end()
        pieces.append(raw[offset:])
        return "".join(pieces)

    # expecting

    def accept(self, value: str) -> bool:
        """Advance if the token is this one; return whether it was."""
        if self.value != value:
            return False
        self.advance()
        return True

    def expect(self, value: str, hint: str | None = None) -> None:
        if self.value != value:
            if value in _BRACKETS and value not in _OPENING:
                self.fail_unclosed(value)
            self.fail_expected(f"`{value}`", hint)
        self.advance()

    def expect_words(self, *words: str) -> None:
        for word in words:
            self.expect(word)

    def one_of(self, *words: str) -> str:
        value = self.value
        if value not in words:
            near = get_close_matches(value, words, 1)
            hint = f"did you mean {near[0]}?" if near else None
            self.fail_expected(" or ".join([f"`{word}`" for word in words]), hint)
        self.advance()
        return value

    def deeper(self) -> None:
        """Enter one level of nesting. The caller decrements `depth` when the level is done."""
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise ProgramError(
                f"nested more than {NESTING_MAX:,} levels deep",
                self.here(),
                hint="give parts of the expression names with `let` or declare functions",
                code=TOO_DEEP,
            )

    # failing

    def fail_at(self, message: str, start: int, end: int, hint: str | None = None) -> NoReturn:
        raise ProgramError(message, SourceLocation(self.source, start, end), hint, SYNTAX)

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        self.fail_at(message, self.start, max(self.end, self.start + 1), hint)

    def fail_expected(self, what: str, hint: str | None = None) -> NoReturn:
        self.fail_if_mistake(explain(self.stop(what)))
        if self.kind is END:
            self.fail_at(f"expected {what}, found {self.found()}", self.last_end, self.last_end, hint)
        self.fail(f"expected {what}, found {self.found()}", hint)

    def stop(self, expected: str) -> Stop:
        """Return the current token as one that cannot be used."""
        return Stop(self.text, self.kind, self.value, self.start, self.end, self.last_end, expected)

    def fail_if_mistake(self, mistake: Mistake | None) -> None:
        if mistake is not None:
            self.fail_at(mistake.message, mistake.start, mistake.end, mistake.hint)

    def fail_unclosed(self, closing: str) -> NoReturn:
        """Fail at a missing closing bracket: either it is missing, or its content is wrong."""
        opening, quote = self.brackets[-1] if self.brackets else (self.start, "")
        bracket = self.text[opening : opening + 1]
        is_create = self.value == "create" and self.peek_token()[0] is NAME
        is_quote = quote != "" and self.value.startswith(quote)
        if self.kind is END or self.value in _UNCLOSED_BEFORE or is_create or is_quote:
            if self.value in (";", ")", "]", "}"):
                self.fail_if_mistake(explain(self.stop(f"`{closing}`")))
            place = SourceLocation(self.source, self.start, self.end)
            found = self.found() if not is_quote else f"`{quote}`"
            where = "" if self.kind is END else f" in line {place.line}, column {place.column}"
            front = "at the end" if self.kind is END else f"before {found}{where}"
            self.fail_at(
                f"this `{bracket}` is never closed", opening, opening + 1, f"add the missing `{closing}` {front}"
            )
        place = SourceLocation(self.source, opening, opening + 1)
        opened = f"`{bracket}` was opened in line {place.line}, column {place.column}"
        self.fail_expected(f"`{closing}`", f"{opened}; or a comma or an operator is missing here")

    def found(self) -> str:
        if self.kind is END:
            return "the end of the text"
        value = self.value if len(self.value) <= 40 else self.value[:37] + "…"
        return f"`{value}`"

    def fail_reference(self, near: int, text: str) -> NoReturn:
        at = self.text.find(text, near)
        start = at if at >= 0 else near
        if (named := NAMED_REFERENCE.match(self.text, start)) is not None:
            character = entities.html5.get(named.group(1) + ";")
            hint = f"write `&#{ord(character)};`" if character and len(character) == 1 else None
            known = f"XML knows &lt; &gt; &amp; &quot; and &apos; only, not {named.group()}"
            self.fail_at(known, start, named.end(), hint or "write `&amp;` for the character &")
        if text == "&":
            self.fail_at("`&` does not begin a reference", start, start + 1, hint="write `&amp;` for the character &")
        self.fail_at(f"`{text}` is not a character that XML allows", start, start + len(text))

    def _fail_bad_token(self) -> NoReturn:
        if self.value[0] in "\"'":
            if self.brackets and self.brackets[-1][1] == self.value[0]:
                self.fail_unclosed("}")
            self.fail("this string is never closed", hint=f"add the missing {self.value[0]}")
        if self.value[0] in "0123456789.":
            self.fail(
                f"the number `{self.value}` runs into `{self.text[self.end]}`",
                hint="put a blank between number and name",
            )
        self.fail_if_mistake(explain_character(self.text, self.start))
        self.fail(f"unexpected character `{self.value}`")
