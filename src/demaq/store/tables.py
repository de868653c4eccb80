"""What the store's SQL runs on: tables in some database, and statements for them by name.

What a transaction changes is worked out in Python and is the same everywhere. Each database says it in its own SQL, in
statements of the same names with the same parameters and columns.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Tables(Protocol):
    """One connection, one caller at a time."""

    lock: threading.RLock
    """Held by whoever uses the connection."""

    @property
    def name(self) -> str:
        """How the operator knows the store."""

    @property
    def sql(self) -> Mapping[str, str]:
        """The statements, by name."""

    def rows(self, statement: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Any]: ...

    def stream(self, statement: str) -> Iterator[Any]:
        """Rows one after the other, for who reads many; within `reading`."""

    def execute(self, statement: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> None:
        """Within a transaction: run a statement that has no answer."""

    def execute_many(self, statement: str, parameters: Sequence[Sequence[Any]]) -> None:
        """Within a transaction: run it once for each row of parameters."""

    def transaction(self) -> AbstractContextManager[None]:
        """All of the block or nothing of it, durable at its end. Others see it whole or not at all."""

    def reading(self) -> AbstractContextManager[None]:
        """What is read in the block is of one moment."""

    def close(self) -> None: ...
