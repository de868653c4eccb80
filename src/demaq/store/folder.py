"""The folder of a store on SQLite: private to its owner, and refused if its database is missing.

Without its database, a node would create a new, empty store, and the loss would go unnoticed. So a folder that has held
a store and has no database any more is refused.
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


def create_store_folder(folder: Path) -> None:
    """Create the folder if there is none, private to its owner."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    except OSError as error:
        raise StoreError(f"the store {folder} cannot be made: {error.strerror}") from error


def expect_database(folder: Path) -> None:
    """Raise StoreDamaged if the database is missing but its log or mark is there."""
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


def create_database_file(folder: Path) -> None:
    """Create an empty database file if there is none, private to its owner. SQLite creates its other files likewise."""
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
