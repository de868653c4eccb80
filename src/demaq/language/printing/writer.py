"""The writer of streams: writes a tree as a stream, and parenthesises nested expressions as needed.

Each class of node has one function that writes it. All recursion is from Python to Python, without generators or
callbacks through C, so that only `deep_recursion` bounds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from demaq.language import ast
from demaq.language.parsing.expressions import OR
from demaq.language.printing import words
from demaq.language.printing.precedence import SINGLE, ends_in_bare_reset, level, tail
from demaq.language.printing.stream import (
    DEDENT,
    END_GROUP,
    GROUP,
    INDENT,
    NOTHING_OR_BREAK,
    SPACE_OR_BREAK,
    End,
    Instruction,
    SourceMark,
    Spot,
    Stream,
)
from demaq.source import NOWHERE, SourceLocation

Writers: TypeAlias = Mapping[type[ast.Node], "Callable[[Printer, Any], None]"]

_HUGGED = (
    ast.Sequence,
    ast.DirectElement,
    ast.MapConstructor,
    ast.SquareArray,
    ast.CurlyArray,
    ast.InlineFunction,
    ast.Computed,
    ast.FunctionCall,
    ast.StringConstructor,
    ast.TryCatch,
)
"""Expressions that begin with a bracket, so that they may begin on a line that they do not fit on."""

_UPDATES = (ast.Insert, ast.Delete, ast.Replace, ast.Rename)
_Typed: TypeAlias = ast.ForBinding | ast.LetBinding | ast.QuantifiedBinding | ast.GroupSpec | ast.Param


class Printer:
    def __init__(self, writers: Writers) -> None:
        self.stream: Stream = []
        self._writers = writers

    def put(self, *instructions: Instruction) -> None:
        self.stream.extend(instructions)

    # nodes

    def node(self, node: ast.Node) -> None:
        """Write a node with optional white space before and after it."""
        if isinstance(node, ast.Sequence) and node.items:
            self.parentheses(node)  # its location is that of what is inside the parentheses
            return
        if isinstance(node, ast.Root):
            self._root(node)
            return
        self.mark(node.at)
        self._writers[type(node)](self, node)
        self.end_mark(node.at)

    def _root(self, node: ast.Root) -> None:
        """Write a lone slash, which would take a name after it for its first step.

        Its location excludes the parentheses.
        """
        self.put("(")
        self.mark(node.at)
        self.put("/")
        self.end_mark(node.at)
        self.put(")")

    def bare(self, node: ast.Node) -> None:
        """Write a node without white space around it: inside a direct constructor or a type."""
        if node.at.source is not NOWHERE.source:
            self.put(Spot(node.at))
        self._writers[type(node)](self, node)

    def mark(self, at: SourceLocation) -> None:
        if at.source is not NOWHERE.source:
            self.put(SourceMark(at))

    def end_mark(self, at: SourceLocation) -> None:
        if at.source is not NOWHERE.source:
            self.put(End(at))

    # expressions by what may stand where they stand

    def expr(self, expr: ast.Expr) -> None:
        """Write an expression where the grammar has Expr: a sequence needs no parentheses."""
        if isinstance(expr, ast.Sequence) and expr.items:
            self.mark(expr.at)
            self.items(expr.items)
            self.end_mark(expr.at)
        else:
            self.node(expr)

    def operand(self, expr: ast.Expr, least: int) -> None:
        """Write an operand, in parentheses unless it binds at least so tightly."""
        if level(expr) < least:
            self.parentheses(expr)
        else:
            self.node(expr)

    def clause(self, expr: ast.Expr) -> None:
        """Write an ExprSingle before a keyword or a comma of the surrounding construct.

        It gets parentheses if it could take these for its own, as `do reset` takes `return key` for a slicing and a
        key.
        """
        is_open = level(expr) == SINGLE and not isinstance(expr, ast.TryCatch)
        if is_open and (tail(expr) is None or ends_in_bare_reset(expr)):
            self.parentheses(expr)
        else:
            self.node(expr)

    def part(self, expr: ast.Expr) -> None:
        """Write an ExprSingle inside an update, in parentheses if it is more than operators."""
        self.operand(expr, OR)

    def modification(self, expr: ast.Expr) -> None:
        """Write the updates between `modify` and `return`."""
        if isinstance(expr, _UPDATES):
            self.node(expr)
        else:
            self.clause(expr)

    def items(self, items: Sequence[ast.Expr]) -> None:
        """Write expressions separated by commas."""
        last = len(items) - 1
        for index, item in enumerate(items):
            self.node(item)
            if index != last:
                self.put(",", SPACE_OR_BREAK)

    def parentheses(self, expr: ast.Expr) -> None:
        self.put(GROUP, "(", INDENT, NOTHING_OR_BREAK)
        self.expr(expr)
        self.put(DEDENT, NOTHING_OR_BREAK, ")", END_GROUP)

    def after_keyword(self, expr: ast.Expr, write: Callable[[ast.Expr], None] | None = None) -> None:
        """Write an expression after a keyword: indented on the next line if it does not fit on this one."""
        if isinstance(expr, _HUGGED):
            self.put(" ")
            (write or self.node)(expr)
            return
        self.put(GROUP, INDENT, SPACE_OR_BREAK)
        (write or self.node)(expr)
        self.put(DEDENT, END_GROUP)

    def keyword(self, word: str, expr: ast.Expr, write: Callable[[ast.Expr], None] | None = None) -> None:
        self.put(word)
        self.after_keyword(expr, write)

    # brackets

    def braces(self, content: ast.Expr | None) -> None:
        """Write `{ expr }`."""
        if content is None:
            self.put("{}")
            return
        self.put("{", GROUP, INDENT, SPACE_OR_BREAK)
        self.expr(content)
        self.put(DEDENT, SPACE_OR_BREAK, END_GROUP, "}")

    def brackets(self, opening: str, items: Sequence[ast.Expr], closing: str) -> None:
        """Write expressions separated by commas between brackets."""
        if not items:
            self.put(opening, closing)
            return
        self.put(opening, GROUP, INDENT, NOTHING_OR_BREAK)
        self.items(items)
        self.put(DEDENT, NOTHING_OR_BREAK, END_GROUP, closing)

    def condition(self, opening: str, expr: ast.Expr, closing: str) -> None:
        """Write an Expr between brackets."""
        self.put(opening, GROUP, INDENT, NOTHING_OR_BREAK)
        self.expr(expr)
        self.put(DEDENT, NOTHING_OR_BREAK, END_GROUP, closing)

    # words

    def variable(self, node: _Typed) -> None:
        """Write `$name`, and its type if there is one."""
        self.put(words.variable(node.name))
        self.as_type(node.type)

    def as_type(self, type_: ast.SequenceType | None) -> None:
        """Write ` as T`, if there is a type."""
        if type_ is not None:
            self.put(" as ")
            self.bare(type_)

    def collation(self, collation: ast.StringLiteral | None) -> None:
        if collation is not None:
            self.put(f" collation {words.string(collation.value)}")
