"""Weave comments into a stream, so that they reappear where they were.

A comment is placed after the word it followed:

* A comment on a line of its own stays so, before what followed it; an empty line next to it stays.
* A comment after code on its line stays on the line of that code; if nothing followed it on its line, a new line
  follows if possible. So a comment that silences a warning keeps silencing it.
* A comment that only has code after it stays before that code.

The width of a comment never decides about line breaks: otherwise a comment could move each time it is formatted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from demaq.language import ast
from demaq.language.printing.stream import (
    BLANK_LINE,
    BREAKS,
    HARD_BREAK,
    NOTHING_OR_BREAK,
    SPACE_OR_BREAK,
    End,
    Instruction,
    Remark,
    SourceMark,
    Stream,
)

_OMITTED = "();"
"""What an author may write and the printer omits."""


def weave(stream: Stream, comments: Sequence[ast.Comment]) -> Stream:
    """Return the stream with every comment in it, each exactly once and in their order."""
    if not comments:
        return stream
    placed = _CommentPlacer(stream, comments).place_all()
    woven: Stream = []
    done = 0
    hard: set[int] = set()
    for position, comment in placed:
        _copy(stream, done, position, hard, woven)
        done = position
        woven.extend(_instructions(comment))
        if comment.ends_line and not comment.alone:
            following = _next_break(stream, position)
            if following is not None:
                hard.add(following)
    _copy(stream, done, len(stream), hard, woven)
    return woven


def _copy(stream: Stream, start: int, end: int, hard: set[int], woven: Stream) -> None:
    for index in range(start, end):
        item = stream[index]
        if index in hard and (item is SPACE_OR_BREAK or item is NOTHING_OR_BREAK):
            item = HARD_BREAK
        woven.append(item)


def _next_break(stream: Stream, position: int) -> int | None:
    """Return the first break before the next word."""
    while position < len(stream) and not isinstance(stream[position], str):
        if stream[position] in BREAKS:
            return position
        position += 1
    return None


def _instructions(comment: _CommentInSource) -> list[Instruction]:
    remark = Remark(comment.text)
    if not comment.alone:
        return [remark]
    before = BLANK_LINE if comment.blank_before else HARD_BREAK
    after = BLANK_LINE if comment.blank_after else HARD_BREAK
    return [before, remark, after]


@dataclass(slots=True, eq=False)
class _CommentInSource:
    """A comment and its surroundings in the source."""

    text: str
    start: int
    end: int
    begins_line: bool
    ends_line: bool
    blank_before: bool
    blank_after: bool

    @property
    def alone(self) -> bool:
        return self.begins_line and self.ends_line


def _find_surroundings(comments: Sequence[ast.Comment], bare: str) -> list[_CommentInSource]:
    text = comments[0].at.source.text
    found = []
    for comment in comments:
        start, end = comment.at.start, comment.at.end
        line_start, line_end = bare.rfind("\n", 0, start) + 1, bare.find("\n", end)
        before, after = bare[line_start:start], bare[end : line_end if line_end >= 0 else len(bare)]
        found.append(
            _CommentInSource(
                comment.at.text,
                start,
                end,
                begins_line=not before.strip(),
                ends_line=not after.strip(),
                blank_before=_has_blank_line(text, start - 1, -1),
                blank_after=_has_blank_line(text, end, 1),
            )
        )
    return found


def _has_blank_line(text: str, offset: int, direction: int) -> bool:
    """Return whether the next line, forward or backward from an offset, is empty."""
    ends = 0
    while 0 <= offset < len(text) and text[offset].isspace():
        ends += text[offset] == "\n"
        offset += direction
    return ends > 1


def _blank_comments(comments: Sequence[ast.Comment]) -> str:
    """Return the source with comments (and line ends in them) blanked out."""
    text = comments[0].at.source.text
    pieces: list[str] = []
    done = 0
    for comment in comments:
        pieces.append(text[done : comment.at.start])
        pieces.append(" " * (comment.at.end - comment.at.start))
        done = comment.at.end
    pieces.append(text[done:])
    return "".join(pieces)


class _CommentPlacer:
    """One pass over the stream that finds the marks, and the word between them, after which each comment belongs."""

    def __init__(self, stream: Stream, comments: Sequence[ast.Comment]) -> None:
        self._stream = stream
        self._comments = sorted(comments, key=lambda comment: comment.at.start)
        self._source = comments[0].at.source
        self._bare = _blank_comments(self._comments)
        self._placed: list[tuple[int, _CommentInSource]] = []
        self._from = 0
        """The position in the stream where the current gap begins: after the last mark or comment."""
        self._offset = 0
        """The corresponding offset in the source."""

    def place_all(self) -> list[tuple[int, _CommentInSource]]:
        waiting = _find_surroundings(self._comments, self._bare)
        waiting.reverse()
        for index, item in enumerate(self._stream):
            if not isinstance(item, (SourceMark, End)) or item.at.source is not self._source:
                continue
            offset = item.at.start if isinstance(item, SourceMark) else item.at.end
            while waiting and waiting[-1].start < offset:
                self._place(waiting.pop(), index)
            if index >= self._from:
                self._from, self._offset = index + 1, offset
            if not waiting:
                break
        while waiting:
            self._place(waiting.pop(), len(self._stream))
        return self._placed

    def _place(self, comment: _CommentInSource, until: int) -> None:
        position = self._after_words(comment, until)
        position = self._next_joint(position, until)
        if comment.begins_line:
            position = self._after_breaks(position, until)
        self._placed.append((position, comment))
        self._from, self._offset = position, comment.end

    def _after_words(self, comment: _CommentInSource, until: int) -> int:
        """Return the position after those words of this gap that were before the comment."""
        text = "".join(self._bare[self._offset : comment.start].split())
        position, read = self._from, 0
        for index in range(self._from, until):
            if read >= len(text):
                break
            item = self._stream[index]
            if not isinstance(item, str):
                continue
            word = "".join(item.split())
            found = _skip_omitted(text, read, word)
            if found is not None:
                position, read = index + 1, found + len(word)
            elif word not in ("(", ")"):
                break
        return position

    def _next_joint(self, position: int, until: int) -> int:
        """Return the first position from here on at which a comment may be placed."""
        before = position
        if position == 0:
            return position
        while before > 0 and not isinstance(self._stream[before - 1], str):
            before -= 1
            if self._is_joint(before):
                return position
        for index in range(position, until):
            if self._is_joint(index):
                return position
            if isinstance(self._stream[index], str):
                position = index + 1
        return until

    def _is_joint(self, index: int) -> bool:
        item = self._stream[index]
        return item in BREAKS or isinstance(item, (SourceMark, End))

    def _after_breaks(self, position: int, until: int) -> int:
        """Return the position after the breaks before the next word, so that the comment is on that word's line."""
        index = found = position
        while index < until and not isinstance(self._stream[index], str):
            if self._stream[index] in BREAKS:
                found = index + 1
            index += 1
        return found


def _skip_omitted(text: str, offset: int, word: str) -> int | None:
    """Return the offset of the word if only what the printer omits is before it."""
    while not text.startswith(word, offset):
        if offset >= len(text) or text[offset] not in _OMITTED:
            return None
        offset += 1
    return offset
