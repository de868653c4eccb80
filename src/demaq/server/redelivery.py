"""Send messages of outgoing gateways again, on the word of an operator."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from demaq.errors import OperatorError
from demaq.language.program.program import Program
from demaq.operations.audit import describe_action
from demaq.operations.search import MessageSelection
from demaq.operations.selection_words import describe_selection
from demaq.store.operator_records import AuditRecord
from demaq.store.protocol import Store

READ_MAX = 500
"""How many messages are read in one query."""
DETAILS_MAX = 1000
"""So many messages are named in the audit record."""


def send_again(
    store: Store, program: Program, messages: Sequence[int], now: datetime, entry: AuditRecord | None = None
) -> None:
    """Let these messages be due, all or none. Raises an OperatorError for one that cannot be sent."""
    for first in range(0, len(messages), READ_MAX):
        _expect_sendable(store, program, messages[first : first + READ_MAX])
    gone = store.send_again(messages, now, entry)
    if gone:  # it was removed this very moment
        raise OperatorError(_describe_missing(store, gone[0]))


def describe_redelivery(messages: Sequence[int], *, who: str, why: str) -> AuditRecord:
    """Return the audit record."""
    return describe_action(
        "redeliver",
        describe_selection(MessageSelection(seqs=tuple(messages))),
        who=who,
        why=why,
        details={"messages": [str(message) for message in messages[:DETAILS_MAX]]},
        result=f"{len(messages):,} {'message' if len(messages) == 1 else 'messages'} to be sent again",
    )


def find_given_up(store: Store, queue: str, limit: int) -> list[int]:
    """Return messages of a gateway whose last attempt was the last one, and that are still stored, in order."""
    last: dict[int, str] = {}
    for attempt in store.attempts(queue, None, limit):  # the newest first
        last.setdefault(attempt.message, attempt.result)
    failed = sorted([message for message, result in last.items() if result == "failed"])
    stored = [message.seq for message in store.messages(failed)]
    return [message for message in stored if not store.unsent(None, message, 1)]


def _expect_sendable(store: Store, program: Program, messages: Sequence[int]) -> None:
    queues = {found.seq: found.queue for found in store.messages(messages)}
    for message in messages:
        if message not in queues:
            raise OperatorError(_describe_missing(store, message))
        queue = program.queues.get(queues[message])
        if queue is None or queue.kind != "outgoingGateway":
            raise OperatorError(f"message {message} is in queue {queues[message]}, which is no outgoing gateway")


def _describe_missing(store: Store, message: int) -> str:
    tried = store.attempts(None, message, 1)
    if not tried:
        return f"there is no message {message}, or it has been removed"
    if tried[0].result == "sent":
        return f"message {message} was sent, and has been removed since"
    if tried[0].result == "again":
        return f"message {message} was removed before it was sent"
    return (
        f"message {message} has been removed; from its error message, if that is still stored, it is run again by "
        f"demaq replay --error {tried[0].kind} --queue {tried[0].queue}"
    )
