"""Messages of outgoing gateways that were sent, or given up: what that makes of them, as steps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from demaq.documents import parse_document
from demaq.engine.error_routing import Failure
from demaq.engine.message_factory import MessageFactory
from demaq.errors import MessageError
from demaq.evaluation.round_request import PropertyEvaluator, PropertyRequest, compute_one
from demaq.store.protocol import Attempt, NewMessage, Step, StoredAnswer, StoredMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A message that is not to be sent any more, and why."""

    message: StoredMessage
    attempt: Attempt
    reply: str | None = None
    """The document that came back."""
    answer: StoredAnswer | None = None
    """What was answered with it, where that may be asked for again."""
    failure: tuple[str, str] | None = None
    """Kind and description of the error, where it was given up."""
    status: int | None = None
    """What the other side has refused it with."""
    fault: str | None = None
    """What a SOAP fault that came back says, as an element of the error message."""


class Sending:
    """Makes the steps of one program."""

    def __init__(self, maker: MessageFactory, receiver: PropertyEvaluator) -> None:
        self._maker = maker
        self._receiver = receiver
        self._rules = {rule.name: rule for rule in maker.program.rules}

    def step(self, ended: Ended, now: datetime) -> Step:
        """The delivery, with the answer that came or the error that is to be told."""
        message = ended.message
        created: list[NewMessage] = []
        if ended.failure is not None:
            kind, description = ended.failure
            created = self._failed(message, kind, description, ended.attempt.number, now, ended.status, ended.fault)
        elif ended.reply is not None:
            created = self._replied(message, ended.reply, ended.attempt.number, now)
        is_done_by_this = message.processed is None and self._maker.priority(message.queue) is None
        return Step(
            processed=message.seq if is_done_by_this else None,
            delivered=message.seq,
            attempt=ended.attempt,
            answer=ended.answer,
            created=tuple(created),
        )

    def _replied(self, message: StoredMessage, reply: str, attempt: int, now: datetime) -> list[NewMessage]:
        gateway = self._maker.program.queues[message.queue].gateway
        queue = gateway.replyto if gateway is not None else None
        if queue is None:
            return []
        try:
            document = parse_document(reply)
            arrival = PropertyRequest(queue=queue, document=document, now=now, inherited=message.properties)
            received = compute_one(self._receiver, arrival)
        except MessageError as error:
            return self._failed(message, error.kind, f"the answer is refused: {error.message}", attempt, now)
        return [self._maker.new(queue, document, received.properties, received.entries, now, trigger=message)]

    def _failed(
        self,
        message: StoredMessage,
        kind: str,
        description: str,
        attempt: int,
        now: datetime,
        status: int | None = None,
        fault: str | None = None,
    ) -> list[NewMessage]:
        """Routed by the rule that made the message."""
        failure = Failure(
            kind=kind,
            code=f"demaq:{kind}",
            description=description,
            rule=self._rules.get(message.rule or ""),
            attempt=attempt,
            status=status if kind == "refused" else None,
            fault=fault,
        )
        return self._maker.errors(failure, message, now)
