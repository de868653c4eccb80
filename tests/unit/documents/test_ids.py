"""Values of `xml:id` in documents: a parser may have something against them, but they make no document wrong."""

from __future__ import annotations

import pytest

from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.xml_parsers import parse_made

ID = "{http://www.w3.org/XML/1998/namespace}id"


@pytest.mark.parametrize("value", ["z", "1 z", "", "http://example.org/", "a:b"])
def test_an_id_may_be_any_text_and_occur_twice(value: str):
    text = f'<m><a xml:id="{value}"/><b xml:id="{value}"/></m>'
    document = parse_document(text.encode())
    assert document.text == text
    assert [element.get(ID) for element in document.tree.getroot()] == [value, value]
    assert [element.get(ID) for element in parse_made(text)] == [value, value]


def test_blanks_around_an_id_are_removed_from_the_tree_as_saxon_does():
    text = '<m xml:id=" a  b&#9;"><n id=" c "/></m>'
    document = parse_document(text)
    root = document.tree.getroot()
    assert (root.get(ID), root[0].get("id")) == ("a  b", " c ")
    assert document.text == text


@pytest.mark.parametrize(
    "text",
    ['<m xml:id="1"><a></m>', '<m xml:id="a" xml:id="b"/>', '<m xml:id="1" xmlns:x=""/>', '<m xml:id="1"><u:a/></m>'],
)
def test_other_errors_beside_such_an_id_are_found(text: str):
    with pytest.raises(MessageError):
        parse_document(text)
