"""Spans: what was done, for which trace, and when. Recorded for traces that are sampled, and exported by others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from demaq.messages import PropertyValue
from demaq.trace_context import TraceContext, derive_span_id, derive_trace_id, new_trace_id, read_context

Attribute = str | int | float | bool | Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    name: str
    context: TraceContext
    span_id: str
    parent_id: str | None
    kind: Literal["server", "client", "consumer", "internal"]
    started: datetime
    ended: datetime
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    error: str | None = None
    """Why it has failed, without anything of a message; None if it has not."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Which traces are recorded."""

    ratio: float = 1.0
    """The share of those that begin here."""
    is_parent_based: bool = True
    """Whether traces that began elsewhere are recorded as it was decided there."""

    def decide(self, trace_id: str, parent: TraceContext | None = None) -> bool:
        if parent is not None and self.is_parent_based:
            return parent.is_sampled
        return int(trace_id[16:], 16) < self.ratio * 2**64  # as samplers of OpenTelemetry do


class SpanRecorder:
    """May be used from any thread."""

    def __init__(self, message_name: Callable[[int], str], sampling: Sampling, emit: Callable[[Span], None]) -> None:
        """`message_name` returns the name that a message has everywhere. `emit` never raises and never waits."""
        self._message_name = message_name
        self._sampling = sampling
        self.emit = emit

    def receive(self, parent: TraceContext | None) -> TraceContext:
        """Return the trace of a request that came with this context."""
        if parent is None:
            trace_id = new_trace_id()
            return TraceContext(trace_id, None, self._sampling.decide(trace_id))
        is_sampled = self._sampling.decide(parent.trace_id, parent)
        return TraceContext(parent.trace_id, parent.span_id, is_sampled, parent.state)

    def context_of(self, properties: Mapping[str, PropertyValue], origin: int) -> TraceContext:
        """Return the trace of a message: that of the request that brought it, or of the message that began it."""
        found = read_context(properties)
        if found is not None:
            return found
        trace_id = derive_trace_id(self._message_name(origin))
        return TraceContext(trace_id, None, self._sampling.decide(trace_id))

    def may_begin_sampled(self) -> bool:
        """Return whether a message without a context may be in a trace that is recorded."""
        return self._sampling.ratio > 0

    def span_id(self, context: TraceContext, seq: int, attempt: int | None = None) -> str:
        """Return the span of what becomes of a message, or of an attempt to send it."""
        name = self._message_name(seq)
        return derive_span_id(context.trace_id, name if attempt is None else f"{name} {attempt}")

    def parent_id(self, context: TraceContext, trigger: int | None) -> str | None:
        """Return the span of what has caused a message."""
        return context.span_id if trigger is None else self.span_id(context, trigger)

    def name_of(self, seq: int) -> str:
        return self._message_name(seq)
