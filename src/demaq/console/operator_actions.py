"""What operators do: pause and resume, purge, redeliver. Each is confirmed, has a reason, and is in the audit trail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from demaq.console.errors_page import read_reason
from demaq.console.search_page import STATES
from demaq.console.selection_form import FIELDS, expect_fields, expect_names, read_selection
from demaq.console.visits import Answer, BadRequest, Data, Redirect, Rendered, Visit, link_to, parse_whole_number
from demaq.control.client import RemoteNode
from demaq.operations.pause import KINDS, expect_part
from demaq.operations.purge import plan_purge, purge
from demaq.operations.search import MessageSelection
from demaq.operations.selection_words import describe_selection
from demaq.server.offline_node import OfflineNode, open_writable
from demaq.server.redelivery import describe_redelivery
from demaq.store.operator_records import PauseKind

REDELIVERED_MAX = 1_000


@contextmanager
def open_acting_node(visit: Visit) -> Iterator[RemoteNode | OfflineNode]:
    """Open the node that runs on the store, or the store itself if none does.

    Nothing that is asked of it here makes an engine: that would be for the worker process.
    """
    with closing(open_writable(visit.place)) as node:
        yield node


def _read_part(visit: Visit) -> tuple[PauseKind, str]:
    kind, name = visit.form.get("kind", ""), visit.form.get("name", "")
    if kind not in KINDS:
        raise BadRequest(f"kind is one of {', '.join(KINDS)}")
    return kind, name


def ask_pause(visit: Visit) -> Answer:
    """Return the page that asks for a reason."""
    kind, name = visit.text("kind") or "queue", visit.text("name") or ""
    if kind not in KINDS:
        raise BadRequest(f"kind is one of {', '.join(KINDS)}")
    if visit.application is not None:
        expect_part(visit.application.program, kind, name)
    paused = [pause for pause in visit.store.pauses() if (pause.kind, pause.name) == (kind, name)]
    return Rendered(
        template="pause.html",
        values={"kind": kind, "name": name, "paused": paused[0] if paused else None, "back": _back(kind, name)},
    )


def pause(visit: Visit) -> Answer:
    kind, name = _read_part(visit)
    with open_acting_node(visit) as node:
        node.pause(kind, name, visit.user.name, read_reason(visit))
    return Redirect(_back(kind, name))


def resume(visit: Visit) -> Answer:
    kind, name = _read_part(visit)
    with open_acting_node(visit) as node:
        node.resume(kind, name, visit.user.name, read_reason(visit, is_needed=False))
    return Redirect(_back(kind, name))


def _back(kind: str, name: str) -> str:
    if kind == "rule":
        return link_to("plans", rule=name)
    return link_to("messages", queue=name) if kind == "queue" else link_to("deliveries", queue=name)


def ask_purge(visit: Visit) -> Answer:
    """Return what would be removed: the dry run."""
    selection = read_selection(visit, visit.query)
    plan = plan_purge(visit.store, selection) if not selection.is_empty and selection.xpath is None else None
    return Rendered(
        template="purge.html",
        values={
            "plan": plan,
            "words": describe_selection(selection),
            "query": {name: visit.query[name] for name in FIELDS if visit.query.get(name)},
            "report": None,
            "states": STATES,
        },
    )


def run_purge(visit: Visit) -> Answer:
    report = _purge(visit)
    selection = read_selection(visit, visit.form)
    return Rendered(
        template="purge.html",
        values={"plan": None, "words": describe_selection(selection), "query": {}, "report": report, "states": STATES},
    )


def _read_purged(visit: Visit) -> MessageSelection:
    selection = read_selection(visit, visit.form)
    if selection.xpath is not None:
        raise BadRequest("messages are not removed by an expression here; demaq purge does so")
    return selection


def _purge(visit: Visit) -> object:
    selection = _read_purged(visit)
    last = visit.form.get("last")
    with open_acting_node(visit) as node:
        return purge(
            visit.store,
            node,
            selection,
            who=visit.user.name,
            why=read_reason(visit),
            last=parse_whole_number(last, "last") if last else None,
        )


def redeliver(visit: Visit) -> Answer:
    numbers = _redeliver(visit)
    return Redirect(link_to("messages", numbers[0]) if len(numbers) == 1 else link_to("deliveries"))


def _redeliver(visit: Visit) -> list[int]:
    words = visit.form.get("id", "").replace(",", " ").split()
    numbers = [parse_whole_number(word, "id") for word in words]
    if not numbers or len(numbers) > REDELIVERED_MAX:
        raise BadRequest(f"name 1 to {REDELIVERED_MAX:,} messages")
    why = read_reason(visit, is_needed=False)
    with open_acting_node(visit) as node:
        node.redeliver(numbers, describe_redelivery(numbers, who=visit.user.name, why=why))
    return numbers


def pause_by_api(visit: Visit) -> Answer:
    kind, name = _read_part(visit)
    with open_acting_node(visit) as node:
        return Data({"changed": node.pause(kind, name, visit.user.name, read_reason(visit))})


def resume_by_api(visit: Visit) -> Answer:
    kind, name = _read_part(visit)
    with open_acting_node(visit) as node:
        return Data({"changed": node.resume(kind, name, visit.user.name, read_reason(visit, is_needed=False))})


def purge_by_api(visit: Visit) -> Answer:
    expect_fields(visit.form, ("why", "dry_run", "last", "csrf"))
    expect_names(visit, read_selection(visit, visit.form))
    if visit.is_ticked("dry_run"):
        return Data(plan_purge(visit.store, _read_purged(visit)))
    return Data(_purge(visit))


def redeliver_by_api(visit: Visit) -> Answer:
    return Data({"redelivered": [str(number) for number in _redeliver(visit)]})
