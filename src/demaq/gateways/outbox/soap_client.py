"""The requests of one SOAP gateway, and what responses to them say. HTTP is the caller's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Protocol

from demaq.documents import Document
from demaq.gateways.outbox.request_addressing import (
    AnswerPlace,
    RequestAddressing,
    find_addressing_version,
    make_request_addressing,
)
from demaq.soap import Interface, Operation
from demaq.soap.addressing.addressing_headers import AddressingHeaders, write_addressing
from demaq.soap.addressing.addressing_versions import ADDRESSING_1_0
from demaq.soap.addressing.endpoint_reference import EndpointReference, make_anonymous
from demaq.soap.envelope import write_envelope
from demaq.soap.policy import AnswerAddresses, GatewayPolicy
from demaq.soap.qualified_names import ENVELOPES
from demaq.soap.reliability.reliability_versions import ReliabilityVersion
from demaq.soap.security import ProtectedEnvelope, ReplayCache, VerifiedEnvelope
from demaq.soap.transport import action_headers, content_type
from demaq.store.protocol import StoredMessage


class RequestSecurity(Protocol):
    """WS-Security of one gateway: `EnvelopeSecurity` as a client."""

    def secure_request(self, envelope: bytes) -> ProtectedEnvelope: ...

    def verify_answer(
        self, envelope: bytes, replays: ReplayCache, *, request_signatures: Sequence[bytes], is_https: bool
    ) -> VerifiedEnvelope: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedRequest:
    """An envelope to send, and what a response to it depends on."""

    data: bytes
    headers: Mapping[str, str]
    """Of HTTP."""
    operation: Operation | None = None
    """None for a message of a protocol."""
    message_id: str | None = None
    answer: AnswerPlace = AnswerPlace.CONNECTION
    is_https: bool = False
    signatures: tuple[bytes, ...] = ()
    """What the answer must confirm."""

    @property
    def expects_reply(self) -> bool:
        """Return whether the response has to have a reply."""
        return self.wants_reply and self.answer == AnswerPlace.CONNECTION

    @property
    def wants_reply(self) -> bool:
        """Return whether a reply arrives at this node."""
        is_asking = self.operation is not None and not self.operation.is_one_way
        return is_asking and self.answer != AnswerPlace.STRANGER


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPolicy:
    """How one gateway speaks SOAP."""

    interface: Interface
    policy: GatewayPolicy = field(default_factory=GatewayPolicy)
    security: RequestSecurity | None = None
    answer_address: str | None = None
    """Where this node expects answers that do not come as responses."""

    @property
    def reliability(self) -> ReliabilityVersion | None:
        return self.policy.reliability.version if self.policy.reliability is not None else None

    @property
    def sends_user(self) -> bool:
        """Return whether requests have a user and a password."""
        return self.policy.security is not None and self.policy.security.request.username is not None

    @property
    def is_plain(self) -> bool:
        """Return whether nothing but SOAP is asked for."""
        return self.policy.is_empty


class RequestComposer:
    """Composes the requests of one gateway."""

    def __init__(self, client: ClientPolicy, identify: Callable[[int], str]) -> None:
        """`identify` returns the MessageID of a stored message."""
        self._client = client
        self._identify = identify
        self._version: Final = find_addressing_version(client.policy)
        addressing = client.policy.addressing
        is_anonymous_only = addressing is not None and addressing.answers is AnswerAddresses.ANONYMOUS
        self._answer_address: Final = None if is_anonymous_only else client.answer_address

    @property
    def acks_to(self) -> EndpointReference:
        """Return where acknowledgements of sequences are expected."""
        version = self._version or ADDRESSING_1_0
        if self._answer_address is None:
            return make_anonymous(version)
        return EndpointReference(version=version, address=self._answer_address)

    def check(self, message: StoredMessage) -> Operation:
        """Return the operation of a message. Raises MessageError if the port has none for it, or not this one."""
        interface = self._client.interface
        tree = Document(message.body).tree
        given = message.properties.get("demaq:Action")
        operation = interface.operation_of_message(str(tree.getroot().tag), given.text if given is not None else None)
        interface.check_input(tree, operation)
        return operation

    def find_answer_place(self, message: StoredMessage, operation: Operation) -> AnswerPlace:
        """Return where the answer to a message arrives."""
        addressing = self._address(message, operation, "")
        return addressing.answer if addressing is not None else AnswerPlace.CONNECTION

    def compose(
        self, message: StoredMessage, operation: Operation, address: str, blocks: Sequence[str] = ()
    ) -> ComposedRequest:
        """Return the request for a message, not yet secured; `blocks` are added to the header."""
        interface = self._client.interface
        addressing = self._address(message, operation, address)
        body = None if operation.input.is_empty else message.body
        action = operation.action
        written: Sequence[str] = ()
        if addressing is not None:
            # SOAP Binding 4.2: the action of HTTP is that of the header, or empty
            action = addressing.headers.action
            written = write_addressing(addressing.headers, ENVELOPES[interface.version])
        return ComposedRequest(
            data=write_envelope(interface.version, body, [*written, *blocks]),
            headers=self._headers(action),
            operation=operation,
            message_id=addressing.headers.message_id if addressing is not None else None,
            answer=addressing.answer if addressing is not None else AnswerPlace.CONNECTION,
            is_https=_is_https(address),
        )

    def compose_protocol(
        self, body: str | None, action: str, address: str, message_id: str, blocks: Sequence[str] = ()
    ) -> ComposedRequest:
        """Return a message of WS-ReliableMessaging, whose answer comes on the connection."""
        version = self._version or ADDRESSING_1_0
        headers = AddressingHeaders(
            version=version, message_id=message_id, to=address, action=action, reply_to=make_anonymous(version)
        )
        soap = self._client.interface.version
        written = write_addressing(headers, ENVELOPES[soap])
        return ComposedRequest(
            data=write_envelope(soap, body, [*written, *blocks]),
            headers=self._headers(action),
            message_id=message_id,
            is_https=_is_https(address),
        )

    def secure(self, request: ComposedRequest) -> ComposedRequest:
        """Return the request as the policy has it. Raises OperatorError, or MessageError."""
        security = self._client.security
        if security is None:
            return request
        secured = security.secure_request(request.data)
        return replace(request, data=secured.data, signatures=tuple(secured.signature_values))

    def _address(self, message: StoredMessage, operation: Operation, address: str) -> RequestAddressing | None:
        return make_request_addressing(
            self._version,
            operation,
            message.properties,
            message_id=self._identify(message.seq),
            to=address,
            answer_address=self._answer_address,
        )

    def _headers(self, action: str | None) -> dict[str, str]:
        soap = self._client.interface.version
        return {"Content-Type": content_type(soap, action), **action_headers(soap, action)}


class CollectedReplays:
    """A replay cache for one answer: collects its keys, which are looked up and stored later."""

    def __init__(self) -> None:
        self.keys: dict[str, datetime] = {}

    def remember(self, keys: Mapping[str, datetime]) -> bool:
        self.keys.update(keys)
        return True


def _is_https(address: str) -> bool:
    return address.lower().startswith("https:")
