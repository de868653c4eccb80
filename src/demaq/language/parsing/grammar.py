"""What the parts of the grammar share: entry points, lists, branches, and the state of the parser.

A branch is the expression after `then`, `else` and `return`. XQuery has no comma at the top of a rule's body, so there
a comma continues the innermost open branch with another updating expression. Inside parentheses, braces and arguments a
comma is XQuery's, and ends the branch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from demaq.language import ast
from demaq.language.namespaces import PREFIXES
from demaq.language.parsing.habits import explain_statement
from demaq.language.parsing.scanner import Scanner
from demaq.source import Source

T = TypeVar("T")


class Grammar(Scanner, ABC):
    """Entry points of shared productions, and the state of the parser."""

    def __init__(self, source: Source, in_rule: bool = False) -> None:
        super().__init__(source)
        self.in_rule = in_rule
        self.updates_seen = 0
        self.actions_seen = 0
        self.ifs_open = 0
        """The number of ifs whose branches are being parsed."""
        self.updating_functions: set[str] = set()
        """Functions declared updating so far, as written: calling one is an action."""
        self.foreign_calls_seen = 0
        """The number of calls of functions of other modules, which may be updating."""
        self.continuations: list[ast.Continuation] = []
        self._at_top = False
        """Whether the current expression ends where the rule's body ends: no bracket and no keyword closes it."""

    @abstractmethod
    def expr(self) -> ast.Expr:
        """Parse an Expr: one or more expressions separated by commas."""

    @abstractmethod
    def one_expr(self) -> ast.Expr:
        """Parse an ExprSingle, by its first word."""

    @abstractmethod
    def sequence_type(self) -> ast.SequenceType: ...

    @abstractmethod
    def enclosed_expr(self) -> ast.Expr | None:
        """Parse `{ expr? }`."""

    def rule_body(self) -> ast.Expr:
        """Parse the body of a rule. Other expressions never stand at its top."""
        self.ifs_open = 0
        self._at_top = True
        body = self.branch("for", self.start)
        self._at_top = False
        return body

    def expr_single(self) -> ast.Expr:
        """Parse an ExprSingle: an expression that ends before a comma."""
        at_top, self._at_top = self._at_top, False
        self.deeper()
        found = self.one_expr()
        self.depth -= 1
        self._at_top = at_top
        return found

    def branch(self, word: str, owner: int) -> ast.Expr:
        """Parse the ExprSingle after a keyword of the construct that begins at an offset."""
        start = self.start
        first = self._parse_deeper()
        if not self._at_top or self.value != ",":
            return first
        comma, first_end = self.here(), self.last_end
        items = [first]
        while self.value == ",":
            items.append(self._continuation())
        at = self.since(start)
        before_else = self.value == "else"
        self.continuations.append(
            ast.Continuation(comma, word, before_else, self.ifs_open, owner, start, first_end, at.end)
        )
        return ast.Sequence(at, tuple(items))

    def _continuation(self) -> ast.Expr:
        """Parse the updating expression after a comma.

        Checks decide whether a function of another module is updating.
        """
        comma, before = self.start, self.last_end
        seen = self.updates_seen, self.foreign_calls_seen
        self.advance()
        item = self._parse_deeper()
        if seen == (self.updates_seen, self.foreign_calls_seen):
            self.go_to(comma)
            self.last_end = before
            self.fail_if_mistake(explain_statement(self.stop("an action"), "rule"))
            self.fail_expected("an action")
        return item

    def note_call(self, name: ast.Name) -> None:
        """Count a call among the updates if the function is known to be updating."""
        if str(name) in self.updating_functions:
            self.updates_seen += 1
            self.actions_seen += 1
        elif name.uri is not None or name.prefix not in (None, *PREFIXES):
            self.foreign_calls_seen += 1

    def _parse_deeper(self) -> ast.Expr:
        self.deeper()
        found = self.one_expr()
        self.depth -= 1
        return found

    def several(self, parse: Callable[[], T], separator: str = ",") -> tuple[T, ...]:
        """Parse one or more things that are separated by commas, or by another token."""
        found = [parse()]
        while self.accept(separator):
            found.append(parse())
        return tuple(found)

    def several_or_none(self, opening: str, parse: Callable[[], T], closing: str) -> tuple[T, ...]:
        """Parse brackets with any number of things between them, separated by commas."""
        self.expect(opening)
        found = () if self.value == closing else self.several(parse)
        self.expect(closing)
        return found

    def variable_name(self) -> ast.Name:
        self.expect("$")
        return self.name("a variable's name")

    def optional_type(self) -> ast.SequenceType | None:
        """Parse `as T`, if present."""
        if self.value != "as":
            return None
        self.advance()
        return self.sequence_type()

    def annotations(self) -> tuple[ast.Annotation, ...]:
        found = []
        while self.value == "%":
            start = self.start
            self.advance()
            name = self.name("an annotation's name")
            values: tuple[ast.StringLiteral | ast.NumericLiteral, ...] = ()
            if self.accept("("):
                values = self.several(self._annotation_value)
                self.expect(")")
            found.append(ast.Annotation(self.since(start), name, values))
        return tuple(found)

    def _annotation_value(self) -> ast.StringLiteral | ast.NumericLiteral:
        if self.kind == "number":
            literal = ast.NumericLiteral(self.here(), self.value)
            self.advance()
            return literal
        return self.string_literal("a string or a number")

    def params(self) -> tuple[ast.Param, ...]:
        """Parse `($a as T, $b)`."""
        return self.several_or_none("(", self._param, ")")

    def _param(self) -> ast.Param:
        start = self.start
        name = self.variable_name()
        type_ = self.optional_type()
        return ast.Param(self.since(start), name, type_)
