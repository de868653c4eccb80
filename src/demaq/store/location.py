"""Where a store is: for opening it, for naming it without secrets, and what of it lies on this machine.

A folder holds everything. For a store on a server, a node keeps what belongs to its machine, such as the way to its
socket and Spark's log, in a folder of the user's, named after the address.
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
    """For opening it; an address may hold a password."""
    name: str
    """For whoever reads it."""
    folder: Path
    """Where things are that belong to the store and to this machine."""

    def __str__(self) -> str:
        return self.name

    @property
    def is_on_server(self) -> bool:
        return isinstance(self.where, str)


def place_of(store: str | os.PathLike[str]) -> StoreLocation:
    """The place that somebody has given as a folder or as an address. Raises a StoreError where it is neither."""
    text = os.fspath(store)
    if not is_address(store if isinstance(store, Path) else text):
        return StoreLocation(Path(text), str(Path(text)), Path(text))
    address = Address(text)
    return StoreLocation(text, str(address), state_folder() / _folder_name(address))


def store_argument(store: StoreLocation | Path) -> str:
    """Return the argument that names a store, for a command that somebody may copy from what we say."""
    return f"--store {shlex.quote(str(store))}"


def _folder_name(address: Address) -> str:
    """The same for all addresses of one store but for passwords and the like; readable, and of its own by a digest."""
    known = address.identity()
    digest = hashlib.sha256(repr(known).encode()).hexdigest()[:DIGEST_LENGTH]
    shown = " ".join([known.get(part, "") for part in ("user", "host", "dbname")])
    readable = re.sub(r"[^A-Za-z0-9]+", "-", shown).strip("-")
    return f"{readable[:NAME_LENGTH_MAX]}-{digest}"
