"""The trace that a message belongs to, as other programs name it: W3C Trace Context, level 1.

A message that came with the headers `traceparent` and `tracestate` has them as properties, and all that it leads to
inherits these, so the trace survives in the store. The trace of any other message is that of the message with which it
began. Identifiers of spans are computed from the names of messages. So nothing has to be stored about spans: whatever
ends first, and after a crash too, they fit together.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demaq.system_properties import HEADER

if TYPE_CHECKING:
    from demaq.messages import PropertyValue  # imports lxml, which no log needs

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
PARENT_PROPERTY, STATE_PROPERTY = f"{HEADER}Traceparent", f"{HEADER}Tracestate"
STATE_CHARACTERS_MAX = 512
"""A longer `tracestate` is dropped, as the recommendation allows."""

_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A trace, and the span in it that comes before."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str | None
    """16 hexadecimal digits; None if there is no span before."""
    is_sampled: bool
    state: str = ""
    """What other programs have noted, as they have written it."""

    def headers(self, span_id: str) -> dict[str, str]:
        """Return the headers of a request that this span sends."""
        found = {TRACEPARENT: f"00-{self.trace_id}-{span_id}-{int(self.is_sampled):02x}"}
        return {**found, TRACESTATE: self.state} if self.state else found

    def properties(self, span_id: str) -> dict[str, str]:
        """Return the properties of a message that this span has received."""
        found = {PARENT_PROPERTY: self.headers(span_id)[TRACEPARENT]}
        return {**found, STATE_PROPERTY: self.state} if self.state else found


CURRENT_TRACE: ContextVar[tuple[TraceContext, str] | None] = ContextVar("current_trace", default=None)
"""The trace and the span of what a task does; None if telemetry is off."""


def parse_context(parent: str | None, state: str | None = None) -> TraceContext | None:
    """Return what the headers say; None if there is none, or it is not valid."""
    match = _PARENT.fullmatch(parent.strip()) if parent is not None else None
    if match is None or match[1] == "ff" or (match[1] == "00" and match[5] is not None):
        return None
    if not int(match[2], 16) or not int(match[3], 16):
        return None
    kept = (state or "").strip()
    if len(kept) > STATE_CHARACTERS_MAX or not kept.isascii() or not kept.isprintable():
        kept = ""
    return TraceContext(match[2], match[3], bool(int(match[4], 16) & _SAMPLED), kept)


def read_context(properties: Mapping[str, PropertyValue]) -> TraceContext | None:
    """Return the trace that a message came with."""
    parent = properties.get(PARENT_PROPERTY)
    if parent is None:
        return None
    state = properties.get(STATE_PROPERTY)
    return parse_context(parent.text, state.text if state is not None else None)


def new_trace_id() -> str:
    return os.urandom(16).hex()


def new_span_id() -> str:
    return os.urandom(8).hex()


def derive_trace_id(name: str) -> str:
    """Return the trace that began with the message of this name."""
    return hashlib.blake2b(name.encode(), digest_size=16, person=b"trace").hexdigest()


def derive_span_id(trace_id: str, name: str) -> str:
    """Return the span of a message in a trace, or of an attempt to send it."""
    return hashlib.blake2b(f"{trace_id} {name}".encode(), digest_size=8, person=b"span").hexdigest()
