"""Load the SQL of `sql/`: statements by name, and scripts that create or upgrade the tables.

    sql/common/       statements that SQLite and PostgreSQL both understand, written once
    sql/sqlite/       those that differ, and the scripts `version_N.sql`
    sql/postgresql/   the same for PostgreSQL

A statement stands under a heading `-- name: what_it_does`. Comments above a heading belong to the statement below it;
they are not sent to the database. Parameters are written `?` or `:name` in all three folders, as SQLite knows them, and
are translated to psycopg's `%s` and `%(name)s` when PostgreSQL's statements are loaded.
"""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Literal

Dialect = Literal["sqlite", "postgresql"]

STORE_FILES = ("reads", "commit", "migration", "deliveries", "sequences", "operations", "verification")
"""The statements of a store. Both dialects have all of their names, with the same parameters and columns."""

_HEADING = re.compile(r"^-- name: (\w+)$")
_NAMED = re.compile(r"(?<![:\w]):([a-z_]+)")  # but not a cast, `::bigint`


def load_statements(dialect: Dialect, *files: str) -> dict[str, str]:
    """Return the named statements of these files, from `common` and from the folder of the dialect."""
    found: dict[str, str] = {}
    for file in files:
        for folder in ("common", dialect):
            path = _folder().joinpath(folder, f"{file}.sql")
            statements = parse_statements(path.read_text(encoding="utf-8")) if path.is_file() else {}
            assert not found.keys() & statements.keys(), f"{path} repeats a name"
            found.update(statements)
    return found if dialect == "sqlite" else {name: _translate_parameters(text) for name, text in found.items()}


@cache
def load_script(path: str) -> tuple[str, ...]:
    """Return the statements of a file without names, in order; each ends with a semicolon at the end of a line."""
    found: list[str] = []
    current = ""
    for line in _folder().joinpath(path).read_text(encoding="utf-8").splitlines(keepends=True):
        current += line
        if line.split(" -- ")[0].rstrip().endswith(";") and sqlite3.complete_statement(current):
            found.append(current.strip())
            current = ""
    assert not current.strip(), f"{path} ends in the middle of a statement"
    return tuple(found)


def parse_statements(text: str) -> dict[str, str]:
    """Return the statements of a file by their names."""
    found: dict[str, list[str]] = {}
    name = None
    for line in text.splitlines():
        heading = _HEADING.match(line)
        if heading is not None:
            name = heading[1]
            assert name not in found, f"{name} is defined twice"
            found[name] = []
        elif name is not None and not line.startswith("--"):
            found[name].append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def _translate_parameters(statement: str) -> str:
    assert "%" not in statement, "a percent sign would have to be doubled for psycopg"
    return _NAMED.sub(r"%(\1)s", statement).replace("?", "%s")


def _folder() -> Traversable:
    return resources.files("demaq.store").joinpath("sql")
