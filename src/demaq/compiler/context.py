"""What the compiler knows about a module beyond its tree: resolved names, and what its functions read and do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from demaq.language import ast
from demaq.language.namespaces import FN, QS
from demaq.language.program.program import ModuleContext
from demaq.language.resolving.names import FunctionKey, Names, merge_names

READING = {(QS, "queue"), (QS, "slice"), (FN, "collection")}
"""Functions that read state."""

CLOCK = {(FN, "current-dateTime"), (FN, "current-date"), (FN, "current-time"), (FN, "implicit-timezone")}
AMBIENT = READING | CLOCK | {(QS, "message"), (QS, "property"), (QS, "slicekey")}
"""Functions that depend on the message being processed."""

Action: TypeAlias = ast.Enqueue | ast.Reset
AmbientCall: TypeAlias = tuple[str, str, str | None]
"""Namespace and name of a function of AMBIENT, and the part that the call names (see `literal_part`)."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CompilerContext:
    """One module, its names merged with those of its libraries, and the effects of the functions it can call.

    Made once for a plan, and never changed.
    """

    number: int
    module: ModuleContext
    names: Names
    plain_strings: bool
    """Whether strings are compared by code points: the prolog sets no default collation."""
    _ambient_calls: Mapping[FunctionKey, frozenset[AmbientCall]]
    _actions: Mapping[FunctionKey, tuple[Action, ...]]

    def is_ambient(self, key: FunctionKey) -> bool:
        """Return whether a declared function depends on the message, directly or through functions it calls."""
        return bool(self.ambient_calls(key) or self.actions(key))

    def actions(self, key: FunctionKey) -> tuple[Action, ...]:
        """Return the actions a call of a declared function may perform, directly or through functions it calls."""
        return self._actions.get(key, ())

    def ambient_calls(self, key: FunctionKey) -> frozenset[AmbientCall]:
        """Return the calls of functions of AMBIENT that a declared function makes, directly or through others."""
        return self._ambient_calls.get(key, frozenset())

    def reads_state(self, node: ast.Node) -> bool:
        """Return whether an expression reads queues, slices or collections, directly or through functions."""
        for below in ast.walk(node):
            known = self.names.functions.get(below)
            if known is None:
                continue
            if known[:2] in READING:
                return True
            if any([(uri, local) in READING for uri, local, _ in self.ambient_calls(known)]):
                return True
        return False

    def literal_part(self, node: ast.Node) -> str | None:
        """Return the part that a call names by a literal; None if the name is computed, "" if there is no argument."""
        return _literal_part(node, self.names)


def make_contexts(modules: tuple[ModuleContext, ...]) -> tuple[CompilerContext, ...]:
    return tuple([_make_context(number, module) for number, module in enumerate(modules)])


def _make_context(number: int, module: ModuleContext) -> CompilerContext:
    names = merge_names(module.names, module.library_names)
    ambient_calls, actions = _find_effects(names)
    collations = [d for d in module.tree.prolog if isinstance(d, ast.Setter) and d.kind == "default collation"]
    return CompilerContext(
        number=number,
        module=module,
        names=names,
        plain_strings=not collations,
        _ambient_calls=ambient_calls,
        _actions=actions,
    )


def _find_effects(
    names: Names,
) -> tuple[Mapping[FunctionKey, frozenset[AmbientCall]], Mapping[FunctionKey, tuple[Action, ...]]]:
    """Return ambient calls and actions of every declared function: its own, and those of its callees (a fixpoint)."""
    ambient: dict[FunctionKey, set[AmbientCall]] = {}
    callees: dict[FunctionKey, set[FunctionKey]] = {}
    actions: dict[FunctionKey, dict[Action, None]] = {}
    for key, function in names.declared.items():
        ambient[key], callees[key], actions[key] = set(), set(), {}
        if function.body is None:
            continue
        for node in ast.walk(function.body):
            if isinstance(node, (ast.Enqueue, ast.Reset)):
                actions[key][node] = None
            known = names.functions.get(node)
            if known is None:
                continue
            if known[:2] in AMBIENT:
                ambient[key].add((known[0], known[1], _literal_part(node, names)))
            elif known in names.declared:
                callees[key].add(known)
    callers: dict[FunctionKey, set[FunctionKey]] = {key: set() for key in ambient}
    for key, called in callees.items():
        for callee in called:
            callers[callee].add(key)
    pending = [key for key, calls in ambient.items() if calls or actions[key]]
    while pending:
        key = pending.pop()
        for caller in callers[key]:
            if not (ambient[key] <= ambient[caller] and actions[key].keys() <= actions[caller].keys()):
                ambient[caller] |= ambient[key]
                actions[caller].update(actions[key])
                pending.append(caller)
    return (
        {key: frozenset(calls) for key, calls in ambient.items()},
        {key: tuple(found) for key, found in actions.items()},
    )


def _literal_part(node: ast.Node, names: Names) -> str | None:
    args: tuple[ast.Expr, ...] = ()
    if isinstance(node, ast.FunctionCall):
        args = node.args
    elif isinstance(node, (ast.ArrowCall, ast.NamedFunctionRef)):
        return None
    if not args:
        return ""
    return names.parts.get(args[0]) if isinstance(args[0], ast.StringLiteral) else None
