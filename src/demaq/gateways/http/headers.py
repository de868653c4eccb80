"""Headers that mean something here, besides those of HTTP itself."""

from __future__ import annotations

import re

from demaq.trace_context import CURRENT_TRACE

MESSAGE_HEADER = "Demaq-Message"
"""The name that a message of another node has everywhere: its store's name and its number."""
SENDER_HEADER = "Demaq-Sender"
"""Who a message is from, as the application of another node says."""
HOPS_HEADER = "Demaq-Hops"
"""How many hops a message is from the one with which it all began, on whichever nodes: loops between nodes end, too."""

_HOPS = re.compile(r"[0-9]{1,9}", re.ASCII)


def trace_headers() -> dict[str, str]:
    """Return the headers of the trace that the current task is part of; none if telemetry is off."""
    trace = CURRENT_TRACE.get()
    if trace is None:
        return {}
    context, span_id = trace
    return context.headers(span_id)


def hops_of(value: str | None) -> int:
    """Return what the header says; 0 if there is none, or it is none of ours."""
    return int(value) if value is not None and _HOPS.fullmatch(value) else 0
