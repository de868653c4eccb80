"""What acts on a store: a running node, in this process or another one, or the store itself if none runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from demaq.store.operator_records import AuditRecord, PauseKind
from demaq.store.protocol import NewMessage


class ActingNode(Protocol):
    """A `Node`, `RemoteNode` or `OfflineNode`. Each action is durable on return, with its audit record."""

    def pause(self, kind: PauseKind, name: str, who: str, why: str) -> bool:
        """Pause a part of the application. Return False if it was paused before. Raises an OperatorError."""

    def resume(self, kind: PauseKind, name: str, who: str, why: str) -> bool:
        """Resume a part of the application. Return False if it was not paused."""

    def purge(self, seqs: Sequence[int], entry: AuditRecord) -> tuple[list[int], int]:
        """Remove messages, whatever their state. Return which were removed, and the number of the audit record."""

    def note_audit(self, entry: AuditRecord) -> int:
        """Store an audit record, or store it again if it has a number. Return its number."""

    def append(self, messages: Sequence[NewMessage], digest: str, watch: str | None = None) -> list[bool]:
        """Store messages that were checked under the program of this digest. Return which are new."""
