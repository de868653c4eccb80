"""How many different names a parser has seen, about.

Saxon keeps every name in a table for as long as its process lives. The table takes about a million, and names that are
made to have one hash in Java make it slow after a few thousand. libxml2 keeps every name and namespace for as long as
the thread lives, and refuses more than some hundred megabytes of them. So processes of Saxon, and threads that parse,
are replaced after some thousand names.

To look at all texts would cost a third of parsing them. Where names have stopped being new, a random part of the text
is looked at, and what is new in it counts as often as such a part fits into the whole: an author of texts cannot know
which part. A name counts once for each namespace that its text declares, and no text counts more than it has names.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from demaq.xml_bounds import NAMESPACE

NAMES_KEPT_MAX = 20_000
"""After so many new names a processor is to be replaced."""
CHARACTERS_KEPT_MAX = 20_000_000
"""Or after so many characters of new names and namespaces."""
SHARE = 48
"""One part in so many is looked at, where names are not new."""
PART_CHARACTERS = 1_000
"""A part has at least so many characters: fewer begin and end too often."""
WHOLE_CHARACTERS = 200_000
"""So many characters without a new name make parts enough. A new one, and texts are looked at as a whole again."""
PAIRS_MAX = 10_000
"""So many names with namespaces of one part are remembered; more all count as new."""

_ELEMENT_NAME = re.compile(r"<\??([^\s<>/!?]+)")  # or that of a processing instruction
_ATTRIBUTE_NAME = re.compile(r"\s([^\s<>=\"'/]+)\s*=\s*[\"']")


class NameCount:
    """Counts the names in the texts that one processor parses."""

    def __init__(self, draw: Callable[[], float] = random.random) -> None:
        """`draw` returns a number from 0 up to 1, another one each time."""
        self.count = 0
        """At least about as many as there are, rather more."""
        self.characters = 0
        """As many as they have, with their namespaces."""
        self._draw = draw
        self._known: set[tuple[str, str]] = set()
        self._whole_characters = WHOLE_CHARACTERS

    @property
    def is_full(self) -> bool:
        return self.count >= NAMES_KEPT_MAX or self.characters >= CHARACTERS_KEPT_MAX

    def look_at(self, text: str, may_declare: bool = True) -> None:
        """Count what is new in a text, or do not, if enough of the others are looked at.

        `may_declare` is whether it may declare namespaces, if that is known.
        """
        length = len(text)
        start, end, weight = 0, length, 1
        if self._whole_characters > 0:
            self._whole_characters -= length
        else:
            size = max(PART_CHARACTERS, length // SHARE)
            if self._draw() * size * SHARE > max(length, PART_CHARACTERS):
                return
            parts = max(length // size, 1)
            part = int(self._draw() * parts)
            start, end, weight = part * size, length if part == parts - 1 else (part + 1) * size, SHARE
        new, characters = self._new_names(text, start, end, may_declare)
        if new:
            self.count += new * weight
            self.characters += characters * weight
            self._whole_characters = WHOLE_CHARACTERS

    def _new_names(self, text: str, start: int, end: int, may_declare: bool) -> tuple[int, int]:
        """Return how many names in a part have not been there before, with how many characters, and remember them."""
        if end < len(text):
            end = text.find("<", end)  # no name is cut in two
            end = len(text) if end < 0 else end
        found = _ELEMENT_NAME.findall(text, start, end)
        if text.find("=", start, end) >= 0:
            found += _ATTRIBUTE_NAME.findall(text, start, end)
        declared = NAMESPACE.findall(text) if may_declare and "xmlns" in text else ()
        namespaces = {first or second for _, first, second in declared} or {""}
        names = set(found)
        if len(names) * len(namespaces) > PAIRS_MAX:
            return len(found), sum([len(name) for name in [*found, *namespaces]])
        pairs = {(name, namespace) for name in names for namespace in namespaces} - self._known
        self._known |= pairs
        characters = sum([len(name) + len(namespace) for name, namespace in pairs])
        return min(len(found), len(pairs)), min(characters, len(text))
