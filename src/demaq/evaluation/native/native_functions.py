"""What translated expressions can call, and how their text becomes a function."""

from __future__ import annotations

import ast
from collections.abc import Callable
from decimal import Decimal
from types import FunctionType, ModuleType
from typing import Any

from lxml.etree import Comment

from demaq.compiler.emit.python.code import NotTranslatable
from demaq.evaluation.native import (
    aggregates,
    arithmetic,
    atomic_values,
    casts,
    comparisons,
    date_arithmetic,
    dates,
    items,
    markup,
    nodes,
    number_texts,
    operations,
    pictures,
    property_values,
    regexes,
    sequence_functions,
    strings,
    tuples,
    values,
)
from demaq.evaluation.native.constant_calls import fold_constant_calls
from demaq.evaluation.native.known_conditions import drop_known_conditions
from demaq.evaluation.native.repeated_bindings import merge_bindings
from demaq.evaluation.native.shared_values import share_values

CHARACTERS_MAX = 50_000
"""Compiling a longer text would take longer than it saves."""


def _functions_of(module: ModuleType) -> dict[str, Any]:
    return {
        name: known
        for name, known in vars(module).items()
        if isinstance(known, FunctionType) and known.__module__ == module.__name__ and name[0] != "_"
    }


_MODULES = (
    *(values, nodes, markup, tuples, aggregates, arithmetic, atomic_values, casts, comparisons, date_arithmetic),
    *(dates, items, number_texts, operations, pictures, property_values, regexes, sequence_functions, strings),
)
CALLED: dict[str, Any] = {
    **{name: known for module in _MODULES for name, known in _functions_of(module).items()},
    "decimal_add": arithmetic.decimal_add,
    "decimal_subtract": arithmetic.decimal_subtract,
    "decimal_multiply": arithmetic.decimal_multiply,
    "children": nodes.children,
    "self_and_below": nodes.self_and_below,
    "AnyUri": atomic_values.AnyUri,
    "Comment": Comment,
    "Decimal": Decimal,
    "global_tree": markup.global_tree,
    "MadeNode": items.MadeNode,
    "TextNode": items.TextNode,
    "Untyped": atomic_values.Untyped,
}
"""What translated expressions can call, by name."""


def load_function(text: str, name: str) -> Callable[..., Any]:
    """Return the function of a translated text; the name is for profiles. Raises NotTranslatable."""
    if len(text) > CHARACTERS_MAX:
        raise NotTranslatable("expressions that are too long", "native.nesting")
    made: dict[str, Any] = {}
    try:
        code, constants = rewrite(text)
        exec(compile(code, f"<{name}>", "exec"), {**CALLED, **constants}, made)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise NotTranslatable("expressions that are nested too deeply", "native.nesting") from error
    found: Callable[..., Any] = made["function"]
    return found


def rewrite(text: str) -> tuple[ast.Module, dict[str, Any]]:
    """Return a function that does the same with less work, and the values of its constants."""
    tree = ast.parse(text)
    [function] = tree.body
    assert isinstance(function, ast.FunctionDef), "a translated text is a function"
    constants = fold_constant_calls(tree, CALLED)
    try:
        merge_bindings(function)
        drop_known_conditions(function)
        share_values(function)
    except RecursionError:  # deep, but perhaps not too deep for Python itself
        tree = ast.parse(text)
        constants = fold_constant_calls(tree, CALLED)
    return ast.fix_missing_locations(tree), constants
