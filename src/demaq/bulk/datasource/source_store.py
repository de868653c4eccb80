"""The store of a data frame: open it for reading, with the program that ran on it last."""

from __future__ import annotations

from contextlib import closing

from demaq.errors import StoreError
from demaq.language.loader import load_program_texts
from demaq.language.program.program import Program
from demaq.store import opening
from demaq.store.location import place_of
from demaq.store.protocol import Store
from demaq.store.sql_store import SqlStore
from demaq.suggestions import describe_unknown


def open_for_reading(address: str) -> closing[SqlStore]:
    """Return a context manager of the store, whether or not a node runs on it."""
    return closing(opening.open_store_readonly(address))


def load_program_on(store: Store, address: str) -> tuple[str, Program]:
    """Return the digest of the program that ran on a store last, and the program."""
    _, digest, files = opening.program_on(store, place_of(address))
    return digest, load_program_texts(files)


def expect_queue(program: Program, queue: str, address: str) -> None:
    if queue not in program.queues:
        raise StoreError(f"{describe_unknown('queue', queue, program.queues)} (store {place_of(address)})")
