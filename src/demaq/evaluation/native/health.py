"""Count how often native rules succeed, fall back to Saxon or fail; leave rules to Saxon because of that."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from demaq.evaluation.outcomes import Location
from demaq.records import record

FAULTS_MAX = 3
"""After so many exceptions in one rule, it is left to Saxon."""

_log = logging.getLogger("demaq.node")


def properties_of(queue: str) -> str:
    """Return the name under which the properties of a queue are withdrawn; no rule has a name with blanks."""
    return f"properties of {queue}"


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
        if self.rule == properties_of(self.queue):
            return f"native {self.rule}: {self.description}"
        return f"native rule {self.rule}{place} of queue {self.queue}: {self.description}"


def log_report(report: NativeReport) -> None:
    if report.kind == "difference":
        # Both answers, and the message, are in the status: the log holds nothing of any message.
        _log.error("%s; `demaq status --json` shows both", report)
    else:
        _log.warning("%s", report)


class NativeHealth:
    """The counts of one program in one process."""

    def __init__(self, report: Callable[[NativeReport], None] = log_report) -> None:
        self.report = report
        """Called for the first exception of a rule, and when it is left to Saxon."""
        self.answers = 0
        """How many messages native rules have evaluated without Saxon."""
        self.fallbacks = 0
        """How many messages there were for which a native rule was left to Saxon."""
        self.faults: Counter[str] = Counter()
        """Exceptions by rule, or by `properties_of` a queue."""
        self.withdrawn: dict[str, str] = {}
        """Rules, and `properties_of` queues, that are left to Saxon, with the reason."""

    def note_difference(self, difference: NativeReport) -> None:
        """Leave a rule to Saxon because a result differs from Saxon's."""
        if difference.rule not in self.withdrawn:
            self.withdrawn[difference.rule] = "its result differs from Saxon's"
            self.report(difference)

    def note_fault(self, queue: str, rule: str, at: Location | None, error: Exception) -> None:
        """Count an exception that no native rule should raise."""
        self.faults[rule] += 1
        count = self.faults[rule]
        said = f"{type(error).__name__}: {error}"
        if count == 1:
            description = f"an exception, so Saxon evaluates the message: {said}"
            self.report(NativeReport(kind="exception", queue=queue, rule=rule, at=at, description=description))
        if count >= FAULTS_MAX and rule not in self.withdrawn:
            self.withdrawn[rule] = f"{count} exceptions, the last one {said}"
            description = f"{count} exceptions, so it is left to Saxon from now on"
            self.report(NativeReport(kind="exception", queue=queue, rule=rule, at=at, description=description))
