"""The variables and prefixes in scope during a traversal.

Entering a scope is free, and leaving it undoes the bindings made inside, so a pass is linear in the program.
"""

from __future__ import annotations

from demaq.language import ast
from demaq.language.namespaces import PREFIXES

Key = tuple[str, str]
"""Namespace and local name of a variable."""

DEFAULT_ELEMENT = ""
"""The prefix under which the default element namespace is kept."""

_UNBOUND = object()


class Scope:
    def __init__(self) -> None:
        self.variables: dict[Key, ast.Node | None] = {}
        self.prefixes: dict[str, str] = {**PREFIXES, DEFAULT_ELEMENT: ""}
        self._trail: list[tuple[dict[str, str] | dict[Key, ast.Node | None], object, object]] = []

    def enter(self) -> int:
        """Return a mark for `leave`."""
        return len(self._trail)

    def leave(self, mark: int) -> None:
        """Undo the bindings made since the mark."""
        trail = self._trail
        while len(trail) > mark:
            table, key, before = trail.pop()
            if before is _UNBOUND:
                del table[key]  # type: ignore[arg-type]  # the trail keeps each key with the table it came from
            else:
                table[key] = before  # type: ignore[index,assignment]  # likewise

    def bind(self, key: Key, binder: ast.Node | None) -> None:
        self._trail.append((self.variables, key, self.variables.get(key, _UNBOUND)))
        self.variables[key] = binder

    def bind_prefix(self, prefix: str, uri: str) -> None:
        self._trail.append((self.prefixes, prefix, self.prefixes.get(prefix, _UNBOUND)))
        self.prefixes[prefix] = uri
