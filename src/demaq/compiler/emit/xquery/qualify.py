"""Qualify the names of a library module, so that its declarations can stand in the query of another module."""

from __future__ import annotations

from collections.abc import Mapping

from demaq.compiler.emit.xquery.emitted_names import EmittedNames
from demaq.language import ast
from demaq.language.namespaces import XML


class Qualifier:
    def __init__(self, names: EmittedNames, prefixes: Mapping[str, str]) -> None:
        self.names = names
        self.prefixes = prefixes

    def qualify(self, node: ast.Node) -> ast.Node:
        match node:
            case ast.NameTest() if node.local != "*" or node.prefix != "*":
                return self._name_test(node)
            case ast.FunctionCall():
                known = self.names.function(node)
                name = node.name if known is None else ast.Name(node.name.at, known[1], None, known[0])
                made: ast.Node = ast.FunctionCall(node.at, name, tuple([self.qualify_expr(arg) for arg in node.args]))
                return self._copy_function(node, made)
            case ast.NamedFunctionRef():
                known = self.names.function(node)
                name = node.name if known is None else ast.Name(node.name.at, known[1], None, known[0])
                return self._copy_function(node, ast.NamedFunctionRef(node.at, name, node.arity))
            case ast.ArrowCall() if isinstance(node.function, ast.Name):
                known = self.names.function(node)
                name = node.function if known is None else ast.Name(node.function.at, known[1], None, known[0])
                return self._copy_function(
                    node, ast.ArrowCall(node.at, name, tuple([self.qualify_expr(arg) for arg in node.args]))
                )
            case ast.Name():
                return self._name(node)
            case ast.DirectElement():
                return self._direct(node)
        return self._rebuild(node)

    def qualify_expr(self, node: ast.Expr) -> ast.Expr:
        made = self.qualify(node)
        assert isinstance(made, ast.Expr)
        return made

    def qualify_function(self, declaration: ast.FunctionDecl, uri: str, local: str) -> ast.FunctionDecl:
        """Return a function declaration with its name qualified."""
        made = self._rebuild(declaration)
        assert isinstance(made, ast.FunctionDecl)
        name = ast.Name(declaration.name.at, local, None, uri)
        return ast.FunctionDecl(
            declaration.at, (), False, name, made.params, made.returns, declaration.external, made.body
        )

    def qualify_variable(self, declaration: ast.VarDecl, uri: str, local: str) -> ast.VarDecl:
        made = self._rebuild(declaration)
        assert isinstance(made, ast.VarDecl)
        name = ast.Name(declaration.name.at, local, None, uri)
        return ast.VarDecl(declaration.at, (), name, made.type, declaration.external, made.value)

    def _copy_function(self, old: ast.Node, new: ast.Node) -> ast.Node:
        self.names.copy_function(old, new)
        return new

    def _name(self, name: ast.Name) -> ast.Name:
        known = self.names.resolved.types.get(name)
        if known is not None:
            return ast.Name(name.at, known[1], None, known[0])
        uri = self.prefixes.get(name.prefix) if name.prefix else None
        return name if uri is None else ast.Name(name.at, name.local, None, uri)

    def _name_test(self, test: ast.NameTest) -> ast.NameTest:
        known = self.names.resolved.elements.get(test) or self.names.resolved.attributes.get(test)
        if known is None and test.prefix in self.prefixes:
            known = (self.prefixes[test.prefix or ""], test.local)  # an error name in a catch clause
        if known is None or known[0] is None:
            return test
        return ast.NameTest(test.at, known[1], None, known[0])

    def _direct(self, node: ast.DirectElement) -> ast.Node:
        """Return a direct constructor that declares the prefixes of the library's prolog which it uses."""
        declared = {
            attribute.name.local if attribute.name.prefix else ""
            for attribute in node.attributes
            if "xmlns" in (attribute.name.prefix, str(attribute.name))
        }
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
        outer = self.prefixes
        if declared:
            self.prefixes = {**outer, **_find_declarations(node)}
        attributes = [ast.DirectAttribute(item.at, item.name, self._parts(item.parts)) for item in node.attributes]
        content = [item if isinstance(item, (ast.RawText, ast.CData)) else self.qualify(item) for item in node.content]
        self.prefixes = outer
        return ast.DirectElement(node.at, node.name, (*extra, *attributes), tuple(content))  # type: ignore[arg-type]

    def _parts(self, parts: tuple[ast.RawText | ast.Enclosed, ...]) -> tuple[ast.RawText | ast.Enclosed, ...]:
        made: list[ast.RawText | ast.Enclosed] = []
        for part in parts:
            new = self._rebuild(part)
            assert isinstance(new, (ast.RawText, ast.Enclosed))
            made.append(new)
        return tuple(made)

    def _rebuild(self, node: ast.Node) -> ast.Node:
        values: list[object] = []
        for name in ast.child_fields(type(node)):
            value = getattr(node, name)
            if isinstance(value, ast.Node):
                value = self.qualify(value)
            elif type(value) is tuple:
                value = tuple([self.qualify(item) if isinstance(item, ast.Node) else item for item in value])
            values.append(value)
        return self._copy_function(node, type(node)(node.at, *values))


def _find_declarations(node: ast.DirectElement) -> dict[str, str]:
    found: dict[str, str] = {}
    for attribute in node.attributes:
        if "xmlns" in (attribute.name.prefix, str(attribute.name)):
            prefix = attribute.name.local if attribute.name.prefix else ""
            found[prefix] = "".join([part.raw for part in attribute.parts if isinstance(part, ast.RawText)])
    return found
