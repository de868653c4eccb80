"""What the engine asks of a store. One contract suite (tests/support/store/contract.py) holds for every implementation.

Everything that happens takes the next number of one increasing sequence: a message is stored under its number, and the
processing of a message takes a number too. So a snapshot is a number S. At S a message is visible if it was stored by
then (`seq <= S`) and not yet retired (`retired` is None or `> S`); it is in a slice if it joined and the slice was not
reset since. The engine decides, the store records: all of a step or nothing of it, all steps of a commit or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from demaq.messages import PropertyValue
from demaq.records import record
from demaq.store.epochs import Epochs

SliceKey = tuple[str, str]
"""A slicing and a key."""
OWN_NUMBER = "\0"
"""As the key of a slice in a new message: the number it is stored under, which nobody knows before."""
IndexEntry = tuple[str, str]
"""The name of an index (its queue and path) and a value."""


def slices_at(seq: int, slices: Iterable[SliceKey]) -> list[SliceKey]:
    """The slices that a message joins as it is stored under a number, each once."""
    return list(dict.fromkeys([(slicing, str(seq) if key == OWN_NUMBER else key) for slicing, key in slices]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """A message of an echo queue comes back in its target when it is time."""

    due: datetime
    target: str


@record
class NewMessage:
    """A message to be stored."""

    queue: str
    body: str
    properties: Mapping[str, PropertyValue]
    """Declared and transport properties; what the other fields say is not repeated here."""
    created: datetime
    rule: str | None = None
    """The rule that made it; None for one from outside."""
    trigger: int | None = None
    """The message whose processing made it."""
    origin: int | None = None
    """The root of its causal tree; None for a message that is one."""
    hops: int = 0
    priority: int | None = None
    """When it is processed relative to others; None for a message that nobody processes (a mailbox, a timer)."""
    slices: tuple[SliceKey, ...] = ()
    entries: tuple[IndexEntry, ...] = ()
    timer: Timer | None = None
    transient: bool = False
    """Gone after the store is opened again."""
    undelivered: bool = False
    """In an outgoing gateway: must not retire before it is delivered."""
    request: str | None = None
    """What makes a repeated request harmless: the first message of that name is the only one.

    It may have a digest of what was sent behind its name: see `demaq.store.request_names`.
    """


@record
class StoredMessage:
    """A message as it lies in the store. Only `processed`, `retired` and `undelivered` ever change."""

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
    """The slices it is in at the snapshot it was read at."""
    processed: int | None
    """The number its processing took, or None."""
    retired: int | None
    """From this number on it is invisible to rules; it may be removed."""
    timer: Timer | None
    transient: bool
    undelivered: bool


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
    """Acknowledged by the other side; to be tried again; given up."""
    status: str | None = None
    """What the other side said."""
    kind: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """A message that an outgoing gateway is still to send."""

    message: int
    queue: str
    created: datetime
    due: datetime
    attempts: int
    """How many there were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Postponed:
    """A message that is to be sent at another time, perhaps because of an attempt that failed."""

    message: int
    due: datetime
    attempt: Attempt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToSend:
    """A message that is to be sent: all but its text."""

    seq: int
    queue: str
    attempts: int
    """How many were made before."""
    properties: Mapping[str, PropertyValue]
    slices: tuple[SliceKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """What was answered on a connection; a repeated request gets it again."""

    connection: str
    status: int
    content_type: str
    body: str


@record
class Step:
    """The effects of processing one message (or of a timer, or of a client who takes it): applied in this order.

    The processed mark, then the resets, then the new messages, so that a message enqueued together with a reset opens
    the new lifetime; last, whatever is processed, delivered and in no slice any more retires.
    """

    processed: int | None = None
    resets: tuple[SliceKey, ...] = ()
    created: tuple[NewMessage, ...] = ()
    fired: int | None = None
    """The echo message whose timer ends with this step. It counts as processed."""
    elided: int = 0
    """So many numbers are taken before those of the messages it creates: by others that have come and gone."""
    delivered: int | None = None
    """The message of an outgoing gateway that was delivered, or has finally failed, with this step."""
    attempt: Attempt | None = None
    """The attempt that did it."""
    answer: StoredAnswer | None = None
    """What was answered with that message, where it may be asked for again."""


@record
class Committed:
    """What became of a step."""

    number: int
    """The number the step itself took."""
    created: tuple[int, ...]
    """The numbers of its messages, in order."""
    retired: tuple[int, ...]
    """Messages that became invisible with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigratedMessage:
    """What a stored message will be under the next version of the program."""

    seq: int
    properties: Mapping[str, PropertyValue] | None = None
    """None where they stay as they are."""
    slices: tuple[SliceKey, ...] = ()
    """The slices it will be in. One that has retired is in none, whatever stands here."""
    entries: tuple[IndexEntry, ...] = ()
    discarded: bool = False
    """Its queue is given up: it leaves all slices and retires, processed or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextProgram:
    """A version of the program that is to become the active one."""

    digest: str
    files: Mapping[str, str]
    indexes: tuple[str, ...]
    """The indexes that are complete under it."""
    priorities: Mapping[str, int | None]
    """What unprocessed messages of each queue get; None where nobody processes them."""


def as_stored(message: NewMessage, seq: int) -> StoredMessage:
    """A new message as it lies in the store right after it was stored under a number."""
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
        slices=tuple(slices_at(seq, message.slices)),
        processed=None,
        retired=None,
        timer=message.timer,
        transient=message.transient,
        undelivered=message.undelivered,
    )


