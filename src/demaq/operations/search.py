"""Search stored messages: by queue, time, state, property, slice, text, XPath, rule, and kind or code of an error.

A search reads in pieces, each a short statement of its own over a connection of its own, so it never keeps a node from
anything. First messages are looked at without their texts. Those that match so far are read, some at a time, and their
properties and texts are examined. A page ends with enough messages, or after it has looked at so many: then it says
where to continue. What changes meanwhile may be seen or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path

from demaq.engine.error_routing import ErrorReport, read_error
from demaq.errors import OperatorError
from demaq.evaluation.state.snapshot_reader import system_properties
from demaq.language.program.program import Program
from demaq.records import record
from demaq.store.message_scan import STATE_BITS, MessageHead, Scan, State, matches_scan
from demaq.store.opening import open_store_readonly
from demaq.store.protocol import SliceKey, Store, StoredMessage
from demaq.store.sql_store import SqlStore
from demaq.suggestions import describe_unknown
from demaq.system_properties import ERROR_LEVEL

ROWS_PER_PIECE = 20_000
"""How many messages are looked at by one statement."""
HEADS_PER_PIECE = 2_000
"""How many of them it returns, if not all of the conditions are decided by then."""
ROWS_PER_PAGE = 200_000
"""The same for a page, if nothing else is asked for."""
TEXTS_PER_PAGE = 20_000
"""How many texts are read for a page."""
TEXTS_FIRST, TEXTS_MAX = 16, 256
"""How many texts are read by one statement, at first and at most."""
CHARACTERS_PER_PIECE = 4_000_000
"""About how many characters one statement reads, as far as the sizes of the last texts say."""
STATEMENT_SECONDS_MAX = 10.0
"""How long one statement may take."""
_STANDARD = "err:"
"""The prefix of XQuery's own codes, which error messages omit."""

Matches = Callable[[Sequence[StoredMessage]], Sequence[bool]]
"""Returns for each message whether an expression holds for it (`XPathFilter`)."""


@record
class MessageSelection:
    """Which messages to find. All conditions must hold."""

    seqs: tuple[int, ...] = ()
    """These messages only."""
    queues: tuple[str, ...] = ()
    """One of these queues."""
    states: frozenset[str] = frozenset()
    """One of these states: `waits`, `new`, `timer`, `done`, `kept`, `unmatched`."""
    since: datetime | None = None
    until: datetime | None = None
    slice: SliceKey | None = None
    """In this slice now."""
    properties: tuple[tuple[str, str], ...] = ()
    """Names and values that it has."""
    texts: tuple[str, ...] = ()
    """Texts that its body contains, as it is written."""
    xpath: str | None = None
    """An expression whose effective boolean value is true with the message as its context."""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """Prefixes for the expression."""
    errors: tuple[str, ...] = ()
    """Patterns of kinds and codes, of which one matches that of an error message."""
    rule: str | None = None
    """The rule that created the message; of an error message, also the rule that it is about."""

    @property
    def is_empty(self) -> bool:
        """Whether it selects all messages."""
        return self == MessageSelection()

    @property
    def needs_texts(self) -> bool:
        return bool(self.properties or self.texts or self.xpath or self.errors)


@record
class MatchedMessage:
    """A message that was found."""

    head: MessageHead
    message: StoredMessage

    @property
    def state(self) -> State:
        return self.head.state


@record
class SearchPage:
    """What a search has found so far."""

    found: tuple[MatchedMessage, ...]
    scanned: int
    """At how many messages it has looked."""
    texts: int
    """How many texts it has read."""
    next_start: int | None
    """Where to continue; None if all messages were looked at."""


def check_selection(selection: MessageSelection, program: Program | None) -> None:
    """Raises an OperatorError if no message can match. Names are not checked if the application is not known."""
    for state in sorted(selection.states):
        if state not in STATE_BITS:
            raise OperatorError(describe_unknown("state", state, STATE_BITS))
    if selection.since is not None and selection.until is not None and selection.since >= selection.until:
        raise OperatorError("--since is not before --until")
    if program is None:
        return
    if selection.slice is not None and selection.slice[0] not in program.slicings:
        raise OperatorError(describe_unknown("slicing", selection.slice[0], program.slicings))


