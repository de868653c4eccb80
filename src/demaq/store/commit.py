"""Compute what one transaction changes, on the rows that it needs, then write all changes together.

A message that is created and processed by the steps of one commit is written once, in its last state. There is no other
writer during the transaction, so what was read stays valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from demaq.errors import AlreadyProcessed, StoreDamaged
from demaq.store.checksums import (
    body_checksum,
    checksum_of,
    message_checksum,
    prepare_fresh_checksum,
    request_checksum,
    state_checksum,
)
from demaq.store.deliveries import make_outbox_row, write_attempts
from demaq.store.encoding import (
    NO_PROPERTIES,
    Membership,
    decode_list,
    encode_entries,
    encode_numbers,
    encode_properties,
    encode_slices,
    microseconds,
)
from demaq.store.protocol import (
    Attempt,
    Committed,
    Elision,
    IndexEntry,
    NewMessage,
    SliceKey,
    Step,
    StoredAnswer,
    resolve_own_number,
)
from demaq.store.removal import mark_removed, remove
from demaq.store.request_names import bounds_of, has_digest, name_of
from demaq.store.tables import Tables

RUN_MIN = 8
"""How many messages in a row must have most columns in common, on average, for a statement of their own."""

_Row: TypeAlias = tuple[Any, ...]
_Run: TypeAlias = tuple[_Row, list[_Row]]
"""The columns that rows share, and for each row the others."""


class _RowState:
    """The part of a message's row that can change, and which of it has changed."""

    __slots__ = (
        "before", "delivered", "entries", "marked", "message", "processed", "queue", "released", "request", "retired",
        "seq", "slices", "to_send", "undelivered",
    )  # fmt: skip

    def __init__(
        self, seq: int, queue: str, undelivered: bool, slices: list[Membership], entries: list[IndexEntry]
    ) -> None:
        self.seq = seq
        self.queue = queue
        self.processed: int | None = None
        """The number of its step, negated if no rule has reacted to it."""
        self.retired: int | None = None
        self.undelivered = undelivered
        self.to_send = False
        """Whether it is in the outbox: also one that was delivered, if it is sent again."""
        self.slices = slices  # [slicing, key, the number of the reset or 0]
        self.entries = entries
        self.message: NewMessage | None = None  # for one that is not stored yet
        self.request: str | None = None
        self.before: int | tuple[Any, ...] = 0
        """The checksum of its state as it was read, or its arguments: most rows are removed and need no checksum."""
        self.marked = self.released = self.delivered = False  # what has changed

    def leave(self, slice: SliceKey, number: int) -> None:
        for membership in self.slices:
            if membership[0] == slice[0] and membership[1] == slice[1]:
                membership[2] = number
        self.released = True

    def compute_checksum(self, at: int) -> int:
        """Return the checksum of its state; `at` is the time at which it retired, if it did."""
        return state_checksum(
            self.seq,
            self.processed,
            self.retired,
            None if self.retired is None else at,
            int(self.undelivered and self.retired is None),
            encode_slices(self.slices),
            encode_entries(self.entries),
        )

    def take_difference(self, at: int) -> int:
        """Return what to add to the checksum of its row. Only the first call returns the difference, later ones 0."""
        before = self.before if isinstance(self.before, int) else state_checksum(*self.before)
        self.before = after = self.compute_checksum(at)
        return after - before

    def may_retire(self) -> bool:
        return (
            self.processed is not None
            and self.retired is None
            and not self.undelivered
            and all([ended for _, _, ended in self.slices])
        )


