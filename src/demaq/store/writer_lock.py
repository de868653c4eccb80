"""One process at a time may write: whoever holds the lock on a file in the store's folder, with its pid inside.

The kernel drops the lock with its holder, however that one ends, so a killed node leaves nothing to clean up. The file
itself stays: if it were removed, two processes could each lock a file of that name.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from demaq.errors import StoreError

_held: set[int] = set()


class WriterLock:
    """Held from construction until it is released."""

    def __init__(self, folder: Path) -> None:
        try:
            self._file = os.open(folder / "writer.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"the store {folder} cannot be opened for writing: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._file, 20).decode("ascii", "replace").strip()
            os.close(self._file)
            raise StoreError(f"the store {folder} is held by process {holder or '(starting)'}") from error
        try:
            os.ftruncate(self._file, 0)
            os.write(self._file, b"%d\n" % os.getpid())
        except OSError:
            pass  # on a full disk: the lock holds without its note
        _held.add(self._file)

    def release(self) -> None:
        if self._file in _held:
            _held.discard(self._file)
            os.close(self._file)


def _let_go_in_child() -> None:
    """A forked child shares the lock and would hold it on after its parent was killed."""
    for file in _held:
        os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_in_child)
