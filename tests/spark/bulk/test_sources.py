"""What a load reads, before it is checked."""

from __future__ import annotations

import json
import resource
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demaq.bulk.message_sink import split_batches
from demaq.bulk.sources import Layout, SourceError, count_documents, find_files, read_documents


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bodies(*paths: str, **layout):
    return [item.body for item in read_documents(find_files(paths), Layout(**layout))]


def test_a_folder_stands_for_the_documents_in_it_and_below_in_order(folder: Path):
    for name in ("b.xml", "a/z.xml", "a/notes.txt", "_temporary/c.xml", ".hidden.xml"):
        (folder / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "in" / name).write_text(f"<{Path(name).stem}/>".replace(".", ""))

    assert bodies("in") == [b"<z/>", b"<b/>"]
    assert bodies("in/b.xml", "in") == [b"<b/>", b"<z/>"], "each once"
    assert bodies("in/**/z.xml") == [b"<z/>"]
    assert count_documents(find_files(["in"]), Layout()) == 2


@pytest.mark.parametrize("path", ["nowhere", "nowhere/*.xml"])
def test_what_is_not_there_is_reported_before_anything_is_read(folder: Path, path: str):
    with pytest.raises(SourceError, match=r"^nowhere"):
        find_files([path])


def test_rows_are_the_outermost_elements_of_a_name_with_their_namespaces(folder: Path):
    Path("big.xml").write_text(
        '<?xml version="1.0"?><!-- c --><all xmlns:p="urn:p"><head>x</head><group><row p:n="1">a<row/>b</row>tail</group>'
        '<row xmlns="urn:d"/><other><row>&lt;</row></other></all>'
    )

    assert bodies("big.xml", row_tag="row") == [
        '<row xmlns:p="urn:p" p:n="1">a<row/>b</row>',
        '<row xmlns="urn:d" xmlns:p="urn:p"/>',
        '<row xmlns:p="urn:p">&lt;</row>',
    ]
    assert bodies("big.xml", row_tag="{urn:d}row") == ['<row xmlns="urn:d" xmlns:p="urn:p"/>']
    assert count_documents(find_files(["big.xml"]), Layout(row_tag="row")) is None


def test_a_file_that_breaks_off_gives_the_rows_in_front_and_one_problem(folder: Path):
    Path("big.xml").write_text("<all><row>1</row><row>2</row><row>3")
    *rows, broken = read_documents(find_files(["big.xml"]), Layout(row_tag="row"))

    assert [row.body for row in rows] == ["<row>1</row>", "<row>2</row>"]
    assert broken.problem is not None
    assert broken.problem.kind == "notWellFormed"
    assert broken.problem.message.startswith("after row 2 the file cannot be read: ")


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE all [<!ENTITY e "boom">]><all><row>&e;</row></all>',
        '<!DOCTYPE all [<!ENTITY e SYSTEM "/etc/passwd">]><all><row>&e;</row></all>',
        "<all><row>" + "<a>" * 300 + "</a>" * 300 + "</row></all>",
    ],
)
def test_hostile_files_of_rows_are_a_problem_and_nothing_else(folder: Path, text: str):
    Path("big.xml").write_text(text)
    [item] = read_documents(find_files(["big.xml"]), Layout(row_tag="row"))

    assert item.problem is not None
    assert item.problem.kind == "notWellFormed"


@pytest.mark.slow
def test_rows_may_be_in_a_namespace_that_is_no_uri_and_the_file_must_be_well_formed_all_the_same(folder: Path):
    rows = "".join([f'<row xmlns="http://exämple.org/">{number}</row>' for number in range(200)])
    Path("right.xml").write_text(f"<all>{rows}</all>")
    Path("wrong.xml").write_text(f"<all>{rows}</all>?</all>")

    right = list(read_documents(find_files(["right.xml"]), Layout(row_tag="row")))
    *wrong, broken = read_documents(find_files(["wrong.xml"]), Layout(row_tag="row"))

    assert [item.body for item in right] == [item.body for item in wrong]
    assert len(right) == 200
    assert not any([item.problem for item in right])
    assert broken.problem is not None
    assert broken.problem.message.startswith("after row 200 the file cannot be read: ")


