"""A queue's kind, its clauses and the messages enqueued into it are consistent."""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.diagnostics import Diagnostic, error, warning
from demaq.language.endpoints import InboundAddress, parse_destination, parse_inbound_address
from demaq.language.extensions import explain_not_started
from demaq.language.program.draft import Draft
from demaq.system_properties import UNSUITABLE_TARGETS

_GATEWAYS = ("incomingGateway", "outgoingGateway")
_OUTGOING_HINT = 'endpoint "https://supplier.example/orders" or endpoint "mailto:orders@supplier.example"'
_INCOMING_HINT = 'endpoint "http:/orders" or endpoint "mailto:orders@example.org"'


def enqueue_into_incoming_gateways(draft: Draft) -> Iterator[Diagnostic]:
    for queue, enqueue, _ in draft.enqueues():
        if draft.kind_of(queue) == "incomingGateway":
            yield error(
                "DQ0501",
                f'nothing can be enqueued into "{queue}": it is an incoming gateway',
                enqueue.queue.at,
                "only other nodes put messages there; enqueue into a basic queue or an outgoing gateway",
            )


def gateway_clauses(draft: Draft) -> Iterator[Diagnostic]:
    for _, queue in draft.statements(ast.QueueDecl):
        kind = queue.kind or "basic"
        if kind not in _GATEWAYS:
            for clause, node in (
                ("interface", queue.interface),
                ("endpoint", queue.endpoint),
                ("replyto", queue.replyto),
            ):
                if node is not None:
                    yield _only_for_gateways(clause, kind, node)
            for using in queue.using:
                yield _only_for_gateways(f"using {using.extension}", kind, using)
        seen: set[str] = set()
        for using in queue.using:
            if using.extension in seen:
                yield error("DQ0506", f"{using.extension} is given twice", using.at)
            seen.add(using.extension)


def reliable_gateways(draft: Draft) -> Iterator[Diagnostic]:
    for _, queue in draft.statements(ast.QueueDecl):
        for using in queue.using:
            if using.extension == "WS-ReliableMessaging" and queue.mode == "transient":
                yield error(
                    "DQ0503",
                    f'gateway "{queue.name}" cannot be both reliable and transient',
                    using.at,
                    "mode persistent: what must survive a failure has to be stored",
                )


def gateways_not_started(draft: Draft) -> Iterator[Diagnostic]:
    """Yield gateways that no node starts, whatever its settings. What depends on the settings is reported at start."""
    for _, queue in draft.statements(ast.QueueDecl):
        if queue.kind not in _GATEWAYS:
            continue
        reason = explain_not_started(
            queue.kind,
            str(queue.name),
            queue.endpoint.value if queue.endpoint is not None else None,
            [using.extension for using in queue.using],
            has_interface=queue.interface is not None,
        )
        if reason is not None:
            yield warning(
                "DQ1505",
                f'gateway "{queue.name}" will not be started: {reason}',
                queue.using[0].at,
                "its messages wait; add the interface, or leave out `using` to run it without protection",
            )


def endpoints(draft: Draft) -> Iterator[Diagnostic]:
    """Yield endpoints that are no valid addresses, and gateways that listen at the same address."""
    taken: dict[InboundAddress, str] = {}
    for _, queue in draft.statements(ast.QueueDecl):
        if queue.kind == "outgoingGateway" and queue.endpoint is not None:
            try:
                parse_destination(queue.endpoint.value)
            except ValueError as reason:
                yield error("DQ0508", f"messages cannot be sent there: {reason}", queue.endpoint.at, _OUTGOING_HINT)
        if queue.kind != "incomingGateway":
            continue
        try:
            arrival = parse_inbound_address(str(queue.name), None if queue.endpoint is None else queue.endpoint.value)
        except ValueError as reason:
            at = queue.name.at if queue.endpoint is None else queue.endpoint.at
            yield error("DQ0508", f"messages cannot be received there: {reason}", at, _INCOMING_HINT)
            continue
        if arrival in taken:
            at = queue.name.at if queue.endpoint is None else queue.endpoint.at
            other = f'"{taken[arrival]}" listens at {arrival} already'
            yield error("DQ0509", f'gateway "{queue.name}" needs an address of its own: {other}', at, _INCOMING_HINT)
        taken.setdefault(arrival, str(queue.name))


def replies(draft: Draft) -> Iterator[Diagnostic]:
    """Yield invalid reply queues: only outgoing gateways have one, and it must accept messages."""
    for module, queue in draft.statements(ast.QueueDecl):
        if queue.replyto is None:
            continue
        if queue.kind == "incomingGateway":
            yield error(
                "DQ0510",
                f'"{queue.name}" gets no answers: it is an incoming gateway',
                queue.replyto.at,
                "only outgoing gateways do",
            )
        kind = draft.kind_of(module.part(queue.replyto))
        if kind in UNSUITABLE_TARGETS:
            what = UNSUITABLE_TARGETS[kind].partition(",")[0]
            yield error(
                "DQ0510",
                f'answers cannot go into "{queue.replyto}": it is {what}',
                queue.replyto.at,
                "a basic queue always can",
            )


def error_queues(draft: Draft) -> Iterator[Diagnostic]:
    """Yield invalid error queues: an error queue keeps messages, so it is no incoming gateway and no echo queue."""
    for module in draft.modules:
        for name in module.error_queues():
            kind = draft.kind_of(module.part(name))
            if kind in ("incomingGateway", "echo"):
                what = "an incoming gateway" if kind == "incomingGateway" else "an echo queue"
                yield error(
                    "DQ0504", f'"{name}" cannot be an error queue: it is {what}', name.at, "a basic queue always can"
                )


def _only_for_gateways(clause: str, kind: str, node: ast.Node) -> Diagnostic:
    return error(
        "DQ0502",
        f"`{clause}` is for gateways, and this queue is of kind {kind}",
        node.at,
        "kind incomingGateway or kind outgoingGateway",
    )
