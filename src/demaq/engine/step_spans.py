"""A span for each message that is processed, sent, or has waited for its time: recorded when its step is committed.

A span of a message that rules have processed begins with the snapshot on which these were evaluated and ends with the
commit, so all messages of a round that are committed at once have about the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from demaq.evaluation.outcomes import Outcome
from demaq.messages import PropertyValue
from demaq.records import record
from demaq.span_recorder import Attribute, Span, SpanRecorder
from demaq.store.protocol import Attempt, NewMessage, Step, StoredMessage
from demaq.system_properties import ERROR_LEVEL
from demaq.trace_context import TraceContext, read_context

CREATED_NAMED_MAX = 20
"""So many queues of created messages are named in a span."""


@record
class _Processed:
    """A message that rules have processed, in a step that is not committed yet."""

    seq: int
    queue: str
    context: TraceContext
    trigger: int | None
    created: datetime
    started: datetime
    fired: Sequence[str]
    failed: Sequence[tuple[str, str]]
    """Rules and the codes of their errors."""
    made: Sequence[tuple[str, bool]]
    """Queues of the messages that it has led to, and whether each is an error message."""
    evaluated_again: int = 0
    lost: str | None = None


class StepSpans:
    """Notes steps while nothing else changes, and records them after their commit."""

    def __init__(self, recorder: SpanRecorder, clock: Callable[[], datetime]) -> None:
        self.recorder = recorder
        self._clock = clock
        self._noted: list[_Processed] = []

    def find_sampled(self, batch: Sequence[StoredMessage]) -> frozenset[int]:
        """Return the seqs of messages whose conversations are recorded, so that none of them may be folded."""
        context_of = self.recorder.context_of
        return frozenset([m.seq for m in batch if context_of(m.properties, m.origin or m.seq).is_sampled])

    def is_sampled_on_arrival(self, properties: Mapping[str, PropertyValue]) -> bool:
        """Return the same of a message that has no seq yet."""
        context = read_context(properties)
        return self.recorder.may_begin_sampled() if context is None else context.is_sampled

    # steps of rounds

    def note_step(self, message: StoredMessage, outcome: Outcome, step: Step, now: datetime, again: int) -> None:
        """Note the step of an outcome, which was evaluated again so often."""
        context = self.recorder.context_of(message.properties, message.origin or message.seq)
        if context.is_sampled:
            self._noted.append(
                _Processed(
                    seq=message.seq,
                    queue=message.queue,
                    context=context,
                    trigger=message.trigger,
                    created=message.created,
                    started=now,
                    fired=outcome.fired,
                    failed=[(error.rule, error.code) for error in outcome.errors],
                    made=_describe_created(step.created),
                    evaluated_again=again,
                    lost="demaq:notEvaluated" if outcome.lost is not None else None,
                )
            )

    def note_passed(
        self,
        queue: str,
        seq: int,
        properties: Mapping[str, PropertyValue],
        fired: Sequence[str],
        made: Sequence[NewMessage],
        now: datetime,
    ) -> None:
        """Note a message of which nothing but its effects is stored."""
        context = self.recorder.context_of(properties, seq)
        if context.is_sampled:
            self._noted.append(
                _Processed(
                    seq=seq,
                    queue=queue,
                    context=context,
                    trigger=None,
                    created=now,
                    started=now,
                    fired=fired,
                    failed=(),
                    made=_describe_created(made),
                )
            )

    def note_parked(self, message: StoredMessage, step: Step, attempts: int) -> None:
        """Note a message that has failed for the last time."""
        outcome = Outcome(lost="parked")
        self.note_step(message, outcome, step, message.created, attempts - 1)

    def count(self) -> int:
        return len(self._noted)

    def forget_after(self, count: int) -> None:
        """Forget what was noted after so many: it is not committed."""
        del self._noted[count:]

    def record_noted(self) -> None:
        """Record what was noted; it is committed."""
        noted, self._noted = self._noted, []
        now = self._clock()
        for each in noted:
            self._record_processed(each, now)

    def _record_processed(self, each: _Processed, now: datetime) -> None:
        errors = sum([is_error for _, is_error in each.made])
        outcome = "failed" if errors or each.lost else "processed" if each.fired or each.made else "ignored"
        attributes: dict[str, Attribute] = {
            **self._common(each.seq, each.queue),
            "demaq.outcome": outcome,
            "demaq.rules.fired": list(each.fired),
            "demaq.messages.created": len(each.made) - errors,
            "demaq.messages.errors": errors,
            "demaq.evaluations": 1 + each.evaluated_again,
            "demaq.waited_seconds": max((each.started - each.created).total_seconds(), 0.0),
        }
        if each.made:
            attributes["demaq.queues.created"] = [queue for queue, _ in each.made[:CREATED_NAMED_MAX]]
        if each.failed:
            attributes["demaq.rules.failed"] = [rule for rule, _ in each.failed]
        codes = [f"{rule}: {code}" for rule, code in each.failed]
        self.recorder.emit(
            Span(
                name=f"process {each.queue}",
                context=each.context,
                span_id=self.recorder.span_id(each.context, each.seq),
                parent_id=self.recorder.parent_id(each.context, each.trigger),
                kind="consumer",
                started=each.started,
                ended=max(now, each.started),
                attributes=attributes,
                error=each.lost or "; ".join(codes) or ("demaq:systemError" if errors else None),
            )
        )

    # timers and deliveries

    def record_timer(self, message: StoredMessage) -> None:
        """Record that a message has waited in an echo queue, until now."""
        assert message.timer is not None, "only a timer is due"
        self._record_whole(message, f"wait {message.queue}", {"demaq.queue.target": message.timer.target}, None)

    def record_delivery(self, message: StoredMessage, attempt: Attempt) -> None:
        """Record a delivery that has ended, with its last attempt."""
        self.record_attempt(message, attempt)
        known: dict[str, Attribute] = {"demaq.outcome": attempt.result, "demaq.attempts": attempt.number}
        self._record_whole(message, f"send {message.queue}", known, attempt.kind)

    def begin_attempt(self, message: StoredMessage, number: int) -> tuple[TraceContext, str]:
        """Return the trace of a message, and the span of an attempt to send it."""
        context = self.recorder.context_of(message.properties, message.origin or message.seq)
        return context, self.recorder.span_id(context, message.seq, number)

    def record_attempt(self, message: StoredMessage, attempt: Attempt) -> None:
        """Record an attempt to send a message."""
        context = self.recorder.context_of(message.properties, message.origin or message.seq)
        if not context.is_sampled:
            return
        known = {
            "demaq.attempt": attempt.number,
            "demaq.outcome": attempt.result,
            "server.address": attempt.destination,
            "demaq.status": attempt.status,
            "error.type": attempt.kind,
        }
        self.recorder.emit(
            Span(
                name=f"attempt {message.queue}",
                context=context,
                span_id=self.recorder.span_id(context, message.seq, attempt.number),
                parent_id=self.recorder.span_id(context, message.seq),
                kind="client",
                started=attempt.at,
                ended=attempt.at + timedelta(seconds=attempt.seconds),
                attributes={
                    **self._common(message.seq, message.queue),
                    **{name: value for name, value in known.items() if value is not None},
                },
                error=attempt.kind,
            )
        )

    def _record_whole(
        self, message: StoredMessage, name: str, attributes: Mapping[str, Attribute], error: str | None
    ) -> None:
        """Record a span from the time at which a message was created until now."""
        context = self.recorder.context_of(message.properties, message.origin or message.seq)
        if not context.is_sampled:
            return
        self.recorder.emit(
            Span(
                name=name,
                context=context,
                span_id=self.recorder.span_id(context, message.seq),
                parent_id=self.recorder.parent_id(context, message.trigger),
                kind="internal",
                started=message.created,
                ended=max(self._clock(), message.created),
                attributes={**self._common(message.seq, message.queue), **attributes},
                error=error,
            )
        )

    def _common(self, seq: int, queue: str) -> dict[str, Attribute]:
        return {
            "messaging.system": "demaq",
            "messaging.destination.name": queue,
            "messaging.message.id": self.recorder.name_of(seq),
        }


def _describe_created(created: Sequence[NewMessage]) -> list[tuple[str, bool]]:
    return [(new.queue, ERROR_LEVEL in new.properties) for new in created]
