"""Actions stand at the end of a rule's branches, node updates inside `modify`, and neither is mixed with values.

The rules are those of the XQuery Update Facility (2.4): an expression is updating, or it has a value, or it is vacuous
(`()` and calls of fn:error), which is compatible with both. Demaq adds that messages never change: nodes are only
changed on a copy, and nothing is enqueued while a copy is being changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from demaq.language import ast
from demaq.language.diagnostics import Diagnostic, error
from demaq.language.namespaces import FN, QS
from demaq.language.parsing.control import ELSE_HINT
from demaq.language.program.bodies import ACTIONS, NODE_UPDATES, Body, Effect
from demaq.language.program.draft import Draft
from demaq.language.resolving.names import is_updating
from demaq.source import SourceLocation

_STORED = {(QS, "message"), (QS, "queue"), (QS, "slice"), (FN, "collection")}


class Category(Enum):
    UPDATING = "updating"
    VALUE = "value"
    VACUOUS = "vacuous"


class Mode(Enum):
    """The kind of updating expressions that are allowed."""

    ACTIONS = "actions"
    COPY = "copy"
    COPY_IS_CONTEXT = "copy is context"
    EITHER = "either"


def updating_expressions(draft: Draft) -> Iterator[Diagnostic]:
    for body in draft.bodies:
        checker = _Checker(draft, body)
        checker.check()
        yield from checker.found


class _Checker:
    """One pass over one body."""

    def __init__(self, draft: Draft, body: Body) -> None:
        self.draft = draft
        self.body = body
        self.names = body.names
        self.mode = Mode.ACTIONS
        self.found: list[Diagnostic] = []

    def check(self) -> None:
        match self.body.decl:
            case ast.RuleDecl():
                acts = self.branch(self.body.expr) is Category.UPDATING
                if not acts and not self.found and isinstance(self.body.expr, ast.If):
                    self._error(
                        "DQ0402",
                        f'rule "{self.body.decl.name}" does nothing',
                        self.body.decl.name.at,
                        "a rule ends in actions: do enqueue MESSAGE into QUEUE, or do reset",
                    )
            case ast.FunctionDecl() if is_updating(self.body.decl):
                self.mode = Mode.EITHER
                if self.branch(self.body.expr) is Category.VALUE:
                    self._error(
                        "DQ0404",
                        f"{self.body.decl.name}() is declared updating and returns a value",
                        self.body.decl.name.at,
                        "leave `updating` out",
                    )
            case ast.FunctionDecl():
                self.value(self.body.expr, "the body of a function that is not declared updating")
            case ast.PropertyDecl():
                self.value(self.body.expr, "the value of a property")
            case _:
                self.value(self.body.expr, "the value of a global variable")

    # where updating expressions may stand

    def branch(self, node: ast.Expr) -> Category:
        handler = _BRANCHES.get(type(node))
        if handler is not None:
            return handler(self, node)
        if isinstance(node, NODE_UPDATES):
            return self._node_update(node)
        self.value(node, "")
        return Category.VALUE

    def _sequence(self, node: ast.Sequence) -> Category:
        return self._join(node.items, "a list")

    def _if(self, node: ast.If) -> Category:
        self.value(node.condition, "a condition")
        if node.otherwise is None:
            found = len(self.found)
            category = self._join((node.then,), "an `if`")
            if category is not Category.UPDATING and len(self.found) == found:
                self._report_missing_else(node)
            return category
        return self._join((node.then, node.otherwise), "an `if`")

    def _switch(self, node: ast.Switch) -> Category:
        self.value(node.operand, "the operand of a switch")
        for case in node.cases:
            for item in case.values:
                self.value(item, "a case")
        return self._join((*[case.result for case in node.cases], node.default), "a switch")

    def _typeswitch(self, node: ast.Typeswitch) -> Category:
        self.value(node.operand, "the operand of a typeswitch")
        return self._join((*[case.result for case in node.cases], node.default), "a typeswitch")

    def _join(self, parts: tuple[ast.Expr, ...], what: str) -> Category:
        """Return the category of a list: all parts are updating or vacuous, or all have values or are vacuous."""
        updating = False
        valued: ast.Expr | None = None
        for part in parts:
            category = self.branch(part)
            if category is Category.UPDATING:
                updating = True
            elif category is Category.VALUE and valued is None:
                valued = part
        if updating and valued is not None:
            self._error(
                "DQ0404",
                f"{what} cannot have both actions and a value",
                _start_of(valued),
                "write () where nothing is to be done",
            )
        if updating:
            return Category.UPDATING
        return Category.VALUE if valued is not None else Category.VACUOUS

    def _flwor(self, node: ast.Flwor) -> Category:
        for clause in node.clauses:
            self.value(clause, "a clause before `return`")
        return self.branch(node.result)

    def _copy(self, node: ast.Copy) -> Category:
        self._copy_sources(node)
        return self.branch(node.result)

    def _call(self, node: ast.FunctionCall) -> Category:
        for argument in node.args:
            self.value(argument, "an argument")
        if self._updating_function(node) is not None:
            self._check_call(node)
            return Category.UPDATING
        key = self.names.functions.get(node)
        return Category.VACUOUS if key is not None and key[:2] == (FN, "error") else Category.VALUE

    def _arrow(self, node: ast.Arrow) -> Category:
        self.value(node.operand, "an argument")
        for call in node.calls[:-1]:
            self.value(call, "an argument")
        last = node.calls[-1]
        for argument in last.args:
            self.value(argument, "an argument")
        if self._updating_function(last) is not None:
            self._check_call(last)
            return Category.UPDATING
        if not isinstance(last.function, ast.Name):
            self.value(last.function, "a function")
        return Category.VALUE

    def _action(self, node: ast.Enqueue | ast.Reset) -> Category:
        for child in ast.children(node):
            self.value(child, "what is enqueued" if isinstance(node, ast.Enqueue) else "the key of a reset")
        if self.mode in (Mode.COPY, Mode.COPY_IS_CONTEXT):
            self._error(
                "DQ0413",
                f"`{_words(node)}` may not stand inside `modify`",
                _start_of(node),
                "change the copy first and enqueue it after `return`",
            )
        return Category.UPDATING

    def _node_update(self, node: ast.Insert | ast.Delete | ast.Replace | ast.Rename) -> Category:
        for child in ast.children(node):
            self.value(child, f"an operand of `{_words(node)}`")
        if self.mode is Mode.ACTIONS:
            self._in_place(node)
        elif self.mode is not Mode.EITHER:
            self._check_target(node.target)
        return Category.UPDATING

    # where they may not

    def value(self, node: ast.Node, where: str) -> None:
        """Require that everything below has a value; updating expressions are reported as misplaced."""
        if isinstance(node, ast.Copy):
            self._copy_sources(node)
            self.value(node.result, where)
            return
        if isinstance(node, ast.TransformWith):
            self._transform_with(node)
            return
        inner = "a function" if isinstance(node, ast.InlineFunction) else where
        if isinstance(node, (*ACTIONS, *NODE_UPDATES)):
            self._report_misplaced(f"`{_words(node)}`", node, where)
        elif node in self.names.functions and self._updating_function(node) is not None:
            self._report_misplaced(f"a call of the updating function {self.names.functions[node][1]}()", node, where)
        elif isinstance(node, ast.TryCatch):
            inner = "try and catch"
        found = len(self.found)
        for child in ast.children(node):
            self.value(child, inner)
        if isinstance(node, ast.If) and node.otherwise is None and len(self.found) == found:
            self._report_missing_else(node)

    def _report_missing_else(self, node: ast.If) -> None:
        """Report a missing else.

        The parser cannot decide it if a function of another module, which may be updating, is called.
        """
        self._error("DQ0101", "this `if` has no `else`", _start_of(node), ELSE_HINT)

    def _report_misplaced(self, what: str, node: ast.Node, where: str) -> None:
        stands = f"in {where}" if where else "here"
        hint = "actions stand after then, else and return"
        if where.startswith("the body of a function"):
            hint = "declare updating function …"
        elif where == "try and catch":
            hint = "errors of an action become messages in an error queue; they cannot be caught"
        elif isinstance(node, NODE_UPDATES):
            hint = "nodes are changed on a copy: copy $c := … modify … return $c"
        self._error("DQ0403", f"{what} may not stand {stands}", _start_of(node), hint)

    # copies

    def _copy_sources(self, node: ast.Copy) -> None:
        for binding in node.bindings:
            self.value(binding.expr, "the source of a copy")
        # in the 2006 draft as in the Facility, `.` is unchanged inside of a copy
        inside = Mode.COPY_IS_CONTEXT if self.mode is Mode.COPY_IS_CONTEXT else Mode.COPY
        self._modify(node.modify, inside)

    def _transform_with(self, node: ast.TransformWith) -> None:
        self.value(node.operand, "the source of a copy")
        if node.modify is not None:
            self._modify(node.modify, Mode.COPY_IS_CONTEXT)

    def _modify(self, node: ast.Expr, mode: Mode) -> None:
        before, self.mode = self.mode, mode
        if self.branch(node) is Category.VALUE:
            self._error(
                "DQ0414",
                "`modify` changes nothing here: this has a value and is no update",
                _start_of(node),
                "insert node, delete node, replace node, rename node, or ()",
            )
        self.mode = before

    def _check_target(self, target: ast.Expr) -> None:
        """Report an update inside `modify` whose target is a stored message."""
        stored = self._stored_root(target)
        if stored is not None:
            self._error(
                "DQ0412",
                f"`{stored}` is a stored message, which never changes",
                target.at,
                "aim at the variable of the copy",
            )

    def _stored_root(self, node: ast.Expr) -> str | None:
        """Return the root of an expression that is certainly no copy; variables are followed."""
        seen: set[ast.Node] = set()
        while node not in seen:
            seen.add(node)
            match node:
                case ast.Path():
                    if node.separators[0]:
                        return None if self.mode is Mode.COPY_IS_CONTEXT else "/"
                    node = node.steps[0]
                case ast.Postfix():
                    node = node.base
                case ast.ContextItem() | ast.Root() | ast.AxisStep():
                    if self.mode is Mode.COPY_IS_CONTEXT:
                        return None
                    return "/" if isinstance(node, ast.Root) else "."
                case ast.FunctionCall():
                    key = self.names.functions.get(node)
                    return f"{node.name}()" if key is not None and key[:2] in _STORED else None
                case ast.VarRef():
                    binder = self.names.variables.get(node)
                    if not isinstance(binder, (ast.LetBinding, ast.ForBinding)):
                        return None
                    node = binder.expr
                case _:
                    return None
        return None

    # functions

    def _updating_function(self, node: ast.Node) -> ast.FunctionDecl | None:
        key = self.names.functions.get(node)
        declared = self.names.declared.get(key) if key is not None else None
        return declared if declared is not None and is_updating(declared) else None

    def _check_call(self, node: ast.Node) -> None:
        declared = self._updating_function(node)
        assert declared is not None, "only asked for calls of updating functions"
        effects = self.draft.effects.get(declared, Effect.NONE)
        if self.mode is Mode.ACTIONS and effects & Effect.NODE_UPDATE:
            self._in_place(node)
        elif self.mode in (Mode.COPY, Mode.COPY_IS_CONTEXT) and effects & Effect.ACTION:
            self._error(
                "DQ0413",
                f"{declared.name}() has actions and may not be called inside `modify`",
                _start_of(node),
                "change the copy first and enqueue it after `return`",
            )

    def _in_place(self, node: ast.Node) -> None:
        self._error(
            "DQ0409",
            "messages never change: nodes are only changed on a copy",
            _start_of(node),
            "copy $c := qs:message() modify … return do enqueue $c into …",
        )

    def _error(self, code: str, message: str, at: SourceLocation, hint: str | None = None) -> None:
        self.found.append(error(code, message, at, hint))


def _words(node: ast.Node) -> str:
    """Return the first words of an update, as written."""
    match node:
        case ast.Enqueue():
            return "do enqueue"
        case ast.Reset():
            return "do reset"
        case ast.Replace(value_of=True):
            return "replace value of"
    return type(node).__name__.lower()


def _start_of(node: ast.Node) -> SourceLocation:
    """Return the location of a node, cut at the end of its first line."""
    at = node.at
    end_of_line = at.source.text.find("\n", at.start, at.end)
    return at if end_of_line < 0 else SourceLocation(at.source, at.start, end_of_line)


_BRANCHES: dict[type[ast.Node], Callable[[_Checker, Any], Category]] = {
    ast.Sequence: _Checker._sequence,
    ast.If: _Checker._if,
    ast.Switch: _Checker._switch,
    ast.Typeswitch: _Checker._typeswitch,
    ast.Flwor: _Checker._flwor,
    ast.Copy: _Checker._copy,
    ast.FunctionCall: _Checker._call,
    ast.Arrow: _Checker._arrow,
    ast.Enqueue: _Checker._action,
    ast.Reset: _Checker._action,
}
