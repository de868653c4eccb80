"""Globally unique names of messages: the name of an epoch and the message's number.

A store that has gone back to an earlier state, because it was restored, copied or has lost the end of its log, assigns
numbers again. Receivers would take the new messages for duplicates of those that they know. So such a store begins a
new epoch: from the next number on, messages have another name. Older messages keep their names, because they may have
been sent already.

The first half of an epoch's name identifies the store and stays, the second half identifies the epoch.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Sequence

from demaq.store.checksums import checksum_of
from demaq.store.tables import Tables

STORE_LENGTH = 16


class Epochs:
    """The epochs of a store. They do not change while it is open."""

    def __init__(self, epochs: Sequence[tuple[int, str]]) -> None:
        """`epochs` has the first number and the name of each epoch, in order."""
        self._firsts = [first for first, _ in epochs]
        self._names = [name for _, name in epochs]

    @property
    def current(self) -> str:
        """The name for new messages: 32 characters."""
        return self._names[-1]

    def epoch_name(self, seq: int) -> str:
        """Return the name of the epoch in which a message was stored."""
        return self._names[max(bisect_right(self._firsts, seq) - 1, 0)]

    def message_name(self, seq: int) -> str:
        """Return the globally unique name of a message."""
        return f"{self.epoch_name(seq)}/{seq}"


def new_name() -> str:
    return uuid.uuid4().hex


def next_name(current: str) -> str:
    """Return a new name for the epoch after this one."""
    return current[:STORE_LENGTH] + uuid.uuid4().hex[STORE_LENGTH:]


def begin_epoch(tables: Tables) -> str:
    """Begin an epoch after the newest number and return its name. Within a transaction.

    Outgoing sequences end with the old epoch, because the next numbers of a sequence may have been used by a store that
    this one is a copy of. Incoming ones stay, with what is held back in them.
    """
    tables.execute(tables.sql["delete_outgoing_sequence_messages"])
    tables.execute(tables.sql["delete_outgoing_sequences"])
    newest = int(tables.rows(tables.sql["newest_number"])[0][0])
    name = next_name(Epochs(tables.rows(tables.sql["epochs"])).current)
    write_epoch(tables, newest + 1, name)
    return name


def write_epoch(tables: Tables, first: int, name: str) -> None:
    tables.execute(tables.sql["insert_epoch"], [first, name, checksum_of(first, name)])
