"""Commands wait for a node that is starting, so that `demaq run … &` can be followed by `demaq send …` at once.

A process that is to be a node announces itself first of all, long before it can answer: it locks a file that is named
after its store, in the user's folder of state. The kernel drops the lock with the process, so a node that was killed
is not waited for. What is imported here is small, because the announcement comes before all large imports.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from demaq.errors import NodeMissing, StoreError, StoreHeld, StoreMissing
from demaq.files import state_folder

T = TypeVar("T")

DEFAULT_STORE = "demaq-store"
"""The store of a command that names none."""
FOLDER = "starting"
START_SECONDS_MAX = 60.0
"""How long a node that has announced itself is waited for: it may have to look for damage, or to migrate its store."""
HELD_SECONDS_MAX = 10.0
"""How long to wait for a store whose writer is no node that answers: a command, or a node that is stopping."""
MISSING_SECONDS_MAX = 1.0
"""How long a store or a node may be missing: a process that was started just before may not have announced itself."""
QUIET_SECONDS = 1.0
"""After so long the user gets what is waited for."""
LOOK_EVERY_SECONDS = 0.05

_announced: Announcement | None = None


class Announcement:
    """A process says that it will be the node of a store, until it is closed or the process ends."""

    def __init__(self, store: str | Path) -> None:
        """Raise an OSError or a StoreError if it cannot be said, or another process has done so."""
        self._path = _path(store)
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
        os.close(self._file)


def announce(store: str) -> None:
    """Say that this process will be the node of a store. Where that cannot be said, commands wait less."""
    global _announced
    with contextlib.suppress(OSError, StoreError, ValueError):
        _announced = Announcement(store)


def end_announcement() -> None:
    """Say that the node answers now, or that there will be none."""
    global _announced
    if _announced is not None:
        _announced.close()
        _announced = None


def is_starting(store: str | Path) -> bool:
    """Return whether a process has announced that it will be the node of a store, and is not ready yet."""
    if _announced is not None:
        return False  # it is this one
    try:
        file = os.open(_path(store), os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, StoreError, ValueError):
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def retry_while_starting(
    store: str | Path,
    act: Callable[[], T],
    tell: Callable[[str], None],
    has_node: Callable[[], bool] = lambda: False,
) -> T:
    """Return what `act` returns, as soon as it need not wait for a node that is starting or for another writer.

    Raise what it raises when that has taken too long. `has_node` says whether a node runs on the store already: another
    one that starts meanwhile will be refused, and is not waited for.
    """
    began = time.monotonic()
    is_reported = False
    while True:
        waited = time.monotonic() - began
        reason: str | None = None
        if waited < START_SECONDS_MAX and is_starting(store) and not has_node():
            reason = "a node is starting on the store"
        else:
            try:
                return act()
            except (StoreMissing, NodeMissing):
                if waited > MISSING_SECONDS_MAX:
                    raise
            except StoreHeld as error:
                if waited > HELD_SECONDS_MAX:
                    raise
                reason = str(error)
        if reason is not None and waited > QUIET_SECONDS and not is_reported:
            is_reported = True
            tell(f"waiting: {reason}")
        time.sleep(LOOK_EVERY_SECONDS)


def store_in(arguments: Sequence[str]) -> str:
    """Return the store that the arguments of a command name, before anything that could parse them is imported."""
    store = DEFAULT_STORE
    for position, word in enumerate(arguments):
        if word == "--store" and position + 1 < len(arguments):
            store = arguments[position + 1]
        elif word.startswith("--store="):
            store = word.removeprefix("--store=")
    return store


def _path(store: str | Path) -> Path:
    """Return the file of an announcement: the same for all paths to one folder, and for an address as it is written."""
    text = os.fspath(store)
    known = text if "://" in text else os.path.realpath(text)
    digest = hashlib.sha256(os.fsencode(known)).hexdigest()[:32]
    return state_folder() / FOLDER / digest
