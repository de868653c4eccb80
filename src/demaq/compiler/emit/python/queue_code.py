"""Emit all rules of a queue as Python, with the properties and index entries of the messages they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from demaq.compiler.emit.python.code import NotTranslatable
from demaq.compiler.emit.python.rule_code import RuleText, emit_index, emit_property, emit_rule, is_linear
from demaq.compiler.plan import Plan, RulePlan
from demaq.language.program.program import Property


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyText:
    property: Property
    computed: str | None
    """A function that returns its values, if it is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeText:
    """How properties and index entries of new messages of a queue are computed."""

    properties: tuple[PropertyText, ...]
    indexes: tuple[tuple[int, str], ...]
    """By the number of the index: a function that returns the entries of a message."""
    is_linear: bool
    """Whether the time is linear in the size of the message, so that no time limit is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueText:
    rules: tuple[tuple[RulePlan, RuleText], ...]
    intakes: Mapping[str, IntakeText]
    """For each queue that the rules enqueue into."""


def emit_queue(name: str, plan: Plan) -> QueueText:
    """Return the rules of a queue as Python.

    Raises NotTranslatable if a rule or a property of the messages they make is not native.
    """
    queue = plan.queues[name]
    if queue.picks:
        raise NotTranslatable("they are so many that most are never asked")
    rules: list[tuple[RulePlan, RuleText]] = []
    for rule in queue.rules:
        try:
            rules.append((rule, emit_rule(rule, plan.program, plan.modules[rule.rule.module])))
        except (NotTranslatable, RecursionError) as reason:
            raise NotTranslatable(f"in rule {rule.rule.name}, {_describe_reason(reason)}") from None
    targets = dict.fromkeys([write.queue for rule in queue.rules for write in rule.enqueues])
    return QueueText(rules=tuple(rules), intakes={target: emit_intake(target, plan) for target in targets})


def emit_intake(queue: str, plan: Plan) -> IntakeText:
    """Return properties and index entries of a queue as Python.

    Raises NotTranslatable if an expression is not native.
    """
    declared = [prop for prop in plan.program.properties_of(queue) if prop.decl is not None]
    properties: list[PropertyText] = []
    for prop in declared:
        assert prop.module is not None, "declared properties have a module"
        try:
            computed = emit_property(prop, prop.values[queue], plan.modules[prop.module])
        except (NotTranslatable, RecursionError) as reason:
            raise NotTranslatable(f"in property {prop.name}, {_describe_reason(reason)}") from None
        properties.append(PropertyText(property=prop, computed=computed))
    indexes = plan.indexes_of(queue)
    expressions = [*[prop.values[queue] for prop in declared], *[index.expr for index in indexes]]
    return IntakeText(
        properties=tuple(properties),
        indexes=tuple([(index.number, emit_index(index, plan.modules[index.module])) for index in indexes]),
        is_linear=all([is_linear(expr) for expr in expressions if expr is not None]),
    )


def why_not_native(name: str, plan: Plan) -> str | None:
    """Return why the rules of a queue are left to Saxon; None if they are native."""
    try:
        emit_queue(name, plan)
    except NotTranslatable as reason:
        return str(reason)
    return None


def _describe_reason(reason: Exception) -> str:
    return str(reason) if isinstance(reason, NotTranslatable) else "expressions that are nested too deeply"
