"""Documents for Saxon and from it: parsed together as if alone, and written as they are."""

from __future__ import annotations

from demaq.evaluation.saxon.processor import DOCUMENTS_PER_PARSE, SMALL_MAX, Saxon

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


def test_documents_parsed_together_are_in_order_and_after_those_before() -> None:
    saxon = Saxon()
    [in_order] = saxon.functions(IN_ORDER)
    before = saxon.parse("<before/>")
    parsed = saxon.parsed
    together = saxon.documents(TEXTS * DOCUMENTS_PER_PARSE)
    assert len(together) == len(TEXTS) * DOCUMENTS_PER_PARSE
    assert saxon.parsed >= parsed + len(together)
    after = saxon.parse("<after/>")
    assert saxon.call(in_order, saxon.array([before, *together, after])) == "true"


def test_carriage_returns_are_written_so_that_they_stay() -> None:
    texts = ["<a>&#13;<b/>&#13;&#10; </a>", "<a>&#13;x</a>", "<a b='&#13;'/>", "<!--\n--><a>&#13;</a><?p <a>?>"]
    saxon = Saxon()
    nodes = [saxon.parse(text) for text in texts]
    [described] = saxon.functions(
        "[function($d as node()) as xs:string { string-join(string-to-codepoints($d), ' ') }]"
    )
    written = saxon.texts(nodes)
    assert not any("\r" in text for text in written)
    again = [saxon.call(described, saxon.parse(text)) for text in written]
    assert again == [saxon.call(described, node) for node in nodes]
    assert again[0] == "13 13 10 32"
