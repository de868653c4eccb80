"""Where text came from: a source knows its lines, a location knows its source.

A location is two offsets. Line and column are computed on demand, because most are never needed.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property


class Source:
    """One text with a name. Line ends are normalised to a line feed, as XQuery demands (A.2.3)."""

    def __init__(self, text: str, file: str = "<query>") -> None:
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.file = file
        self.text = text

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        find = self.text.find
        at = find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = find("\n", at + 1)
        return starts

    def line_of(self, offset: int) -> int:
        return bisect_right(self._line_starts, offset)

    def column_of(self, offset: int) -> int:
        return offset - self._line_starts[self.line_of(offset) - 1] + 1

    def line_text(self, line: int) -> str:
        start = self._line_starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start:] if end < 0 else self.text[start:end]

    def offset_of(self, line: int, column: int) -> int:
        """Return the offset of a line and column, both from 1 and both forced into the text."""
        line = min(max(line, 1), len(self._line_starts))
        return min(self._line_starts[line - 1] + max(column, 1) - 1, len(self.text))

    def __repr__(self) -> str:
        return f"Source({self.file!r})"


@dataclass(slots=True, eq=False)
class SourceLocation:
    """A stretch of a source, from start up to end."""

    source: Source
    start: int
    end: int

    @property
    def file(self) -> str:
        return self.source.file

    @property
    def line(self) -> int:
        return self.source.line_of(self.start)

    @property
    def column(self) -> int:
        return self.source.column_of(self.start)

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def __repr__(self) -> str:
        return f"<{self}>"


NOWHERE = SourceLocation(Source("", "<built>"), 0, 0)
