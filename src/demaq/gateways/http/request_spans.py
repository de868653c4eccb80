"""A span for each request that brings a message: from its first byte until it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from demaq.gateways.http.responses import ID_HEADER, HttpAnswer, Refusal
from demaq.gateways.received_spans import receiving
from demaq.span_recorder import SpanRecorder
from demaq.trace_context import TRACEPARENT, TRACESTATE, parse_context


async def record_received(
    spans: SpanRecorder, queue: str, headers: Mapping[str, str], answer: Callable[[], Awaitable[HttpAnswer]]
) -> HttpAnswer:
    """Return the answer to a request. Its trace is the current one meanwhile. Raises what `answer` raises."""
    with receiving(spans, queue, parse_context(headers.get(TRACEPARENT), headers.get(TRACESTATE))) as span:
        status = 500
        try:
            found = await answer()
            status = found.status
            if ID_HEADER in found.headers:
                span.attributes["demaq.message"] = found.headers[ID_HEADER]
            return found
        except Refusal as refusal:
            status = refusal.status
            raise
        finally:
            span.attributes |= {"http.request.method": "POST", "http.response.status_code": status}
            span.error = f"status {status}" if status >= 400 else None
