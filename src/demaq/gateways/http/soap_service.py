"""SOAP at one incoming gateway: what is read, what is answered, and what goes to another address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus
from uuid import UUID, uuid4

from demaq.errors import MessageError
from demaq.gateways.connections import Reply
from demaq.gateways.http.answer_poster import AnswerPoster
from demaq.gateways.http.received_envelope import ReceivedEnvelope
from demaq.gateways.http.responses import HttpAnswer
from demaq.gateways.http.soap_reader import SoapReader
from demaq.gateways.http.soap_writer import RoutedAnswer, SoapWriter
from demaq.gateways.reliability.inbound_sequences import SequenceOwner
from demaq.gateways.reliability.sequence_requests import SequencedArrival, SequenceOutcome, SequenceRequest
from demaq.gateways.security.envelope_security import EnvelopeSecurity
from demaq.gateways.security.recipients import Recipients
from demaq.soap import Interface
from demaq.soap.addressing.addressing_headers import make_message_id
from demaq.soap.addressing.answer_routes import OnConnection, ToEndpoint, route_answer
from demaq.soap.policy import GatewayPolicy
from demaq.soap.reliability.delivery_assurance import EXACTLY_ONCE_IN_ORDER
from demaq.soap.reliability.protocol_messages import CloseSequence, CreateSequence, TerminateSequence
from demaq.soap.reliability.sequence_creation import CreationRules
from demaq.soap.reliability.sequence_headers import Acknowledgement, AckRequest, SequenceHeader


class SoapService:
    """Belongs to one event loop, but for `reader`."""

    def __init__(
        self,
        queue: str,
        interface: Interface | None,
        policy: GatewayPolicy,
        security: EnvelopeSecurity | None,
        answer_recipients: Recipients,
        poster: AnswerPoster,
        clock: Callable[[], datetime],
        make_uuid: Callable[[], UUID] = uuid4,
    ) -> None:
        self.reader = SoapReader(interface, policy, security, answer_recipients)
        self.is_secured = security is not None
        self._queue = queue
        self._writer = SoapWriter(security, make_uuid)
        self._poster = poster
        self._clock = clock
        self._make_uuid = make_uuid
        assurance = policy.reliability.assurance if policy.reliability is not None else EXACTLY_ONCE_IN_ORDER
        # Answers have the message numbers of their requests, so there are no gaps if every request has an answer.
        accepts = interface is not None and not any([operation.is_one_way for operation in interface.operations])
        self._rules = CreationRules(assurance=assurance, accepts_offers=accepts)

    # sequences

    def find_arrival(self, received: ReceivedEnvelope, peer: str) -> SequencedArrival | None:
        """Return the place of a message in its sequence, if it came in one."""
        header = received.blocks.sequence
        return SequencedArrival(owner=self._owner(peer), header=header) if header is not None else None

    def list_sequence_requests(self, received: ReceivedEnvelope, peer: str) -> list[SequenceRequest]:
        """Return what is asked about sequences by an envelope without a message."""
        owner = self._owner(peer)
        asked = received.protocol
        if isinstance(asked, CreateSequence):
            return [
                SequenceRequest(
                    owner=owner,
                    message=asked,
                    rules=self._make_rules(asked),
                    message_id=received.addressing.message_id if received.addressing is not None else None,
                    new_identifier=make_message_id(self._make_uuid),
                    replay_keys=received.replay_keys,
                )
            ]
        if isinstance(asked, CloseSequence | TerminateSequence):
            return [SequenceRequest(owner=owner, message=asked, replay_keys=received.replay_keys)]
        blocks: list[AckRequest | SequenceHeader] = list(received.blocks.ack_requests)
        if received.blocks.sequence is not None:
            blocks = [received.blocks.sequence]
        keys: list[Mapping[str, datetime]] = [received.replay_keys, *[{} for _ in blocks[1:]]]
        return [
            SequenceRequest(owner=owner, message=block, replay_keys=own)
            for block, own in zip(blocks, keys[: len(blocks)], strict=True)
        ]

    def _make_rules(self, asked: CreateSequence) -> CreationRules:
        """Return what is offered to the creator of a sequence."""
        offered = asked.offer.endpoint if asked.offer is not None else None
        return replace(
            self._rules,
            accepts_addresses=self.reader.may_answer_to(asked.acks_to),
            accepts_offers=self._rules.accepts_offers and (offered is None or offered.is_anonymous),
        )

    def _owner(self, peer: str) -> SequenceOwner:
        return SequenceOwner(queue=self._queue, peer=peer)

    # answers

    def wants_answer_here(self, received: ReceivedEnvelope) -> bool:
        """Return whether the sender waits for the answer on its connection."""
        return isinstance(route_answer(received.addressing), OnConnection)

    async def respond_to_sequence(self, received: ReceivedEnvelope, outcome: SequenceOutcome) -> HttpAnswer:
        """Return the response to a request about a sequence."""
        if received.protocol is None and outcome.fault is None:
            return await self.respond_accepted(received, outcome)  # an acknowledgement alone has an address of its own
        now = self._clock().timestamp()
        return await self._deliver(received, lambda: self._writer.write_sequence_answer(received, outcome, now))

    async def respond_accepted(self, received: ReceivedEnvelope, outcome: SequenceOutcome | None) -> HttpAnswer:
        """Return the response to a message that was stored, or was received in its sequence, and is not answered."""
        if outcome is not None and outcome.fault is not None:
            return await self.respond_to_sequence(received, outcome)
        acknowledgement = await self._acknowledge(received, outcome)
        return await self._deliver(received, lambda: self._writer.write_acknowledgement(received, acknowledgement))

    async def respond_reply(
        self, received: ReceivedEnvelope, reply: Reply, outcome: SequenceOutcome | None = None
    ) -> HttpAnswer:
        """Return the response with the answer of the application."""
        acknowledgement = await self._acknowledge(received, outcome)
        place = find_answer_place(received, outcome)
        return await self._deliver(received, lambda: self._writer.write_reply(received, reply, acknowledgement, place))

    async def respond_refusal(
        self, received: ReceivedEnvelope, error: MessageError, outcome: SequenceOutcome | None = None
    ) -> HttpAnswer:
        """Return the response to a request that is refused."""
        acknowledgement = await self._acknowledge(received, outcome)
        place = find_answer_place(received, outcome)
        return await self._deliver(
            received, lambda: self._writer.write_refusal(received, error, acknowledgement, place)
        )

    def write_reply(self, received: ReceivedEnvelope, reply: Reply, message_id: str) -> RoutedAnswer:
        """Return the answer of the application to a request that wants it at another address."""
        return self._writer.write_reply(received, reply, message_id=message_id)

    async def _acknowledge(self, received: ReceivedEnvelope, outcome: SequenceOutcome | None) -> Acknowledgement | None:
        """Return what the response acknowledges. If it goes to another address, it is sent there instead."""
        if outcome is None or outcome.sequence is None or outcome.acknowledgement is None:
            return None
        acks_to, acknowledgement = outcome.sequence.acks_to, outcome.acknowledgement
        if acks_to.is_anonymous:
            return acknowledgement
        await self._deliver(received, lambda: self._writer.write_acknowledgement(received, acknowledgement, acks_to))
        return None

    async def _deliver(self, received: ReceivedEnvelope, write: Callable[[], RoutedAnswer]) -> HttpAnswer:
        """Write an answer and send it where it goes. Return the response."""
        # A signature takes milliseconds, in which others would wait.
        routed = await asyncio.to_thread(write) if self.is_secured else write()
        answer = routed.answer
        if isinstance(routed.route, OnConnection):
            return HttpAnswer(status=answer.status, body=answer.data, content_type=answer.content_type)
        if isinstance(routed.route, ToEndpoint):
            self._poster.post(routed.route.endpoint.address, answer, received.version, routed.action)
        return HttpAnswer(status=HTTPStatus.ACCEPTED)


def find_answer_place(received: ReceivedEnvelope, outcome: SequenceOutcome | None) -> SequenceHeader | None:
    """Return the place of an answer in the sequence that the source of its request has offered, if it has.

    It is the number of the request, so a repeated request gets its answer under the same number, after a restart too.
    """
    header = received.blocks.sequence
    if header is None or outcome is None or outcome.sequence is None or outcome.sequence.offered is None:
        return None
    return SequenceHeader(
        version=header.version,
        identifier=outcome.sequence.offered,
        message_number=header.message_number,
        is_last=header.is_last,
    )
