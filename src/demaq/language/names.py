"""What every name in a module means: functions, variables, elements, types, and the application's parts.

The scoping is XQuery's own (3.1, section 2.1.1 and where each expression binds). Passes behind this one never look at a
prefix again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from demaq.language import ast
from demaq.language.diagnostics import Diagnostic
from demaq.language.namespaces import FN, XQUERY
from demaq.language.naming.declarations import Declarations, default_function_of, prefixes_of
from demaq.language.naming.resolving import Focus, Resolver
from demaq.language.naming.scope import Scope
from demaq.language.naming.suggestions import Suggestions
from demaq.language.recursion import deep_recursion

FunctionKey = tuple[str, str, int]
"""Namespace, local name and number of arguments."""


@dataclass(slots=True, eq=False)
class Names:
    """What every name in one module means."""

    functions: dict[ast.Node, FunctionKey] = field(default_factory=dict)
    """FunctionCall, NamedFunctionRef, and ArrowCall with a Name (its operand counts as an argument)."""
    variables: dict[ast.VarRef, ast.Node | None] = field(default_factory=dict)
    """The node that binds the variable; None for the variables of a catch.

    ForBinding, LetBinding, WindowClause, CountClause, GroupSpec, QuantifiedBinding, TypeCase, Typeswitch (for its
    default), CopyBinding, Param or VarDecl; for `at $i` and the variables of window conditions the Name itself.
    """
    elements: dict[ast.Node, tuple[str | None, str]] = field(default_factory=dict)
    """NameTest on element axes, KindTest `element(name)`, DirectElement, Computed: namespace (None is any), local."""
    attributes: dict[ast.Node, tuple[str | None, str]] = field(default_factory=dict)
    """The same for attributes: NameTest, KindTest, DirectAttribute (no namespace declarations), Computed."""
    types: dict[ast.Name, tuple[str, str]] = field(default_factory=dict)
    parts: dict[ast.Node, str] = field(default_factory=dict)
    """Name of a queue, property, slicing, collection or rule, or a StringLiteral that stands for one in a call."""
    focus_free: set[ast.Node] = field(default_factory=set)
    """Expressions that use the focus where there is none."""
    declared: dict[FunctionKey, ast.FunctionDecl] = field(default_factory=dict)
    """Functions the module declares or imports."""
    globals: dict[tuple[str, str], ast.VarDecl] = field(default_factory=dict)
    """Variables the module declares or imports."""
    prefixes: dict[str, str] = field(default_factory=dict)
    """The prefixes of the prolog; the empty one is the default element namespace."""
    default_function: str = FN
    problems: list[Diagnostic] = field(default_factory=list)


def resolve_module(
    module: ast.Module,
    libraries: Sequence[ast.Query] = (),
    suggestions: Suggestions | None = None,
) -> Names:
    """Resolve one file of an application, given the library modules it imports (others may be among them)."""
    with deep_recursion():
        resolver = _prepare(module.prolog, libraries, None, suggestions)
        names = resolver.names
        if module.errorqueue is not None:
            resolver.part(module.errorqueue)
        for statement in module.statements:
            _resolve_statement(resolver, statement)
    return names


def resolve_query(
    query: ast.Query,
    libraries: Sequence[ast.Query] = (),
    suggestions: Suggestions | None = None,
) -> Names:
    """Resolve a main or library module of plain XQuery."""
    with deep_recursion():
        resolver = _prepare(query.prolog, libraries, query.library, suggestions)
        if query.body is not None:
            resolver.focus = Focus.INNER
            resolver.visit(query.body)
    return resolver.names


def is_updating(function: ast.FunctionDecl) -> bool:
    """Whether a function was declared updating, in either way of saying so."""
    return function.updating or _annotated(function, "updating")


def _annotated(declaration: ast.FunctionDecl | ast.VarDecl, word: str) -> bool:
    for annotation in declaration.annotations:
        name = annotation.name
        if name.local == word and not name.prefix and name.uri in (None, XQUERY):
            return True
    return False


def _prepare(
    prolog: Sequence[ast.Decl],
    libraries: Sequence[ast.Query],
    library: ast.NamespaceDecl | None,
    suggestions: Suggestions | None,
) -> Resolver:
    """A resolver that has read the prolog: prefixes, declarations, then their bodies."""
    names, scope = Names(), Scope()
    resolver = Resolver(names, scope, suggestions or Suggestions())
    declarations = Declarations(resolver, library.uri if library is not None else None)
    if library is not None:
        scope.prefixes[library.prefix] = library.uri
    declarations.read_head(prolog)
    names.prefixes = dict(scope.prefixes)
    names.default_function = resolver.default_function
    resolver.unloaded = set(declarations.imported)
    for imported in libraries:
        if imported.library is not None and imported.library.uri in declarations.imported:
            resolver.unloaded.discard(imported.library.uri)
            _import(imported, imported.library.uri, names)
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


def _import(library: ast.Query, uri: str, names: Names) -> None:
    """Make what a library module declares and does not keep private known to its importer."""
    prefixes, default_function = prefixes_of(library), default_function_of(library)
    for declaration in library.prolog:
        if not isinstance(declaration, (ast.FunctionDecl, ast.VarDecl)) or _annotated(declaration, "private"):
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
