"""The printer's output before layout: a flat list of words, possible breaks and marks.

White space and comments may be added at a break, a SourceMark or an End and nowhere else; adjacent strings belong
together. So a layout need not know whether it is inside a direct constructor.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from demaq.source import SourceLocation


class LayoutControl(Enum):
    SPACE_OR_BREAK = "a space, or a new line where its group is broken"
    NOTHING_OR_BREAK = "nothing, or a new line where its group is broken"
    HARD_BREAK = "a new line"
    BLANK_LINE = "a new line with an empty one in front"
    PARAGRAPH_BREAK = "a new line with an empty one in front, between statements of different kinds"
    STATEMENT_BREAK = "a new line between kindred statements; with an empty one where either takes several lines"
    INDENT = "lines begin two columns further to the right from here on"
    DEDENT = "the last INDENT ends"
    GROUP = "breaks up to END_GROUP become spaces together or new lines together"
    END_GROUP = "the last GROUP ends"


SPACE_OR_BREAK = LayoutControl.SPACE_OR_BREAK
NOTHING_OR_BREAK = LayoutControl.NOTHING_OR_BREAK
HARD_BREAK = LayoutControl.HARD_BREAK
BLANK_LINE = LayoutControl.BLANK_LINE
PARAGRAPH_BREAK = LayoutControl.PARAGRAPH_BREAK
STATEMENT_BREAK = LayoutControl.STATEMENT_BREAK
INDENT = LayoutControl.INDENT
DEDENT = LayoutControl.DEDENT
GROUP = LayoutControl.GROUP
END_GROUP = LayoutControl.END_GROUP

NEW_LINES = frozenset({HARD_BREAK, BLANK_LINE, PARAGRAPH_BREAK, STATEMENT_BREAK})
BREAKS = frozenset({SPACE_OR_BREAK, NOTHING_OR_BREAK, *NEW_LINES})


@dataclass(slots=True, eq=False)
class SourceMark:
    """The construct at this location of the source begins here."""

    at: SourceLocation


@dataclass(slots=True, eq=False)
class End:
    """The construct at this location of the source ends here."""

    at: SourceLocation


@dataclass(slots=True, eq=False)
class Spot:
    """A SourceMark at which nothing may be added: inside a direct constructor."""

    at: SourceLocation


@dataclass(slots=True, eq=False)
class Remark:
    """A comment, inserted by the formatter."""

    text: str


Instruction: TypeAlias = str | LayoutControl | SourceMark | End | Spot | Remark
Stream: TypeAlias = list[Instruction]
