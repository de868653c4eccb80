"""Messages that were acknowledged, and wait for those before them in their sequence: as text for the store.

What is kept is what came in, not what would be stored: when a message is released, another version of the program may
run, which computes other properties.
"""

from __future__ import annotations

import json

from demaq.engine.intake import IncomingMessage
from demaq.messages import PropertyValue


def encode_held(incoming: IncomingMessage) -> str:
    """Return the text of a message that has been parsed."""
    assert incoming.document is not None, "it was checked before it was held back"
    inherited = {name: [value.type, value.text, value.key] for name, value in incoming.inherited.items()}
    return json.dumps(
        {
            "body": incoming.document.text,
            "properties": dict(incoming.properties),
            "request": incoming.request,
            "inherited": inherited,
            "hops": incoming.hops,
        },
        ensure_ascii=False,
    )


def decode_held(text: str) -> IncomingMessage:
    """Return the message that `encode_held` has written."""
    plain = json.loads(text)
    return IncomingMessage(
        body=plain["body"],
        properties=plain["properties"],
        request=plain["request"],
        inherited={name: PropertyValue(*value) for name, value in plain["inherited"].items()},
        hops=plain["hops"],
    )
