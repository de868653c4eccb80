"""Streams to text for evaluation: on as few lines as can be, or with a new line for each line of the source."""

from __future__ import annotations

from demaq.language.printing.source_map import SourceMap
from demaq.language.printing.stream import (
    DEDENT,
    END_GROUP,
    GROUP,
    INDENT,
    NEW_LINES,
    SPACE_OR_BREAK,
    Mark,
    Spot,
    Stream,
)
from demaq.language.source import NOWHERE, Place, Source


def flat(stream: Stream) -> str:
    """Every break a space, except the ones that must be new lines."""
    out: list[str] = []
    for item in stream:
        if isinstance(item, str):
            out.append(item)
        elif item is SPACE_OR_BREAK:
            out.append(" ")
        elif item in NEW_LINES:
            out.append("\n")
    return "".join(out)


def mapped(stream: Stream) -> tuple[str, SourceMap]:
    """Flat, but what stands on different lines of the source stands on different lines, with a map back.

    A compiler that reports nothing but a line is thereby understood as well as one that reports columns.
    """
    writer = _MappedWriter()
    for item in stream:
        if isinstance(item, str):
            writer.text(item)
        elif isinstance(item, Mark):
            writer.mark(item.at)
        elif item is SPACE_OR_BREAK:
            writer.space_due = True
        elif isinstance(item, Spot):
            writer.spot(item.at)
        elif item is GROUP or item is END_GROUP or item is INDENT or item is DEDENT:
            continue  # most of what is left, and told apart faster than by looking it up
        elif item in NEW_LINES:
            writer.new_line()
    return "".join(writer.out), writer.map


class _MappedWriter:
    def __init__(self) -> None:
        self.out: list[str] = []
        self.map = SourceMap()
        self.space_due = False
        self._line = 1
        self._column = 1
        self._shown: tuple[Source, int] | None = None
        """The source, and which line of it, that the current line shows."""

    def text(self, text: str) -> None:
        if self.space_due:
            self.space_due = False
            self.out.append(" ")
            self._column += 1
        self.out.append(text)
        last = text.rfind("\n")
        if last < 0:
            self._column += len(text)
        else:
            self._line += text.count("\n")
            self._column = len(text) - last
            self._shown = None

    def mark(self, place: Place) -> None:
        source = place.source
        if source.file == NOWHERE.file:
            return
        line = source.line_of(place.start)
        if self._shown is None:
            self._shown = (source, line)
        elif self._shown[1] != line or self._shown[0] is not source:
            self.new_line()
            self._shown = (source, line)
        self.map.add(self._line, self._column + self.space_due, place)

    def spot(self, place: Place) -> None:
        if place.source.file == NOWHERE.file:
            return
        if self._shown is None:
            self._shown = (place.source, place.line)
        self.map.add(self._line, self._column + self.space_due, place)

    def new_line(self) -> None:
        self.space_due = False
        if self.out:
            self.out[-1] = self.out[-1].rstrip(" ")
        self.out.append("\n")
        self._line += 1
        self._column = 1
        self._shown = None
