"""Store messages from outside, for many senders in one transaction (group commit)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from demaq.batching import AsyncBatcher
from demaq.documents import Document
from demaq.engine.engine import Engine
from demaq.engine.error_routing import RefusedMessage
from demaq.engine.intake import IncomingMessage, expect_repeated
from demaq.errors import MessageError, OperatorError
from demaq.evaluation.round_request import PropertyEvaluator
from demaq.evaluation.state.snapshot_reader import date_time
from demaq.evaluation.workers.receiver import Receiver, TakesLong
from demaq.gateways.admission import Admission
from demaq.messages import PropertyValue
from demaq.store.protocol import NewMessage, StoredAnswer
from demaq.store.request_names import SEPARATOR

BATCH_BYTES_MAX = 32_000_000
TURNS = 2
"""Turns of the event loop in which requests that have arrived already are read, and join the batch."""
SLOW_MAX = 100
"""How many messages that take long to check may wait, each for the ones before it; more are refused for now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    message: int
    """The number of the message."""
    is_new: bool
    """Whether it was stored now; False if a request of that name was known, and this is the number of the first one."""


@dataclass(slots=True)
class _IntakeRequest:
    queue: str
    sent: IncomingMessage
    refusal: MessageError | None = None
    """Why it is refused, if that is known already."""


class _IntakeResult(NamedTuple):
    """What became of a request, and the messages that were stored for it."""

    queue: str
    outcome: Receipt | MessageError
    messages: tuple[NewMessage, ...]


