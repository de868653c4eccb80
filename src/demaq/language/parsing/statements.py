"""Parse QDL and QML: module header, queues, properties, slicings, collections and rules.

A statement ends where its grammar ends it. After a syntax error, parsing continues at the next `create`.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any, Literal, cast

from demaq.errors import ProgramError
from demaq.language import ast
from demaq.language.parsing.characters import NCNAME
from demaq.language.parsing.expressions import STATEMENTS
from demaq.language.parsing.habits import explain_comment, explain_statement
from demaq.language.parsing.prolog import Prolog
from demaq.language.parsing.scanner import END, SYNTAX
from demaq.source import SourceLocation

ERRORS_MAX = 100
"""The most syntax errors that are reported for one file."""

_NEXT_STATEMENT = re.compile(r"(?<![\w$:/@.-])create\s+(?:queue|property|slicing|collection|rule)\s+[^\s=,)\]}]")
_HEADER = rf"create\s+(queue|property|slicing|collection|rule)\s+((?:{NCNAME}:)?{NCNAME})"
_BARE_FILE = re.compile(r"[^\s;,()'\"{}<>]+")
_AFTER_NAME = {"property": "as", "slicing": "on", "rule": "for"}
"""The word that follows the name in a statement."""
_FORMS = {
    "property": "create property NAME as TYPE queue QUEUE value EXPRESSION",
    "slicing": "create slicing NAME on PROPERTY",
    "rule": "create rule NAME for QUEUE if (CONDITION) then ACTION",
}
_CLAUSES = ("kind", "mode", "schema", "priority", "errorqueue", "interface", "port", "endpoint", "replyto", "using")


class Statements(Prolog):
    """The parser of a `.dmq` file. Syntax errors are collected in `errors`."""

    def module(self) -> ast.Module:
        self.errors: list[ProgramError] = []
        self._statement_before = ""
        name = errorqueue = None
        prolog: tuple[ast.Decl, ...] = ()
        try:
            self.go_to(0)
            if self.value == "module":
                name, errorqueue = self._header()
            prolog = self.prolog()
        except ProgramError as error:
            self._recover(error)
        statements: list[ast.Statement | ast.BrokenStatement] = []
        while self.kind != "end":
            start = self.start
            try:
                statements.append(self._statement())
            except ProgramError as error:
                broken = self._broken(start)
                if broken is not None:
                    statements.append(broken)
                self._recover(error)
        whole = SourceLocation(self.source, 0, len(self.text))
        return ast.Module(
            whole, name, errorqueue, prolog, tuple(statements), tuple(self.comments), tuple(self.continuations)
        )

    def _broken(self, start: int) -> ast.BrokenStatement | None:
        match = re.compile(_HEADER).match(self.text, start)
        if match is None:
            return None
        prefix, colon, local = match.group(2).rpartition(":")
        name = ast.Name(SourceLocation(self.source, match.start(2), match.end(2)), local, prefix if colon else None)
        return ast.BrokenStatement(SourceLocation(self.source, start, match.end()), match.group(1), name)

    def _recover(self, error: ProgramError) -> None:
        """Record the error and continue at the next statement after it."""
        self.errors.append(error.with_traceback(None))  # it would keep every frame of a deep statement
        self.depth = 0
        self.brackets.clear()
        if len(self.errors) >= ERRORS_MAX:
            self._stop()
            return
        offset = error.at.start if error.at is not None else len(self.text)
        offset = max(offset, self.last_end, self.start)
        self.end = offset
        while True:
            match = _NEXT_STATEMENT.search(self.text, self.end)
            if match is None:
                self._stop()
                return
            self.last_end = match.start()
            try:
                self.go_to(match.start())
            except ProgramError:
                self.end = match.end()
                continue
            return

    def _stop(self) -> None:
        """Go to the end of the text."""
        self.kind, self.value, self.start, self.end = END, "", len(self.text), len(self.text)

    def _header(self) -> tuple[str, ast.Name | None]:
        self.advance()
        name = self.ncname("the module's name")
        errorqueue = None
        if self.accept("errorqueue"):
            errorqueue = self._queue_name()
        self.expect(";", hint="module NAME errorqueue QUEUE;")
        return name, errorqueue

    def _statement(self) -> ast.Statement:
        start = self.start
        if self.value in ("declare", "import") and self.peek() not in STATEMENTS:
            self.fail(f"`{self.value}` stands after a statement", hint="declarations and imports come first in a file")
        if self.value != "create":
            self.fail_if_mistake(explain_statement(self.stop("a statement"), self._statement_before))
            self.fail_expected(
                "a statement",
                hint="a statement is create queue, create property, create slicing, create collection or create rule",
            )
        self.advance()
        word = self.value
        if word not in STATEMENTS:
            near = get_close_matches(word.lower(), STATEMENTS, 1)
            hint = f"did you mean create {near[0]}?" if near else None
            self.fail_expected("queue, property, slicing, collection or rule after `create`", hint)
        self._statement_before = word
        self.advance()
        self.depth = 0
        statement = self._statement_of(word, start)
        self.accept(";")
        return statement

    def _refuse_missing_name(self, word: str) -> None:
        """Refuse a statement without a name, in which the word after the name would be taken for it."""
        following = _AFTER_NAME.get(word)
        if following is not None and self.value == following and self.peek() != following:
            self.fail(f"the {word}'s name is missing before `{following}`", hint=_FORMS[word])

    def _statement_of(self, word: str, start: int) -> ast.Statement:
        self._refuse_missing_name(word)
        if word == "queue":
            return self._queue(start)
        if word == "property":
            return self._property(start)
        if word == "rule":
            return self._rule(start)
        name = self.name(f"the {word}'s name")
        if word == "collection":
            return ast.CollectionDecl(self.since(start), name)
        self.expect("on", hint=_FORMS["slicing"])
        property_name = self.name("a property's name")
        return ast.SlicingDecl(self.since(start), name, property_name)

    # queues

    def _queue(self, start: int) -> ast.QueueDecl:
        name = self.name("the queue's name")
        found: dict[str, Any] = {}
        using: list[ast.Using] = []
        while self.value in _CLAUSES:
            clause = self.value
            if clause in found:
                self.fail(f"`{clause}` is given twice")
            if clause == "using":
                using.append(self._using())
            elif clause == "port" and "interface" not in found:
                self.fail("`port` belongs after `interface FILE`")
            else:
                self.advance()
                found[clause] = self._clause_value(clause)
        return ast.QueueDecl(
            self.since(start),
            name,
            found.get("kind"),
            found.get("mode"),
            found.get("schema"),
            found.get("priority"),
            found.get("errorqueue"),
            found.get("interface"),
            found.get("port"),
            found.get("endpoint"),
            found.get("replyto"),
            tuple(using),
        )

    def _queue_name(self) -> ast.Name:
        return self.name("a queue's name")

    def _clause_value(self, clause: str) -> object:
        match clause:
            case "kind":
                return self.one_of("basic", "mailbox", "incomingGateway", "outgoingGateway", "echo")
            case "mode":
                return self.one_of("persistent", "transient")
            case "schema" | "interface":
                return self._file()
            case "priority":
                return self._integer()
            case "errorqueue" | "replyto":
                return self._queue_name()
            case "port":
                return self.string_literal().value if self.kind == "string" else self.ncname("a port's name")
        if self.kind != "string":
            self.fail_expected("an address in quotes", hint=f'{clause} "https://…"')
        return self.string_literal()

    def _integer(self) -> int:
        sign = -1 if self.value == "-" else 1
        if self.value in ("-", "+"):
            self.advance()
        if self.kind != "number" or not self.value.isdigit() or len(self.value) > 18:
            self.fail_expected("a whole number")
        value = int(self.value)
        self.advance()
        return sign * value

    def _file(self) -> ast.File:
        if self.kind == "string":
            literal = self.string_literal()
            return ast.File(literal.at, literal.value)
        match = _BARE_FILE.match(self.text, self.start)
        if match is None or self.kind == "end":
            self.fail_expected("a file's name")
        self.last_end = match.end()
        self.go_to(match.end())
        return ast.File(SourceLocation(self.source, match.start(), match.end()), match.group())

    def _using(self) -> ast.Using:
        start = self.start
        self.advance()
        extension = self.value
        self.advance()
        if extension == "WS" and self.value == "-":  # the paper prints a space before the hyphen
            self.advance()
            extension = f"WS-{self.value}"
            self.advance()
        if extension not in ("WS-ReliableMessaging", "WS-Security"):
            raise ProgramError(
                f"`{extension}` is not a known extension",
                self.since(start),
                "known are WS-ReliableMessaging and WS-Security",
                SYNTAX,
            )
        policy = self._file() if self.accept("policy") else None
        return ast.Using(self.since(start), cast(Literal["WS-ReliableMessaging", "WS-Security"], extension), policy)

    # properties and rules

    def _property(self, start: int) -> ast.PropertyDecl:
        name = self.name("the property's name")
        self.expect("as", hint=_FORMS["property"])
        type_ = self.name("an atomic type such as xs:string")
        variant: Literal["fixed", "inherited"] | None = None
        if self.value in ("fixed", "inherited"):
            variant = cast(Literal["fixed", "inherited"], self.value)
            self.advance()
        if self.value != "queue":
            self.fail_expected("`queue`", hint="a property says on which queues it is defined")
        parts = []
        while self.value == "queue":
            parts.append(self._property_queues())
        return ast.PropertyDecl(self.since(start), name, type_, variant, tuple(parts))

    def _property_queues(self) -> ast.PropertyQueues:
        start = self.start
        self.advance()
        queues = self.several(self._queue_name)
        value = self.expr_single() if self.accept("value") else None
        return ast.PropertyQueues(self.since(start), queues, value)

    def _rule(self, start: int) -> ast.RuleDecl:
        name = self.name("the rule's name")
        self.expect("for", hint=_FORMS["rule"])
        target = self.name("the name of a queue or slicing")
        errorqueue = None
        if self.value == "errorqueue" and self.peek_token()[0] in ("name", "braced"):
            self.advance()
            errorqueue = self._queue_name()
        self.fail_if_mistake(explain_comment(self.text, self.start))
        if self.value.lower() in ("if", "when", "where") and self.value != "if" and self.peek() == "(":
            self.fail(f"expected `if`, found `{self.value}`", hint=_FORMS["rule"])
        if self.value == "if" and self.peek() != "(":
            self.fail("the condition stands in parentheses", hint="if (CONDITION) then ACTION")
        body = self.rule_body()
        return ast.RuleDecl(self.since(start), name, target, errorqueue, body)
