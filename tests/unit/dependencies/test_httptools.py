"""What demaq.gateways.http.http_protocol uses of httptools: where a request that asks for another protocol is cut."""

from __future__ import annotations

import httptools
import pytest

UPGRADE = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"


class Callbacks:
    """Has some of the callbacks; the parser asks for no others."""

    def __init__(self) -> None:
        self.completed = 0

    def on_message_complete(self) -> None:
        self.completed += 1


def test_an_upgrade_is_an_exception_with_the_number_of_bytes_that_were_read():
    for further in (b"", b"GET /next HTTP/1.1\r\n\r\n"):
        parser = httptools.HttpRequestParser(Callbacks())
        with pytest.raises(httptools.HttpParserUpgrade) as raised:
            parser.feed_data(UPGRADE + further)
        assert raised.value.args[0] == len(UPGRADE)


def test_an_upgrade_is_not_an_error_of_the_parser():
    assert not issubclass(httptools.HttpParserUpgrade, httptools.HttpParserError)


def test_a_parser_knows_method_version_and_upgrade_when_the_head_is_complete():
    seen: list[object] = []

    class Head:
        def on_headers_complete(self) -> None:
            seen.extend([parser.get_method(), parser.get_http_version(), parser.should_upgrade()])

    parser = httptools.HttpRequestParser(Head())
    parser.feed_data(b"PUT / HTTP/1.0\r\nHost: a\r\n\r\n")

    assert seen == [b"PUT", "1.0", False]


def test_trailers_come_through_the_callback_of_headers():
    seen: list[bytes] = []

    class Headers:
        def on_header(self, name: bytes, value: bytes) -> None:
            seen.append(name)

    parser = httptools.HttpRequestParser(Headers())
    parser.feed_data(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Trailer: b\r\n\r\n")

    assert seen == [b"Transfer-Encoding", b"X-Trailer"]
