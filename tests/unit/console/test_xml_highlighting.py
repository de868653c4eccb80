"""A body is shown as it is stored, and as text."""

from __future__ import annotations

import html
import random
import re

from demaq.console.xml_highlighting import CHARACTERS_MAX, highlight
from demaq.documents import parse_document
from tests.support.drawing import example_count

VALUES = ('"1 > 2"', "'it is \"so\"'", '"&lt;b&gt;"')
TAG = re.compile(r"<[^>]*>")


def shown_text(body: str) -> str:
    """Return what a reader sees, without white space and the notes of what is folded."""
    text = re.sub(r'<span class="folded">.*?</span></span>', "", str(highlight(body)))
    return "".join(html.unescape(TAG.sub("", text)).split())


def draw_document(chance: random.Random, depth: int = 0) -> str:
    name = chance.choice(("a", "b:c", "x-1", "é"))
    values = [f" {name_}={chance.choice(VALUES)}" for name_ in chance.sample(("p", "q"), chance.randint(0, 2))]
    attributes = "".join(values)
    if depth == 0:
        attributes += ' xmlns:b="urn:b"'
    children = (
        ""
        if depth > 4
        else "".join(
            [
                chance.choice(
                    (
                        "text",
                        "&amp;&lt;",
                        " \n ",
                        "<!-- <no> -->",
                        "<?do it?>",
                        "<![CDATA[<x> & y]]>",
                        draw_document(chance, depth + 1),
                    )
                )
                for _ in range(chance.randint(0, 4))
            ]
        )
    )
    return f"<{name}{attributes}>{children}</{name}>" if children or chance.random() < 0.5 else f"<{name}{attributes}/>"


def test_nothing_is_lost_and_nothing_becomes_markup(chance: random.Random):
    folded = 0
    for _ in range(example_count(200, "CONSOLE_BODIES")):
        body = parse_document(draw_document(chance).encode()).text
        page = str(highlight(body))
        assert shown_text(body) == "".join(body.split())
        known = set(re.findall(r"</?([a-z]+)", page))
        assert known <= {"div", "span", "details", "summary", "pre", "p"}
        folded += "<details" in page
    assert folded


def test_a_deep_document_folds_only_to_a_depth():
    body = "<a>" * 3000 + "</a>" * 3000
    page = str(highlight(body))
    assert page.count("<details") < 60
    assert shown_text(body) == body


def test_of_a_long_body_the_beginning_is_shown_as_text():
    body = "<a>" + "x" * CHARACTERS_MAX + "</a>"
    page = str(highlight(body))
    assert page.startswith('<p class="note">')
    assert "&lt;a&gt;" in page


def test_what_is_no_document_is_text():
    assert str(highlight("<a")) == '<pre class="xml">&lt;a</pre>'
    assert str(highlight("</a><script>")) == '<pre class="xml">&lt;/a&gt;&lt;script&gt;</pre>'
