"""A document type is refused before any parser sees it, in every encoding, wherever a document comes from."""

from __future__ import annotations

import codecs
import smtplib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from demaq.bulk.sources import Layout, find_files, read_documents
from demaq.cli import main as cli
from demaq.documents import parse_document
from demaq.encodings import KNOWN, encoding_named
from demaq.errors import MessageError
from demaq.evaluation.saxon.processor import Saxon
from demaq.gateways.security.recipients import Recipients
from demaq.gateways.settings import OutgoingSettings, Settings
from demaq.testing.lab import Lab
from demaq.xml_parsers import file_parser, parse_characters, pull_parser
from demaq.xml_prolog import DOCTYPE_REFUSED
from tests.support.documents.pipes import Pipe, pipe
from tests.support.gateways.nodes import ANY_PORT, Running, running, wait_until
from tests.support.gateways.peers import OtherSide, other_side

ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]
DECLARED = sorted({name for name in map(encoding_named, KNOWN) if name is not None})
PROLOGS = ["", "\n ", "<!-- <a> -->", "<?x <!DOCTYPE a> ?>\n", "<!---->" * 900]
SPACE = [" ", "\n", "\t", "\r\n"]


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Pipe]:
    with pipe(tmp_path) as found:
        yield found


def document_types(path: Path) -> list[str]:
    return [
        f"<!DOCTYPE a SYSTEM '{path}'><a/>",
        f"<!DOCTYPE a PUBLIC 'x' '{path}'><a/>",
        f"<!DOCTYPE a [<!ENTITY % p SYSTEM '{path}'> %p;]><a/>",
        f"<!DOCTYPE a [<!ENTITY e SYSTEM '{path}'>]><a>&e;</a>",
        "<!DOCTYPE a><a/>",
    ]


def expect_refusal(body: str | bytes) -> None:
    with pytest.raises(MessageError) as refused:
        parse_document(body)
    assert (refused.value.kind, refused.value.message) == ("notWellFormed", DOCTYPE_REFUSED)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("marks", [1, 2, 5])
def test_a_second_byte_order_mark_is_refused_whatever_follows(encoding: str, marks: int, trap: Pipe, tmp_path: Path):
    """libxml2 skips it, and what follows it would be neither refused nor removed."""
    for text in (*document_types(trap.path), "<a/>", "<?xml version='1.0'?><a/>", " <a/>"):
        body = ("\ufeff" * marks + text).encode(encoding)
        for each in (body, "\ufeff" + "\ufeff" * marks + text):
            with pytest.raises(MessageError) as refused:
                parse_document(each)
            assert refused.value.kind == "notWellFormed"
        file = tmp_path / "rows.xml"
        file.write_bytes(body)
        [item] = list(read_documents(find_files([str(file)]), Layout(row_tag="a")))
        assert item.problem is not None


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("prolog", PROLOGS)
def test_a_document_type_is_refused_in_encodings_that_need_no_declaration(encoding: str, prolog: str, trap: Pipe):
    for text in document_types(trap.path):
        expect_refusal((prolog + text if prolog.strip() else text).encode(encoding))
        expect_refusal(f'<?xml version="1.0"?>{prolog}{text}'.encode(encoding))

    assert not trap.was_opened


@pytest.mark.parametrize("encoding", DECLARED)
def test_a_document_type_is_refused_in_every_encoding_that_may_be_declared(encoding: str, trap: Pipe):
    for text in document_types(trap.path):
        data = f'<?xml version="1.0" encoding="{encoding}"?>{text}'.encode(encoding)
        if encoding.startswith(("utf-16", "utf-32")):
            expect_refusal(data)
        else:
            expect_refusal(data.replace(b"<!DOCTYPE", b"<!-- \n --> <!DOCTYPE"))

    assert not trap.was_opened


