"""Names in another namespace than the elements of the messages they are meant for."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from demaq.language import parse_query
from demaq.language.analysis.message_names import find_message_names
from demaq.language.analysis.missed_names import find_missed_names, read_vocabulary
from demaq.language.loader import check_application
from demaq.language.resolving.resolve import resolve_query

SCHEMA = """
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:o="urn:o" {attributes}>
  <xs:element name="order"><xs:complexType><xs:sequence>
    <xs:element name="item" type="xs:string"/><xs:element name="note" form="qualified" type="xs:string"/>{more}
  </xs:sequence></xs:complexType></xs:element>
</xs:schema>
"""
UNQUALIFIED = SCHEMA.format(attributes='targetNamespace="urn:o"', more="")
QUALIFIED = SCHEMA.format(attributes='targetNamespace="urn:o" elementFormDefault="qualified"', more="")
OPEN = SCHEMA.format(attributes='targetNamespace="urn:o" elementFormDefault="qualified"', more="<xs:any/>")
NO_NAMESPACE = SCHEMA.format(attributes="", more="")
WSDL = """
<definitions xmlns="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/"
             xmlns:t="urn:o" targetNamespace="urn:service">
  <types>{schema}</types>
  <message name="m"><part name="p" element="t:order"/></message>
  <portType name="pt"><operation name="op"><input message="w:m" xmlns:w="urn:service"/></operation></portType>
