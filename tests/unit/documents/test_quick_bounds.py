"""Most documents are not looked at closely: what is counted in them proves that they are within the bounds."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from demaq import xml_bounds
from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.xml_bounds import (
    _ATTRIBUTE_NAME,
    _ELEMENT_NAME,
    ATTRIBUTES_MAX,
    NAMES_MAX,
    _are_names_frequent,
    _may_have_many_attributes,
    count_marks,
)

PIECES = st.sampled_from(
    ["<a>", "<a ", "<ab>", "<b/>", "</a>", ' a="1"', " a='", ' ba="', ' b = "', "\na='", "<a=", "=", "<", " ", "x", '"']
)
ITEM = '<item name="n" price="1"/>'


@given(st.lists(PIECES, max_size=60), st.integers(1, 5))
@example(["<a>"] * 9 + [f"<a{n}>" for n in range(9)], 5)
def test_names_are_never_taken_for_frequent_where_there_are_too_many(pieces: list[str], names_max: int) -> None:
    text = "".join(pieces)
    names = {*_ELEMENT_NAME.findall(text), *_ATTRIBUTE_NAME.findall(text)}
    with patch.object(xml_bounds, "NAMES_MAX", names_max):
        is_proved = _are_names_frequent(text, count_marks(text).nodes)
    assert not is_proved or len(names) <= names_max


def test_a_document_of_many_equal_items_needs_no_closer_look() -> None:
    text = f"<items>{ITEM * NAMES_MAX}</items>"
    with patch.object(xml_bounds, "_check_name_count", side_effect=AssertionError):
        assert parse_document(text).text == text


@pytest.mark.parametrize("place", ["before", "around", "after"])
def test_many_names_are_found_wherever_they_stand_among_equal_items(place: str) -> None:
    many = [f"<n{number}/>" for number in range(NAMES_MAX)]
    half = len(many) // 2
    equal = ITEM * NAMES_MAX
    inside = {
        "before": ["".join(many), equal],
        "around": ["".join(many[:half]), equal, "".join(many[half:])],
        "after": [equal, "".join(many)],
    }
    with pytest.raises(MessageError, match="different names"):
        parse_document(f"<items>{''.join(inside[place])}</items>")


@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(ATTRIBUTES_MAX - 1, ATTRIBUTES_MAX + 2))
def test_no_element_with_many_attributes_is_overlooked(before: int, after: int, count: int) -> None:
    attributes = "".join([f" {chr(0x4E00 + number)}=''" for number in range(count)])  # names of one character
    text = f"<x>{'a' * before}<y{attributes}/>{'b' * after}</x>"
    if count > ATTRIBUTES_MAX:
        assert _may_have_many_attributes(text)
        with pytest.raises(MessageError, match="attributes"):
            parse_document(text)
    else:
        assert parse_document(text).text == text


def test_where_tags_are_frequent_no_element_has_many_attributes() -> None:
    assert not _may_have_many_attributes("<x>" + "<a b='1'>text</a>" * 1000 + "</x>")


def test_marks_of_a_document_in_another_encoding_are_counted_in_its_text() -> None:
    text = "<x>" + "".join([f"<n{number}/>" for number in range(NAMES_MAX)]) + "</x>"
    data = text.encode("utf-16")
    with pytest.raises(MessageError, match="different names"):
        parse_document(data, count_marks(b""))
