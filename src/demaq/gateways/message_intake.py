"""Store messages from outside, for many senders in one transaction (group commit).

What a message changes about its sequence, and what is remembered to recognise a replay, is part of that transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from demaq.batching import AsyncBatcher
from demaq.documents import Document
from demaq.engine.arrivals import EvaluatedArrivals
from demaq.engine.engine import Engine
from demaq.engine.error_routing import RefusedMessage
from demaq.engine.intake import IncomingMessage, expect_repeated
from demaq.errors import MessageError, OperatorError
from demaq.evaluation.round_request import PropertyEvaluator
from demaq.evaluation.state.snapshot_reader import date_time
from demaq.evaluation.workers.receiver import Receiver, TakesLong
from demaq.gateways.admission import Admission
from demaq.gateways.reliability.inbound_sequences import InboundSequences
from demaq.gateways.reliability.sequence_plans import MessagePlan, Planning, SequencePlanner
from demaq.gateways.reliability.sequence_requests import SequencedArrival, SequenceOutcome, SequenceRequest
from demaq.messages import PropertyValue
from demaq.records import record
from demaq.store.protocol import NewMessage, SequenceChanges, StoredAnswer
from demaq.store.request_names import SEPARATOR

BATCH_BYTES_MAX = 32_000_000
TURNS = 32
"""Turns of the event loop, about a tenth of a millisecond, in which the next of some expected requests may come."""
SLOW_MAX = 100
"""How many messages that take long to check may wait, each for the ones before it; more are refused for now."""


@record
class Receipt:
    message: int | None
    """The number of the message; None if it is not stored as one (yet), because of its place in its sequence."""
    is_new: bool
    """Whether it was stored now; False if a request of that name was known, and this is the number of the first one."""
    sequence: SequenceOutcome | None = None
    """What became of its sequence, if it came in one."""
    error: MessageError | None = None
    """Why it was refused, if it has been acknowledged in its sequence all the same."""


@dataclass(slots=True)
class _IntakeRequest:
    queue: str
    sent: IncomingMessage
    refusal: MessageError | None = None
    """Why it is refused, if that is known already."""
    arrival: SequencedArrival | None = None
    replay_keys: Mapping[str, datetime] = field(default_factory=dict)


class _IntakeResult(NamedTuple):
    """What became of a request, and the messages that were stored for it."""

    queue: str
    outcome: Receipt | MessageError
    messages: tuple[NewMessage, ...]


@dataclass(frozen=True, slots=True)
class Submitted:
    """A message that waits for its transaction, or is in it."""

    request: _IntakeRequest
    result: asyncio.Future[_IntakeResult]

    def find_receipt(self) -> Receipt | None:
        """Return the receipt if the message is stored; None if it is not, or not yet."""
        if not self.result.done() or self.result.cancelled() or self.result.exception() is not None:
            return None
        outcome = self.result.result().outcome
        return outcome if isinstance(outcome, Receipt) else None


class _SequenceResult(NamedTuple):
    """What became of a request about a sequence, and the messages that it has released."""

    outcome: SequenceOutcome | MessageError
    messages: tuple[NewMessage, ...]


class Intake:
    """Takes the messages of all listeners. Belongs to one event loop."""

    def __init__(
        self,
        engine: Engine,
        admission: Admission,
        notify: Callable[[Sequence[NewMessage]], None] = lambda messages: None,
        sequences: InboundSequences | None = None,
    ) -> None:
        """`notify` gets the messages of each commit, in the event loop."""
        self._engine = engine
        self._planner = SequencePlanner(engine, sequences or InboundSequences(engine.store, engine.clock))
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
        self._sequence_requests = AsyncBatcher(
            self._change_sequences, self._thread, observe=self._note_sequence_results
        )
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
        arrival: SequencedArrival | None = None,
        replay_keys: Mapping[str, datetime] | None = None,
    ) -> Receipt:
        """Store a message; durable on return. `document` is the body, if it was parsed already.

        `hops` is how far it has come on other nodes. A message that is an `arrival` in a sequence is stored, held back
        or ignored as its sequence says; what its receipt says of the sequence is durable as well.

        Raises a MessageError after the refusal was stored with the body in the right error queue, and Overloaded if
        nothing was stored.
        """
        sent = IncomingMessage(body, properties or {}, request, as_properties(transport), document, hops)
        return await self._take(_IntakeRequest(queue, sent, arrival=arrival, replay_keys=replay_keys or {}))

    def is_open(self, queue: str) -> bool:
        """Return whether it is known, without waiting for anything, that a message may come to a gateway."""
        return self._admission.is_open(queue, self._requests.waiting)

    def begin(
        self,
        queue: str,
        body: bytes | str,
        *,
        transport: Mapping[str, PropertyValue],
        properties: Mapping[str, str],
        request: str | None,
        document: Document,
        hops: int,
    ) -> Submitted:
        """Admit a message and begin to store it, as `receive`, but without waiting for anything.

        Only for a gateway that is open. Raises Overloaded if it has just been paused.
        """
        self.admit(queue)
        asked = _IntakeRequest(queue, IncomingMessage(body, properties, request, transport, document, hops))
        return Submitted(asked, self._requests.submit_soon(asked))

    async def finish(self, submitted: Submitted) -> Receipt:
        """Return the receipt of a message whose storing was begun. Raises what `receive` raises."""
        request = submitted.request
        try:
            outcome = (await submitted.result).outcome
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

    async def refuse(
        self,
        queue: str,
        body: bytes | str,
        error: MessageError,
        *,
        request: str | None = None,
        hops: int = 0,
        arrival: SequencedArrival | None = None,
        replay_keys: Mapping[str, datetime] | None = None,
    ) -> Receipt:
        """Store a message that must be refused in an error message. Return what became of its sequence."""
        sent = IncomingMessage(body, {}, request, hops=hops)
        asked = _IntakeRequest(queue, sent, refusal=error, arrival=arrival, replay_keys=replay_keys or {})
        try:
            return await self._take(asked)
        except MessageError:
            return Receipt(message=None, is_new=False)

    async def change_sequence(self, request: SequenceRequest) -> SequenceOutcome:
        """Create, close, terminate or acknowledge a sequence; durable on return.

        Raises a MessageError if the request is a replay, and Overloaded if the store cannot be used now.
        """
        try:
            outcome = (await self._sequence_requests.submit(request)).outcome
        except OperatorError:
            raise self._admission.overload(request.owner.queue) from None
        if isinstance(outcome, MessageError):
            raise outcome
        return outcome

    async def end_inactive_sequences(self) -> None:
        """Terminate sequences that have expired or were not used for too long."""
        loop = asyncio.get_running_loop()
        self._notify(await loop.run_in_executor(self._thread, self._planner.end_inactive))

    async def close(self) -> None:
        """Store what waits, and end."""
        await self._requests.drain()
        await self._sequence_requests.drain()
        self.stop_slow()
        await self._slow_requests.drain()
        self._thread.shutdown()
        self._slow_thread.shutdown()
        await self._admission.close()

    def stop_slow(self) -> None:
        """Give up messages that take long to check: their senders get an error. May be called from any thread."""
        if self._slow_requests.pending and isinstance(self._engine.receiver, Receiver):
            self._engine.receiver.stop()

    def admit(self, *queues: str) -> None:
        """Let a message come to gateways, before it is stored. Raises Overloaded if it may not come to one now."""
        self._admission.admit(*queues)

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
        return await self.finish(Submitted(request, self._requests.submit_soon(request)))

    def _note_results(self, results: Sequence[_IntakeResult]) -> None:
        self._notify([message for result in results for message in result.messages])
        for queue, outcome, _ in results:
            if isinstance(outcome, Receipt) and outcome.error is not None:
                self.refused[queue, outcome.error.kind] = self.refused.get((queue, outcome.error.kind), 0) + 1
            elif isinstance(outcome, Receipt):
                self.accepted[queue] = self.accepted.get(queue, 0) + 1
            elif not isinstance(outcome, TakesLong):
                self.refused[queue, outcome.kind] = self.refused.get((queue, outcome.kind), 0) + 1

    def _note_sequence_results(self, results: Sequence[_SequenceResult]) -> None:
        self._notify([message for result in results for message in result.messages])

    # in the threads

    def _store(self, requests: Sequence[_IntakeRequest]) -> list[_IntakeResult]:
        return self._check_and_store(requests, self._engine.quick_receiver)

    def _store_slow(self, requests: Sequence[_IntakeRequest]) -> list[_IntakeResult]:
        return self._check_and_store(requests, self._engine.receiver)

    def _check_and_store(self, requests: Sequence[_IntakeRequest], receiver: PropertyEvaluator) -> list[_IntakeResult]:
        """Check and store requests in one transaction. The outcome is TakesLong for those that a slow check is left."""
        now = self._engine.clock()
        arrived = _arrived_at(now)
        sent = [each.sent._replace(inherited={**each.sent.inherited, **arrived}) for each in requests]
        is_plain = all([each.arrival is None and not each.replay_keys and each.refusal is None for each in requests])
        if is_plain and receiver is self._engine.quick_receiver:
            evaluated = self._evaluate(requests, sent, now)
            if evaluated is not None:
                return self._store_evaluated(requests, evaluated, now)
        checked = self._check(requests, sent, receiver, now)
        messages = [each for each in checked if isinstance(each, NewMessage)]
        if is_plain and len(messages) == len(requests):
            return self._store_plain(requests, messages, now)
        kept = [number for number, result in enumerate(checked) if not isinstance(result, TakesLong)]
        if any([requests[number].arrival is not None or requests[number].replay_keys for number in kept]):
            with self._planner.begin() as planning:
                plans = {number: self._plan_in(planning, requests[number], checked[number], now) for number in kept}
                stored = self._append(plans, planning.changes())
        else:
            plans = {number: self._plan(requests[number], checked[number], now) for number in kept}
            stored = self._append(plans)
        return self._conclude(requests, plans, stored, now)

    def _evaluate(
        self, requests: Sequence[_IntakeRequest], sent: Sequence[IncomingMessage], now: datetime
    ) -> EvaluatedArrivals | None:
        """Evaluate the rules of requests before they are stored; None if they are to be stored first."""
        factory = self._engine.factory
        if not all(
            [each.queue in factory.program.queues and factory.priority(each.queue) is not None for each in requests]
        ):
            return None  # a queue without rules
        return self._engine.arrivals.evaluate(list(zip([each.queue for each in requests], sent, strict=True)), now)

    def _store_plain(
        self, requests: Sequence[_IntakeRequest], messages: Sequence[NewMessage], now: datetime
    ) -> list[_IntakeResult]:
        """Store requests of which each is a message, and none belongs to a sequence."""
        stored = self._engine.append_numbered(messages)
        if all([is_new for _, is_new in stored]):
            return [
                _IntakeResult(request.queue, Receipt(message=seq, is_new=True), (message,))
                for request, message, (seq, _) in zip(requests, messages, stored, strict=True)
            ]
        plans = {number: MessagePlan(messages=(message,), has_own=True) for number, message in enumerate(messages)}
        return self._conclude(requests, plans, {number: [each] for number, each in enumerate(stored)}, now)

    def _store_evaluated(
        self, requests: Sequence[_IntakeRequest], evaluated: EvaluatedArrivals, now: datetime
    ) -> list[_IntakeResult]:
        """Store requests with the effects of their rules, and the reports of those that are refused."""
        try:
            plans = {
                number: self._plan_evaluated(request, result, now)
                for number, (request, result) in enumerate(zip(requests, evaluated.results, strict=True))
            }
        except BaseException:
            evaluated.drop()
            raise
        reports = {number: plan.messages[0] for number, plan in plans.items() if plan.error is not None}
        stored = {number: [each] for number, each in enumerate(evaluated.commit(reports))}
        return self._conclude(requests, plans, stored, now)

    def _plan_evaluated(self, request: _IntakeRequest, result: object, now: datetime) -> MessagePlan:
        if isinstance(result, NewMessage | MessageError):
            return self._plan(request, result, now)
        return MessagePlan(messages=(), has_own=True)  # only its effects are stored

    def _plan_in(
        self, planning: Planning, request: _IntakeRequest, checked: NewMessage | MessageError, now: datetime
    ) -> MessagePlan:
        def report(error: MessageError) -> NewMessage:
            return self._report(request, error, now)

        return planning.plan(request.queue, request.sent, checked, request.arrival, request.replay_keys, report)

    def _plan(self, request: _IntakeRequest, checked: NewMessage | MessageError, now: datetime) -> MessagePlan:
        if isinstance(checked, MessageError):
            return MessagePlan(messages=(self._report(request, checked, now),), error=checked)
        return MessagePlan(messages=(checked,), has_own=True)

    def _append(
        self, plans: Mapping[int, MessagePlan], changes: SequenceChanges | None = None
    ) -> dict[int, list[tuple[int, bool]]]:
        """Store all messages and changes in one transaction. Return for each request the numbers of its messages."""
        messages = [message for plan in plans.values() for message in plan.messages]
        numbers = iter(self._engine.append_numbered(messages, changes=changes) if messages or changes else ())
        return {number: [next(numbers) for _ in plan.messages] for number, plan in plans.items()}

    def _conclude(
        self,
        requests: Sequence[_IntakeRequest],
        plans: Mapping[int, MessagePlan],
        stored: Mapping[int, list[tuple[int, bool]]],
        now: datetime,
    ) -> list[_IntakeResult]:
        """Return the results. A request of a known name that is not the same as the first one is reported."""
        results: list[_IntakeResult] = []
        reports: list[NewMessage] = []
        for number, request in enumerate(requests):
            plan = plans.get(number)
            if plan is None:
                results.append(_IntakeResult(request.queue, TakesLong(), ()))
                continue
            outcome: Receipt | MessageError | None = plan.error
            report: tuple[NewMessage, ...] = ()
            if plan.error is None or plan.sequence is not None:
                seq, is_new = stored[number][0] if plan.has_own else (None, False)
                mismatch = self._find_mismatch(request) if plan.has_own and not is_new else None
                outcome = mismatch or Receipt(message=seq, is_new=is_new, sequence=plan.sequence, error=plan.error)
                report = () if mismatch is None else (self._report(request, mismatch, now),)
            assert outcome is not None, "it is stored or refused"
            reports.extend(report)
            results.append(_IntakeResult(request.queue, outcome, (*plan.messages, *report)))
        if reports:
            self._engine.append(reports)
        return results

    def _change_sequences(self, requests: Sequence[SequenceRequest]) -> list[_SequenceResult]:
        return [_SequenceResult(outcome, messages) for outcome, messages in self._planner.change(requests)]

    def _check(
        self,
        requests: Sequence[_IntakeRequest],
        sent: Sequence[IncomingMessage],
        receiver: PropertyEvaluator,
        now: datetime,
    ) -> list[NewMessage | MessageError]:
        """Return for each request the message to store, or why it is refused."""
        checked: dict[int, NewMessage | MessageError] = {}
        by_queue: dict[str, list[int]] = {}
        for number, request in enumerate(requests):
            if request.refusal is not None:
                checked[number] = request.refusal
            else:
                by_queue.setdefault(request.queue, []).append(number)
        for queue, numbers in by_queue.items():
            found = self._engine.factory.receive_all(queue, [sent[number] for number in numbers], now, receiver)
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


def as_properties(transport: Mapping[str, str]) -> dict[str, PropertyValue]:
    return {name: PropertyValue.string(text) for name, text in transport.items()}


def _arrived_at(now: datetime) -> dict[str, PropertyValue]:
    text = date_time(now)
    return {"demaq:arrived": PropertyValue("dateTime", text, text)}
