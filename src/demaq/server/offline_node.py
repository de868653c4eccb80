"""A store that no node runs on, for the commands that change it: the same checks, no processing."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from demaq.control.client import RemoteNode, running_node
from demaq.control.message_json import encode_for_listing
from demaq.engine.collection_documents import collection_texts
from demaq.engine.engine import Engine
from demaq.engine.intake import expect_program
from demaq.engine.migration.migrate_store import migrate_store
from demaq.errors import StoreError, StoreMissing
from demaq.evaluation.local_evaluator import LocalEvaluator
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.language.loader import load_program_texts
from demaq.language.program.program import Program
from demaq.operations.pause import describe_resumption, expect_part, make_pause
from demaq.server.redelivery import send_again
from demaq.store.location import StoreLocation
from demaq.store.opening import how_to_make, open_store, open_store_readonly, program_on
from demaq.store.operator_records import AuditRecord, PauseKind
from demaq.store.protocol import NewMessage
from demaq.store.sqlite_database import FILE_NAME

GARBAGE_STEP = 1000
"""How many messages are removed at once."""


class OfflineNode:
    """What a running node offers, on a store where none runs. The program is the one that ran last."""

    def __init__(self, place: StoreLocation) -> None:
        self._store = open_store(place.where)
        try:
            self._program = load_program_texts(program_on(self._store, place)[2])
        except BaseException:
            self._store.close()
            raise

    @cached_property
    def _engine(self) -> Engine:
        """Made for those who need it: to compile a program takes longer than most of what is asked."""
        compiled = compile_program(self._program)
        rules = SaxonEvaluator(compiled)
        evaluator = LocalEvaluator(rules, self._store)
        return Engine(compiled.plan, evaluator, self._store, lambda: datetime.now(UTC), receiver=rules)

    def enqueue(self, queue: str, body: bytes, properties: dict[str, str], request: str | None) -> int:
        return self._engine.enqueue(queue, body, properties, request)

    def append(self, messages: Sequence[NewMessage], digest: str, watch: str | None = None) -> list[bool]:
        """Store messages as a node does. Return which are new. `watch` is ignored: nothing is processed."""
        expect_program(self._store, digest)
        return self._engine.append_checked(messages)

    def take(self, queue: str, limit: int) -> list[dict[str, Any]]:
        return [encode_for_listing(message) for message in self._engine.take(queue, limit)]

    def load_collection(self, name: str, documents: list[bytes], entry: AuditRecord | None = None) -> int:
        return self._store.load_collection(name, collection_texts(self._program, name, documents), entry)

    def redeliver(self, messages: Sequence[int], entry: AuditRecord | None = None) -> None:
        """Let messages of outgoing gateways be sent again, by the node that runs next."""
        send_again(self._store, self._program, messages, datetime.now(UTC), entry)

    def pause(self, kind: PauseKind, name: str, who: str, why: str = "") -> bool:
        """Pause a part of the application, for the node that runs next. Return False if it was paused before."""
        expect_part(self._program, kind, name)
        pause, entry = make_pause(kind, name, who, why, datetime.now(UTC))
        is_new = pause.part not in [each.part for each in self._store.pauses()]
        if is_new:
            self._store.change_pauses([pause], (), entry)
        return is_new

    def resume(self, kind: PauseKind, name: str, who: str, why: str = "") -> bool:
        """Resume a part of the application. Return False if it was not paused."""
        is_paused = (kind, name) in [each.part for each in self._store.pauses()]
        if is_paused:
            self._store.change_pauses((), [(kind, name)], describe_resumption(kind, name, who, why))
        return is_paused

    def purge(self, seqs: Sequence[int], entry: AuditRecord) -> tuple[list[int], int]:
        """Remove messages, whatever their state. Return which were removed, and the number of the audit record."""
        return self._store.purge(seqs, entry)

    def note_audit(self, entry: AuditRecord) -> int:
        return self._store.note_audit(entry)

    def collect_garbage(self, keep: timedelta = timedelta(0)) -> int:
        """Remove messages that retired longer ago than `keep`. Return how many."""
        removed = 0
        while found := self._store.collect_garbage(datetime.now(UTC) - keep, GARBAGE_STEP):
            removed += found
        return removed

    def close(self) -> None:
        self._store.close()
        if self.__dict__.pop("_engine", None) is not None:
            gc.collect()  # Saxon ends the process where another thread frees what this one has made


def open_writable(place: StoreLocation) -> RemoteNode | OfflineNode:
    """Return the node that runs on a store, or the store itself where none does."""
    node = running_node(place)
    if node is not None:
        return node
    if place.is_on_server:
        open_store_readonly(place.where).close()  # who writes makes a store where there is none
    elif not (place.folder / FILE_NAME).exists():
        raise StoreMissing(f"there is no store in {place}: {how_to_make(place)}")
    return OfflineNode(place)


def make_store(program: Program, place: StoreLocation) -> None:
    """Make a store where there is none, or none with an application. Raise a StoreError if there is one.

    Raise a ProgramError before anything is made if a rule does not compile.
    """
    if _has_application(place):
        raise StoreError(f"{place} has a store with an application already: demaq run goes on with it")
    compiled = compile_program(program)
    store = open_store(place.where)
    try:
        migrate_store(compiled.plan, SaxonEvaluator(compiled), store, lambda: datetime.now(UTC))
    finally:
        store.close()
        del compiled
        gc.collect()  # Saxon ends the process where another thread frees what this one has made


def _has_application(place: StoreLocation) -> bool:
    try:
        with closing(open_store_readonly(place.where)) as store:
            return store.program() is not None
    except StoreMissing:
        return False
