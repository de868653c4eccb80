"""`why` names the namespace that did not match, wherever the name was written."""

from __future__ import annotations

import pytest

from demaq.operations.why.verdict_text import write_details
from demaq.testing import Lab

PREFIXES = 'declare namespace p = "urn:p"; declare namespace q = "urn:q";'
DEFAULT = 'declare default element namespace "urn:d";'
QUEUES = """
create queue orders create queue out kind mailbox
create property orderID as xs:string queue orders value string(/*/@id)
create slicing byOrder on orderID
"""
IN_P = """<order xmlns="urn:p" xmlns:a="urn:a" id="17" a:kind="rush"><total>90</total><item><price>5</price></item></order>"""
IN_NONE = '<order id="17"><total>90</total><item><price>5</price></item></order>'
NONE_TO_P = 'is in no namespace here, and in namespace "urn:p" in the document: write p:'
Q_TO_P = 'is in namespace "urn:q" here, and in namespace "urn:p" in the document: write p:'
NONE_TO_A = (
    'is in no namespace here, and in namespace "urn:a" in the document: declare namespace a = "urn:a"; and @a:kind'
)


def said(condition: str, body: str, *, prolog: str = PREFIXES, target: str = "orders", others: int = 0) -> str:
    """Return what is said of a rule with this condition, beside so many others."""
    rest = [
        f"create rule r{number} for orders if (/other{number}) then do enqueue <o/> into out"
        for number in range(others)
    ]
    rule = f"create rule r for {target} if ({condition}) then do enqueue <o/> into out"
    with Lab("\n".join([prolog, QUEUES, *rest, rule])) as lab:
        message = lab.enqueue("orders", body)
        lab.run_until_idle()
        return "\n".join(write_details(lab.why(message, "r").rules[0], "processed", 200))


@pytest.mark.parametrize(
    ("condition", "name"),
    [
        ("/order", "order"),
        ("/order/total > 80", "order"),
        ("//total > 80", "total"),
        ("/*:order/total", "total"),
        ("/p:order/element(total)", "total"),
        ("exists(/p:order/total)", "total"),
        ("not(empty(/p:order/total))", "total"),
        ("not(not(/p:order/total))", "total"),
        ("count(/p:order/item) = 1", "item"),
        ('contains(/p:order/total, "9")', "total"),
        ("/p:order/p:item/parent::order", "order"),
        ("/p:order/p:item/preceding-sibling::total", "total"),
        # inside predicates
        ("/p:order[total > 80]", "total"),
        ("/p:order[p:item/price = 5]/p:total", "price"),
        ("/p:order[p:item[price]]", "price"),
        # inside other clauses
        ("some $i in /p:order/item satisfies $i", "item"),
        ("some $i in /p:order/p:item satisfies $i/price", "price"),
        ("for $i in //p:item where $i/price = 5 return $i", "price"),
        ("let $t := /p:order/total return $t", "total"),
    ],
)
def test_a_name_without_a_prefix_is_said_to_be_in_no_namespace(condition: str, name: str) -> None:
    assert f"hint: {name} {NONE_TO_P}{name}" in said(condition, IN_P)


@pytest.mark.parametrize(
    ("condition", "name"),
    [
        ("/q:order/q:total", "order"),
        ("/p:order/q:total > 80", "total"),
        ("/p:order[q:total]/p:item", "total"),
        ("for $i in //p:item where $i/q:price = 5 return $i", "price"),
    ],
)
def test_a_wrong_prefix_is_said_with_both_namespaces(condition: str, name: str) -> None:
    assert f"hint: {name} {Q_TO_P}{name}" in said(condition, IN_P)


@pytest.mark.parametrize(
    ("condition", "name"),
    [
        ("qs:slice()/order", "order"),
        ("qs:slice()//total > 80", "total"),
        ("qs:slice()[order/total > 80]", "order"),
        ("qs:slice()/p:order[total > 80]", "total"),
        ('qs:queue("orders")/order', "order"),
    ],
)
def test_names_in_slices_and_queues_are_compared_too(condition: str, name: str) -> None:
    assert f"hint: {name} {NONE_TO_P}{name}" in said(condition, IN_P, target="byOrder")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("/p:order/@kind", f"@kind {NONE_TO_A}"),
        ('/p:order/@kind = "rush"', f"@kind {NONE_TO_A}"),
        ('/p:order[@kind = "rush"]', f"@kind {NONE_TO_A}"),
        ("qs:slice()/p:order/@kind", f"@kind {NONE_TO_A}"),
        ('/p:order[@p:id = "17"]', '@id is in namespace "urn:p" here, and in no namespace in the document: write @id'),
        ('/p:order/@q:kind = "rush"', '@kind is in namespace "urn:q" here, and in namespace "urn:a" in the document'),
    ],
)
def test_attributes_have_their_namespaces(condition: str, expected: str) -> None:
    assert f"hint: {expected}" in said(condition, IN_P, target="byOrder")


def test_the_default_namespace_is_not_that_of_an_attribute() -> None:
    found = said(
        '/order/@x:kind = "rush"',
        IN_P,
        prolog='declare default element namespace "urn:p"; declare namespace x = "urn:x";',
    )
    assert (
        'hint: @kind is in namespace "urn:x" here, and in namespace "urn:a" in the document: declare namespace a ='
        in found
    )


@pytest.mark.parametrize(("condition", "name"), [("/order/total", "order"), ("//item[price = 5]", "item")])
def test_a_default_namespace_is_named_for_a_message_in_none(condition: str, name: str) -> None:
    found = said(condition, IN_NONE, prolog=DEFAULT)
    assert f'hint: {name} is in namespace "urn:d" here, and in no namespace in the document: Q{{}}{name} means' in found


def test_a_default_namespace_is_named_for_a_message_in_another() -> None:
    found = said("/order", IN_P, prolog=DEFAULT)
    assert (
        'hint: order is in namespace "urn:d" here, and in namespace "urn:p" in the document: declare namespace p'
        in found
    )


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("/order", f"order {NONE_TO_P}order"),
        ("/q:order", f"order {Q_TO_P}order"),
        ('/p:order/@kind = "rush"', f"@kind {NONE_TO_A}"),
    ],
)
def test_a_rule_that_is_not_asked_because_of_a_namespace_names_it(condition: str, expected: str) -> None:
    found = said(condition, IN_P, others=8)
    assert found.startswith("  the message has no "), "the filter has left it out"
    assert f"hint: {expected}" in found


def test_the_names_that_are_there_have_their_namespaces() -> None:
    assert "has no q:*, but p:total, p:item" in said("/p:order/q:*", IN_P)
    assert "has no x, but Q{urn:p}total, Q{urn:p}item" in said("/*/x", IN_P, prolog="")