@pytest.mark.parametrize("encoding", ["cp037", "cp500", "utf-7", "hz", "iso2022_kr", "punycode", "idna", "cp1140"])
def test_a_document_in_another_encoding_is_refused_whatever_is_in_it(encoding: str, trap: Pipe):
    for text in document_types(trap.path):
        body = f'<?xml version="1.0" encoding="{encoding}"?>{text}'
        for data in (body.encode(), body.encode(encoding) if encoding != "idna" else b""):
            with pytest.raises(MessageError):
                parse_document(data)

    assert not trap.was_opened


@given(
    st.lists(st.sampled_from(["<!--x-->", "<!-- <!DOCTYPE a> -->", "<?y ?>", "<?y <!DOCTYPE a> ?>", *SPACE])),
    st.sampled_from(ENCODINGS),
    st.booleans(),
)
def test_what_comments_and_instructions_say_is_no_document_type(pieces: list[str], encoding: str, has_type: bool):
    before = "<?xml version='1.0'?>" + "".join(pieces)
    if has_type:
        expect_refusal(f"{before}<!DOCTYPE a><a/>".encode(encoding))
    else:
        assert parse_document(f"{before}<a><![CDATA[<!DOCTYPE a>]]></a>".encode(encoding)).tree.getroot().tag == "a"


@pytest.mark.parametrize(
    "make",
    [
        lambda data: parse_characters(data),
        lambda data: etree.fromstring(data, file_parser()),
        lambda data: pull_parser("{*}a").feed(data),
    ],
    ids=["characters", "files", "pieces"],
)
def test_no_parser_opens_a_document_type_even_if_it_gets_one(make: Callable[[bytes], object], trap: Pipe):
    for text in document_types(trap.path):
        try:
            make(text.encode())
        except etree.XMLSyntaxError:
            continue

    assert not trap.was_opened


def test_saxon_opens_nothing_that_a_document_or_a_rule_names(trap: Pipe):
    saxon = Saxon()
    for text in document_types(trap.path):
        with pytest.raises(ValueError, match="DOCTYPE"):
            saxon.parse(text)
    [ask] = saxon.functions(
        "[function($text, $path) { string-join(for $f in (parse-xml#1, parse-xml-fragment#1, function($x) { doc($path) },"
        " function($x) { collection($path) }, function($x) { unparsed-text($path) }, function($x) { json-doc($path) })"
        " return try { string($f($text)) } catch * { 'refused' }, ' ') }]"
    )
    for text in document_types(trap.path):
        answer = saxon.call(ask, saxon.string(text), saxon.string(trap.path.as_uri()))
        assert set(answer.split()) == {"refused"}

    assert not trap.was_opened


def test_a_schema_is_not_sought_where_a_document_says(trap: Pipe):
    schema = etree.XMLSchema(
        etree.fromstring(b'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="a"/></xs:schema>')
    )
    places = f'xsi:schemaLocation="urn:x {trap.path}" xsi:noNamespaceSchemaLocation="{trap.path}"'
    text = f'<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" {places}><b xmlns="urn:x" {places}/></a>'
    schema.validate(parse_document(text).tree)

    assert not trap.was_opened


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32-be"])
def test_files_of_rows_with_a_document_type_are_a_problem(encoding: str, trap: Pipe, tmp_path: Path):
    file = tmp_path / "rows.xml"
    for text in document_types(trap.path):
        for before in ("", "<!--" + "x" * 200_000 + "-->"):
            file.write_bytes(f"{before}{text}".encode(encoding))
            [item] = read_documents(find_files([str(file)]), Layout(row_tag="a"))
            assert item.problem is not None
            assert item.problem.message == f"after row 0 the file cannot be read: {DOCTYPE_REFUSED}"

    assert not trap.was_opened


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "iso-8859-1", "shift_jis", "utf-8-sig"])
def test_files_of_rows_are_read_in_every_encoding(encoding: str, tmp_path: Path):
    file = tmp_path / "rows.xml"
    rows = "".join([f"<row>{n}{'｡' if encoding == 'shift_jis' else 'ü'}</row>" for n in range(9_000)])
    file.write_bytes(
        f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>\n<all>{rows}</all>'.encode(encoding)
    )
    found = [item.body for item in read_documents(find_files([str(file)]), Layout(row_tag="row"))]

    assert found == [f"{row}</row>" for row in rows.split("</row>")[:-1]]