class Store(Protocol):
    """Append-only messages and what is known about them. One process at a time may write."""

    # writing

    def append(self, messages: Sequence[NewMessage]) -> list[int]:
        """Store messages from outside, all or none. Durable on return, but for transient ones.

        One whose `request` is known already is not stored again: its place in the answer has the first one's number.
        Requests of one name are one, whatever their digests: `requested` tells with which it is remembered.
        """

    def commit(self, steps: Sequence[Step], elide: bool = False) -> list[Committed]:
        """Apply steps in order, in one transaction. Durable on return.

        With `elide` a message that is done with is removed at once, and one that is created, processed and released by
        these very steps takes its number and is not stored at all.

        A step whose message (`processed` or `fired`) was processed before, or is not to be sent (`delivered`), raises
        AlreadyProcessed, and nothing of the whole commit is kept.
        """

    def postpone(self, postponed: Sequence[Postponed]) -> None:
        """Messages that are to be sent are due at other times; in one transaction."""

    def send_again(self, seqs: Sequence[int], due: datetime) -> list[int]:
        """Let messages of outgoing gateways be sent, whatever became of them, in one transaction. Their attempts count
        from 1 again.

        Return those that are no longer there, in order. If there are any, nothing is changed for the others either.
        """

    def load_collection(self, name: str, documents: Sequence[str]) -> int:
        """Replace a collection; the answer is its new version, counted from 1."""

    def note_migrated(self, digest: str, messages: Sequence[MigratedMessage], done: int) -> None:
        """Note what messages will be under the next version, and that those up to number `done` were looked at.

        It changes nothing before `activate`. What was noted for another version, or before anything else was stored or
        processed, is forgotten.
        """

    def activate(self, program: NextProgram, at: datetime) -> int:
        """From now on this is the program, and what was noted for it holds. The answer is its version, from 1.

        Decided in one transaction and then written in small ones. Where that is interrupted, the store completes it
        when it is opened again, before anything else.
        """

    def begin_epoch(self) -> str:
        """Return a new identity, which holds from the next number on: numbers may have been given out before."""

    def collect_garbage(self, retired_before: datetime, limit: int) -> int:
        """Remove up to so many messages that retired before a time; the answer is how many there were."""

    # reading, at a snapshot

    def snapshot(self) -> int:
        """The newest number."""

    def queue(self, name: str, snapshot: int) -> list[StoredMessage]:
        """Visible messages of a queue, in order."""

    def slice(self, slicing: str, key: str, snapshot: int) -> list[StoredMessage]:
        """Visible messages of a slice's current lifetime, in order."""

    def lookup(self, index: str, values: Sequence[str], snapshot: int) -> list[StoredMessage]:
        """Visible messages that have one of the values in the index, in order, each once."""

    def slices(self, slicing: str, keys: Sequence[str], snapshot: int) -> dict[str, list[StoredMessage]]:
        """Many slices at once, by their keys."""

    def lookups(self, index: str, values: Sequence[str], snapshot: int) -> dict[str, list[StoredMessage]]:
        """Many look-ups in one index at once, by their values."""

    def collection(self, name: str) -> tuple[int, list[str]]:
        """Version and documents; version 0 where nothing was loaded."""

    # reading, as it is now

    def pending(self, limit: int, but: Sequence[int] = (), but_of: Sequence[str] = ()) -> list[StoredMessage]:
        """Unprocessed messages that have a priority, but for these and those of these queues: highest first, then
        oldest first."""

    def waiting(self, queue: str, limit: int) -> list[StoredMessage]:
        """The oldest unprocessed messages of a queue that nobody processes, for whoever takes them."""

    def due_timers(self, now: datetime, limit: int) -> list[StoredMessage]:
        """Echo messages whose time has come and that have not fired, in due order, then oldest first."""

    def next_due(self) -> datetime | None:
        """When the next timer is due."""

    def to_send(self, queue: str, now: datetime, limit: int, but: Sequence[int] = ()) -> list[ToSend]:
        """Messages that an outgoing gateway is to send, but for these, as they are due."""

    def next_to_send(self, queue: str, after: datetime) -> datetime | None:
        """When the first message of an outgoing gateway is due that is not due by this time."""

    def sendings(self) -> dict[str, tuple[int, datetime, datetime]]:
        """For each outgoing gateway that is to send messages: how many, when the first one is due, and when the oldest
        was made."""

    def unsent(self, queue: str | None, message: int | None, limit: int) -> list[Unsent]:
        """What outgoing gateways are to send, of one queue, one message or all, in the order in which it is due."""

    def attempts(self, queue: str | None, message: int | None, limit: int) -> list[Attempt]:
        """What is remembered of attempts, of one queue, one message or all, the newest first."""

    def answer(self, connection: str) -> StoredAnswer | None:
        """What was answered, as long as it is remembered."""

    def identity(self) -> str:
        """What this store is called by others: 32 characters that no other store has. New messages bear it."""

    def epochs(self) -> Epochs:
        """Return what others know each message by."""

    def message(self, seq: int) -> StoredMessage | None:
        """A message that is still there, retired or not."""

    def messages(self, seqs: Sequence[int]) -> list[StoredMessage]:
        """Those of the messages that are still there, in the order of their numbers."""

    def caused_by(self, seq: int) -> list[int]:
        """Messages that the processing of this one made and that are still there."""

    def stored(self, queue: str | None, after: int, limit: int) -> list[StoredMessage]:
        """Everything that is physically there, retired or not, in order, from behind a number."""

    def visible(self, queue: str, after: int, limit: int) -> list[StoredMessage]:
        """What rules see of a queue now, in order, from behind a number."""

    def members(self, slicing: str, key: str, after: int, limit: int) -> list[StoredMessage]:
        """What is in a slice now, in order, from behind a number."""

    def timers(self, after: tuple[datetime, int] | None, limit: int) -> list[StoredMessage]:
        """Echo messages that have not fired, in due order, then oldest first, from behind a time and a number."""

    def collections(self) -> list[tuple[str, int, int]]:
        """Name, version and number of documents of every collection that was loaded, by name."""

    def slice_keys(self, slicing: str, after: str | None, limit: int) -> list[tuple[str, int]]:
        """Keys of the current slices that hold messages, in order from behind a key, with how many they hold."""

    def counts(self) -> dict[str, tuple[int, int]]:
        """For each queue that holds visible messages: how many there are, and how many of them are unprocessed."""

    def slicings(self) -> list[str]:
        """Slicings that have messages in their current slices, in order."""

    def indexes(self) -> frozenset[str]:
        """Indexes that are complete: every visible message of their queues has its entries in them."""

    def migrated_until(self, digest: str) -> int:
        """Up to which number messages were looked at for the next version; 0 where nothing noted for it still holds."""

    def requested(self, beginning: str) -> dict[str, int]:
        """Requests that begin like that and are still remembered, each with the number of its message."""

    def next_properties(self, seqs: Sequence[int]) -> dict[int, Mapping[str, PropertyValue]]:
        """The properties that messages will have under the next version, as far as they are there."""

    def program(self) -> tuple[int, str, dict[str, str]] | None:
        """Number, digest and files of the active version of the program."""

    def close(self) -> None: ...
