"""Where the messages of a bulk operation are stored, in which batches, and what is reported of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from demaq.errors import MessageError
from demaq.store.protocol import NewMessage

TRANSACTION_MESSAGES_MAX = 1000
TRANSACTION_BYTES_MAX = 32_000_000
EXAMPLES_MAX = 5
"""How many refused documents are reported with their location and error."""

T = TypeVar("T")


class MessageSink(Protocol):
    """A running node, or the store of a node that is offline."""

    def append(self, messages: Sequence[NewMessage], digest: str, watch: str | None = None) -> list[bool]:
        """Store messages made for the program with this digest, all or none. Return which of them are new.

        With `watch`, what becomes of them can be asked under that name.
        """


@dataclass(slots=True)
class BulkReport:
    """What a load or a replay has done."""

    stored: int = 0
    """Messages that are new in the store."""
    known: int = 0
    """Documents that an earlier run of the same name had stored, or refused, already."""
    refused: Counter[str] = field(default_factory=Counter)
    """Documents that the application does not accept, by the kind of error."""
    examples: list[str] = field(default_factory=list)

    def add_refusal(self, where: str, error: MessageError) -> None:
        self.refused[error.kind] += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(f"{where}: {error.kind}: {error.message}")


def split_batches(items: Iterable[T], count_max: int, bytes_max: int, size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield consecutive items in batches within both bounds.

    An item that is larger than `bytes_max` is a batch alone.
    """
    batch: list[T] = []
    total = 0
    for item in items:
        if batch and (len(batch) == count_max or total + size(item) > bytes_max):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size(item)
    if batch:
        yield batch


def split_transactions(items: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield consecutive items in batches that are stored in one transaction each."""
    return split_batches(items, TRANSACTION_MESSAGES_MAX, TRANSACTION_BYTES_MAX, size)
