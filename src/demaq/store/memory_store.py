"""A store in memory, for tests and as the specification of the contract on dicts and lists."""

from __future__ import annotations

import threading
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import wraps
from types import FunctionType
from typing import Any, Literal, TypeVar

from demaq.errors import AlreadyProcessed
from demaq.messages import PropertyValue
from demaq.store.epochs import Epochs, new_name, next_name
from demaq.store.memory_sequences import MemorySequences
from demaq.store.message_scan import MessageHead, Scan, ScanResult, collect_heads, describe_state
from demaq.store.operator_records import AuditRecord, Pause, PausedPart
from demaq.store.protocol import (
    Attempt,
    Committed,
    Elision,
    IndexEntry,
    MigratedMessage,
    NewMessage,
    NextProgram,
    Postponed,
    SequenceChanges,
    SequenceDirection,
    SequenceMessage,
    SliceKey,
    Step,
    StoredAnswer,
    StoredMessage,
    StoredSequence,
    ToSend,
    Unsent,
    as_stored,
    resolve_own_number,
)
from demaq.store.removal import REQUEST_MEMORY_SECONDS
from demaq.store.request_names import name_of

S = TypeVar("S")


@dataclass(slots=True)
class _StoredRow:
    """A message and its state."""

    seq: int
    message: NewMessage
    properties: Mapping[str, PropertyValue]
    slices: dict[SliceKey, int | None]
    """The number of the reset that ended each membership, or None."""
    entries: list[IndexEntry]
    priority: int | None = None
    processed: int | None = None
    retired: int | None = None
    retired_at: datetime | None = None
    undelivered: bool = False
    send_due: datetime | None = None
    """When it is to be sent, if it is."""
    attempts: int = 0
    unmatched: bool = False

    def is_visible(self, snapshot: int) -> bool:
        return self.seq <= snapshot and (self.retired is None or self.retired > snapshot)

    def is_in(self, slice: SliceKey, snapshot: int) -> bool:
        if self.seq > snapshot or slice not in self.slices:
            return False
        ended = self.slices[slice]
        return ended is None or ended > snapshot

    def is_waiting(self) -> bool:
        return self.processed is None and self.priority is None

    def may_retire(self) -> bool:
        free = all(ended is not None for ended in self.slices.values())
        return self.processed is not None and self.retired is None and free and not self.undelivered


def _system_time() -> datetime:
    return datetime.now(UTC)


