"""Emit choices: `if`, `switch` and `typeswitch`, as conditions with what is evaluated where they hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from demaq.compiler.emit.python.code import (
    ATOMIC_TYPES,
    EMPTY,
    STRINGS,
    NotTranslatable,
    PythonCode,
    Type,
    atomize,
    new_name,
    require_at_most_one,
    tag_atomic,
    to_condition,
)
from demaq.compiler.emit.python.combined_values import choose
from demaq.compiler.emit.python.focus import FocusAndVariables
from demaq.compiler.emit.python.sequence_types import SequenceTypes
from demaq.language import ast
from demaq.language.resolving.names import Names

Translate = Callable[[ast.Expr, FocusAndVariables], PythonCode]


@dataclass(frozen=True, slots=True)
class Branch:
    condition: str
    expr: ast.Expr | None
    """None stands for nothing."""
    scope: FocusAndVariables


@dataclass(frozen=True, slots=True)
class Choice:
    """Branches, of which the first one is evaluated whose condition holds; that of the last one always does."""

    before: str
    """The clause of a comprehension that binds what is chosen by; empty if there is none."""
    branches: tuple[Branch, ...]

    def bind(self, text: str) -> str:
        """Return a Python expression in which that is bound."""
        return f"[{text} {self.before}][0]" if self.before else text

    def fold(self, codes: Sequence[PythonCode]) -> PythonCode:
        """Return the value of the choice, given those of its branches."""
        found = codes[-1]
        for branch, code in zip(self.branches[-2::-1], codes[-2::-1], strict=True):
            found = choose(branch.condition, code, found)
        return replace(found, item=self.bind(found.text), clauses="", is_iterator=False) if self.before else found


class ChoiceEmitter:
    def __init__(self, names: Names, translate: Translate) -> None:
        self._names = names
        self._translate = translate
        self._types = SequenceTypes(names)

    def code(self, node: ast.If | ast.Switch | ast.Typeswitch, scope: FocusAndVariables) -> PythonCode:
        """Return the value of a choice."""
        choice = self.divide(node, scope)
        codes = [EMPTY if each.expr is None else self._translate(each.expr, each.scope) for each in choice.branches]
        kinds = {code.type for code in codes}
        if Type.DONE in kinds or kinds == {Type.ERROR, Type.EMPTY}:
            if not kinds <= {Type.DONE, Type.EMPTY, Type.ERROR}:
                raise NotTranslatable("a choice between an action and a value")
            text = codes[-1].text
            for branch, code in zip(choice.branches[-2::-1], codes[-2::-1], strict=True):
                text = f"({code.text} if {branch.condition} else {text})"
            return PythonCode(choice.bind(text), Type.DONE)
        return choice.fold(codes)

    def divide(self, node: ast.If | ast.Switch | ast.Typeswitch, scope: FocusAndVariables) -> Choice:
        """Return the branches of a choice."""
        match node:
            case ast.If():
                condition = to_condition(self._translate(node.condition, scope.stand_alone()))
                return Choice("", (Branch(condition, node.then, scope), Branch("True", node.otherwise, scope)))
            case ast.Switch():
                return self._divide_switch(node, scope)
        return self._divide_typeswitch(node, scope)

    def _divide_switch(self, node: ast.Switch, scope: FocusAndVariables) -> Choice:
        operand = require_at_most_one(atomize(self._translate(node.operand, scope.stand_alone())))
        name = new_name()
        branches: list[Branch] = []
        for case in node.cases:
            values = [self._translate(value, scope.stand_alone()) for value in case.values]
            tests = [self._match(name, operand.type, require_at_most_one(atomize(value))) for value in values]
            branches.append(Branch(f"({' or '.join(tests)})", case.result, scope))
        branches.append(Branch("True", node.default, scope))
        return Choice(f"for {name} in ({operand.text},)", tuple(branches))

    def _match(self, name: str, type_: Type, value: PythonCode) -> str:
        if value.type is Type.EMPTY:
            return f"not {name}"
        if type_ in STRINGS and value.type in STRINGS:
            return f"{name} == {value.text}"
        if type_ not in ATOMIC_TYPES or value.type not in ATOMIC_TYPES:
            raise NotTranslatable(f"a choice by {type_.value} and {value.type.value}")
        operand = tag_atomic(PythonCode(name, type_, is_list=True, is_single=True))
        return f"is_case({operand.text}, {tag_atomic(value).text})"

    def _divide_typeswitch(self, node: ast.Typeswitch, scope: FocusAndVariables) -> Choice:
        operand = self._translate(node.operand, scope.stand_alone())
        if operand.type is Type.DONE:
            raise NotTranslatable("the type of an action")
        name = new_name()
        known = replace(operand, item=name, clauses="", is_iterator=False, is_fitted=False)
        branches: list[Branch] = []
        for case in node.cases:
            tests = [self._types.test(known, type_) for type_ in case.types]
            branches.append(Branch(f"({' or '.join(tests)})", case.result, scope.bind(case, known)))
        branches.append(Branch("True", node.default, scope.bind(node, known)))
        return Choice(f"for {name} in ({operand.text},)", tuple(branches))
