"""Print modules of an application: statements in canonical form, clauses in canonical order."""

from __future__ import annotations

import re

from demaq.language import ast
from demaq.language.printing import words
from demaq.language.printing.control import rule_body
from demaq.language.printing.declarations import declarations
from demaq.language.printing.stream import (
    DEDENT,
    END_GROUP,
    GROUP,
    HARD_BREAK,
    INDENT,
    PARAGRAPH_BREAK,
    SPACE_OR_BREAK,
    STATEMENT_BREAK,
)
from demaq.language.printing.writer import Printer, Writers

_PLAIN_FILE = re.compile(r"[A-Za-z_][\w.-]*(?:/[\w.-]+)*", re.ASCII)


def module(p: Printer, node: ast.Module) -> None:
    if node.name is not None:
        errorqueue = f" errorqueue {words.name(node.errorqueue)}" if node.errorqueue is not None else ""
        p.put(f"module {node.name}{errorqueue};")
        if node.prolog or node.statements:
            p.put(PARAGRAPH_BREAK)
    declarations(p, node.prolog)
    if node.prolog and node.statements:
        p.put(PARAGRAPH_BREAK)
    for index, statement in enumerate(node.statements):
        if index:
            same = type(statement) is type(node.statements[index - 1])
            p.put(STATEMENT_BREAK if same else PARAGRAPH_BREAK)
        p.node(statement)


def queue_decl(p: Printer, node: ast.QueueDecl) -> None:
    p.put(GROUP, f"create queue {words.name(node.name)}", INDENT)
    _clause(p, "kind", node.kind)
    _clause(p, "mode", node.mode)
    _clause(p, "schema", _file(node.schema))
    _clause(p, "priority", None if node.priority is None else str(node.priority))
    _clause(p, "errorqueue", None if node.errorqueue is None else words.name(node.errorqueue))
    _clause(p, "interface", _file(node.interface))
    if node.port is not None:
        p.put(f" port {node.port if words.is_ncname(node.port) else words.string(node.port)}")
    _clause(p, "endpoint", None if node.endpoint is None else words.string(node.endpoint.value))
    _clause(p, "replyto", None if node.replyto is None else words.name(node.replyto))
    for using in node.using:
        policy = f" policy {_file(using.policy)}" if using.policy is not None else ""
        _clause(p, "using", f"{using.extension}{policy}")
    p.put(DEDENT, END_GROUP)


def _clause(p: Printer, keyword: str, value: str | None) -> None:
    if value is not None:
        p.put(SPACE_OR_BREAK, f"{keyword} {value}")


def _file(file: ast.File | None) -> str | None:
    if file is None:
        return None
    return file.path if _PLAIN_FILE.fullmatch(file.path) else words.string(file.path)


def property_decl(p: Printer, node: ast.PropertyDecl) -> None:
    p.put(GROUP)
    variant = f" {node.variant}" if node.variant is not None else ""
    p.put(f"create property {words.name(node.name)} as {words.name(node.type)}{variant}", INDENT)
    for part in node.parts:
        p.put(SPACE_OR_BREAK)
        p.node(part)
    p.put(DEDENT, END_GROUP)


def property_queues(p: Printer, node: ast.PropertyQueues) -> None:
    p.put(f"queue {', '.join([words.name(queue) for queue in node.queues])}")
    if node.value is not None:
        p.keyword(" value", node.value, p.part)


def rule_decl(p: Printer, node: ast.RuleDecl) -> None:
    errorqueue = f" errorqueue {words.name(node.errorqueue)}" if node.errorqueue is not None else ""
    p.put(f"create rule {words.name(node.name)} for {words.name(node.target)}{errorqueue}", INDENT)
    p.put(HARD_BREAK)
    if isinstance(node.body, ast.If):
        rule_body(p, node.body)
    else:
        p.node(node.body)
    p.put(DEDENT)


STATEMENT_WRITERS: Writers = {
    ast.QueueDecl: queue_decl,
    ast.PropertyDecl: property_decl,
    ast.PropertyQueues: property_queues,
    ast.SlicingDecl: lambda p, node: p.put(f"create slicing {words.name(node.name)} on {words.name(node.property)}"),
    ast.CollectionDecl: lambda p, node: p.put(f"create collection {words.name(node.name)}"),
    ast.RuleDecl: rule_decl,
}
