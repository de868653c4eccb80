"""Count how often rules have fired and failed, in steps that are committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class RuleCounts:
    """Changed while nothing else changes; may be read from any thread."""

    def __init__(self, rules: Iterable[str]) -> None:
        names = list(rules)
        # Of all rules from the beginning: a reader in another thread must not find one that grows.
        self.fired: Counter[str] = Counter(dict.fromkeys(names, 0))
        self.failed: Counter[str] = Counter(dict.fromkeys(names, 0))
        self._fired: list[str] = []
        self._failed: list[str] = []

    def add(self, fired: Iterable[str], failed: Iterable[str] = ()) -> None:
        """Add what a step is about to do."""
        self._fired += fired
        self._failed += failed

    def forget(self) -> None:
        """Forget what was added: it is not committed."""
        self._fired.clear()
        self._failed.clear()

    @contextmanager
    def forgetting(self) -> Iterator[None]:
        """Forget what was added meanwhile, if the block raises."""
        marks = len(self._fired), len(self._failed)
        try:
            yield
        except BaseException:
            del self._fired[marks[0] :]
            del self._failed[marks[1] :]
            raise

    def count(self) -> None:
        """Count what was added: it is committed."""
        if self._fired:
            self.fired.update(self._fired)
        if self._failed:
            self.failed.update(self._failed)
        self.forget()
