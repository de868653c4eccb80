"""The properties every message has without a declaration, and those a transport or a timer asks for."""

from __future__ import annotations

HEADER = "demaq:header."
"""What an HTTP or mail header is called as a property: `demaq:header.Content-Language`."""

ADDRESSING = "demaq:addressing."
"""What a header of WS-Addressing is called as a property, in whichever version it came: `demaq:addressing.Action`."""
ADDRESSING_NAMES = ("MessageID", "To", "Action", "From", "ReplyTo", "FaultTo", "RelatesTo")
ANSWER_TO = "demaq:answerTo"
"""Where the answer to a request goes that does not want it on its connection."""

SAMPLED = "demaq:sampled"
"""On all messages of a conversation that is kept whole, as an example of many that are not."""
ERROR_LEVEL = "demaq:errorLevel"
"""What an error message has in addition: how far up it has come, see `demaq.engine.error_routing`."""

REPLAY_OF = "demaq:replayOf"
"""On a message that is run again: the number of the one it is a copy of, and of the first one where that is a copy."""
REPLAY_RULE = "demaq:replayRule"
"""On such a copy, where not all rules of its queue are to act on it: the one that does; empty where none does."""
FAILED_REPLAY_OF = "demaq:failedReplayOf"
"""On the error message about such a copy: what the copy has as `demaq:replayOf`."""
INITIAL = "demaq:initial."
"""What a value of a message is called in the error message about it, so that the message can be run again."""

SYSTEM_PROPERTIES = {
    "demaq:id": "string",
    "demaq:queue": "string",
    "demaq:created": "dateTime",
    "demaq:size": "integer",
    "demaq:rule": "string",
    "demaq:trigger": "string",
    "demaq:origin": "string",
    ERROR_LEVEL: "integer",
    REPLAY_OF: "string",
    REPLAY_RULE: "string",
    FAILED_REPLAY_OF: "string",
    "demaq:arrived": "dateTime",
    "demaq:sender": "string",
    "demaq:connection": "string",
    "demaq:contentType": "string",
    ANSWER_TO: "string",
    SAMPLED: "boolean",
    **{f"{ADDRESSING}{name}": "string" for name in ADDRESSING_NAMES},
}
"""Set by the system alone, each with the local name of its type. From `demaq:arrived` on they come through gateways."""

ADDRESSING_PROPERTIES = tuple([f"demaq:{name}" for name in ADDRESSING_NAMES])
"""The headers of WS-Addressing of what is sent, where it is not the system that is to decide about them."""

GATEWAY_PROPERTIES = ("Sender", "Recipient", *ADDRESSING_PROPERTIES)
"""May be set with `with` on what goes into a gateway."""

ECHO_PROPERTIES = ("timeout", "target")
"""Are set with `with` on what goes into an echo queue."""

UNSUITABLE_TARGETS = {
    "incomingGateway": "an incoming gateway",
    "echo": "an echo queue, and timeout and target are not handed on",
}
"""Kinds of queues that no timer can give its message to, in words."""


def is_system_property(name: str) -> bool:
    """Return whether the system sets this property."""
    return name in SYSTEM_PROPERTIES or (name.startswith(HEADER) and len(name) > len(HEADER))


def transport_properties(kind: str | None) -> tuple[str, ...]:
    """Return what may be set on a message for a queue of this kind without being declared."""
    if kind in ("incomingGateway", "outgoingGateway"):
        return GATEWAY_PROPERTIES
    return ECHO_PROPERTIES if kind == "echo" else ()
