"""SQL is written once where SQLite and PostgreSQL agree, and every statement exists for both."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from demaq.store import postgresql_database, sql_statements, sqlite_database
from demaq.store.sql_statements import STORE_FILES, load_statements, parse_statements

FOLDER = Path(sql_statements.__file__).parent / "sql"
FOLDERS = ("common", "sqlite", "postgresql")
PARAMETER = re.compile(r"%\((\w+)\)s|(?<![:\w]):([a-z_]+)|%s|\?")


def files() -> list[Path]:
    """Return the files of statements. Scripts that create tables are the history of each dialect and not compared."""
    return [file for file in sorted(FOLDER.glob("*/*.sql")) if not file.stem.startswith("version_")]


def parameters_of(statement: str) -> set[str]:
    return {(match[1] or match[2] or "positional") for match in PARAMETER.finditer(statement)}


def test_no_statement_is_written_twice():
    found = defaultdict(list)
    for file in files():
        for name, statement in parse_statements(file.read_text()).items():
            found[" ".join(statement.split()).lower()].append(f"{file.parent.name}/{file.name}: {name}")

    assert len(found) > 100
    assert {text: places for text, places in found.items() if len(places) > 1} == {}


def test_every_file_is_in_a_known_folder_and_loaded():
    assert {file.parent.name for file in files()} == set(FOLDERS)
    own = {"connection", "copy", "repair", "bulk"}
    assert {file.stem for file in files()} == {*STORE_FILES, *own}


def test_every_statement_of_a_store_exists_in_both_dialects_with_the_same_parameters():
    sqlite, postgresql = (load_statements(dialect, *STORE_FILES) for dialect in ("sqlite", "postgresql"))

    assert sqlite.keys() == postgresql.keys()
    assert {n: parameters_of(sqlite[n]) for n in sqlite} == {n: parameters_of(postgresql[n]) for n in postgresql}
    assert sqlite == sqlite_database._SQL
    assert postgresql == postgresql_database._SQL


def test_every_copy_of_many_rows_stands_for_a_statement():
    assert len(postgresql_database._COPY) == len(load_statements("postgresql", "bulk"))


def test_no_dialect_folder_repeats_a_name_of_common(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for folder in FOLDERS:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "reads.sql").write_text(f"-- name: message\nSELECT '{folder}'\n")
    monkeypatch.setattr(sql_statements, "_folder", lambda: tmp_path)

    with pytest.raises(AssertionError, match="repeats a name"):
        load_statements("sqlite", "reads")


@pytest.mark.parametrize(
    ("written", "translated"),
    [
        ("SELECT seq FROM messages WHERE seq = ?", "SELECT seq FROM messages WHERE seq = %s"),
        ("WHERE queue = :queue AND seq > :after_seq", "WHERE queue = %(queue)s AND seq > %(after_seq)s"),
        ("(:due::bigint, ?::text[])", "(%(due)s::bigint, %s::text[])"),
        ("SELECT x::oid", "SELECT x::oid"),
    ],
)
def test_parameters_are_translated_for_psycopg(written: str, translated: str):
    assert sql_statements._translate_parameters(written) == translated
