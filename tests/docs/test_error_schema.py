"""Error messages are as the page about them says: real ones are valid against the schema it prints."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from lxml import etree

from demaq.scheduler.error_messages import Failure, error_body
from demaq.testing import Lab
from tests.docs.pages import PROJECT, Page

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
    (listing,) = [block.text for block in PAGE.blocks() if block.file == "error-message.xsd"]
    return etree.XMLSchema(etree.fromstring(listing))


def assert_valid(schema: etree.XMLSchema, body: str) -> None:
    assert schema.validate(etree.fromstring(body)), f"{schema.error_log}\n{body}"


def test_what_goes_wrong_in_an_application_is_as_the_schema_says(schema: etree.XMLSchema, tmp_path) -> None:
    (tmp_path / "a.dmq").write_text(FAILING)
    (tmp_path / "b.xsd").write_text(
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="y"/></xs:schema>'
    )
    with Lab(tmp_path / "a.dmq", hops_max=3) as lab:
        for name in NAMES:
            lab.enqueue("a", f'<?p i?><!-- c --><{name} xmlns="" xmlns:p="urn:p" euros="cheap">text</{name}><!-- d -->')
        lab.advance(10)
        made = lab.made("demaq:errors")
    found = {}
    for message in made:
        assert_valid(schema, message.body)
        assert message.rule is not None
        found[message.rule] = etree.fromstring(message.body)[0].tag

    assert found == KINDS


def test_a_message_that_cannot_be_evaluated_is_reported_as_the_schema_says(schema: etree.XMLSchema) -> None:
    with Lab("create queue a create rule r for a if (/never) then do enqueue <x/> into a") as lab:
        seq = lab.enqueue("a", "<order/>")
        message = lab.store.message(int(seq))
    assert message is not None
    lost = Failure(kind="systemError", code="demaq:notEvaluated", description="\x00 it took too long", rule=None)

    assert_valid(schema, error_body(lost, message, datetime(2026, 5, 1, tzinfo=UTC)))


def test_the_schema_tells_other_documents_from_error_messages(schema: etree.XMLSchema) -> None:
    assert not schema.validate(etree.fromstring("<error><oops/></error>"))


def test_the_page_names_every_kind_of_the_schema() -> None:
    kinds = re.findall(r'name="(\w+)" type="nothing"', PAGE.text)

    assert len(kinds) == 15
    for kind in [*kinds, "refused"]:
        assert f"`{kind}`" in PAGE.section("Kinds")