</definitions>
"""
Q = 'create queue q schema "s.xsd" create queue out kind mailbox\n'
RULE = Q + "create rule r for q if ({condition}) then do enqueue <a/> into out\n"
DECLARE = 'declare namespace o = "urn:o";\n'
DEFAULT = 'declare default element namespace "urn:o";\n'


def warnings(folder: Path, text: str, **files: str) -> list[tuple[str, str, str | None]]:
    """The warnings about names: what is at their place, their message and hint."""
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)
    (folder / "app.dmq").write_text(text)
    checked = check_application(folder / "app.dmq")
    assert not checked.errors, "\n".join([item.render() for item in checked.errors])
    found = [item for item in checked.diagnostics if item.code == "DQ1204"]
    return [(text[item.at.start : item.at.end], item.message, item.hint) for item in found if item.at is not None]


def test_a_rule_that_names_the_root_without_its_namespace_gets_a_hint_what_to_declare(tmp_path: Path):
    assert warnings(tmp_path, RULE.format(condition="/order"), s_xsd=QUALIFIED) == [
        (
            "order",
            '"order" is in no namespace here, and in namespace "urn:o" in the messages of queue "q"',
            'declare default element namespace "urn:o"; (elements that the module builds without a prefix are then in '
            'it too), or declare namespace o = "urn:o"; and o:order',
        )
    ]


@pytest.mark.parametrize(
    ("prolog", "condition", "schema", "missed"),
    [
        ("", "//order[item]/note", QUALIFIED, ["order", "item", "note"]),
        ("", "qs:message()/order", QUALIFIED, ["order"]),
        ("", "order", QUALIFIED, ["order"]),
        ("", "some $o in /order satisfies $o/item = 'a'", QUALIFIED, ["order", "item"]),
        ("", "/*:order/*:item", QUALIFIED, []),
        ("", "/*/@order", QUALIFIED, []),
        ("", "qs:queue('q')/order", QUALIFIED, []),
        ("", "//element(order)", QUALIFIED, ["element(order)"]),
        ("", "//customer", QUALIFIED, []),
        (DECLARE, "/o:order[item]", QUALIFIED, ["item"]),
        (DECLARE, "/o:order/o:item", QUALIFIED, []),
        (DECLARE, "/order or /o:order", QUALIFIED, []),
        (DEFAULT, "/order/item", QUALIFIED, []),
        # In a schema that is not qualified only the root is in its namespace, and what says otherwise of itself.
        (DEFAULT, "/order[item]/note", UNQUALIFIED, ["item"]),
        (DECLARE, "/o:order[item]/o:note", UNQUALIFIED, []),
        # The mirror: messages are in no namespace.
        (DEFAULT, "/order/item", NO_NAMESPACE, ["order", "item"]),
        ("", "/order/item", NO_NAMESPACE, []),
        # Where anything may be inside, only the root is known.
        ("", "/order[item]", OPEN, ["order"]),
    ],
)
def test_names_are_compared_with_the_schema_of_the_queue(
    tmp_path: Path, prolog: str, condition: str, schema: str, missed: list[str]
):
    found = warnings(tmp_path, prolog + RULE.format(condition=condition), s_xsd=schema)
    assert [name for name, _, _ in found] == missed


def test_the_hint_uses_what_the_module_declares(tmp_path: Path):
    def hint(prolog: str, schema: str) -> str | None:
        return warnings(tmp_path, prolog + RULE.format(condition="/order"), s_xsd=schema)[0][2]

    assert hint('declare namespace shop = "urn:o";', QUALIFIED) == "write shop:order"
    assert hint('declare namespace o = "urn:other";', QUALIFIED) == (
        'declare default element namespace "urn:o"; (elements that the module builds without a prefix are then in it '
        'too), or declare namespace o1 = "urn:o"; and o1:order'
    )
    assert hint('declare default element namespace "urn:x";', QUALIFIED) == 'declare namespace o = "urn:o"; and o:order'
    assert hint(DEFAULT, NO_NAMESPACE) == "Q{}order means the one in no namespace, *:order one in any"


def test_the_values_of_properties_are_compared_too(tmp_path: Path):
    text = Q + "create property item as xs:string queue q value //item\n" + "create rule r for q if (/*) then ()"
    text = text.replace("then ()", "then do enqueue <a/> into out")
    assert [name for name, _, _ in warnings(tmp_path, text, s_xsd=QUALIFIED)] == ["item"]


def test_a_slicing_is_compared_with_all_its_queues(tmp_path: Path):
    text = (
        'create queue a schema "s.xsd" create queue b {schema} create queue out kind mailbox\n'
        "create property k as xs:string queue a, b value string(/*) create slicing s on k\n"
        "create rule r for s if (/order) then do reset\n"
    )
    assert len(warnings(tmp_path, text.format(schema='schema "s.xsd"'), s_xsd=QUALIFIED)) == 1
    assert warnings(tmp_path, text.format(schema='schema "t.xsd"'), s_xsd=QUALIFIED, t_xsd=NO_NAMESPACE) == []
    assert warnings(tmp_path, text.format(schema=""), s_xsd=QUALIFIED) == []


def test_schemas_that_are_included_and_imported_are_read(tmp_path: Path):
    outer = (
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:o">'
        '<xs:include schemaLocation="in.xsd"/><xs:import namespace="urn:p" schemaLocation="p.xsd"/></xs:schema>'
    )
    other = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:p"><xs:element name="p" type="xs:int"/></xs:schema>'
    text = RULE.format(condition="/order or /p")
    found = warnings(tmp_path, text, s_xsd=outer, in_xsd=NO_NAMESPACE, p_xsd=other)
    assert [(name, "urn:o" in words, "urn:p" in words) for name, words, _ in found] == [
        ("order", True, False),
        ("p", False, True),
    ]


def test_names_are_compared_with_the_requests_of_an_interface(tmp_path: Path):
    text = (
        'create queue q kind incomingGateway interface "w.wsdl" create queue out kind mailbox\n'
        "create rule r for q if (/order/item) then do enqueue <a/> into out"
    )
    found = warnings(tmp_path, text, w_wsdl=WSDL.format(schema=QUALIFIED))
    assert [name for name, _, _ in found] == ["order", "item"]
    assert [name for name, _, _ in warnings(tmp_path, text, w_wsdl=WSDL.format(schema=UNQUALIFIED))] == ["order"]
    assert (
        warnings(
            tmp_path, DECLARE + text.replace("/order/item", "/o:order/item"), w_wsdl=WSDL.format(schema=UNQUALIFIED)
        )
        == []
    )


@pytest.mark.parametrize(
    ("query", "message", "missed"),
    [
        ("/order", '<order xmlns="urn:o"/>', ["order"]),
        ("/order", '<x><order xmlns="urn:o"/></x>', []),  # another root is no other namespace
        ("//order", '<x><order xmlns="urn:o"/></x>', ["order"]),
        ("//order", '<order xmlns="urn:o"><order xmlns=""/></order>', []),
        ("declare namespace o = 'urn:o'; /o:order", "<order/>", ["order"]),
        ("let $m := . return $m/order", '<order xmlns="urn:o"/>', ["order"]),
        ("for $i in (//item)[1] return $i ! price", '<item><price xmlns="urn:o"/></item>', ["price"]),
        ("collection('c')/order", '<order xmlns="urn:o"/>', []),
        ("function($n) { $n/order }", '<order xmlns="urn:o"/>', []),
    ],
)
def test_names_are_compared_with_a_message(query: str, message: str, missed: list[str]):
    tree = parse_query(query)
    assert tree.body is not None
    names = resolve_query(tree)
    found = find_missed_names(
        find_message_names(tree.body, names), read_vocabulary(etree.fromstring(message)), names.prefixes
    )
    assert [each.asked.name[1] for each in found] == missed
