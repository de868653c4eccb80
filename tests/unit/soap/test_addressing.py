"""WS-Addressing: requests may carry it, and answers then say what they belong to."""

from __future__ import annotations

import pytest

from demaq.documents import parse_document
from demaq.soap import SoapRefusal, make_answer_headers, read_addressing, read_envelope, write_envelope
from demaq.soap.ws_addressing import ADDRESSING, ANONYMOUS


def headers(*blocks):
    texts = [
        f'<w:{name} xmlns:w="{ADDRESSING}" xmlns:e="http://schemas.xmlsoap.org/soap/envelope/" e:mustUnderstand="1">'
        f"{text}</w:{name}>"
        for name, text in blocks
    ]
    return read_envelope(parse_document(write_envelope("1.1", "<a/>", texts)).tree).headers


def test_a_request_with_addresses_is_understood_and_answered():
    request = read_addressing(
        headers(
            ("MessageID", "urn:uuid:1"),
            ("Action", " urn:ask "),
            ("To", "http://here.invalid/"),
            ("ReplyTo", f"<w:Address>{ANONYMOUS}</w:Address>"),
        ),
        "1.1",
    )
    assert request is not None
    assert (request.message_id, request.action) == ("urn:uuid:1", "urn:ask")
    answer = read_envelope(
        parse_document(write_envelope("1.1", "<a/>", make_answer_headers(request, message_id="urn:uuid:2"))).tree
    )
    found = {
        header.name.rpartition("}")[2]: parse_document(header.text).tree.getroot().text for header in answer.headers
    }
    assert found == {"MessageID": "urn:uuid:2", "Action": "urn:askResponse", "RelatesTo": "urn:uuid:1"}


def test_a_request_without_addresses_has_none():
    assert read_addressing(headers(), "1.1") is None


def test_another_place_for_the_answer_is_refused():
    with pytest.raises(SoapRefusal, match=r"ReplyTo of WS-Addressing is http://x\.invalid"):
        read_addressing(headers(("ReplyTo", "<w:Address>http://x.invalid</w:Address>")), "1.1")


def test_a_block_that_is_given_twice_is_refused():
    with pytest.raises(SoapRefusal, match="given twice"):
        read_addressing(headers(("To", "a"), ("To", "b")), "1.1")
