"""Print prologs: one declaration after the other, each with its semicolon."""

from __future__ import annotations

from demaq.language import ast
from demaq.language.printing import words
from demaq.language.printing.stream import PARAGRAPH_BREAK, STATEMENT_BREAK
from demaq.language.printing.types import write_annotations, write_params
from demaq.language.printing.writer import Printer, Writers


def query(p: Printer, node: ast.Query) -> None:
    """Write a whole main or library module."""
    header = [part for part in (node.version, node.library) if part is not None]
    if node.version is not None:
        p.node(node.version)
    if node.library is not None:
        if node.version is not None:
            p.put(STATEMENT_BREAK)
        p.mark(node.library.at)
        p.put(f"module namespace {node.library.prefix} = {words.string(node.library.uri)};")
        p.end_mark(node.library.at)
    if header and node.prolog:
        p.put(PARAGRAPH_BREAK)
    declarations(p, node.prolog)
    if node.body is not None:
        if header or node.prolog:
            p.put(PARAGRAPH_BREAK)
        p.expr(node.body)


def declarations(p: Printer, nodes: tuple[ast.Decl, ...]) -> None:
    for index, node in enumerate(nodes):
        if index:
            p.put(STATEMENT_BREAK if type(node) is type(nodes[index - 1]) else PARAGRAPH_BREAK)
        p.node(node)
        p.put(";")


def version_decl(p: Printer, node: ast.VersionDecl) -> None:
    p.put("xquery")
    if node.version is not None:
        p.put(f" version {words.string(node.version)}")
    if node.encoding is not None:
        p.put(f" encoding {words.string(node.encoding)}")
    p.put(";")


def setter(p: Printer, node: ast.Setter) -> None:
    value = words.string(node.value) if node.kind in ("default collation", "base-uri") else node.value
    p.put(f"declare {node.kind} {value}")


def decimal_format_decl(p: Printer, node: ast.DecimalFormatDecl) -> None:
    named = f"decimal-format {words.name(node.name)}" if node.name is not None else "default decimal-format"
    p.put(f"declare {named}")
    for property_name, value in node.properties:
        p.put(f" {property_name} = {words.string(value)}")


def module_import(p: Printer, node: ast.ModuleImport) -> None:
    p.put("import module ")
    if node.prefix is not None:
        p.put(f"namespace {node.prefix} = ")
    p.put(words.string(node.uri))
    if node.locations:
        p.put(f" at {', '.join([words.string(location) for location in node.locations])}")


def context_item_decl(p: Printer, node: ast.ContextItemDecl) -> None:
    p.put("declare context item")
    if node.type is not None:
        p.put(" as ")
        p.bare(node.type)
    _value(p, node.external, node.value)


def var_decl(p: Printer, node: ast.VarDecl) -> None:
    p.put("declare ")
    write_annotations(p, node.annotations)
    p.put(f"variable {words.variable(node.name)}")
    p.as_type(node.type)
    _value(p, node.external, node.value)


def _value(p: Printer, external: bool, value: ast.Expr | None) -> None:
    if external:
        p.put(" external")
    if value is not None:
        p.keyword(" :=", value)


def function_decl(p: Printer, node: ast.FunctionDecl) -> None:
    p.put("declare updating " if node.updating else "declare ")
    write_annotations(p, node.annotations)
    p.put(f"function {words.name(node.name)}")
    write_params(p, node.params)
    p.as_type(node.returns)
    if node.external:
        p.put(" external")
    else:
        p.put(" ")
        p.braces(node.body)


DECLARATION_WRITERS: Writers = {
    ast.VersionDecl: version_decl,
    ast.NamespaceDecl: lambda p, node: p.put(f"declare namespace {node.prefix} = {words.string(node.uri)}"),
    ast.DefaultNamespaceDecl: lambda p, node: p.put(f"declare default {node.kind} namespace {words.string(node.uri)}"),
    ast.Setter: setter,
    ast.DecimalFormatDecl: decimal_format_decl,
    ast.ModuleImport: module_import,
    ast.ContextItemDecl: context_item_decl,
    ast.VarDecl: var_decl,
    ast.FunctionDecl: function_decl,
    ast.OptionDecl: lambda p, node: p.put(f"declare option {words.name(node.name)} {words.string(node.value)}"),
}
