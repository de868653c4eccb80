"""Warn of rules that trigger each other for ever.

Only certain cycles are reported: every rule on the cycle fires for the very message that the rule before it constructs,
because its condition is true() or requires nothing but an element that this message certainly has. Timers break a
cycle: an echo queue is the way to wait on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from demaq.language import ast
from demaq.language.analysis.components import find_strong_components
from demaq.language.analysis.conditions import BranchCondition, find_branch_events
from demaq.language.analysis.requirements import Requirement, infer_requirement
from demaq.language.analysis.shapes import ElementName, infer_shape, is_own_message, resolve_let
from demaq.language.diagnostics import Diagnostic, warning
from demaq.language.namespaces import FN
from demaq.language.program.bodies import DraftRule, Effect
from demaq.language.program.draft import Draft
from demaq.language.resolving.names import Names

Hub = tuple[str, str, ElementName | None]
"""A node of the graph: a queue, and what is required of the message there (`always`, `root` or `any`)."""


@dataclass(slots=True, eq=False)
class _Step:
    """An enqueue that certainly happens for every message at its hub."""

    rule: DraftRule
    enqueue: ast.Enqueue
    at: Hub
    leads_to: list[Hub]


def endless_cycles(draft: Draft) -> Iterator[Diagnostic]:
    steps: list[_Step] = []
    for rule in draft.rules:
        if rule.on_slicing or rule.target not in draft.queues or rule.target is None:
            continue
        steps += _steps(rule, rule.target)
        yield from _find_self_forwarding(rule, rule.target)
    for step in _select_cycles(steps):
        queue = step.leads_to[0][0]
        yield warning(
            "DQ1503",
            f'rule "{step.rule.name}" feeds queue "{queue}", and what follows leads back here without end',
            step.enqueue.queue.at,
            "give one of the rules on the way a condition that fails in the end",
        )


def _steps(rule: DraftRule, queue: str) -> Iterator[_Step]:
    names = rule.module.names
    needs: dict[BranchCondition, Hub | None] = {}
    for event in find_branch_events(rule.decl.body):
        if event.kind == "enter":
            around = needs.get(event.scope.parent) if event.scope.parent in needs else (queue, "always", None)
            needs[event.scope] = _narrow(around, event.scope, names) if around is not None else None
        elif event.kind == "action" and isinstance(event.node, ast.Enqueue) and event.scope.once:
            hub = needs.get(event.scope) if event.scope.parent is not None else (queue, "always", None)
            target = names.parts.get(event.node.queue)
            if hub is not None and target is not None:
                yield _Step(rule, event.node, hub, _find_hubs(event.node, target, names))


def _narrow(around: Hub, scope: BranchCondition, names: Names) -> Hub | None:
    """Return what a message must have to enter a scope; None if that is uncertain."""
    condition = scope.condition
    if condition is None or scope.holds is None:
        return None
    if isinstance(condition, ast.FunctionCall):
        key = names.functions.get(condition)
        if key == (FN, "true" if scope.holds else "false", 0):
            return around
    required = _only_requirement(condition, names) if scope.holds else None
    if required is None:
        return None
    hub = (around[0], "root" if required.is_root else "any", required.name)
    return hub if around[1] == "always" or around == hub else None


def _only_requirement(condition: ast.Expr, names: Names) -> Requirement | None:
    """Return the element whose presence is all that a condition requires."""
    condition = resolve_let(condition, names)
    if isinstance(condition, ast.FunctionCall) and names.functions.get(condition) == (FN, "exists", 1):
        condition = resolve_let(condition.args[0], names)
    required = infer_requirement(condition, names)
    return required if required is not None and required.is_all else None


def _find_hubs(enqueue: ast.Enqueue, target: str, names: Names) -> list[Hub]:
    shape = infer_shape(enqueue.message, names)
    hubs: list[Hub] = [(target, "always", None)]
    if shape.root is not None:
        hubs.append((target, "root", shape.root))
    return hubs + [(target, "any", name) for name in sorted(shape.surely)]


def _find_self_forwarding(rule: DraftRule, queue: str) -> Iterator[Diagnostic]:
    """Yield `do enqueue qs:message()` into its own queue: the condition held once, so it holds again."""
    names = rule.module.names
    looks_elsewhere = rule.body.effects & (Effect.STATE | Effect.SLICE) or [
        call for call in rule.body.calls if call.key in names.declared or call.key[1].startswith("current-")
    ]
    if looks_elsewhere or [call for call in rule.body.calls if call.key[1] == "property"]:
        return
    for event in find_branch_events(rule.decl.body):
        if event.kind != "action" or not isinstance(event.node, ast.Enqueue) or event.node.properties:
            continue
        if names.parts.get(event.node.queue) == queue and is_own_message(event.node.message, names):
            yield warning(
                "DQ1503",
                f'rule "{rule.name}" puts its own message back into queue "{queue}" without end',
                event.node.queue.at,
                "an echo queue waits before it gives a message back",
            )


def _select_cycles(steps: list[_Step]) -> list[_Step]:
    """Return the steps on a cycle: they lead to a hub from which their own hub can be reached."""
    offered = {step.at for step in steps}
    onward: dict[Hub, list[Hub]] = {hub: [] for hub in offered}
    for step in steps:
        onward[step.at] += [hub for hub in step.leads_to if hub in offered]
    component = find_strong_components(onward)
    return [step for step in steps if component[step.at] in [component.get(hub) for hub in step.leads_to]]
