"""Answers that are packed: once, by gzip, and never into more than may be; and texts in encodings that are no texts."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib

import pytest

from demaq.gateways.mail.parsed_mail import read_mail
from demaq.gateways.outbox.content_coding import NotUnpacked, unpack
from demaq.gateways.outbox.http_connection import HttpResponse
from demaq.gateways.outbox.http_results import judge_refusal

MEGABYTE = 1_000_000


@pytest.mark.parametrize("data", [b"", b"<a/>", b"<a>" + b"x" * 500_000 + b"</a>"])
def test_a_packed_answer_is_what_it_was(data: bytes):
    assert unpack(gzip.compress(data, mtime=0), " GZIP ", MEGABYTE) == data
    assert unpack(zlib.compress(data), "deflate", MEGABYTE) == data
    assert unpack(data, "identity", MEGABYTE) == data


@pytest.mark.parametrize("coding", ["gzip, gzip", "gzip,deflate", "br", "zstd", "compress", "gzip;q=1", "x" * 1000])
def test_an_answer_is_packed_once_and_as_it_was_asked_for(coding: str):
    with pytest.raises(NotUnpacked, match="packed with"):
        unpack(gzip.compress(gzip.compress(b"<a/>", mtime=0)), coding, MEGABYTE)


@pytest.mark.parametrize("data", [b"<a/>", gzip.compress(b"<a/>", mtime=0)[:-9], b"\x1f\x8b", zlib.compress(b"<a/>")])
def test_a_damaged_answer_is_reported(data: bytes):
    with pytest.raises(NotUnpacked):
        unpack(data, "gzip", MEGABYTE)


def test_what_becomes_too_large_is_given_up_when_it_does():
    data = gzip.compress(b"\0" * 40 * MEGABYTE, mtime=0)
    tracemalloc.start()
    with pytest.raises(NotUnpacked, match="more than 1,000,000 bytes"):
        unpack(data, "gzip", MEGABYTE)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert memory < 4 * MEGABYTE


@pytest.mark.parametrize("charset", ["punycode", "idna", "hex", "unicode_escape", "utf-7", "zip", "nonsense", "utf-8"])
def test_a_refusal_is_read_in_an_allowed_encoding_however_long_it_is(charset: str):
    headers = {"content-type": f"text/plain; charset={charset}"}
    answer = HttpResponse(status=500, headers=headers, body=b"no-" + b"a" * 2 * MEGABYTE + b"-99")
    began = time.process_time()
    found = judge_refusal(answer)

    assert "no-aaa" in found.reason
    assert time.process_time() - began < 0.5


def test_a_header_of_a_mail_is_decoded_in_an_allowed_encoding_only():
    lines = [
        "Subject: =?utf-8?q?gr=C3=BCn?=",
        "X-Puny: =?punycode?q?abc-99?=",
        "X-Hex: =?hex?q?6162?=",
        "Content-Type: text/xml",
    ]
    found = read_mail(("\r\n".join(lines) + "\r\n\r\n<a/>").encode()).transport

    assert found["demaq:header.Subject"] == "grün"
    assert found["demaq:header.X-Puny"] == "=?punycode?q?abc-99?="
    assert found["demaq:header.X-Hex"] == "=?hex?q?6162?="
