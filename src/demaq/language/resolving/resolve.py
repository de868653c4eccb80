"""Resolve every name of a module.

The scoping is that of XQuery 3.1 (section 2.1.1, and each expression that binds). Later passes never use prefixes.
"""

from __future__ import annotations

from collections.abc import Sequence

from demaq.language import ast
from demaq.language.recursion import deep_recursion
from demaq.language.resolving.names import Names, NamesBuilder, is_annotated
from demaq.language.resolving.prolog_names import Declarations, read_default_function, read_prefixes
from demaq.language.resolving.references import Focus
from demaq.language.resolving.resolver import Resolver
from demaq.language.resolving.scope import Scope
from demaq.suggestions import Suggestions


def resolve_module(
    module: ast.Module, libraries: Sequence[ast.Query] = (), suggestions: Suggestions | None = None
) -> Names:
    """Return the names of one file of an application; `libraries` holds the modules it imports, and perhaps others."""
    with deep_recursion():
        resolver = _prepare(module.prolog, libraries, None, suggestions)
        if module.errorqueue is not None:
            resolver.part(module.errorqueue)
        for statement in module.statements:
            _resolve_statement(resolver, statement)
    return resolver.names


def resolve_query(
    query: ast.Query, libraries: Sequence[ast.Query] = (), suggestions: Suggestions | None = None
) -> Names:
    """Return the names of a main or library module of plain XQuery."""
    with deep_recursion():
        resolver = _prepare(query.prolog, libraries, query.library, suggestions)
        if query.body is not None:
            resolver.focus = Focus.INNER
            resolver.visit(query.body)
    return resolver.names


def _prepare(
    prolog: Sequence[ast.Decl],
    libraries: Sequence[ast.Query],
    library: ast.NamespaceDecl | None,
    suggestions: Suggestions | None,
) -> Resolver:
    """Return a resolver that has read the prolog: prefixes, declarations, then their bodies."""
    names, scope = NamesBuilder(), Scope()
    resolver = Resolver(names, scope, suggestions or Suggestions())
    declarations = Declarations(resolver, library.uri if library is not None else None)
    if library is not None:
        scope.prefixes[library.prefix] = library.uri
    declarations.read_head(prolog)
    names.prefixes.update(scope.prefixes)
    resolver.unloaded = set(declarations.imported)
    for imported in libraries:
        if imported.library is not None and imported.library.uri in declarations.imported:
            resolver.unloaded.discard(imported.library.uri)
            _import_library(imported, imported.library.uri, names)
    imported_variables = dict(names.globals)
    declarations.read_functions(prolog)
    declarations.read_variables(prolog)
    scope.variables = dict(names.globals)
    for declaration in prolog:
        if isinstance(declaration, ast.FunctionDecl):
            resolver.function_body(declaration)
    scope.variables = dict(imported_variables)
    for declaration in prolog:
        if isinstance(declaration, ast.VarDecl):
            resolver.global_variable(declaration)
        elif isinstance(declaration, ast.ContextItemDecl) and declaration.value is not None:
            resolver.without_focus(declaration.value)
    scope.variables = dict(names.globals)
    return resolver


def _import_library(library: ast.Query, uri: str, names: NamesBuilder) -> None:
    """Declare the functions and variables of a library module that are not private."""
    prefixes, default_function = read_prefixes(library), read_default_function(library)
    for declaration in library.prolog:
        if not isinstance(declaration, (ast.FunctionDecl, ast.VarDecl)) or is_annotated(declaration, "private"):
            continue
        name = declaration.name
        default = default_function if isinstance(declaration, ast.FunctionDecl) else ""
        found = name.uri if name.uri is not None else prefixes.get(name.prefix) if name.prefix else default
        if found != uri:
            continue
        if isinstance(declaration, ast.FunctionDecl):
            names.declared[(uri, name.local, len(declaration.params))] = declaration
        else:
            names.globals[(uri, name.local)] = declaration


def _resolve_statement(resolver: Resolver, statement: ast.Statement | ast.BrokenStatement) -> None:
    resolver.part(statement.name)
    match statement:
        case ast.QueueDecl():
            for queue in (statement.errorqueue, statement.replyto):
                if queue is not None:
                    resolver.part(queue)
        case ast.PropertyDecl():
            resolver.type_name(statement.type)
            for part in statement.parts:
                for queue in part.queues:
                    resolver.part(queue)
                if part.value is not None:
                    resolver.with_message(part.value)
        case ast.SlicingDecl():
            resolver.part(statement.property)
        case ast.RuleDecl():
            resolver.part(statement.target)
            if statement.errorqueue is not None:
                resolver.part(statement.errorqueue)
            resolver.with_message(statement.body)
