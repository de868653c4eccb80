"""Send answers of the application to the addresses that requests have named for them (WS-Addressing, ReplyTo).

An answer is a message of the outbox: it is sent until it is acknowledged, under the same MessageID in every attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from demaq.documents import Document
from demaq.errors import MessageError
from demaq.gateways.answer_destination import AnswerDestination, decode_destination
from demaq.gateways.connections import Reply
from demaq.gateways.http.answer_poster import AnswerPoster
from demaq.gateways.http.headers import HOPS_HEADER, MESSAGE_HEADER, trace_headers
from demaq.gateways.http.responses import refusal_text
from demaq.gateways.http.soap_service import SoapService
from demaq.gateways.http.soap_writer import RoutedAnswer
from demaq.gateways.outbox.delivery_results import Delivered, DeliveryFailed, DeliveryResult
from demaq.gateways.outbox.guarded_network import NotAllowed
from demaq.gateways.outbox.http_results import judge_error, judge_refusal
from demaq.gateways.outbox.message_ids import identify_message
from demaq.gateways.settings import OutgoingSettings
from demaq.language.endpoints import Destination
from demaq.soap import Interface
from demaq.soap.addressing.answer_routes import ToEndpoint
from demaq.store.epochs import Epochs
from demaq.store.protocol import StoredMessage
from demaq.system_properties import ANSWER_TO, ERROR_LEVEL


class AnswerSender:
    """Sends for all gateways. Belongs to one event loop."""

    def __init__(
        self,
        epochs: Epochs,
        interfaces: Mapping[str, Interface],
        services: Mapping[str, SoapService],
        posters: Mapping[str, AnswerPoster],
    ) -> None:
        """All are by incoming gateway: the one through which the request came."""
        self._epochs = epochs
        self._interfaces = interfaces
        self._services = services
        self._posters = posters

    async def send(self, message: StoredMessage, to: Destination, settings: OutgoingSettings) -> DeliveryResult:
        """Make one attempt."""
        answered = decode_destination(message.properties[ANSWER_TO].text, self._interfaces)
        service = self._services.get(answered.queue)
        if service is None:
            reason = f"there is no gateway {answered.queue} any more, through which the request came"
            return DeliveryFailed(kind="routing", reason=reason, again=False)
        reply = Reply(body=message.body, is_error=ERROR_LEVEL in message.properties)
        violation = self._find_violation(answered, reply)
        if violation is not None:
            reply = Reply(body=refusal_text(violation.kind, "the response violates the interface"), is_error=True)
        message_id = identify_message(self._epochs, message.seq)
        routed = await asyncio.to_thread(service.write_reply, answered.received, reply, message_id)
        result = await self._transfer(answered, routed, message, settings)
        if violation is not None and isinstance(result, Delivered):
            reason = f"the response violates the interface: {violation.message}"
            return DeliveryFailed(kind=violation.kind, reason=reason, again=False)
        return result

    async def _transfer(
        self, answered: AnswerDestination, routed: RoutedAnswer, message: StoredMessage, settings: OutgoingSettings
    ) -> Delivered | DeliveryFailed:
        if not isinstance(routed.route, ToEndpoint):
            return Delivered(status="not wanted")
        name = self._epochs.message_name(message.seq)
        own = {MESSAGE_HEADER: name, "Idempotency-Key": name, HOPS_HEADER: str(message.hops + 1), **trace_headers()}
        poster, address = self._posters[answered.queue], routed.route.endpoint.address
        try:
            async with asyncio.timeout(settings.timeout_seconds):
                response = await poster.exchange(address, routed.answer, answered.received.version, routed.action, own)
        except NotAllowed:
            reason = "the settings do not allow answers to this address: answer_recipients"
            return DeliveryFailed(kind="routing", reason=reason, again=False)
        except Exception as error:
            return judge_error(error)
        if response.is_success:
            return Delivered(status=response.status_text)
        return judge_refusal(response)

    def _find_violation(self, answered: AnswerDestination, reply: Reply) -> MessageError | None:
        """Return what is wrong with an answer, by the interface."""
        interface, operation = self._interfaces.get(answered.queue), answered.received.operation
        if interface is None or operation is None or reply.is_error:
            return None
        try:
            interface.check_answer(Document(reply.body).tree, operation)
        except MessageError as error:
            return error
        return None
