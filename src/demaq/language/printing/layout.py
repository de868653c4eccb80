"""Lay out streams for reading: a group is on one line if it fits, else all its breaks become new lines."""

from __future__ import annotations

from collections.abc import Sequence

from demaq.language import ast
from demaq.language.printing.comments import weave
from demaq.language.printing.stream import (
    BLANK_LINE,
    BREAKS,
    DEDENT,
    END_GROUP,
    GROUP,
    HARD_BREAK,
    INDENT,
    NEW_LINES,
    PARAGRAPH_BREAK,
    SPACE_OR_BREAK,
    STATEMENT_BREAK,
    Remark,
    Stream,
)

WIDTH = 100
_INDENT_COLUMNS = 2
_INDENT_COLUMNS_MAX = 40
"""The largest indentation: half of the line is left for the content."""
_LOOK_AHEAD_MAX = 1_000
"""The most instructions of a group that is tried on one line."""


def lay_out_pretty(stream: Stream, comments: Sequence[ast.Comment] = (), width: int = WIDTH) -> str:
    """Return the canonical layout, with all comments. Formatting its own result changes nothing."""
    return _Layout(weave(stream, comments), width).text()


class _NewLine:
    """A line end in the output: how many, and how far the next line is indented. It may still be changed."""

    __slots__ = ("columns", "count")

    def __init__(self, count: int, columns: int) -> None:
        self.count = count
        self.columns = columns


class _Layout:
    def __init__(self, stream: Stream, width: int) -> None:
        self._stream = stream
        self._width = width
        self._out: list[str | _NewLine] = []
        self._indent = 0
        self._column = 0
        """Where the line ends, without comments, which must not decide about breaks."""
        self._at_line_start: _NewLine | None = None
        self._after_remark = False
        self._lines = 0
        self._statement_from: int | None = None
        """The line on which the current statement begins, once it has begun."""
        self._statement_break: _NewLine | None = None

    def text(self) -> str:
        broken = [True]
        for index, item in enumerate(self._stream):
            if isinstance(item, str):
                self._word(item)
            elif isinstance(item, Remark):
                self._remark(item.text)
            elif item is GROUP:
                broken.append(broken[-1] and not self._fits(index))
            elif item is END_GROUP:
                broken.pop()
            elif item is INDENT:
                self._indent += 1
            elif item is DEDENT:
                self._indent -= 1
            elif item is STATEMENT_BREAK or item is PARAGRAPH_BREAK:
                self._between_statements(blank=item is PARAGRAPH_BREAK)
            elif item is BLANK_LINE:
                self._new_line(2)
            elif item is HARD_BREAK or (broken[-1] and item in BREAKS):
                self._new_line(1)
            elif item is SPACE_OR_BREAK:
                self._space()
        self._end_statement()
        return self._join()

    def _fits(self, start: int) -> bool:
        """Return whether the group that begins here, and what adheres to its end, fits on the line."""
        column, depth, closed = self._column, 0, False
        for index in range(start, min(len(self._stream), start + _LOOK_AHEAD_MAX)):
            item = self._stream[index]
            if isinstance(item, str):
                first, *rest = item.split("\n")
                if column + len(first) > self._width or max(map(len, rest), default=0) > self._width:
                    return False
                column = len(rest[-1]) if rest else column + len(first)
            elif item is GROUP:
                depth += 1
            elif item is END_GROUP:
                depth -= 1
                closed = closed or depth == 0
            elif item in BREAKS:
                if closed:
                    return True
                if item in NEW_LINES:
                    return False
                column += item is SPACE_OR_BREAK
        return len(self._stream) < start + _LOOK_AHEAD_MAX

    def _word(self, text: str) -> None:
        if not text:
            return
        if self._statement_from is None:
            self._statement_from = self._lines
        if self._after_remark and text[0] not in " ),;]":
            self._out.append(" ")
        self._after_remark = False
        self._at_line_start = None
        self._out.append(text)
        last = text.rfind("\n")
        if last < 0:
            self._column += len(text)
        else:
            self._lines += text.count("\n")
            self._column = len(text) - last - 1

    def _remark(self, text: str) -> None:
        if self._out and self._at_line_start is None and self._last_character() not in " ([":
            self._out.append(" ")
        self._after_remark = True
        self._at_line_start = None
        self._out.append(text)
        self._lines += text.count("\n")

    def _space(self) -> None:
        if self._out and self._at_line_start is None and self._last_character() != " ":
            self._out.append(" ")
            self._column += 1
        self._after_remark = False

    def _last_character(self) -> str:
        last = self._out[-1]
        return last[-1] if isinstance(last, str) else "\n"

    def _new_line(self, count: int) -> None:
        """End the line. If it is empty, only the indentation of the next one changes."""
        if not self._out:
            return
        self._column = min(self._indent * _INDENT_COLUMNS, _INDENT_COLUMNS_MAX)
        self._after_remark = False
        if self._at_line_start is not None:
            self._at_line_start.count = max(self._at_line_start.count, count)
            self._at_line_start.columns = self._column
            return
        last = self._out[-1]
        if isinstance(last, str):
            self._out[-1] = last.rstrip(" ")
        self._lines += 1
        self._at_line_start = _NewLine(count, self._column)
        self._out.append(self._at_line_start)

    def _between_statements(self, blank: bool) -> None:
        several_lines = self._end_statement()
        self._new_line(2 if blank or several_lines else 1)
        self._statement_break = self._at_line_start

    def _end_statement(self) -> bool:
        """Return whether the statement took several lines, and if so separate it from the one before."""
        several_lines = self._statement_from is not None and self._lines > self._statement_from
        if several_lines and self._statement_break is not None:
            self._statement_break.count = 2
        self._statement_from = None
        return several_lines

    def _join(self) -> str:
        if self._at_line_start is not None:
            self._out.pop()
        pieces: list[str] = []
        for item in self._out:
            if isinstance(item, str):
                pieces.append(item)
            else:
                pieces.append("\n" * item.count + " " * item.columns)
        return "".join(pieces) + "\n" if pieces else ""
