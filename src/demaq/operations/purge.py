"""Remove messages by the word of an operator, whatever their state: those that a search finds.

Each transaction removes some, with the audit record that counts all so far; so what was removed is always on record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from demaq.errors import OperatorError
from demaq.operations.acting_node import ActingNode
from demaq.operations.audit import describe_action, expect_words
from demaq.operations.search import MatchedMessage, Matches, MessageSelection, search_all
from demaq.operations.selection_words import describe_selection, selection_json
from demaq.records import record
from demaq.store.message_scan import State
from demaq.store.protocol import Store

PIECE = 500
"""How many messages are removed in one transaction."""
EXAMPLES_MAX = 10


@record
class PurgePlan:
    """What would be removed."""

    messages: int
    by_queue: Mapping[str, Mapping[State, int]]
    """How many, by queue and state."""
    examples: tuple[int, ...]
    last: int
    """The newest message that was there."""


@record
class PurgeReport:
    removed: int
    by_queue: Mapping[str, int]
    left: int
    """How many were found and not removed: gone meanwhile, or numbered by a reliable sequence."""
    audit: int | None
    """The number of the audit record; None if there was nothing to remove."""


def plan_purge(
    store: Store,
    selection: MessageSelection,
    matches: Matches | None = None,
    advance: Callable[[int], None] = lambda scanned: None,
) -> PurgePlan:
    """Return what would be removed."""
    _expect_selection(selection)
    last = store.snapshot()
    counts: dict[str, Counter[State]] = {}
    examples: list[int] = []
    for each in _find(store, selection, last, matches, advance):
        counts.setdefault(each.head.queue, Counter())[each.state] += 1
        if len(examples) < EXAMPLES_MAX:
            examples.append(each.head.seq)
    total = sum([found.total() for found in counts.values()])
    return PurgePlan(messages=total, by_queue=counts, examples=tuple(examples), last=last)


def purge(
    store: Store,
    node: ActingNode,
    selection: MessageSelection,
    *,
    who: str,
    why: str = "",
    matches: Matches | None = None,
    last: int | None = None,
    advance: Callable[[int], None] = lambda scanned: None,
) -> PurgeReport:
    """Remove what matches, up to the newest message, or to that of a plan.

    `store` is for reading, `node` removes. Raises an OperatorError.
    """
    _expect_selection(selection)
    expect_words(why)
    entry = describe_action(
        "purge", describe_selection(selection), who=who, why=why, details={"selection": selection_json(selection)}
    )
    removed: Counter[str] = Counter()
    found = 0
    piece: dict[int, str] = {}

    def remove() -> None:
        nonlocal entry
        if not piece:
            return
        counted = removed.total() + len(piece)
        details = {**entry.details, "messages": counted}
        gone, number = node.purge(list(piece), replace(entry, details=details, result=_describe(counted)))
        entry = replace(entry, number=number, details={**details, "messages": counted - len(piece) + len(gone)})
        removed.update([piece[seq] for seq in gone])
        if len(gone) < len(piece):
            node.note_audit(replace(entry, result=_describe(removed.total())))
        piece.clear()

    end = store.snapshot() if last is None else last
    for each in _find(store, selection, end, matches, advance):
        found += 1
        piece[each.head.seq] = each.head.queue
        if len(piece) == PIECE:
            remove()
    remove()
    return PurgeReport(
        removed=removed.total(),
        by_queue=dict(sorted(removed.items())),
        left=found - removed.total(),
        audit=entry.number or None,
    )


def _find(
    store: Store, selection: MessageSelection, last: int, matches: Matches | None, advance: Callable[[int], None]
) -> Iterable[MatchedMessage]:
    for page in search_all(store, selection, last=last, matches=matches, advance=advance):
        yield from page.found


def _expect_selection(selection: MessageSelection) -> None:
    if selection.is_empty:
        raise OperatorError("say which messages to remove: nothing is removed without a condition")


def _describe(count: int) -> str:
    return f"{count:,} {'message' if count == 1 else 'messages'} removed"
