"""The protocol between a store on SQL and its database: a connection, and statements by name.

What a transaction changes is computed in Python for every database alike. Each database has statements of the same
names with the same parameters and columns.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Tables(Protocol):
    """One connection, used by one caller at a time."""

    lock: threading.RLock
    """Held while the connection is used."""

    @property
    def name(self) -> str:
        """The name of the store in messages for operators."""

    @property
    def sql(self) -> Mapping[str, str]:
        """The statements, by name."""

    def rows(self, statement: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Any]: ...

    def stream(self, statement: str) -> Iterator[Any]:
        """Yield rows one by one, for large results. Within `reading`."""

    def execute(self, statement: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> None:
        """Run a statement without a result. Within a transaction."""

    def execute_many(self, statement: str, parameters: Sequence[Sequence[Any]], shared: Sequence[Any] = ()) -> None:
        """Run a statement for each row of parameters, before which it takes those that they share.

        Within a transaction.
        """

    def set_newest(self, number: int) -> None:
        """Set the newest number. Within a transaction."""

    def transaction(self) -> AbstractContextManager[None]:
        """Run the block as one transaction, durable at its end."""

    def reading(self) -> AbstractContextManager[None]:
        """Let all reads in the block see one snapshot."""

    def limit_statements(self, seconds: float) -> None:
        """Let each statement from now on fail with a StoreError if it takes longer."""

    def close(self) -> None: ...
