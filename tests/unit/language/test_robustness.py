"""No input makes the parser loop, recurse to death, or raise anything but a ProgramError."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demaq.errors import ProgramError
from demaq.language import ast, parse_query, print_query
from demaq.language.loader import check_application
from demaq.language.parser import parse_module
from demaq.language.printing.printer import format_module
from demaq.language.recursion import NESTING_MAX
from tests.support.drawing import draw_cases

DEPTH = 3000
NESTED = {
    "parentheses": ("(", "1", ")"),
    "elements": ("<a>", "", "</a>"),
    "enclosed": ("<a>{", "1", "}</a>"),
    "attributes": ('<a b="{', "1", '}"/>'),
    "calls": ("f(", "1", ")"),
    "predicates": ("a[", "1", "]"),
    "conditions": ("if (1) then ", "1", " else 2"),
    "else if": ("if (1) then 2 else ", "1", ""),
    "loops": ("for $x in 1 return ", "1", ""),
    "lets": ("let $x := ", "1", " return 2"),
    "arrays": ("[", "1", "]"),
    "maps": ("map { 1: ", "1", "}"),
    "functions": ("function() {", "1", "}"),
    "strings": ("``[`{", "1", "}`]``"),
    "computed": ("element a {", "1", "}"),
    "tries": ("try {", "1", "} catch * {}"),
    "switches": ("switch (1) case 2 return ", "1", " default return 3"),
    "quantifiers": ("some $x in 1 satisfies ", "1", ""),
    "look-ups": ("?(", "1", ")"),
    "copies": ("copy $c := ", "<a/>", " modify () return 1"),
    "types": ("1 instance of ", "item()", ""),
    "operators": ("1 + (2 * ", "3", ")"),
}


@pytest.mark.parametrize("what", draw_cases(NESTED, 2))
def test_thousands_of_levels_are_parsed_and_printed(what: str) -> None:
    opening, middle, closing = NESTED[what]
    if what == "types":
        opening, middle, closing = "function(", "item()", ") as item()"
        text = f"1 instance of {opening * DEPTH}{middle}{closing * DEPTH}"
    else:
        text = opening * DEPTH + middle + closing * DEPTH
    tree = parse_query(text)
    assert ast.same_tree(tree, parse_query(print_query(tree)))


@pytest.mark.parametrize("what", draw_cases(NESTED.keys() - {"types"}, 2))
def test_what_is_nested_deeper_than_the_limit_is_refused(what: str) -> None:
    opening, middle, closing = NESTED[what]
    levels = NESTING_MAX + 1
    assert code_of_refusal(opening * levels + middle + closing * levels) == "DQ0102"


def code_of_refusal(text: str) -> str | None:
    try:
        parse_query(text)
    except ProgramError as refusal:  # pytest.raises would keep its traceback, and with it 700,000 objects
        return refusal.code
    return None


@pytest.mark.parametrize("what", draw_cases(["parentheses", "enclosed", "conditions", "functions"], 1))
def test_a_deep_rule_is_checked_and_formatted(what: str, tmp_path: object) -> None:
    opening, middle, closing = NESTED[what]
    deep = opening * DEPTH + middle + closing * DEPTH
    module, errors = parse_module(f"create queue q create rule r for q if ({deep}) then do enqueue <x/> into q")
    assert not errors
    again, errors = parse_module(format_module(module))
    assert not errors
    assert ast.same_tree(module.statements, again.statements)


def test_the_recursion_limit_is_put_back() -> None:
    before = sys.getrecursionlimit()
    assert code_of_refusal("(" * 100_000) == "DQ0102"
    parse_query("1")
    assert sys.getrecursionlimit() == before


CHAINS = ["1 + ", "a/", "$x?a", "(1),", "-", "a or ", "x => f()", "(: c :) ", "1 ! ", "a[1]", "'x' || "]


@pytest.mark.parametrize("unit", draw_cases(CHAINS, 2))
def test_long_chains_are_no_nesting(unit: str) -> None:
    count = NESTING_MAX + 1
    text = {"$x?a": "$x" + "?a" * count, "x => f()": "x" + " => f()" * count, "a[1]": "a" + "[1]" * count}.get(
        unit, unit * count + "1"
    )
    tree = parse_query(text)
    assert ast.same_tree(tree, parse_query(print_query(tree)))


@pytest.mark.parametrize(
    "text",
    [
        "'" + "x" * 1_000_000,
        "(:" * 200_000,
        "<a>" + "x" * 1_000_000,
        "``[" + "`" * 500_000,
        "(# a:b " + "#" * 500_000,
        "&" * 100_000,
    ],
)
def test_what_is_never_closed_is_refused_at_once(text: str) -> None:
    with pytest.raises(ProgramError):
        parse_query(text)


@given(st.text())
def test_any_text_is_a_tree_or_a_program_error(text: str) -> None:
    with contextlib.suppress(ProgramError):
        parse_query(text)
    parse_module(text)


WORDS = [
    "create",
    "queue",
    "property",
    "slicing",
    "collection",
    "rule",
    "for",
    "on",
    "as",
    "value",
    "with",
    "into",
    "key",
    "do",
    "enqueue",
    "reset",
    "if",
    "then",
    "else",
    "let",
    "return",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    "/",
    "//",
    ".",
    "..",
    ",",
    ";",
    ":",
    ":=",
    "=",
    "$x",
    "'a'",
    '"b"',
    "1",
    "1.5",
    "*",
    "@a",
    "xs:string",
    "qs:slice()",
    "<a>",
    "</a>",
    "<a/>",
    "(:",
    ":)",
    "errorqueue",
    "kind",
    "echo",
    "insert",
    "node",
    "delete",
    "copy",
    "modify",
    "transform",
    "map",
    "array",
    "function",
    "#",
    "%",
    "?",
    "!",
    "||",
    "=>",
    "&lt;",
    "&",
    "``[",
    "]``",
    "`{",
    "}`",
    "try",
    "catch",
    "module",
    "declare",
    "import",
]


@given(st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join))
def test_any_words_are_a_tree_or_a_program_error(text: str) -> None:
    with contextlib.suppress(ProgramError):
        parse_query(text)
    parse_module(text)


@given(st.binary(max_size=300))
def test_any_bytes_in_a_file_are_reported_and_never_raised(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "app.dmq")
        file.write_bytes(data)
        check_application(file)


def test_every_beginning_of_a_program_is_a_tree_or_an_error() -> None:
    text = (
        "module m errorqueue e; declare namespace p = 'urn:p';\n"
        "create queue e create queue q kind basic schema 'x.xsd' priority 5\n"
        "create property k as xs:string fixed queue q, e value /p:a[@b = 'c']/text()\n"
        "create slicing s on k (: comment :) create rule r for s errorqueue e\n"
        'if (qs:slice()[//x] and not(<a b="{1}">{{t}}<![CDATA[x]]></a>)) then\n'
        "  let $y := for $z in 1 to 3 return map { 'a': [$z, ``[`{$z}`]``] }\n"
        "  return do enqueue <o>{$y?a}</o> into q with k value 'z', do reset s key 5;"
    )
    for end in range(len(text)):
        parse_module(text[:end])
    module, errors = parse_module(text)
    assert not errors
    assert len(module.statements) == 5
