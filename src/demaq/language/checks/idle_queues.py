"""Warn of queues whose messages are never processed, and of rules on queues that never receive messages."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.analysis.flow import Flow
from demaq.language.diagnostics import Diagnostic, warning
from demaq.language.program.draft import Declared, Draft


def unread_queues(draft: Draft) -> Iterator[Diagnostic]:
    flow = Flow(draft)
    if flow.reads_anything:
        return
    for name, declared in draft.queues.items():
        kind = draft.kind_of(name)
        if declared.at is None or kind not in ("basic", "incomingGateway") or _is_mailbox(declared):
            continue
        if name not in flow.ruled and name not in flow.read:
            meant = f", or create queue {name} kind mailbox if clients take them" if kind == "basic" else ""
            yield warning(
                "DQ1501",
                f'nothing reads queue "{name}"; its messages stay until a client takes them',
                declared.at.at,
                f"create rule … for {name}, if the application is to handle them{meant}",
            )


def ruled_mailboxes(draft: Draft) -> Iterator[Diagnostic]:
    """Yield mailboxes with rules: these process the messages that clients expect to take."""
    rules: dict[str, str] = {}
    flow = Flow(draft)
    for rule in draft.rules:
        for queue in flow.sources(rule):
            rules.setdefault(queue, str(rule.decl.name))
    for name, declared in draft.queues.items():
        if declared.at is not None and _is_mailbox(declared) and name in rules:
            yield warning(
                "DQ1506",
                f'queue "{name}" is declared a mailbox, but rule "{rules[name]}" processes its messages',
                declared.at.at,
                "a client cannot take what a rule has processed; without rules for it the queue is a mailbox, "
                "with rules it is of kind basic",
            )


def unfilled_queues(draft: Draft) -> Iterator[Diagnostic]:
    """Yield queues with rules that no rule enqueues into.

    Only if the application has incoming gateways: without, clients send to any queue.
    """
    flow = Flow(draft)
    if flow.fills_anything or "incomingGateway" not in [draft.kind_of(name) for name in draft.queues]:
        return
    filled = flow.filled | set(_queues_of_clauses(draft))
    for name, declared in draft.queues.items():
        if declared.at is None or draft.kind_of(name) != "basic" or name in filled or name not in flow.own_rules:
            continue
        yield warning(
            "DQ1502",
            f'nothing in the application fills queue "{name}", and it has rules',
            declared.at.at,
            "only a client can",
        )


def _is_mailbox(declared: Declared[ast.QueueDecl]) -> bool:
    return declared.decl is not None and declared.decl.kind == "mailbox"


def _queues_of_clauses(draft: Draft) -> Iterator[str]:
    """Yield the queues that errors or answers go to."""
    for module in draft.modules:
        for name in (*module.error_queues(), *module.reply_queues()):
            part = module.part(name)
            if part is not None:
                yield part
