"""The context that an expression is translated in: context item and variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from demaq.compiler.emit.python.code import NotTranslatable, PythonCode
from demaq.language import ast

MESSAGE = "m"
"""The variable of the message's root element."""


@dataclass(frozen=True, slots=True)
class FocusAndVariables:
    context: PythonCode | None
    position: PythonCode | None = None
    last: PythonCode | None = None
    variables: Mapping[ast.Node, PythonCode] = field(default_factory=dict)
    """The values of variables, by the node that binds them."""
    declared: Mapping[str, str] = field(default_factory=dict)
    """The namespaces that the constructors around the expression declare, by prefix; the default has the prefix ""."""
    inherited: Mapping[str, str] | None = None
    """The namespaces of the element that the value is put into, by prefix; None if it is put nowhere, or not yet."""

    def item(self) -> PythonCode:
        if self.context is None:
            raise NotTranslatable("a context item where there is none")
        return self.context

    def stand_alone(self) -> FocusAndVariables:
        """Return the same for an expression whose value is not put into an element directly."""
        return self if self.inherited is None else replace(self, inherited=None)

    def with_focus(
        self, context: PythonCode, position: PythonCode | None = None, last: PythonCode | None = None
    ) -> FocusAndVariables:
        return replace(self, context=context, position=position, last=last)

    def bind(self, binder: ast.Node, code: PythonCode) -> FocusAndVariables:
        return replace(self, variables={**self.variables, binder: code})
