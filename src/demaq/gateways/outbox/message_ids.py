"""MessageIDs of WS-Addressing for messages in the store: unique in the world, and the same in every attempt.

The node recognises the ones that it has made, so an answer that comes later, by a request of its own, finds its message
without a table. They are UUIDs of version 8 (RFC 9562, 5.8): 60 bits of a digest of the epoch's name, which is random,
and the number of the message.
"""

from __future__ import annotations

import hashlib
from uuid import UUID

from demaq.store.epochs import Epochs

_PREFIX = "urn:uuid:"
_VERSION = 8
_VARIANT = 0b10
_SEQ_BITS = 62


def identify_message(epochs: Epochs, seq: int) -> str:
    """Return the MessageID of a stored message."""
    digest = _digest_epoch(epochs.epoch_name(seq))
    high = (digest >> 12) << 16 | _VERSION << 12 | digest & 0xFFF
    return f"{_PREFIX}{UUID(int=high << 64 | _VARIANT << _SEQ_BITS | seq)}"


def find_message(epochs: Epochs, message_id: str) -> int | None:
    """Return the number of the message that has a MessageID; None if it is not one of this store."""
    try:
        value = UUID(message_id.strip().removeprefix(_PREFIX)).int
    except ValueError:
        return None
    seq = value & ((1 << _SEQ_BITS) - 1)
    return seq if seq > 0 and identify_message(epochs, seq) == f"{_PREFIX}{UUID(int=value)}" else None


def _digest_epoch(name: str) -> int:
    """Return 60 bits."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) >> 4
