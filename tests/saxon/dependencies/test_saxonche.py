"""What demaq.evaluation.saxon.processor uses of saxonche beyond its documentation, and the quirks it works around."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import saxonche

FEATURE = "http://saxon.sf.net/feature/"


@pytest.fixture(scope="module")
def processor() -> Any:
    return saxonche.PySaxonProcessor(license=False)


def evaluate(processor: Any, query: str) -> Any:
    compiler = processor.new_xquery_processor()
    compiler.set_query_base_uri("demaq:query")
    return compiler.run_query_to_value(query_text=query)


def error_of(processor: Any, query: str) -> str:
    with pytest.raises(saxonche.PySaxonApiError) as raised:
        evaluate(processor, query)
    return str(raised.value)


def test_a_function_in_an_array_is_called_with_a_list_and_returns_a_value(processor: Any):
    array = evaluate(processor, "[function($a as xs:string) { concat($a, '!') }]").head
    assert array.array_length == 1
    value = array.get(0).head.call([processor.make_string_value("a")])
    assert processor.get_string_value(value.head) == "a!"


def test_a_call_that_returns_nothing_returns_none(processor: Any):
    [function] = [evaluate(processor, "[function() { () }]").head.get(0).head]
    assert function.call([]) is None


def test_an_array_of_documents_is_a_list_of_values_with_a_head(processor: Any):
    array = evaluate(processor, "[document { <a/> }, document { <b/> }]").head
    assert [str(member.head) for member in array.as_list()] == ["<a/>", "<b/>"]


def test_values_are_made_from_python_and_maps_from_texts(processor: Any):
    function = evaluate(processor, "[function($m, $i, $b, $a, $e) { string-join(($m?k, $i + 1, $b, $a?2, count($e)), ' ') }]").head.get(0).head  # fmt: skip
    text = processor.make_string_value("v")
    arguments = [
        processor.make_map2({"k": text}),
        processor.make_integer_value(1),
        processor.make_boolean_value(True),
        processor.make_array([text, text]),
        processor.empty_sequence(),
    ]
    assert processor.get_string_value(function.call(arguments).head) == "v 2 true v 0"


@pytest.mark.parametrize(
    ("query", "beginning", "code"),
    [
        ("1 +", "Static error", "XPST0003"),
        ("let $a := 1\nreturn $b", "Static error", "XPST0008"),
        ("1 + true()", "Type error", "XPTY0004"),
        ("error()", "Error", "FOER0000"),
    ],
)
def test_an_error_is_text_of_a_kind_a_place_and_a_code_on_the_next_line(
    processor: Any, query: str, beginning: str, code: str
):
    first, second = error_of(processor, query).strip().split("\n")[:2]
    assert first.startswith(beginning)
    assert second.split()[0] == code


def test_an_error_names_line_and_column_or_the_character_of_a_single_line(processor: Any):
    assert "on line 2 column 9 of " in error_of(processor, "let $a := 1\nreturn $b")
    assert "at char 4 of " in error_of(processor, "1 +")


def test_carriage_returns_between_elements_are_not_escaped(processor: Any):
    """A parser would make line feeds of them: ours writes references."""
    function = evaluate(processor, "[function($d) { serialize($d) }]").head.get(0).head
    node = processor.parse_xml(xml_text="<a>&#13;<b/></a>")
    assert "&#13;" not in processor.get_string_value(function.call([node]).head)


def test_documents_that_are_parsed_later_are_later_in_document_order(processor: Any):
    function = evaluate(processor, "[function($a, $b) { string($a << $b) }]").head.get(0).head
    first, second = [processor.parse_xml(xml_text=f"<m>{n}</m>") for n in (1, 2)]
    assert processor.get_string_value(function.call([first, second]).head) == "true"
    assert processor.get_string_value(function.call([second, first]).head) == "false"


def test_a_document_that_is_not_well_formed_is_an_error_and_a_complaint_on_stderr(
    processor: Any, capfd: pytest.CaptureFixture[str]
):
    """Ours redirects stderr while it parses."""
    with pytest.raises(saxonche.PySaxonApiError):
        processor.parse_xml(xml_text="<a>")
    assert capfd.readouterr().err != ""


def test_settings_of_saxon_and_of_its_parser_are_configuration_properties():
    own = saxonche.PySaxonProcessor(license=False)
    own.set_configuration_property(f"{FEATURE}parserProperty?uri=jdk.xml.maxElementDepth", "100")
    own.set_configuration_property(
        f"{FEATURE}parserFeature?uri=http%3A//apache.org/xml/features/disallow-doctype-decl", "true"
    )
    own.set_configuration_property(f"{FEATURE}allowedProtocols", "none")
    assert own.parse_xml(xml_text="<a>" * 100 + "</a>" * 100) is not None
    for refused in ("<a>" * 101 + "</a>" * 101, "<!DOCTYPE a><a/>"):
        with pytest.raises(saxonche.PySaxonApiError):
            own.parse_xml(xml_text=refused)
    assert "FODC0005" in error_of(own, "doc('file:///etc/hostname')")


def test_a_path_after_an_exclamation_mark_needs_brackets(processor: Any):
    """Our emitter writes them. Otherwise `a ! .//*` is parsed as `(a ! .)//*`, and each node is there once."""
    query = "document { <m><b><a/><b/></b></m> } ! count(//node() ! %s)"
    counted = [evaluate(processor, query % path).head for path in (".//*", "(.//*)")]
    assert [processor.get_string_value(each) for each in counted] == ["3", "5"]


def test_a_second_thread_with_a_processor_ends_the_process():
    """The console's worker process uses Saxon in its main thread only, and the console not at all."""
    program = """
import threading, saxonche
def use():
    processor = saxonche.PySaxonProcessor(license=False)
    processor.new_xquery_processor().run_query_to_value(query_text="[1, 2]").head.get(1)
    return processor
kept = use()
other = threading.Thread(target=use)
other.start()
other.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert done.returncode == 99
