"""Files that the product writes: errors that name them, and modes that keep other users out."""

from __future__ import annotations

import fcntl
import os
import shlex
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from demaq.errors import OperatorError, StoreError

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


@contextmanager
def name_in_errors(path: Path) -> Iterator[None]:
    """Let an OSError say which file it is about: one of a write, such as "No space left", does not by itself."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_private_text(path: Path, text: str) -> None:
    """Write a file that only its owner may read. Raises an OSError that names it."""
    with name_in_errors(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, PRIVATE_FILE)  # one that was there may have had another mode
            file.write(text)


def make_lasting(folder: Path) -> None:
    """Let a folder and what it names survive power loss: a new file does only when the folders that name it do."""
    for each in (folder, folder.absolute().parent):
        with suppress(OSError):  # a folder we may not read: its owner has made it long ago
            descriptor = os.open(each, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


STATE_FOLDER = "demaq"


def state_folder() -> Path:
    """Return the folder for what nodes of this user remember. Raise a StoreError if there can be none."""
    said = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(said):
        return Path(said) / STATE_FOLDER
    try:
        return Path.home() / ".local" / "state" / STATE_FOLDER
    except RuntimeError:
        raise StoreError("you have no home folder: set XDG_STATE_HOME to a folder for what nodes remember") from None


PRIVATE = 0o600
FORBIDDEN = stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP
"""Others may not read such a file, and only its owner may write it. Its group may read it, if it shall."""
PRIVATE_BYTES_MAX = 16 * 1024 * 1024
"""A file that is longer is none of these."""
FOLDER_SECONDS_MAX = 5.0
"""How long to wait for a folder in which a file is to be made."""


def read_private(path: Path) -> str:
    """Return the text of a file that others may not read. Raises OperatorError, which never shows what is in it."""
    try:
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise OperatorError(f"{path}: not a file")
            expect_private(path, state.st_mode)
            data = file.read(PRIVATE_BYTES_MAX + 1)
    except OSError as error:
        raise OperatorError(f"{path}: {error.strerror}") from None
    if len(data) > PRIVATE_BYTES_MAX:
        raise OperatorError(f"{path}: longer than {PRIVATE_BYTES_MAX:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise OperatorError(f"{path}: not UTF-8") from None


def expect_private(path: Path, mode: int) -> None:
    """Refuse a file that others may read or change."""
    if mode & FORBIDDEN:
        raise OperatorError(f"{path}: others may read or change it; chmod 600 {shlex.quote(str(path))}")


def file_version(path: Path) -> tuple[int, ...] | None:
    """Return what is different once a file was changed or replaced; None if there is none."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def write_private(path: Path, text: str) -> None:
    """Replace a file at once. A new one is for its owner alone; one that was there keeps its owner and mode."""
    real = Path(os.path.realpath(path))  # a link stays a link; one that leads to itself is refused by the system
    try:
        former = real.stat() if real.exists() else None
        descriptor, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fchmod(descriptor, stat.S_IMODE(former.st_mode) & ~FORBIDDEN if former else PRIVATE)
                if former is not None and os.geteuid() == 0:
                    os.fchown(descriptor, former.st_uid, former.st_gid)
                os.fsync(descriptor)
            Path(name).replace(real)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OperatorError(f"{path}: {error.strerror}") from None


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """One process at a time changes this file."""
    lock = _lock(path)
    try:
        yield
    finally:
        os.close(lock)


def _lock(path: Path) -> int:
    """Return a descriptor that holds the lock: on the file, or on its folder where there is no file yet.

    The file is replaced when it is written, so a lock counts only if the file is still the one of that name. A folder
    may be locked for long by a node whose store is there, and so is not waited for without a bound.
    """
    real = Path(os.path.realpath(path))
    give_up = time.monotonic() + FOLDER_SECONDS_MAX
    while True:
        try:
            exists = real.exists()
            lock = os.open(real if exists else real.parent, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise OperatorError(f"{path}: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if exists else fcntl.LOCK_NB))
            if not exists and not real.exists():
                return lock
            if exists and os.path.samestat(os.fstat(lock), real.stat()):
                return lock
        except BlockingIOError:
            if time.monotonic() > give_up:
                os.close(lock)
                raise OperatorError(f"{path}: another process uses the folder; make the file elsewhere") from None
            time.sleep(0.05)
        except FileNotFoundError:
            pass  # it was removed meanwhile: look again
        os.close(lock)
