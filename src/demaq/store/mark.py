"""The mark: what the newest commit of a store is, known apart from its database.

SQLite ends its log at the first frame that is damaged, and so forgets every commit after it without a word. The mark, a
small file, is written after each commit with the commit's number. A database that knows fewer commits than its mark
has gone back.

The mark is not synced with each commit, which would double its cost. It is written when the commit is durable, so it
is never ahead of it: a killed process leaves it exact, power loss at most behind.

It also says which file the database was and when the mark was written. A copy has another inode, and whoever brings
back an older file leaves a time of change that is later than what the file says.
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
"""The system's times of change are somewhat coarse."""

_LAYOUT = struct.Struct("<8s?7xQQQQ")
_CHECKSUM = struct.Struct("<I")
_KIND = b"demaq\0m1"
_SIZE = _LAYOUT.size + _CHECKSUM.size


@dataclass(frozen=True, slots=True)
class Mark:
    """What a mark says."""

    is_closed: bool
    """Whether the store was closed after this commit."""
    commits: int
    newest: int
    """The newest number."""
    inode: int
    """Of the database."""
    is_untouched: bool
    """Whether nobody has written or copied the file since."""


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
        """Note a commit, which is durable."""
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
        with suppress(OSError):  # the commit is stored all the same: a mark may be behind
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
