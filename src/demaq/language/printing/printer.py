"""The public entry points of the printer. What they print parses to the same tree."""

from __future__ import annotations

from demaq.language import ast
from demaq.language.parser import parse_module
from demaq.language.printing.constructors import CONSTRUCTOR_WRITERS
from demaq.language.printing.control import CONTROL_WRITERS
from demaq.language.printing.declarations import DECLARATION_WRITERS, query
from demaq.language.printing.expressions import EXPRESSION_WRITERS
from demaq.language.printing.flat import SourceMap, lay_out_flat, lay_out_mapped
from demaq.language.printing.layout import WIDTH, lay_out_pretty
from demaq.language.printing.statements import STATEMENT_WRITERS, module
from demaq.language.printing.stream import Stream
from demaq.language.printing.types import TYPE_WRITERS
from demaq.language.printing.updates import UPDATE_WRITERS
from demaq.language.printing.writer import Printer, Writers
from demaq.language.recursion import deep_recursion

WRITERS: Writers = {
    **TYPE_WRITERS,
    **EXPRESSION_WRITERS,
    **CONTROL_WRITERS,
    **CONSTRUCTOR_WRITERS,
    **UPDATE_WRITERS,
    **DECLARATION_WRITERS,
    **STATEMENT_WRITERS,
}


def print_query(node: ast.Query) -> str:
    """Return a query on as few lines as possible, without comments."""
    return lay_out_flat(_query_stream(node))


def print_expr(expr: ast.Expr) -> str:
    """Return an expression on one line (but for line ends inside its strings and constructors)."""
    printer = Printer(WRITERS)
    with deep_recursion():
        printer.expr(expr)
    return lay_out_flat(printer.stream)


def print_node(node: ast.Node) -> str:
    """Return a statement of a module, or a declaration of its prolog, without comments."""
    printer = Printer(WRITERS)
    with deep_recursion():
        printer.node(node)
    return lay_out_flat(printer.stream)


def print_mapped(node: ast.Query) -> tuple[str, SourceMap]:
    """Return a query for evaluation, and its source map."""
    return lay_out_mapped(_query_stream(node))


def format_query(node: ast.Query, width: int = WIDTH) -> str:
    """Return a query for reading, with its comments."""
    return lay_out_pretty(_query_stream(node), node.comments, width)


def format_module(node: ast.Module, width: int = WIDTH) -> str:
    """Return a module of an application in its canonical form, with its comments."""
    for statement in node.statements:
        if isinstance(statement, ast.BrokenStatement):
            raise ValueError(f"{statement.at}: a statement that could not be parsed cannot be printed")
    printer = Printer(WRITERS)
    with deep_recursion():
        module(printer, node)
    return lay_out_pretty(printer.stream, node.comments, width)


def _query_stream(node: ast.Query) -> Stream:
    printer = Printer(WRITERS)
    with deep_recursion():
        query(printer, node)
    return printer.stream


_PASSES_MAX = 6
"""A misplaced comment may need several passes to reach its canonical place; seldom more than one."""


def format_canonically(module: ast.Module) -> str:
    """Return a module of an application with its comments, laid out in the one canonical way."""
    text = format_module(module)
    for _ in range(_PASSES_MAX):
        again, errors = parse_module(text, module.at.file)
        assert not errors, "what is laid out can be read"
        relaid = format_module(again)
        if relaid == text:
            break
        text = relaid
    return text
