"""Where XML parsers are made, all of them, and what they may do."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import demaq
from demaq.evaluation.saxon import processor
from demaq.xml_parsers import OPTIONS, TOLERANT

SOURCES = Path(demaq.__file__).parent
MAKERS = {
    "XMLParser", "XMLPullParser", "HTMLParser", "HTMLPullParser", "XMLTreeBuilder", "iterparse", "parse", "fromstring", "fromstringlist",
    "XML", "XMLID", "XMLDTDID", "HTML", "parseid", "DTD", "XInclude", "XSLT", "objectify", "ParserCreate", "make_parser",
    "parseString", "PySaxonProcessor", "parse_xml", "parse_json", "new_document_builder", "new_xslt30_processor",
}  # fmt: skip
"""Calls that make a parser or parse."""
MODULES = {"etree", "objectify", "saxonche", "expat", "minidom", "pulldom", "sax", "xmlrpc", "ElementTree"}
"""Things of these modules, or of the processor, count."""
PLACES = {
    "xml_parsers.py": [
        *["etree.XMLParser"] * 4,
        "etree.XMLPullParser",
        *["etree.fromstring"] * 4,
        "etree.parse",
        *["expat.ParserCreate"] * 3,
    ],
    "evaluation/saxon/processor.py": ["_processor.parse_xml", "saxonche.PySaxonProcessor"],
}
"""Every place, by file. Who adds one thinks about what it may do, and about who wrote what it reads."""
PARSER_ARGUMENTS = ("_parser", "parser", "file_parser()", "_mine.parser")


@functools.cache
def nodes() -> list[tuple[str, ast.AST]]:
    """Return the calls and imports of all files that name such a module, each with its file."""
    files = [(file.relative_to(SOURCES).as_posix(), file.read_text()) for file in SOURCES.rglob("*.py")]
    return [
        (file, node)
        for file, text in files
        if re.search(rf"\b({'|'.join(MODULES)}|_processor)\b", text)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call | ast.Import | ast.ImportFrom)
    ]


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    for file, node in nodes():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAKERS:
            owner = ast.unparse(node.func.value).rpartition(".")[2]
            if owner in MODULES or owner == "_processor":
                yield file, f"{owner}.{node.func.attr}", node


def imports() -> Iterator[tuple[str, str]]:
    for file, node in nodes():
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from [(file, f"{node.module}.{name.name}") for name in node.names]
        elif isinstance(node, ast.Import):
            yield from [(file, name.name) for name in node.names]


def test_parsers_are_made_at_these_places_only():
    found: dict[str, list[str]] = {}
    for file, call, _ in calls():
        found.setdefault(file, []).append(call)

    assert {file: sorted(names) for file, names in found.items()} == PLACES


def test_every_call_of_a_parser_says_which():
    for file, call, node in calls():
        if call in ("etree.fromstring", "etree.parse"):
            assert len(node.args) >= 2, f"{file}:{node.lineno} uses lxml's own parser"
            assert ast.unparse(node.args[1]) in PARSER_ARGUMENTS, f"{file}:{node.lineno}"
        elif call.startswith("etree.XML"):
            made_with = ast.unparse(node)
            assert any([f"**{o}" in made_with for o in ("OPTIONS", "TOLERANT", "options")]), f"{file}:{node.lineno}"
        elif call == "expat.ParserCreate":
            assert file == "xml_parsers.py", "it sees what libxml2 has parsed"


def test_no_other_library_parses_xml():
    others = (
        "xml.dom",
        "xml.etree",
        "xml.sax",
        "xml.parsers",
        "lxml.objectify",
        "lxml.html",
        "bs4",
        "defusedxml",
        "xmltodict",
    )
    found = [(file, name) for file, name in imports() if name.startswith(others)]

    others_known = [("xml_parsers.py", "xml.parsers.expat")]
    assert [(file, name) for file, name in found if not name.startswith("xml.sax.saxutils")] == others_known


def test_parsers_of_libxml2_resolve_nothing_and_reach_for_nothing():
    assert OPTIONS == {
        "resolve_entities": False,
        "no_network": True,
        "load_dtd": False,
        "dtd_validation": False,
        "attribute_defaults": False,
        "huge_tree": False,
        "recover": False,
    }
    assert {**TOLERANT, "recover": False} == OPTIONS
    assert "collect_ids" not in OPTIONS, "False makes libxml2 open the external document type"


def test_saxon_reaches_for_nothing_and_takes_no_document_type():
    settings = processor._SETTINGS

    assert settings["allowedProtocols"] == "none"
    assert settings["allow-external-functions"] == "false"
    assert settings["parserFeature?uri=http%3A//apache.org/xml/features/disallow-doctype-decl"] == "true"
