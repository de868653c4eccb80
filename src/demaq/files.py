"""Files that the product writes: errors that name them, and modes that keep other users out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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
