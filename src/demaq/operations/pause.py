"""Pause and resume queues, rules and gateways. `demaq.engine.pauses` says what that means."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from demaq.compiler.plan import Plan
from demaq.engine.pauses import find_queues_of_rules
from demaq.errors import OperatorError
from demaq.language.program.program import Program
from demaq.operations.audit import describe_action, expect_words
from demaq.records import record
from demaq.store.operator_records import AuditRecord, Pause, PauseKind
from demaq.store.protocol import Store
from demaq.suggestions import describe_unknown

GATEWAY_KINDS = ("incomingGateway", "outgoingGateway")
KINDS: tuple[PauseKind, ...] = ("queue", "rule", "gateway")


@record
class PausedReport:
    """A part of the application that is paused, and what waits because of that."""

    kind: PauseKind
    name: str
    who: str
    why: str
    since: datetime
    queues: tuple[str, ...]
    """The queues whose messages wait."""
    waiting: int
    """How many messages wait: of these queues for their rules, and of an outgoing gateway for their delivery."""
    is_known: bool
    """Whether the application that ran last has this part."""


def expect_part(program: Program, kind: PauseKind, name: str) -> None:
    """Raises an OperatorError if the application has no such part."""
    if kind == "queue":
        known = list(program.queues)
    elif kind == "rule":
        known = [rule.name for rule in program.rules]
    else:
        known = [queue.name for queue in program.queues.values() if queue.kind in GATEWAY_KINDS]
        if name in program.queues and name not in known:
            raise OperatorError(f"queue {name} is no gateway: demaq pause queue {name} lets its messages wait")
    if name not in known:
        raise OperatorError(describe_unknown(kind, name, known))


def make_pause(kind: PauseKind, name: str, who: str, why: str, now: datetime) -> tuple[Pause, AuditRecord]:
    """Return a pause with its audit record. Raises an OperatorError if the reason is none."""
    expect_words(why)
    pause = Pause(kind=kind, name=name, who=who, why=why, since=now)
    details = {"kind": kind, "name": name}
    return pause, describe_action("pause", f"{kind} {name}", who=who, why=why, details=details, result="paused")


def describe_resumption(kind: PauseKind, name: str, who: str, why: str) -> AuditRecord:
    """Return the audit record of a resumption."""
    expect_words(why)
    details = {"kind": kind, "name": name}
    return describe_action("resume", f"{kind} {name}", who=who, why=why, details=details, result="resumed")


def list_pauses(store: Store, plan: Plan | None) -> list[PausedReport]:
    """Return what is paused, with what waits because of it. `plan` is of the application that ran last, if known."""
    pauses = store.pauses()
    return report_pauses(store, plan, pauses) if pauses else []


def report_pauses(store: Store, plan: Plan | None, pauses: Sequence[Pause]) -> list[PausedReport]:
    counts, sendings = store.counts(), store.sendings()
    found: list[PausedReport] = []
    for pause in pauses:
        queues = _find_queues(plan, pause)
        waiting = sum([counts.get(queue, (0, 0))[1] for queue in queues])
        if not queues and pause.name in sendings:
            waiting = sendings[pause.name][0]
        found.append(
            PausedReport(
                kind=pause.kind,
                name=pause.name,
                who=pause.who,
                why=pause.why,
                since=pause.since,
                queues=queues,
                waiting=waiting,
                is_known=plan is None or _is_known(plan, pause),
            )
        )
    return found


def _find_queues(plan: Plan | None, pause: Pause) -> tuple[str, ...]:
    if pause.kind == "queue":
        return (pause.name,)
    if pause.kind == "rule" and plan is not None:
        return tuple(sorted(find_queues_of_rules(plan, frozenset([pause.name]))))
    return ()


def _is_known(plan: Plan, pause: Pause) -> bool:
    try:
        expect_part(plan.program, pause.kind, pause.name)
    except OperatorError:
        return False
    return True
