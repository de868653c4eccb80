"""What an expression stands in: the context item and variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from demaq.compiler.simple.code import Code, NotSimple
from demaq.language import ast


@dataclass(frozen=True, slots=True)
class Scope:
    context: Code | None
    position: Code | None = None
    last: Code | None = None
    variables: Mapping[ast.Node, Code] = field(default_factory=dict)
    """By the node that binds them."""

    def item(self) -> Code:
        if self.context is None:
            raise NotSimple("a context item where there is none")
        return self.context

    def within(self, context: Code, position: Code | None = None, last: Code | None = None) -> Scope:
        return replace(self, context=context, position=position, last=last)

    def binding(self, binder: ast.Node, code: Code) -> Scope:
        return replace(self, variables={**self.variables, binder: code})
