"""What every name in a module means: functions, variables, elements, types, and the application's parts."""

from __future__ import annotations

from dataclasses import dataclass, field

from demaq.language import ast
from demaq.language.diagnostics import Diagnostic
from demaq.language.namespaces import FN, XQUERY

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


def is_updating(function: ast.FunctionDecl) -> bool:
    """Whether a function was declared updating, in either way of saying so."""
    return function.updating or is_annotated(function, "updating")


def is_annotated(declaration: ast.FunctionDecl | ast.VarDecl, word: str) -> bool:
    """Return whether a declaration bears one of XQuery's own annotations: `%updating`, `%private`."""
    for annotation in declaration.annotations:
        name = annotation.name
        if name.local == word and not name.prefix and name.uri in (None, XQUERY):
            return True
    return False
