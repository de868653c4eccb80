"""What stands before the root of a document from outside: an XML declaration, comments, instructions, no document type.

A document type makes parsers read files, fetch addresses and multiply text. It is refused in the characters of the
document, before any parser sees them: what a parser does with one depends on its options, and these have surprised us.
"""

from __future__ import annotations

import re

from demaq.errors import MessageError

OUTSIDE_MAX = 1000
"""How many comments and processing instructions may stand on one side of the root. To write them takes the square of
that."""

DOCTYPE_REFUSED = "a document type declaration is not allowed in a message"

_DECLARATION = re.compile(
    r"<\?xml[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*(?P<version>\"[0-9.]{1,9}\"|'[0-9.]{1,9}')"
    r"(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*(?:\"[A-Za-z][A-Za-z0-9._-]*\"|'[A-Za-z][A-Za-z0-9._-]*'))?"
    r"(?:[ \t\r\n]+standalone[ \t\r\n]*=[ \t\r\n]*(?:\"(?:yes|no)\"|'(?:yes|no)'))?[ \t\r\n]*\?>"
)
_BEGINS_DECLARATION = re.compile(r"<\?xml[ \t\r\n?]")
_SPACE = re.compile(r"[ \t\r\n]*")
_NO_BREAK = re.compile(r"[^\n]")


def refuse_second_mark(text: str) -> None:
    """Raise a MessageError if there is a byte order mark in what is text already.

    libxml2 passes over it, and over whatever may stand at the beginning of a document alone.
    """
    if text.startswith("\ufeff"):
        raise MessageError("notWellFormed", "the document begins with a second byte order mark")


def declaration_end(text: str) -> int:
    """Return where the XML declaration at the beginning of a text ends; 0 if there is none.

    Raises a MessageError of kind notWellFormed for one that is none, or that says another version than 1.0.
    """
    if not _BEGINS_DECLARATION.match(text):
        return 0
    found = _DECLARATION.match(text)
    if found is None:
        raise MessageError("notWellFormed", "line 1, column 1: the XML declaration is not well-formed")
    version = found["version"][1:-1]
    if version != "1.0":
        raise MessageError("notWellFormed", f"XML {version} is not allowed in a message")
    return found.end()


def blank(text: str) -> str:
    """Return as much white space as a text is long, with its line breaks: what follows keeps its position."""
    return _NO_BREAK.sub(" ", text)


def refuse_doctype(text: str, start: int = 0) -> None:
    """Raise a MessageError if a document type declaration stands before the root element.

    `start` is where the XML declaration ends. What a comment or an instruction says does not count.
    """
    end = prolog_end(text, start)
    if end is not None and text.startswith("<!DOCTYPE", end):
        raise MessageError("notWellFormed", DOCTYPE_REFUSED)


def prolog_end(text: str, start: int = 0) -> int | None:
    """Return where comments, instructions and space before the root end; None if one of them does not end.

    Raises a MessageError of kind notWellFormed if there are too many.
    """
    at = _skip_space(text, start)
    for _ in range(OUTSIDE_MAX + 1):
        if text.startswith("<!--", at):
            end, length = text.find("-->", at + 4), 3
        elif text.startswith("<?", at):
            end, length = text.find("?>", at + 2), 2
        else:
            return at
        if end < 0:
            return None
        at = _skip_space(text, end + length)
    raise MessageError(
        "notWellFormed", f"more than {OUTSIDE_MAX:,} comments or processing instructions before the root"
    )


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None, "it matches nothing too"
    return found.end()
