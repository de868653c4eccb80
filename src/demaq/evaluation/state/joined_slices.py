"""Which slices a new message joins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from demaq.evaluation.state.snapshot_reader import date_time, size_of
from demaq.language.program.program import Slicing
from demaq.messages import PropertyValue
from demaq.store.protocol import OWN_NUMBER, SliceKey


def find_slices(
    slicings: Iterable[Slicing],
    queue: str,
    body: str,
    properties: Mapping[str, PropertyValue],
    created: datetime,
    rule: str | None = None,
    cause: tuple[int | None, int | None] = (None, None),
) -> tuple[SliceKey, ...]:
    """Return slicing and key of each slice. `cause` is the seq of the message that caused it and of its origin."""
    trigger, origin = cause
    found: list[SliceKey] = []
    for slicing in slicings:
        key: str | None
        match slicing.property:
            case "demaq:id":
                key = OWN_NUMBER
            case "demaq:origin":
                key = OWN_NUMBER if origin is None else str(origin)
            case "demaq:trigger":
                key = None if trigger is None else str(trigger)
            case "demaq:queue":
                key = queue
            case "demaq:rule":
                key = rule
            case "demaq:created":
                key = date_time(created)
            case "demaq:size":
                key = str(size_of(body))
            case name:
                key = properties[name].key if name in properties else None
        if key is not None:
            found.append((slicing.name, key))
    return tuple(found)
