"""What operators ask of a running node: pauses, purges, deliveries once more, collections, and what became of messages.

They run in the thread of the caller. What must not happen in the middle of a round waits for its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from demaq.engine.collection_documents import collection_texts
from demaq.engine.engine import Engine
from demaq.engine.intake import expect_program
from demaq.language.program.program import Program
from demaq.operations.pause import describe_resumption, expect_part, make_pause
from demaq.server.message_watch import Watches
from demaq.server.node_thread import NodeThread
from demaq.server.redelivery import send_again
from demaq.store.operator_records import AuditRecord, PauseKind
from demaq.store.protocol import NewMessage, Store


@dataclass(slots=True)
class AttachedGateways:
    """The functions of a node's gateways; without gateways they do nothing."""

    wake: Callable[[], None] = lambda: None
    """There may be something to send."""
    look_again: Callable[[], None] = lambda: None
    """What was sent before may have to be sent again."""
    note_purged: Callable[[Sequence[int]], None] = lambda seqs: None
    """These messages were removed and are not to be sent any more."""
    status: Callable[[], dict[str, Any]] | None = None
    metrics: Callable[[], str] = lambda: ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOperations:
    """Acts on a node that runs. Each action is durable on return, with its audit record."""

    program: Program
    store: Store
    engine: Engine
    thread: NodeThread
    watches: Watches
    gateways: AttachedGateways
    clock: Callable[[], datetime]

    def append(self, messages: Sequence[NewMessage], digest: str, watch: str | None) -> list[bool]:
        """Store messages that were checked elsewhere under the program of this digest. Return which are new."""
        expect_program(self.store, digest)
        with self.thread.waking():
            return self.engine.append_checked(
                messages, lambda seqs: self._watch(watch, seqs) if watch is not None else None
            )

    def watch(self, name: str, seqs: Sequence[int]) -> None:
        self.engine.while_nothing_changes(lambda: self._watch(name, seqs))

    def read_watch(self, name: str) -> dict[str, Any]:
        """Return what has become of watched messages so far, and what keeps the others from being processed."""
        watch = self.watches.find(name)
        state = self.engine.while_nothing_changes(watch.state)
        return {**state, "fault": self.thread.fault, "paused": self._find_pauses_of(watch.open_seqs())}

    def load_collection(self, name: str, documents: Sequence[bytes | str], entry: AuditRecord | None) -> int:
        texts = collection_texts(self.program, name, documents)
        with self.thread.turn, self.engine.arrivals.excluded():
            self.engine.forget_ahead()
            return self.store.load_collection(name, texts, entry)

    def redeliver(self, messages: Sequence[int], entry: AuditRecord | None) -> None:
        with self.thread.turn, self.thread.waking():  # so that none is removed meanwhile
            again = partial(send_again, self.store, self.program, messages, self.clock(), entry)
            try:
                self.engine.while_nothing_changes(again)
            finally:  # also if it is in doubt whether that was stored
                self.gateways.look_again()

    def pause(self, kind: PauseKind, name: str, who: str, why: str) -> bool:
        expect_part(self.program, kind, name)
        pause, entry = make_pause(kind, name, who, why, self.clock())
        with self.thread.turn:
            if pause.part in self.engine.pauses.by_part:
                return False
            self.store.change_pauses([pause], (), entry)
            self._apply_pauses()
        return True

    def resume(self, kind: PauseKind, name: str, who: str, why: str) -> bool:
        with self.thread.turn:
            if (kind, name) not in self.engine.pauses.by_part:
                return False
            self.store.change_pauses((), [(kind, name)], describe_resumption(kind, name, who, why))
            self._apply_pauses()
        return True

    def purge(self, seqs: Sequence[int], entry: AuditRecord) -> tuple[list[int], int]:
        with self.thread.turn, self.thread.waking():
            removed, number = self.engine.purge(seqs, entry)
            self.watches.forget(removed)
            self.gateways.note_purged(removed)
        return removed, number

    def collect_garbage(self) -> int:
        removed = 0
        while found := self.thread.collect_garbage():
            removed += found
        return removed

    def _watch(self, name: str, seqs: Sequence[int]) -> None:
        priority = self.engine.factory.priority
        self.watches.add(name, [m for m in self.store.messages(seqs) if priority(m.queue) is not None])

    def _find_pauses_of(self, seqs: Sequence[int]) -> list[str]:
        """Return what is paused if none of these messages can be processed now because of that."""
        paused = self.engine.pauses
        if not paused.queues or not self.engine.is_waiting_for_pauses(seqs):
            return []
        return [f"{kind} {name}" for kind, name in paused.by_part if kind != "gateway"]

    def _apply_pauses(self) -> None:
        with self.thread.waking():
            self.engine.set_pauses(self.store.pauses())
            self.gateways.look_again()
