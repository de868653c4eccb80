"""Lower update expressions to calls of updates.xq: each returns its pending updates, which are applied to the copy."""

from __future__ import annotations

from typing import Protocol

from demaq.compiler.context import CompilerContext
from demaq.compiler.emit.xquery import needless_copies
from demaq.compiler.emit.xquery.emitted_names import EmittedNames
from demaq.compiler.emit.xquery.vocabulary import RUNTIME, SITE, Sites, fn, literal, runtime_name
from demaq.language import ast
from demaq.source import SourceLocation

_INSERTS = {
    "into": ("insert-into", 1),
    "as first into": ("insert-into", 2),
    "as last into": ("insert-into", 3),
    "before": ("insert-beside", 4),
    "after": ("insert-beside", 5),
}
"""The function for each insert position, and the position's number."""


class LowersExpressions(Protocol):
    """The lowering of the operands of an update expression."""

    context: CompilerContext
    names: EmittedNames
    sites: Sites

    def lower_expr(self, node: ast.Expr) -> ast.Expr: ...

    def template(self, at: SourceLocation, *parts: str | ast.Expr) -> ast.Template: ...


def copy(lowering: LowersExpressions, node: ast.Copy) -> ast.Node:
    """Lower `copy`: make the copies, collect the updates on them, and bind the variables to the updated copies."""
    at = node.at
    site = _site(lowering, node)
    preserves = _preserves(lowering)
    is_needless = preserves and needless_copies.is_needless(node, lowering.names)
    copied, updated = ("original", "changed") if is_needless else ("copied", "updated")
    made = [f"$Q{{{RUNTIME}}}copy{number}" for number, _ in enumerate(node.bindings)]
    parts: list[str | ast.Expr] = []
    for variable, binding in zip(made, node.bindings, strict=True):
        parts += [
            f"let {variable} := {runtime_name(copied)}(",
            lowering.lower_expr(binding.expr),
            f", {_flag(preserves)}, {site}) ",
        ]
        parts += ["let ", ast.VarRef(binding.name.at, binding.name), f" := {variable} "]
    copies = ", ".join(made)
    parts += [
        f"let {made[0]} := [{runtime_name(updated)}(({copies}), (",
        lowering.lower_expr(node.modify),
        f"), {site})]?* ",
    ]
    for number, binding in enumerate(node.bindings):
        parts += ["let ", ast.VarRef(binding.name.at, binding.name), f" := {made[0]}[{number + 1}] "]
    return lowering.template(at, "(", *parts, "return ", lowering.lower_expr(node.result), ")")


def transform_with(lowering: LowersExpressions, node: ast.TransformWith) -> ast.Node:
    site = _site(lowering, node)
    copy = f"$Q{{{RUNTIME}}}copy"
    head = f"(let {copy} := {runtime_name('copied')}("
    begin = f", {_flag(_preserves(lowering))}, {site}) return {runtime_name('updated')}({copy}, "
    updates: tuple[str | ast.Expr, ...] = ("()",)
    if node.modify is not None:
        updates = (f"{copy} ! (", lowering.lower_expr(node.modify), ")")
    return lowering.template(node.at, head, lowering.lower_expr(node.operand), begin, *updates, f", {site}))")


def insert(lowering: LowersExpressions, node: ast.Insert) -> ast.Node:
    function, how = _INSERTS[node.where]
    source, target = lowering.lower_expr(node.source), lowering.lower_expr(node.target)
    return lowering.template(
        node.at, f"{runtime_name(function)}({how}, (", source, "), (", target, f"), {_site(lowering, node)})"
    )


def delete(lowering: LowersExpressions, node: ast.Delete) -> ast.Node:
    return lowering.template(
        node.at, f"{runtime_name('delete')}((", lowering.lower_expr(node.target), f"), {_site(lowering, node)})"
    )


def replace(lowering: LowersExpressions, node: ast.Replace) -> ast.Node:
    function = "replace-value" if node.value_of else "replace-node"
    target, by = lowering.lower_expr(node.target), lowering.lower_expr(node.replacement)
    return lowering.template(node.at, f"{runtime_name(function)}((", target, "), (", by, f"), {_site(lowering, node)})")


def rename(lowering: LowersExpressions, node: ast.Rename) -> ast.Node:
    """Lower `rename`. Constructors at the author's location resolve the new name, one for each kind of node."""
    name, kind = f"$Q{{{RUNTIME}}}name", f"$Q{{{RUNTIME}}}kind"
    named = (
        f"function({kind}) {{ if ({kind} eq 1) then {fn('node-name')}(element {{ {name} }} {{}})"
        f' else if ({kind} eq 2) then {fn("node-name")}(attribute {{ {name} }} {{ "" }})'
        f' else {fn("name")}(processing-instruction {{ {name} }} {{ "" }}) }}'
    )
    return lowering.template(
        node.at,
        f"(let {name} := (",
        lowering.lower_expr(node.name),
        f") return {runtime_name('rename')}((",
        lowering.lower_expr(node.target),
        f"), {named}, {_site(lowering, node)}))",
    )


def _site(lowering: LowersExpressions, node: ast.Node) -> str:
    return literal(SITE + lowering.sites.number(node.at))


def _preserves(lowering: LowersExpressions) -> bool:
    """Return whether copies preserve unused namespaces."""
    setters = [item for item in lowering.context.module.tree.prolog if isinstance(item, ast.Setter)]
    modes = [item.value for item in setters if item.kind == "copy-namespaces"]
    return not any(["no-preserve" in str(mode) for mode in modes])


def _flag(value: bool) -> str:
    return f"{fn('true')}()" if value else f"{fn('false')}()"
