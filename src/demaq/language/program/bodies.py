"""The expressions of an application, each with its calls and effects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Flag, auto
from pathlib import Path
from typing import Literal, TypeAlias

from demaq.language import ast
from demaq.language.namespaces import FN, QS
from demaq.language.resolving.names import FunctionKey, Names

Role: TypeAlias = Literal["rule", "property", "function", "variable"]

NODE_UPDATES = (ast.Insert, ast.Delete, ast.Replace, ast.Rename)
ACTIONS = (ast.Enqueue, ast.Reset)


class Effect(Flag):
    """What evaluating an expression reads, and what it does."""

    NONE = 0
    MESSAGE = auto()
    STATE = auto()
    SLICE = auto()
    ACTION = auto()
    NODE_UPDATE = auto()


_EFFECT_OF_CALL = {
    (QS, "message"): Effect.MESSAGE,
    (QS, "property"): Effect.MESSAGE,
    (QS, "queue"): Effect.STATE,
    (FN, "collection"): Effect.STATE,
    (QS, "slice"): Effect.SLICE,
    (QS, "slicekey"): Effect.SLICE,
}


@dataclass(slots=True, eq=False)
class Library:
    """One library module and its names."""

    tree: ast.Query
    names: Names


@dataclass(slots=True, eq=False)
class DraftModule:
    tree: ast.Module
    names: Names
    number: int
    libraries: tuple[Library, ...]
    """Dependencies first."""

    @property
    def folder(self) -> Path:
        return Path(self.tree.at.file).parent

    def part(self, name: ast.Name | None) -> str | None:
        """Return the canonical name of a part; None if its prefix is unknown."""
        return None if name is None else self.names.parts.get(name)

    def error_queues(self) -> Iterator[ast.Name]:
        """Yield the error queues that the module, its queues and its rules name."""
        named = [item for item in self.tree.statements if isinstance(item, (ast.QueueDecl, ast.RuleDecl))]
        for item in (self.tree, *named):
            if item.errorqueue is not None:
                yield item.errorqueue

    def reply_queues(self) -> Iterator[ast.Name]:
        for statement in self.tree.statements:
            if isinstance(statement, ast.QueueDecl) and statement.replyto is not None:
                yield statement.replyto


@dataclass(slots=True, eq=False)
class Call:
    """A call of a function by name, or a reference to it."""

    node: ast.Node
    key: FunctionKey
    args: tuple[ast.Expr, ...] | None
    """None if the function is only referenced: `qs:queue#1`."""

    @property
    def literal(self) -> ast.StringLiteral | None:
        """Return the first argument if it is a literal."""
        first = self.args[0] if self.args else None
        return first if isinstance(first, ast.StringLiteral) else None

    @property
    def effect(self) -> Effect:
        return _EFFECT_OF_CALL.get(self.key[:2], Effect.NONE)


@dataclass(slots=True, eq=False)
class Body:
    """One expression of the application: a rule's body, a property's value, a function's body, a variable's value."""

    role: Role
    expr: ast.Expr
    names: Names
    decl: ast.RuleDecl | ast.PropertyDecl | ast.FunctionDecl | ast.VarDecl
    rule: DraftRule | None = None
    calls: list[Call] = field(default_factory=list)
    enqueues: list[ast.Enqueue] = field(default_factory=list)
    resets: list[ast.Reset] = field(default_factory=list)
    effects: Effect = Effect.NONE
    """Its own effects, without those of the functions it calls."""

    def calls_of(self, uri: str, local: str) -> Iterator[Call]:
        for call in self.calls:
            if call.key[0] == uri and call.key[1] == local:
                yield call


@dataclass(slots=True, eq=False)
class DraftRule:
    name: str
    module: DraftModule
    decl: ast.RuleDecl
    target: str | None
    on_slicing: bool
    body: Body


_UPDATES = frozenset({*ACTIONS, *NODE_UPDATES})


def read_body(body: Body) -> None:
    """Collect the calls and effects of an expression. Without recursion: depth does not matter."""
    functions = body.names.functions
    stack: list[tuple[ast.Node, bool]] = [(body.expr, False)]
    while stack:
        node, on_copy = stack.pop()
        if type(node) in _UPDATES:
            _note_update(node, on_copy, body)
        key = functions.get(node)
        if key is not None:
            call = Call(node, key, _arguments(node))
            body.calls.append(call)
            body.effects |= call.effect
        children = ast.children(node)
        if not children:
            continue
        modified = _find_modification(node)
        below = [(child, on_copy or child is modified) for child in children]
        if isinstance(node, ast.Arrow) and isinstance(node.calls[0].function, ast.Name):
            _note_arrow(node, body)
            below = [entry for entry in below if entry[0] is not node.calls[0]]
            below += [(argument, on_copy) for argument in node.calls[0].args]
        below.reverse()
        stack.extend(below)


def _note_update(node: ast.Node, on_copy: bool, body: Body) -> None:
    if isinstance(node, ast.Enqueue):
        body.enqueues.append(node)
    elif isinstance(node, ast.Reset):
        body.resets.append(node)
    if isinstance(node, ACTIONS):
        body.effects |= Effect.ACTION
    elif not on_copy:
        body.effects |= Effect.NODE_UPDATE


def find_effects(bodies: list[Body]) -> dict[ast.FunctionDecl, Effect]:
    """Return the effects of each declared function, including those of the functions it calls."""
    callers: dict[ast.FunctionDecl, list[ast.FunctionDecl]] = {}
    effects: dict[ast.FunctionDecl, Effect] = {}
    for body in bodies:
        if not isinstance(body.decl, ast.FunctionDecl):
            continue
        effects[body.decl] = body.effects
        for called in find_called_functions(body):
            callers.setdefault(called, []).append(body.decl)
    waiting = list(effects)
    while waiting:
        called = waiting.pop()
        for caller in callers.get(called, ()):
            joined = effects[caller] | effects[called]
            if joined != effects[caller]:
                effects[caller] = joined
                waiting.append(caller)
    return effects


def find_called_functions(body: Body) -> Iterator[ast.FunctionDecl]:
    for call in body.calls:
        declared = body.names.declared.get(call.key)
        if declared is not None:
            yield declared


def _arguments(node: ast.Node) -> tuple[ast.Expr, ...] | None:
    return node.args if isinstance(node, ast.FunctionCall) else None


def _note_arrow(node: ast.Arrow, body: Body) -> None:
    """Record `"crm" => qs:queue()` as `qs:queue("crm")`."""
    first = node.calls[0]
    key = body.names.functions.get(first)
    if key is not None:
        call = Call(first, key, (node.operand, *first.args))
        body.calls.append(call)
        body.effects |= call.effect


def _find_modification(node: ast.Node) -> ast.Node | None:
    """Return the operand that changes a copy."""
    return node.modify if isinstance(node, (ast.Copy, ast.TransformWith)) else None
