"""The names of nodes that emission makes, kept in a table of their own: resolved names never change."""

from __future__ import annotations

from collections.abc import Mapping

from demaq.language import ast
from demaq.language.resolving.names import FunctionKey, Names


class EmittedNames:
    """Resolved names, extended by the functions that nodes made by qualifying and lowering refer to."""

    def __init__(self, resolved: Names) -> None:
        self.resolved = resolved
        self._functions: dict[ast.Node, FunctionKey] = {}

    @property
    def variables(self) -> Mapping[ast.VarRef, ast.Node | None]:
        return self.resolved.variables

    @property
    def parts(self) -> Mapping[ast.Node, str]:
        return self.resolved.parts

    def function(self, node: ast.Node) -> FunctionKey | None:
        """Return the function that a call or reference names, whether the author or emission made the node."""
        return self.resolved.functions.get(node) or self._functions.get(node)

    def set_function(self, made: ast.Node, key: FunctionKey) -> None:
        self._functions[made] = key

    def copy_function(self, node: ast.Node, made: ast.Node) -> None:
        """Let a made node refer to the function that the node it replaces refers to, if any."""
        key = self.function(node)
        if key is not None:
            self._functions[made] = key
