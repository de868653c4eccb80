"""Files that the product writes: errors that name them, and modes that keep other users out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
