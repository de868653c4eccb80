"""Where a message of an outgoing gateway goes."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from demaq.compiler.plan import Plan
from demaq.gateways.answer_destination import AnswerDestination, decode_destination
from demaq.gateways.answer_queues import find_answer_queues, own_address, port_of
from demaq.gateways.connections import KEYED, Connections
from demaq.gateways.outbox.delivery_results import DeliveryFailed
from demaq.language.endpoints import Destination, parse_destination
from demaq.soap import Interface
from demaq.soap.addressing.answer_routes import ToEndpoint, route_answer
from demaq.store.protocol import StoredMessage, ToSend
from demaq.system_properties import ANSWER_TO

PARSED_MAX = 1_000
"""So many addresses are remembered with what they mean."""


@dataclass(frozen=True, slots=True)
class Answering:
    """It answers a request, on this connection."""

    connection: str


class DestinationResolver:
    """The recipient that a message names, else the address of the interface's port, else the endpoint.

    A gateway that has no address answers requests. So does one with the interface and port through which the request
    came: an address there is the node's own.
    """

    def __init__(self, plan: Plan, interfaces: dict[str, Interface], connections: Connections) -> None:
        self._program = plan.program
        self._connections = connections
        self._interfaces = interfaces
        self._own = {
            queue.name: own_address(queue, interfaces.get(queue.name))
            for queue in plan.program.queues.values()
            if queue.kind == "outgoingGateway" and queue.gateway is not None
        }
        self.answer_queues = find_answer_queues(plan, self._own)
        self._answering = self.answer_queues.all  # no other queue answers, whatever connection its messages have

    def own_address(self, queue: str) -> str | None:
        """Return where a gateway's messages go unless they say otherwise."""
        return self._own[queue]

    def of(self, message: StoredMessage | ToSend) -> Destination | Answering | DeliveryFailed:
        named = message.properties.get("Recipient")
        if named is not None and named.text.strip():
            return _destination(named.text)
        connection = message.properties.get("demaq:connection") if message.queue in self._answering else None
        own = self._own[message.queue]
        elsewhere = message.properties.get(ANSWER_TO) if connection is not None else None
        if elsewhere is not None:
            answered = decode_destination(elsewhere.text, self._interfaces)
            if own is None or self._is_same_port(message.queue, answered.queue):
                return _answer_destination(answered)
        elif connection is not None:
            came_through = self._connections.queue_of(connection.text)
            if came_through is not None and (own is None or self._is_same_port(message.queue, came_through)):
                return Answering(connection.text)
            if own is None and connection.text.startswith(KEYED):
                return Answering(connection.text)  # a repeated request gets it
        if own is not None:
            return _destination(own)
        if connection is not None:
            return DeliveryFailed(kind="connectionClosed", reason="the sender no longer waits for it", again=False)
        return DeliveryFailed(
            kind="routing",
            reason="the message names no recipient, its gateway has no address, and it answers no request",
            again=False,
        )

    def _is_same_port(self, outgoing: str, incoming: str) -> bool:
        known = self._program.queues.get(incoming)
        port, other = port_of(self._program.queues[outgoing]), known.gateway if known is not None else None
        return port is not None and other is not None and port == (other.interface, other.port)


@functools.lru_cache(PARSED_MAX)
def _destination(address: str) -> Destination | DeliveryFailed:
    try:
        return parse_destination(address)
    except ValueError as reason:
        return DeliveryFailed(kind="routing", reason=str(reason), again=False)


def _answer_destination(answered: AnswerDestination) -> Destination:
    """Return where an answer goes that is not wanted on its connection: to ReplyTo, by whose server it is sent."""
    route = route_answer(answered.received.addressing)
    if not isinstance(route, ToEndpoint):
        return Destination("answer", "", "")
    try:
        peer = parse_destination(route.endpoint.address).peer
    except ValueError:
        peer = ""
    return Destination("answer", route.endpoint.address, peer)
