"""A private folder for a socket file, whose path may not be long."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

SOCKET_PATH_BYTES_MAX = 100
"""The path of a socket has at most 108 bytes on Linux, and 104 on other systems."""


def make_socket_folder(prefix: str, name: str) -> Path:
    """Return a new folder of our own whose path leaves room for a socket of this name."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if len(os.fsencode(folder / name)) <= SOCKET_PATH_BYTES_MAX:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
