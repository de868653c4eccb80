"""A store on SQL: everything that the stores on SQLite and PostgreSQL share, which is all but opening.

Each read is one statement, so readers in other processes see whole commits without locks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Literal

from demaq.errors import StoreDamaged, StoreError
from demaq.messages import PropertyValue
from demaq.store import deliveries, migration, operator_records, sequences
from demaq.store.checksums import body_checksum, checksum_of
from demaq.store.commit import CommitBuilder
from demaq.store.encoding import (
    decode_files,
    decode_list,
    decode_properties,
    encode_numbers,
    encode_texts,
    microseconds,
    time_at,
)
from demaq.store.epochs import Epochs, begin_epoch, write_epoch
from demaq.store.message_scan import MessageHead, Scan, ScanResult, read_heads, scan_tables
from demaq.store.operator_records import AuditRecord, Pause, PausedPart
from demaq.store.protocol import (
    Attempt,
    Committed,
    Elision,
    MigratedMessage,
    NewMessage,
    NextProgram,
    Postponed,
    SequenceChanges,
    SequenceDirection,
    SequenceMessage,
    Step,
    StoredAnswer,
    StoredMessage,
    StoredSequence,
    Timer,
    ToSend,
    Unsent,
)
from demaq.store.removal import purge, remove_garbage, remove_transient
from demaq.store.tables import Tables

TRANSIENT_BATCH = 10_000
"""How many transient messages are removed in one transaction when a store is opened."""
LAST_CHARACTER = "\U0010ffff"
"""Sorts after every other character."""


def system_time() -> datetime:
    return datetime.now(UTC)


class SqlStore:
    """Implements the protocol Store on tables. `now` returns the time at which messages retire."""

    def __init__(self, tables: Tables, *, now: Callable[[], datetime], read_only: bool) -> None:
        self._database = tables
        self._now = now
        self._read_only = read_only
        self._newest: int | None = None
        """The newest number, if it is known. It can be kept because this process is the only writer."""

    # writing

    def append(self, messages: Sequence[NewMessage], changes: SequenceChanges | None = None) -> list[int]:
        with self._database.lock:
            with self._writing():
                builder = self._begin_commit()
                numbers = [builder.append(message) for message in messages]
                builder.write()
                sequences.write_changes(self._database, changes)
            self._newest = builder.number
        return numbers

    def commit(
        self, steps: Sequence[Step], elide: Elision = False, changes: SequenceChanges | None = None
    ) -> list[Committed]:
        with self._database.lock:
            with self._writing():
                builder = self._begin_commit()
                named = [seq for step in steps for seq in _messages_of(step)]
                if named:
                    builder.read_states(named)
                committed = [builder.apply(step) for step in steps]
                builder.write(elide)
                sequences.write_changes(self._database, changes)
            self._newest = builder.number
        return committed

    def postpone(self, postponed: Sequence[Postponed]) -> None:
        with self._writing():
            deliveries.postpone(self._database, postponed)

    def send_again(self, seqs: Sequence[int], due: datetime, entry: AuditRecord | None = None) -> list[int]:
        with self._writing():
            gone = deliveries.send_again(self._database, seqs, due)
            if entry is not None and not gone:
                operator_records.write_audit(self._database, entry)
            return gone

    def change_sequences(self, changes: SequenceChanges) -> None:
        with self._writing():
            sequences.write_changes(self._database, changes)

    def load_collection(self, name: str, documents: Sequence[str], entry: AuditRecord | None = None) -> int:
        with self._writing():
            if entry is not None:
                operator_records.write_audit(self._database, entry)
            version = self.collection(name)[0] + 1
            self._database.execute(self._database.sql["set_collection"], [name, version, checksum_of(name, version)])
            self._database.execute(self._database.sql["delete_collection_documents"], [name])
            rows = [
                (name, position, body, checksum_of(name, position, body)) for position, body in enumerate(documents)
            ]
            self._database.execute_many(self._database.sql["insert_collection_document"], rows)
        return version

    def note_migrated(self, digest: str, messages: Sequence[MigratedMessage], done: int) -> None:
        with self._writing():
            migration.note_migrated(self._database, digest, messages, done)

    def activate(self, program: NextProgram, at: datetime, entry: AuditRecord | None = None) -> int:
        with self._writing():
            number = migration.decide(self._database, program, at)
            if entry is not None:
                operator_records.write_audit(self._database, entry)
        self._complete_migration()
        return number

    def change_pauses(self, added: Sequence[Pause], removed: Sequence[PausedPart], entry: AuditRecord) -> int:
        with self._writing():
            operator_records.change_pauses(self._database, added, removed)
            return operator_records.write_audit(self._database, entry)

    def note_audit(self, entry: AuditRecord) -> int:
        with self._writing():
            return operator_records.write_audit(self._database, entry)

    def purge(self, seqs: Sequence[int], entry: AuditRecord) -> tuple[list[int], int]:
        with self._writing():
            removed = purge(self._database, seqs, microseconds(self._now()))
            return removed, operator_records.write_audit(self._database, entry)

    def begin_epoch(self) -> str:
        with self._writing():
            return begin_epoch(self._database)

    def collect_garbage(self, retired_before: datetime, limit: int) -> int:
        with self._writing():
            return remove_garbage(self._database, microseconds(retired_before), microseconds(self._now()), limit)

    # reading, at a snapshot

    def snapshot(self) -> int:
        newest = self._newest
        return int(self._rows("newest_number")[0][0]) if newest is None else newest

    def queue(self, name: str, snapshot: int) -> list[StoredMessage]:
        return self._messages("queue", {"queue": name, "snapshot": snapshot}, snapshot)

    def slice(self, slicing: str, key: str, snapshot: int) -> list[StoredMessage]:
        return self._messages("slice", {"slicing": slicing, "key": key, "snapshot": snapshot}, snapshot)

    def lookup(self, index: str, values: Sequence[str], snapshot: int) -> list[StoredMessage]:
        asked = {"index": index, "wanted": encode_texts(values), "snapshot": snapshot}
        return self._messages("lookup", asked, snapshot)

    def slices(self, slicing: str, keys: Sequence[str], snapshot: int) -> dict[str, list[StoredMessage]]:
        return self._read_by_text("slices", keys, {"slicing": slicing, "snapshot": snapshot})

    def lookups(self, index: str, values: Sequence[str], snapshot: int) -> dict[str, list[StoredMessage]]:
        return self._read_by_text("lookups", values, {"index": index, "snapshot": snapshot})

    def find(self, index: str, values: Sequence[str], snapshot: int) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {value: [] for value in values}
        asked = {"index": index, "wanted": encode_texts(list(found)), "snapshot": snapshot}
        for value, seq in self._rows("find", asked) if found else ():
            found[value].append(seq)
        return found

    def count_members(self, slicing: str, keys: Sequence[str], limit: int) -> int:
        asked = {"slicing": slicing, "wanted": encode_texts(keys), "limit": limit}
        return len(self._rows("count_members", asked))

    def count_found(self, index: str, values: Sequence[str], limit: int) -> int:
        asked = {"index": index, "wanted": encode_texts(values), "limit": limit}
        return len(self._rows("count_found", asked))

    def _read_by_text(
        self, statement: str, texts: Sequence[str], asked: dict[str, Any]
    ) -> dict[str, list[StoredMessage]]:
        """Return the messages by the first column of a statement, one list for each of the texts."""
        found: dict[str, list[StoredMessage]] = {text: [] for text in texts}
        wanted = encode_texts(list(found))
        for text, *row in self._rows(statement, {**asked, "wanted": wanted}):
            found[text].append(_decode_message(row, asked["snapshot"]))
        for messages in found.values():
            messages.sort(key=lambda message: message.seq)
        return found

    def collection(self, name: str) -> tuple[int, list[str]]:
        rows = self._rows("collection", [name])
        return (rows[0][0] if rows else 0), [body for _, body in rows if body is not None]

    @contextmanager
    def at_one_snapshot(self) -> Iterator[None]:
        """Let all reads in the block see the store as it was at the beginning."""
        with self._database.reading():
            yield

    # reading, as it is now

    def pending(self, limit: int, but: Sequence[int] = (), but_of: Sequence[str] = ()) -> list[StoredMessage]:
        asked: dict[str, object] = {"limit": limit}
        name = "pending"
        if but or but_of:
            asked["but"] = encode_numbers(but)
            asked["but_of"] = json.dumps(list(but_of))
            name = "other_pending"
        return self._messages(name, asked)

    def pending_at(
        self, priority: int, after: int, limit: int, but: Sequence[int], but_of: Sequence[str]
    ) -> list[StoredMessage]:
        asked = {"priority": priority, "after": after, "limit": limit}
        return self._messages("pending_at", {**asked, "but": encode_numbers(but), "but_of": encode_texts(but_of)})

    def waiting(self, queue: str, limit: int) -> list[StoredMessage]:
        return self._messages("waiting", {"queue": queue, "limit": limit})

    def due_timers(self, now: datetime, limit: int, but_of: Sequence[str] = ()) -> list[StoredMessage]:
        asked: dict[str, object] = {"now": microseconds(now), "limit": limit}
        if not but_of:
            return self._messages("due_timers", asked)
        return self._messages("other_due_timers", {**asked, "but_of": encode_texts(but_of)})

    def next_due(self, but_of: Sequence[str] = ()) -> datetime | None:
        rows = self._rows("other_next_due", {"but_of": encode_texts(but_of)}) if but_of else self._rows("next_due")
        due = rows[0][0]
        return None if due is None else time_at(due)

    def to_send(self, queue: str, now: datetime, after: int, limit: int) -> list[ToSend]:
        asked = {"queue": queue, "now": microseconds(now), "after": after, "limit": limit}
        return [_to_send(queue, *row) for row in self._rows("to_send", asked)]

    def to_send_again(
        self, queue: str, now: datetime, after: tuple[datetime, int] | None, until: int, limit: int
    ) -> list[ToSend]:
        asked: dict[str, object] = {"queue": queue, "now": microseconds(now), "until": until, "limit": limit}
        asked["due"], asked["seq"] = (0, 0) if after is None else (microseconds(after[0]), after[1])
        return [_to_send(queue, *row) for row in self._rows("to_send_again", asked)]

    def next_to_send(self, queue: str, after: datetime) -> datetime | None:
        asked = {"queue": queue, "after": microseconds(after)}
        due = self._rows("next_to_send", asked)[0][0]
        return None if due is None else time_at(due)

    def pending_times(self, priority: int, limit: int) -> list[tuple[str, datetime]]:
        rows = self._rows("pending_times", {"priority": priority, "limit": limit})
        return [(queue, time_at(created)) for queue, created in rows]

    def waiting_time(self, queue: str) -> datetime | None:
        return next((time_at(created) for (created,) in self._rows("waiting_time", {"queue": queue})), None)

    def sendings(self) -> dict[str, tuple[int, datetime, datetime]]:
        rows = self._rows("sendings")
        return {queue: (count, time_at(due), time_at(created)) for queue, count, due, created in rows}

    def unsent(self, queue: str | None, message: int | None, limit: int) -> list[Unsent]:
        return deliveries.read_unsent(self._database, queue, message, limit)

    def attempts(self, queue: str | None, message: int | None, limit: int) -> list[Attempt]:
        return deliveries.read_attempts(self._database, queue, message, limit)

    def answer(self, connection: str) -> StoredAnswer | None:
        return deliveries.read_answer(self._database, connection)

    def sequences(self, direction: SequenceDirection | None = None, queue: str | None = None) -> list[StoredSequence]:
        return sequences.read_sequences(self._database, direction, queue)

    def sequence_messages(self, direction: SequenceDirection, name: str) -> list[SequenceMessage]:
        return sequences.read_sequence_messages(self._database, direction, name)

    def known_replays(self, keys: Sequence[str], now: datetime) -> frozenset[str]:
        return sequences.find_replays(self._database, keys, now)

    def identity(self) -> str:
        return self.epochs().current

    def epochs(self) -> Epochs:
        return Epochs(self._rows("epochs"))

    def message(self, seq: int) -> StoredMessage | None:
        return next(iter(self._messages("message", [seq])), None)

    def messages(self, seqs: Sequence[int]) -> list[StoredMessage]:
        return self._messages("messages", [encode_numbers(seqs)])

    def caused_by(self, seq: int) -> list[int]:
        return [caused for (caused,) in self._rows("caused_by", [seq])]

    def conversation(self, origin: int, examined: int) -> list[tuple[int, int | None]]:
        return [(seq, cause) for seq, cause in self._rows("conversation", {"seq": origin, "limit": examined})]

    def stored(self, queue: str | None, after: int, limit: int) -> list[StoredMessage]:
        if queue is None:
            return self._messages("stored", {"after": after, "limit": limit})
        return self._messages("stored_in_queue", {"queue": queue, "after": after, "limit": limit})

    def visible(self, queue: str, after: int, limit: int) -> list[StoredMessage]:
        return self._messages("visible", {"queue": queue, "after": after, "limit": limit})

    def members(self, slicing: str, key: str, after: int, limit: int) -> list[StoredMessage]:
        return self._messages("members", {"slicing": slicing, "key": key, "after": after, "limit": limit})

    def slice_history(self, slicing: str, key: str, limit: int) -> list[int]:
        return [seq for (seq,) in self._rows("slice_history", {"slicing": slicing, "key": key, "limit": limit})]

    def timers(self, after: tuple[datetime, int] | None, limit: int) -> list[StoredMessage]:
        due, seq = (None, 0) if after is None else (microseconds(after[0]), after[1])
        name = "first_timers" if after is None else "timers"
        return self._messages(name, {"due": due, "seq": seq, "limit": limit})

    def collections(self) -> list[tuple[str, int, int]]:
        return self._rows("collections")

    def slice_keys(self, slicing: str, after: str | None, limit: int) -> list[tuple[str, int]]:
        parameters = {"slicing": slicing, "after": after, "limit": limit}
        return self._rows("first_slice_keys" if after is None else "slice_keys", parameters)

    def notable_slices(
        self, slicing: str, by: Literal["size", "age"], rows_max: int, limit: int
    ) -> list[tuple[str, int, int]]:
        name = "largest_slices" if by == "size" else "oldest_slices"
        return [tuple(row) for row in self._rows(name, {"slicing": slicing, "rows": rows_max, "limit": limit})]

    def ended_members(self, slicing: str, key: str, rows_max: int) -> list[tuple[int, int]]:
        asked = {"slicing": slicing, "key": key, "rows": rows_max}
        return [(seq, ended) for seq, ended in self._rows("ended_members", asked)]

    def counts(self) -> dict[str, tuple[int, int]]:
        return {queue: (visible, unprocessed) for queue, visible, unprocessed in self._rows("counts")}

    def slicings(self) -> list[str]:
        return [name for (name,) in self._rows("slicings")]

    def former_slicings(self) -> list[str]:
        return [name for (name,) in self._rows("former_slicings")]

    def indexes(self) -> frozenset[str]:
        return frozenset([name for (name,) in self._rows("complete_indexes")])

    def migrated_until(self, digest: str) -> int:
        return migration.find_progress(self._database, digest)

    def requested(self, beginning: str) -> dict[str, int]:
        return dict(self._rows("requests", {"after": beginning, "end": beginning + LAST_CHARACTER}))

    def first_requested(self, beginning: str, after: str) -> tuple[str, int] | None:
        asked = {"after": max(beginning, after), "end": beginning + LAST_CHARACTER}
        rows = self._rows("first_request", asked)
        return (rows[0][0], rows[0][1]) if rows else None

    def request_of(self, seq: int) -> str | None:
        rows = self._rows("request_of_message", [seq]) or self._rows("request_of_removed", [seq])
        return rows[0][0] if rows else None

    def next_properties(self, seqs: Sequence[int]) -> dict[int, Mapping[str, PropertyValue]]:
        rows = self._rows("next_properties", [encode_numbers(seqs)])
        return {seq: decode_properties(properties) for seq, properties in rows}

    def pauses(self) -> list[Pause]:
        return operator_records.read_pauses(self._database)

    def audit(self, before: int | None, limit: int) -> list[AuditRecord]:
        return operator_records.read_audit(self._database, before, limit)

    def scan(self, scan: Scan) -> ScanResult:
        return scan_tables(self._database, scan)

    def heads(self, seqs: Sequence[int]) -> list[MessageHead]:
        return read_heads(self._database, seqs)

    def limit_statements(self, seconds: float) -> None:
        """Let each statement from now on fail with a StoreError if it takes longer."""
        self._database.limit_statements(seconds)

    def program(self) -> tuple[int, str, dict[str, str]] | None:
        rows = self._rows("newest_program")
        if not rows:
            return None
        number, digest, files = rows[0]
        return number, digest, decode_files(files)

    def close(self) -> None:
        self._database.close()

    def _rows(self, name: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        return self._database.rows(self._database.sql[name], parameters)

    def _messages(
        self, name: str, parameters: Sequence[Any] | dict[str, Any], snapshot: int | None = None
    ) -> list[StoredMessage]:
        return [_decode_message(row, snapshot) for row in self._rows(name, parameters)]

    def _writing(self) -> AbstractContextManager[None]:
        if self._read_only:
            raise StoreError(f"the store {self._database.name} was opened for reading only")
        return _Writing(self, self._database.transaction())

    def _begin_commit(self) -> CommitBuilder:
        return CommitBuilder(self._database, microseconds(self._now()), self._newest)

    def _recover(self) -> None:
        """Remove transient messages and complete a migration that was decided.

        After opening, before any other write.
        """
        removed = TRANSIENT_BATCH
        while removed == TRANSIENT_BATCH:
            with self._writing():
                removed = remove_transient(self._database, TRANSIENT_BATCH)
        self._complete_migration()
        with self._writing():
            for first, name in self._rows("epochs_without_checksum"):
                write_epoch(self._database, first, name)

    def _complete_migration(self) -> None:
        more = True
        while more:
            with self._writing():
                more = migration.apply_batch(self._database, microseconds(self._now()))


class _Writing:
    """A transaction of a store, as a context manager without a generator: there is one for each commit."""

    __slots__ = ("_store", "_transaction")

    def __init__(self, store: SqlStore, transaction: AbstractContextManager[None]) -> None:
        self._store = store
        self._transaction = transaction

    def __enter__(self) -> None:
        self._transaction.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store._newest = None  # before another transaction can begin
        self._transaction.__exit__(kind, error, trace)


def _messages_of(step: Step) -> list[int]:
    """Return the messages that a step names; those in slices that it resets are found later."""
    return [seq for seq in (step.processed, step.fired, step.delivered) if seq is not None]


def _decode_message(row: Sequence[Any], snapshot: int | None = None) -> StoredMessage:
    """Return the message of a row, with its slices at a snapshot, or its current ones without. Raises StoreDamaged."""
    (
        seq, queue, body, properties, created, rule, caused_by, origin, hops, slices,
        processed, retired, timer_due, timer_target, transient, undelivered, _, checksum,
    ) = row  # fmt: skip
    try:
        if checksum is not None and checksum != body_checksum(seq, body, properties):
            raise ValueError
        return StoredMessage(
            seq=seq,
            queue=queue,
            body=body,
            properties=decode_properties(properties),
            created=time_at(created),
            rule=rule,
            trigger=caused_by,
            origin=origin,
            hops=hops,
            slices=_decode_slices(slices, snapshot) if slices else (),
            processed=None if processed is None else abs(processed),
            retired=retired,
            timer=None if timer_due is None else Timer(due=time_at(timer_due), target=timer_target),
            transient=bool(transient),
            undelivered=bool(undelivered),
            unmatched=processed is not None and processed < 0,
        )
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError):
        raise _damaged(seq) from None


def _to_send(queue: str, seq: int, due: int, attempts: int, properties: str, slices: str | None) -> ToSend:
    try:
        return ToSend(
            seq=seq,
            queue=queue,
            due=time_at(due),
            attempts=attempts,
            properties=decode_properties(properties),
            slices=_decode_slices(slices, None) if slices else (),
        )
    except (ValueError, TypeError, AttributeError, LookupError):
        raise _damaged(seq) from None  # not the cause, which may quote the content of messages


def _damaged(seq: int) -> StoreDamaged:
    return StoreDamaged(f"what is stored of message {seq} is not what was; demaq verify says what to do")


def _decode_slices(text: str, snapshot: int | None) -> tuple[tuple[str, str], ...]:
    found = decode_list(text)
    return tuple([(s, key) for s, key, ended in found if ended == 0 or (snapshot is not None and ended > snapshot)])
