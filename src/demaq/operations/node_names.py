"""By which names nodes of ours know each other's messages, and how to find a message by its name in another store.

A node sends the name of a message along: that of its epoch and its number, as `Demaq-Message` or as the Message-ID of a
mail. The receiver remembers it as the request under which it stored the message, with its queue and the sender.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from demaq.store.epochs import Epochs
from demaq.store.protocol import Store

_NODE = re.compile(r"node:.*:([0-9a-f]{32})/([0-9]{1,18})(?::[0-9a-f]+)?(?:\x1f.*)?", re.DOTALL)
_MAIL = re.compile(r"mail:.*?([0-9]{1,18})@([0-9a-f]{32})\.demaq\.invalid.*", re.DOTALL)
_SENDERS_MAX = 1_000
"""So many authenticated senders of a queue are asked for."""


@dataclass(frozen=True, slots=True)
class GlobalName:
    """The globally unique name of a message."""

    epoch: str
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}/{self.seq}"


def name_message(epochs: Epochs, seq: int) -> GlobalName:
    return GlobalName(epochs.epoch_name(seq), seq)


def read_sender_name(request: str | None) -> GlobalName | None:
    """Return the name that a message has at the node of ours it came from, by its request; None for other senders."""
    if request is None:
        return None
    if (match := _NODE.fullmatch(request)) is not None:
        return GlobalName(match[1], int(match[2]))
    if (match := _MAIL.fullmatch(request)) is not None:
        return GlobalName(match[2], int(match[1]))
    return None


def read_request_queue(request: str | None) -> str | None:
    """Return the queue into which a request came."""
    if request is None:
        return None
    transport, _, rest = request.partition(":")
    return rest.partition(":")[0] if transport in ("node", "http", "mail", "wsrm") and rest else None


def find_received(store: Store, queues: Iterable[str], name: GlobalName) -> list[int]:
    """Return the messages of these queues that were received from another node under a name, in order."""
    found: set[int] = set()
    for queue in queues:
        for sender in ("", *_find_senders(store, "node", queue)):
            found.update(_numbers(store, f"node:{queue}:{sender}:{name}"))
        for sender in ("", *_find_senders(store, "mail", queue)):
            found.update(_numbers(store, f"mail:{queue}:{sender}:<{name.seq}@{name.epoch}.demaq.invalid>"))
    return sorted(found)


def _numbers(store: Store, whole: str) -> list[int]:
    """Return the messages of a request with any digest. `1` is the beginning of `17`, but another message."""
    return [seq for request, seq in store.requested(whole).items() if request[len(whole) :][:1] in ("", ":", "\x1f")]


def _find_senders(store: Store, transport: str, queue: str) -> list[str]:
    """Return the authenticated senders of a queue, as `kind:name`, by one look-up for each."""
    beginning = f"{transport}:{queue}:"
    found: list[str] = []
    after = f"{beginning}:\U0010ffff"  # past those without a sender
    while len(found) < _SENDERS_MAX and (known := store.first_requested(beginning, after)) is not None:
        sender = ":".join(known[0][len(beginning) :].split(":", 2)[:2])
        found.append(sender)
        after = f"{beginning}{sender}:\U0010ffff"
    return found
