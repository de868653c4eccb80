"""Which queues answer which gateways, as `check` and `explain` say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from demaq.compiler.plan import Plan


def answers_of(plan: Plan) -> Mapping[str, Sequence[str]]:
    """Return the queues that answer the senders of each incoming gateway over HTTP."""
    if not [queue for queue in plan.program.queues.values() if queue.kind == "incomingGateway"]:
        return {}  # most have none: nothing of SOAP is imported for them
    from demaq.gateways.answer_queues import find_answer_queues

    return find_answer_queues(plan).by_gateway


def describe_answers(gateway: str, queues: Sequence[str]) -> str:
    if queues:
        return f"{gateway} is answered from {' and '.join(queues)}"
    return f"{gateway} is not answered: senders get 202 when their messages are stored"
