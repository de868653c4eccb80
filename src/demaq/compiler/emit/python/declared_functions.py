"""Emit calls of declared functions and references to global variables: their expressions, with arguments bound.

Functions that call themselves are left to Saxon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from demaq.compiler.emit.python.code import NO_VALUES, NotTranslatable, PythonCode, Type, map_values, new_name
from demaq.compiler.emit.python.focus import FocusAndVariables
from demaq.compiler.emit.python.paths import is_navigated, to_tree
from demaq.compiler.emit.python.sequence_types import SequenceTypes
from demaq.language import ast
from demaq.language.resolving.names import FunctionKey, Names

Translate = Callable[[ast.Expr, FocusAndVariables], PythonCode]


class DeclaredFunctions:
    def __init__(self, names: Names, libraries: Sequence[ast.Query], translate: Translate) -> None:
        self._names = names
        self._libraries = libraries
        self._translate = translate
        self._types = SequenceTypes(names)
        self._open: list[ast.Node] = []
        """Functions and variables that are being translated."""

    def call(self, key: FunctionKey, args: Sequence[PythonCode]) -> PythonCode:
        function = self._names.declared[key]
        if function.external or function.body is None:
            raise NotTranslatable("a function without a body", "native.function")
        self._refuse_settings(function)
        clauses: list[str] = []
        scope = FocusAndVariables(None)
        for param, arg in zip(function.params, args, strict=True):
            if arg.type is Type.DONE:
                raise NotTranslatable("the value of an action")
            given = arg if param.type is None else self._types.convert(arg, param.type)
            if given.type is Type.MADE and given.is_optional and is_navigated(param, function.body, self._names):
                given = to_tree(given)
            name = new_name()
            clauses.append(f"for {name} in ({given.text},)")
            known = replace(given, item=name, clauses="", is_iterator=False, is_fitted=False)
            scope = scope.bind(param, known)
        found = self._inside(function, function.body, scope)
        if function.returns is not None and found.type is not Type.DONE:
            found = self._types.convert(found, function.returns)
        return _bind(found, " ".join(clauses))

    def variable(self, declared: ast.VarDecl) -> PythonCode:
        """Return the value of a global variable."""
        if declared.external or declared.value is None:
            raise NotTranslatable("a variable whose value comes from elsewhere", "native.variable")
        self._refuse_settings(declared)
        found = self._inside(declared, declared.value, FocusAndVariables(None))
        if declared.type is not None:
            found = self._types.expect(found, declared.type)
        if found.type is not Type.MADE or not found.is_optional:
            return found
        key = str(declared.name)
        return replace(map_values(found, f"global_tree({key!r}, {{}})", Type.ELEMENT), is_single=found.is_single)

    def _inside(self, declared: ast.Node, expr: ast.Expr, scope: FocusAndVariables) -> PythonCode:
        if declared in self._open:
            raise NotTranslatable("a function that calls itself", "native.function")
        self._open.append(declared)
        try:
            return self._translate(expr, scope)
        finally:
            self._open.pop()

    def _refuse_settings(self, declared: ast.FunctionDecl | ast.VarDecl) -> None:
        """Raises NotTranslatable for what a library declares whose prolog changes what its expressions mean."""
        for library in self._libraries:
            if declared in library.prolog:
                for item in library.prolog:
                    if isinstance(item, ast.Setter) or (
                        isinstance(item, ast.DefaultNamespaceDecl) and item.kind == "element"
                    ):
                        raise NotTranslatable("a library with settings in its prolog", "native.setting")


def _bind(found: PythonCode, clauses: str) -> PythonCode:
    """Return a value in which variables are bound."""
    if not clauses or found.type is Type.EMPTY:  # the arguments of functions that return nothing are not evaluated
        return found
    if found.type in NO_VALUES:
        return PythonCode(f"[{found.text} {clauses}]", found.type)
    return replace(found, item=f"[{found.text} {clauses}][0]", clauses="", is_iterator=False)
