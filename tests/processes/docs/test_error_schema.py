"""Error messages are as their schema says, and the page about them shows that schema."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from lxml import etree

from demaq.cli import main as cli
from demaq.engine.error_routing import Failure, error_body
from demaq.errors import ERROR_KINDS
from demaq.evaluation.outcomes import Location
from demaq.schemas import schema_text
from demaq.testing import Lab
from tests.support.docs.pages import PROJECT, Page, replaced

PAGE = Page(PROJECT / "docs" / "reference" / "error-message.md")

FAILING = """
create queue a create queue b schema "b.xsd" create queue numbers create queue timer kind echo
create property n as xs:integer queue numbers value //n
create rule dynamic for a if (/dynamic) then do enqueue <x>{ 1 div 0 }</x> into numbers
create rule own for a if (/own) then do enqueue <x>{ error(xs:QName("local:no"), "no &#9;&lt;&amp;") }</x> into numbers
create rule condition for a if (/condition/@euros > 1) then do enqueue <x/> into numbers
create rule schema for a if (/schema) then do enqueue <x/> into b
create rule property for a if (/property) then do enqueue <n>no</n> into numbers
create rule two for a if (/two) then do enqueue (<x/>, <x/>) into numbers
create rule late for a if (/late) then
  do enqueue <n>no</n> into timer with timeout value 5 with target value "numbers"
create rule never for a if (/never) then do enqueue <x/> into timer with timeout value "soon" with target value "a"
create rule endless for a if (/endless) then
  let $f := function($f) { 1 + $f($f) } return do enqueue <x>{ $f($f) }</x> into numbers
create rule loop for a if (/loop) then do enqueue <loop/> into a
"""
NAMES = ("dynamic", "own", "condition", "schema", "property", "two", "late", "never", "endless", "loop")
KINDS = {
    "dynamic": "dynamicError",
    "own": "dynamicError",
    "condition": "dynamicError",
    "schema": "schemaViolation",
    "property": "propertyError",
    "two": "enqueueError",
    "late": "propertyError",
    "never": "propertyError",
    "endless": "dynamicError",
    "loop": "systemError",
}


@pytest.fixture(scope="module")
def schema() -> etree.XMLSchema:
    return etree.XMLSchema(etree.fromstring(schema_text("error")))


def assert_valid(schema: etree.XMLSchema, body: str) -> None:
    assert schema.validate(etree.fromstring(body)), f"{schema.error_log}\n{body}"


def test_the_page_shows_the_schema(accept_golden: bool) -> None:
    (listing,) = [block for block in PAGE.blocks() if block.file == "error.xsd"]
    if accept_golden:
        PAGE.path.write_text(replaced(PAGE, listing, schema_text("error")), encoding="utf-8")
    else:
        assert listing.text == schema_text("error"), "run ./test tests/processes/docs --accept-golden"


def test_the_example_of_the_page_is_an_error_message(schema: etree.XMLSchema) -> None:
    (example,) = [block for block in PAGE.blocks() if block.language == "xml" and block.file is None]
    assert_valid(schema, example.text)


def test_a_command_prints_the_schema(capsys) -> None:
    assert cli.run(cli.demaq, ["schema", "error"]) == 0
    assert capsys.readouterr().out == schema_text("error")


def test_what_goes_wrong_in_an_application_is_as_the_schema_says(schema: etree.XMLSchema, tmp_path) -> None:
    (tmp_path / "a.dmq").write_text(FAILING)
    (tmp_path / "b.xsd").write_text(
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="y"/></xs:schema>'
    )
    with Lab(tmp_path / "a.dmq", hops_max=3) as lab:
        for name in NAMES:
            lab.enqueue("a", f'<?p i?><!-- c --><{name} xmlns="" xmlns:p="urn:p" euros="cheap">text</{name}><!-- d -->')
        lab.advance(10)
        made = lab.read_created("demaq:errors")
    found = {}
    for message in made:
        assert_valid(schema, message.body)
        assert message.rule is not None
        found[message.rule] = etree.fromstring(message.body)[0].tag

    assert found == KINDS


@pytest.mark.parametrize("kind", ERROR_KINDS)
@pytest.mark.parametrize("at", [None, Location("a&b\x01.dmq", 3, 7)])
def test_an_error_of_every_kind_is_as_the_schema_says(kind: str, at: Location | None, schema: etree.XMLSchema) -> None:
    with Lab("create queue a create rule r for a if (/never) then do enqueue <x/> into a") as lab:
        message = lab.store.message(int(lab.enqueue("a", "<order/>")))
        assert message is not None
        for rule in (None, *lab.program.rules):
            failure = Failure(kind=kind, code="demaq:x", description="\x00 \ufffe \ud800 <&> it took", rule=rule, at=at)
            assert_valid(schema, error_body(lab.program, failure, message, datetime(2026, 5, 1, tzinfo=UTC)))


def test_the_schema_tells_other_documents_from_error_messages(schema: etree.XMLSchema) -> None:
    assert not schema.validate(etree.fromstring("<error><oops/></error>"))


def test_the_schema_knows_every_kind_and_no_other() -> None:
    group = etree.fromstring(schema_text("error")).find("{*}group/{*}choice")
    assert group is not None
    assert [element.get("name") for element in group] == list(ERROR_KINDS)


def test_the_page_explains_every_kind() -> None:
    for kind in ERROR_KINDS:
        assert f"| `{kind}` | " in PAGE.section("Kinds")


def test_a_location_names_the_file_as_the_author_knows_it(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "sub").mkdir()
    (tmp_path / "app" / "queues.dmq").write_text("create queue a")
    (tmp_path / "app" / "sub" / "own.xqm").write_text(
        'module namespace own = "urn:own"; declare function own:f($x) {\n  xs:date($x) };'
    )
    (tmp_path / "elsewhere" / "other.xqm").write_text(
        'module namespace other = "urn:other"; declare function other:f($x) {\n\n xs:date($x) };'
    )
    (tmp_path / "app" / "sub" / "rules.dmq").write_text(
        'import module namespace own = "urn:own" at "own.xqm";'
        ' import module namespace other = "urn:other" at "../../elsewhere/other.xqm";\n'
        "create rule here for a if (/m) then do enqueue <x>{ xs:date(/m/@n) }</x> into a\n"
        "create rule own for a if (/m) then do enqueue <x>{ own:f(/m/@n) }</x> into a\n"
        "create rule other for a if (/m) then do enqueue <x>{ other:f(/m/@n) }</x> into a"
    )
    with Lab(tmp_path / "app") as lab:
        lab.enqueue("a", '<m n="x"/>')
        lab.run_until_idle()
        places = [etree.fromstring(message.body).find("location") for message in lab.read_created("demaq:errors")]

    found = [(place.get("file"), place.get("line")) for place in places if place is not None]
    assert found == [("sub/rules.dmq", "2"), ("sub/own.xqm", "2"), ("other.xqm", "3")]