class Intake:
    """Takes the messages of all listeners. Belongs to one event loop."""

    def __init__(
        self,
        engine: Engine,
        admission: Admission,
        notify: Callable[[Sequence[NewMessage]], None] = lambda messages: None,
    ) -> None:
        """`notify` gets the messages of each commit, in the event loop."""
        self._engine = engine
        self._admission = admission
        self._notify = notify
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="demaq-intake")
        self._requests = AsyncBatcher(
            self._store,
            self._thread,
            size_max=BATCH_BYTES_MAX,
            size_of=lambda request: len(request.sent.body),
            turns=TURNS,
            observe=self._note_results,
        )
        self._slow_thread = ThreadPoolExecutor(1, thread_name_prefix="demaq-slow-intake")
        self._slow_requests = AsyncBatcher(self._store_slow, self._slow_thread, items_max=1, observe=self._note_results)
        """Messages that take long to check, one after the other, while the others go on."""
        self.accepted: dict[str, int] = {}
        self.refused: dict[tuple[str, str], int] = {}
        """How many, by queue, and by queue and kind of error."""

    async def receive(
        self,
        queue: str,
        body: bytes | str,
        *,
        transport: Mapping[str, str],
        properties: Mapping[str, str] | None = None,
        request: str | None = None,
        document: Document | None = None,
        hops: int = 0,
    ) -> Receipt:
        """Store a message; durable on return. `document` is the body, if it was parsed already.

        `hops` is how far it has come on other nodes.

        Raises a MessageError after the refusal was stored with the body in the right error queue, and Overloaded if
        nothing was stored.
        """
        known = {name: PropertyValue.string(text) for name, text in transport.items()}
        sent = IncomingMessage(body, properties or {}, request, known, document, hops)
        return await self._take(_IntakeRequest(queue, sent))

    async def refuse(
        self, queue: str, body: bytes | str, error: MessageError, *, request: str | None = None, hops: int = 0
    ) -> MessageError:
        """Store a message that must be refused in an error message. Return the error."""
        sent = IncomingMessage(body, {}, request, hops=hops)
        try:
            await self._take(_IntakeRequest(queue, sent, refusal=error))
        except MessageError as refused:
            return refused
        return error

    async def close(self) -> None:
        """Store what waits, and end."""
        await self._requests.drain()
        self.stop_slow()
        await self._slow_requests.drain()
        self._thread.shutdown()
        self._slow_thread.shutdown()
        await self._admission.close()

    def stop_slow(self) -> None:
        """Give up messages that take long to check: their senders get an error. May be called from any thread."""
        if self._slow_requests.pending and isinstance(self._engine.receiver, Receiver):
            self._engine.receiver.stop()

    async def find_refusal(self, queue: str) -> str | None:
        """Return why a gateway takes no messages now, if it takes none."""
        return await self._admission.find_refusal(queue, self._requests.waiting)

    async def read_answer(self, connection: str) -> StoredAnswer | None:
        """Return what was answered on a connection, if it is still stored."""
        return await self._admission.read_answer(connection)

    async def _take(self, request: _IntakeRequest) -> Receipt:
        refusal = await self.find_refusal(request.queue)
        if refusal is not None:
            raise self._admission.overload(request.queue, refusal)
        try:
            outcome = (await self._requests.submit(request)).outcome
            if isinstance(outcome, TakesLong):
                if self._slow_requests.pending >= SLOW_MAX:
                    reason = f"{SLOW_MAX} messages that take long wait to be checked"
                    raise self._admission.overload(request.queue, reason)
                outcome = (await self._slow_requests.submit(request)).outcome
        except OperatorError:  # the store, the disk or the evaluator: the sender can try again
            raise self._admission.overload(request.queue) from None
        if isinstance(outcome, MessageError):
            raise outcome
        return outcome

    def _note_results(self, results: Sequence[_IntakeResult]) -> None:
        self._notify([message for result in results for message in result.messages])
        for queue, outcome, _ in results:
            if isinstance(outcome, Receipt):
                self.accepted[queue] = self.accepted.get(queue, 0) + 1
            elif not isinstance(outcome, TakesLong):
                self.refused[queue, outcome.kind] = self.refused.get((queue, outcome.kind), 0) + 1

    # in the threads

    def _store(self, requests: Sequence[_IntakeRequest]) -> list[_IntakeResult]:
        return self._check_and_store(requests, self._engine.quick_receiver)

    def _store_slow(self, requests: Sequence[_IntakeRequest]) -> list[_IntakeResult]:
        return self._check_and_store(requests, self._engine.receiver)

    def _check_and_store(self, requests: Sequence[_IntakeRequest], receiver: PropertyEvaluator) -> list[_IntakeResult]:
        """Check and store requests in one transaction. The outcome is TakesLong for those that a slow check is left."""
        now = self._engine.clock()
        checked = self._check(requests, receiver, now)
        messages = {
            number: self._report(requests[number], result, now) if isinstance(result, MessageError) else result
            for number, result in enumerate(checked)
            if not isinstance(result, TakesLong)
        }
        stored = self._engine.append_numbered(list(messages.values())) if messages else []
        receipts = dict(zip(messages, stored, strict=True))
        results: list[_IntakeResult] = []
        reports: list[NewMessage] = []
        for number, (request, result) in enumerate(zip(requests, checked, strict=True)):
            if isinstance(result, TakesLong):
                results.append(_IntakeResult(request.queue, result, ()))
            elif isinstance(result, MessageError):
                results.append(_IntakeResult(request.queue, result, (messages[number],)))
            else:
                seq, is_new = receipts[number]
                mismatch = None if is_new else self._find_mismatch(request)
                outcome = Receipt(message=seq, is_new=is_new) if mismatch is None else mismatch
                report = () if mismatch is None else (self._report(request, mismatch, now),)
                reports.extend(report)
                results.append(_IntakeResult(request.queue, outcome, (messages[number], *report)))
        if reports:
            self._engine.append(reports)
        return results

    def _check(
        self, requests: Sequence[_IntakeRequest], receiver: PropertyEvaluator, now: datetime
    ) -> list[NewMessage | MessageError]:
        """Return for each request the message to store, or why it is refused."""
        text = date_time(now)
        arrived = {"demaq:arrived": PropertyValue("dateTime", text, text)}
        checked: dict[int, NewMessage | MessageError] = {}
        by_queue: dict[str, list[int]] = {}
        for number, request in enumerate(requests):
            if request.refusal is not None:
                checked[number] = request.refusal
            else:
                by_queue.setdefault(request.queue, []).append(number)
        for queue, numbers in by_queue.items():
            sent = [requests[number].sent for number in numbers]
            incoming = [replace(each, inherited={**each.inherited, **arrived}) for each in sent]
            found = self._engine.factory.receive_all(queue, incoming, now, receiver)
            checked.update(zip(numbers, found, strict=True))
        return [checked[number] for number in range(len(requests))]

    def _find_mismatch(self, request: _IntakeRequest) -> MessageError | None:
        """Return why a request of a known name is refused, if it is not the same as the first one."""
        try:
            expect_repeated(self._engine.store, request.sent.request)
        except MessageError as error:
            return error
        return None

    def _report(self, request: _IntakeRequest, error: MessageError, now: datetime) -> NewMessage:
        """Return the error message about a refused one. A repeated request is refused again, but reported once."""
        sent = request.sent
        # Without the digest in its name: whatever else comes under that name and is refused is reported, too.
        name = None if sent.request is None else f"refused:{sent.request.replace(SEPARATOR, ':')}"
        about = RefusedMessage.of(request.queue, sent.body, error, sent.document)
        return self._engine.factory.make_refusal(error, about, now, name, sent.hops)
