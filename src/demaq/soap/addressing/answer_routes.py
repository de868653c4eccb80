"""Where an answer or fault goes: on the connection of the request, nowhere, or to another endpoint (Core 3.4)."""

from __future__ import annotations

from dataclasses import dataclass

from demaq.soap.addressing.addressing_faults import ONLY_NON_ANONYMOUS, make_invalid_header
from demaq.soap.addressing.addressing_headers import AddressingHeaders
from demaq.soap.addressing.endpoint_reference import EndpointReference
from demaq.soap.refusals import refuse


@dataclass(frozen=True, slots=True)
class OnConnection:
    """The response to the HTTP request has it."""

    endpoint: EndpointReference | None = None
    """The anonymous endpoint, which may have reference parameters."""


@dataclass(frozen=True, slots=True)
class Nowhere:
    """It is not sent."""


@dataclass(frozen=True, slots=True)
class ToEndpoint:
    """It is a request of its own."""

    endpoint: EndpointReference


AnswerRoute = OnConnection | Nowhere | ToEndpoint


def route_answer(request: AddressingHeaders | None) -> AnswerRoute:
    """Return where the answer to a request goes. Without ReplyTo that is the connection."""
    return _route(request.reply_to if request is not None else None)


def route_fault(request: AddressingHeaders | None) -> AnswerRoute:
    """Return where a fault for a request goes: to FaultTo, or else to ReplyTo."""
    if request is None:
        return OnConnection()
    return _route(request.fault_to or request.reply_to)


def check_elsewhere_only(request: AddressingHeaders, version: str) -> None:
    """Raises SoapRefusal if an answer or fault would go to the connection (SOAP Binding 6.4.1)."""
    for name, route in (("ReplyTo", route_answer(request)), ("FaultTo", route_fault(request))):
        if isinstance(route, OnConnection):
            reason = f"{name} of WS-Addressing is anonymous: answers are sent to another address only"
            raise refuse(make_invalid_header(request.version, name, ONLY_NON_ANONYMOUS, reason), version)


def _route(endpoint: EndpointReference | None) -> AnswerRoute:
    if endpoint is None or endpoint.is_anonymous:
        return OnConnection(endpoint)
    return Nowhere() if endpoint.is_none else ToEndpoint(endpoint)
