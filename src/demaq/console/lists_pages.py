"""Deliveries and sequences, timers, plans, rounds, the audit trail, and help."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from demaq.compiler.explain import explain_json
from demaq.console.message_page import mask_attempts
from demaq.console.page_templates import SECTIONS
from demaq.console.visits import Answer, BadRequest, Data, NotThere, Rendered, Visit
from demaq.gateways.answer_queues import find_answer_queues
from demaq.gateways.reliability.sequence_description import describe_sequence
from demaq.language.gateway_policies import describe_gateway_policies
from demaq.operations.audit import list_audit
from demaq.operations.pause import list_pauses
from demaq.store.protocol import StoredMessage

PLACES = (("inline", "worker processes"), ("spark", "Spark"))
"""Where rounds are evaluated, with what the page calls it."""
TIMER_PAGES_MAX = 20
"""So many pages of timers are looked through for one page of those that are asked for."""
RESULTS = {"sent": "sent", "again": "failed, tried again", "failed": "failed, given up"}


def show_deliveries(visit: Visit) -> Answer:
    queue, limit = visit.text("queue"), visit.limit()
    message, result = visit.number("message"), visit.choice("result", tuple(RESULTS))
    attempts = mask_attempts(visit.store.attempts(queue, message, 4 * limit if result else limit))
    waiting = visit.store.unsent(queue, message, limit)
    program = visit.application.program if visit.application is not None else None
    outgoing = [q.name for q in program.queues.values() if q.kind == "outgoingGateway"] if program is not None else []
    shown = [attempt for attempt in attempts if result is None or attempt.result == result][:limit]
    return Rendered(
        template="deliveries.html",
        values={
            "attempts": shown,
            "waiting": waiting,
            "totals": visit.store.sendings(),
            "sequences": list_sequences(visit, queue, message),
            "queues": outgoing,
            "queue": queue,
            "message": message,
            "result": result,
            "results": RESULTS,
            "more": visit.address(limit=2 * limit) if len(attempts) >= limit or len(waiting) >= limit else None,
            "pauses": {pause.name for pause in visit.store.pauses() if pause.kind == "gateway"},
        },
    )


def list_sequences(visit: Visit, queue: str | None, message: int | None = None) -> list[dict[str, Any]]:
    """Return sequences; with `message`, those in which it is numbered and not acknowledged."""
    found: list[dict[str, Any]] = []
    for each in visit.store.sequences(None, queue):
        numbered = visit.store.sequence_messages(each.direction, each.name)
        if message is None or any([one.message == message for one in numbered]):
            found.append({**describe_sequence(each, numbered), "changed_at": each.changed})
        if len(found) == visit.limit():
            break
    return found


def read_deliveries(visit: Visit) -> Answer:
    queue, message, limit = visit.text("queue"), visit.number("message"), visit.limit()
    return Data(
        {
            "attempts": mask_attempts(visit.store.attempts(queue, message, limit)),
            "waiting": visit.store.unsent(queue, message, limit),
        }
    )


def read_sequences(visit: Visit) -> Answer:
    return Data(list_sequences(visit, visit.text("queue"), visit.number("message")))


def show_timers(visit: Visit) -> Answer:
    found, more = _find_timers(visit)
    program = visit.application.program if visit.application is not None else None
    return Rendered(
        template="timers.html",
        values={
            "timers": found,
            "more": visit.address(after=more) if more is not None else None,
            "queues": [q.name for q in program.queues.values() if q.kind == "echo"] if program is not None else [],
            "queue": visit.text("queue"),
            "target": visit.text("target"),
        },
    )


def read_timers(visit: Visit) -> Answer:
    found, more = _find_timers(visit)
    timers = [
        {"id": str(m.seq), "queue": m.queue, "due": m.timer.due, "target": m.timer.target, "created": m.created}
        for m in found
        if m.timer is not None
    ]
    return Data({"timers": timers, "next": more})


def _find_timers(visit: Visit) -> tuple[list[StoredMessage], int | None]:
    """Return timers, and the last one that was looked at if there are more."""
    after, limit = visit.number("after"), visit.limit()
    begin: tuple[datetime, int] | None = None
    if after is not None:
        message = visit.store.message(after)
        if message is None or message.timer is None:
            raise BadRequest(f"{after} is no timer, or it has come back: begin without it")
        begin = message.timer.due, after
    queue, target = visit.text("queue"), visit.text("target")
    shown: list[StoredMessage] = []
    for _ in range(TIMER_PAGES_MAX):
        found = visit.store.timers(begin, limit)
        for message in found:
            assert message.timer is not None, "a timer"
            if queue in (None, message.queue) and target in (None, message.timer.target):
                shown.append(message)
            begin = message.timer.due, message.seq
            if len(shown) == limit:
                break
        if len(shown) == limit or len(found) < limit:
            break
    is_more = begin is not None and bool(visit.store.timers(begin, 1))
    return shown, begin[1] if begin is not None and is_more else None


def show_plans(visit: Visit) -> Answer:
    plan = find_plan(visit)
    known = visit.application
    assert known is not None, "there is a plan"
    text = (visit.text("filter") or "").lower()
    rule, queue = visit.text("rule"), visit.text("queue")
    if rule is not None and rule not in known.plan.rules:
        raise NotThere(f"there is no rule {rule}")
    rules = [each for each in plan["rules"] if rule in (None, each["rule"]) and text in each["rule"].lower()]
    if queue is not None:
        about = {each.rule.name for each in known.plan.queues[queue].rules} if queue in known.plan.queues else set()
        rules = [each for each in rules if each["rule"] in about]
    paused = {pause.name for pause in visit.store.pauses() if pause.kind == "rule"}
    only_saxon = visit.flag("saxon")
    if only_saxon:
        rules = [each for each in rules if each["leftToSaxon"] is not None]
    state = visit.monitor.read()
    figures = {
        name: {key: state.value(f"demaq_rule_{key}", rule=name) for key in ("asked", "fired", "failed")}
        for name in known.plan.rules
    }
    return Rendered(
        template="plans.html",
        values={
            "plan": plan,
            "rules": rules,
            "indexes": [
                each for each in plan["indexes"] if queue in (None, each["queue"]) and text in each["path"].lower()
            ],
            "warnings": known.warnings,
            "name_file": known.program.file_name,
            "error_queues": known.error_queues,
            "paused": paused,
            "figures": figures,
            "text": visit.text("filter") or "",
            "rule": rule,
            "queue": queue,
            "only_saxon": only_saxon,
            "version": known.number,
            "withdrawn": (state.status or {}).get("native", {}).get("withdrawn", {}),
            "namespaces": (state.status or {}).get("namespaces", []),
        },
    )


def find_plan(visit: Visit) -> dict[str, Any]:
    known = visit.application
    if known is None:
        raise NotThere("no application ran on this store yet")
    answers = find_answer_queues(known.plan).by_gateway
    return explain_json(known.plan, answers=answers, policies=describe_gateway_policies(known.program))


def read_plan(visit: Visit) -> Answer:
    return Data(find_plan(visit))


def show_rounds(visit: Visit) -> Answer:
    state = visit.monitor.read()
    status, text, limit = state.status, (visit.text("filter") or "").lower(), visit.limit()

    def is_asked_for(*names: str) -> bool:
        return any([text in name.lower() for name in names])

    seconds = state.by_label("demaq_rule_seconds", "rule")
    rules = sorted([(rule, spent) for rule, spent in seconds.items() if is_asked_for(rule)], key=lambda item: -item[1])
    return Rendered(
        template="rounds.html",
        values={
            "status": status,
            "state": state,
            "text": visit.text("filter") or "",
            "places": [(where, name) for where, name in PLACES if is_asked_for(name)],
            "executors": [
                each for each in (status or {}).get("executors") or [] if is_asked_for(str(each["id"]), each["host"])
            ],
            "rates": {
                "processed": visit.monitor.rates("demaq_messages_processed").get(""),
                "rounds": visit.monitor.rates("demaq_rounds", "where"),
            },
            "rule_seconds": rules[:limit],
            "seconds_max": max(seconds.values(), default=0.0),
            "more": visit.address(limit=2 * limit) if len(rules) > limit else None,
            "rule_asked": state.by_label("demaq_rule_asked", "rule"),
            "requests": {
                gateway: (
                    state.value("demaq_request_seconds_sum", gateway=gateway) or 0.0,
                    state.value("demaq_request_seconds_count", gateway=gateway) or 0.0,
                )
                for gateway in state.by_label("demaq_request_seconds_count", "gateway")
                if is_asked_for(gateway)
            },
            "deliveries": {
                queue: (
                    state.value("demaq_delivery_seconds_sum", queue=queue) or 0.0,
                    state.value("demaq_delivery_seconds_count", queue=queue) or 0.0,
                )
                for queue in state.by_label("demaq_delivery_seconds_count", "queue")
                if is_asked_for(queue)
            },
        },
    )


def read_metrics(visit: Visit) -> Answer:
    state = visit.monitor.read()
    found = [{"name": name, "labels": dict(labels), "value": value} for (name, labels), value in state.samples.items()]
    return Data(found)


def show_audit(visit: Visit) -> Answer:
    action, who = visit.text("action"), visit.text("who")
    page = list_audit(
        visit.store,
        before=visit.number("before"),
        limit=visit.limit(),
        actions=frozenset() if action is None else frozenset([action]),
        who=who,
    )
    plan = visit.application.plan if visit.application is not None else None
    return Rendered(
        template="audit.html",
        values={
            "page": page,
            "pauses": [
                each for each in list_pauses(visit.store, plan) if who in (None, each.who) and action in (None, "pause")
            ],
            "action": action,
            "who": who or "",
            "more": None if page.next_before is None else visit.address(before=page.next_before),
        },
    )


def read_audit(visit: Visit) -> Answer:
    action = visit.text("action")
    actions = frozenset() if action is None else frozenset([action])
    return Data(
        list_audit(
            visit.store, before=visit.number("before"), limit=visit.limit(), actions=actions, who=visit.text("who")
        )
    )


def read_pauses(visit: Visit) -> Answer:
    plan = visit.application.plan if visit.application is not None else None
    return Data(list_pauses(visit.store, plan))


def show_help(visit: Visit) -> Answer:
    return Rendered(template="help.html", values={"keys": SECTIONS})
