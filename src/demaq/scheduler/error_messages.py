"""What goes wrong becomes a message: its text, and the queue it goes to.

Route: the rule's error queue, else the queue's, else the module's, else the system's. An error while an error message
is processed goes at least one level further up, so that errors never chase each other in circles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from xml.sax.saxutils import escape, quoteattr

from demaq.language.program import SYSTEM_ERRORS, Program, Rule
from demaq.language.system_properties import ERROR_LEVEL
from demaq.messages import PropertyValue
from demaq.rounds.outcomes import Location
from demaq.store.protocol import StoredMessage

RULE, QUEUE, MODULE, SYSTEM = range(4)
"""How far up an error message has come: the values of `demaq:errorLevel`."""

INITIAL_TEXT_MAX = 100_000
"""So many characters of a text that is no document are shown in the message about it."""

_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong with a message."""

    kind: str
    code: str
    description: str
    rule: Rule | None
    at: Location | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """What somebody outside wanted to put into a queue, and what was never stored there."""

    queue: str
    text: str
    is_document: bool
    properties: Mapping[str, PropertyValue] = field(default_factory=dict)
    """It has none; errors about stored messages inherit theirs."""


@dataclass(frozen=True, slots=True)
class Route:
    queue: str
    level: int


def route(program: Program, rule: Rule | None, message: StoredMessage | Refused) -> Route | None:
    """Where an error about a message goes; None where not even the system's queue may hear of it any more."""
    queue = program.queues.get(message.queue)
    module = rule.module if rule is not None else queue.module if queue is not None else None
    candidates = (
        rule.errorqueue if rule is not None else None,
        queue.errorqueue if queue is not None else None,
        program.modules[module].errorqueue if module is not None else None,
        SYSTEM_ERRORS,
    )
    reached = int(message.properties[ERROR_LEVEL].text) if ERROR_LEVEL in message.properties else -1
    for level, name in enumerate(candidates):
        if name is not None and level > reached and name != message.queue:
            return Route(name, level)
    return None


def error_body(program: Program, failure: Failure, message: StoredMessage | Refused, now: datetime) -> str:
    """The text of an error message, as its schema says."""
    parts = [f"<error><{failure.kind}/>"]
    if failure.rule is not None:
        parts.append(f"<rule>{_text(failure.rule.name)}</rule>")
    parts.append(f"<queue>{_text(message.queue)}</queue>")
    if not isinstance(message, Refused):
        parts.append(f"<messageId>{message.seq}</messageId>")
    parts.append(f"<code>{_text(failure.code)}</code><description>{_text(failure.description)}</description>")
    if failure.at is not None:
        file = quoteattr(_allowed(program.file_name(failure.at.file)))
        parts.append(f'<location file={file} line="{failure.at.line}" column="{failure.at.column}"/>')
    parts.append(f"<attempt>{failure.attempt}</attempt><at>{now.isoformat()}</at>")
    parts.append(f"{_initial(message)}</error>")
    return "".join(parts)


def _initial(message: StoredMessage | Refused) -> str:
    if not isinstance(message, Refused):
        return f"<initialMessage>{message.body}</initialMessage>"
    if message.is_document:
        return f"<initialMessage>{message.text}</initialMessage>"
    return f"<initialText>{_text(message.text[:INITIAL_TEXT_MAX])}</initialText>"


def level_property(level: int) -> dict[str, PropertyValue]:
    return {ERROR_LEVEL: PropertyValue("integer", str(level), str(level))}


def _text(text: str) -> str:
    return escape(_allowed(text))


def _allowed(text: str) -> str:
    """Text for XML 1.0, whatever an error has to say."""
    return _NOT_XML.sub("\ufffd", text)
