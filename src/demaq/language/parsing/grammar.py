"""The entry points that the parts of the grammar share."""

from __future__ import annotations

from abc import ABC, abstractmethod

from demaq.language import ast
from demaq.language.parsing.scanner import Scanner
from demaq.source import Source


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

    @abstractmethod
    def expr(self) -> ast.Expr:
        """Parse an Expr: one or more expressions separated by commas."""

    @abstractmethod
    def expr_single(self) -> ast.Expr:
        """Parse an ExprSingle: an expression that ends before a comma."""

    @abstractmethod
    def branch(self, word: str, owner: int) -> ast.Expr:
        """Parse the ExprSingle after a keyword (then, else, return) of the construct that begins at an offset.

        At the top of a rule's body, commas continue it with more updating expressions.
        """

    @abstractmethod
    def sequence_type(self) -> ast.SequenceType: ...

    @abstractmethod
    def enclosed_expr(self) -> ast.Expr | None:
        """Parse `{ expr? }`."""

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
            values: list[ast.StringLiteral | ast.NumericLiteral] = []
            if self.value == "(":
                self.advance()
                values.append(self._annotation_value())
                while self.accept(","):
                    values.append(self._annotation_value())
                self.expect(")")
            found.append(ast.Annotation(self.since(start), name, tuple(values)))
        return tuple(found)

    def _annotation_value(self) -> ast.StringLiteral | ast.NumericLiteral:
        if self.kind == "number":
            literal = ast.NumericLiteral(self.here(), self.value)
            self.advance()
            return literal
        return self.string_literal("a string or a number")

    def params(self) -> tuple[ast.Param, ...]:
        """Parse `($a as T, $b)`."""
        self.expect("(")
        found: list[ast.Param] = []
        if self.value != ")":
            found.append(self._param())
            while self.accept(","):
                found.append(self._param())
        self.expect(")")
        return tuple(found)

    def _param(self) -> ast.Param:
        start = self.start
        name = self.variable_name()
        type_ = self.optional_type()
        return ast.Param(self.since(start), name, type_)