def _synchronise(cls: type[S]) -> type[S]:
    """Let every public method hold the lock of its object."""
    for name, method in list(vars(cls).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(cls, name, _hold_lock(method))
    return cls


def _hold_lock(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(store: MemoryStore, *args: Any, **keywords: Any) -> Any:
        with store._lock:
            return method(store, *args, **keywords)

    return call


@_synchronise
class MemoryStore:
    """Implements the protocol Store in memory. `now` returns the time at which messages retire."""

    def __init__(self, *, now: Callable[[], datetime] = _system_time) -> None:
        self._now = now
        self._lock = threading.RLock()
        self._number = 0
        self._rows: dict[int, _StoredRow] = {}
        self._members: dict[SliceKey, list[int]] = {}
        """The messages that joined each slice and are still stored, in order."""
        self._entries: dict[tuple[str, str], list[int]] = {}
        self._requests: dict[str, int] = {}
        self._by_name: dict[str, str] = {}
        """Requests by their names, without digests."""
        self._removed_requests: dict[str, datetime] = {}
        self._collections: dict[str, tuple[int, list[str]]] = {}
        self._programs: list[tuple[int, str, dict[str, str]]] = []
        self._attempts: list[Attempt] = []
        self._answers: dict[str, tuple[datetime, StoredAnswer]] = {}
        self._sequences = MemorySequences()
        self._epochs = [(0, new_name())]
        self._pauses: dict[PausedPart, Pause] = {}
        self._audit: dict[int, AuditRecord] = {}
        self._indexes: frozenset[str] = frozenset()
        self._migrated: dict[int, MigratedMessage] = {}
        self._migration: tuple[str, int, int] | None = None
        """The digest of the next version, the number at which messages were migrated, and up to which number."""

    # writing

    def append(self, messages: Sequence[NewMessage], changes: SequenceChanges | None = None) -> list[int]:
        self.change_sequences(changes or SequenceChanges())
        return [self._store(message) for message in messages]

    def commit(
        self, steps: Sequence[Step], elide: Elision = False, changes: SequenceChanges | None = None
    ) -> list[Committed]:
        self._check(steps)
        self.change_sequences(changes or SequenceChanges())
        committed = [self._apply(step) for step in steps]
        if elide:
            for seq in [seq for each in committed for seq in each.retired]:
                is_spared = isinstance(elide, str) and elide in self._rows[seq].properties
                if not is_spared and not self._is_to_send(seq):
                    self._remove(seq)
        return committed

    def postpone(self, postponed: Sequence[Postponed]) -> None:
        for each in {each.message: each for each in postponed}.values():
            row = self._rows.get(each.message)
            if row is None or row.send_due is None:
                continue
            row.send_due = each.due
            if each.attempt is not None:
                row.attempts = each.attempt.number
                self._attempts.append(each.attempt)

    def send_again(self, seqs: Sequence[int], due: datetime, entry: AuditRecord | None = None) -> list[int]:
        gone = sorted([seq for seq in set(seqs) if seq not in self._rows])
        if not gone:
            for seq in seqs:
                row = self._rows[seq]
                row.send_due, row.attempts = due, 0
            if entry is not None:
                self.note_audit(entry)
        return gone

    def change_sequences(self, changes: SequenceChanges) -> None:
        self._sequences.apply(changes)

    def load_collection(self, name: str, documents: Sequence[str], entry: AuditRecord | None = None) -> int:
        if entry is not None:
            self.note_audit(entry)
        version = self.collection(name)[0] + 1
        self._collections[name] = (version, list(documents))
        return version

    def note_migrated(self, digest: str, messages: Sequence[MigratedMessage], done: int) -> None:
        if not self._is_noted_for(digest):
            self._migrated.clear()
        self._migrated.update({message.seq: message for message in messages})
        self._migration = (digest, self._number, done)

    def activate(self, program: NextProgram, at: datetime, entry: AuditRecord | None = None) -> int:
        if entry is not None:
            self.note_audit(entry)
        noted = list(self._migrated.values()) if self._is_noted_for(program.digest) else []
        self._number += bool(noted)
        for migrated in noted:
            if migrated.seq in self._rows:
                self._migrate(self._rows[migrated.seq], migrated)
        for row in self._rows.values():
            if row.processed is None and row.message.queue in program.priorities:
                row.priority = program.priorities[row.message.queue]
        self._migrated.clear()
        self._migration = None
        self._indexes = frozenset(program.indexes)
        if not self._programs or self._programs[-1][1] != program.digest:
            self._programs.append((len(self._programs) + 1, program.digest, dict(program.files)))
        return len(self._programs)

    def change_pauses(self, added: Sequence[Pause], removed: Sequence[PausedPart], entry: AuditRecord) -> int:
        self._pauses = {pause.part: pause for pause in added} | self._pauses
        for part in removed:
            self._pauses.pop(part, None)
        return self.note_audit(entry)

    def note_audit(self, entry: AuditRecord) -> int:
        number = entry.number or max(self._audit, default=0) + 1
        self._audit[number] = replace(entry, number=number)
        return number

    def purge(self, seqs: Sequence[int], entry: AuditRecord) -> tuple[list[int], int]:
        numbered = self._sequences.numbered()
        removed = sorted({seq for seq in seqs if seq in self._rows and seq not in numbered})
        for seq in removed:
            self._remove(seq)
        self._number += bool(removed)
        return removed, self.note_audit(entry)

    def begin_epoch(self) -> str:
        self._sequences.remove_outgoing()
        name = next_name(self.identity())
        self._epochs = [*[each for each in self._epochs if each[0] <= self._number], (self._number + 1, name)]
        return name

    def collect_garbage(self, retired_before: datetime, limit: int) -> int:
        found = [(row.retired_at, seq) for seq, row in self._rows.items() if row.retired_at is not None]
        garbage = sorted((at, seq) for at, seq in found if at < retired_before and not self._is_to_send(seq))[:limit]
        for _, seq in garbage:
            self._remove(seq)
        now = self._now()
        forget_before = now - timedelta(seconds=REQUEST_MEMORY_SECONDS)
        for request in [r for r, at in self._removed_requests.items() if at < forget_before]:
            del self._requests[request], self._removed_requests[request], self._by_name[name_of(request)]
        self._attempts = [a for a in self._attempts if a.at >= forget_before or self._is_to_send(a.message)]
        self._answers = {name: known for name, known in self._answers.items() if known[0] >= forget_before}
        self._sequences.forget(now, forget_before)
        return len(garbage)

    # reading, at a snapshot

    def snapshot(self) -> int:
        return self._number

    def queue(self, name: str, snapshot: int) -> list[StoredMessage]:
        found = [row for row in self._rows.values() if row.message.queue == name and row.is_visible(snapshot)]
        return [_make_stored(row, snapshot) for row in found]

    def slice(self, slicing: str, key: str, snapshot: int) -> list[StoredMessage]:
        members = [self._rows[seq] for seq in self._members.get((slicing, key), ())]
        return [_make_stored(row, snapshot) for row in members if row.is_in((slicing, key), snapshot)]

    def lookup(self, index: str, values: Sequence[str], snapshot: int) -> list[StoredMessage]:
        seqs = {seq for value in values for seq in self._entries.get((index, value), ())}
        found = [self._rows[seq] for seq in sorted(seqs)]
        return [_make_stored(row, snapshot) for row in found if row.is_visible(snapshot)]

    def slices(self, slicing: str, keys: Sequence[str], snapshot: int) -> dict[str, list[StoredMessage]]:
        return {key: self.slice(slicing, key, snapshot) for key in keys}

    def lookups(self, index: str, values: Sequence[str], snapshot: int) -> dict[str, list[StoredMessage]]:
        return {value: self.lookup(index, [value], snapshot) for value in values}

    def find(self, index: str, values: Sequence[str], snapshot: int) -> dict[str, list[int]]:
        return {value: [message.seq for message in self.lookup(index, [value], snapshot)] for value in values}

    def count_members(self, slicing: str, keys: Sequence[str], limit: int) -> int:
        snapshot = self.snapshot()
        return min(limit, sum([len(self.slice(slicing, key, snapshot)) for key in dict.fromkeys(keys)]))

    def count_found(self, index: str, values: Sequence[str], limit: int) -> int:
        return min(limit, sum([len(seqs) for seqs in self.find(index, values, self.snapshot()).values()]))

    def collection(self, name: str) -> tuple[int, list[str]]:
        version, documents = self._collections.get(name, (0, []))
        return version, list(documents)

    # reading, as it is now

    def pending(self, limit: int, but: Sequence[int] = (), but_of: Sequence[str] = ()) -> list[StoredMessage]:
        excluded = set(but)
        found = [
            (-k.priority, k.seq)
            for k in self._rows.values()
            if k.priority is not None
            and k.processed is None
            and k.seq not in excluded
            and k.message.queue not in but_of
        ]
        return [self._current(seq) for _, seq in sorted(found)[:limit]]

    def pending_at(
        self, priority: int, after: int, limit: int, but: Sequence[int], but_of: Sequence[str]
    ) -> list[StoredMessage]:
        found = [m for m in self.pending(len(self._rows), but, but_of) if m.seq > after]
        return [message for message in found if self._rows[message.seq].priority == priority][:limit]

    def waiting(self, queue: str, limit: int) -> list[StoredMessage]:
        found = [k.seq for k in self._rows.values() if k.message.queue == queue and k.is_waiting()]
        return [self._current(seq) for seq in found[:limit]]

    def due_timers(self, now: datetime, limit: int, but_of: Sequence[str] = ()) -> list[StoredMessage]:
        return [self._current(seq) for due, seq in self._timers(but_of) if due <= now][:limit]

    def next_due(self, but_of: Sequence[str] = ()) -> datetime | None:
        return next((due for due, _ in self._timers(but_of)), None)

    def to_send(self, queue: str, now: datetime, after: int, limit: int) -> list[ToSend]:
        found = [(seq, at) for at, name, seq in self._outbox() if name == queue and at <= now and seq > after]
        return [self._make_to_send(seq, at) for seq, at in sorted(found)[:limit]]

    def to_send_again(
        self, queue: str, now: datetime, after: tuple[datetime, int] | None, until: int, limit: int
    ) -> list[ToSend]:
        due = sorted([(at, seq) for at, name, seq in self._outbox() if name == queue and at <= now and seq <= until])
        return [self._make_to_send(seq, at) for at, seq in due if after is None or (at, seq) > after][:limit]

    def _make_to_send(self, seq: int, due: datetime) -> ToSend:
        message = self._current(seq)
        return ToSend(
            seq=seq,
            queue=message.queue,
            due=due,
            attempts=self._rows[seq].attempts,
            properties=message.properties,
            slices=message.slices,
        )

    def next_to_send(self, queue: str, after: datetime) -> datetime | None:
        return min([at for at, name, _ in self._outbox() if name == queue and at > after], default=None)

    def pending_times(self, priority: int, limit: int) -> list[tuple[str, datetime]]:
        found = [row for row in self._rows.values() if row.processed is None and row.message.priority == priority]
        return [(row.message.queue, row.message.created) for row in found[:limit]]

    def waiting_time(self, queue: str) -> datetime | None:
        return next((message.created for message in self.waiting(queue, 1)), None)

    def sendings(self) -> dict[str, tuple[int, datetime, datetime]]:
        found: dict[str, list[tuple[datetime, int]]] = {}
        for at, name, seq in self._outbox():
            found.setdefault(name, []).append((at, seq))
        return {
            name: (len(those), min(those)[0], self._rows[min([seq for _, seq in those])].message.created)
            for name, those in sorted(found.items())
        }

    def unsent(self, queue: str | None, message: int | None, limit: int) -> list[Unsent]:
        asked = [(at, s, q) for at, q, s in self._outbox() if queue in (None, q) and message in (None, s)]
        found = [(at, q, self._rows[s]) for at, s, q in sorted(asked)[:limit]]
        return [
            Unsent(message=k.seq, queue=q, created=k.message.created, due=at, attempts=k.attempts) for at, q, k in found
        ]

    def attempts(self, queue: str | None, message: int | None, limit: int) -> list[Attempt]:
        found = [a for a in self._attempts if queue in (None, a.queue) and message in (None, a.message)]
        return found[::-1][:limit]

    def answer(self, connection: str) -> StoredAnswer | None:
        known = self._answers.get(connection)
        return None if known is None else known[1]

    def sequences(self, direction: SequenceDirection | None = None, queue: str | None = None) -> list[StoredSequence]:
        return self._sequences.find(direction, queue)

    def sequence_messages(self, direction: SequenceDirection, name: str) -> list[SequenceMessage]:
        return self._sequences.messages(direction, name)

    def known_replays(self, keys: Sequence[str], now: datetime) -> frozenset[str]:
        return self._sequences.known_replays(keys, now)

    def identity(self) -> str:
        return self.epochs().current

    def epochs(self) -> Epochs:
        return Epochs(self._epochs)

    def message(self, seq: int) -> StoredMessage | None:
        return self._current(seq) if seq in self._rows else None

    def messages(self, seqs: Sequence[int]) -> list[StoredMessage]:
        return [self._current(seq) for seq in sorted(set(seqs)) if seq in self._rows]

    def caused_by(self, seq: int) -> list[int]:
        return [row.seq for row in self._rows.values() if row.message.trigger == seq]

    def conversation(self, origin: int, examined: int) -> list[tuple[int, int | None]]:
        following = [row for seq, row in self._rows.items() if seq >= origin][:examined]
        return [(row.seq, row.message.trigger) for row in following if (row.message.origin or row.seq) == origin]

    def stored(self, queue: str | None, after: int, limit: int) -> list[StoredMessage]:
        seqs = [seq for seq, row in self._rows.items() if seq > after and queue in (None, row.message.queue)]
        return [self._current(seq) for seq in seqs[:limit]]

    def visible(self, queue: str, after: int, limit: int) -> list[StoredMessage]:
        return [message for message in self.queue(queue, self._number) if message.seq > after][:limit]

    def members(self, slicing: str, key: str, after: int, limit: int) -> list[StoredMessage]:
        return [message for message in self.slice(slicing, key, self._number) if message.seq > after][:limit]

    def slice_history(self, slicing: str, key: str, limit: int) -> list[int]:
        return [seq for seq, row in self._rows.items() if (slicing, key) in row.slices][:limit]

    def timers(self, after: tuple[datetime, int] | None, limit: int) -> list[StoredMessage]:
        return [self._current(timer[1]) for timer in self._timers() if after is None or timer > after][:limit]

    def collections(self) -> list[tuple[str, int, int]]:
        return sorted([(name, version, len(found)) for name, (version, found) in self._collections.items()])

    def slice_keys(self, slicing: str, after: str | None, limit: int) -> list[tuple[str, int]]:
        counts: dict[str, int] = {}
        for row in self._rows.values():
            for (name, key), ended in row.slices.items():
                if name == slicing and ended is None and (after is None or key > after):
                    counts[key] = counts.get(key, 0) + 1
        return sorted(counts.items())[:limit]

    def notable_slices(
        self, slicing: str, by: Literal["size", "age"], rows_max: int, limit: int
    ) -> list[tuple[str, int, int]]:
        members = [
            (key, seq)
            for seq, row in self._rows.items()
            for (name, key), ended in row.slices.items()
            if name == slicing and ended is None
        ]
        found: dict[str, tuple[int, int]] = {}
        for key, seq in sorted(members)[:rows_max]:
            count, first = found.get(key, (0, seq))
            found[key] = (count + 1, min(first, seq))
        slices = [(key, count, first) for key, (count, first) in found.items()]
        order = {"size": lambda item: (-item[1], item[2]), "age": lambda item: (item[2], item[0])}
        return sorted(slices, key=order[by])[:limit]

    def ended_members(self, slicing: str, key: str, rows_max: int) -> list[tuple[int, int]]:
        ended = [
            (end, seq, known)
            for seq, row in self._rows.items()
            for (name, known), end in row.slices.items()
            if name == slicing and end is not None
        ]
        return sorted([(seq, end) for end, seq, known in sorted(ended)[::-1][:rows_max] if known == key])

    def counts(self) -> dict[str, tuple[int, int]]:
        counts: dict[str, tuple[int, int]] = {}
        for row in self._rows.values():
            if row.retired is None:
                visible, unprocessed = counts.get(row.message.queue, (0, 0))
                counts[row.message.queue] = (visible + 1, unprocessed + (row.processed is None))
        return dict(sorted(counts.items()))

    def slicings(self) -> list[str]:
        slices = [slice for row in self._rows.values() for slice, ended in row.slices.items() if ended is None]
        return sorted({slicing for slicing, _ in slices})

    def former_slicings(self) -> list[str]:
        return sorted({slicing for row in self._rows.values() for slicing, _ in row.slices})

    def indexes(self) -> frozenset[str]:
        return self._indexes

    def migrated_until(self, digest: str) -> int:
        return self._migration[2] if self._migration is not None and self._is_noted_for(digest) else 0

    def requested(self, beginning: str) -> dict[str, int]:
        return {name: seq for name, seq in sorted(self._requests.items()) if name.startswith(beginning)}

    def first_requested(self, beginning: str, after: str) -> tuple[str, int] | None:
        return next(iter([(name, seq) for name, seq in self.requested(beginning).items() if name >= after]), None)

    def request_of(self, seq: int) -> str | None:
        return next(iter([request for request, known in self._requests.items() if known == seq]), None)

    def next_properties(self, seqs: Sequence[int]) -> dict[int, Mapping[str, PropertyValue]]:
        found = {}
        for seq in seqs:
            if seq in self._rows:
                migrated = self._migrated.get(seq)
                known = migrated.properties if migrated is not None else None
                found[seq] = self._rows[seq].properties if known is None else known
        return found

    def pauses(self) -> list[Pause]:
        return [self._pauses[part] for part in sorted(self._pauses)]

    def audit(self, before: int | None, limit: int) -> list[AuditRecord]:
        numbers = sorted([number for number in self._audit if before is None or number < before], reverse=True)
        return [self._audit[number] for number in numbers[:limit]]

    def scan(self, scan: Scan) -> ScanResult:
        ordered = sorted([row.seq for row in self._rows.values() if scan.queue in (None, row.message.queue)])
        if scan.slice is not None:
            ordered = [message.seq for message in self.slice(*scan.slice, self._number)]
        if scan.backwards:
            ordered.reverse()
        if scan.start is not None:
            start = scan.start
            ordered = [seq for seq in ordered if (seq < start if scan.backwards else seq > start)]
        return collect_heads(scan, [self._make_head(seq) for seq in ordered[: scan.rows_max]])

    def heads(self, seqs: Sequence[int]) -> list[MessageHead]:
        return [self._make_head(seq) for seq in sorted(set(seqs)) if seq in self._rows]

    def _make_head(self, seq: int) -> MessageHead:
        row, stored = self._rows[seq], self._current(seq)
        state = describe_state(
            processed=row.processed,
            retired=row.retired,
            is_timer=stored.timer is not None,
            undelivered=row.undelivered,
            has_priority=row.priority is not None,
        )
        return MessageHead(
            seq=seq,
            queue=stored.queue,
            created=stored.created,
            rule=stored.rule,
            trigger=stored.trigger,
            origin=stored.origin,
            processed=row.processed,
            retired=row.retired,
            due=None if stored.timer is None else stored.timer.due,
            slices=stored.slices,
            state=state,
            unmatched=row.unmatched,
        )

    def program(self) -> tuple[int, str, dict[str, str]] | None:
        return self._programs[-1] if self._programs else None

    def close(self) -> None:
        """Do nothing: no resource is open."""

    def _check(self, steps: Sequence[Step]) -> None:
        """Raise AlreadyProcessed before anything is applied, because a commit that fails must change nothing."""
        number = self._number
        requests = set(self._by_name)
        new: set[int] = set()
        done: set[int] = set()
        sent: set[int] = set()
        for step in steps:
            number += step.is_event
            for seq in (step.processed, step.fired):
                if seq is None:
                    continue
                row = self._rows.get(seq)
                waiting = seq in new if row is None else row.processed is None
                if seq in done or not waiting:
                    raise AlreadyProcessed(f"message {seq} was processed before")
                done.add(seq)
            if step.delivered is not None:
                if step.delivered in sent or not self._is_to_send(step.delivered):
                    raise AlreadyProcessed(f"message {step.delivered} is not to be sent")
                sent.add(step.delivered)
            number += step.elided
            for message in step.created:
                if message.request is None or name_of(message.request) not in requests:
                    number += 1
                    new.add(number)
                if message.request is not None:
                    requests.add(name_of(message.request))

    def _apply(self, step: Step) -> Committed:
        self._number += step.is_event
        number = self._number
        touched: set[int] = set()
        for seq in (step.processed, step.fired):
            if seq is not None:
                self._rows[seq].processed = number
                self._rows[seq].unmatched = step.unmatched
                touched.add(seq)
        for slice in step.resets:
            for seq in self._members.get(slice, ()):
                if self._rows[seq].slices[slice] is None:
                    self._rows[seq].slices[slice] = number
                    touched.add(seq)
        if step.delivered is not None:
            row = self._rows[step.delivered]
            row.undelivered, row.send_due = False, None
            touched.add(step.delivered)
        if step.attempt is not None:
            self._attempts.append(step.attempt)
        if step.answer is not None:
            self._answers.setdefault(step.answer.connection, (self._now(), step.answer))
        self._number += step.elided
        created = tuple([self._store(message) for message in step.created])
        retired = tuple([seq for seq in sorted(touched) if self._retire(self._rows[seq], number)])
        return Committed(number=number, created=created, retired=retired)

    def _store(self, message: NewMessage) -> int:
        if message.request is not None and name_of(message.request) in self._by_name:
            return self._requests[self._by_name[name_of(message.request)]]
        self._number += 1
        seq = self._number
        row = _StoredRow(
            seq,
            message,
            dict(message.properties),
            dict.fromkeys(resolve_own_number(seq, message.slices)),
            list(dict.fromkeys(message.entries)),
            message.priority,
            undelivered=message.undelivered,
            send_due=message.created if message.undelivered else None,
        )
        self._rows[seq] = row
        for slice in row.slices:
            self._members.setdefault(slice, []).append(seq)
        for entry in row.entries:
            self._entries.setdefault(entry, []).append(seq)
        if message.request is not None:
            self._requests[message.request] = seq
            self._by_name[name_of(message.request)] = message.request
        return seq

    def _retire(self, row: _StoredRow, number: int) -> bool:
        if not row.may_retire():
            return False
        row.retired = number
        row.retired_at = self._now()
        return True

    def _remove(self, seq: int) -> None:
        row = self._rows.pop(seq)
        for slice in row.slices:
            self._members[slice].remove(seq)
        for entry in row.entries:
            self._entries[entry].remove(seq)
        if row.message.request is not None:
            self._removed_requests[row.message.request] = self._now()

    def _is_noted_for(self, digest: str) -> bool:
        return self._migration is not None and self._migration[:2] == (digest, self._number)

    def _migrate(self, row: _StoredRow, migrated: MigratedMessage) -> None:
        """Change a message to what was noted for it."""
        if migrated.properties is not None:
            row.properties = migrated.properties
        if row.retired is not None:
            return
        slices = () if migrated.discarded else migrated.slices
        for slice, ended in row.slices.items():
            if ended is None and slice not in slices:
                row.slices[slice] = self._number
        for slice in slices:
            if row.slices.get(slice, self._number) is not None:
                row.slices.pop(slice, None)  # joined again, it goes last
                row.slices[slice] = None
                members = self._members.setdefault(slice, [])
                if row.seq not in members:
                    insort(members, row.seq)
        if migrated.discarded:
            row.processed = row.processed or self._number
            row.undelivered, row.send_due = False, None
        else:
            self._set_entries(row, migrated.entries)
        self._retire(row, self._number)

    def _set_entries(self, row: _StoredRow, entries: Sequence[IndexEntry]) -> None:
        for entry in row.entries:
            self._entries[entry].remove(row.seq)
        row.entries = list(dict.fromkeys(entries))
        for entry in row.entries:
            self._entries.setdefault(entry, []).append(row.seq)

    def _outbox(self) -> list[tuple[datetime, str, int]]:
        return [(k.send_due, k.message.queue, k.seq) for k in self._rows.values() if k.send_due is not None]

    def _is_to_send(self, seq: int) -> bool:
        return seq in self._rows and self._rows[seq].send_due is not None

    def _timers(self, but_of: Sequence[str] = ()) -> list[tuple[datetime, int]]:
        waiting = [row for row in self._rows.values() if row.processed is None and row.message.queue not in but_of]
        return sorted((row.message.timer.due, row.seq) for row in waiting if row.message.timer is not None)

    def _current(self, seq: int) -> StoredMessage:
        return _make_stored(self._rows[seq], self._number)


def _make_stored(row: _StoredRow, snapshot: int) -> StoredMessage:
    return replace(
        as_stored(row.message, row.seq),
        properties=dict(row.properties),
        slices=tuple([slice for slice in row.slices if row.is_in(slice, snapshot)]),
        processed=row.processed,
        retired=row.retired,
        undelivered=row.undelivered,
        unmatched=row.unmatched,
    )