def check_names(store: Store, selection: MessageSelection, program: Program | None) -> None:
    """Raises an OperatorError if there is no such queue, not even in the store, or no such rule."""
    if program is None:
        return
    for queue in selection.queues:
        if queue not in program.queues and not store.stored(queue, 0, 1):
            raise OperatorError(describe_unknown("queue", queue, program.queues))
    rules = [rule.name for rule in program.rules]
    if selection.rule is not None and selection.rule not in rules:
        raise OperatorError(describe_unknown("rule", selection.rule, rules))


@contextmanager
def open_search_reader(where: str | Path) -> Iterator[SqlStore]:
    """Open a store to search in it, over a connection of its own whose statements are limited in time."""
    with closing(open_store_readonly(where)) as store:
        store.limit_statements(STATEMENT_SECONDS_MAX)
        yield store


def search(
    store: Store,
    selection: MessageSelection,
    *,
    start: int | None = None,
    limit: int = 50,
    backwards: bool = False,
    matches: Matches | None = None,
    rows_max: int = ROWS_PER_PAGE,
    texts_max: int = TEXTS_PER_PAGE,
) -> SearchPage:
    """Return the next messages that match, after `start`, or before it if it goes backwards.

    `matches` is needed for an expression. `rows_max` and `texts_max` limit what is looked at for this page.
    """
    assert selection.xpath is None or matches is not None, "an expression is evaluated by a filter"
    found: list[MatchedMessage] = []
    scanned = texts = 0
    reader = _TextReader(store, selection, matches)
    at: int | None = start
    while True:
        rows = min(ROWS_PER_PIECE, rows_max - scanned)
        piece, last, looked_at = _scan(store, selection, at, backwards, rows, limit - len(found))
        scanned += looked_at
        for matched in reader.read(piece, limit - len(found), texts_max - texts):
            found += matched
        texts += reader.taken
        if reader.stopped_at is not None:
            return SearchPage(found=tuple(found), scanned=scanned, texts=texts, next_start=reader.stopped_at)
        if last is None:
            return SearchPage(found=tuple(found), scanned=scanned, texts=texts, next_start=None)
        at = last
        if scanned >= rows_max or texts >= texts_max or len(found) >= limit:
            return SearchPage(found=tuple(found), scanned=scanned, texts=texts, next_start=at)


def search_all(
    store: Store,
    selection: MessageSelection,
    *,
    last: int,
    matches: Matches | None = None,
    advance: Callable[[int], None] = lambda scanned: None,
) -> Iterator[SearchPage]:
    """Yield pages with everything that matches, up to a number. `advance` is called with how far it has come."""
    start: int | None = None
    before = 0
    while True:
        page = search(store, selection, start=start, limit=TEXTS_MAX, matches=matches)
        found = tuple([each for each in page.found if each.head.seq <= last])
        yield replace(page, found=found)
        at = min(page.next_start if page.next_start is not None else last, last)
        advance(at - before)
        before = at
        if page.next_start is None or page.next_start >= last:
            return
        start = page.next_start


