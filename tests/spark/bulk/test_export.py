"""What `demaq export` writes where no Spark is asked for, and how values become columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from demaq.bulk.columns import PropertyColumn, make_arrow_table, parse_value, property_columns
from demaq.cli import main as cli
from demaq.store.sqlite import SqliteStore
from demaq.testing.lab import Lab

PROGRAM = """
create queue done create queue waiting
create property id as xs:integer queue waiting value /*/@id
create property Body as xs:string queue waiting value "b"
create property price as xs:decimal queue waiting value /*/@price
create rule r for done if (/never) then do enqueue <x/> into waiting
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.dmq").write_text(PROGRAM)
    with Lab(tmp_path / "a.dmq", tmp_path / "store") as lab:
        for number in range(3):
            lab.enqueue("waiting", f'<ü id="{number}"/>')
        lab.enqueue("done", "<gone/>")
        lab.run_until_idle()
    return tmp_path / "store"


def export(*words: str) -> int:
    return cli.run(cli.demaq, ["export", *words, "--store", "store"])


def test_xml_files_are_named_by_id(store: Path, capsys):
    assert export("waiting", "out", "--to", "xml") == 0
    assert capsys.readouterr().out == "3 messages of queue waiting in out\n"
    assert {path.name: path.read_text(encoding="utf-8") for path in Path("out").iterdir()} == {
        f"{number + 1}.xml": f'<ü id="{number}"/>' for number in range(3)
    }


def test_what_is_done_with_is_left_out_unless_all_is_asked_for(store: Path):
    assert export("done", "visible", "--to", "xml") == 0
    assert export("done", "all", "--to", "xml", "--all") == 0

    assert (len(list(Path("visible").iterdir())), len(list(Path("all").iterdir()))) == (0, 1)


def test_a_folder_with_something_in_it_is_left_alone(store: Path, capsys):
    Path("out").mkdir()
    assert export("waiting", "out", "--to", "xml") == 0
    assert export("waiting", "out", "--to", "xml") == 1
    assert capsys.readouterr().err == "demaq: out is not an empty folder; give the name of a new one\n"


def test_an_unknown_queue_is_one_line_and_leaves_no_folder(store: Path, capsys):
    assert export("waitin", "out", "--to", "xml") == 1
    assert capsys.readouterr().err == "demaq: there is no queue waitin; did you mean waiting?\n"
    assert sorted([path.name for path in Path().iterdir()]) == ["a.dmq", "store"]


def test_an_export_is_of_one_moment_whatever_happens_meanwhile(store: Path):
    reader = SqliteStore.open_readonly(store)
    with reader.at_one_snapshot():
        before = reader.visible("waiting", 0, 10)
        with Lab("a.dmq", store) as lab:
            lab.enqueue("waiting", "<late/>")
        assert reader.visible("waiting", 0, 10) == before
    assert len(reader.visible("waiting", 0, 10)) == 4
    reader.close()


def test_a_property_that_is_called_like_another_column_gets_a_prefix(store: Path):
    with Lab("a.dmq") as lab:
        assert [column.column for column in property_columns(lab.program, "waiting")] == [
            "property_id",
            "property_Body",
            "price",
        ]


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("integer", "-5", -5),
        ("boolean", "true", True),
        ("decimal", "1.50", Decimal("1.50")),
        ("double", "INF", float("inf")),
        ("date", "2026-05-01Z", date(2026, 5, 1)),
        ("dateTime", "2026-05-01T12:00:00", datetime(2026, 5, 1, 12, tzinfo=UTC)),
        ("dateTime", "2026-05-01T12:00:00.5Z", datetime(2026, 5, 1, 12, 0, 0, 500000, tzinfo=UTC)),
        ("dayTimeDuration", "P1D", "P1D"),
    ],
)
def test_values_are_what_python_has_for_them(type_: str, text: str, value: object):
    assert parse_value(type_, text) == value


@pytest.mark.parametrize(
    ("type_", "text"),
    [("integer", "9" * 19), ("decimal", "9" * 21), ("decimal", "0." + "1" * 19), ("date", "-0044-03-15")],
)
def test_a_value_that_no_column_holds_is_refused_by_name(store: Path, type_: str, text: str):
    from dataclasses import replace

    from demaq.bulk.columns import ParquetValueError
    from demaq.messages import PropertyValue

    reader = SqliteStore.open_readonly(store)
    message = replace(reader.visible("waiting", 0, 1)[0], properties={"p": PropertyValue(type_, text, text)})
    reader.close()
    with pytest.raises(ParquetValueError, match=r"^message 1: "):
        make_arrow_table([message], [PropertyColumn("p", "p", type_)])
