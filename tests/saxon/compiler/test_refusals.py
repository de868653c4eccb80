"""What only compiling finds out, and how it is reported to an author."""

from __future__ import annotations

from pathlib import Path

import pytest

from demaq.evaluation.saxon.compiled import static_check
from demaq.language.loader import CheckedProgram, check_application

QUEUES = "create queue a create queue b\n"


def check(folder: Path, text: str) -> CheckedProgram:
    file = folder / "app.dmq"
    file.write_text(QUEUES + text, encoding="utf-8")
    return check_application(file, static_check)


def errors(checked: CheckedProgram) -> list[tuple[str, int, int]]:
    return [(item.code, item.at.line, item.at.column) for item in checked.errors if item.at is not None]


def test_what_saxon_refuses_is_reported_at_the_authors_place_in_every_rule(tmp_path: Path) -> None:
    checked = check(
        tmp_path,
        """create rule one for a if (//x) then do enqueue <y>{"a" + 1}</y> into b
create rule fine for a if (//x) then do enqueue <y/> into b
create rule two for a if (//x) then
  let $d := 1
  return do enqueue <y>{
    (1, 2) eq $d }</y> into b""",
    )
    assert errors(checked) == [("DQ0704", 2, 52), ("DQ0704", 7, 6)]
    assert checked.errors[0].message.startswith("XPTY0004: ")
    assert checked.program is None


def test_what_saxon_refuses_is_reported_beside_other_errors(tmp_path: Path) -> None:
    checked = check(
        tmp_path,
        """create rule one for a if (//x) then do enqueue <y>{$missing}</y> into b
create rule two for a if (//x) then do enqueue <y>{"a" + 1}</y> into b""",
    )
    assert errors(checked) == [("DQ0201", 2, 52), ("DQ0704", 3, 52)]


def test_what_saxon_refuses_in_a_declared_function_is_reported_there_once(tmp_path: Path) -> None:
    file = tmp_path / "app.dmq"
    file.write_text(
        "declare function local:f() as xs:integer { 1 };\n"
        "declare function local:g($x) {\n  $x, 'a' * 2 };\n"
        + QUEUES
        + "create rule r for a if (local:g(1)) then do enqueue <x/> into b",
        encoding="utf-8",
    )
    assert errors(check_application(file, static_check)) == [("DQ0704", 3, 7)]


def test_property_values_are_compiled_too(tmp_path: Path) -> None:
    checked = check(tmp_path, "create property p as xs:integer queue a\n  value 'one' + 1")
    assert errors(checked) == [("DQ0704", 3, 9)]


def test_a_pragma_needs_something_to_evaluate(tmp_path: Path) -> None:
    text = "declare namespace p = 'urn:p'; " + QUEUES
    file = tmp_path / "app.dmq"
    file.write_text(text + "create rule r for a if ((# p:x #) {}) then do enqueue <x/> into b", encoding="utf-8")
    assert [item.code for item in check_application(file, static_check).errors] == ["DQ0702"]
    file.write_text(text + "create rule r for a if ((# p:x #) {//y}) then do enqueue <x/> into b", encoding="utf-8")
    assert check_application(file, static_check).errors == []


@pytest.mark.parametrize(("opening", "closing"), [("(1 + ", ")"), ("<a>{", "}</a>"), ("f:id(", ")")])
def test_what_would_end_saxon_is_refused_before(tmp_path: Path, opening: str, closing: str) -> None:
    file = tmp_path / "app.dmq"
    deep = opening * 1500 + "1" + closing * 1500
    file.write_text(
        "declare namespace f = 'urn:f'; declare function f:id($x) { $x };\n"
        + QUEUES
        + f"create rule r for a if (//x) then do enqueue <x>{{{deep}}}</x> into b",
        encoding="utf-8",
    )
    assert [item.code for item in check_application(file, static_check).errors] == ["DQ0703"]


@pytest.mark.parametrize(
    ("prolog", "condition"),
    [
        ('declare default collation "http://saxon.sf.net/collation?class=x";', "true()"),
        ("", 'for $x in //y order by $x collation "http://saxon.sf.net/collation?class=x" return $x'),
        ("", 'for $x in //y group by $x collation "http://saxon.sf.net/collation?class=x" return $x'),
    ],
)
def test_collations_that_would_end_saxon_are_refused_where_they_are_written(
    tmp_path: Path, prolog: str, condition: str
) -> None:
    file = tmp_path / "app.dmq"
    file.write_text(
        f"{prolog}\n{QUEUES}create rule r for a if ({condition}) then do enqueue <x/> into b", encoding="utf-8"
    )
    assert [item.code for item in check_application(file, static_check).errors] == ["DQ0704"]


def test_collations_that_would_end_saxon_are_an_error_of_the_rule(tmp_path: Path) -> None:
    checked = check(
        tmp_path,
        "create rule r for a if (true()) then do enqueue "
        '<x>{compare("a", "b", //c), sort((2, 1), //c), (compare#3)("a", "b", "http://saxon.sf.net/collation?class=x")}</x> into b',
    )
    assert checked.errors == []


@pytest.mark.parametrize(
    ("declaration", "code"),
    [
        ('declare namespace xml = "urn:x";', "XQST0070"),
        ('declare decimal-format local:d digit = "##";', "XQST0097"),
        ('declare decimal-format local:d digit = ".";', "XQST0098"),
        ('declare default decimal-format digit = "#" digit = "#";', "XQST0114"),
    ],
)
def test_what_saxon_refuses_in_the_head_of_a_prolog_is_reported_there(
    tmp_path: Path, declaration: str, code: str
) -> None:
    file = tmp_path / "app.dmq"
    text = f"declare boundary-space strip;\n  {declaration}\n{QUEUES}"
    file.write_text(text + "create rule r for a if (//x) then do enqueue <x/> into b", encoding="utf-8")
    checked = check_application(file, static_check)
    assert errors(checked) == [("DQ0704", 2, 3)]
    assert checked.errors[0].message.startswith(code)
