"""Watch what becomes of some messages and of all that they lead to, while a node processes them.

What timers bring back later, and what waits for a client, is not waited for. Only the node can tell: messages and even
errors may come and go within one round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from demaq.engine.error_routing import read_error
from demaq.store.protocol import Committed, NewMessage, Step, StoredMessage
from demaq.system_properties import ERROR_LEVEL

EXAMPLES_MAX = 5
"""So many of the messages that failed are named."""
WATCHES_MAX = 10
"""How many commands may watch what becomes of their messages; of more, the first are forgotten."""


class Watch:
    """Called by the node with everything it commits; asked by others."""

    def __init__(self) -> None:
        self._leads_back: dict[int, int] = {}
        """Messages that wait to be processed, each with the watched one that led to it."""
        self._open: Counter[int] = Counter()
        """How many messages wait on behalf of each watched one."""
        self._failed: set[int] = set()
        self._done = 0
        self._errors: Counter[tuple[str, str | None]] = Counter()
        self._examples: list[tuple[int, str, str | None]] = []

    def add(self, messages: Iterable[StoredMessage]) -> None:
        """Watch messages too, as far as they are still to be processed. No round may run meanwhile."""
        for message in messages:
            if message.processed is None and message.seq not in self._leads_back:
                self._wait_for(message.seq, message.seq)

    def committed(self, steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        if not self._leads_back:
            return
        for step, done in zip(steps, committed, strict=True):
            first = self._leads_back.pop(step.processed, None) if step.processed is not None else None
            if first is None:
                continue
            for new, seq in zip(step.created, done.created, strict=True):
                if ERROR_LEVEL in new.properties:
                    self._note_error(first, new)
                if new.priority is not None:
                    self._wait_for(seq, first)
            self._open[first] -= 1
            if not self._open[first]:
                del self._open[first]
                self._done += 1

    def forget(self, seqs: Iterable[int]) -> None:
        """Messages were removed: nothing will become of them."""
        for seq in seqs:
            first = self._leads_back.pop(seq, None)
            if first is not None:
                self._open[first] -= 1
                if not self._open[first]:
                    del self._open[first]
                    self._done += 1

    def open_seqs(self) -> list[int]:
        """Return the messages that wait to be processed."""
        return list(self._leads_back)

    def state(self) -> dict[str, Any]:
        """Return the current state, as values of JSON."""
        return {
            "waiting": len(self._open),
            "processed": self._done,
            "failed": len(self._failed),
            "errors": [[code, rule, count] for (code, rule), count in self._errors.most_common()],
            "examples": [list(example) for example in self._examples],
        }

    def _wait_for(self, seq: int, first: int) -> None:
        self._leads_back[seq] = first
        self._open[first] += 1

    def _note_error(self, first: int, error: NewMessage) -> None:
        report = read_error(error.body)
        code = report.code if report is not None else "unknown"
        self._errors[(code, error.rule)] += 1
        if first not in self._failed and len(self._examples) < EXAMPLES_MAX:
            self._examples.append((first, code, error.rule))
        self._failed.add(first)


class Watches:
    """The watches of a node by their names."""

    def __init__(self) -> None:
        self._watches: dict[str, Watch] = {}

    def find(self, name: str) -> Watch:
        """Return a watch; an empty one if it is not known."""
        return self._watches.get(name, Watch())

    def add(self, name: str, messages: Iterable[StoredMessage]) -> None:
        """Watch messages under a name. No round may run meanwhile."""
        if name not in self._watches:
            while len(self._watches) >= WATCHES_MAX:
                del self._watches[next(iter(self._watches))]
            self._watches[name] = Watch()
        self._watches[name].add(messages)

    def committed(self, steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        for watch in self._watches.values():
            watch.committed(steps, committed)

    def forget(self, seqs: Sequence[int]) -> None:
        for watch in self._watches.values():
            watch.forget(seqs)
