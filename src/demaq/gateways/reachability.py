"""Which incoming gateways an application may answer: those from which messages can lead to a gateway that answers."""

from __future__ import annotations

from demaq.compiler.plan import Plan


def answering(plan: Plan, answers: set[str]) -> set[str]:
    """The queues from which rules, timers and answers of others lead to one of these gateways."""
    leads_to: dict[str, set[str]] = {}
    everywhere = set(plan.program.queues)
    for name, queue in plan.queues.items():
        leads_to[name] = {write.queue for rule in queue.rules for write in rule.enqueues}
    for name, declared in plan.program.queues.items():
        if declared.kind == "echo":
            leads_to[name] = everywhere  # its target may be computed
        if declared.gateway is not None and declared.gateway.replyto is not None:
            leads_to[name].add(declared.gateway.replyto)
        leads_to[name].update(_error_queues(plan, name))
    found: set[str] = set(answers)
    grown = True
    while grown:
        more = {name for name, targets in leads_to.items() if name not in found and not targets.isdisjoint(found)}
        grown = bool(more)
        found |= more
    return found - answers


def _error_queues(plan: Plan, queue: str) -> set[str]:
    """Where errors about messages of a queue may go."""
    program = plan.program
    rules = [planned.rule for planned in plan.queues[queue].rules]
    modules = [program.queues[queue].module, *[rule.module for rule in rules]]
    named = [program.queues[queue].errorqueue, *[rule.errorqueue for rule in rules]]
    named += [program.modules[number].errorqueue for number in modules if number is not None]
    return {name for name in named if name is not None}
