"""Faults below SQLite: the system itself refuses, cuts or loses what the store writes. Nothing of ours is replaced."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demaq.store import SqliteStore
from demaq.store.sqlite_database import FILE_NAME

LOG_NAME = f"{FILE_NAME}-wal"
"""SQLite's write-ahead log: a commit is what is in it, whole and synced."""
LOG_HEADER_SIZE = 32
FRAME_SIZE = 24 + 4096
"""A head and a page."""


@contextmanager
def no_write_succeeds(store: SqliteStore) -> Iterator[None]:
    """The log can be read and no longer written."""
    with log_replaced_by(store, store._database.folder / LOG_NAME, os.O_RDONLY):
        yield


@contextmanager
def writes_are_lost(store: SqliteStore) -> Iterator[None]:
    """Writes seem to succeed and go nowhere; the sync after them fails."""
    with log_replaced_by(store, Path("/dev/null"), os.O_RDWR):
        yield


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """The write that would make one longer is cut short there, and the next one fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def log_replaced_by(store: SqliteStore, other: Path, flags: int) -> Iterator[None]:
    """The descriptor that SQLite writes its log to leads elsewhere, until the end of the block."""
    opened = os.open(other, flags | os.O_CLOEXEC)
    kept = {log: os.dup(log) for log in descriptors_of(store._database.folder / LOG_NAME) if log != opened}
    assert kept, "the log is open"
    for log in kept:
        os.dup2(opened, log, inheritable=False)
    os.close(opened)
    try:
        yield
    finally:
        for log, copy in kept.items():
            os.dup2(copy, log, inheritable=False)
            os.close(copy)


def descriptors_of(file: Path) -> list[int]:
    """Under which this process has the file open: more than one after a crash in a laboratory."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            same = os.path.samefile(f"/proc/self/fd/{name}", file)
        except OSError:  # the descriptor of the listing itself, or one of something that has no file
            continue
        if same:
            found.append(int(name))
    return found


def length_of_log(folder: Path) -> int:
    """Where the log ends: after its last frame, or before what an older log left there."""
    log = (folder / LOG_NAME).read_bytes()
    length = LOG_HEADER_SIZE
    # A frame belongs to the log if it bears the log's salt.
    while length + FRAME_SIZE <= len(log) and log[length + 8 : length + 16] == log[16:24]:
        length += FRAME_SIZE
    return length
