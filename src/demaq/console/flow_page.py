"""The flow: the graph of the application with what waits, how fast and what fails, live, and the same as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from demaq.console.visits import Answer, Data, NotThere, Rendered, Visit, link_to
from demaq.operations.flow_graph import FlowNode, make_flow_graph
from demaq.operations.flow_svg import FlowAnnotation, draw_flow
from demaq.operations.pause import list_pauses


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """A queue as the table shows it."""

    queue: str
    kind: str
    messages: int
    waiting: int
    """How many wait to be processed, sent or taken."""
    per_second: float | None
    is_error_queue: bool
    is_paused: bool
    reason: str | None
    """Why it is paused."""


KINDS = {
    "basic": "queue",
    "mailbox": "mailbox",
    "incomingGateway": "incoming gateway",
    "outgoingGateway": "outgoing gateway",
    "echo": "echo queue",
}


def list_queue_lines(visit: Visit) -> list[QueueLine]:
    """Return all queues of the application, and those that still hold messages of an earlier one."""
    counts, sendings = visit.store.counts(), visit.store.sendings()
    known = visit.application
    program = known.program if known is not None else None
    pauses = {(pause.kind, pause.name): pause for pause in visit.store.pauses()}
    rates = find_queue_rates(visit)
    names = list(dict.fromkeys([*(program.queues if program is not None else []), *sorted(counts)]))
    lines: list[QueueLine] = []
    for name in names:
        queue = program.queues.get(name) if program is not None else None
        visible, unprocessed = counts.get(name, (0, 0))
        pause = pauses.get(("queue", name)) or pauses.get(("gateway", name))
        is_outgoing = queue is not None and queue.kind == "outgoingGateway"
        lines.append(
            QueueLine(
                queue=name,
                kind=KINDS.get(queue.declared_kind, "queue") if queue is not None else "of an earlier application",
                messages=visible,
                waiting=sendings[name][0] if is_outgoing and name in sendings else 0 if is_outgoing else unprocessed,
                per_second=rates.get(name),
                is_error_queue=known is not None and name in known.error_queues,
                is_paused=pause is not None,
                reason=None if pause is None else f"paused by {pause.who}: {pause.why}",
            )
        )
    return lines


def find_queue_rates(visit: Visit) -> dict[str, float]:
    """Return how many messages per second queues take or send, or their rules are asked about."""
    monitor = visit.monitor
    found = {**monitor.rates("demaq_messages_accepted", "gateway"), **monitor.rates("demaq_deliveries", "queue")}
    asked = monitor.rates("demaq_rule_asked", "rule")
    if visit.application is not None:
        for name, queue in visit.application.plan.queues.items():
            known = [asked[plan.rule.name] for plan in queue.rules if plan.rule.name in asked]
            if known:
                found[name] = max([found.get(name, 0.0), *known])
    return found


def show_flow(visit: Visit) -> Answer:
    text, known = visit.text("filter"), visit.application
    lines = list_queue_lines(visit)
    shown = [line for line in lines if text is None or text.lower() in line.queue.lower()]
    if visit.flag("busy"):
        shown = [line for line in shown if line.messages or line.is_paused]
    processed = known.processed_queues if known is not None else None
    pauses = list_pauses(visit.store, known.plan if known is not None else None)
    return Rendered(
        template="flow.html",
        values={
            "picture": draw(visit, lines),
            "lines": shown,
            "hidden": len(lines) - len(shown),
            "text": text or "",
            "is_busy": visit.flag("busy"),
            "pauses": pauses,
            "totals": {
                "messages": sum([line.messages for line in lines]),
                "waiting": sum([line.waiting for line in lines if processed is None or line.queue in processed]),
                "errors": sum([line.messages for line in lines if line.is_error_queue]),
                "paused": len(pauses),
            },
            "rate": visit.monitor.rates("demaq_messages_processed").get(""),
        },
    )


def draw(visit: Visit, lines: list[QueueLine]) -> Markup | None:
    """Return the picture of the flow; None if there is no application yet."""
    known = visit.application
    if known is None:
        return None
    fired = visit.monitor.rates("demaq_rule_fired", "rule")
    failed = visit.monitor.read().by_label("demaq_rule_failed", "rule")
    paused_rules = {pause.name for pause in visit.store.pauses() if pause.kind == "rule"}
    annotations = {
        f"queue:{line.queue}": FlowAnnotation(
            waiting=line.waiting,
            per_second=line.per_second,
            errors=line.messages if line.is_error_queue else None,
            is_paused=line.is_paused,
        )
        for line in lines
    }
    annotations |= {
        f"rule:{name}": FlowAnnotation(
            per_second=fired.get(name), errors=int(failed.get(name, 0)), is_paused=name in paused_rules
        )
        for name in known.plan.rules
        if name in fired or name in paused_rules or failed.get(name)
    }
    graph = make_flow_graph(known.plan)
    drawn = draw_flow(
        graph, title="Flow of the application", annotations=annotations, link=link_node, is_standalone=False
    )
    return Markup(drawn)  # its texts are escaped where it is drawn


def link_node(node: FlowNode) -> str | None:
    if node.kind == "rule":
        return link_to("plans", rule=node.name)
    if node.kind == "slicing":
        return link_to("slices", slicing=node.name)
    return link_to("errors", queue=node.name) if node.is_error_queue else link_to("messages", queue=node.name)


def read_queues(visit: Visit) -> Answer:
    return Data(list_queue_lines(visit))


def read_graph(visit: Visit) -> Answer:
    if visit.application is None:
        raise NotThere("no application ran on this store yet")
    found: dict[str, Any] = make_flow_graph(visit.application.plan).as_json()
    return Data(found)


def read_status(visit: Visit) -> Answer:
    state = visit.monitor.read()
    return Data({"running": state.status is not None, "problem": state.problem, "status": state.status})
