"""A span for each request that brings a message: from its first byte until it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from demaq.gateways.http.responses import ID_HEADER, HttpAnswer, Refusal
from demaq.span_recorder import Attribute, Span, SpanRecorder
from demaq.trace_context import CURRENT_TRACE, TRACEPARENT, TRACESTATE, new_span_id, parse_context


async def record_received(
    spans: SpanRecorder, queue: str, headers: Mapping[str, str], answer: Callable[[], Awaitable[HttpAnswer]]
) -> HttpAnswer:
    """Return the answer to a request. Its trace is the current one meanwhile. Raises what `answer` raises."""
    context = spans.receive(parse_context(headers.get(TRACEPARENT), headers.get(TRACESTATE)))
    span_id = new_span_id()
    token = CURRENT_TRACE.set((context, span_id))
    started = datetime.now(UTC)
    status, found = 500, None
    try:
        found = await answer()
        status = found.status
        return found
    except Refusal as refusal:
        status = refusal.status
        raise
    finally:
        CURRENT_TRACE.reset(token)
        if context.is_sampled:
            attributes: dict[str, Attribute] = {
                "messaging.system": "demaq",
                "messaging.destination.name": queue,
                "http.request.method": "POST",
                "http.response.status_code": status,
            }
            message = None if found is None else found.headers.get(ID_HEADER)
            if message is not None:
                attributes["demaq.message"] = message
            spans.emit(
                Span(
                    name=f"receive {queue}",
                    context=context,
                    span_id=span_id,
                    parent_id=context.span_id,
                    kind="server",
                    started=started,
                    ended=max(datetime.now(UTC), started),
                    attributes=attributes,
                    error=f"status {status}" if status >= 400 else None,
                )
            )
