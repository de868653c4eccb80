"""Which queues answer the senders of which gateways.

A sender waits for an answer only where messages may lead from its gateway to one that answers: an outgoing gateway
without address, or with the very port that the sender has asked, into which something is put without a recipient. What
is enqueued `with Recipient` goes to that recipient, and is no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from demaq.compiler.plan import Plan
from demaq.language.endpoints import parse_inbound_address
from demaq.language.extensions import explain_not_started
from demaq.language.program.program import Gateway, Program, Queue
from demaq.soap import Interface, read_interface

RECIPIENT = "Recipient"


@dataclass(frozen=True, slots=True)
class AnswerQueues:
    by_gateway: Mapping[str, tuple[str, ...]]
    """For each incoming gateway over HTTP the queues that may answer its senders, as they are declared."""

    @property
    def all(self) -> frozenset[str]:
        return frozenset([queue for queues in self.by_gateway.values() for queue in queues])


def find_answer_queues(plan: Plan, own_addresses: Mapping[str, str | None] | None = None) -> AnswerQueues:
    """Return which queues answer. `own_addresses` are those of outgoing gateways, if they are known."""
    program = plan.program
    known = own_addresses if own_addresses is not None else _own_addresses(program)
    receiving = [queue for queue in program.queues.values() if _takes_requests(queue)]
    ports = {port_of(queue) for queue in receiving} - {None}
    candidates = {name for name, address in known.items() if address is None or port_of(program.queues[name]) in ports}
    candidates -= {name for name in candidates if not _is_at_work(program.queues[name])}
    answers = _find_reachable(plan, candidates)
    order = list(program.queues)
    return AnswerQueues({queue.name: tuple(sorted(answers[queue.name], key=order.index)) for queue in receiving})


def own_address(queue: Queue, interface: Interface | None) -> str | None:
    """Return where the messages of an outgoing gateway go unless they say otherwise."""
    address = interface.address if interface is not None else None
    return address or (queue.gateway.endpoint if queue.gateway is not None else None)


def _own_addresses(program: Program) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for queue in program.queues.values():
        if queue.kind == "outgoingGateway" and queue.gateway is not None:
            path = queue.gateway.interface
            interface = read_interface(path, queue.gateway.port) if path is not None else None
            found[queue.name] = own_address(queue, interface)
    return found


def _find_reachable(plan: Plan, candidates: set[str]) -> dict[str, set[str]]:
    """Return, for each queue, the candidates to which its messages may lead without a recipient."""
    leads_to: dict[str, set[str]] = {name: set() for name in plan.queues}
    answers: dict[str, set[str]] = {name: set() for name in plan.queues}

    def lead(name: str, targets: Iterable[str]) -> None:
        leads_to[name].update(targets)
        answers[name].update(candidates.intersection(targets))

    for name, queue in plan.queues.items():
        for write in [write for rule in queue.rules for write in rule.enqueues]:
            leads_to[name].add(write.queue)
            if RECIPIENT not in write.always:
                lead(name, [write.queue])
            if plan.program.queues[write.queue].kind == "echo":
                lead(write.queue, plan.program.queues if write.timer_targets is None else write.timer_targets)
        declared = plan.program.queues[name]
        if declared.gateway is not None and declared.gateway.replyto is not None:
            lead(name, [declared.gateway.replyto])
        lead(name, _error_queues(plan, name))
    grown = True
    while grown:
        grown = False
        for name, targets in leads_to.items():
            more = {answer for target in targets if target in answers for answer in answers[target]} - answers[name]
            grown = grown or bool(more)
            answers[name] |= more
    return answers


def _error_queues(plan: Plan, queue: str) -> set[str]:
    """Return where errors about messages of a queue may go."""
    program = plan.program
    rules = [planned.rule for planned in plan.queues[queue].rules]
    modules = [program.queues[queue].module, *[rule.module for rule in rules]]
    named = [program.queues[queue].errorqueue, *[rule.errorqueue for rule in rules]]
    named += [program.modules[number].errorqueue for number in modules if number is not None]
    return {name for name in named if name is not None}


def _takes_requests(queue: Queue) -> bool:
    """Return whether it takes requests: who sends a mail does not wait."""
    if queue.kind != "incomingGateway" or queue.gateway is None or not _is_at_work(queue):
        return False
    return parse_inbound_address(queue.name, queue.gateway.endpoint).kind == "http"


def _is_at_work(queue: Queue) -> bool:
    gateway = queue.gateway
    return gateway is not None and find_reason_not_started(queue) is None


def find_reason_not_started(queue: Queue) -> str | None:
    """Return why a gateway is not started, if it is not."""
    gateway = queue.gateway
    if gateway is None or queue.kind is None:
        return None
    asked = [name for name, _ in gateway.extensions]
    has_interface = gateway.interface is not None
    return explain_not_started(queue.kind, queue.name, gateway.endpoint, asked, has_interface=has_interface)


def port_of(queue: Queue) -> tuple[object, str | None] | None:
    """Return interface and port of a gateway that has no endpoint of its own."""
    gateway: Gateway | None = queue.gateway
    if gateway is None or gateway.interface is None or gateway.endpoint is not None:
        return None
    return gateway.interface, gateway.port
