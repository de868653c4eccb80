"""Read the declarations of a prolog: prefixes, imports, functions and variables."""

from __future__ import annotations

from collections.abc import Sequence

from demaq.language import ast
from demaq.language.namespaces import ARRAY, DEMAQ, FN, MAP, MATH, PREFIXES, QS, XML, XQUERY, XS, XSI
from demaq.language.resolving.resolver import Resolver
from demaq.language.resolving.scope import DEFAULT_ELEMENT

RESERVED = frozenset({FN, XS, XSI, XML, MATH, MAP, ARRAY, QS, DEMAQ, XQUERY})
"""Namespaces in which an application may declare nothing."""


class Declarations:
    """Reads one prolog into a resolver's scope and names, in three steps: head, functions, variables."""

    def __init__(self, resolver: Resolver, own_namespace: str | None) -> None:
        self.resolver = resolver
        self.own_namespace = own_namespace
        self.imported: set[str] = set()

    def read_head(self, prolog: Sequence[ast.Decl]) -> None:
        """Read namespaces and imports."""
        scope, seen = self.resolver.scope, set[str]()
        for declaration in prolog:
            match declaration:
                case ast.NamespaceDecl():
                    self._once(f"prefix `{declaration.prefix}`", seen, declaration)
                    if declaration.uri:
                        scope.prefixes[declaration.prefix] = declaration.uri
                    else:  # XQuery 3.1, 4.12: an empty URI removes a predeclared prefix
                        scope.prefixes.pop(declaration.prefix, None)
                case ast.DefaultNamespaceDecl():
                    self._once(f"the default {declaration.kind} namespace", seen, declaration)
                    if declaration.kind == "element":
                        scope.prefixes[DEFAULT_ELEMENT] = declaration.uri
                    else:
                        self.resolver.default_function = declaration.uri
                case ast.ModuleImport():
                    self._once(f"the module {declaration.uri}", seen, declaration)
                    self.imported.add(declaration.uri)
                    if declaration.prefix is not None:
                        self._once(f"prefix `{declaration.prefix}`", seen, declaration)
                        scope.prefixes[declaration.prefix] = declaration.uri
        self._check_prefixes(prolog)

    def read_functions(self, prolog: Sequence[ast.Decl]) -> None:
        names, resolver = self.resolver.names, self.resolver
        for declaration in prolog:
            if not isinstance(declaration, ast.FunctionDecl):
                continue
            uri = resolver.uri_of(declaration.name, resolver.default_function)
            if uri is None:
                continue
            self._check_namespace(declaration.name, uri)
            arity = len(declaration.params)
            key = (uri, declaration.name.local, arity)
            known = names.declared.get(key)
            if known is not None and known is not declaration:  # modules may import each other, and thereby themselves
                self._twice(
                    f"{declaration.name}() with {arity} argument{'' if arity == 1 else 's'}", declaration, known
                )
            names.declared[key] = declaration
        for uri, local, arity in names.declared:
            resolver.arities.setdefault((uri, local), []).append(arity)

    def read_variables(self, prolog: Sequence[ast.Decl]) -> None:
        names, resolver = self.resolver.names, self.resolver
        for declaration in prolog:
            if not isinstance(declaration, ast.VarDecl):
                continue
            uri = resolver.uri_of(declaration.name, "")
            if uri is None:
                continue
            if self.own_namespace is not None and uri != self.own_namespace:
                self._not_own(f"${declaration.name}", declaration.name)
            key = (uri, declaration.name.local)
            known = names.globals.get(key)
            if known is not None and known is not declaration:
                self._twice(f"${declaration.name}", declaration, known)
            names.globals[key] = declaration

    def _check_prefixes(self, prolog: Sequence[ast.Decl]) -> None:
        for declaration in prolog:
            if isinstance(declaration, (ast.OptionDecl, ast.DecimalFormatDecl)) and declaration.name is not None:
                self.resolver.uri_of(declaration.name, "")

    def _check_namespace(self, name: ast.Name, uri: str) -> None:
        if self.own_namespace is not None:
            if uri != self.own_namespace:
                self._not_own(f"{name}()", name)
        elif uri in RESERVED or not uri:
            where = "the namespace of XQuery's own functions" if uri == FN else f"the namespace {uri!r}"
            self.resolver.error(
                "DQ0306",
                f"function {name}() would be declared in {where}",
                name.at,
                f"declare function local:{name.local}(…)",
            )

    def _not_own(self, what: str, name: ast.Name) -> None:
        self.resolver.error(
            "DQ0306", f"{what} is not in the namespace of its module", name.at, f"the module's is {self.own_namespace}"
        )

    def _once(self, what: str, seen: set[str], declaration: ast.Node) -> None:
        if what in seen:
            self.resolver.error("DQ0209", f"{what} is declared twice", declaration.at)
        seen.add(what)

    def _twice(self, what: str, declaration: ast.FunctionDecl | ast.VarDecl, first: ast.Node) -> None:
        self.resolver.error(
            "DQ0209", f"{what} is declared twice", declaration.name.at, f"it was declared at {first.at}"
        )


def read_prefixes(query: ast.Query) -> dict[str, str]:
    """Return the prefixes that a library module's prolog declares."""
    prefixes = dict(PREFIXES)
    if query.library is not None:
        prefixes[query.library.prefix] = query.library.uri
    for declaration in query.prolog:
        if isinstance(declaration, (ast.NamespaceDecl, ast.ModuleImport)) and declaration.prefix is not None:
            prefixes[declaration.prefix] = declaration.uri
    return prefixes


def read_default_function(query: ast.Query) -> str:
    for declaration in query.prolog:
        if isinstance(declaration, ast.DefaultNamespaceDecl) and declaration.kind == "function":
            return declaration.uri
    return FN
