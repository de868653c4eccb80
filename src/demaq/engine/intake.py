"""Messages that no rule has made, before they are stored: what is known of one, and checks of what a client says.

`MessageFactory.receive_all` makes what is stored of all of them: messages of senders, of timers that are due, of
services that reply, and about errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from demaq.documents import Document
from demaq.errors import MessageError, StoreError
from demaq.language.program.program import Program
from demaq.messages import PropertyValue
from demaq.store.protocol import Store, StoredMessage
from demaq.store.request_names import SEPARATOR, has_digest, name_of
from demaq.suggestions import Suggestions, describe_unknown
from demaq.system_properties import transport_properties

_NOT_REPEATED = "another message was sent under this name before, and one that is repeated must be the same"


class IncomingMessage(NamedTuple):
    """A message that no rule has made, on its way into a queue."""

    body: str | bytes
    properties: Mapping[str, str] = {}
    """Set by its sender."""
    request: str | None = None
    inherited: Mapping[str, PropertyValue] = {}
    """Properties of the transport that brought it, or of the message that caused it."""
    document: Document | None = None
    """The body, if it was parsed already."""
    hops: int = 0
    """How many hops it is from the message with which it began, here or on other nodes."""
    trigger: StoredMessage | None = None
    """The message that caused it, if one of this store did."""
    rule: str | None = None
    """The rule that it is about: of an error message."""
    system: Mapping[str, PropertyValue] = {}
    """Set by the system, whatever the queue declares."""


def make_incoming(message: str | bytes | IncomingMessage) -> IncomingMessage:
    """Return a message of a client, of which only the body may be given."""
    return message if isinstance(message, IncomingMessage) else IncomingMessage(message)


def type_properties(program: Program, queue: str, given: Mapping[str, str]) -> dict[str, PropertyValue]:
    """Return properties that a client sets, with the types they are declared with. Raises a MessageError."""
    expect_queue(program, queue)
    known = program.queues[queue]
    found: dict[str, PropertyValue] = {}
    for name, text in given.items():
        declared = program.properties.get(name)
        if declared is None and name in transport_properties(known.kind):
            found[name] = PropertyValue.string(text)
        elif declared is None or declared.decl is None or queue not in declared.values:
            settable = [p.name for p in program.properties_of(queue) if p.decl is not None and p.variant != "fixed"]
            hint = Suggestions().did_you_mean(name, [*settable, *transport_properties(known.kind)])
            raise MessageError("propertyError", f"queue {queue} has no property {name}" + (f"; {hint}" if hint else ""))
        elif declared.variant == "fixed":
            raise MessageError("propertyError", f"property {name} is fixed and cannot be set")
        else:
            found[name] = PropertyValue(declared.type, text, text)
    return found


def expect_queue(program: Program, queue: str) -> None:
    """Raise a MessageError if the program has no such queue."""
    if queue not in program.queues:
        raise MessageError("enqueueError", describe_unknown("queue", queue, program.queues))


def expect_repeated(store: Store, request: str | None) -> None:
    """Raise a MessageError if a request of a known name has another content than the first one of that name."""
    if request is None or not has_digest(request):
        return
    known = store.requested(name_of(request) + SEPARATOR)
    if known and request not in known:  # names without a digest were stored by an earlier version
        raise MessageError("refused", _NOT_REPEATED)


def expect_all_repeated(store: Store, requests: Iterable[str | None]) -> None:
    """Raise a MessageError if one of several requests has the name of another one, or of a known one, and not its
    content."""
    named: dict[str, str] = {}
    for request in requests:
        if request is not None and has_digest(request):
            if named.setdefault(name_of(request), request) != request:
                raise MessageError("refused", _NOT_REPEATED)
            expect_repeated(store, request)


def mark_new(numbers: Iterable[int], last: int) -> list[tuple[int, bool]]:
    """Return for the seq of each message that one transaction was to store whether it is new.

    New ones ascend from `last`, the newest seq before it. The others have the seq of an earlier message of the same
    name, which may have been stored in the same transaction.
    """
    found: list[tuple[int, bool]] = []
    for number in numbers:
        found.append((number, number > last))
        last = max(last, number)
    return found


def expect_program(store: Store, digest: str) -> None:
    """Raise a StoreError if the program is no longer the one under which messages were checked."""
    known = store.program()
    if known is None or known[1] != digest:
        raise StoreError("another application runs on the store than the one that the messages were checked for")
