"""Note what became of attempts: those that end at about the same time are stored in one transaction.

An attempt occupies its connection only until the other side has answered. Its message stays known until the note is
stored: so it is neither sent again meanwhile nor overtaken by later ones of its slices.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from demaq.backoff import Backoff
from demaq.batching import AsyncBatcher
from demaq.engine.delivery import Ended
from demaq.engine.engine import Engine
from demaq.engine.step_spans import StepSpans
from demaq.errors import AlreadyProcessed, OperatorError
from demaq.gateways.counters import ResultCounts
from demaq.gateways.outbox.connection_answers import ConnectionAnswers
from demaq.gateways.outbox.delivery_results import Awaiting, Delivered, DeliveryFailed, DeliveryResult
from demaq.gateways.outbox.destination import Answering
from demaq.gateways.outbox.outcome_store import OutcomeNote
from demaq.gateways.outbox.outgoing_gateway import OutgoingGateway
from demaq.gateways.outbox.peers import RETRY_AFTER_SECONDS_MAX, pause_seconds
from demaq.gateways.outbox.send_attempt import SendAttempt, is_about_other_side, make_ended
from demaq.gateways.outbox.waiting import Due
from demaq.gateways.reliability.outbound_channels import OutboundChannels
from demaq.language.endpoints import Destination
from demaq.masking import mask_address
from demaq.outage_log import OutageLog
from demaq.store.protocol import Attempt, Postponed, StoredMessage

STORE_BACKOFF = Backoff(seconds_first=0.1, seconds_max=2.0)
"""After a fault of the store."""
NOTE_ATTEMPTS_MAX = 5
"""So often an answer that makes the system fail is tried to be stored, before it is an error."""
LINGER_SECONDS = 0.01
"""So long a note waits for others if nothing depends on it."""
LINGER_NOTES = 128
"""If there are so many, they do not wait."""

_log = logging.getLogger("demaq.outbox")

Spawn = Callable[[Coroutine[Any, Any, None]], None]
"""Lets a coroutine run as a task of the outbox."""


@dataclass(slots=True, eq=False)
class _Unnoted:
    """An attempt whose result is not stored yet."""

    gateway: OutgoingGateway
    due: Due
    message: StoredMessage | None
    """None if it was not even tried; then it is tried again."""
    attempt: SendAttempt
    result: DeliveryResult
    faults: int = 0


class AttemptNotes:
    """Belongs to one event loop."""

    def __init__(
        self,
        engine: Engine,
        gateways: Mapping[str, OutgoingGateway],
        notes: AsyncBatcher[OutcomeNote, None],
        answers: ConnectionAnswers,
        channels: OutboundChannels | None,
        outages: OutageLog,
        spawn: Spawn,
        *,
        wrote: Callable[[], None],
        wake: Callable[[], None],
        done: Callable[[OutgoingGateway, Due, datetime | None], None],
        spans: StepSpans | None = None,
    ) -> None:
        """`wrote` is called when there may be something to process, `wake` when there may be something to send, and
        `done` when a message is not on its way any more, with the time at which it is due again, if it is."""
        self._engine = engine
        self._gateways = gateways
        self._notes = notes
        self._answers = answers
        self._channels = channels
        self._outages = outages
        self._spawn = spawn
        self._wrote = wrote
        self._wake = wake
        self._done = done
        self._spans = spans
        self._unacknowledged: dict[int, str] = {}
        """Messages that wait for their acknowledgements alone, with their gateways."""
        self._idle = asyncio.Event()
        self._idle.set()
        self.count = 0
        """How many attempts are over and not noted."""
        self.results = ResultCounts()
        """Of attempts."""

    def note(self, gateway: OutgoingGateway, due: Due, attempt: SendAttempt, result: DeliveryResult) -> None:
        """Store the result of an attempt, and retry until it works: a fault here must not send the message again."""
        self.count += 1
        self._idle.clear()
        self._submit(_Unnoted(gateway, due, due.message, attempt, result))

    async def note_answer(self, gateway: OutgoingGateway, due: Due, attempt: SendAttempt, to: Answering) -> None:
        """Do the same with the answer to a waiting sender."""
        message = due.message
        assert message is not None, "its text is the answer"
        result = Delivered(status="answered")
        faults = 0
        while True:
            faults += 1
            try:
                ended = await self._answers.answer(message, attempt.describe(result, "sent"), to.connection)
            except AlreadyProcessed:
                self._note_known()
                self._answers.note_known(message)
            except OperatorError as fault:
                await self._pause(fault, faults)
                continue
            except Exception as fault:
                failed = await self._pause_after(fault, attempt, result, faults)
                if failed is not None:
                    self.note(gateway, due, attempt, failed)
                    return
                continue
            else:
                self._report(ended, attempt.seconds)
            self._done(gateway, due, None)
            return

    async def conclude(self, message: StoredMessage, result: Delivered | DeliveryFailed, attempt: Attempt) -> bool:
        """Store what became of a message whose answer came by itself. Raises OperatorError.

        Return False if nothing was stored, because that was known before.
        """
        ended = make_ended(message, attempt, result)
        try:
            await self._notes.submit(OutcomeNote(ended, result.facts))
        except AlreadyProcessed:
            return False
        self._report(ended, 0.0)
        return True

    def describe_conclusion(
        self, message: StoredMessage, result: Delivered | DeliveryFailed, attempts: int, destination: str
    ) -> Attempt:
        """Return the attempt that such an answer ends."""
        failed = result if isinstance(result, DeliveryFailed) else None
        return Attempt(
            message=message.seq,
            queue=message.queue,
            number=max(attempts, 1),
            at=self._engine.clock(),
            seconds=0.0,
            destination=mask_address(destination),
            result="failed" if failed is not None else "sent",
            status=result.status,
            kind=failed.kind if failed is not None else None,
            reason=failed.reason if failed is not None else None,
        )

    def forget_unacknowledged(self, message: int) -> None:
        """A message is sent again, whether it was acknowledged or not."""
        self._unacknowledged.pop(message, None)

    def hear_acknowledged(self, messages: Sequence[int]) -> None:
        """Let messages be due that waited for nothing else: they are delivered."""
        found = [message for message in messages if message in self._unacknowledged]
        if found:
            self._spawn(self._hasten(found))

    async def wait_until_noted(self, seconds: float) -> None:
        """Wait until all results are stored, at most so long."""
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._idle.wait()
        except TimeoutError:
            return

    # storing

    def _submit(self, unnoted: _Unnoted) -> None:
        note = self._decide(unnoted)
        future = self._notes.submit_soon(note, is_urgent=_is_urgent(unnoted.due, note))
        future.add_done_callback(lambda future: self._noted(unnoted, note, future))

    def _decide(self, unnoted: _Unnoted) -> OutcomeNote:
        """Return what is stored: the end of the delivery, or when it is tried again."""
        attempt, result, settings = unnoted.attempt, unnoted.result, unnoted.gateway.settings
        if isinstance(result, Awaiting):
            if not result.is_attempt or attempt.number < settings.attempts:
                return self._let_wait(unnoted, result)
            result = DeliveryFailed(kind="timeout", reason=result.reason, status=result.status, facts=result.facts)
            unnoted.result = result
        if isinstance(result, DeliveryFailed) and result.again and attempt.number < settings.attempts:
            pause = pause_seconds(
                attempt.number, settings.retry_first_seconds, settings.retry_seconds_max, result.after_seconds
            )
            due = self._engine.clock() + timedelta(seconds=pause)
            stored = attempt.describe(result, "again")
            return OutcomeNote(Postponed(message=attempt.message, due=due, attempt=stored), result.facts)
        assert unnoted.message is not None, "it was read before it was tried for the last time"
        is_sent = isinstance(result, Delivered)
        ended = make_ended(unnoted.message, attempt.describe(result, "sent" if is_sent else "failed"), result)
        if isinstance(attempt.to, Destination) and attempt.to.kind == "answer":
            ended = self._answers.end_elsewhere(ended)
        return OutcomeNote(ended, result.facts)

    def _let_wait(self, unnoted: _Unnoted, result: Awaiting) -> OutcomeNote:
        """Let a message wait for its answer or acknowledgement, or for its turn."""
        attempt = unnoted.attempt
        pause = result.seconds
        if result.grows:
            longest = max(unnoted.gateway.settings.retry_seconds_max, pause)
            pause = pause_seconds(attempt.number, pause, longest, None)
        due = self._engine.clock() + timedelta(seconds=pause)
        stored = attempt.describe(result, "again") if result.is_attempt else None
        if result.until_acknowledged:  # before it is stored: the acknowledgement may come meanwhile
            self._unacknowledged[attempt.message] = attempt.queue
        return OutcomeNote(Postponed(message=attempt.message, due=due, attempt=stored), result.facts)

    def _noted(self, unnoted: _Unnoted, note: OutcomeNote, future: asyncio.Future[None]) -> None:
        if future.cancelled():
            return
        fault = future.exception()
        if isinstance(fault, AlreadyProcessed):
            self._note_known()
        elif fault is not None:
            self._spawn(self._retry(unnoted, fault))
            return
        postponed = note.outcome if fault is None and isinstance(note.outcome, Postponed) else None
        self._finish(unnoted, postponed.due if postponed is not None else None)
        if fault is None:
            self._follow(unnoted, note)

    async def _retry(self, unnoted: _Unnoted, fault: BaseException) -> None:
        unnoted.faults += 1
        if isinstance(fault, OperatorError):
            await self._pause(fault, unnoted.faults)
        else:
            failed = await self._pause_after(fault, unnoted.attempt, unnoted.result, unnoted.faults)
            if failed is not None and unnoted.message is not None:
                unnoted.result = failed
        self._submit(unnoted)

    def _finish(self, unnoted: _Unnoted, again: datetime | None) -> None:
        self.count -= 1
        if not self.count:
            self._idle.set()
        self._done(unnoted.gateway, unnoted.due, again)

    def _follow(self, unnoted: _Unnoted, note: OutcomeNote) -> None:
        """Do what follows from a note that is stored."""
        outcome, attempt, result, gateway = note.outcome, unnoted.attempt, unnoted.result, unnoted.gateway
        if isinstance(outcome, Ended):
            self._report(outcome, attempt.seconds)
            return
        if outcome.attempt is not None:
            self.results.add(attempt.queue, "again", outcome.attempt.seconds)
            self._log_attempt(unnoted.message, outcome.attempt)
            if self._spans is not None and unnoted.message is not None:
                self._spans.record_attempt(unnoted.message, outcome.attempt)
        if isinstance(result, DeliveryFailed) and (unnoted.message is None or is_about_other_side(result)):
            lane = unnoted.due.lane
            asked = result.after_seconds if unnoted.message is not None else None
            if asked is not None:
                asked = min(asked, RETRY_AFTER_SECONDS_MAX)
            not_before = None if asked is None else self._engine.clock() + timedelta(seconds=asked)
            if lane is not None:
                gateway.note_put_off(lane, attempt.message, attempt.number, not_before)
        if isinstance(result, Awaiting) and result.until_acknowledged and self._channels is not None:
            place = self._channels.journal.locate(attempt.message)
            if place is not None and place[1] in place[0].value.acknowledged:  # meanwhile
                self.hear_acknowledged([attempt.message])

    def _report(self, ended: Ended, seconds: float) -> None:
        self._unacknowledged.pop(ended.message.seq, None)
        self.results.add(ended.message.queue, ended.attempt.result, seconds)
        self._log_attempt(ended.message, ended.attempt)
        if ended.reply is not None or ended.failure is not None:
            self._wrote()  # there is a message about it

    def _log_attempt(self, message: StoredMessage | None, attempt: Attempt) -> None:
        level = logging.DEBUG if attempt.result == "sent" else logging.INFO
        if not _log.isEnabledFor(level):
            return
        trace = {}
        if self._spans is not None and message is not None:
            trace["trace_id"] = self._spans.begin_attempt(message, attempt.number)[0].trace_id
        said = attempt.message, attempt.queue, attempt.number, attempt.result, attempt.kind or attempt.status or ""
        _log.log(level, "message %s of gateway %s: attempt %s: %s %s", *said, extra=trace)

    def _note_known(self) -> None:
        """An operator has given up the queue of a message meanwhile, or a commit that failed has taken place: then
        there may be a message about it."""
        self._wrote()
        self._wake()

    async def _hasten(self, messages: Sequence[int]) -> None:
        now = self._engine.clock()
        queues = {self._unacknowledged[message] for message in messages if message in self._unacknowledged}
        try:
            await asyncio.gather(
                *[self._notes.submit(OutcomeNote(Postponed(message=message, due=now))) for message in messages]
            )
            for message in messages:
                self._unacknowledged.pop(message, None)
        except OperatorError as fault:  # they keep their pauses, unless the commit has taken place
            self._outages.note_failure(fault)
        for queue in queues:
            self._gateways[queue].postponed(now)
        self._wake()

    async def _pause(self, fault: OperatorError, faults: int) -> None:
        self._outages.note_failure(fault)
        await asyncio.sleep(STORE_BACKOFF.delay_seconds(faults))

    async def _pause_after(
        self, fault: BaseException, attempt: SendAttempt, result: DeliveryResult, faults: int
    ) -> DeliveryFailed | None:
        """Wait after a mistake of ours. Return the failure of the message after too many of them."""
        _log.error("noting what became of message %s failed", attempt.message, exc_info=fault)
        await asyncio.sleep(STORE_BACKOFF.delay_seconds(faults))
        if faults < NOTE_ATTEMPTS_MAX:
            return None
        reason = f"what came back cannot be stored: {type(fault).__name__}: {fault}"
        return DeliveryFailed(kind="systemError", reason=reason, status=result.status, again=False)


def _is_urgent(due: Due, note: OutcomeNote) -> bool:
    """Return whether something waits for it: later messages of a slice, rules, or a sender."""
    outcome = note.outcome
    if isinstance(outcome, Ended) and (outcome.reply or outcome.failure or outcome.answer):
        return True
    return bool(due.slices)
