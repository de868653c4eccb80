"""Suggest the name that the author probably meant.

Comparing names is slow, so a run compares a bounded number of them: a program with thousands of unknown names gets
fewer hints instead of taking longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

LISTED_MAX = 10
"""The most names that are listed if none is similar."""
COMPARISONS_MAX = 50_000


def describe_unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown name, with a similar one, or all names if there are few."""
    names = list(known)
    hint = Suggestions().did_you_mean(name, names)
    if hint is None and 0 < len(names) <= LISTED_MAX:
        hint = f"there {'is' if len(names) == 1 else 'are'} {', '.join(names)}"
    return f"there is no {what} {name}" + (f"; {hint}" if hint else "")


class Suggestions:
    """Hints for one run over a program."""

    def __init__(self) -> None:
        self._comparisons_left = COMPARISONS_MAX

    @property
    def exhausted(self) -> bool:
        """Return whether the budget of comparisons is spent, so that no further hint is given."""
        return self._comparisons_left <= 0

    def closest(self, name: str, known: Iterable[str]) -> str | None:
        """Return the most similar known name, if any is similar enough."""
        if self.exhausted:
            return None
        length = len(name)
        candidates = [other for other in known if abs(len(other) - length) <= 1 + length // 3]
        self._comparisons_left -= len(candidates)
        lower = name.lower()
        for other in candidates:
            if other.lower() == lower and other != name:
                return other
        matches = get_close_matches(name, candidates, n=1, cutoff=0.7)
        return matches[0] if matches else None

    def did_you_mean(self, name: str, known: Iterable[str], written: str = "{}") -> str | None:
        """Return `did you mean …?`, with the name formatted as it would be written."""
        found = self.closest(name, known)
        return f"did you mean {written.format(found)}?" if found else None
