"""Namespaces in documents from outside: any text without blanks and braces is one, and what they are used for must be right."""

from __future__ import annotations

import random
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest

from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.evaluation.saxon.processor import Saxon
from demaq.xml_parsers import parse_file_content, parse_made
from tests.support.drawing import example_count
from tests.support.programs import Bench, bodies, program

SOME = [
    "http://exämple.org/é",
    "%zz",
    "`^|\\\\",
    'a"b',
    "a'b",
    "a&b",
    "<",
    "\U0001d11e",
    "u#r#s",
]
"""libxml2 takes none of these for a URI, and all but one are no IRI either."""
WRONG = [
    "<a:b>{}</a:b>",
    "<b>{}<a:c/></b>",
    '<b a:c="1">{}</b>',
    '<b xmlns:a="u" xmlns:c="u" a:x="" c:x="">{}</b>',
    '<b xmlns:xml="u">{}</b>',
    '<b xmlns:xmlns="u">{}</b>',
    '<b:c:d xmlns:b="u">{}</b:c:d>',
    '<b xmlns:p="">{}</b>',
    '<b xmlns="http://www.w3.org/2000/xmlns/">{}</b>',
    '<b xmlns:q="http://www.w3.org/XML/1998/namespace">{}</b>',
    "<?a:b c?><b>{}</b>",
    '<b xmlns="a}}b">{}</b>',
    '<b xmlns="urn:x ">{}</b>',
    '<b xmlns:p="a b">{}</b>',
    '<b xmlns="&#10;urn:x">{}</b>',
    '<b xmlns="u"><c xmlns:p="a{{"/>{}</b>',
    "<b>{}</b>?</b>",
    "<b>{}</b><b/>",
    "<b>{}</b>&amp;",
    "<b>{}",
    "<b>{}</c>",
    "<b>{}&c;</b>",
    "<b c='' c=''>{}</b>",
    "<b>{}]]></b>",
    "<b>{}\x01</b>",
    "<b>{}<!-- -- --></b>",
    "<b c='<'>{}</b>",
]
RELATIVE = '<c xmlns="relative"/>'
NO_URI = '<c xmlns="http://exämple.org/"/>'
HIDING = {
    "nothing": "",
    "a relative namespace": RELATIVE,
    "one that is no URI": NO_URI,
    "both": NO_URI + RELATIVE,
    "more than a hundred, after which libxml2 is silent": NO_URI * (120),
    "more than that, and a relative one": NO_URI * (120) + RELATIVE,
    "a strange value of xml:space": '<c xml:space="strange"/>',
    "a reserved name": "<?xml-strange?>",
}


@pytest.mark.parametrize("namespace", SOME)
def test_a_namespace_may_be_any_text(namespace: str) -> None:
    written = quoteattr(namespace).replace("\n", "&#10;")
    body = f"<p:x xmlns:p={written}><y xmlns={written} p:a='1'/></p:x>"

    document = parse_document(body)

    assert document.text == body
    assert document.tree.getroot().nsmap == {"p": namespace}
    assert parse_made(body).nsmap == {"p": namespace}
    assert parse_file_content(body.encode("utf-8")).nsmap == {"p": namespace}


@pytest.mark.parametrize("hiding", HIDING)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_follows_does_not_hide_a_wrong_use(wrong: str, hiding: str) -> None:
    with pytest.raises(MessageError) as refused:
        parse_document(wrong.format(HIDING[hiding]))

    assert refused.value.kind == "notWellFormed"
    assert "valid URI" not in refused.value.message, "the reason is another one"


@pytest.mark.parametrize("hiding", HIDING)
def test_nothing_is_wrong_with_what_hides(hiding: str) -> None:
    assert parse_document(f"<b>{HIDING[hiding]}</b>").text.startswith("<b>")


NAMESPACED = example_count(1500, "NAMESPACED_DOCUMENTS")


def test_what_is_accepted_saxon_reads_too(chance: random.Random) -> None:
    """Documents with drawn declarations, prefixes and names: one that is accepted is read by Saxon, with the same names."""
    saxon = Saxon()
    accepted = 0
    for _ in range(NAMESPACED):
        body = _drawn(chance)
        try:
            document = parse_document(body)
        except MessageError:
            continue
        accepted += 1
        assert saxon.texts([saxon.parse(document.text)]), body
    assert NAMESPACED * 0.08 < accepted < NAMESPACED * 0.93


def _drawn(chance: random.Random) -> str:
    def declarations() -> str:
        names = chance.sample(
            ["xmlns", "xmlns:p", "xmlns:q", "xmlns:xml", "p:a", "q:a", "xml:space"], chance.randrange(4)
        )
        return "".join([f" {name}={_escaped(chance.choice([*SOME, 'relative', 'urn:x', '']))}" for name in names])

    def element(depth: int) -> str:
        name = chance.choice(["a", "p:a", "q:a", "a", "a"])
        content = "".join([element(depth - 1) for _ in range(chance.randrange(3))]) if depth else ""
        return f"<{name}{declarations()}>{content}</{name}>"

    return element(3)


def _escaped(namespace: str) -> str:
    return quoteattr(namespace).replace("\n", "&#10;")


@pytest.mark.parametrize("namespace", ["http://exämple.org/é", "a^b", "urn:ü"])
def test_rules_react_to_messages_in_such_a_namespace(tmp_path: Path, namespace: str) -> None:
    text = (
        f'declare namespace o = "{namespace}"; create queue a create queue b '
        "create rule r for a if (/o:order[@id]) then do enqueue <o:seen>{/o:order/*}</o:seen> into b"
    )
    lab = Bench(program(tmp_path, text))

    outcome = lab.run("a", f'<order xmlns="{namespace}" id="1"><item/></order>')

    [made] = bodies(outcome)
    assert parse_document(made).tree.getroot().tag == f"{{{namespace}}}seen"
    assert f'<item xmlns="{namespace}"' in made
