"""A selection of messages in words, and as values of JSON, for audit records."""

from __future__ import annotations

from typing import Any

from demaq.operations.json_values import as_json
from demaq.operations.search import MessageSelection

SEQS_SHOWN_MAX = 10


def describe_selection(selection: MessageSelection) -> str:
    """Return which messages are selected, in words."""
    parts: list[str] = []
    if selection.seqs:
        shown = ", ".join([str(seq) for seq in selection.seqs[:SEQS_SHOWN_MAX]])
        more = f" and {len(selection.seqs) - SEQS_SHOWN_MAX:,} more" if len(selection.seqs) > SEQS_SHOWN_MAX else ""
        parts.append(f"{'message' if len(selection.seqs) == 1 else 'messages'} {shown}{more}")
    if selection.queues:
        parts.append(f"of queue {', '.join(selection.queues)}")
    if selection.states:
        parts.append(f"in state {', '.join(sorted(selection.states))}")
    if selection.since is not None:
        parts.append(f"since {selection.since.isoformat()}")
    if selection.until is not None:
        parts.append(f"until {selection.until.isoformat()}")
    if selection.slice is not None:
        parts.append(f"in slice {selection.slice[1]} of {selection.slice[0]}")
    parts += [f"with {name} = {value}" for name, value in selection.properties]
    parts += [f"containing {text!r}" for text in selection.texts]
    if selection.xpath is not None:
        parts.append(f"for which {selection.xpath} holds")
    if selection.errors:
        parts.append(f"about errors {', '.join(selection.errors)}")
    if selection.rule is not None:
        parts.append(f"of rule {selection.rule}")
    return " ".join(parts) or "all messages"


def selection_json(selection: MessageSelection) -> dict[str, Any]:
    """Return the conditions of a selection, as values of JSON."""
    known: dict[str, Any] = as_json(selection)
    return {name: value for name, value in known.items() if value}
