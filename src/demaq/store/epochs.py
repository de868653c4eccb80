"""What other nodes know the messages of a store by: the name of an epoch and the message's number.

A store that has gone back to an earlier state, because it was restored or copied or has lost the end of its log, gives
numbers out again. Receivers would take the new messages for the old ones that they know. So such a store begins a new
epoch: from the next number on its messages have another name. Those that were there before keep theirs, because they
may have been sent already.

The first half of a name is the store's and stays, the second half is the epoch's.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Sequence

from demaq.store.checksums import checksum_of
from demaq.store.tables import Tables

STORE_LENGTH = 16


class Epochs:
    """The epochs of a store, as they are while it is open."""

    def __init__(self, epochs: Sequence[tuple[int, str]]) -> None:
        """From which number on each name holds, in that order."""
        self._firsts = [first for first, _ in epochs]
        self._names = [name for _, name in epochs]

    @property
    def current(self) -> str:
        """The name for new messages: 32 characters."""
        return self._names[-1]

    def name_of(self, seq: int) -> str:
        """Return the name that was the store's when the message was made."""
        return self._names[max(bisect_right(self._firsts, seq) - 1, 0)]

    def message_name(self, seq: int) -> str:
        """Return what others know a message by."""
        return f"{self.name_of(seq)}/{seq}"


def new_name() -> str:
    return uuid.uuid4().hex


def next_name(current: str) -> str:
    """Return a name for the epoch after this one."""
    return current[:STORE_LENGTH] + uuid.uuid4().hex[STORE_LENGTH:]


def begin_epoch(tables: Tables) -> str:
    """Within a transaction: let new messages have another name, and return it."""
    newest = int(tables.rows(tables.sql["newest_number"])[0][0])
    name = next_name(Epochs(tables.rows(tables.sql["epochs"])).current)
    write_epoch(tables, newest + 1, name)
    return name


def write_epoch(tables: Tables, first: int, name: str) -> None:
    tables.execute(tables.sql["insert_epoch"], [first, name, checksum_of(first, name)])
