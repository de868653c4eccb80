"""Which part of a mail is the message, and what becomes of its headers."""

from __future__ import annotations

import base64
from email.message import EmailMessage

import pytest

from demaq.documents import parse_document
from demaq.gateways.mail.parsed_mail import (
    CONTENT_HEADER_CHARACTERS_MAX,
    HEADER_CHARACTERS_MAX,
    HEADERS_MAX,
    LINES_MAX,
    MULTIPARTS_MAX,
    PARTS_MAX,
    read_mail,
)

ORDER = b"<order id='1'/>"


def mail(*headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([*headers, "", ""]).encode() + body


def read(*headers: str, body: bytes = ORDER) -> bytes | str:
    found = read_mail(mail(*headers, body=body))
    assert found.refusal is None
    return found.body


def refusal(data: bytes) -> str:
    found = read_mail(data)
    assert found.refusal is not None
    assert found.body == data, "what came is kept as it came"
    return found.refusal


def with_attachments(*attachments: tuple[str, str, bytes], text: str = "Please find it attached.") -> bytes:
    message = EmailMessage()
    message["From"] = "Ann <ann@example.org>"
    message.set_content(text)
    for media_type, name, content in attachments:
        maintype, _, subtype = media_type.partition("/")
        message.add_attachment(content, maintype=maintype, subtype=subtype, filename=name)
    return message.as_bytes()


# --- where the message is --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["application/xml", "text/xml", "application/soap+xml", "APPLICATION/XML"])
def test_a_body_with_an_xml_type_is_the_message(kind: str) -> None:
    assert read(f"Content-Type: {kind}") == ORDER


def test_an_attachment_with_an_xml_type_is_the_message() -> None:
    found = read_mail(with_attachments(("image/png", "logo.png", b"\x89PNG"), ("application/xml", "o", ORDER)))

    assert (found.body, found.transport["demaq:contentType"]) == (ORDER, "application/xml")


def test_a_file_name_tells_where_the_type_does_not() -> None:
    assert read_mail(with_attachments(("application/octet-stream", "ORDER.XML", ORDER))).body == ORDER


def test_an_encoded_file_name_tells_too() -> None:
    assert read('Content-Type: application/octet-stream; name="=?utf-8?q?b=C3=BCcher=2Exml?="') == ORDER


def test_the_text_is_the_message_if_it_begins_like_one() -> None:
    declaration = b"<?xml version='1.0'?>"

    assert read("From: ann@example.org", body=b"\r\n  " + declaration + ORDER) == declaration + ORDER


def test_an_xml_part_comes_before_a_text_that_begins_like_one() -> None:
    assert read_mail(with_attachments(("application/xml", "o.xml", ORDER), text="<see attachment>")).body == ORDER


def test_the_message_is_found_in_nested_parts() -> None:
    outer = EmailMessage()
    outer.set_content("signed by a server on the way")
    inner = EmailMessage()
    inner.set_content("see below")
    inner.add_alternative("<p>see below</p>", subtype="html")
    inner.add_attachment(ORDER, maintype="text", subtype="xml", filename="o.xml")
    outer.make_mixed()
    outer.attach(inner)

    assert read_mail(outer.as_bytes()).body == ORDER


def test_a_picture_is_no_message_although_it_is_xml() -> None:
    logo = ("image/svg+xml", "logo.svg", b"<svg/>")

    assert read_mail(with_attachments(logo, ("application/xml", "o.xml", ORDER))).body == ORDER
    assert "no XML part" in refusal(with_attachments(logo))


def test_a_document_without_any_header_is_taken() -> None:
    assert read_mail(b"<a:order xmlns:a='a'/>").body == b"<a:order xmlns:a='a'/>"


# --- encodings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("base64", base64.encodebytes(ORDER)),
        ("quoted-printable", b"<order id=3D'1'=\r\n/>"),
        ("8bit", ORDER),
        ("BINARY", ORDER),
    ],
)
def test_a_part_is_decoded(encoding: str, body: bytes) -> None:
    assert read("Content-Type: application/xml", f"Content-Transfer-Encoding: {encoding}", body=body) == ORDER


@pytest.mark.parametrize("kind", ["text/xml", "application/xml"])
def test_the_character_set_of_the_mail_counts_where_the_document_has_none(kind: str) -> None:
    body = read(f"Content-Type: {kind}; charset=iso-8859-1", body="<o>ä</o>".encode("latin-1"))

    assert parse_document(body).text == "<o>ä</o>"


@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-16", "utf-8"])
def test_the_character_set_of_the_document_comes_first(encoding: str) -> None:
    document = f"<?xml version='1.0' encoding='{encoding}'?><o>ä</o>".encode(encoding)
    headers = ("Content-Type: text/xml; charset=windows-1251", "Content-Transfer-Encoding: base64")

    assert parse_document(read(*headers, body=base64.encodebytes(document))).text == "<o>ä</o>"


def test_a_document_that_names_another_encoding_than_the_mail_was_changed_to_is_read() -> None:
    document = "<?xml version='1.0' encoding='utf-16'?><o>ä</o>".encode("utf-16-le")
    headers = ("Content-Type: text/xml; charset=utf-16le", "Content-Transfer-Encoding: base64")

    assert parse_document(read(*headers, body=base64.encodebytes(document))).text == "<o>ä</o>"


