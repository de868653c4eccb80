"""Put the messages that errors are about into their queues again, as they were or with another text.

Each is a copy as of a replay (`demaq.engine.replay`), with a reference to the first one; only the rule that has failed
is evaluated on it, because the others have acted already, unless all are asked for. An error is requeued once, or once
for each text that an operator gives; a command that was interrupted can be repeated. Of errors of one rule about one
message and its copies only the last is requeued, because each would lead to the same effects again.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from demaq.bulk.message_search import Filters, Finder, FoundMessage, SearchResult
from demaq.bulk.message_sink import split_transactions
from demaq.bulk.replay import Copier
from demaq.compiler.plan import Plan
from demaq.documents import parse_document
from demaq.engine.message_factory import MessageFactory
from demaq.errors import MessageError, OperatorError
from demaq.evaluation.round_request import PropertyEvaluator
from demaq.operations.acting_node import ActingNode
from demaq.operations.audit import describe_action, expect_words
from demaq.operations.search import Matches, MessageSelection, search_all
from demaq.operations.selection_words import describe_selection, selection_json
from demaq.records import record
from demaq.store.protocol import NewMessage, Store, StoredMessage
from demaq.system_properties import ERROR_LEVEL

PIECE = 200
"""How many errors are handled at a time."""
NAME = "requeue"
"""The name of the replay that requeued messages belong to, unless their text was changed."""


@record
class RequeuedMessage:
    """What became of the message that an error is about."""

    error: int
    original: int
    queue: str
    message: int | None
    """The new message; None if there is none."""
    reason: str | None = None
    """Why there is none, or that it was there before."""
    is_new: bool = False


@record
class RequeueReport:
    requeued: tuple[RequeuedMessage, ...]
    impossible: int
    """How many errors are about something that cannot be requeued."""
    reasons: tuple[str, ...]
    watch: str
    """Under this name a running node watches what becomes of them."""
    audit: int | None

    @property
    def count(self) -> int:
        """How many messages are new."""
        return sum([each.is_new for each in self.requeued])


class Requeuer:
    """Requeues messages under the application that ran last on a store."""

    def __init__(self, store: Store, plan: Plan, digest: str, evaluator: PropertyEvaluator) -> None:
        """`evaluator` computes the properties of the copies; the store is for reading."""
        self._store = store
        self._plan = plan
        self._digest = digest
        self._evaluator = evaluator
        self._factory = MessageFactory(plan, evaluator)
        self._finder = Finder(plan, Filters(codes=("*",)))

    def find(
        self,
        selection: MessageSelection,
        matches: Matches | None = None,
        advance: Callable[[int], None] = lambda scanned: None,
    ) -> tuple[list[FoundMessage], dict[str, int]]:
        """Return what can be requeued, and how many errors cannot be, by the reason. Raises an OperatorError."""
        result = SearchResult()
        seen: set[int] = set()
        wanted = selection if selection.errors else replace(selection, errors=("*",))
        for page in search_all(self._store, wanted, last=self._store.snapshot(), matches=matches, advance=advance):
            seen.update([each.head.seq for each in page.found])
            result.add(self._finder.find_errors(self._store, [each.message for each in page.found]))
        for seq in selection.seqs:
            if seq not in seen:
                self._expect_error(seq)
        return result.select_newest(), dict(result.impossible)

    def requeue(
        self,
        node: ActingNode,
        selection: MessageSelection,
        found: Sequence[FoundMessage],
        impossible: dict[str, int],
        *,
        who: str,
        why: str = "",
        body: bytes | None = None,
        all_rules: bool = False,
        again: bool = False,
        now: datetime,
        advance: Callable[[int], None] = lambda done: None,
    ) -> RequeueReport:
        """Requeue what was found. With `body`, the one message gets this text. Raises an OperatorError.

        `again` requeues also what was requeued before.
        """
        expect_words(why)
        wanted = max(len(found), len(selection.seqs))
        if body is not None and wanted != 1:
            raise OperatorError(f"a changed text is for one error, and these are {wanted:,}")
        text = self._read_body(body) if body is not None else None
        name = make_name(text, again)
        watch = uuid.uuid4().hex
        results: list[RequeuedMessage] = []
        entry = describe_action("requeue", describe_selection(selection), who=who, why=why)

        def note(result: str) -> None:
            nonlocal entry
            messages = [str(each.message) for each in results if each.is_new][:PIECE]
            details = {"selection": selection_json(selection), "messages": messages, "changed": text is not None}
            entry = replace(entry, details=details, result=result)
            entry = replace(entry, number=node.note_audit(entry))

        items = [replace(item, rule=None) for item in found] if all_rules else list(found)
        for start in range(0, len(items), PIECE):
            # Before the piece is stored: what is interrupted is on record, too.
            note(f"{_describe_count(results)}, and more were to be")
            piece = items[start : start + PIECE]
            results += self._requeue_piece(node, piece, name, text, watch, now)
            advance(len(piece))
        if results:
            note(_describe_count(results))
        return RequeueReport(
            requeued=tuple(results),
            impossible=sum(impossible.values()),
            reasons=tuple(sorted(impossible)),
            watch=watch,
            audit=entry.number or None,
        )

    def _requeue_piece(
        self, node: ActingNode, piece: Sequence[FoundMessage], name: str, text: str | None, watch: str, now: datetime
    ) -> list[RequeuedMessage]:
        known = {item: self._find_before(item, name) for item in piece}
        new = [item for item in piece if known[item] is None]
        copier = Copier(self._factory, self._evaluator, self._store)
        made = dict(zip(new, copier.make_copies(new, name, now, text), strict=True))
        copies = [copy for copy in made.values() if isinstance(copy, NewMessage)]
        for batch in split_transactions(copies, lambda message: len(message.body)):
            node.append(batch, self._digest, watch)
        return [self._describe(item, known[item], made.get(item), name) for item in piece]

    def _describe(
        self, item: FoundMessage, before: int | None, made: NewMessage | MessageError | None, name: str
    ) -> RequeuedMessage:
        reason = None
        if before is not None:
            reason = "it was requeued before"
        elif isinstance(made, MessageError):
            reason = f"{made.kind}: {made.message}"
        message = before if before is not None else None if reason is not None else self._find_copy(item, name)
        return RequeuedMessage(
            error=item.seq,
            original=item.first,
            queue=item.queue,
            message=message,
            reason=reason,
            is_new=reason is None,
        )

    def _find_before(self, item: FoundMessage, name: str) -> int | None:
        """Return the copy under this name; without a text of its own, also that of a repaired one or of all rules."""
        if name != NAME:
            return self._find_copy(item, name)
        known: dict[str, int] = {}
        for request in {item.request(name), replace(item, rule=None).request(name)}:
            known |= {
                each: seq
                for each, seq in self._store.requested(request).items()
                if f"{each}:".startswith(f"{request}:")
            }
        return max(known.values(), default=None)

    def _find_copy(self, item: FoundMessage, name: str) -> int | None:
        request = item.request(name)
        return self._store.requested(request).get(request)

    def _read_body(self, body: bytes) -> str:
        try:
            return parse_document(body).text
        except MessageError as error:
            raise OperatorError(f"the changed text is refused: {error.message}") from None

    def _expect_error(self, seq: int) -> None:
        message: StoredMessage | None = self._store.message(seq)
        if message is None:
            raise OperatorError(f"there is no message {seq}, or it has been removed")
        if ERROR_LEVEL not in message.properties:
            raise OperatorError(f"message {seq} of queue {message.queue} is no error message; see demaq replay")


def _describe_count(results: Sequence[RequeuedMessage]) -> str:
    count = sum([each.is_new for each in results])
    return f"{count:,} {'message' if count == 1 else 'messages'} requeued"


def make_name(text: str | None, again: bool) -> str:
    """Return the name of the replay that the copies belong to: each has a message once."""
    if again:
        return f"{NAME}:{uuid.uuid4().hex}"
    return NAME if text is None else f"{NAME}:{hashlib.sha256(text.encode()).hexdigest()[:32]}"
