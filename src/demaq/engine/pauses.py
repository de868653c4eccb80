"""What operators have paused, and what follows from that for an application.

Messages of a paused queue wait; so do those of every queue to which a paused rule pertains. A rule is never skipped: a
message is processed by all of its rules in one step, so a message that one of them may not see yet waits. The result is
that of a serial execution in which these messages come later. In a paused echo queue timers do not fire. What goes into
a paused queue is stored.

A paused incoming gateway takes no messages, and a paused outgoing gateway sends none; neither keeps rules from
anything. An outgoing gateway also sends nothing while its queue is paused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from demaq.compiler.plan import Plan
from demaq.store.operator_records import Pause, PausedPart


class Pauses:
    """What is paused in one application. It is replaced as a whole when that changes."""

    def __init__(self, plan: Plan, pauses: Sequence[Pause] = ()) -> None:
        self.by_part: Mapping[PausedPart, Pause] = {pause.part: pause for pause in pauses}
        names = {kind: frozenset([p.name for p in pauses if p.kind == kind]) for kind in ("queue", "rule", "gateway")}
        self.queues = names["queue"] | find_queues_of_rules(plan, names["rule"])
        """Queues whose messages wait."""
        self.gateways = names["gateway"] | names["queue"]
        """Gateways that send nothing, if they are outgoing ones."""

    def __bool__(self) -> bool:
        return bool(self.by_part)

    def find_gateway(self, name: str) -> Pause | None:
        """Return the pause of an incoming gateway, if it is paused."""
        return self.by_part.get(("gateway", name)) if self.by_part else None


def find_queues_of_rules(plan: Plan, rules: frozenset[str]) -> frozenset[str]:
    """Return the queues to which one of these rules pertains."""
    if not rules:
        return frozenset()
    rules_of = {queue: {each.rule.name for each in known.rules} for queue, known in plan.queues.items()}
    return frozenset([queue for queue, names in rules_of.items() if not rules.isdisjoint(names)])
