"""The writer's lock on a store's folder: one process at a time may write.

The kernel releases the lock when its holder ends, for whatever reason, so a killed node leaves nothing to clean up. The
folder itself is locked, because a lock file could be removed and created again, and then two processes could each lock
a file of that name. The file `writer.lock` holds the holder's process id and is locked too: for nodes of older
versions, and for file systems that cannot lock folders.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from demaq.errors import StoreError, StoreHeld

FILE_NAME = "writer.lock"

_held: set[int] = set()


class WriterLock:
    """Held from construction until it is released."""

    def __init__(self, folder: Path) -> None:
        self._locks: list[int] = []
        try:
            file = self._open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT)
            held = _is_locked_elsewhere(self._open(folder, os.O_RDONLY), is_folder=True) or _is_locked_elsewhere(file)
        except OSError as error:
            self.release()
            raise StoreError(f"the store {folder} cannot be opened for writing: {error.strerror}") from error
        if held:
            holder = os.read(file, 20).decode("ascii", "replace").strip()
            self.release()
            raise StoreHeld(f"the store {folder} is held by {f'process {holder}' if holder else 'another process'}")
        with suppress(OSError):  # on a full disk: the lock is held without the process id
            os.ftruncate(file, 0)
            os.write(file, b"%d\n" % os.getpid())

    def release(self) -> None:
        for lock in self._locks:
            if lock in _held:
                _held.discard(lock)
                os.close(lock)

    def _open(self, path: Path, flags: int) -> int:
        lock = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._locks.append(lock)
        _held.add(lock)
        return lock


def _is_locked_elsewhere(descriptor: int, is_folder: bool = False) -> bool:
    """Try to lock a file or folder. Return whether another process holds the lock;

    False if folders cannot be locked.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN):
            return True
        if not is_folder:
            raise
    return False


def _close_in_child() -> None:
    """Close the descriptors that a forked child shares: it would hold the lock after its parent was killed."""
    for file in _held:
        os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)
