"""Record what a message must have for a rule to be a candidate, so that most rules are not evaluated at all.

if (/order[@type = "rush"]) then …      needs the root order, an attribute type with the value rush
"""

from __future__ import annotations

from dataclasses import replace

from demaq.compiler.context import CompilerContext
from demaq.compiler.features import drop_implied, infer_requirements
from demaq.compiler.plan import Requirement, RulePlan
from demaq.compiler.rewrites.look_up_by_key import Indexes

REQUIREMENTS_MAX = 40
"""More requirements select no better, and removing the implied ones is quadratic."""


def require_features(plan: RulePlan, context: CompilerContext, indexes: Indexes) -> RulePlan:
    found: list[Requirement] = []
    for condition in plan.conditions:
        found.extend(infer_requirements(condition, context.names, context.plain_strings))
    return replace(plan, requires=tuple(drop_implied(found[:REQUIREMENTS_MAX])))
