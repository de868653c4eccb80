"""Count how often native rules succeed, fall back to Saxon or fail; leave queues to Saxon because of that."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from demaq.evaluation.outcomes import Location
from demaq.records import record

FAULTS_MAX = 3
"""After so many exceptions in one rule, its queue is left to Saxon."""

_log = logging.getLogger("demaq.node")


@record
class NativeReport:
    """Something that an operator should know: a native rule has failed, or differs from Saxon."""

    kind: str
    """`exception` or `difference`."""
    queue: str
    rule: str
    at: Location | None
    description: str
    message: str = ""
    """The message, if the results differ."""
    native: str = ""
    saxon: str = ""

    def __str__(self) -> str:
        place = f" ({self.at})" if self.at is not None else ""
        return f"native rule {self.rule}{place} of queue {self.queue}: {self.description}"


def log_report(report: NativeReport) -> None:
    if report.kind == "difference":
        _log.error("%s\nmessage: %s\nnative: %s\nSaxon: %s", report, report.message, report.native, report.saxon)
    else:
        _log.warning("%s", report)


class NativeHealth:
    """The counts of one program in one process."""

    def __init__(self, report: Callable[[NativeReport], None] = log_report) -> None:
        self.report = report
        """Called for the first exception of a rule, and when its queue is left to Saxon."""
        self.answers = 0
        """How many messages native rules have evaluated."""
        self.fallbacks = 0
        """How many they have left to Saxon."""
        self.faults: Counter[tuple[str, str]] = Counter()
        """Exceptions by queue and rule."""
        self.withdrawn: dict[str, str] = {}
        """Queues that are left to Saxon, with the reason."""

    def note_difference(self, difference: NativeReport) -> None:
        """Leave a queue to Saxon because a result differs from Saxon's."""
        first = difference.queue not in self.withdrawn
        self.withdrawn.setdefault(difference.queue, f"rule {difference.rule} differs from Saxon")
        if first:
            self.report(difference)

    def note_fault(self, queue: str, rule: str, at: Location | None, error: Exception) -> None:
        """Count an exception that no native rule should raise."""
        self.faults[queue, rule] += 1
        count = self.faults[queue, rule]
        said = f"{type(error).__name__}: {error}"
        if count == 1:
            description = f"an exception, so the message is left to Saxon: {said}"
            self.report(NativeReport(kind="exception", queue=queue, rule=rule, at=at, description=description))
        if count >= FAULTS_MAX and queue not in self.withdrawn:
            self.withdrawn[queue] = f"rule {rule} has raised {count} exceptions, the last one {said}"
            description = f"{count} exceptions, so all rules of the queue are left to Saxon from now on"
            self.report(NativeReport(kind="exception", queue=queue, rule=rule, at=at, description=description))
