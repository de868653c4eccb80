"""Where a store is: how to open it, its name without secrets, and its folder on this machine.

The folder of a store on SQLite holds everything. For a store on a server, a node keeps what belongs to its machine,
such as the path of its socket and Spark's log, in a folder of the user, named after the address.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from demaq.files import state_folder
from demaq.store.address import Address, is_address

NAME_LENGTH_MAX = 60
DIGEST_LENGTH = 12


@dataclass(frozen=True, slots=True)
class StoreLocation:
    where: str | Path = field(repr=False)
    """The folder, or the address of a database, which may hold a password."""
    name: str
    """For messages to people, without secrets."""
    folder: Path
    """Holds the files of the store that belong to this machine."""

    def __str__(self) -> str:
        return self.name

    @property
    def is_on_server(self) -> bool:
        return isinstance(self.where, str)


def place_of(store: str | os.PathLike[str]) -> StoreLocation:
    """Return the location of a folder or an address. Raises StoreError if it is neither."""
    text = os.fspath(store)
    if not is_address(store if isinstance(store, Path) else text):
        return StoreLocation(Path(text), str(Path(text)), Path(text))
    address = Address(text)
    return StoreLocation(text, str(address), state_folder() / _make_folder_name(address))


def store_argument(store: StoreLocation | Path) -> str:
    """Return the command-line argument that names a store, for commands in messages."""
    return f"--store {shlex.quote(str(store))}"


def _make_folder_name(address: Address) -> str:
    """Return a readable, unique name, equal for all addresses of one store (which may differ in passwords)."""
    known = address.identity()
    digest = hashlib.sha256(repr(known).encode()).hexdigest()[:DIGEST_LENGTH]
    shown = " ".join([known.get(part, "") for part in ("user", "host", "dbname")])
    readable = re.sub(r"[^A-Za-z0-9]+", "-", shown).strip("-")
    return f"{readable[:NAME_LENGTH_MAX]}-{digest}"
