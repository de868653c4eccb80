"""Check what a client says about a message from outside: its queue, properties, name and program."""

from __future__ import annotations

from collections.abc import Mapping

from demaq.errors import MessageError, StoreError
from demaq.language.program.program import Program
from demaq.language.resolving.suggestions import Suggestions, describe_unknown
from demaq.messages import PropertyValue
from demaq.store.protocol import Store
from demaq.store.request_names import SEPARATOR, has_digest, name_of
from demaq.system_properties import transport_properties


def explicit_properties(program: Program, queue: str, given: Mapping[str, str]) -> dict[str, PropertyValue]:
    """Properties that a client sets, with the types they are declared with. Raises a MessageError."""
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
    """Raises a MessageError where the program has no such queue."""
    if queue not in program.queues:
        raise MessageError("enqueueError", describe_unknown("queue", queue, program.queues))


def expect_repeated(store: Store, request: str | None) -> None:
    """Raise a MessageError where a request that was known says something else than the first one of its name."""
    if request is None or not has_digest(request):
        return
    known = store.requested(name_of(request) + SEPARATOR)
    if known and request not in known:  # where none has a digest, an earlier version has stored it
        raise MessageError(
            "refused", "another message was sent under this name before, and one that is repeated must be the same"
        )


def expect_program(store: Store, digest: str) -> None:
    """Raises a StoreError where the program is no longer the one that messages were checked under."""
    known = store.program()
    if known is None or known[1] != digest:
        raise StoreError("another application runs on the store than the one that the messages were checked for")
