"""The protocol of a store. One contract suite (tests/support/store/contract.py) tests every implementation.

Every event takes the next number of one increasing sequence: a message is stored under its number (`seq`), and its
processing takes a number too. So a snapshot is a number S. These invariants hold:

- At S a message is visible if `seq <= S` and `retired` is None or `> S`.
- At S it is in a slice if it joined before and no reset of the slice up to S came after.
- A message retires when it is processed, delivered (if it must be) and in no slice.
- A commit is atomic: all of its steps are applied, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from demaq.messages import PropertyValue
from demaq.records import record
from demaq.store.epochs import Epochs
from demaq.store.message_scan import MessageHead, Scan, ScanResult
from demaq.store.operator_records import AuditRecord, Pause, PausedPart

SliceKey = tuple[str, str]
"""A slicing and a key."""
OWN_NUMBER = "\0"
"""As the key of a slice in a new message: stands for the number under which the message will be stored."""
IndexEntry = tuple[str, str]
"""The name of an index (its queue and path) and a value."""
Elision = bool | str
"""Whether messages that retire are removed at once: none, all, or all but those that have a property of this name."""
SequenceDirection = Literal["in", "out"]
"""Whether the messages of a sequence are received or sent."""


def resolve_own_number(seq: int, slices: Iterable[SliceKey]) -> list[SliceKey]:
    """Return the slices that a message joins when it is stored under a number, each once."""
    return list(dict.fromkeys([(slicing, str(seq) if key == OWN_NUMBER else key) for slicing, key in slices]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """When a message of an echo queue is enqueued again, and into which queue."""

    due: datetime
    target: str


@record
class NewMessage:
    """A message to be stored."""

    queue: str
    body: str
    properties: Mapping[str, PropertyValue]
    """Declared and transport properties, but not those that are fields here."""
    created: datetime
    rule: str | None = None
    """The rule that created it; None for a message from outside."""
    trigger: int | None = None
    """The message whose processing created it."""
    origin: int | None = None
    """The root of its causal tree; None if it is a root itself."""
    hops: int = 0
    priority: int | None = None
    """Higher ones are processed first; None for a message that no rule processes (in a mailbox, a timer)."""
    slices: tuple[SliceKey, ...] = ()
    entries: tuple[IndexEntry, ...] = ()
    timer: Timer | None = None
    transient: bool = False
    """Removed when the store is opened again."""
    undelivered: bool = False
    """In an outgoing gateway: must not retire before it is delivered."""
    request: str | None = None
    """An idempotency key: only the first message with this name is stored.

    It may end with a digest of what was sent: see `demaq.store.request_names`.
    """


@record
class StoredMessage:
    """A stored message.

    Only `slices`, `processed`, `retired` and `undelivered` change, and in a migration `properties`.
    """

    seq: int
    queue: str
    body: str
    properties: Mapping[str, PropertyValue]
    created: datetime
    rule: str | None
    trigger: int | None
    origin: int
    hops: int
    slices: tuple[SliceKey, ...]
    """Its slices at the snapshot at which it was read."""
    processed: int | None
    """The number its processing took, or None."""
    retired: int | None
    """From this number on it is invisible to rules and may be removed."""
    timer: Timer | None
    transient: bool
    undelivered: bool
    unmatched: bool = False
    """Whether it was processed and no rule has reacted to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt to send a message of an outgoing gateway."""

    message: int
    queue: str
    number: int
    """Counted from 1."""
    at: datetime
    seconds: float
    destination: str
    result: Literal["sent", "again", "failed"]
    """Acknowledged by the receiver; to be retried; given up."""
    status: str | None = None
    """The status that the receiver returned."""
    kind: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """A message in the outbox of an outgoing gateway, for listings."""

    message: int
    queue: str
    created: datetime
    due: datetime
    attempts: int
    """How many attempts there were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Postponed:
    """A message of the outbox that gets another due time, if `attempt` is given because that has failed."""

    message: int
    due: datetime
    attempt: Attempt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToSend:
    """A message of the outbox that is due: all that decides how it is sent, without its body."""

    seq: int
    queue: str
    due: datetime
    attempts: int
    """How many attempts were made before."""
    properties: Mapping[str, PropertyValue]
    slices: tuple[SliceKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """The response on a connection; a repeated request gets it again."""

    connection: str
    status: int
    content_type: str
    body: str


@record
class StoredSequence:
    """What a gateway knows of a sequence of WS-ReliableMessaging."""

    direction: SequenceDirection
    name: str
    """The Identifier of an incoming sequence, the MessageID of CreateSequence of an outgoing one: unique in its
    direction."""
    queue: str
    """The gateway."""
    peer: str
    """The address that an outgoing sequence goes to, or who created an incoming one."""
    has_ended: bool
    """Whether nothing will change any more: it is removed after a while."""
    content: str
    """Its state, in a form that the store does not read."""
    changed: datetime


@record
class SequenceMessage:
    """A message in a sequence, as long as it is not acknowledged (outgoing) or waits for others (incoming)."""

    direction: SequenceDirection
    sequence: str
    """The name of the sequence."""
    number: int
    """Its message number in the sequence, from 1 to 2^63 - 1."""
    message: int | None = None
    """Of an outgoing one, its number in the store."""
    held: str | None = None
    """Of an incoming one that waits for those before it, the message as text."""


@record
class SequenceChanges:
    """Changes of sequences and of the replay cache of WS-Security, which are part of one transaction.

    They are applied in this order. A message number that was removed is not added again.
    """

    sequences: tuple[StoredSequence, ...] = ()
    """Written; each replaces the earlier one of its direction and name."""
    added: tuple[SequenceMessage, ...] = ()
    """Of sequences that are stored, or written by these changes. They replace earlier ones of the same number."""
    removed: tuple[tuple[SequenceDirection, str, int], ...] = ()
    """Direction, sequence and number of messages. Unknown ones are ignored."""
    replay_keys: Mapping[str, datetime] = field(default_factory=dict)
    """Keys to be remembered until a time. A known key keeps the later time."""


@record
class Step:
    """The effects of processing one message, of a timer, or of a client that takes a message from a mailbox.

    They are applied in this order: the processed mark, the resets, the new messages (so that a message enqueued
    together with a reset begins the new lifetime), then messages retire that are processed, delivered and in no slice.
    """

    processed: int | None = None
    resets: tuple[SliceKey, ...] = ()
    created: tuple[NewMessage, ...] = ()
    fired: int | None = None
    """The echo message whose timer fires with this step. It counts as processed."""
    elided: int = 0
    """How many numbers to skip before those of the created messages: of messages that came and went unstored."""
    delivered: int | None = None
    """The message of an outgoing gateway whose delivery has succeeded or finally failed with this step."""
    attempt: Attempt | None = None
    """The last attempt to deliver it."""
    answer: StoredAnswer | None = None
    """The response that the message was, if a repeated request may get it again."""
    unmatched: bool = False
    """Whether no rule has reacted to the message that is processed."""

    @property
    def is_event(self) -> bool:
        """Whether it takes a number itself: not if it does nothing but store messages."""
        return bool(self.processed or self.fired or self.delivered or self.resets or self.attempt or self.answer)


@record
class Committed:
    """The result of a step."""

    number: int
    """The number of the step itself, or the last one before it if it takes none."""
    created: tuple[int, ...]
    """The numbers of its messages, in order."""
    retired: tuple[int, ...]
    """Messages that retired with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedMessage:
    """What a stored message will be under the next version of the program."""

    seq: int
    properties: Mapping[str, PropertyValue] | None = None
    """None if they do not change."""
    slices: tuple[SliceKey, ...] = ()
    """The slices it will be in; ignored if it has retired."""
    entries: tuple[IndexEntry, ...] = ()
    discarded: bool = False
    """Whether its queue is removed: it leaves all slices and retires, processed or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextProgram:
    """A version of the program that becomes the active one."""

    digest: str
    files: Mapping[str, str]
    indexes: tuple[str, ...]
    """The indexes that are complete under it."""
    priorities: Mapping[str, int | None]
    """The new priority of unprocessed messages, by queue; None if no rule processes them."""


def as_stored(message: NewMessage, seq: int) -> StoredMessage:
    """Return a new message as it is right after it was stored under a number."""
    return StoredMessage(
        seq=seq,
        queue=message.queue,
        body=message.body,
        properties=message.properties,
        created=message.created,
        rule=message.rule,
        trigger=message.trigger,
        origin=seq if message.origin is None else message.origin,
        hops=message.hops,
        slices=tuple(resolve_own_number(seq, message.slices)),
        processed=None,
        retired=None,
        timer=message.timer,
        transient=message.transient,
        undelivered=message.undelivered,
    )


class Store(Protocol):
    """Append-only messages and their state. One process at a time may write."""

    # writing

    def append(self, messages: Sequence[NewMessage], changes: SequenceChanges | None = None) -> list[int]:
        """Store messages from outside, all or none, and return their numbers. Durable on return, but for transient
        ones.

        The changes of sequences are part of the same transaction, also if there are no messages; they take no number.

        A message with a known `request` is not stored again: its number is that of the first one. Requests are equal if
        their names are, whatever their digests: `requested` returns the digest that is remembered.
        """

    def commit(
        self, steps: Sequence[Step], elide: Elision = False, changes: SequenceChanges | None = None
    ) -> list[Committed]:
        """Apply steps in order, then the changes of sequences, in one transaction. Durable on return.

        With `elide` a message that retires is removed at once; one that is created and retires within these steps takes
        its number and is not stored at all. With the name of a property, that is not done to messages that have it.

        Raises AlreadyProcessed, and changes nothing, if a message (`processed` or `fired`) was processed before or
        (`delivered`) is not in the outbox.
        """

    def postpone(self, postponed: Sequence[Postponed]) -> None:
        """Change when messages of the outbox are due, in one transaction."""

    def send_again(self, seqs: Sequence[int], due: datetime, entry: AuditRecord | None = None) -> list[int]:
        """Put messages of outgoing gateways into the outbox, delivered or not, in one transaction. Attempts start at 1.

        Return those that are no longer stored, in order. If there are any, nothing is changed; otherwise an audit
        record is part of the transaction.
        """

    def change_sequences(self, changes: SequenceChanges) -> None:
        """Apply changes of sequences in one transaction. Durable on return."""

    def load_collection(self, name: str, documents: Sequence[str], entry: AuditRecord | None = None) -> int:
        """Replace a collection. Return its new version, counted from 1. An audit record is part of the transaction."""

    def note_migrated(self, digest: str, messages: Sequence[MigratedMessage], done: int) -> None:
        """Note what messages will be under the next version, and that those up to number `done` are migrated.

        Notes have no effect before `activate`. Those for another version, or made before the newest number was taken,
        are deleted.
        """

    def activate(self, program: NextProgram, at: datetime, entry: AuditRecord | None = None) -> int:
        """Make this the active program and apply the notes for it. Return its version, counted from 1.

        This is decided in one transaction, with an audit record if one is given, and then applied in small ones. If
        that is interrupted, the store completes it when it is opened again, before anything else.
        """

    def change_pauses(self, added: Sequence[Pause], removed: Sequence[PausedPart], entry: AuditRecord) -> int:
        """Pause some parts of the application and resume others, with an audit record, in one transaction.

        A part that is paused already keeps its pause. Return the number of the record.
        """

    def note_audit(self, entry: AuditRecord) -> int:
        """Store an audit record, or store it again if it has a number. Return its number. Durable on return."""

    def purge(self, seqs: Sequence[int], entry: AuditRecord) -> tuple[list[int], int]:
        """Remove messages, whatever their state, with an audit record, in one transaction.

        They leave their slices, indexes and the outbox, and their requests are remembered for some time. Those that a
        reliable sequence has numbered stay. Return which were removed, in order, and the number of the record. It takes
        a number of the store if a message was removed.
        """

    def begin_epoch(self) -> str:
        """Begin a new epoch, because numbers may be reused. Return the new identity, valid from the next number on.

        Outgoing sequences are removed with their messages: the destination may have received other messages under the
        numbers that would follow, from the store that this one is a copy of. What is still in the outbox goes into new
        sequences. Incoming sequences stay: what is held back in them was acknowledged, and no one will send it again.
        """

    def collect_garbage(self, retired_before: datetime, limit: int) -> int:
        """Remove up to `limit` messages that retired before a time. Return how many there were.

        Also forget some of what was remembered long enough: requests, attempts, responses, replay keys, and sequences
        that have ended, with their messages.
        """

    # reading, at a snapshot

    def snapshot(self) -> int:
        """Return the newest number."""

    def queue(self, name: str, snapshot: int) -> list[StoredMessage]:
        """Return the visible messages of a queue, in order."""

    def slice(self, slicing: str, key: str, snapshot: int) -> list[StoredMessage]:
        """Return the visible messages of a slice's current lifetime, in order."""

    def lookup(self, index: str, values: Sequence[str], snapshot: int) -> list[StoredMessage]:
        """Return the visible messages that have one of the values in the index, in order, each once."""

    def slices(self, slicing: str, keys: Sequence[str], snapshot: int) -> dict[str, list[StoredMessage]]:
        """Return many slices, by their keys."""

    def lookups(self, index: str, values: Sequence[str], snapshot: int) -> dict[str, list[StoredMessage]]:
        """Return many look-ups in one index, by their values."""

    def find(self, index: str, values: Sequence[str], snapshot: int) -> dict[str, list[int]]:
        """Return the seqs of the visible messages that have each of the values in the index, unordered."""

    def count_members(self, slicing: str, keys: Sequence[str], limit: int) -> int:
        """Return how many messages are in these slices now, and no more than the limit."""

    def count_found(self, index: str, values: Sequence[str], limit: int) -> int:
        """Return how many entries of visible messages the index has for these values now, up to the limit."""

    def collection(self, name: str) -> tuple[int, list[str]]:
        """Return version and documents; version 0 if nothing was loaded."""

    # reading, as it is now

    def pending(self, limit: int, but: Sequence[int] = (), but_of: Sequence[str] = ()) -> list[StoredMessage]:
        """Return unprocessed messages that have a priority, but not these nor those of these queues: highest priority
        first, then oldest first."""

    def pending_at(
        self, priority: int, after: int, limit: int, but: Sequence[int], but_of: Sequence[str]
    ) -> list[StoredMessage]:
        """Return unprocessed messages of one priority after a number, but not these nor those of these queues, oldest
        first."""

    def waiting(self, queue: str, limit: int) -> list[StoredMessage]:
        """Return the oldest unprocessed messages of a queue without rules (a mailbox)."""

    def due_timers(self, now: datetime, limit: int, but_of: Sequence[str] = ()) -> list[StoredMessage]:
        """Return echo messages that are due and have not fired, but not those of these queues: in due order, then
        oldest first."""

    def next_due(self, but_of: Sequence[str] = ()) -> datetime | None:
        """Return when the next timer is due that is not of one of these queues."""

    def to_send(self, queue: str, now: datetime, after: int, limit: int) -> list[ToSend]:
        """Return messages of a gateway's outbox that are due, with larger numbers than this, in their order."""

    def to_send_again(
        self, queue: str, now: datetime, after: tuple[datetime, int] | None, until: int, limit: int
    ) -> list[ToSend]:
        """Return messages of a gateway's outbox that are due, after this time and number, in due order.

        Those with larger numbers than `until` are left out.
        """

    def next_to_send(self, queue: str, after: datetime) -> datetime | None:
        """Return when the first message of a gateway's outbox is due that is due after this time."""

    def pending_times(self, priority: int, limit: int) -> list[tuple[str, datetime]]:
        """Return queue and time of creation of the first messages that wait for rules with this priority."""

    def waiting_time(self, queue: str) -> datetime | None:
        """Return when the first message of a mailbox was created that waits for a client; None if none waits."""

    def sendings(self) -> dict[str, tuple[int, datetime, datetime]]:
        """Return for each gateway with messages in its outbox how many there are, when the first is due, and when the
        oldest was created."""

    def unsent(self, queue: str | None, message: int | None, limit: int) -> list[Unsent]:
        """Return messages of outboxes, of one queue, one message or all, in due order."""

    def attempts(self, queue: str | None, message: int | None, limit: int) -> list[Attempt]:
        """Return the attempts that are remembered, of one queue, one message or all, newest first."""

    def answer(self, connection: str) -> StoredAnswer | None:
        """Return the response on a connection, as long as it is remembered."""

    def sequences(self, direction: SequenceDirection | None = None, queue: str | None = None) -> list[StoredSequence]:
        """Return the sequences, of one direction, one gateway or all, ordered by direction, queue and name."""

    def sequence_messages(self, direction: SequenceDirection, name: str) -> list[SequenceMessage]:
        """Return the messages of a sequence, in the order of their numbers."""

    def known_replays(self, keys: Sequence[str], now: datetime) -> frozenset[str]:
        """Return those of the keys that are remembered and whose time is not before `now`."""

    def identity(self) -> str:
        """Return the unique name by which other nodes know the store: 32 characters, part of new messages' names."""

    def epochs(self) -> Epochs:
        """Return the names by which other nodes know messages."""

    def message(self, seq: int) -> StoredMessage | None:
        """Return a message, retired or not; None if it is not stored."""

    def messages(self, seqs: Sequence[int]) -> list[StoredMessage]:
        """Return those of the messages that are stored, in the order of their numbers."""

    def caused_by(self, seq: int) -> list[int]:
        """Return the stored messages that the processing of this one created."""

    def conversation(self, origin: int, examined: int) -> list[tuple[int, int | None]]:
        """Return the stored messages of a causal tree by the number of its root, each with the one that caused it.

        So many messages from the root on are examined, and no later ones.
        """

    def stored(self, queue: str | None, after: int, limit: int) -> list[StoredMessage]:
        """Return all stored messages, retired or not, in order, after a number."""

    def visible(self, queue: str, after: int, limit: int) -> list[StoredMessage]:
        """Return the visible messages of a queue, in order, after a number."""

    def members(self, slicing: str, key: str, after: int, limit: int) -> list[StoredMessage]:
        """Return the messages of a slice, in order, after a number."""

    def slice_history(self, slicing: str, key: str, limit: int) -> list[int]:
        """Return the stored messages that are or were in a slice, in any lifetime, in order."""

    def timers(self, after: tuple[datetime, int] | None, limit: int) -> list[StoredMessage]:
        """Return echo messages that have not fired, in due order, then oldest first, after a time and a number."""

    def collections(self) -> list[tuple[str, int, int]]:
        """Return name, version and number of documents of every collection, sorted by name."""

    def slice_keys(self, slicing: str, after: str | None, limit: int) -> list[tuple[str, int]]:
        """Return keys of slices that hold messages, in order after a key, with the number of messages."""

    def notable_slices(
        self, slicing: str, by: Literal["size", "age"], rows_max: int, limit: int
    ) -> list[tuple[str, int, int]]:
        """Return key, number of messages and first message of the largest or oldest slices.

        Not more than `rows_max` memberships are looked at: if there are more, of some.
        """

    def ended_members(self, slicing: str, key: str, rows_max: int) -> list[tuple[int, int]]:
        """Return messages that were in former lifetimes of a slice, each with the number of the reset that ended it.

        Of the slicing, the `rows_max` memberships that ended last are looked at.
        """

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return for each queue with visible messages how many there are, and how many of them are unprocessed."""

    def slicings(self) -> list[str]:
        """Return the slicings that have messages in their current slices, in order."""

    def former_slicings(self) -> list[str]:
        """Return the slicings that stored messages are in or were in before a reset, in order."""

    def indexes(self) -> frozenset[str]:
        """Return the complete indexes: those in which every visible message of their queues has its entries."""

    def migrated_until(self, digest: str) -> int:
        """Return up to which number messages are migrated for the next version; 0 if no note for it holds."""

    def requested(self, beginning: str) -> dict[str, int]:
        """Return the remembered requests with this prefix, each with the number of its message."""

    def first_requested(self, beginning: str, after: str) -> tuple[str, int] | None:
        """Return the first remembered request with this prefix that is not sorted before `after`."""

    def request_of(self, seq: int) -> str | None:
        """Return the request under which a message from outside was stored, as long as it is remembered."""

    def next_properties(self, seqs: Sequence[int]) -> dict[int, Mapping[str, PropertyValue]]:
        """Return the properties that messages will have under the next version, for those that are stored."""

    def pauses(self) -> list[Pause]:
        """Return what is paused, ordered by kind and name."""

    def audit(self, before: int | None, limit: int) -> list[AuditRecord]:
        """Return audit records, newest first, with lower numbers than this if it is given."""

    def scan(self, scan: Scan) -> ScanResult:
        """Look at some messages in their order, without their texts, and return those that match."""

    def heads(self, seqs: Sequence[int]) -> list[MessageHead]:
        """Return those of the messages that are stored, without their texts, in order."""

    def program(self) -> tuple[int, str, dict[str, str]] | None:
        """Return number, digest and files of the active version of the program."""

    def close(self) -> None: ...
