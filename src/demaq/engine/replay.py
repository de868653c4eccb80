"""Run a message again: a copy of it goes into its queue and stands for it, with the same text, values and cause.

The store only ever grows, so nothing becomes unprocessed. A copy keeps the values that its original has, unless they
are computed only; it has the same maker, cause and origin. `demaq:replayOf` says which message it is a copy of.

An error message holds the message that it is about, so that one can be run again even when it is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
"""How the requests of all copies begin."""
NO_RULE = ""
"""In place of the only rule that is to act on a copy: none is, because all have acted on the original."""
_OF_A_COPY = (REPLAY_OF, REPLAY_RULE, FAILED_REPLAY_OF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """All that is known of a message that is to be run again."""

    number: int
    queue: str
    body: str
    properties: Mapping[str, PropertyValue]
    rule: str | None = None
    trigger: int | None = None
    origin: int | None = None


def stored_original(message: StoredMessage) -> Original:
    """A message that is still there."""
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
    """The message that an error is about, as it lies in the store, or else as the error tells of it.

    None where neither is the case: it was no document.
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
    """How the requests of all copies of a message begin."""
    return f"{REQUESTS}{first}:"


def copies_of(store: Store, first: int) -> list[int]:
    """The numbers of all copies of a message, as far as they are remembered."""
    return sorted(store.requested(requests_about(first)).values())


def is_copy(message: StoredMessage) -> bool:
    """Whether a message stands for another one."""
    return REPLAY_OF in message.properties


def first_number(message: StoredMessage) -> int:
    """The number of the message that one is a copy of, or its own."""
    return int(message.properties[REPLAY_OF].text) if is_copy(message) else message.seq


def first_failed_number(error: StoredMessage, report: ErrorReport) -> int:
    """The same for the message that an error is about. One that was never stored has the number of its error."""
    if FAILED_REPLAY_OF in error.properties:
        return int(error.properties[FAILED_REPLAY_OF].text)
    return report.message if report.message is not None else error.seq


def failed_rule(error: StoredMessage, report: ErrorReport) -> str | None:
    """The rule that an error is about, or where none is to blame the only one that was to act."""
    only = error.properties.get(INITIAL + REPLAY_RULE)
    return report.rule if report.rule is not None else only.text if only is not None else None


def arrival(program: Program, original: Original, now: datetime) -> PropertyRequest:
    """A copy before its properties are computed: with all that it keeps."""
    return PropertyRequest(
        queue=original.queue,
        document=Document(original.body),
        explicit={**_settable(program, original), **_of_the_system(original)},
        now=now,
    )


def copy(
    maker: MessageFactory, original: Original, received: PropertyResult, now: datetime, request: str, rule: str | None
) -> NewMessage:
    """A message that stands for the original. With a rule, only that one will act on it; with NO_RULE, none."""
    properties = {
        **_of_the_system(original),
        **received.properties,
        REPLAY_OF: PropertyValue.string(str(original.number)),
    }
    if rule is not None:
        properties[REPLAY_RULE] = PropertyValue.string(rule)
    new = maker.new(original.queue, received.document, properties, received.entries, now, request=request)
    return maker.standing_for(new, original.rule, original.trigger, original.origin)


def _settable(program: Program, original: Original) -> dict[str, PropertyValue]:
    """Values that somebody may have set: of properties that are not computed only, and for gateways and timers."""
    transport = transport_properties(program.queues[original.queue].kind)
    declared = {p.name: p for p in program.properties_of(original.queue) if p.decl is not None}
    return {
        name: value
        for name, value in original.properties.items()
        if (name in declared and declared[name].variant != "fixed") or name in transport
    }


def _of_the_system(original: Original) -> dict[str, PropertyValue]:
    """What the system said of the original and says of its copy too, such as how it came."""
    return {
        name: value
        for name, value in original.properties.items()
        if is_system_property(name) and name not in _OF_A_COPY
    }
