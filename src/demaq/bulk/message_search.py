"""Find messages to replay: stored messages of a queue, or those that error messages are about.

Stored messages count if they were processed and are not copies. Error messages count as long as they are stored,
whether or not they were processed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase

from demaq.compiler.plan import Plan
from demaq.engine.error_routing import ErrorReport, error_queues, read_error
from demaq.engine.replay import NO_RULE, failed_rule, first_failed_number, is_copy, requests_about
from demaq.errors import OperatorError
from demaq.language.program.program import Program
from demaq.store.protocol import Store, StoredMessage
from demaq.suggestions import describe_unknown
from demaq.system_properties import ERROR_LEVEL

PAGE_MESSAGES = 500
"""How many messages of a queue are read at a time."""
_STANDARD = "err:"
"""The prefix of XQuery's own codes, which error messages omit."""


class NothingToFind(OperatorError):
    """No message can match the filters."""

    code = "DQ9106"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which messages to find. All conditions must hold."""

    queues: tuple[str, ...] = ()
    """Queues that the messages are in; empty for all."""
    rule: str | None = None
    codes: tuple[str, ...] = ()
    """Patterns for codes or kinds of errors. If empty, stored messages are searched, not error messages."""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message to replay."""

    seq: int
    """Its number, or that of the error message about it."""
    first: int
    """The number of the original: of itself, or of the first message if it is a copy of a copy."""
    queue: str
    rule: str | None
    """The only rule to evaluate; None for all, NO_RULE for none."""
    code: str | None

    def request(self, name: str) -> str:
        """Return the request of its copy, by which a second copy is recognized."""
        return f"{requests_about(self.first)}{self.seq}:{self.rule or ''}:{name}"


@dataclass(slots=True)
class SearchResult:
    """What was found in a range of numbers."""

    found: list[FoundMessage] = field(default_factory=list)
    impossible: Counter[str] = field(default_factory=Counter)
    """How many messages match but cannot be replayed, by the reason."""
    seen: Counter[str] = field(default_factory=Counter)
    """Codes and kinds of all error messages that were searched."""

    def add(self, other: SearchResult) -> None:
        self.found += other.found
        self.impossible += other.impossible
        self.seen += other.seen

    def select_newest(self) -> list[FoundMessage]:
        """Return the found messages in order; of errors of one rule about one message and its copies, only the last."""
        last = {(found.first, found.rule, found.queue): found for found in sorted(self.found, key=lambda f: f.seq)}
        return sorted(last.values(), key=lambda found: found.seq)


