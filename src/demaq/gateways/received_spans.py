"""A span for what brings a message to a gateway: from its beginning until it is answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from demaq.span_recorder import Attribute, Span, SpanRecorder
from demaq.trace_context import CURRENT_TRACE, TraceContext, new_span_id


@dataclass(slots=True)
class ReceivedSpan:
    """What is known about a span when it ends."""

    attributes: dict[str, Attribute] = field(default_factory=dict)
    error: str | None = None


@contextmanager
def receiving(spans: SpanRecorder, queue: str, parent: TraceContext | None) -> Iterator[ReceivedSpan]:
    """Let the trace of a sender, or a new one, be the current one until the end of the block, which is its span."""
    context = spans.receive(parent)
    span_id = new_span_id()
    token = CURRENT_TRACE.set((context, span_id))
    started = datetime.now(UTC)
    found = ReceivedSpan()
    try:
        yield found
    finally:
        CURRENT_TRACE.reset(token)
        if context.is_sampled:
            spans.emit(
                Span(
                    name=f"receive {queue}",
                    context=context,
                    span_id=span_id,
                    parent_id=context.span_id,
                    kind="server",
                    started=started,
                    ended=max(datetime.now(UTC), started),
                    attributes={
                        "messaging.system": "demaq",
                        "messaging.destination.name": queue,
                        **found.attributes,
                    },
                    error=found.error,
                )
            )


def trace_properties() -> dict[str, str]:
    """Return the properties of a message that is received now; none if telemetry is off."""
    trace = CURRENT_TRACE.get()
    if trace is None:
        return {}
    context, span_id = trace
    return context.properties(span_id)
