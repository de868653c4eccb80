"""Where programs of a user remember things on this machine: XDG_STATE_HOME, or .local/state in the user's home."""

from __future__ import annotations

import os
from pathlib import Path

from demaq.errors import StoreError

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
