"""Replay a message: enqueue a copy that stands for it, with the same text, properties and cause.

The store is append-only, so no message becomes unprocessed again. A copy keeps the properties of its original, unless
they are fixed; it has the same rule, trigger and origin. `demaq:replayOf` names the original.

An error message contains the message that it is about, so that one can be replayed after it was removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from demaq.documents import Document
from demaq.engine.error_routing import ErrorReport
from demaq.engine.message_factory import MessageFactory
from demaq.evaluation.round_request import PropertyRequest, PropertyResult
from demaq.language.program.program import Program
from demaq.messages import PropertyValue
from demaq.store.protocol import NewMessage, Store, StoredMessage
from demaq.system_properties import (
    ERROR_LEVEL,
    FAILED_REPLAY_OF,
    INITIAL,
    REPLAY_OF,
    REPLAY_RULE,
    is_system_property,
    transport_properties,
)

REQUESTS = "replay:"
"""The prefix of the requests of all copies."""
NO_RULE = ""
"""In place of the only rule that is evaluated for a copy: none is, because all have acted on the original."""
_OF_A_COPY = (REPLAY_OF, REPLAY_RULE, FAILED_REPLAY_OF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """A message that is to be replayed."""

    number: int
    queue: str
    body: str
    properties: Mapping[str, PropertyValue]
    rule: str | None = None
    trigger: int | None = None
    origin: int | None = None


def stored_original(message: StoredMessage) -> Original:
    """Return a message that is still stored."""
    return Original(
        number=first_number(message),
        queue=message.queue,
        body=message.body,
        properties=message.properties,
        rule=message.rule,
        trigger=message.trigger,
        origin=message.origin,
    )


def failed_original(error: StoredMessage, report: ErrorReport, about: StoredMessage | None) -> Original | None:
    """Return the message that an error is about: as it is stored, else as the error message contains it.

    None if it was not a document.
    """
    if about is not None:
        return stored_original(about)
    if report.initial is None:
        return None
    transport = {name: value for name, value in error.properties.items() if name != ERROR_LEVEL}
    initial = {n.removeprefix(INITIAL): value for n, value in error.properties.items() if n.startswith(INITIAL)}
    return Original(
        number=first_failed_number(error, report),
        queue=report.queue,
        body=report.initial,
        properties={**transport, **initial},
        origin=error.origin if report.message is not None else None,
    )


def requests_about(first: int) -> str:
    """Return the prefix of the requests of all copies of a message."""
    return f"{REQUESTS}{first}:"


def copies_of(store: Store, first: int) -> list[int]:
    """Return the seqs of all copies of a message whose requests are still known."""
    return sorted(store.requested(requests_about(first)).values())


def is_copy(message: StoredMessage) -> bool:
    """Return whether a message is a copy of another one."""
    return REPLAY_OF in message.properties


def first_number(message: StoredMessage) -> int:
    """Return the seq of the message that this one is a copy of, or its own."""
    return int(message.properties[REPLAY_OF].text) if is_copy(message) else message.seq


def first_failed_number(error: StoredMessage, report: ErrorReport) -> int:
    """Return the same for the message that an error is about. For one that was never stored it is that of the error."""
    if FAILED_REPLAY_OF in error.properties:
        return int(error.properties[FAILED_REPLAY_OF].text)
    return report.message if report.message is not None else error.seq


def failed_rule(error: StoredMessage, report: ErrorReport) -> str | None:
    """Return the rule that an error is about, or if there is none the only one that was to be evaluated."""
    only = error.properties.get(INITIAL + REPLAY_RULE)
    return report.rule if report.rule is not None else only.text if only is not None else None


def arrival(program: Program, original: Original, now: datetime) -> PropertyRequest:
    """Return the request for the properties of a copy, with those that it keeps."""
    return PropertyRequest(
        queue=original.queue,
        document=Document(original.body),
        explicit={**_settable(program, original), **_of_the_system(original)},
        now=now,
    )


def repair(program: Program, original: Original, body: str, computed: PropertyResult) -> Original:
    """Return a message with another text.

    `computed` has the properties that follow from its former text alone: those are left to follow from the new text.
    Others, which were set or inherited, are kept.
    """
    declared = {p.name for p in program.properties_of(original.queue) if p.decl is not None}
    kept = {
        name: value
        for name, value in original.properties.items()
        if name not in declared or computed.properties.get(name) != value
    }
    return replace(original, body=body, properties=kept)


def copy(
    factory: MessageFactory, original: Original, received: PropertyResult, now: datetime, request: str, rule: str | None
) -> NewMessage:
    """Return a copy of the original. With `rule` only that rule is evaluated for it; with NO_RULE none."""
    properties = {
        **_of_the_system(original),
        **received.properties,
        REPLAY_OF: PropertyValue.string(str(original.number)),
    }
    if rule is not None:
        properties[REPLAY_RULE] = PropertyValue.string(rule)
    new = factory.make(original.queue, received.document.text, properties, received.entries, now, request=request)
    return factory.make_replacement(new, original.rule, original.trigger, original.origin)


def _settable(program: Program, original: Original) -> dict[str, PropertyValue]:
    """Return properties that can be set explicitly: those that are not fixed, and those of gateways and timers."""
    transport = transport_properties(program.queues[original.queue].kind)
    declared = {p.name: p for p in program.properties_of(original.queue) if p.decl is not None}
    return {
        name: value
        for name, value in original.properties.items()
        if (name in declared and declared[name].variant != "fixed") or name in transport
    }


def _of_the_system(original: Original) -> dict[str, PropertyValue]:
    """Return system properties that a copy keeps, such as those of the transport."""
    return {
        name: value
        for name, value in original.properties.items()
        if is_system_property(name) and name not in _OF_A_COPY
    }
