"""Deliveries that have ended become steps: the message is delivered, a reply or an error message is created."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from demaq.engine.error_routing import Failure
from demaq.engine.intake import IncomingMessage
from demaq.engine.message_factory import MessageFactory
from demaq.errors import MessageError
from demaq.store.protocol import Attempt, NewMessage, Step, StoredAnswer, StoredMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A delivery that has ended, successfully or not."""

    message: StoredMessage
    attempt: Attempt
    reply: str | None = None
    """The document of the response."""
    answer: StoredAnswer | None = None
    """What the sender on the connection was answered, if it may ask again."""
    failure: tuple[str, str] | None = None
    """Kind and description of the error, if it has failed."""
    status: int | None = None
    """The status of the response that refused it."""
    fault: str | None = None
    """The SOAP fault of the response, as an element of the error message."""


class Deliveries:
    """Makes the steps of one program."""

    def __init__(self, factory: MessageFactory) -> None:
        self._factory = factory
        self._rules = {rule.name: rule for rule in factory.program.rules}

    def make_step(self, ended: Ended, now: datetime) -> Step:
        """Return the step of a delivery, with the reply or the error message that it leads to."""
        message = ended.message
        created: list[NewMessage] = []
        if ended.failure is not None:
            kind, description = ended.failure
            created = self._make_errors(
                message, kind, description, ended.attempt.number, now, ended.status, ended.fault
            )
        elif ended.reply is not None:
            created = self._make_reply(message, ended.reply, ended.attempt.number, now)
        is_done_by_this = message.processed is None and self._factory.priority(message.queue) is None
        return Step(
            processed=message.seq if is_done_by_this else None,
            delivered=message.seq,
            attempt=ended.attempt,
            answer=ended.answer,
            created=tuple(created),
        )

    def _make_reply(self, message: StoredMessage, reply: str, attempt: int, now: datetime) -> list[NewMessage]:
        gateway = self._factory.program.queues[message.queue].gateway
        queue = gateway.replyto if gateway is not None else None
        if queue is None:
            return []
        incoming = IncomingMessage(reply, inherited=message.properties, hops=message.hops + 1, trigger=message)
        try:
            return [self._factory.receive(queue, incoming, now)]
        except MessageError as error:
            return self._make_errors(message, error.kind, f"the response is refused: {error.message}", attempt, now)

    def _make_errors(
        self,
        message: StoredMessage,
        kind: str,
        description: str,
        attempt: int,
        now: datetime,
        status: int | None = None,
        fault: str | None = None,
    ) -> list[NewMessage]:
        """Return the error message, routed by the rule that created the message."""
        failure = Failure(
            kind=kind,
            code=f"demaq:{kind}",
            description=description,
            rule=self._rules.get(message.rule or ""),
            attempt=attempt,
            status=status if kind == "refused" else None,
            fault=fault,
        )
        return self._factory.make_errors(failure, message, now)
