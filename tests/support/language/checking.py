"""Check a program written in a test. `¦` marks where a problem is expected and is taken out before checking."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from demaq.language.diagnostics import Diagnostic
from demaq.language.loader import CheckedProgram, check_application

MARK = "¦"


def check(folder: Path, text: str, files: Mapping[str, str] | None = None) -> CheckedProgram:
    """Check one module, with the files it needs beside it."""
    for name, content in (files or {}).items():
        (folder / name).write_text(content, encoding="utf-8")
    path = folder / "app.dmq"
    path.write_text(text.replace(MARK, ""), encoding="utf-8")
    return check_application(path)


def marked(text: str) -> list[str]:
    """The marked places as line:column."""
    places: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        pieces = line.split(MARK)
        offset = 0
        for piece in pieces[:-1]:
            offset += len(piece)
            places.append(f"{number}:{offset + 1}")
    return places


def found(diagnostics: list[Diagnostic]) -> list[tuple[str, str]]:
    """Code and line:column of each."""
    return [(item.code, f"{item.at.line}:{item.at.column}" if item.at else "") for item in diagnostics]


def expected(codes: str, text: str) -> list[tuple[str, str]]:
    """As many codes as marks; one code stands for all of them."""
    places, names = marked(text), codes.split()
    if len(names) == 1:
        names *= len(places)
    return list(zip(names, places, strict=True))
