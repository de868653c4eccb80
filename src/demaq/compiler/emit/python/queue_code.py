"""Emit the native rules of a queue as Python, and a filter for each other one, which decides whether to ask Saxon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from demaq.compiler.emit.python.code import NotTranslatable
from demaq.compiler.emit.python.filter_code import emit_filter
from demaq.compiler.emit.python.reasons import Reason, describe_reason
from demaq.compiler.emit.python.rule_code import RuleText, emit_index, emit_property, emit_rule
from demaq.compiler.loop_nesting import is_linear
from demaq.compiler.plan import Plan, RulePlan
from demaq.language import ast
from demaq.language.program.program import Property
from demaq.system_properties import UNSUITABLE_TARGETS


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
    timer_targets: frozenset[str] | None
    """For an echo queue: the queues that its messages may go to."""
    is_linear: bool
    """Whether the time is linear in the size of the message, so that no time limit is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaxonRuleText:
    """A rule that is left to Saxon."""

    reason: Reason
    filter: str | None
    """A function that returns whether the rule may fire on a message; None if nothing is decided natively."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueText:
    rules: tuple[tuple[RulePlan, RuleText | SaxonRuleText], ...]
    intakes: Mapping[str, IntakeText]
    """For each queue that native rules enqueue into."""


class NativeEmitter:
    """Emits the rules and properties of one plan, each once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rules: dict[str, RuleText | SaxonRuleText] = {}
        self._intakes: dict[str, IntakeText | Reason] = {}

    def emit_queue(self, name: str) -> QueueText:
        rules = [(plan, self.emit_rule(plan)) for plan in self._plan.queues[name].rules]
        intakes: dict[str, IntakeText] = {}
        for plan, text in rules:
            for write in plan.enqueues if isinstance(text, RuleText) else ():
                intake = self.emit_intake(write.queue)
                assert isinstance(intake, IntakeText), "a rule is native only if its messages are"
                intakes[write.queue] = intake
        return QueueText(rules=tuple(rules), intakes=intakes)

    def emit_rule(self, plan: RulePlan) -> RuleText | SaxonRuleText:
        """Return a rule as Python; if it is not native, the reason and a filter."""
        name = plan.rule.name
        if name not in self._rules:
            self._rules[name] = self._emit_rule(plan)
        return self._rules[name]

    def _emit_rule(self, plan: RulePlan) -> RuleText | SaxonRuleText:
        context = self._plan.modules[plan.rule.module]
        try:
            text = emit_rule(plan, self._plan.program, context)
        except (NotTranslatable, RecursionError) as error:
            reason = describe_reason(error, default=plan.rule.decl.at)
            return SaxonRuleText(reason=reason, filter=emit_filter(plan, self._plan.program, context))
        for write in plan.enqueues:
            intake = self.emit_intake(write.queue)
            if isinstance(intake, Reason):
                return SaxonRuleText(reason=intake, filter=emit_filter(plan, self._plan.program, context))
        return text

    def emit_intake(self, queue: str) -> IntakeText | Reason:
        """Return how messages of a queue get properties and index entries; the reason if that is not native."""
        if queue not in self._intakes:
            try:
                self._intakes[queue] = emit_intake(queue, self._plan)
            except NotTranslatable as error:
                self._intakes[queue] = describe_reason(error)
        return self._intakes[queue]


def emit_intake(queue: str, plan: Plan) -> IntakeText:
    """Return properties and index entries of a queue as Python.

    Raises NotTranslatable if an expression is not native.
    """
    declared = [prop for prop in plan.program.properties_of(queue) if prop.decl is not None]
    properties: list[PropertyText] = []
    for prop in declared:
        assert prop.module is not None, "declared properties have a module"
        value = prop.values[queue]
        try:
            computed = emit_property(prop, value, plan.modules[prop.module])
        except (NotTranslatable, RecursionError) as error:
            raise _name_part(error, f"property {prop.name} of queue {queue}", value or prop.decl) from None
        properties.append(PropertyText(property=prop, computed=computed))
    entries: list[tuple[int, str]] = []
    for index in plan.indexes_of(queue):
        try:
            entries.append((index.number, emit_index(index, plan.modules[index.module])))
        except (NotTranslatable, RecursionError) as error:
            raise _name_part(error, f"the index over {index.path} of queue {queue}", index.expr) from None
    return IntakeText(
        properties=tuple(properties),
        indexes=tuple(entries),
        timer_targets=_find_timer_targets(plan) if plan.program.queues[queue].kind == "echo" else None,
        is_linear=all([is_linear(expr, plan.modules[module].names) for expr, module in _find_expressions(queue, plan)]),
    )


def _find_expressions(queue: str, plan: Plan) -> list[tuple[ast.Expr, int]]:
    """Return the expressions of properties and indexes of a queue, each with its module."""
    values = [(prop.values.get(queue), prop.module) for prop in plan.program.properties_of(queue)]
    found = [(value, module) for value, module in values if value is not None and module is not None]
    return found + [(index.expr, index.module) for index in plan.indexes_of(queue)]


def _find_timer_targets(plan: Plan) -> frozenset[str]:
    return frozenset([queue.name for queue in plan.program.queues.values() if queue.kind not in UNSUITABLE_TARGETS])


def why_not_native(plan: RulePlan, emitter: NativeEmitter) -> Reason | None:
    """Return why a rule is left to Saxon; None if it is native."""
    text = emitter.emit_rule(plan)
    return text.reason if isinstance(text, SaxonRuleText) else None


def _name_part(error: NotTranslatable | RecursionError, part: str, node: ast.Node | None) -> NotTranslatable:
    """Return the error with the name of what the expression is for; `node` is the whole expression."""
    reason = describe_reason(error)
    inner = error.node if isinstance(error, NotTranslatable) else None
    return NotTranslatable(f"{reason.text} in {part}", reason.code, inner or node, reason.hint)
