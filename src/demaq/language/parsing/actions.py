"""Parse updating expressions: those of the Update Facility, its 2006 draft's `do …`, and Demaq's enqueue and reset."""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

from demaq.language import ast
from demaq.language.parsing.grammar import Grammar
from demaq.language.parsing.habits import NOT_COMPUTED_HINT
from demaq.language.parsing.scanner import BRACED, NAME, STRING

InsertPosition: TypeAlias = Literal["into", "as first into", "as last into", "before", "after"]

_DO_WORDS = ("enqueue", "reset", "insert", "delete", "replace", "rename")


_AFTER_RESET = ("else", "case", "default")
"""Words that can follow a bare reset; no slicing can have such a name in `do reset NAME key …`."""


_BEGINS_EXPRESSION = ("$", "(", "{", "/", "//", ".", "@", "[")
_AFTER_QUEUE = (*_AFTER_RESET, "with", "create", "return")


class Actions(Grammar):
    def begins_update(self) -> bool:
        """Return whether the current word begins an updating expression: `insert node`, `do enqueue`, `copy $c` …"""
        following = self.peek()
        match self.value:
            case "insert" | "delete":
                return following in ("node", "nodes")
            case "replace":
                return following == "node" or (following == "value" and self.peek(2) == "of")
            case "rename":
                return following == "node"
            case "copy":
                return following == "$"
            case "transform":
                return following == "copy" and self.peek(2) == "$"
            case "do":
                return following in _DO_WORDS
        return False

    def update(self) -> ast.Expr:
        start, draft = self.start, self.value == "do"
        if draft:
            self.advance()
        word = self.value
        if word in ("copy", "transform"):
            return self._copy(start)
        self.advance()
        if word == "enqueue":
            found: ast.Expr = self._enqueue(start)
            self.actions_seen += 1
        elif word == "reset":
            found = self._reset(start)
            self.actions_seen += 1
        elif word == "insert":
            found = self._insert(start, draft)
        elif word == "delete":
            if not draft:
                self.one_of("node", "nodes")
            target = self.expr_single()
            found = ast.Delete(self.since(start), target, draft)
        elif word == "replace":
            found = self._replace(start, draft)
        else:
            found = self._rename(start, draft)
        self.updates_seen += 1
        return found

    def _insert(self, start: int, draft: bool) -> ast.Insert:
        if not draft:
            self.one_of("node", "nodes")
        source = self.expr_single()
        where: InsertPosition
        if self.accept("as"):
            where = cast(InsertPosition, f"as {self.one_of('first', 'last')} into")
            self.expect("into")
        else:
            where = cast(InsertPosition, self.one_of("into", "before", "after"))
        target = self.expr_single()
        return ast.Insert(self.since(start), source, where, target, draft)

    def _replace(self, start: int, draft: bool) -> ast.Replace:
        value_of = self.value == "value" and self.peek() == "of"
        if value_of:
            self.expect_words("value", "of")
        if not draft:
            self.expect("node")
        target = self.expr_single()
        self.expect("with")
        replacement = self.expr_single()
        return ast.Replace(self.since(start), value_of, target, replacement, draft)

    def _rename(self, start: int, draft: bool) -> ast.Rename:
        if not draft:
            self.expect("node")
        target = self.expr_single()
        self.expect("as")
        name = self.expr_single()
        return ast.Rename(self.since(start), target, name, draft)

    def _copy(self, start: int) -> ast.Copy:
        draft = self.accept("transform")
        self.advance()
        bindings = self.several(self._copy_binding)
        self.expect("modify")
        updates, actions = self.updates_seen, self.actions_seen
        modify = self.expr_single()
        self.updates_seen, self.actions_seen = updates, actions  # an expression that changes a copy is not updating
        self.expect("return", hint="several updates stand in parentheses: modify (A, B)" if self.value == "," else None)
        result = self.branch("return", start)
        return ast.Copy(self.since(start), bindings, modify, result, draft)

    def _copy_binding(self) -> ast.CopyBinding:
        start = self.start
        name = self.variable_name()
        self.expect(":=")
        expr = self.expr_single()
        return ast.CopyBinding(self.since(start), name, expr)

    def _enqueue(self, start: int) -> ast.Enqueue:
        message = self.expr_single()
        if self.value != "into" and isinstance(message, ast.OperatorChain) and message.operators == ("to",):
            at = self.text.find("to", message.operands[0].at.end)
            self.fail_at("expected `into`, found `to`", at, at + 2, hint="do enqueue MESSAGE into QUEUE")
        self.expect("into", hint="do enqueue MESSAGE into QUEUE")
        self._refuse_computed_name()
        queue = self.name("a queue's name")
        properties: list[ast.With] = []
        while self.value == "with":
            with_start = self.start
            self.advance()
            name = self.name("a property's name")
            self.expect("value", hint="with PROPERTY value EXPRESSION")
            value = self.expr_single()
            properties.append(ast.With(self.since(with_start), name, value))
        return ast.Enqueue(self.since(start), message, queue, tuple(properties))

    def _refuse_computed_name(self) -> None:
        """Refuse an expression as the queue: its name must be known before a message arrives."""
        if self.kind is STRING:
            self.fail("the name of a queue stands without quotes", hint=f"into {self.value[1:-1]}")
        kind, following, _ = self.peek_token()
        if self.value == "queue" and kind is NAME and following not in _AFTER_QUEUE:
            self.fail(f"expected a queue's name, found `queue {following}`", hint=f"into {following}")
        if self.value in _BEGINS_EXPRESSION or following == "(":
            self.fail("the name of a queue cannot be computed", hint=NOT_COMPUTED_HINT)

    def _reset(self, start: int) -> ast.Reset:
        if (self.kind is NAME or self.kind is BRACED) and self.value not in _AFTER_RESET and self.peek() == "key":
            slicing = self.name()
            self.expect("key")
            key = self.expr_single()
            return ast.Reset(self.since(start), slicing, key)
        return ast.Reset(self.since(start), None, None)
