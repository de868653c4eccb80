"""Qualify the names of a library module, so that its declarations can stand in the query of another module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from demaq.compiler.emit.xquery.emitted_names import EmittedNames
from demaq.language import ast
from demaq.language.namespaces import XML
from demaq.language.parsing.characters import REFERENCE, resolve_reference

SETTINGS = {"boundary-space": "strip", "default order empty": "least"}
"""The settings of a library that qualifying writes into its expressions, with the value of a prolog without them."""


class Qualifier:
    def __init__(
        self,
        names: EmittedNames,
        prefixes: Mapping[str, str],
        library: Sequence[ast.Decl] = (),
        importer: Sequence[ast.Decl] = (),
    ) -> None:
        self.names = names
        self.prefixes = prefixes
        own, others = find_settings(library), find_settings(importer)
        self._changed = {kind: own.get(kind, value) for kind, value in SETTINGS.items()}
        for kind, value in SETTINGS.items():
            if others.get(kind, value) == self._changed[kind]:
                del self._changed[kind]

    def qualify(self, node: ast.Node) -> ast.Node:
        made: ast.Node
        match node:
            case ast.NameTest() if node.local != "*" or node.prefix != "*":
                return self._name_test(node)
            case ast.FunctionCall():
                made = ast.FunctionCall(node.at, self._full_name(node, node.name), self._args(node.args))
            case ast.NamedFunctionRef():
                made = ast.NamedFunctionRef(node.at, self._full_name(node, node.name), node.arity)
            case ast.ArrowCall(function=ast.Name() as name):
                made = ast.ArrowCall(node.at, self._full_name(node, name), self._args(node.args))
            case ast.Computed(kind="element") | ast.KindTest(kind="element") if isinstance(node.name, ast.Name):
                made = replace(self._rebuild(node), name=self._element_name(node, node.name))
            case ast.OrderSpec(empty=None) if "default order empty" in self._changed:
                made = replace(self._rebuild(node), empty=self._changed["default order empty"])
            case ast.Name():
                return self._name(node)
            case ast.DirectElement():
                return self._direct(node)
            case _:
                made = self._rebuild(node)
        self.names.copy_function(node, made)
        return made

    def qualify_function(self, declaration: ast.FunctionDecl, uri: str, local: str) -> ast.FunctionDecl:
        """Return a function declaration with its name qualified."""
        made = self._rebuild(declaration)
        name = ast.Name(declaration.name.at, local, None, uri)
        return ast.FunctionDecl(
            declaration.at, (), False, name, made.params, made.returns, declaration.external, made.body
        )

    def qualify_variable(self, declaration: ast.VarDecl, uri: str, local: str) -> ast.VarDecl:
        made = self._rebuild(declaration)
        name = ast.Name(declaration.name.at, local, None, uri)
        return ast.VarDecl(declaration.at, (), name, made.type, declaration.external, made.value)

    def _full_name(self, node: ast.Node, name: ast.Name) -> ast.Name:
        """Return the name of a called or referenced function with its namespace."""
        known = self.names.function(node)
        return name if known is None else ast.Name(name.at, known[1], None, known[0])

    def _args(self, args: tuple[ast.Expr, ...]) -> Any:
        return tuple([self.qualify(arg) for arg in args])

    def _name(self, name: ast.Name) -> ast.Name:
        known = self.names.resolved.types.get(name)
        if known is not None:
            return ast.Name(name.at, known[1], None, known[0])
        uri = self.prefixes.get(name.prefix) if name.prefix else None
        return name if uri is None else ast.Name(name.at, name.local, None, uri)

    def _element_name(self, node: ast.Node, name: ast.Name) -> ast.Name:
        """Return the name of an element, which is in the library's default namespace if it has no prefix."""
        known = self.names.resolved.elements.get(node)
        if name.prefix is not None or name.uri is not None or known is None or known[0] is None:
            return self._name(name)
        is_same = known[0] == "" and self.names.resolved.prefixes.get("", "") == ""
        return name if is_same else ast.Name(name.at, name.local, None, known[0])

    def _name_test(self, test: ast.NameTest) -> ast.NameTest:
        known = self.names.resolved.elements.get(test) or self.names.resolved.attributes.get(test)
        if known is None and test.prefix in self.prefixes:
            known = (self.prefixes[test.prefix or ""], test.local)  # an error name in a catch clause
        if known is None or known[0] is None:
            return test
        return ast.NameTest(test.at, known[1], None, known[0])

    def _direct(self, node: ast.DirectElement) -> ast.Node:
        """Return a direct constructor that declares the prefixes of the library's prolog which it uses."""
        declared = _find_declarations(node)
        needed: dict[str, str] = {}
        for name in [node.name, *[attribute.name for attribute in node.attributes]]:
            prefix = name.prefix or ""
            if prefix in ("xmlns", "xml") or prefix in declared or (not prefix and name is not node.name):
                continue
            uri = self.prefixes.get(prefix, "")
            if uri != XML:
                needed[prefix] = uri
        extra = [
            ast.DirectAttribute(
                node.at,
                ast.Name(node.at, prefix, "xmlns") if prefix else ast.Name(node.at, "xmlns"),
                (ast.RawText(node.at, uri.replace("&", "&amp;").replace("{", "{{").replace("}", "}}")),) if uri else (),
            )
            for prefix, uri in needed.items()
        ]
        outer, self.prefixes = self.prefixes, {**self.prefixes, **declared}
        attributes = [
            ast.DirectAttribute(item.at, item.name, tuple([self._rebuild(part) for part in item.parts]))
            for item in node.attributes
        ]
        content = [
            item if isinstance(item, (ast.RawText, ast.CData)) else self.qualify(item) for item in self._spaced(node)
        ]
        self.prefixes = outer
        return ast.DirectElement(node.at, node.name, (*extra, *attributes), tuple(content))  # type: ignore[arg-type]

    def _spaced(self, node: ast.DirectElement) -> Sequence[ast.Node]:
        """Return the content with its boundary space as the library's prolog has it: left out, or as references."""
        mode = self._changed.get("boundary-space")
        if mode is None:
            return node.content
        found: list[ast.Node] = []
        for position, item in enumerate(node.content):
            beside = (*node.content[max(0, position - 1) : position], *node.content[position + 1 : position + 2])
            is_cdata = any([isinstance(other, ast.CData) for other in beside])
            if not isinstance(item, ast.RawText) or is_cdata or item.raw.strip(" \t\n"):
                found.append(item)
            elif mode == "preserve":
                references = "".join([f"&#x{ord(character):X};" for character in item.raw])
                found.append(ast.RawText(item.at, references))
        return found

    def _rebuild(self, node: ast.Node) -> Any:
        """Return a new node of the same class with everything below it qualified."""
        return type(node)(node.at, *ast.change_children(node, self.qualify)[0])


def find_settings(prolog: Sequence[ast.Decl]) -> dict[str, str]:
    """Return the values of the settings that a prolog declares."""
    return {item.kind: item.value for item in prolog if isinstance(item, ast.Setter)}


def _find_declarations(node: ast.DirectElement) -> dict[str, str]:
    found: dict[str, str] = {}
    for attribute in node.attributes:
        if "xmlns" in (attribute.name.prefix, str(attribute.name)):
            prefix = attribute.name.local if attribute.name.prefix else ""
            raw = "".join([part.raw for part in attribute.parts if isinstance(part, ast.RawText)])
            uri = REFERENCE.sub(lambda match: resolve_reference(match) or "", raw.replace("{{", "{").replace("}}", "}"))
            found[prefix] = " ".join(uri.split())
    return found
