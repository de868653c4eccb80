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
    p.put("do delete" if node.draft else "delete node")
    p.after_keyword(node.target, p.part)


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
    p.put(GROUP)
    p.put(keyword)
    p.after_keyword(first, p.part)
    p.put(INDENT)
    p.put(SPACE_OR_BREAK)
    p.put(between)
    p.after_keyword(second, p.part)
    p.put(DEDENT)
    p.put(END_GROUP)


def copy(p: Printer, node: ast.Copy) -> None:
    p.put(GROUP)
    write_list(p, "transform copy" if node.draft else "copy", node.bindings)
    p.put(SPACE_OR_BREAK)
    p.put("modify")
    p.after_keyword(node.modify, p.modification)
    p.put(SPACE_OR_BREAK)
    p.put("return")
    p.after_keyword(node.result)
    p.put(END_GROUP)


def copy_binding(p: Printer, node: ast.CopyBinding) -> None:
    p.put(f"{words.variable(node.name)} :=")
    p.after_keyword(node.expr, p.clause)


def transform_with(p: Printer, node: ast.TransformWith) -> None:
    p.operand(node.operand, PRIMARY)
    p.put(" transform with ")
    p.braces(node.modify)


def enqueue(p: Printer, node: ast.Enqueue) -> None:
    p.put(GROUP)
    p.put("do enqueue")
    p.after_keyword(node.message, p.part)
    p.put(INDENT)
    p.put(SPACE_OR_BREAK)
    p.put(f"into {words.name(node.queue)}")
    for setting in node.properties:
        p.put(SPACE_OR_BREAK)
        p.node(setting)
    p.put(DEDENT)
    p.put(END_GROUP)


def with_property(p: Printer, node: ast.With) -> None:
    p.put(f"with {words.name(node.name)} value")
    p.after_keyword(node.value, p.part)


def reset(p: Printer, node: ast.Reset) -> None:
    p.put("do reset")
    if node.slicing is not None and node.key is not None:
        p.put(f" {words.name(node.slicing)} key")
        p.after_keyword(node.key, p.part)


UPDATE_WRITERS: Writers = {
    ast.Insert: insert,
    ast.Delete: delete,
    ast.Replace: replace,
    ast.Rename: rename,
    ast.Copy: copy,
    ast.CopyBinding: copy_binding,
    ast.TransformWith: transform_with,
    ast.Enqueue: enqueue,
    ast.With: with_property,
    ast.Reset: reset,
}
