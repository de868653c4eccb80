"""What the prolog of a module may not declare, because nobody could give it a value."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.analysis.bodies import Effect
from demaq.language.diagnostics import Diagnostic, error
from demaq.language.draft import Draft
from demaq.language.namespaces import FN

_CLOCK = {(FN, "current-dateTime"), (FN, "current-date"), (FN, "current-time")}
"""The time is that of the message."""


def global_variables(draft: Draft) -> Iterator[Diagnostic]:
    """A global variable is computed once, without a message and without a snapshot of the queues."""
    for body in draft.bodies:
        if body.role != "variable":
            continue
        for call in body.calls:
            declared = body.names.declared.get(call.key)
            if declared is not None:
                if draft.effects.get(declared, Effect.NONE) & (Effect.MESSAGE | Effect.STATE):
                    yield _refused(f"{declared.name}(), which looks at messages,", call.node)
            elif call.effect & (Effect.MESSAGE | Effect.STATE) or call.key[:2] in _CLOCK:
                yield _refused(f"{call.key[1]}()", call.node)


def declarations_without_value(draft: Draft) -> Iterator[Diagnostic]:
    for prolog in _prologs(draft):
        for declaration in prolog:
            match declaration:
                case ast.VarDecl(external=True, value=None):
                    yield error(
                        "DQ0311",
                        f"nobody gives the external variable ${declaration.name} a value",
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


def _prologs(draft: Draft) -> Iterator[tuple[ast.Decl, ...]]:
    for module in draft.modules:
        yield module.tree.prolog
        for library in module.libraries:
            yield library.tree.prolog


def _refused(what: str, node: ast.Node) -> Diagnostic:
    return error(
        "DQ0310",
        f"{what} may not be used for the value of a global variable",
        node.at,
        "a global variable is computed once, without a message; bind it inside the rule with `let`",
    )
