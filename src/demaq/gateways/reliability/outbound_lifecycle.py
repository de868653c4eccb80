"""The end of sequences of which this node is the source: those that are not used any more, and those with a gap."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from demaq.backoff import Backoff
from demaq.errors import OperatorError
from demaq.gateways.outbox.soap_sender import SoapAttempt, SoapSender
from demaq.gateways.reliability.outbound_draft import JournalDraft, SequenceEntry
from demaq.gateways.reliability.outbound_endings import carry_out
from demaq.gateways.reliability.outbound_writer import SequenceWriter
from demaq.soap.reliability.outbound_sequence import ENDED, OutboundState
from demaq.soap.reliability.sequence_source import OutboundDecision, RetransmissionRules, next_due

LOOK_SECONDS = 10.0
"""So often it is looked for sequences that are not used, whatever happens."""
STORE_BACKOFF = Backoff(seconds_first=0.1, seconds_max=2.0)
JITTER = 0.5
RESTARTS_MAX = 1_000
"""The attempts of messages end before that."""

_log = logging.getLogger("demaq.outbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliableGateway:
    """How one gateway sends messages of the protocol."""

    sender: SoapSender
    make_attempt: Callable[[str], SoapAttempt]
    """Returns how something is sent to an address."""

    @property
    def idle_seconds(self) -> float:
        """Return after which time without messages a sequence ends."""
        policy = self.sender.client.policy.reliability
        own = self.make_attempt("").settings.sequence_idle_seconds
        timeout = policy.inactivity_timeout if policy is not None else None
        return min(own, timeout.total_seconds()) if timeout is not None else own


class SequenceLifecycle:
    """Belongs to one event loop."""

    def __init__(
        self,
        writer: SequenceWriter,
        gateways: Mapping[str, ReliableGateway],
        clock: Callable[[], datetime],
        make_id: Callable[[], str],
    ) -> None:
        self._writer = writer
        self._journal = writer.journal
        self._gateways = gateways
        self._clock = clock
        self._make_id = make_id
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._is_stopping = False

    async def run(self) -> None:
        """End sequences when it is time, until `finish` is called."""
        faults = 0
        is_swept = False
        while not self._is_stopping:
            try:
                if not is_swept:
                    await self._writer.change(lambda draft: draft.drop_orphans())
                    is_swept = True
                pause = await self._look()
                faults = 0
            except OperatorError:  # the outbox reports an outage of the store
                faults += 1
                pause = STORE_BACKOFF.delay_seconds(faults)
            if not self._is_stopping:
                await self._writer.wait(pause)

    async def finish(self, seconds: float) -> None:
        """End what can be ended in this time."""
        self._is_stopping = True
        self._writer.wake()
        try:
            async with asyncio.timeout(seconds):
                for entry in self._journal.entries():
                    if not entry.messages and entry.queue in self._gateways:
                        await self._writer.change(partial(_finish, entry.name))
                        self._start(entry)
                await asyncio.gather(*self._ending.values(), return_exceptions=True)
        except (TimeoutError, OperatorError):
            _log.debug("some sequences are left for the next run")
        left = list(self._ending.values())
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _look(self) -> float:
        """End what is to end, and return when to look again."""
        pause = LOOK_SECONDS
        for entry in await self._writer.run(self._journal.entries):
            gateway = self._gateways.get(entry.queue)
            if gateway is None or entry.name in self._ending or entry.value.state in ENDED:
                continue
            if not _is_ending(entry):
                if entry.messages:
                    continue
                idle_at = entry.changed + timedelta(seconds=gateway.idle_seconds)
                left = (idle_at - self._clock()).total_seconds()
                if left > 0:
                    pause = min(pause, left)
                    continue
                await self._writer.change(partial(_finish, entry.name))
            self._start(entry)
        return pause

    def _start(self, entry: SequenceEntry) -> None:
        if entry.name not in self._ending:
            task = asyncio.create_task(self._end(entry.name, self._gateways[entry.queue]))
            self._ending[entry.name] = task
            task.add_done_callback(lambda _: self._ending.pop(entry.name, None))

    async def _end(self, name: str, gateway: ReliableGateway) -> None:
        """Send what ends a sequence, again and again, until it has ended or goes on."""
        faults = 0
        while True:
            try:
                entry = await self._writer.run(lambda: self._journal.find(name))
                if entry is None or entry.value.state in ENDED or not _is_ending(entry):
                    return
                attempt = gateway.make_attempt(entry.peer)
                settings = attempt.settings
                rules = RetransmissionRules(
                    backoff=Backoff(settings.retry_first_seconds, settings.retry_seconds_max, JITTER),
                    attempts_max=settings.attempts,
                    restarts_max=RESTARTS_MAX,
                )
                decisions = await self._writer.change(partial(_take_due, name, rules))
                for decision in decisions:
                    entry = self._journal.find(name) or entry
                    await carry_out(entry, decision, self._make_id, gateway.sender, attempt, self._writer.change)
                after = self._journal.find(name)
                due = next_due(after.value) if after is not None else None
                faults = 0
            except OperatorError:
                faults += 1
                await asyncio.sleep(STORE_BACKOFF.delay_seconds(faults))
                continue
            if due is not None:
                await asyncio.sleep(max(due - self._clock().timestamp(), 0.0))


def _take_due(name: str, rules: RetransmissionRules, draft: JournalDraft) -> tuple[OutboundDecision, ...]:
    return draft.take_due(name, rules)


def _finish(name: str, draft: JournalDraft) -> None:
    draft.finish(name)


def _is_ending(entry: SequenceEntry) -> bool:
    """Return whether messages of the protocol are due: it has a gap, or its last message was acknowledged."""
    value = entry.value
    if value.state in (OutboundState.CLOSING, OutboundState.TERMINATING):
        return True
    return value.state == OutboundState.OPEN and value.is_finishing and not value.unacknowledged
