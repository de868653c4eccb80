"""Check many messages from outside at once, as each alone would be: what may be stored, or why it is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from demaq.documents import Document, parse_document
from demaq.engine.intake import expect_queue, explicit_properties
from demaq.engine.message_factory import MessageFactory
from demaq.errors import MessageError
from demaq.evaluation.round_request import PropertyEvaluator, PropertyRequest
from demaq.messages import PropertyValue
from demaq.store.protocol import NewMessage


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """What a sender gives for a message."""

    body: str | bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    request: str | None = None
    transport: Mapping[str, PropertyValue] = field(default_factory=dict)
    """What is known about how it came here."""
    document: Document | None = None
    """The body, where it was read already."""
    hops: int = 0
    """How many hops it is from the message with which it began on other nodes."""


def receive_all(
    maker: MessageFactory, evaluator: PropertyEvaluator, queue: str, sent: Sequence[IncomingMessage], now: datetime
) -> list[NewMessage | MessageError]:
    """Raises a MessageError where there is no such queue; what is wrong with one message stands in its place."""
    expect_queue(maker.program, queue)
    answers: dict[int, NewMessage | MessageError] = {}
    arrivals: dict[int, PropertyRequest] = {}
    for number, each in enumerate(sent):
        try:
            explicit = explicit_properties(maker.program, queue, each.properties)
            document = each.document or parse_document(each.body)
            computed = None if explicit else maker.computed(queue, document)
            if computed is not None:
                properties, entries = computed
                known = {**each.transport, **properties}
                answers[number] = maker.new(queue, document, known, entries, now, request=each.request, hops=each.hops)
            else:
                arrivals[number] = PropertyRequest(
                    queue=queue, document=document, explicit=explicit, now=now, inherited=each.transport
                )
        except MessageError as error:
            answers[number] = error
    for number, received in zip(arrivals, evaluator.compute_properties(list(arrivals.values())), strict=True):
        if isinstance(received, MessageError):
            answers[number] = received
            continue
        try:
            known = {**sent[number].transport, **received.properties}
            answers[number] = maker.new(
                queue,
                received.document,
                known,
                received.entries,
                now,
                request=sent[number].request,
                hops=sent[number].hops,
            )
        except MessageError as error:
            answers[number] = error
    return [answers[number] for number in range(len(sent))]
