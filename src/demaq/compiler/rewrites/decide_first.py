"""Decide conditions that depend on the message alone before any state is read.

    if (//order and qs:slice()/paid) then …
becomes
    first   //order
    then    read the slice, decide the whole

The whole condition is evaluated again with the state. A part that fails here counts as undecided, so that an error is
raised only if the author's own order of evaluation may raise it.
"""

from __future__ import annotations

from dataclasses import replace

from demaq.compiler.context import CompilerContext
from demaq.compiler.plan import RulePlan
from demaq.compiler.rewrites.look_up_by_key import Indexes


def decide_message_part_first(plan: RulePlan, context: CompilerContext, indexes: Indexes) -> RulePlan:
    if not plan.needs_state:
        return plan
    return replace(plan, first=tuple([c for c in plan.conditions if not context.reads_state(c)]))
