"""The resolved names of a module: functions, variables, elements, types, and the parts of the application.

A *part* of an application is a queue, property, slicing, collection or rule: what a statement declares by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from demaq.language import ast
from demaq.language.diagnostics import Diagnostic
from demaq.language.namespaces import XQUERY

FunctionKey = tuple[str, str, int]
"""Namespace, local name and number of arguments."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Names:
    """What every name in one module refers to, by the node that holds the name.

    A value: nothing changes it after resolving. Passes that make nodes of their own keep the names of these themselves.
    """

    functions: Mapping[ast.Node, FunctionKey]
    """FunctionCall, NamedFunctionRef, and ArrowCall with a Name (its operand counts as an argument)."""
    variables: Mapping[ast.VarRef, ast.Node | None]
    """The node that binds the variable; None for the variables of a catch.

    ForBinding, LetBinding, WindowClause, CountClause, GroupSpec, QuantifiedBinding, TypeCase, Typeswitch (for its
    default), CopyBinding, Param or VarDecl; for `at $i` and the variables of window conditions the Name itself.
    """
    elements: Mapping[ast.Node, tuple[str | None, str]]
    """NameTest on element axes, KindTest `element(name)`, DirectElement, Computed: namespace (None is any), local."""
    attributes: Mapping[ast.Node, tuple[str | None, str]]
    """The same for attributes: NameTest, KindTest, DirectAttribute (no namespace declarations), Computed."""
    types: Mapping[ast.Name, tuple[str, str]]
    parts: Mapping[ast.Node, str]
    """Name of a part, or a StringLiteral that stands for one in a call."""
    declared: Mapping[FunctionKey, ast.FunctionDecl]
    """Functions the module declares or imports."""
    globals: Mapping[tuple[str, str], ast.VarDecl]
    """Variables the module declares or imports."""
    prefixes: Mapping[str, str]
    """The prefixes of the prolog; the empty one is the default element namespace."""
    problems: Sequence[Diagnostic]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NamesBuilder(Names):
    """The names of a module while it is being resolved. Only the resolver sees that the tables can be changed."""

    functions: dict[ast.Node, FunctionKey] = field(default_factory=dict)
    variables: dict[ast.VarRef, ast.Node | None] = field(default_factory=dict)
    elements: dict[ast.Node, tuple[str | None, str]] = field(default_factory=dict)
    attributes: dict[ast.Node, tuple[str | None, str]] = field(default_factory=dict)
    types: dict[ast.Name, tuple[str, str]] = field(default_factory=dict)
    parts: dict[ast.Node, str] = field(default_factory=dict)
    declared: dict[FunctionKey, ast.FunctionDecl] = field(default_factory=dict)
    globals: dict[tuple[str, str], ast.VarDecl] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)


def merge_names(own: Names, others: Sequence[Names]) -> Names:
    """Return the names of a module with those of the nodes of its libraries; prefixes and problems are its own."""
    every = (own, *others)
    return replace(
        own,
        functions={node: key for names in every for node, key in names.functions.items()},
        variables={node: binder for names in every for node, binder in names.variables.items()},
        elements={node: name for names in every for node, name in names.elements.items()},
        attributes={node: name for names in every for node, name in names.attributes.items()},
        types={node: name for names in every for node, name in names.types.items()},
        parts={node: name for names in every for node, name in names.parts.items()},
        declared={key: function for names in every for key, function in names.declared.items()},
    )


def is_updating(function: ast.FunctionDecl) -> bool:
    """Return whether a function was declared updating, by keyword or by annotation."""
    return function.updating or is_annotated(function, "updating")


def is_annotated(declaration: ast.FunctionDecl | ast.VarDecl, word: str) -> bool:
    """Return whether a declaration bears one of XQuery's own annotations: `%updating`, `%private`."""
    for annotation in declaration.annotations:
        name = annotation.name
        if name.local == word and not name.prefix and name.uri in (None, XQUERY):
            return True
    return False
