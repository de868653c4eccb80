"""Print updating expressions: those of the Update Facility, its 2006 draft, and Demaq's own."""

from __future__ import annotations

from demaq.language import ast
from demaq.language.printing import words
from demaq.language.printing.control import write_list
from demaq.language.printing.precedence import PRIMARY
from demaq.language.printing.stream import DEDENT, END_GROUP, GROUP, INDENT, SPACE_OR_BREAK
from demaq.language.printing.writer import Printer, Writers


def insert(p: Printer, node: ast.Insert) -> None:
    _update(p, "do insert" if node.draft else "insert node", node.source, node.where, node.target)


def delete(p: Printer, node: ast.Delete) -> None:
    p.keyword("do delete" if node.draft else "delete node", node.target, p.part)


def replace(p: Printer, node: ast.Replace) -> None:
    words_ = ["do replace" if node.draft else "replace"]
    if node.value_of:
        words_.append("value of")
    if not node.draft:
        words_.append("node")
    _update(p, " ".join(words_), node.target, "with", node.replacement)


def rename(p: Printer, node: ast.Rename) -> None:
    _update(p, "do rename" if node.draft else "rename node", node.target, "as", node.name)


def _update(p: Printer, keyword: str, first: ast.Expr, between: str, second: ast.Expr) -> None:
    p.put(GROUP, keyword)
    p.after_keyword(first, p.part)
    p.put(INDENT, SPACE_OR_BREAK, between)
    p.after_keyword(second, p.part)
    p.put(DEDENT, END_GROUP)


def copy(p: Printer, node: ast.Copy) -> None:
    p.put(GROUP)
    write_list(p, "transform copy" if node.draft else "copy", node.bindings)
    p.put(SPACE_OR_BREAK, "modify")
    p.after_keyword(node.modify, p.modification)
    p.put(SPACE_OR_BREAK, "return")
    p.after_keyword(node.result)
    p.put(END_GROUP)


def transform_with(p: Printer, node: ast.TransformWith) -> None:
    p.operand(node.operand, PRIMARY)
    p.put(" transform with ")
    p.braces(node.modify)


def enqueue(p: Printer, node: ast.Enqueue) -> None:
    p.put(GROUP, "do enqueue")
    p.after_keyword(node.message, p.part)
    p.put(INDENT, SPACE_OR_BREAK, f"into {words.name(node.queue)}")
    for setting in node.properties:
        p.put(SPACE_OR_BREAK)
        p.node(setting)
    p.put(DEDENT, END_GROUP)


def reset(p: Printer, node: ast.Reset) -> None:
    p.put("do reset")
    if node.slicing is not None and node.key is not None:
        p.keyword(f" {words.name(node.slicing)} key", node.key, p.part)


UPDATE_WRITERS: Writers = {
    ast.Insert: insert,
    ast.Delete: delete,
    ast.Replace: replace,
    ast.Rename: rename,
    ast.Copy: copy,
    ast.CopyBinding: lambda p, node: p.keyword(f"{words.variable(node.name)} :=", node.expr, p.clause),
    ast.TransformWith: transform_with,
    ast.Enqueue: enqueue,
    ast.With: lambda p, node: p.keyword(f"with {words.name(node.name)} value", node.value, p.part),
    ast.Reset: reset,
}
