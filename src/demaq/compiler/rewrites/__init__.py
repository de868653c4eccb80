"""The rewrites that improve the plan of a rule, in order. Each is a function from plan to plan, in its own module."""

from collections.abc import Callable

from demaq.compiler.context import CompilerContext
from demaq.compiler.plan import RulePlan
from demaq.compiler.rewrites.decide_first import decide_message_part_first
from demaq.compiler.rewrites.look_up_by_key import Indexes, look_up_by_key
from demaq.compiler.rewrites.never_fire import mark_rules_that_never_fire
from demaq.compiler.rewrites.require_features import require_features

Rewrite = Callable[[RulePlan, CompilerContext, Indexes], RulePlan]

REWRITES: tuple[Rewrite, ...] = (
    mark_rules_that_never_fire,
    look_up_by_key,
    decide_message_part_first,  # after the lookups, which change what needs state
    require_features,
)

__all__ = ["REWRITES", "Indexes"]