class CommitBuilder:
    """Collects the changes of one transaction until `write`."""

    def __init__(self, tables: Tables, at: int, newest: int | None = None) -> None:
        """`newest` is the newest number so far, if that is known."""
        self._tables = tables
        self._sql = tables.sql
        self._at = at
        self._first = int(tables.rows(tables.sql["newest_number"])[0][0]) if newest is None else newest
        self._number = self._first
        self._states: dict[int, _RowState] = {}
        self._fresh: dict[int, NewMessage] = {}
        """Messages that this transaction creates and does not change: those in no slice, index or outbox.

        They are not counted before they are written.
        """
        self._joined: dict[SliceKey, list[int]] = {}
        """Members that are not stored yet."""
        self._ended: dict[SliceKey, int] = {}
        """Slices whose stored members have left, with the number of the reset; 0 if there were none."""
        self._gone: list[_RowState] = []
        """New messages that are not stored, because they retire within the transaction."""
        self._requests: dict[str, int] = {}
        self._names: dict[str, int] = {}
        """Those of `_requests` that have digests, by their names without digests."""
        self._sent: list[int] = []
        self._attempts: list[Attempt] = []
        self._answers: list[StoredAnswer] = []
        self._counts: dict[str, list[int]] = {}
        self._time: datetime | None = None
        self._time_microseconds = 0
        """The time that was converted last, and what it is."""

    @property
    def number(self) -> int:
        """The last number that was taken."""
        return self._number

    def read_states(self, seqs: Iterable[int]) -> None:
        """Read the states of these messages by one statement."""
        asked = list(seqs)
        for row in self._tables.rows(self._sql["states"], [encode_numbers(asked)]) if asked else ():
            self._add_state(row)

    def append(self, message: NewMessage) -> int:
        """Return the number of the message, or of the earlier one with a request of the same name."""
        if message.request is not None:
            known = self._find_request(message.request)
            if known is not None:
                return known
        seq = self._number = self._number + 1
        if not (message.slices or message.entries or message.undelivered or message.timer):
            self._fresh[seq] = message
        else:
            self._count(message.queue, 1, 1)
            state = self._add_new_state(seq, message)
            for slicing, key, _ in state.slices:
                self._joined.setdefault((slicing, key), []).append(seq)
        if message.request is not None:
            self._requests[message.request] = seq
            if has_digest(message.request):
                self._names[name_of(message.request)] = seq
        return seq

    def apply(self, step: Step) -> Committed:
        touched: dict[int, _RowState] = {}
        if step.is_event:
            self._number += 1
            touched = self._change(step, self._number)
        number = self._number
        self._number += step.elided
        created = tuple([self.append(message) for message in step.created])
        retired = tuple([seq for seq in sorted(touched) if self._retire(touched[seq], number)]) if touched else ()
        return Committed(number=number, created=created, retired=retired)

    def _change(self, step: Step, number: int) -> dict[int, _RowState]:
        """Apply what a step does to earlier messages. Return those that may retire."""
        touched: dict[int, _RowState] = {}
        for seq in (step.processed, step.fired):
            if seq is not None:
                touched[seq] = self._process(seq, -number if step.unmatched else number)
        for slice in step.resets:
            for state in self._reset(slice, number):
                touched[state.seq] = state
        if step.delivered is not None:
            state = self._deliver(step.delivered)
            if state.delivered:  # not if it was delivered before and is sent again
                touched[step.delivered] = state
        if step.attempt is not None:
            self._attempts.append(step.attempt)
        if step.answer is not None:
            self._answers.append(step.answer)
        return touched

    def write(self, elide: Elision = False) -> None:
        """Write all changes. With `elide`, messages that retire are removed, or not written at all if they are new.

        With the name of a property, those that have it are written.
        """
        if self._number == self._first:
            return  # without a number there is no change
        # Before the inserts: only members that were stored before leave.
        if self._ended:
            ended = [(number, slicing, key) for (slicing, key), number in self._ended.items() if number]
            self._tables.execute_many(self._sql["end_slice"], ended)
        if self._fresh:
            self._insert_fresh()
        if self._states:
            self._write_states(elide)
        if self._requests:
            self._insert_requests()
        self._write_deliveries()
        self._write_counts()
        self._tables.set_newest(self._number)

    def _write_states(self, elide: Elision) -> None:
        """Write the messages that have changed, and new ones in slices, indexes or the outbox."""
        new = [state for state in self._states.values() if state.message is not None]
        gone = [state for state in new if state.retired is not None] if elide else []
        if isinstance(elide, str):
            gone = [state for state in gone if state.message is not None and elide not in state.message.properties]
            unwritten = {state.seq for state in gone}
            self._insert([state for state in new if state.seq not in unwritten])
        else:
            self._insert([state for state in new if state.retired is None] if elide else new)
        old = [state for state in self._states.values() if state.message is None]
        self._update(self._remove_retired(old, elide) if elide else old)
        self._gone = gone

    def _insert_requests(self) -> None:
        requests = [(request, seq, request_checksum(request, seq, None)) for request, seq in self._requests.items()]
        self._tables.execute_many(self._sql["insert_request"], requests)
        # Of messages that are not stored, the requests are remembered for some time only.
        named = [state.message.request for state in self._gone if state.message is not None]
        mark_removed(self._tables, [request for request in named if request is not None], self._at)

    def _write_deliveries(self) -> None:
        if self._attempts:
            write_attempts(self._tables, self._attempts)
        if self._sent:
            self._tables.execute_many(self._sql["delete_outbox"], [(seq,) for seq in self._sent])
        if self._answers:
            answers = [(a.connection, a.status, a.content_type, a.body, self._at) for a in self._answers]
            rows = [(*row, checksum_of(*row)) for row in answers]
            self._tables.execute_many(self._sql["insert_answer"], rows)

    def _write_counts(self) -> None:
        rows = [(queue, *difference) for queue, difference in self._counts.items()]
        self._tables.execute_many(self._sql["count"], rows)

    def _find_request(self, request: str) -> int | None:
        if not has_digest(request):
            if request in self._requests:
                return self._requests[request]
            rows = self._tables.rows(self._sql["known_request"], [request])
            return int(rows[0][0]) if rows else None
        name = name_of(request)
        if name in self._names:
            return self._names[name]
        first, end = bounds_of(request)
        found = self._tables.rows(self._sql["known_requests"], {"after": first, "end": end})
        return next(iter([int(seq) for known, seq in found if name_of(known) == name]), None)

    def _add_state(self, row: Sequence[Any]) -> _RowState:
        """Return the state of a message; the same object if it was read before."""
        seq, queue, processed, undelivered, request, slices, entries, to_send = row
        state = self._states.get(seq)
        if state is None:
            try:
                state = _RowState(seq, queue, bool(undelivered), decode_list(slices), decode_list(entries))
                state.before = seq, processed, None, None, undelivered, slices, entries
            except (ValueError, TypeError):
                raise StoreDamaged(f"the row of message {seq} is damaged; demaq verify says what that costs") from None
            state.processed = processed
            state.request = request
            state.to_send = bool(to_send)
            self._states[seq] = state
        return state

    def _add_new_state(self, seq: int, message: NewMessage) -> _RowState:
        # A message is in a slice, and has an index entry, once.
        slices: list[Membership] = [[slicing, key, 0] for slicing, key in resolve_own_number(seq, message.slices)]
        state = _RowState(seq, message.queue, message.undelivered, slices, list(dict.fromkeys(message.entries)))
        state.message = message
        self._states[seq] = state
        return state

    def _process(self, seq: int, number: int) -> _RowState:
        fresh = self._fresh.pop(seq, None)
        if fresh is None:
            state = self._states.get(seq)
        else:
            self._count(fresh.queue, 1, 1)
            state = self._add_new_state(seq, fresh)
        if state is None or state.processed is not None:
            raise AlreadyProcessed(f"message {seq} was processed before")
        state.processed = number
        state.marked = True
        self._count(state.queue, 0, -1)
        return state

    def _deliver(self, seq: int) -> _RowState:
        state = self._states.get(seq)
        if state is None or not state.to_send:
            raise AlreadyProcessed(f"message {seq} is not to be sent")
        state.to_send = False
        self._sent.append(seq)
        state.delivered = state.undelivered
        state.undelivered = False
        return state

    def _reset(self, slice: SliceKey, number: int) -> list[_RowState]:
        members = [self._states[seq] for seq in self._joined.pop(slice, ())]
        if slice not in self._ended:
            written = self._tables.rows(self._sql["states_in_slice"], slice)
            members += [self._add_state(row) for row in written]
            self._ended[slice] = number if written else 0
        for state in members:
            state.leave(slice, number)
        return members

    def _retire(self, state: _RowState, number: int) -> bool:
        if not state.may_retire():
            return False
        state.retired = number
        self._count(state.queue, -1, 0)
        return True

    def _count(self, queue: str, visible: int, unprocessed: int) -> None:
        difference = self._counts.get(queue)
        if difference is None:
            difference = self._counts[queue] = [0, 0]
        difference[0] += visible
        difference[1] += unprocessed

    def _insert_fresh(self) -> None:
        """Insert the messages without slices, entries and so on: what most columns hold is known."""
        runs, bodies = self._collect_fresh()
        insert = self._sql["insert_fresh_message"]
        for shared, rows in runs:
            self._count(shared[0], len(rows), len(rows))
        if len(runs) == 1 or len(runs) * RUN_MIN <= len(bodies):
            for shared, rows in runs:
                self._tables.execute_many(insert, rows, shared)
        else:
            self._tables.execute_many(insert, [(*shared, *row) for shared, rows in runs for row in rows])
        self._tables.execute_many(self._sql["insert_body"], bodies)

    def _collect_fresh(self) -> tuple[list[_Run], list[_Row]]:
        """Return the rows of these messages, in runs of those that have most columns in common, and of their bodies."""
        runs: list[_Run] = []
        bodies: list[_Row] = []
        last = None
        for seq, message in self._fresh.items():
            trigger, request, body, properties = message.trigger, message.request, message.body, message.properties
            missing = 0 if request is not None else 1 if trigger is not None else 2
            kind = (
                message.queue, message.created, message.rule, message.hops, message.priority, message.transient, missing
            )  # fmt: skip
            if kind != last:
                last = kind
                queue, created, rule, hops, priority, transient, _ = kind
                alike = (queue, self._convert_time(created), rule, hops, priority, int(transient))
                compute_checksum = prepare_fresh_checksum(*alike)
                rows: list[_Row] = []
                runs.append(((*alike, 0, *[None] * missing), rows))
            origin = seq if message.origin is None else message.origin
            row = (request, trigger, origin, seq, compute_checksum(seq, trigger, origin, request))
            rows.append(row[missing:])
            encoded = encode_properties(properties) if properties else NO_PROPERTIES
            bodies.append((seq, body, encoded, body_checksum(seq, body, encoded)))
        return runs, bodies

    def _convert_time(self, at: datetime) -> int:
        """Return a time in microseconds. Messages of one transaction often have the same."""
        if at is not self._time:
            self._time = at
            self._time_microseconds = microseconds(at)
        return self._time_microseconds

    def _insert(self, states: list[_RowState]) -> None:
        many = self._tables.execute_many
        messages, bodies, to_send = [], [], []
        for state in states:
            message = state.message
            assert message is not None
            timer = message.timer
            seq, queue = state.seq, state.queue
            created = self._convert_time(message.created)
            origin = seq if message.origin is None else message.origin
            transient = int(message.transient)  # sqlite3 is slow to adapt a bool
            undelivered = int(state.undelivered)
            due, target = (None, None) if timer is None else (microseconds(timer.due), timer.target)
            rule, trigger, hops, request = message.rule, message.trigger, message.hops, message.request
            retired_at = None if state.retired is None else self._at
            slices, entries = encode_slices(state.slices), encode_entries(state.entries)
            checksum = message_checksum(
                (seq, queue, created, rule, trigger, origin, hops, transient, due, target, request),
                state_checksum(seq, state.processed, state.retired, retired_at, undelivered, slices, entries),
                message.priority,
            )
            messages.append(
                (
                    seq, queue, created, rule, trigger, origin, hops, message.priority, state.processed, state.retired,
                    retired_at, transient, undelivered, due, target, request, slices, entries, checksum,
                )
            )  # fmt: skip
            if state.undelivered:
                to_send.append(make_outbox_row(seq, queue, created))
            properties = encode_properties(message.properties)
            bodies.append((seq, message.body, properties, body_checksum(seq, message.body, properties)))
        many(self._sql["insert_message"], messages)
        many(self._sql["insert_body"], bodies)
        many(self._sql["insert_outbox"], to_send)
        many(self._sql["insert_member"], [(*member, state.seq) for state in states for member in state.slices])
        indexed = [(*entry, state.retired or 0, state.seq) for state in states for entry in state.entries]
        many(self._sql["insert_entry"], indexed)

    def _remove_retired(self, states: list[_RowState], elide: Elision) -> list[_RowState]:
        """Remove the messages that retire, but not those that are in the outbox again, or have the property.

        Return the states of all others.
        """
        gone = {state.seq for state in states if state.retired is not None and not state.to_send}
        if not gone:
            return states
        if isinstance(elide, str):
            spared = self._tables.rows(self._sql["with_property"], [encode_numbers(gone), f'%"{elide}"%'])
            gone.difference_update([row[0] for row in spared])
        removed = [state for state in states if state.seq in gone]
        remove(
            self._tables,
            [state.seq for state in removed],
            [(*member, state.seq) for state in removed for member in state.slices],
            [(*entry, 0, state.seq) for state in removed for entry in state.entries],
        )
        mark_removed(self._tables, [state.request for state in removed if state.request is not None], self._at)
        return [state for state in states if state.seq not in gone]

    def _update(self, states: list[_RowState]) -> None:
        many = self._tables.execute_many
        retired = [state for state in states if state.retired is not None]
        others = [state for state in states if state.retired is None]
        at = self._at
        rows = [(s.processed, s.retired, at, encode_slices(s.slices), s.take_difference(at), s.seq) for s in retired]
        many(self._sql["set_retired"], rows)
        many(self._sql["retire_entry"], [(s.retired, *entry, s.seq) for s in retired for entry in s.entries])
        many(self._sql["set_processed"], [(s.processed, s.take_difference(at), s.seq) for s in others if s.marked])
        left = [(encode_slices(s.slices), s.take_difference(at), s.seq) for s in others if s.released]
        many(self._sql["set_slices"], left)
        many(self._sql["set_delivered"], [(s.take_difference(at), s.seq) for s in others if s.delivered])
