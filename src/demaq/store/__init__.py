"""The store: an append-only log of messages that loses nothing it has said yes to."""

from demaq.store.memory_store import MemoryStore
from demaq.store.protocol import Store
from demaq.store.sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "Store"]
