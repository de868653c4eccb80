"""Documents that are made to harm: refused in a moment, with a short reason, or read as what they are."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from demaq.documents import REASON_CHARACTERS_MAX, parse_document
from demaq.errors import MessageError

REFUSAL_SECONDS_MAX = 1.0
"""Most take a few milliseconds."""
REFUSAL_GROWTH_MAX = 16
"""So many times its own size a refused document may take of Python's memory."""
MEGABYTE = 1_000_000

_LAUGHS = "".join([f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12)])
HOSTILE = {
    "billion laughs": f'<!DOCTYPE l [<!ENTITY a0 "ha">{_LAUGHS}]><l>&a11;</l>'.encode(),
    "quadratic blow-up": b'<!DOCTYPE l [<!ENTITY a "' + b"a" * 100_000 + b'">]><l>' + b"&a;" * 50_000 + b"</l>",
    "quadratic attribute": b'<!DOCTYPE l [<!ENTITY a "' + b"a" * 100_000 + b'">]><l a="' + b"&a;" * 50_000 + b'"/>',
    "external entity": b'<!DOCTYPE l [<!ENTITY a SYSTEM "file:///etc/passwd">]><l>&a;</l>',
    "external document type": b'<!DOCTYPE l SYSTEM "http://127.0.0.1:1/x.dtd"><l/>',
    "parameter entity": b'<!DOCTYPE l [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]><l/>',
    "deep nesting": b"<a>" * MEGABYTE,
    "huge element name": b"<" + b"a" * MEGABYTE + b"/>",
    "huge attribute name": b"<x " + b"a" * MEGABYTE + b"='1'/>",
    "long name that does not end": b"<" + b"a" * 49_000 + b"></x>",
    "long prefix": b"<" + b"a" * 40_000 + b":x/>",
    "one attribute again and again": b"<x " + b"a='1' " * 100_000 + b"/>",
    "many namespaces": b"<x " + b" ".join([b"xmlns:a%d='u%d'" % (n, n) for n in range(50_000)]) + b"/>",
    "many comments before": b"<!--a-->" * 500_000 + b"<x/>",
    "many instructions behind": b"<x/>" + b"<?a?>" * 500_000,
    "overlong UTF-8": b"<order>\xc0\xbc</order>",
    "EBCDIC": '<?xml version="1.0" encoding="cp037"?><order/>'.encode("cp037"),
    "declared UTF-16 that is none": b'<?xml version="1.0" encoding="utf-16"?><order/>',
    "character that is none": b"<x>&#xD800;</x>",
    "nothing but a mark": b"\xff\xfe",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_made_to_harm_is_refused_in_a_moment(name: str):
    body = HOSTILE[name]
    began = time.process_time()
    with pytest.raises(MessageError) as refused:
        parse_document(body)
    seconds = time.process_time() - began
    tracemalloc.start()
    with pytest.raises(MessageError):
        parse_document(body)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert refused.value.kind == "notWellFormed"
    assert len(refused.value.message) < REASON_CHARACTERS_MAX + 50
    assert seconds < REFUSAL_SECONDS_MAX
    assert memory < REFUSAL_GROWTH_MAX * max(len(body), MEGABYTE)


@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-8-sig"]
)
@pytest.mark.parametrize("letter", ["u", "ü"])
def test_a_text_is_that_of_the_tree_in_encodings_that_are_not_declared(encoding: str, letter: str):
    document = parse_document(f'<?xml version="1.0"?><order>{letter}</order>'.encode(encoding))

    assert document.text == f"<order>{letter}</order>"
    assert document.tree.getroot().text == letter


@pytest.mark.parametrize("space", [1, 300, 5000])
def test_a_text_is_that_of_the_tree_wherever_the_encoding_is_declared(space: int):
    declaration = b'<?xml version="1.0"' + b" " * space + b'encoding="iso-8859-1"?>'
    document = parse_document(declaration + "<order>Ã¼</order>".encode("latin-1"))

    assert document.text == "<order>Ã¼</order>"
    assert document.tree.getroot().text == "Ã¼"


def test_attributes_in_great_number_are_read_in_time_that_grows_with_them():
    began = time.process_time()
    parse_document(b"<x " + b" ".join([b"a%d=''" % n for n in range(100_000)]) + b"/>")

    assert time.process_time() - began < REFUSAL_SECONDS_MAX
