"""Plan a program: analyse every rule, rewrite its plan, and merge the rules of each queue."""

from __future__ import annotations

from collections import Counter

from demaq.compiler.analysis import analyse
from demaq.compiler.context import make_contexts
from demaq.compiler.plan import Feature, Plan, QueuePlan, Requirement, RulePlan
from demaq.compiler.rewrites import REWRITES, Indexes
from demaq.language.program.program import Program
from demaq.language.recursion import deep_recursion

FILTER_FROM_RULES = 8
"""From how many rules on a queue has a filter.

Evaluating a rule that does not fire costs about as much as testing one feature, so below this number all rules are
evaluated.
"""


_COST = {"root": 1, "element": 2, "attribute": 3}


def make_plan(program: Program) -> Plan:
    modules = make_contexts(program.modules)
    indexes = Indexes()
    rules: dict[str, RulePlan] = {}
    with deep_recursion():
        for rule in program.rules:
            context = modules[rule.module]
            plan = analyse(rule, context)
            for rewrite in REWRITES:
                plan = rewrite(plan, context, indexes)
            rules[rule.name] = plan
    queues = _merge(program, rules)
    return Plan(program=program, modules=modules, queues=queues, rules=rules, indexes=tuple(indexes.known.values()))


def _merge(program: Program, rules: dict[str, RulePlan]) -> dict[str, QueuePlan]:
    """Return one plan per queue: its own rules in declaration order, then those of the slicings on its messages."""
    by_target: dict[str, list[RulePlan]] = {}
    for plan in rules.values():
        if plan.never is None:
            by_target.setdefault(plan.rule.target, []).append(plan)
    slicings: dict[str, list[str]] = {}
    for slicing in program.slicings.values():
        for queue in program.properties[slicing.property].values:
            slicings.setdefault(queue, []).append(slicing.name)
    found: dict[str, QueuePlan] = {}
    for queue in program.queues:
        merged = list(by_target.get(queue, []))
        for name in slicings.get(queue, []):
            merged.extend(by_target.get(name, []))
        found[queue] = _plan_queue(queue, merged)
    return found


def _plan_queue(queue: str, rules: list[RulePlan]) -> QueuePlan:
    if len(rules) < FILTER_FROM_RULES:
        return QueuePlan(queue=queue, rules=tuple(rules), always=tuple(range(len(rules))), picks={})
    frequency: Counter[Feature] = Counter()
    for plan in rules:
        for feature in {feature for requirement in plan.requires for feature in requirement}:
            frequency[feature] += 1
    always: list[int] = []
    picks: dict[Feature, list[int]] = {}
    for position, plan in enumerate(rules):
        if not plan.requires:
            always.append(position)
            continue
        for feature in sorted(_choose_rarest(plan.requires, frequency), key=str):
            picks.setdefault(feature, []).append(position)
    merged = {feature: tuple(positions) for feature, positions in picks.items()}
    return QueuePlan(queue=queue, rules=tuple(rules), always=tuple(always), picks=merged)


def _choose_rarest(requirements: tuple[Requirement, ...], frequency: Counter[Feature]) -> Requirement:
    """Return the requirement that the fewest other rules share; among equals, the most selective one."""

    def cost(requirement: Requirement) -> tuple[int, int, list[str]]:
        shared = sum([frequency[feature] for feature in requirement])
        costs = [0 if feature.value else _COST[feature.kind] for feature in requirement]
        return shared, max(costs), sorted([str(feature) for feature in requirement])

    return min(requirements, key=cost)