class Finder:
    """Searches messages under one program."""

    def __init__(self, plan: Plan, filters: Filters) -> None:
        self._plan = plan
        self._program = plan.program
        self._filters = filters
        self._rules = {queue: {p.rule.name for p in plan.queues[queue].rules} for queue in self._program.queues}

    def check(self) -> None:
        """Check the filters. Raises NothingToFind if no message can match."""
        program, filters = self._program, self._filters
        for queue in filters.queues:
            if queue not in program.queues:
                raise NothingToFind(describe_unknown("queue", queue, program.queues))
        if filters.rule is not None and filters.rule not in self._plan.rules:
            raise NothingToFind(describe_unknown("rule", filters.rule, self._plan.rules))
        if filters.since is not None and filters.until is not None and filters.since >= filters.until:
            raise NothingToFind("--since is not before --until")
        for queue in filters.queues:
            if filters.rule is not None and filters.rule not in self._rules[queue]:
                pertaining = ", ".join(sorted(self._queues_of(filters.rule)))
                raise NothingToFind(f"rule {filters.rule} does not pertain to queue {queue}; it does to {pertaining}")
            if not filters.codes and not self._has_effect(queue):
                raise NothingToFind(f"no rule pertains to queue {queue}: to run its messages again would do nothing")

    def find(self, store: Store, after: int, last: int) -> SearchResult:
        """Return what there is among messages after a number, up to another one."""
        finding = SearchResult()
        if self._filters.codes:
            for queue in error_queues(self._program):
                for message in _read_stored(store, queue, after, last):
                    self._check_error(store, message, finding)
        else:
            for queue in self._filters.queues or sorted(self._queues_of(self._filters.rule)):
                for message in _read_stored(store, queue, after, last):
                    self._check_message(message, finding)
        return finding

    def find_errors(self, store: Store, messages: Sequence[StoredMessage]) -> SearchResult:
        """Return what there is among these error messages."""
        finding = SearchResult()
        for message in messages:
            self._check_error(store, message, finding)
        return finding

    def _check_message(self, message: StoredMessage, finding: SearchResult) -> None:
        if message.processed is not None and self._is_in_time(message) and not is_copy(message):
            finding.found.append(FoundMessage(message.seq, message.seq, message.queue, self._filters.rule, None))

    def _check_error(self, store: Store, message: StoredMessage, finding: SearchResult) -> None:
        report = read_error(message.body) if ERROR_LEVEL in message.properties else None
        if report is None:
            return
        finding.seen.update([report.code, report.kind])
        if not self._matches(report) or not self._is_in_time(message):
            return
        is_delivery = report.is_of_transport and is_outgoing(self._program, report.queue)
        rule = NO_RULE if is_delivery else failed_rule(message, report)
        reason = self._why_not(report, rule) or (_why_not_sent(store, report) if is_delivery else None)
        if reason is not None:
            finding.impossible[reason] += 1
            return
        first = first_failed_number(message, report)
        finding.found.append(
            FoundMessage(message.seq, first, report.queue, self._select_rule(rule, report.queue), report.code)
        )

    def _matches(self, report: ErrorReport) -> bool:
        filters = self._filters
        if filters.queues and report.queue not in filters.queues:
            return False
        if filters.rule is not None and report.rule != filters.rule:
            return False
        patterns = [code.removeprefix(_STANDARD) for code in filters.codes]
        return any([fnmatchcase(report.code, code) or fnmatchcase(report.kind, code) for code in patterns])

    def _is_in_time(self, message: StoredMessage) -> bool:
        since, until = self._filters.since, self._filters.until
        return (since is None or message.created >= since) and (until is None or message.created < until)

    def _why_not(self, report: ErrorReport, rule: str | None) -> str | None:
        """Return why the message of an error cannot be replayed; None if it can."""
        if report.queue not in self._program.queues:
            return f"queue {report.queue} is not in the application any more"
        if report.initial is None:
            return "what came was no XML"
        if rule and self._rules[report.queue] and rule not in self._rules[report.queue]:
            return f"rule {rule} does not pertain to queue {report.queue} any more"
        return None

    def _select_rule(self, rule: str | None, queue: str) -> str | None:
        """Return the rule that failed, because the others are done;

        None if no rule had begun, so that all are evaluated.
        """
        if rule == NO_RULE and self._rules[queue]:
            return NO_RULE
        return rule if rule in self._rules[queue] else None

    def _queues_of(self, rule: str | None) -> set[str]:
        return {queue for queue, rules in self._rules.items() if rule in rules}

    def _has_effect(self, queue: str) -> bool:
        return bool(self._rules[queue]) or self._program.queues[queue].kind in ("echo", "outgoingGateway")


def _why_not_sent(store: Store, report: ErrorReport) -> str | None:
    """Return why an undeliverable message is not copied: it was sent meanwhile, or can be redelivered.

    None otherwise.
    """
    message, queue = report.message, report.queue
    assert message is not None, "a message that was given up is stored"
    if store.unsent(queue, message, 1):
        return f"gateway {queue} is to send it again already"
    last = store.attempts(queue, message, 1)
    if last and last[0].result == "sent":
        return f"gateway {queue} has sent it since"
    stored = store.message(message)
    if stored is None or stored.queue != queue:
        return None
    which = f"--failed {queue}" if last else "ID"  # attempts are remembered for a day
    return f"gateway {queue} has given it up, and it is still stored: demaq redeliver {which} sends it again"


def _read_stored(store: Store, queue: str, after: int, last: int) -> Iterator[StoredMessage]:
    while page := store.stored(queue, after, PAGE_MESSAGES):
        for message in page:
            if message.seq > last:
                return
            yield message
        after = page[-1].seq


def is_outgoing(program: Program, queue: str) -> bool:
    """Return whether a queue is an outgoing gateway of the application."""
    return queue in program.queues and program.queues[queue].kind == "outgoingGateway"


def split_range(last: int, numbers_max: int) -> Sequence[tuple[int, int]]:
    """Return all numbers from 1 to the last one in ranges: after a number, up to and including another one."""
    return [(start, min(start + numbers_max, last)) for start in range(0, last, numbers_max)]