def _scan(
    store: Store, selection: MessageSelection, start: int | None, backwards: bool, rows: int, limit: int
) -> tuple[Sequence[MessageHead], int | None, int]:
    """Return the next messages that match without their texts, where they end, and how many were looked at."""
    is_decided = not selection.needs_texts and len(selection.queues) <= 1 and selection.rule is None
    scan = Scan(
        queue=selection.queues[0] if len(selection.queues) == 1 else None,
        slice=selection.slice,
        start=start,
        backwards=backwards,
        states=selection.states,
        since=selection.since,
        until=selection.until,
        rows_max=max(rows, 1),
        limit=max(limit, 1) if is_decided else HEADS_PER_PIECE,
    )
    if selection.seqs:
        heads: Sequence[MessageHead] = [
            head
            for head in store.heads(selection.seqs)
            if (start is None or (head.seq < start if backwards else head.seq > start))
        ]
        last, looked_at = None, len(heads)
        result = [head for head in (reversed(heads) if backwards else heads) if matches_scan(head, scan)]
        if selection.slice is not None:
            result = [head for head in result if selection.slice in head.slices]
    else:
        scanned = store.scan(scan)
        result, last, looked_at = list(scanned.heads), scanned.last, scanned.scanned
    if len(selection.queues) > 1:
        result = [head for head in result if head.queue in selection.queues]
    if selection.rule is not None and not selection.errors:
        result = [head for head in result if head.rule == selection.rule]
    return result, last, looked_at


class _TextReader:
    """Reads the texts of messages, and examines them."""

    def __init__(self, store: Store, selection: MessageSelection, matches: Matches | None) -> None:
        self._store = store
        self._selection = selection
        self._matches = matches
        self._size = TEXTS_FIRST
        self.taken = 0
        """How many texts were read of the last piece."""
        self.stopped_at: int | None = None
        """The last message of the piece that was examined, if not all were."""

    def read(self, heads: Sequence[MessageHead], limit: int, texts_max: int) -> Iterator[list[MatchedMessage]]:
        """Yield what matches, at most so many, after reading at most so many texts."""
        self.taken = found = position = 0
        self.stopped_at = None
        while position < len(heads):
            if found >= limit or self.taken >= texts_max:
                self.stopped_at = heads[position - 1].seq if position else None
                return
            size = min(self._size, texts_max - self.taken)
            if not self._selection.needs_texts:
                size = min(size, limit - found)
            part = heads[position : position + max(size, 1)]
            position += len(part)
            self.taken += len(part)
            matched = self._examine(part)
            if len(matched) > limit - found:
                matched = matched[: limit - found]
                self.stopped_at = matched[-1].head.seq
                yield matched
                return
            found += len(matched)
            yield matched

    def _examine(self, heads: Sequence[MessageHead]) -> list[MatchedMessage]:
        stored = {message.seq: message for message in self._store.messages([head.seq for head in heads])}
        characters = sum([len(message.body) for message in stored.values()])
        fitting = CHARACTERS_PER_PIECE * len(stored) // max(characters, 1)
        self._size = max(1, min(2 * self._size, fitting, TEXTS_MAX))
        pairs = [(head, stored[head.seq]) for head in heads if head.seq in stored]
        pairs = [(head, message) for head, message in pairs if has_content(message, self._selection)]
        if self._selection.xpath is not None and pairs:
            assert self._matches is not None, "an expression is evaluated by a filter"
            held = self._matches([message for _, message in pairs])
            pairs = [pair for pair, holds in zip(pairs, held, strict=True) if holds]
        return [MatchedMessage(head=head, message=message) for head, message in pairs]


def has_content(message: StoredMessage, selection: MessageSelection) -> bool:
    """Return whether the properties and the text of a message match."""
    set_by_system = system_properties(message) if selection.properties else {}
    for name, value in selection.properties:
        known = message.properties.get(name) or set_by_system.get(name)
        if known is None or value not in (known.text, known.key):
            return False
    if not all([text in message.body for text in selection.texts]):
        return False
    if not selection.errors:
        return True
    report = read_error(message.body) if ERROR_LEVEL in message.properties else None
    return report is not None and _is_error(report, message, selection)


def _is_error(report: ErrorReport, message: StoredMessage, selection: MessageSelection) -> bool:
    if selection.rule is not None and selection.rule not in (report.rule, message.rule):
        return False
    patterns = [pattern.removeprefix(_STANDARD) for pattern in selection.errors]
    return any([fnmatchcase(report.code, each) or fnmatchcase(report.kind, each) for each in patterns])
