"""Skip rules whose condition is false for every message.

if (false()) then …        never evaluated
"""

from __future__ import annotations

from dataclasses import replace

from demaq.compiler.context import CompilerContext
from demaq.compiler.plan import RulePlan
from demaq.compiler.rewrites.look_up_by_key import Indexes
from demaq.compiler.trees import is_call_of


def mark_rules_that_never_fire(plan: RulePlan, context: CompilerContext, indexes: Indexes) -> RulePlan:
    for condition in plan.conditions:
        if is_call_of(condition, context.names, "false", arity=0):
            return replace(plan, never="its condition is false()", reads=())
    return plan
