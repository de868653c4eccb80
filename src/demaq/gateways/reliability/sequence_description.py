"""A stored sequence in plain values, for listings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from demaq.masking import mask_address
from demaq.soap.reliability.inbound_sequence import InboundSequence
from demaq.soap.reliability.number_ranges import NumberRanges
from demaq.soap.reliability.outbound_sequence import OutboundSequence
from demaq.store.protocol import SequenceMessage, StoredSequence


def describe_sequence(stored: StoredSequence, messages: Sequence[SequenceMessage]) -> dict[str, Any]:
    """Return what is known of a sequence; `messages` are those that the store has for it."""
    common = {
        "direction": stored.direction,
        "queue": stored.queue,
        "peer": mask_address(stored.peer),
        "changed": stored.changed.isoformat(),
    }
    if stored.direction == "in":
        inbound = InboundSequence.from_json(stored.content)
        return common | {
            "identifier": inbound.identifier,
            "version": inbound.version.name,
            "state": inbound.state.value,
            "expires": _write_time(inbound.expires_at),
            "received": _list_ranges(inbound.received),
            "heldBack": [message.number for message in messages],
            "assurance": inbound.assurance.times.value,
            "inOrder": inbound.assurance.in_order,
        }
    outbound = OutboundSequence.from_json(stored.content)
    known = {message.number: message.message for message in messages}
    return common | {
        "identifier": outbound.identifier,
        "version": outbound.version.name,
        "state": outbound.state.value,
        "expires": _write_time(outbound.expires_at),
        "acknowledged": _list_ranges(outbound.acknowledged),
        "unacknowledged": [
            {"number": number, "message": str(known[number]) if known.get(number) is not None else None}
            for number in outbound.unacknowledged
        ],
    }


def _list_ranges(numbers: NumberRanges) -> list[list[int]]:
    return [[low, high] for low, high in numbers.ranges]


def _write_time(seconds: float | None) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds is not None else None
