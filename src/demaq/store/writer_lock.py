"""One process at a time may write: whoever holds the lock on the store's folder.

The kernel drops the lock with its holder, however that one ends, so a killed node leaves nothing to clean up. The lock
is on the folder itself, because a file of locks can be removed and made anew, and then two processes could each lock a
file of that name. The file `writer.lock` says who the holder is, and is locked too: by that nodes of older versions
know, and it is all there is on file systems that lock no folders.
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
            held = _is_held(self._open(folder, os.O_RDONLY), is_folder=True) or _is_held(file)
        except OSError as error:
            self.release()
            raise StoreError(f"the store {folder} cannot be opened for writing: {error.strerror}") from error
        if held:
            holder = os.read(file, 20).decode("ascii", "replace").strip()
            self.release()
            raise StoreHeld(f"the store {folder} is held by {f'process {holder}' if holder else 'another process'}")
        with suppress(OSError):  # on a full disk: the lock holds without its note
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


def _is_held(descriptor: int, is_folder: bool = False) -> bool:
    """Lock it, and return whether somebody else has. A folder that cannot be locked at all is taken for free."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN):
            return True
        if not is_folder:
            raise
    return False


def _let_go_in_child() -> None:
    """A forked child shares the lock and would hold it on after its parent was killed."""
    for file in _held:
        os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_child)
