"""Lay out streams for evaluation: on as few lines as possible, or with a new line for each line of the source."""

from __future__ import annotations

from bisect import bisect_right

from demaq.language.printing.stream import (
    DEDENT,
    END_GROUP,
    GROUP,
    INDENT,
    NEW_LINES,
    SPACE_OR_BREAK,
    SourceMark,
    Spot,
    Stream,
)
from demaq.source import NOWHERE, Source, SourceLocation


class SourceMap:
    """The source location of each position in printed text; lines and columns count from 1."""

    def __init__(self) -> None:
        self._positions: list[tuple[int, int]] = []
        self._places: list[SourceLocation] = []

    def add(self, line: int, column: int, place: SourceLocation) -> None:
        self._positions.append((line, column))
        self._places.append(place)

    def place(self, line: int, column: int) -> SourceLocation | None:
        """Return the location of the innermost construct at the position, else of the nearest one before it."""
        index = bisect_right(self._positions, (line, column))
        return self._places[index - 1] if index else None

    def __len__(self) -> int:
        return len(self._places)


def lay_out_flat(stream: Stream) -> str:
    """Return the stream with every break as a space, except those that must be new lines."""
    out: list[str] = []
    for item in stream:
        if isinstance(item, str):
            out.append(item)
        elif item is SPACE_OR_BREAK:
            out.append(" ")
        elif item in NEW_LINES:
            out.append("\n")
    return "".join(out)


def lay_out_mapped(stream: Stream) -> tuple[str, SourceMap]:
    """Return flat text in which different lines of the source are on different lines, with a source map.

    So an error that has only a line number can be located as well as one with a column.
    """
    out: list[str] = []
    source_map = SourceMap()
    line = column = 1
    space_due = False
    shown: tuple[Source, int] | None = None  # the source, and the line of it, that the current line shows
    for item in stream:
        if isinstance(item, str):
            if space_due:
                space_due = False
                out.append(" ")
                column += 1
            out.append(item)
            last = item.rfind("\n")
            if last < 0:
                column += len(item)
            else:
                line += item.count("\n")
                column = len(item) - last
                shown = None
        elif item is SPACE_OR_BREAK:
            space_due = True
        elif isinstance(item, (SourceMark, Spot)):
            place = item.at
            source = place.source
            if source.file == NOWHERE.file:
                continue
            shows = (source, source.line_of(place.start))
            if shown is not None and shown != shows and isinstance(item, SourceMark):
                _break_line(out)
                space_due = False
                line, column, shown = line + 1, 1, None
            shown = shown or shows
            source_map.add(line, column + space_due, place)
        elif item is GROUP or item is END_GROUP or item is INDENT or item is DEDENT:
            continue  # the common case, and faster to test than to look up
        elif item in NEW_LINES:
            _break_line(out)
            space_due = False
            line, column, shown = line + 1, 1, None
    return "".join(out), source_map


def _break_line(out: list[str]) -> None:
    if out:
        out[-1] = out[-1].rstrip(" ")
    out.append("\n")
