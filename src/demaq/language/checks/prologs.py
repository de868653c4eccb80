"""A prolog declares nothing external and no setting twice, and its variables depend on no message."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.diagnostics import Diagnostic, error
from demaq.language.namespaces import FN
from demaq.language.program.bodies import Effect
from demaq.language.program.draft import Draft
from demaq.language.resolving.names import is_updating

_CLOCK = {(FN, "current-dateTime"), (FN, "current-date"), (FN, "current-time")}
"""These depend on the time of the message."""

_DECLARED_TWICE = {
    "boundary-space": "XQST0068",
    "default collation": "XQST0038",
    "base-uri": "XQST0032",
    "construction": "XQST0067",
    "ordering": "XQST0065",
    "default order empty": "XQST0069",
    "copy-namespaces": "XQST0055",
    "revalidation": "XUST0003",
}
"""The error code of the XQuery recommendations for a second declaration."""


def global_variables(draft: Draft) -> Iterator[Diagnostic]:
    """Yield global variables that depend on a message or on state: they are computed once, without either."""
    for body in draft.bodies:
        if body.role != "variable":
            continue
        for call in body.calls:
            declared = body.names.declared.get(call.key)
            if declared is not None:
                if draft.effects.get(declared, Effect.NONE) & (Effect.MESSAGE | Effect.STATE):
                    yield _refuse(f"{declared.name}(), which looks at messages,", call.node)
            elif call.effect & (Effect.MESSAGE | Effect.STATE) or call.key[:2] in _CLOCK:
                yield _refuse(f"{call.key[1]}()", call.node)


def declarations_without_value(draft: Draft) -> Iterator[Diagnostic]:
    for prolog in draft.prologs():
        for declaration in prolog:
            match declaration:
                case ast.VarDecl(external=True, value=None):
                    yield error(
                        "DQ0311",
                        f"the external variable ${declaration.name} never gets a value",
                        declaration.at,
                        f"declare variable ${declaration.name} := …",
                    )
                case ast.FunctionDecl(external=True):
                    yield error(
                        "DQ0313",
                        f"there is no external function {declaration.name}()",
                        declaration.at,
                        "give it a body",
                    )
                case ast.ContextItemDecl():
                    yield error(
                        "DQ0312",
                        "the context item is the message and cannot be declared",
                        declaration.at,
                        "in rules and property values `.` is the message's document node",
                    )


def settings_declared_twice(draft: Draft) -> Iterator[Diagnostic]:
    """Yield settings and decimal formats that are declared more than once."""
    for prolog in draft.prologs():
        seen: set[str] = set()
        for declaration in prolog:
            if isinstance(declaration, ast.Setter):
                setting, code = declaration.kind, _DECLARED_TWICE.get(declaration.kind, "")
            elif isinstance(declaration, ast.DecimalFormatDecl):
                setting, code = "default decimal-format", "XQST0111"
                if declaration.name is not None:
                    setting = f"decimal-format {declaration.name}"
            else:
                continue
            if setting in seen:
                yield error(
                    "DQ0209", f"`declare {setting}` stands here twice ({code})", declaration.at, "leave one of them out"
                )
            seen.add(setting)


def revalidation_modes(draft: Draft) -> Iterator[Diagnostic]:
    """Yield revalidation modes: expressions have no schemas, so nothing can be revalidated."""
    for prolog in draft.prologs():
        for declaration in prolog:
            match declaration:
                case ast.Setter(kind="revalidation", value="strict" | "lax"):
                    yield error(
                        "DQ0314",
                        f"revalidation mode `{declaration.value}` is not supported (XUST0026)",
                        declaration.at,
                        "declare revalidation skip; a message is validated where its queue has a schema",
                    )


def types_of_updating_functions(draft: Draft) -> Iterator[Diagnostic]:
    """Yield updating functions with a declared type: they return nothing (Update Facility 1.0, 2.2.3)."""
    for prolog in draft.prologs():
        for declaration in prolog:
            if isinstance(declaration, ast.FunctionDecl) and declaration.returns and is_updating(declaration):
                yield error(
                    "DQ0315",
                    f"{declaration.name}() is declared updating and has a return type (XUST0028)",
                    declaration.returns.at,
                    "leave out `as …`: an updating function returns nothing",
                )


def _refuse(what: str, node: ast.Node) -> Diagnostic:
    return error(
        "DQ0310",
        f"{what} may not be used for the value of a global variable",
        node.at,
        "a global variable is computed once, without a message; bind it inside the rule with `let`",
    )
