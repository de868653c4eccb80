"""What a client may say about the messages it sends."""

from __future__ import annotations

from collections.abc import Mapping

from demaq.errors import MessageError
from demaq.language.program import Program
from demaq.language.system_properties import transport_properties
from demaq.messages import PropertyValue


def explicit_properties(program: Program, queue: str, given: Mapping[str, str]) -> dict[str, PropertyValue]:
    """Properties that a client sets, with the types they are declared with. Raises a MessageError."""
    known = program.queues.get(queue)
    found: dict[str, PropertyValue] = {}
    for name, text in given.items():
        declared = program.properties.get(name)
        if declared is None and known is not None and name in transport_properties(known.kind):
            found[name] = PropertyValue.string(text)
        elif declared is None or declared.decl is None or queue not in declared.values:
            raise MessageError("propertyError", f"queue {queue} has no property {name}")
        elif declared.variant == "fixed":
            raise MessageError("propertyError", f"property {name} is fixed and cannot be set")
        else:
            found[name] = PropertyValue(declared.type, text, text)
    return found
