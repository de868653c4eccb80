"""Parse branches: the expression after `then`, `else` and `return`, and how far it extends.

XQuery has no comma at the top of a rule's body, so there a comma continues the innermost open branch with another
updating expression. Inside parentheses, braces and arguments a comma is XQuery's, and ends the branch.
"""

from __future__ import annotations

from abc import abstractmethod

from demaq.language import ast
from demaq.language.namespaces import PREFIXES
from demaq.language.parsing.grammar import Grammar
from demaq.language.parsing.habits import explain_statement


class Branches(Grammar):
    def __init__(self, *args: object, **keywords: object) -> None:
        super().__init__(*args, **keywords)  # type: ignore[arg-type]  # passed through unchanged
        self.continuations: list[ast.Continuation] = []
        self._at_top = False
        """Whether the current expression ends where the rule's body ends: no bracket and no keyword closes it."""

    def rule_body(self) -> ast.Expr:
        """Parse the body of a rule. Other expressions never stand at its top."""
        self.ifs_open = 0
        self._at_top = True
        body = self.branch("for", self.start)
        self._at_top = False
        return body

    def expr_single(self) -> ast.Expr:
        at_top, self._at_top = self._at_top, False
        self.deeper()
        found = self.one_expr()
        self.depth -= 1
        self._at_top = at_top
        return found

    def branch(self, word: str, owner: int) -> ast.Expr:
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

    @abstractmethod
    def one_expr(self) -> ast.Expr:
        """Parse an ExprSingle, by its first word."""
