"""What a node knows about rules in all of its worker processes: how native ones fare, and what each one costs."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from demaq.evaluation.native.health import NativeReport, log_report
from demaq.evaluation.rule_work import RuleWorkNotes
from demaq.records import record

REPORTS_MAX = 20
"""How many of the latest reports are kept, with their messages."""
SHOWN_CHARACTERS_MAX = 10_000
"""How many characters of a message or an outcome are kept."""


@record
class NativeNotes:
    """What has happened in a process since its last notes."""

    answers: int = 0
    fallbacks: int = 0
    exceptions: int = 0
    checked: int = 0
    skipped: int = 0
    waiting: int = 0
    """Results that wait to be checked now."""
    reports: tuple[NativeReport, ...] = ()
    withdrawn: tuple[tuple[str, str], ...] = ()
    """Rules that are left to Saxon from now on, each with the reason."""
    work: RuleWorkNotes = ()


class NativeLedger:
    """May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._reports: deque[NativeReport] = deque(maxlen=REPORTS_MAX)
        self._withdrawn: dict[str, str] = {}
        self._asked: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._sources: list[Callable[[], NativeNotes]] = []
        self.checks_failed = False
        """Whether a check did not return, so that there are no more."""

    def add(self, notes: NativeNotes) -> None:
        with self._lock:
            for name in ("answers", "fallbacks", "exceptions", "checked", "skipped"):
                self._counts[name] += getattr(notes, name)
            self._withdrawn |= dict(notes.withdrawn)
            for report in notes.reports:
                self._counts["differences"] += report.kind == "difference"
                self._reports.append(report)
            for rule, asked, seconds in notes.work:
                self._asked[rule] += asked
                self._seconds[rule] = self._seconds.get(rule, 0.0) + seconds
        for report in notes.reports:
            log_report(report)

    def add_source(self, take_notes: Callable[[], NativeNotes]) -> None:
        """Ask for notes whenever a user reads the counts, instead of getting some with each message."""
        self._sources.append(take_notes)

    def _ask_sources(self) -> None:
        for take_notes in self._sources:
            self.add(take_notes())

    @property
    def withdrawn(self) -> dict[str, str]:
        """Rules that are left to Saxon in every process, each with the reason."""
        with self._lock:
            return dict(self._withdrawn)

    @property
    def has_withdrawn(self) -> bool:
        """Whether any rule is left to Saxon."""
        return bool(self._withdrawn)

    @property
    def work(self) -> dict[str, tuple[int, float]]:
        """How often each rule was asked, in all processes, and for how many seconds."""
        self._ask_sources()
        with self._lock:
            return {rule: (asked, self._seconds[rule]) for rule, asked in self._asked.items()}

    @property
    def counts(self) -> dict[str, int]:
        self._ask_sources()
        with self._lock:
            names = ("answers", "fallbacks", "exceptions", "checked", "skipped", "differences")
            return {name: self._counts[name] for name in names}

    def status(self) -> dict[str, Any]:
        """Return all of it as data for JSON."""
        withdrawn, counts = self.withdrawn, self.counts
        with self._lock:
            reports = [_as_json(report) for report in self._reports]
        return {**counts, "withdrawn": withdrawn, "checks_failed": self.checks_failed, "reports": reports}


def _as_json(report: NativeReport) -> dict[str, Any]:
    return {
        "kind": report.kind,
        "queue": report.queue,
        "rule": report.rule,
        "at": str(report.at) if report.at is not None else None,
        "description": report.description,
        "message": report.message[:SHOWN_CHARACTERS_MAX],
        "native": report.native[:SHOWN_CHARACTERS_MAX],
        "saxon": report.saxon[:SHOWN_CHARACTERS_MAX],
    }
