"""The folder of a store on SQLite: made for its owner alone, and refused where its database is gone.

A node that found no database would make a new, empty store in its place, and nobody would notice before he missed his
messages. So a folder that has held a store and has no database any more is refused.
"""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from demaq.errors import StoreDamaged, StoreError
from demaq.files import PRIVATE_FILE, PRIVATE_FOLDER
from demaq.store.mark import MARK_NAME
from demaq.store.sqlite_database import FILE_NAME, LOG_NAME

_OTHERS = stat.S_IROTH | stat.S_IWOTH


def make_folder(folder: Path) -> None:
    """Make the folder where there is none, for its owner alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    except OSError as error:
        raise StoreError(f"the store {folder} cannot be made: {error.strerror}") from error


def expect_database(folder: Path) -> None:
    """Refuse a folder whose database is gone while what belongs to it is still there."""
    if _size(folder / FILE_NAME):
        return
    remains = [name for name in (LOG_NAME, MARK_NAME) if _size(folder / name)]
    if remains:
        state = "empty" if (folder / FILE_NAME).exists() else "missing"
        raise StoreDamaged(
            f"the store {folder} has lost its database: {FILE_NAME} is {state}, but {' and '.join(remains)} "
            f"{'is' if len(remains) == 1 else 'are'} there. Nothing was changed. Put {FILE_NAME} back, or move the "
            "folder away and restore a backup (demaq restore)"
        )


def make_file(folder: Path) -> None:
    """Make an empty database where there is none, for its owner alone: SQLite gives its other files the same mode."""
    try:
        os.close(os.open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE))
    except OSError as error:
        raise StoreError(f"{folder / FILE_NAME} cannot be opened for writing: {error.strerror}") from error


def warn_about_mode(folder: Path) -> str | None:
    """Return a warning if other users of the machine may read or change what is stored."""
    mode = folder.stat().st_mode
    files = [folder / name for name in (FILE_NAME, LOG_NAME) if (folder / name).exists()]
    exposed = mode & stat.S_IXOTH and any([file.stat().st_mode & _OTHERS for file in files])
    if not exposed and not mode & stat.S_IWOTH:
        return None
    return f"other users of this machine may read the store {folder}: chmod -R go= {shlex.quote(str(folder))}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
