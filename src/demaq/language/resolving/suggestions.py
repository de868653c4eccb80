"""Which name the author probably meant.

Comparing names is slow, so a run compares a bounded number of them: a program with thousands of unknown names loses
some hints and no time.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

LISTED_MAX = 10
"""So many names are listed where none is like the one that was meant."""
COMPARISONS_MAX = 50_000


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """What to say about a name that nobody has declared: one that is like it, or those there are if they are few."""
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
        """Return whether so many names were compared that no further hint is given."""
        return self._comparisons_left <= 0

    def closest(self, name: str, known: Iterable[str]) -> str | None:
        """Return the known name most like this one, if one is like it."""
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
        """`did you mean …?`, with the name put into how it would be written."""
        found = self.closest(name, known)
        return f"did you mean {written.format(found)}?" if found else None
