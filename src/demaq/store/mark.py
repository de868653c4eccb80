"""The mark: a small file with the number of a store's commits, independent of its database.

SQLite ends its log at the first damaged frame, and so silently drops every commit after it. The mark is written after
each commit with the number of commits. A database with fewer commits than its mark has gone back.

Invariant: the mark is never ahead of the database. It is written after the commit is durable, and not synced with each
commit, which would double the cost. So after a crash of the process it is exact, and after power loss it may be older.

It also holds the inode of the database and the time at which it was written. A copy has another inode, and replacing
the mark by an older one leaves a time of change later than the time in it.
"""

from __future__ import annotations

import os
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from demaq.errors import StoreError
from demaq.files import PRIVATE_FILE

MARK_NAME = "store.mark"
TIME_SLACK_SECONDS = 2
"""File systems have coarse times of change."""

_LAYOUT = struct.Struct("<8s?7xQQQQ")
_CHECKSUM = struct.Struct("<I")
_KIND = b"demaq\0m1"
_SIZE = _LAYOUT.size + _CHECKSUM.size


@dataclass(frozen=True, slots=True)
class Mark:
    """The content of a mark."""

    is_closed: bool
    """Whether the store was closed after this commit."""
    commits: int
    newest: int
    """The newest number."""
    inode: int
    """Of the database."""
    is_untouched: bool
    """Whether the file was not changed or copied after it was written."""


class MarkFile:
    """The mark of a store that is open for writing."""

    def __init__(self, database: Path) -> None:
        path = database.with_name(MARK_NAME)
        self._inode = database.stat().st_ino
        self._last = (0, 0)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        except OSError as error:
            raise StoreError(f"{path} cannot be opened for writing: {error.strerror}") from error

    def write(self, commits: int, newest: int) -> None:
        """Note a commit. It must be durable."""
        self._last = commits, newest
        self._write(is_closed=False)

    def sync(self) -> None:
        with suppress(OSError):
            os.fsync(self._file)

    def close(self) -> None:
        if self._file >= 0:
            self._write(is_closed=True)
            self.sync()
            os.close(self._file)
            self._file = -1

    def _write(self, is_closed: bool) -> None:
        data = _LAYOUT.pack(_KIND, is_closed, *self._last, self._inode, time.time_ns())
        with suppress(OSError):  # the commit is durable anyway: a mark may be older
            os.pwrite(self._file, data + _CHECKSUM.pack(crc32(data)), 0)


def read_mark(folder: Path) -> Mark | None:
    """Return the mark of a store; None if there is none. Raises a ValueError if it is damaged."""
    try:
        with (folder / MARK_NAME).open("rb") as file:
            data = file.read(_SIZE + 1)
            changed = os.fstat(file.fileno()).st_ctime_ns
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{folder / MARK_NAME} cannot be read: {error.strerror}") from error
    said = data[: _LAYOUT.size]
    if len(data) != _SIZE or _CHECKSUM.pack(crc32(said)) != data[_LAYOUT.size :]:
        raise ValueError("its checksum is wrong")
    kind, is_closed, commits, newest, inode, written = _LAYOUT.unpack(said)
    if kind != _KIND:
        raise ValueError("it is of another version")
    untouched = changed <= written + TIME_SLACK_SECONDS * 1_000_000_000
    return Mark(is_closed, commits, newest, inode, untouched)
