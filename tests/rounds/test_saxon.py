"""Documents that are parsed together are the same as those that are parsed alone."""

from __future__ import annotations

from demaq.rounds.saxon import DOCUMENTS_PER_PARSE, SMALL_MAX, Saxon

DESCRIBED = """[function($documents as array(*)) as xs:string {
  string-join(for $n in 1 to array:size($documents) let $d := $documents($n) return (
    serialize($d), count($d/node()), count($d//node()), name(root($d/*)), $d instance of document-node(),
    string-join(in-scope-prefixes($d/*), ","), $d/id("x")/name(), path($d/*)), "|") }]"""
IN_ORDER = """[function($documents as array(*)) as xs:string {
  string(every $n in 2 to array:size($documents) satisfies $documents($n - 1) << $documents($n)) }]"""
TEXTS = (
    "<a/>",
    "<!--before--><a xml:space='preserve'> <b xml:id='x'/> </a><?after all?>",
    '<p:a xmlns:p="urn:p" xmlns:q="urn:q" xmlns="urn:d"><b p:c="&amp;&lt;&#13;"/></p:a>',
    f"<a>{'é' * SMALL_MAX}</a>",
    "<a><![CDATA[<]]>\n</a>",
)


def test_documents_parsed_together_are_as_if_parsed_alone() -> None:
    saxon = Saxon()
    [described] = saxon.functions(DESCRIBED)
    alone = saxon.array([saxon.parse(text) for text in TEXTS])
    assert saxon.call(described, saxon.array(saxon.documents(TEXTS))) == saxon.call(described, alone)


def test_documents_parsed_together_are_in_order_and_behind_those_before() -> None:
    saxon = Saxon()
    [in_order] = saxon.functions(IN_ORDER)
    before = saxon.parse("<before/>")
    parsed = saxon.parsed
    together = saxon.documents(TEXTS * DOCUMENTS_PER_PARSE)
    assert len(together) == len(TEXTS) * DOCUMENTS_PER_PARSE
    assert saxon.parsed >= parsed + len(together)
    after = saxon.parse("<after/>")
    assert saxon.call(in_order, saxon.array([before, *together, after])) == "true"
