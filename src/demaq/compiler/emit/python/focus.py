"""The context that an expression is translated in: context item and variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from demaq.compiler.emit.python.code import NotTranslatable, PythonCode
from demaq.language import ast


@dataclass(frozen=True, slots=True)
class FocusAndVariables:
    context: PythonCode | None
    position: PythonCode | None = None
    last: PythonCode | None = None
    variables: Mapping[ast.Node, PythonCode] = field(default_factory=dict)
    """The values of variables, by the node that binds them."""

    def item(self) -> PythonCode:
        if self.context is None:
            raise NotTranslatable("a context item where there is none")
        return self.context

    def with_focus(
        self, context: PythonCode, position: PythonCode | None = None, last: PythonCode | None = None
    ) -> FocusAndVariables:
        return replace(self, context=context, position=position, last=last)

    def bind(self, binder: ast.Node, code: PythonCode) -> FocusAndVariables:
        return replace(self, variables={**self.variables, binder: code})
