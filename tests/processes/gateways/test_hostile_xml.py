"""Documents that are made to harm: refused in a moment, with a short reason, or read as what they are."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import time
import tracemalloc

import pytest

from demaq.documents import REASON_CHARACTERS_MAX, parse_document
from demaq.errors import MessageError
from demaq.xml_bounds import (
    ATTRIBUTES_MAX,
    NAME_CHARACTERS_MAX,
    NAMES_MAX,
    NAMESPACES_MAX,
    NODES_MAX,
    TEXT_BYTES_MAX,
)

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


ATTRIBUTES = " ".join([f"a{n}=''" for n in range(ATTRIBUTES_MAX)])
COLLIDING = ["".join(word) for word in itertools.product(["Aa", "BB"], repeat=13)]
"""Names that are one and the same to Java's hash tables."""
AT_THE_BOUND = {
    "attributes of one element": f"<x {ATTRIBUTES}/>",
    "different names": "<x>" + "".join([f"<a{n}/>" for n in range(NAMES_MAX - 1)]) + "</x>",
    "different names of attributes": "<x>" + "".join([f"<x a{n}=''/>" for n in range(NAMES_MAX - 1)]) + "</x>",
    "length of a name": f"<{'a' * NAME_CHARACTERS_MAX}/>",
    "length of an attribute's name": f"<x {'a' * NAME_CHARACTERS_MAX}=''/>",
    "different namespaces": "<x>" + "".join([f"<a xmlns='u{n}'/>" for n in range(NAMESPACES_MAX)]) + "</x>",
    "different prefixes": "<x>" + "".join([f"<a xmlns:p{n}='u'/>" for n in range(NAMESPACES_MAX)]) + "</x>",
    "namespaces side by side": "<x>" + "<a xmlns='u' xmlns:p='v'/>" * 5_000 + "</x>",
    "elements": "<x>" + "<a/>" * (NODES_MAX - 1) + "</x>",
    "what is no element": "<x>" + "<![CDATA[" + "<a/>" * (NODES_MAX + 10) + "]]></x>",
}
BEYOND = {
    "attributes of one element": f"<x {ATTRIBUTES} z=''/>",
    "different names": "<x>" + "".join([f"<a{n}/>" for n in range(NAMES_MAX)]) + "</x>",
    "different names of attributes": "<x>" + "".join([f"<x a{n}=''/>" for n in range(NAMES_MAX)]) + "</x>",
    "colliding names": "<x>" + "".join([f"<{name}/>" for name in COLLIDING]) + "</x>",
    "colliding attributes": "<x " + " ".join([f"{name}=''" for name in COLLIDING]) + "/>",
    "length of a name": f"<{'a' * (NAME_CHARACTERS_MAX + 1)}/>",
    "length of an attribute's name": f"<x {'a' * (NAME_CHARACTERS_MAX + 1)} = ''/>",
    "different namespaces": "<x>" + "".join([f"<a xmlns='u{n}'/>" for n in range(NAMESPACES_MAX + 1)]) + "</x>",
    "different prefixes": "<x>" + "".join([f"<a xmlns:p{n}='u'/>" for n in range(NAMESPACES_MAX + 1)]) + "</x>",
    "namespaces inside each other": "<x xmlns:a='a' xmlns:b='b' xmlns:c='c' xmlns:d='d' xmlns:e='e'>" * 250
    + "</x>" * 250,
    "elements": "<x>" + "a<a/>" * NODES_MAX + "</x>",
    "comments": "<x>" + "<!---->" * NODES_MAX + "</x>",
    "attributes": "<x>" + "<a b='' c='' d=''/>" * (NODES_MAX // 4 + 1_000) + "</x>",
    "text": f"<x>{'a' * (TEXT_BYTES_MAX + 10_000)}</x>",
    "value of an attribute": f"<x a='{'a' * (TEXT_BYTES_MAX + 10_000)}'/>",
}


@pytest.mark.parametrize("name", AT_THE_BOUND)
def test_as_much_as_a_document_may_hold_is_taken(name: str):
    assert parse_document(AT_THE_BOUND[name]).tree.getroot() is not None


@pytest.mark.parametrize("name", BEYOND)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_more_than_a_document_may_hold_is_refused_and_soon(name: str, encoding: str):
    data = BEYOND[name].encode(encoding)
    began = time.process_time()
    with pytest.raises(MessageError, match=r"more than [0-9,]+") as refused:
        parse_document(data)

    assert refused.value.kind == "notWellFormed"
    assert "HUGE" not in refused.value.message
    assert time.process_time() - began < REFUSAL_SECONDS_MAX * 2


@pytest.mark.parametrize(
    "text",
    [
        "<!--" * 500_000,
        "<![CDATA[" * 500_000,
        " a=" * 700_000,
        "<a b='" * 300_000,
        "xmlns  " * 300_000,
        "xmlns:a" * 30_000,
        "<b" + " xmlns:a" * 30_000,
        "<b" + " xmlns:a='" * 30_000,
        "<a b=\"'" * 300_000,
    ],
    ids=lambda text: str(text)[:10],
)
def test_whatever_is_written_the_bounds_are_checked_in_time_that_grows_with_it(text: str):
    """That of half the text must not be a quarter, which is what takes the square of it."""
    times = []
    for part in (text[: len(text) // 4], text):
        began = time.process_time()
        with contextlib.suppress(MessageError):
            parse_document(f"<x>{part}</x>")
        times.append(time.process_time() - began)

    assert times[1] < max(8 * times[0], REFUSAL_SECONDS_MAX)


def test_the_tree_of_a_document_takes_no_more_memory_than_is_counted_for_it():
    shapes = ["a<a/>", "<a>b</a>c", "<a b='' c='1'/>", "<!---->", "<a><b/></a>", "<?a?>x"]
    program = (
        "import sys, resource; from demaq.xml_parsers import parse_characters; from demaq.xml_bounds import *\n"
        "body = ('<x>' + sys.argv[1] * 100_000 + '</x>').encode()\n"
        "size = lambda: int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize()\n"
        "before = size(); root = parse_characters(body); print(size() - before, tree_bytes(count_marks(body)))\n"
    )
    for shape in shapes:
        answer = subprocess.run([sys.executable, "-c", program, shape], capture_output=True, check=True, text=True)
        taken, counted = [int(word) for word in answer.stdout.split()]
        assert taken / 3 < counted, shape
        assert taken < counted * 1.1, shape
