"""Names that libxml2 reads and Saxon's parser does not are refused where they come in."""

from __future__ import annotations

import contextlib
import random
import time

import pytest

from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.evaluation.saxon.processor import Saxon
from tests.support.drawing import example_count

FORMS = [
    "<{0}/>",
    "<a{0}/>",
    "<a {0}=''/>",
    "<a b{0}=''/>",
    "<a xmlns:{0}='u'/>",
    "<{0}:a xmlns:{0}='u'/>",
    "<a><?{0} x?></a>",
]
SAMPLE = example_count(400, "NAME_CHARACTERS")
SECONDS_MAX = 1.0


def test_what_is_taken_saxon_can_read_whatever_characters_names_have(chance: random.Random):
    saxon = Saxon()
    taken = refused = 0
    for _ in range(SAMPLE):
        character = chr(chance.choice([chance.randrange(0x80, 0xD800), chance.randrange(0xE000, 0x20000)]))
        for form in FORMS:
            text = form.format(character)
            try:
                parse_document(text)
            except MessageError:
                refused += 1
                with pytest.raises(ValueError, match="SXXP0003"):
                    saxon.parse(text)
            else:
                taken += 1
                saxon.parse(text)

    assert taken > SAMPLE
    assert refused > SAMPLE


@pytest.mark.parametrize(
    "text",
    [
        "<größe maß='1'/>",
        "<注文 数='1'><品/></注文>",
        "<a>、。 名。 = 'x' 🍵</a>",
        "<a b='🍵'>x 🍵=\"1\"</a>",
        "<a><!-- <🍵/> --><![CDATA[<🍵 。='1'/>]]></a>",
    ],
)
def test_names_of_every_edition_and_all_characters_in_texts_are_taken(text: str):
    assert parse_document(text).text == text
    Saxon().parse(text)


@pytest.mark.parametrize(
    "text", ["<c\ufeffa/>", "<🍵/>", "<a 。='1'/>", "<?。 x?><a/>", "<a xmlns:。='u'/>", "<\u0640/>"]
)
def test_other_names_are_refused_with_the_name(text: str):
    with pytest.raises(MessageError, match=r"the name '.*' has a character that not every edition"):
        parse_document(text)


@pytest.mark.parametrize("piece", ["。", "<a。", " 。", " 。=", "<a/>。", "<🍵/>", "<a 。='1'/>"])
def test_a_long_text_with_such_characters_is_checked_soon(piece: str):
    text = f"<x>{piece * 100_000}</x>"
    began = time.process_time()
    with contextlib.suppress(MessageError):
        parse_document(text)

    assert time.process_time() - began < SECONDS_MAX * 3
