"""Envelopes: what is taken out of them, what is put into them, which ones are refused."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.soap import Envelope, SoapRefusal, detect_version, read_envelope, write_envelope
from demaq.soap.envelope import HEADERS_MAX
from demaq.soap.qualified_names import ENVELOPES
from demaq.soap.standalone import NAMESPACES_MAX

VERSIONS = ["1.1", "1.2"]
SECURITY = "{urn:security}Security"


def read(data, understood=frozenset()):
    return read_envelope(parse_document(data).tree, understood)


def envelope(version, inside):
    return f'<e:Envelope xmlns:e="{ENVELOPES[version]}">{inside}</e:Envelope>'


def refusal(data, understood=frozenset()):
    with pytest.raises(SoapRefusal) as caught:
        read(data, understood)
    return caught.value


@pytest.mark.parametrize("version", VERSIONS)
def test_the_element_in_the_body_becomes_a_document(version):
    text = envelope(version, '<e:Header/><!-- c --><e:Body id="b"> <?pi?><order><item/></order> </e:Body>')
    assert read(text) == Envelope(version=version, body="<order><item/></order>", body_name="order")


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_body_is_none(version):
    assert read(envelope(version, "<e:Body/>")).body is None
    assert read(write_envelope(version, None)).body is None


def test_prefixes_in_the_content_keep_their_meaning():
    text = f"""<e:Envelope xmlns:e="{ENVELOPES["1.1"]}" xmlns:i="urn:i" xmlns:t="urn:t" xmlns:p="urn:p" xmlns:q="urn:q">
      <e:Body xmlns="urn:d"><order i:type="t:Gift" path="/p:a">q</order></e:Body></e:Envelope>"""
    body = read(text).body
    assert body is not None
    order = etree.fromstring(body)
    assert order.tag == "{urn:d}order"
    assert order.nsmap == {None: "urn:d", "i": "urn:i", "t": "urn:t", "p": "urn:p", "q": "urn:q"}


def test_prefixes_that_occur_nowhere_are_removed():
    text = f'<e:Envelope xmlns:e="{ENVELOPES["1.1"]}" xmlns:un="urn:used"><e:Body><unusual/></e:Body></e:Envelope>'
    assert read(text).body == "<unusual/>"


def test_a_default_namespace_that_is_taken_back_stays_so():
    text = f'<Envelope xmlns="{ENVELOPES["1.1"]}"><Body><order xmlns=""><a/></order></Body></Envelope>'
    body = read(text).body
    assert body is not None
    assert [element.tag for element in etree.fromstring(body).iter()] == ["order", "a"]


@pytest.mark.parametrize(("version", "role"), [("1.1", "actor"), ("1.2", "role")])
def test_header_blocks_are_kept_with_whom_they_are_for(version, role):
    blocks = f'<s:Security xmlns:s="urn:security" e:mustUnderstand="1" e:{role}="urn:hub"><s:k/></s:Security><plain/>'
    security, plain = read(envelope(version, f"<e:Header>{blocks}</e:Header><e:Body/>")).headers
    assert (security.name, security.must_understand, security.role) == (SECURITY, True, "urn:hub")
    assert etree.fromstring(security.text).tag == SECURITY
    assert (plain.name, plain.must_understand, plain.role, plain.text) == ("plain", False, None, "<plain/>")


@pytest.mark.parametrize("true", ["1", "true", " 1 "])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_block_that_has_to_be_understood_and_is_not_is_refused(version, true):
    block = f'<s:Security xmlns:s="urn:security" e:mustUnderstand="{true}"/>'
    text = envelope(version, f"<e:Header>{block}</e:Header><e:Body/>")
    error = refusal(text)
    assert (error.fault, error.version, error.not_understood) == ("MustUnderstand", version, (SECURITY,))
    assert read(text, frozenset({SECURITY})).headers[0].must_understand


@pytest.mark.parametrize(
    ("version", "role", "is_ours"),
    [
        ("1.1", "actor='http://schemas.xmlsoap.org/soap/actor/next'", True),
        ("1.1", "actor=''", True),
        ("1.1", "actor='urn:somebody'", False),
        ("1.2", "role='http://www.w3.org/2003/05/soap-envelope/role/next'", True),
        ("1.2", "role='http://www.w3.org/2003/05/soap-envelope/role/ultimateReceiver'", True),
        ("1.2", "role='http://www.w3.org/2003/05/soap-envelope/role/none'", False),
    ],
)
def test_only_blocks_for_us_have_to_be_understood_by_us(version, role, is_ours):
    block = f"<s:Security xmlns:s='urn:security' e:mustUnderstand='1' e:{role}/>"
    text = envelope(version, f"<e:Header>{block}</e:Header><e:Body/>")
    if is_ours:
        assert refusal(text).fault == "MustUnderstand"
    else:
        assert read(text).body is None


def test_an_envelope_of_another_namespace_is_a_version_mismatch():
    tree = parse_document('<Envelope xmlns="urn:soap-9"><Body/></Envelope>').tree
    with pytest.raises(SoapRefusal) as caught:
        detect_version(tree)
    assert caught.value.fault == "VersionMismatch"
    assert refusal("<Envelope/>").fault == "VersionMismatch"


def test_an_envelope_without_body_is_a_document_like_any_other_until_it_is_opened():
    text = '<g:Envelope xmlns:g="urn:rates"><g:Sender/><Cube/></g:Envelope>'
    assert detect_version(parse_document(text).tree) is None
    assert refusal(text).fault == "VersionMismatch"


def test_long_names_are_not_repeated_in_full():
    name = "n" * 999
    for inside in (f"<{name}/>", f"<e:Header><{name} e:mustUnderstand='1'/></e:Header><e:Body/>"):
        assert len(refusal(envelope("1.1", inside)).message) < 700
    assert len(refusal(f"<{name}/>").message) < 700


def test_any_other_document_is_no_envelope():
    assert detect_version(parse_document("<order/>").tree) is None
    assert refusal("<order/>").fault == "Client"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "inside",
    [
        "",
        "<e:Header/>",
        "<e:Body/><e:Body/>",
        "<e:Body/><e:Header/>",
        "<e:Header/><e:Header/><e:Body/>",
        "<e:Body/><more/>",
        "<Body/>",
        "<e:Body><a/><b/></e:Body>",
        "<e:Body>text</e:Body>",
        "<e:Body><a/>text</e:Body>",
        "<order/>",
    ],
)
def test_an_envelope_of_another_shape_is_refused(version, inside):
    error = refusal(envelope(version, inside))
    assert (error.fault, error.version, error.kind) == ("Client", version, "schemaViolation")


def test_thousands_of_header_blocks_are_refused():
    few = envelope("1.1", f"<e:Header>{'<h/>' * HEADERS_MAX}</e:Header><e:Body/>")
    assert len(read(few).headers) == HEADERS_MAX
    many = envelope("1.1", f"<e:Header>{'<h/>' * 5000}</e:Header><e:Body/>")
    assert "more than 100 blocks" in refusal(many).message


@pytest.mark.parametrize("inside", ["<e:Body><a/></e:Body>", "<e:Header><a/></e:Header><e:Body/>"])
def test_hundreds_of_namespaces_are_refused(inside):
    def with_namespaces(count):
        declared = "".join([f' xmlns:p{number}="urn:p{number}"' for number in range(count)])
        return f'<e:Envelope xmlns:e="{ENVELOPES["1.2"]}"{declared}>{inside}</e:Envelope>'

    error = refusal(with_namespaces(230))
    assert (error.fault, error.version) == ("Client", "1.2")
    assert "more than 200 namespaces" in error.message
    found = read(with_namespaces(NAMESPACES_MAX - 1))
    text = found.body if found.body is not None else found.headers[0].text
    assert len(etree.fromstring(text).nsmap) == NAMESPACES_MAX


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"junk",
        b"\x00\xff\xfe",
        b"<!DOCTYPE e><e/>",
        b'<!DOCTYPE e [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><e>&b;&b;</e>',
        envelope("1.1", "<e:Body>" + "<a>" * 400 + "</a>" * 400 + "</e:Body>").encode(),
        envelope("1.1", "<e:Body><p:a/></e:Body>").encode(),
    ],
)
def test_what_is_no_allowed_document_never_gets_so_far(data):
    with pytest.raises(MessageError) as caught:
        read(data)
    assert caught.value.kind == "notWellFormed"


def test_header_blocks_are_written_before_the_body():
    data = write_envelope("1.2", '<?xml version="1.0"?><a/>', ["<h>1</h>", "<h>2</h>"])
    found = read(data)
    assert [header.text for header in found.headers] == ["<h>1</h>", "<h>2</h>"]
    assert found.body == "<a/>"


def test_a_refusal_survives_being_sent_between_processes():
    error = SoapRefusal("MustUnderstand", "no", version="1.2", not_understood=["{a}b"])
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.fault, copy.message, copy.version, copy.not_understood) == ("MustUnderstand", "no", "1.2", ("{a}b",))


PREFIXES = st.sampled_from([None, "a", "b", "soapenv", "e"])
URIS = st.sampled_from(["urn:a", "urn:b", "urn:a&b", *ENVELOPES.values()])
LOCALS = st.sampled_from(["order", "Body", "Envelope", "x"])
TEXTS = st.text("ab <&>\"'\r\n\t:\u00e9\U0001f600", max_size=6) | st.sampled_from(["soapenv:Client", "a:x"])


@st.composite
def elements(draw, depth=3):
    """A tree of elements with namespaces, whose text may look like names with prefixes."""
    declared = draw(st.dictionaries(PREFIXES, URIS, max_size=3))
    namespace = draw(st.sampled_from(["", *declared.values()]))
    element = etree.Element(f"{{{namespace}}}{draw(LOCALS)}" if namespace else draw(LOCALS), nsmap=declared)
    for name, value in draw(st.dictionaries(LOCALS, TEXTS, max_size=2)).items():
        element.set(name, value)
    element.text = draw(TEXTS)
    if depth:
        for child in draw(st.lists(elements(depth=depth - 1), max_size=2)):
            child.tail = draw(TEXTS)
            element.append(child)
    return element


def as_written(element):
    """As a parser and lxml would write it again."""
    return etree.tostring(etree.fromstring(etree.tostring(element)), encoding="unicode")


def tree_of(text):
    """All that a rule can see of a document, with what prefixes in its content stand for."""
    return [
        (element.tag, element.text, element.tail, sorted(element.attrib.items()), set(element.nsmap.items()))
        for element in etree.fromstring(text).iter()
    ]


@given(elements(), st.sampled_from(VERSIONS), st.lists(elements(depth=1), max_size=2))
def test_what_is_put_into_an_envelope_comes_out_of_it(element, version, blocks):
    text, headers = as_written(element), [as_written(block) for block in blocks]
    found = read(write_envelope(version, text, headers))
    assert found.version == version
    for written, given_text in [(found.body, text), *zip([one.text for one in found.headers], headers, strict=True)]:
        assert written is not None
        added = {("soapenv", ENVELOPES[version])} if "soapenv" in given_text else set()
        without = [(*rest, spaces - added) for *rest, spaces in tree_of(written)]
        assert without == [(*rest, spaces - added) for *rest, spaces in tree_of(given_text)]
        if "soapenv" not in given_text:
            assert written == given_text
