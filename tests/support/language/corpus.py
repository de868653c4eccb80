"""Reads the hand-made corpus of queries that lies beside this module.

A corpus file holds many cases.  A line ``---- name`` opens a case; the query
is the text that follows, verbatim, up to the line feed before the next such
line (or before the end of the file).
"""

from __future__ import annotations

import re
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"

_SEPARATOR = re.compile(r"^----(?: |$)(.*)\n", re.MULTILINE)
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def cases(folder: str) -> list[tuple[str, str]]:
    """Return (``file/name``, query) for each case of a folder of the corpus."""
    found: list[tuple[str, str]] = []
    names: set[str] = set()
    for path in sorted((CORPUS / folder).glob("*.txt")):
        with path.open(encoding="utf-8", newline="") as stream:
            parts = _SEPARATOR.split(stream.read())
        if parts[0]:
            raise ValueError(f"{path.name}: text before the first case")
        for label, query in zip(parts[1::2], parts[2::2], strict=True):
            name = f"{path.stem}/{label}"
            if not _NAME.fullmatch(label):
                raise ValueError(f"{path.name}: {label!r} is no name for a case")
            if name in names:
                raise ValueError(f"{path.name}: {label} occurs twice")
            names.add(name)
            found.append((name, query.removesuffix("\n")))
    if not found:
        raise ValueError(f"no cases in {folder}")
    return found
