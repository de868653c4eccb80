"""Diagnostics for authors: an error or a warning with a code, a location, the line with a caret, and a hint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from demaq.errors import ProgramError
from demaq.source import SourceLocation

LINE_LENGTH_MAX = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    severity: Literal["error", "warning", "note"]
    code: str
    message: str
    at: SourceLocation | None
    hint: str | None = None

    @staticmethod
    def of(error: ProgramError) -> Diagnostic:
        return Diagnostic(severity="error", code=error.code, message=error.message, at=error.at, hint=error.hint)

    def error(self) -> ProgramError:
        return ProgramError(self.message, self.at, self.hint, self.code)

    def render(self) -> str:
        """Return the diagnostic as an author reads it."""
        lines = [f"{self.severity}[{self.code}]: {self.message}"]
        if self.at is not None:
            lines += [f"  {self.at}", *_excerpt(self.at)]
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        at = self.at
        return {
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
            "file": at.file if at else None,
            "line": at.line if at else None,
            "column": at.column if at else None,
            "hint": self.hint,
        }


def error(code: str, message: str, at: SourceLocation | None, hint: str | None = None) -> Diagnostic:
    return Diagnostic(severity="error", code=code, message=message, at=at, hint=hint)


def warning(code: str, message: str, at: SourceLocation | None, hint: str | None = None) -> Diagnostic:
    return Diagnostic(severity="warning", code=code, message=message, at=at, hint=hint)


def sort_diagnostics(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return each diagnostic once: errors before warnings, both sorted by file and location."""
    seen: dict[tuple[bool, str, int, str, str], Diagnostic] = {}
    for item in diagnostics:
        file, start = (item.at.file, item.at.start) if item.at else ("", -1)
        key = (item.severity == "warning", file, start, item.code, item.message)
        seen.setdefault(key, item)
    return [seen[key] for key in sorted(seen)]


def _excerpt(at: SourceLocation) -> list[str]:
    """Return the source line and carets under the offending text."""
    text = at.source.line_text(at.line)
    first = at.column - 1
    length = max(1, min(at.end, at.start + len(text) - first) - at.start)
    left = 0
    if len(text) > LINE_LENGTH_MAX:  # a long line is cut around the location
        left = max(0, first - LINE_LENGTH_MAX // 2)
        text = text[left : left + LINE_LENGTH_MAX]
    indent = len(text) - len(text.lstrip())
    if left == 0 and indent <= first:
        text, left = text[indent:], indent
    length = max(1, min(length, len(text) - (first - left)))
    blank = "".join(["\t" if c == "\t" else " " for c in text[: first - left]])
    return ["     " + text, "     " + blank + "^" * length]
