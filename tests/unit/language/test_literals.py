"""A string literal counts by its value wherever one may stand: references in it are resolved first."""

from __future__ import annotations

from pathlib import Path

import pytest

from demaq.language import ast
from demaq.language.parser import parse_module, parse_query
from tests.support.language.checking import check

CODEPOINT = "http://www.w3.org/2005/xpath-functions/collation/codepoint"


def referenced(text: str) -> str:
    """The text with every character as a reference."""
    return "".join([f"&#{ord(character)};" for character in text])


@pytest.mark.parametrize(
    "query",
    [
        "xquery version '{3.1}' encoding '{UTF-8}'; 1",
        "module namespace p = '{urn:p}';",
        "declare namespace p = '{urn:p}'; 1",
        "declare default element namespace '{urn:p}'; 1",
        "declare default collation '{" + CODEPOINT + "}'; 1",
        "declare base-uri '{urn:p}'; 1",
        "declare decimal-format d NaN = '{x}'; 1",
        "declare option p:o '{value}'; 1",
        "import module namespace p = '{urn:p}' at '{p.xqm}', '{q.xqm}'; 1",
        "declare %p:a('{value}') variable $x := 1; 1",
        "for $x in 1 order by $x collation '{" + CODEPOINT + "}' return 1",
        "Q{{urn:p}}a",
    ],
)
def test_a_query_reads_references_like_the_characters_they_stand_for(query: str):
    plain, resolved = _pair(query)
    assert ast.same_tree(parse_query(plain), parse_query(resolved))


@pytest.mark.parametrize(
    "statement",
    [
        "create queue q kind incomingGateway schema '{a.xsd}' interface '{b.wsdl}' port '{P}' endpoint '{http:/x}'",
        "create queue q kind outgoingGateway using WS-Security policy '{c.xml}'",
        "create property p as xs:string queue q value '{v}'",
    ],
)
def test_a_statement_reads_references_like_the_characters_they_stand_for(statement: str):
    plain, resolved = _pair(statement)
    (first, no_errors), (second, none_either) = parse_module(plain), parse_module(resolved)
    assert not no_errors
    assert not none_either
    assert ast.same_tree(first, second)


def test_a_library_with_a_reference_in_its_encoding_is_imported(tmp_path: Path):
    library = "xquery version '3.1' encoding 'UTF&#x2d;8'; module namespace l = 'urn:l'; declare variable $l:one := 1;"
    text = (
        "import module namespace l = '&#x75;rn:l' at 'l&#46;xqm'; create queue q\n"
        "create rule r for q if ($l:one) then do enqueue <a/> into q"
    )
    assert check(tmp_path, text, {"l.xqm": library}).errors == []


def _pair(text: str) -> tuple[str, str]:
    """The text as it is, and with what stands in braces as references."""
    plain = resolved = ""
    rest = text
    while "{" in rest and "}" in rest:
        before, _, rest = rest.partition("{")
        if rest.startswith("{"):
            inside, _, rest = rest[1:].partition("}}")
            plain, resolved = f"{plain}{before}{{{inside}}}", f"{resolved}{before}{{{referenced(inside)}}}"
        else:
            inside, _, rest = rest.partition("}")
            plain, resolved = plain + before + inside, resolved + before + referenced(inside)
    return plain + rest, resolved + rest