# --- a node ---

APPLICATION = """
create queue orders kind incomingGateway
create queue mails kind incomingGateway endpoint "mailto:orders@example.org"
create queue out kind outgoingGateway replyto replies
create queue replies
create rule send for orders if (/go) then do enqueue <ask/> into out with Recipient value string(/go)
"""


@pytest.fixture(scope="module")
def other() -> Iterator[OtherSide]:
    with other_side() as found:
        yield found


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, other: OtherSide) -> Iterator[Running]:
    settings = Settings(outgoing_default=OutgoingSettings(recipients=Recipients.of([other.address])))
    with running(tmp_path_factory.mktemp("types"), APPLICATION, settings, smtp=ANY_PORT) as found:
        yield found


@pytest.mark.slow
def test_a_node_refuses_document_types_by_http_and_mail_and_in_answers(here: Running, other: OtherSide, trap: Pipe):
    for text in document_types(trap.path):
        for encoding in ENCODINGS:
            answer = here.post("/orders", text.encode(encoding), "text/xml")
            assert answer.status_code == 400
            assert DOCTYPE_REFUSED in answer.text
            answer = here.post("/orders", text.encode(encoding), f"text/xml; charset={encoding.removesuffix('-sig')}")
            assert answer.status_code == 400
            assert DOCTYPE_REFUSED in answer.text

    assert here.gateways.smtp_address is not None
    host, port = here.gateways.smtp_address.split(":")
    with smtplib.SMTP(host, int(port), timeout=10) as client:
        for text in document_types(trap.path):
            for kind in ("text/xml", "text/plain", "text/xml; charset=utf-16"):
                data = text.encode("utf-16") if "utf-16" in kind else text.encode()
                head = f"From: a@example.org\r\nContent-Type: {kind}\r\nContent-Transfer-Encoding: base64\r\n\r\n"
                mail = head.encode() + codecs.encode(data, "base64")
                with pytest.raises(smtplib.SMTPDataError, match="document type"):
                    client.sendmail("a@example.org", ["orders@example.org"], mail)

    for number, text in enumerate(document_types(trap.path), 1):
        other.answer = lambda got, text=text: (200, {"Content-Type": "text/xml"}, text.encode("utf-16"))  # type: ignore[misc]
        here.post("/orders", f"<go>{other.address}/{number}</go>", Prefer="respond-async")
        wait_until(lambda number=number: len(_about_answers(here)) >= number)  # type: ignore[misc]
    assert all([DOCTYPE_REFUSED in body for body in _about_answers(here)])
    assert here.stored("replies") == []
    assert not trap.was_opened
    assert here.post("/orders", "<order/>", Prefer="respond-async").status_code == 202


def _about_answers(here: Running) -> list[str]:
    return [body for body in here.bodies("demaq:errors") if "the answer cannot be used" in body]


@pytest.mark.parametrize(
    "command",
    [
        ["try", "a.dmq", "m.xml", "--queue", "q"],
        ["collections", "load", "c", "m.xml", "--store", "store"],
        ["send", "q", "m.xml", "--store", "store"],
    ],
    ids=lambda words: words[0],
)
def test_commands_refuse_document_types(
    command: list[str],
    tmp_path: Path,
    trap: Pipe,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    Path("a.dmq").write_text("create queue q\ncreate collection c\n")
    Lab(Path("a.dmq"), Path("store")).close()
    for text in document_types(trap.path):
        Path("m.xml").write_text(text)
        assert cli.run(cli.demaq, command) != 0
        out, err = capsys.readouterr()
        assert "document type" in out + err

    assert not trap.was_opened
