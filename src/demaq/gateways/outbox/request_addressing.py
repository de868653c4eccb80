"""The headers of WS-Addressing of a request: what its gateway's policy demands, and what rules set as properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from demaq.messages import PropertyValue
from demaq.soap import Operation
from demaq.soap.addressing.addressing_headers import AddressingHeaders, Relationship
from demaq.soap.addressing.addressing_versions import ADDRESSING_1_0, ADDRESSING_VERSIONS, AddressingVersion
from demaq.soap.addressing.endpoint_reference import EndpointReference, make_anonymous
from demaq.soap.policy import GatewayPolicy

PREFIX: Final = "demaq:"
NAMES: Final = ("MessageID", "To", "Action", "From", "ReplyTo", "FaultTo", "RelatesTo")
"""Properties that rules set, without their prefix."""


class AnswerPlace(Enum):
    """Where the answer to a request arrives."""

    CONNECTION = "on the connection of the request"
    ENDPOINT = "at the address where this node expects answers"
    STRANGER = "somewhere else: a rule has said so"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAddressing:
    """The headers of one request."""

    headers: AddressingHeaders
    answer: AnswerPlace


def find_addressing_version(policy: GatewayPolicy) -> AddressingVersion | None:
    """Return the version that the messages of a gateway must have; None if they need none."""
    if policy.addressing is not None:
        return policy.addressing.version
    if policy.reliability is not None:
        return policy.reliability.version.addressing
    parts = [policy.security.request.signed, policy.security.request.encrypted] if policy.security is not None else []
    spaces = [name[1:].partition("}")[0] for part in parts for name in part.headers]
    return next(iter([ADDRESSING_VERSIONS[space] for space in spaces if space in ADDRESSING_VERSIONS]), None)


def make_request_addressing(
    version: AddressingVersion | None,
    operation: Operation,
    properties: Mapping[str, PropertyValue],
    *,
    message_id: str,
    to: str,
    answer_address: str | None,
) -> RequestAddressing | None:
    """Return the headers of a request; None if it needs none.

    The MessageID is that of every attempt. If there is an answer, 2004/08 needs ReplyTo (3); 1.0 does not (Core 3.2).
    """
    given = {name: properties[PREFIX + name].text.strip() for name in NAMES if PREFIX + name in properties}
    given = {name: text for name, text in given.items() if text}
    if version is None and not given:
        return None
    version = version or ADDRESSING_1_0
    reply_to, answer = _find_reply_to(version, operation, given.get("ReplyTo"), answer_address)
    related = given.get("RelatesTo")
    headers = AddressingHeaders(
        version=version,
        message_id=given.get("MessageID", message_id),
        to=given.get("To", to),
        action=given.get("Action", operation.actions.input),
        source=_endpoint(version, given.get("From")),
        reply_to=reply_to,
        fault_to=_endpoint(version, given.get("FaultTo")),
        relationships=[Relationship(message_id=related, kind=version.reply)] if related else [],
    )
    return RequestAddressing(headers=headers, answer=answer)


def _find_reply_to(
    version: AddressingVersion, operation: Operation, given: str | None, answer_address: str | None
) -> tuple[EndpointReference | None, AnswerPlace]:
    if given is not None and given not in (version.anonymous, answer_address):
        return _endpoint(version, given), AnswerPlace.STRANGER
    if operation.is_one_way:
        return _endpoint(version, given), AnswerPlace.CONNECTION
    if answer_address is not None and given != version.anonymous:
        return _endpoint(version, answer_address), AnswerPlace.ENDPOINT
    return make_anonymous(version), AnswerPlace.CONNECTION


def _endpoint(version: AddressingVersion, address: str | None) -> EndpointReference | None:
    return EndpointReference(version=version, address=address) if address is not None else None
