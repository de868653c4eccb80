"""Expressions of searches: one expression, checked as those of authors are."""

from __future__ import annotations

import re

import pytest

from demaq.errors import OperatorError
from demaq.operations.xpath_filter import FILE, check_expression, write_program


def check(expression: str, **namespaces: str) -> None:
    check_expression({FILE: write_program(expression, namespaces)})


@pytest.mark.parametrize(
    "expression",
    [
        "//order",
        "/o:order[o:total > 100]",
        "exists(//a) and (: ( :) not(//b = ('1', '2'))",
        "some $x in //a satisfies $x",
    ],
)
def test_an_expression_of_any_kind_is_taken(expression: str):
    check(expression, o="urn:example:orders")


@pytest.mark.parametrize(
    "expression",
    [
        "//order[",
        "",
        "doc('file:///etc/passwd')",
        "//x:order",
        "1)) create queue other create property more as xs:string queue other value ((1",
        "1)) create rule r for messages if (/a) then (do enqueue <a/> into messages",
        "do enqueue <a/> into messages",
        "(: never closed",
    ],
)
def test_what_is_not_one_expression_is_refused_in_one_line(expression: str):
    with pytest.raises(OperatorError, match="the expression is wrong") as refusal:
        check(expression)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("expression", "found"), [("//order[", "found its end"), ("1 +", "found its end"), ("1 + )", "found `)`")]
)
def test_nothing_is_said_about_what_is_written_around_an_expression(expression: str, found: str):
    with pytest.raises(OperatorError, match=re.escape(found)):
        check(expression)


@pytest.mark.parametrize(("prefix", "uri"), [("o o", "urn:a"), ("o", 'urn:"a'), ("o", ""), ("1", "urn:a")])
def test_what_is_no_namespace_is_refused(prefix: str, uri: str):
    with pytest.raises(OperatorError, match="a namespace is declared such as"):
        check("//a", **{prefix: uri})
