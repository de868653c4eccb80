"""SQL lives in `sql/*.sql`, each statement under a heading `-- name: what_it_does`.

Comments above a heading belong to what follows it and say why; the database never sees them.
"""

from __future__ import annotations

import re
import sqlite3
from importlib import resources

_HEADING = re.compile(r"^-- name: (\w+)$")


def statements(file: str) -> dict[str, str]:
    """The named statements of a file."""
    found: dict[str, list[str]] = {}
    name = None
    for line in _text(file).splitlines():
        heading = _HEADING.match(line)
        if heading is not None:
            name = heading[1]
            assert name not in found, f"{file} names {name} twice"
            found[name] = []
        elif name is not None and not line.startswith("--"):
            found[name].append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def script(file: str) -> list[str]:
    """The statements of a file without names, in order; each ends with a semicolon at the end of a line."""
    found: list[str] = []
    current = ""
    for line in _text(file).splitlines(keepends=True):
        current += line
        if line.split(" -- ")[0].rstrip().endswith(";") and sqlite3.complete_statement(current):
            found.append(current.strip())
            current = ""
    assert not current.strip(), f"{file} ends in the middle of a statement"
    return found


def _text(file: str) -> str:
    return resources.files("demaq.store").joinpath("sql", file).read_text(encoding="utf-8")
