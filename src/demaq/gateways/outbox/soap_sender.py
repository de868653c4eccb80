"""Send the messages of one gateway in SOAP envelopes: one attempt each, as its policy demands."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from demaq.errors import MessageError, OperatorError
from demaq.gateways.outbox.answer_replays import AnswerReplays
from demaq.gateways.outbox.delivery_results import Awaiting, Delivered, DeliveryFailed, DeliveryResult
from demaq.gateways.outbox.http_connection import HttpResponse
from demaq.gateways.outbox.request_addressing import AnswerPlace
from demaq.gateways.outbox.soap_client import ClientPolicy, ComposedRequest, RequestComposer
from demaq.gateways.outbox.soap_responses import ResponseReader, SoapResponse
from demaq.gateways.settings import OutgoingSettings
from demaq.soap import Operation
from demaq.store.protocol import StoredMessage

PARSE_INLINE_BYTES_MAX = 32 * 1024
"""A larger response is read in a thread, so that the event loop does not wait for it."""
AWAITED_MAX = 10_000
"""Of so many requests it is remembered what their answers must confirm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableResponse:
    """A server has answered, and the body of its response cannot be read."""

    response: HttpResponse
    kind: str
    reason: str


class Transfer(Protocol):
    """Sends bytes to an address, and returns the response. Never raises."""

    async def __call__(
        self, queue: str, address: str, data: bytes, headers: Mapping[str, str], settings: OutgoingSettings
    ) -> HttpResponse | UnreadableResponse | DeliveryFailed: ...


class SequenceSender(Protocol):
    """Sends messages in sequences: `OutboundChannels`."""

    async def send_numbered(
        self, sender: SoapSender, message: StoredMessage, operation: Operation, attempt: SoapAttempt
    ) -> DeliveryResult: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SoapAttempt:
    """Where to, and how."""

    address: str
    settings: OutgoingSettings
    headers: Mapping[str, str]
    """Of HTTP, besides those of SOAP."""
    may_have_password: bool = True
    """Whether the address is trusted with our user: not if a message names it and the settings do not."""