@pytest.mark.parametrize("charset", ["klingon", "punycode", "base64", "a\x00b"])
def test_an_unknown_character_set_is_refused(charset: str) -> None:
    data = f'Content-Type: text/xml; charset="{charset}"\r\n\r\n<o/>'.encode()

    assert "character set" in refusal(data)


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_mail_without_xml_is_refused_and_the_error_says_what_it_has() -> None:
    data = with_attachments(("application/pdf", "order.pdf", b"%PDF"))

    assert refusal(data) == "the mail has no XML part: it has text/plain, application/pdf"


def test_two_xml_parts_are_refused() -> None:
    data = with_attachments(("application/xml", "a.xml", ORDER), ("text/xml", "b.xml", ORDER))

    assert refusal(data).startswith("the mail has 2 XML parts and one message is expected")


def test_what_comes_back_as_undeliverable_is_no_message() -> None:
    inside = mail("Content-Type: application/xml", body=ORDER)
    report = mail('Content-Type: multipart/report; boundary="b"', body=b"--b\r\nContent-Type: message/rfc822\r\n\r\n")

    assert "report about another mail" in refusal(report + inside + b"\r\n--b--\r\n")


def test_a_mail_within_the_mail_is_not_looked_into() -> None:
    assert "no XML part" in refusal(mail("Content-Type: message/rfc822", "", "Content-Type: text/xml", body=ORDER))


def test_damaged_base64_is_refused() -> None:
    data = mail("Content-Type: application/xml", "Content-Transfer-Encoding: base64", body=b"PG9yZ")

    assert "no base64" in refusal(data)


@pytest.mark.parametrize(
    "data",
    [
        b"a: b\r\n" + b"\n" * (LINES_MAX + 1),
        mail("Content-Type: multipart/mixed; boundary=b", body=b"--b\r\n\r\n" * (PARTS_MAX + 1)),
        b"".join(
            [
                b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n)
                for n in range(MULTIPARTS_MAX + 1)
            ]
        ),
        b"ab: c\r\n" * 2_000,
        b"Content-Type: text/xml" + b";a=b" * CONTENT_HEADER_CHARACTERS_MAX + b"\r\n\r\n<o/>",
    ],
    ids=["lines", "parts", "nesting", "headers", "parameters"],
)
def test_too_much_of_anything_is_refused(data: bytes) -> None:
    assert "more than" in refusal(data)


def test_a_refused_mail_still_says_whom_it_is_from() -> None:
    found = read_mail(mail("From: ann@example.org", "Message-ID: <1@a>", body=b"\n" * (LINES_MAX + 1)))

    assert (found.sender, found.message_id) == ("ann@example.org", "<1@a>")


@pytest.mark.parametrize("data", [b"", b"\x00", b"\r\n\r\n", b"Content-Type: multipart/mixed\r\n\r\nx", b"\xff\xfe<"])
def test_nonsense_is_refused(data: bytes) -> None:
    assert refusal(data)


# --- headers ---------------------------------------------------------------------------------------------------------


def test_headers_become_properties() -> None:
    found = read_mail(
        mail(
            "from: =?utf-8?q?J=C3=B6rg?= <joerg@example.org>",
            "TO: orders@example.org",
            "Subject: =?iso-8859-1?q?B=FCcher?=",
            " for you",
            "message-id: <1@example.org>",
            "Date: Mon, 16 Nov 2026 06:00:00 +0000",
            "x-order-NUMBER: 17",
            "Received: from somewhere",
            "Received-SPF: pass",
            "Content-Type: text/xml",
            body=ORDER,
        )
    )

    assert found.transport == {
        "demaq:contentType": "text/xml",
        "demaq:header.From": "Jörg <joerg@example.org>",
        "demaq:header.To": "orders@example.org",
        "demaq:header.Subject": "Bücher for you",
        "demaq:header.Message-ID": "<1@example.org>",
        "demaq:header.Date": "Mon, 16 Nov 2026 06:00:00 +0000",
        "demaq:header.X-Order-Number": "17",
    }
    assert (found.sender, found.message_id) == ("joerg@example.org", "<1@example.org>")


def test_the_envelope_tells_the_sender_where_the_mail_does_not() -> None:
    assert read_mail(mail("From: nobody", body=ORDER), envelope_sender="ann@example.org").sender == "ann@example.org"
    assert read_mail(mail("From: nobody", body=ORDER)).sender == ""


def test_a_header_has_no_characters_that_xml_has_not() -> None:
    found = read_mail(b"Subject: a\x00b\x1bc\xff =?klingon?q?x?=\r\n\r\n<o/>")

    assert found.transport["demaq:header.Subject"] == "a�b�c� =?klingon?q?x?="


def test_a_content_type_has_no_such_characters_either() -> None:
    assert read_mail(b"Content-Type:\x00 text/xml\r\n\r\n<o/>").transport["demaq:contentType"] == "� text/xml"


def test_headers_are_bounded_and_the_important_ones_come_first() -> None:
    many = [f"X-{number}: {'x' * 2 * HEADER_CHARACTERS_MAX}" for number in range(2 * HEADERS_MAX)]
    found = read_mail(mail(*many, "Subject: a", body=ORDER))
    headers = {name: value for name, value in found.transport.items() if name.startswith("demaq:header.")}

    assert len(headers) == HEADERS_MAX
    assert headers["demaq:header.Subject"] == "a"
    assert max(map(len, headers.values())) == HEADER_CHARACTERS_MAX