@pytest.mark.slow
def test_rows_of_a_large_file_are_forgotten_when_they_are_read(folder: Path):
    with open("big.xml", "w") as file:
        file.write("<all>")
        for number in range(80_000):
            file.write(f"<group><row n='{number}'>{'x' * 300}</row></group>\n")
        file.write("</all>")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    count = sum([1 for _ in read_documents(find_files(["big.xml"]), Layout(row_tag="row"))])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    assert count == 80_000
    assert grown < 15_000, "kilobytes; the file has 27,000, its tree far more"


def test_lines_of_json_give_bodies_and_properties_as_they_are_written(folder: Path):
    lines = [
        '{"body": "<a/>", "n": 1.50, "yes": true, "none": null}',
        "",
        "no",
        "[]",
        '{"n": 1}',
        '{"body":"<a/>","n":[1]}',
    ]
    Path("a.jsonl").write_text("\n".join(lines))
    items = list(read_documents(find_files(["a.jsonl"]), Layout(properties=("n", "yes", "none"))))

    assert items[0].properties == {"n": "1.50", "yes": "true"}
    assert items[0].where == "a.jsonl, line 1"
    assert [item.problem and item.problem.kind for item in items] == [
        None,
        "notWellFormed",
        "notWellFormed",
        "notWellFormed",
        "propertyError",
    ]


def test_parquet_gives_bodies_of_text_or_bytes(folder: Path):
    pq.write_table(pa.table({"doc": [b"<a/>", None], "n": [1, 2]}), "a.parquet")
    items = list(read_documents(find_files(["a.parquet"]), Layout(body="doc", properties=("n",))))

    assert [(item.body, item.properties) for item in items[:1]] == [(b"<a/>", {"n": "1"})]
    assert items[1].problem is not None
    assert count_documents(find_files(["a.parquet"]), Layout(body="doc")) == 2


def test_numbers_of_parquet_are_written_as_xml_schema_does(folder: Path):
    decimals = pa.array([Decimal("0"), Decimal("0.00000001"), Decimal("-12.5")], pa.decimal128(38, 18))
    doubles = [float("inf"), float("-inf"), float("nan")]
    pq.write_table(pa.table({"body": ["<a/>"] * 3, "d": decimals, "f": doubles}), "a.parquet")
    items = list(read_documents(find_files(["a.parquet"]), Layout(properties=("d", "f"))))

    written = [item.properties["d"] for item in items]
    assert written == ["0.000000000000000000", "0.000000010000000000", "-12.500000000000000000"]
    assert [item.properties["f"] for item in items] == ["INF", "-INF", "NaN"]


def test_a_table_without_its_columns_is_reported_before_anything_is_read(folder: Path):
    pq.write_table(pa.table({"doc": ["<a/>"]}), "a.parquet")
    Path("b.parquet").write_text("no")

    with pytest.raises(SourceError, match=r"^a\.parquet has no column body; it has doc$"):
        count_documents(find_files(["a.parquet"]), Layout())
    with pytest.raises(SourceError, match=r"^b\.parquet cannot be read as Parquet: "):
        count_documents(find_files(["b.parquet"]), Layout())


def test_the_name_of_a_document_depends_on_queue_place_and_text(folder: Path):
    Path("a.jsonl").write_text("".join([json.dumps({"body": body}) + "\n" for body in ("<a/>", "<a/>")]))
    first, second = read_documents(find_files(["a.jsonl"]), Layout())
    again = list(read_documents(find_files([str(folder / "a.jsonl")]), Layout()))
    Path("a.jsonl").write_text(json.dumps({"body": "<b/>"}))
    [changed] = read_documents(find_files(["a.jsonl"]), Layout())

    assert again[0].request("q") == first.request("q")
    assert len({item.request(q) for item in (first, second, changed) for q in ("q", "r")}) == 6


def test_parts_are_neither_long_nor_large():
    sizes = [1, 1, 1, 9, 20, 1]

    assert list(split_batches(sizes, 2, 10, int)) == [[1, 1], [1, 9], [20], [1]]