class SoapSender:
    """Belongs to one event loop."""

    def __init__(
        self,
        queue: str,
        client: ClientPolicy,
        composer: RequestComposer,
        transfer: Transfer,
        replays: AnswerReplays | None = None,
        sequences: SequenceSender | None = None,
    ) -> None:
        """With WS-Security it needs `replays`, with WS-ReliableMessaging `sequences`."""
        assert client.security is None or replays is not None, "a repeated answer must be recognised"
        assert client.reliability is None or sequences is not None, "messages are in sequences"
        self.queue: Final = queue
        self.client: Final = client
        self.composer: Final = composer
        self.reader: Final = ResponseReader(client)
        self.replays: Final = replays
        self._transfer = transfer
        self._sequences = sequences
        self._awaited: OrderedDict[int, list[ComposedRequest]] = OrderedDict()
        """By message, its latest requests whose answers come by themselves."""
        self._by_id: dict[str, int] = {}
        """The same messages by their MessageIDs, some of which rules have given."""

    async def send(self, message: StoredMessage, attempt: SoapAttempt) -> DeliveryResult:
        """Make one attempt. Never raises for what others have written."""
        try:
            operation = self.composer.check(message)
        except MessageError as error:
            return DeliveryFailed(kind=error.kind, reason=error.message, again=False)
        if self.client.reliability is not None and self._sequences is not None:
            return await self._sequences.send_numbered(self, message, operation, attempt)
        request, response = await self.exchange_message(message, operation, attempt)
        if response.result is not None:
            return replace(response.result, facts=response.facts())
        if request.wants_reply and request.answer == AnswerPlace.ENDPOINT:
            return await_answer(attempt.settings, response)
        return Delivered(status=response.status or "", facts=response.facts())

    async def exchange_message(
        self, message: StoredMessage, operation: Operation, attempt: SoapAttempt, blocks: Sequence[str] = ()
    ) -> tuple[ComposedRequest, SoapResponse]:
        """Send a message with header blocks, and return what was sent and what came back."""
        request = self.composer.compose(message, operation, attempt.address, blocks)
        return await self._exchange(request, attempt, message.seq)

    async def exchange_protocol(
        self, body: str | None, action: str, message_id: str, attempt: SoapAttempt, blocks: Sequence[str] = ()
    ) -> SoapResponse:
        """Send a message of WS-ReliableMessaging, and return what came back."""
        request = self.composer.compose_protocol(body, action, attempt.address, message_id, blocks)
        return (await self._exchange(request, attempt, None))[1]

    def awaited(self, message: int) -> Sequence[ComposedRequest]:
        """Return the latest requests of a message whose answer comes by itself, the last one first."""
        return list(reversed(self._awaited.get(message, [])))

    def find_awaited(self, message_id: str) -> int | None:
        """Return the message that was sent with a MessageID which a rule has given."""
        return self._by_id.get(message_id)

    async def _exchange(
        self, request: ComposedRequest, attempt: SoapAttempt, message: int | None
    ) -> tuple[ComposedRequest, SoapResponse]:
        if self.client.security is not None:
            if self.client.sends_user and not attempt.may_have_password:
                reason = (
                    "the recipient is not trusted with our user: credentials_to in the settings lists those who are"
                )
                return request, SoapResponse(result=DeliveryFailed(kind="routing", reason=reason, again=False))
            try:
                request = await asyncio.to_thread(self.composer.secure, request)
            except OperatorError as error:
                return request, SoapResponse(result=DeliveryFailed(kind="systemError", reason=str(error)))
            except MessageError as error:
                return request, SoapResponse(result=DeliveryFailed(kind=error.kind, reason=error.message, again=False))
        if message is not None and request.answer == AnswerPlace.ENDPOINT:
            self._remember(message, request)
        headers = {**attempt.headers, **request.headers}
        got = await self._transfer(self.queue, attempt.address, request.data, headers, attempt.settings)
        if isinstance(got, DeliveryFailed):
            return request, SoapResponse(result=got)
        if isinstance(got, UnreadableResponse):
            return request, self.reader.judge_unreadable(request, got.response, got.kind, got.reason)
        return request, await self.read(request, got)

    async def read(self, request: ComposedRequest, response: HttpResponse) -> SoapResponse:
        """Return what a response says. One that came before says nothing."""
        if self.client.security is None and len(response.body) <= PARSE_INLINE_BYTES_MAX:
            return self.reader.read(request, response)
        read = await asyncio.to_thread(self.reader.read, request, response)
        try:
            is_new = self.replays is None or await self.replays.claim(read.replay_keys)
        except OperatorError as error:
            failed = DeliveryFailed(kind="systemError", reason=str(error), status=response.status_text)
            return SoapResponse(result=failed, status=response.status_text, is_verified=False)
        if is_new:
            return read
        failed = DeliveryFailed(kind="refused", reason="the answer was received before", status=response.status_text)
        return SoapResponse(result=failed, status=response.status_text, is_verified=False)

    def _remember(self, message: int, request: ComposedRequest) -> None:
        kept = replace(request, data=b"", headers={})
        self._awaited[message] = [*self._awaited.get(message, [])[-7:], kept]
        self._awaited.move_to_end(message)
        if request.message_id is not None:
            self._by_id[request.message_id] = message
        if len(self._awaited) > AWAITED_MAX:
            _, forgotten = self._awaited.popitem(last=False)
            self._by_id.pop(forgotten[-1].message_id or "", None)


def await_answer(settings: OutgoingSettings, response: SoapResponse) -> Awaiting:
    """Return the result of a request that was accepted, and whose answer comes by itself."""
    return Awaiting(
        seconds=settings.reply_seconds,
        reason="the other side has accepted the message, and no answer has come",
        status=response.status,
        facts=response.facts(),
    )
