"""Count how often each rule is asked, and how long that takes: what `/metrics` says about rules.

Counting is done once for a batch. Time is measured for some batches of native rules only, because a clock takes about
as long as a short rule, and scaled by the messages of the batches in between. The time of a call of Saxon, which
evaluates many rules at once, is divided equally among what it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

TIMED_SHARE = 16
"""One in so many messages of a queue is timed, and the first ones."""

RuleWorkNotes = tuple[tuple[str, int, float], ...]
"""Rules, each with how often it was asked, and for how many seconds."""


class RuleWork:
    """The counts of one process, since they were taken last."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}
        self._seconds: dict[str, float] = {}

    def add_asked(self, rule: str, messages: int) -> None:
        self._asked[rule] = self._asked.get(rule, 0) + messages

    def add_all(self, rules: Iterable[str], messages: int) -> None:
        """Count rules that are asked about every message of a batch."""
        asked = self._asked
        for rule in rules:
            asked[rule] = asked.get(rule, 0) + messages

    def add_seconds(self, rule: str, seconds: float) -> None:
        self._seconds[rule] = self._seconds.get(rule, 0.0) + seconds

    def divide_seconds(self, rules: Sequence[str], seconds: float) -> None:
        """Divide the time of a call among the rules that it was asked for; a rule may occur several times."""
        for rule in rules:
            self.add_seconds(rule, seconds / len(rules))

    def take(self) -> RuleWorkNotes:
        """Return the counts, and begin anew."""
        if not self._asked and not self._seconds:
            return ()
        asked, seconds = self._asked, self._seconds
        self._asked, self._seconds = {}, {}
        return tuple([(rule, asked.get(rule, 0), seconds.get(rule, 0.0)) for rule in {**asked, **seconds}])


class TimedShare:
    """Decides which batches of a queue are timed, and what one of them stands for."""

    def __init__(self) -> None:
        self._messages = 0
        self._timed = 0
        self._since = 0
        """Messages since the last batch that was timed."""
        self.seconds: dict[str, float] = {}
        """What rules have taken in the batch that is timed now."""

    def is_next_timed(self, messages: int) -> bool:
        """Return whether the next batch, of so many messages, is timed."""
        is_timed = self._timed * TIMED_SHARE <= self._messages
        self._messages += messages
        self._since += messages
        if is_timed:
            self._timed += messages
        return is_timed

    def take_scaled(self, messages: int) -> Mapping[str, float]:
        """Return the time of each rule in all batches since the last one that was timed, as this one suggests."""
        scale = self._since / messages
        found = {rule: seconds * scale for rule, seconds in self.seconds.items()}
        self._since = 0
        self.seconds = {}
        return found
