"""Requests that are not as RFC 9110 and RFC 9112 have them are refused, on real connections, and nothing is stored."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from demaq.gateways.http.http_protocol import HEAD_BYTES_MAX
from demaq.gateways.http.request_head import HEADER_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX, expect_sound
from tests.support.gateways.nodes import Running, running

APPLICATION = "create queue orders kind incomingGateway"
BODY = b"<order/>"
CHUNKED = b"8\r\n<order/>\r\n0\r\n\r\n"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("strict"), APPLICATION) as found:
        yield found


def request(*headers: bytes, first: bytes = b"POST /orders HTTP/1.1", body: bytes = BODY) -> bytes:
    return b"\r\n".join([first, *headers, b"", body])


def said(here: Running, data: bytes) -> bytes:
    """All that is answered until the node closes the connection."""
    host, port = here.address.removeprefix("http://").split(":")
    heard = b""
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(10_000):
                heard += piece
        except ConnectionResetError:  # it was closed while we were sending
            pass
    return heard


HOST, LENGTH = b"Host: x", b"Content-Length: 8"
WRONG = {
    "gzip before chunked": (501, request(HOST, b"Transfer-Encoding: gzip, chunked", body=CHUNKED)),
    "two transfer codings": (
        400,
        request(HOST, b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked", body=CHUNKED),
    ),
    "chunked is not last": (400, request(HOST, b"Transfer-Encoding: chunked, gzip", body=CHUNKED)),
    "chunked twice": (400, request(HOST, b"Transfer-Encoding: chunked, chunked", body=CHUNKED)),
    "nothing is chunked": (400, request(HOST, b"Transfer-Encoding: gzip", body=BODY)),
    "identity": (400, request(HOST, b"Transfer-Encoding: identity", LENGTH)),
    "chunks in HTTP 1.0": (400, request(b"Transfer-Encoding: chunked", first=b"POST /orders HTTP/1.0", body=CHUNKED)),
    "chunks and a length": (400, request(HOST, LENGTH, b"Transfer-Encoding: chunked", body=CHUNKED)),
    "a length and chunks": (400, request(HOST, b"Transfer-Encoding: chunked", LENGTH, body=CHUNKED)),
    "two lengths": (400, request(HOST, LENGTH, b"Content-Length: 9")),
    "two equal lengths": (400, request(HOST, LENGTH, LENGTH)),
    "a list of lengths": (400, request(HOST, b"Content-Length: 8, 8")),
    "a signed length": (400, request(HOST, b"Content-Length: +8")),
    "a length in hexadecimal": (400, request(HOST, b"Content-Length: 0x8")),
    "a length that is no number": (400, request(HOST, b"Content-Length: eight")),
    "no length at all in its header": (400, request(HOST, b"Content-Length:")),
    "a length beyond all": (400, request(HOST, b"Content-Length: 99999999999999999999999")),
    "a chunk size with a sign": (
        400,
        request(HOST, b"Transfer-Encoding: chunked", body=b"+8\r\n<order/>\r\n0\r\n\r\n"),
    ),
    "a chunk with a bare line end": (400, request(HOST, b"Transfer-Encoding: chunked", body=b"8\n<order/>\n0\n\n")),
    "no host": (400, request(LENGTH)),
    "two hosts": (400, request(HOST, b"Host: y", LENGTH)),
    "two equal hosts": (400, request(HOST, HOST, LENGTH)),
    "two hosts in HTTP 1.0": (400, request(HOST, b"Host: y", LENGTH, first=b"POST /orders HTTP/1.0")),
    "a host that is none": (400, request(b"Host: a b", LENGTH)),
    "a host with a path": (400, request(b"Host: a/b", LENGTH)),
    "a host with a user": (400, request(b"Host: user@a", LENGTH)),
    "something else expected": (417, request(HOST, LENGTH, b"Expect: 200-ok")),
    "more expected": (417, request(HOST, LENGTH, b"Expect: 100-continue, gifts")),
    "a header of 100 kB": (431, request(HOST, LENGTH, b"X: " + b"x" * 100_000)),
    "a header that is just too long": (431, request(HOST, LENGTH, b"X: " + b"x" * HEADER_BYTES_MAX)),
    "headers that are too long together": (
        431,
        request(HOST, LENGTH, *[b"X-%d: " % n + b"x" * 10_000 for n in range(HEAD_BYTES_MAX // 10_000 + 1)]),
    ),
    "too many headers": (431, request(HOST, LENGTH, *[b"X-%d: 1" % n for n in range(HEADERS_MAX)])),
    "a target that is too long": (
        414,
        request(HOST, LENGTH, first=b"POST /orders?%s HTTP/1.1" % (b"x" * TARGET_BYTES_MAX)),
    ),
    "a folded header": (400, request(HOST, LENGTH, b"X: a", b" b")),
    "a folded host": (400, request(b"Host:", b" x", LENGTH)),
    "a bare line feed": (400, request(HOST, b"X: a\nY: b", LENGTH)),
    "a bare carriage return": (400, request(HOST, b"X: a\rY: b", LENGTH)),
    "line feeds only": (400, request(HOST, LENGTH).replace(b"\r\n", b"\n")),
    "a zero in a header": (400, request(HOST, b"X: a\0b", LENGTH)),
    "a blank before the colon": (400, request(b"Host : x", LENGTH)),
    "a blank before the first header": (400, request(b" Host: x", HOST, LENGTH)),
    "a header without a name": (400, request(HOST, b": x", LENGTH)),
    "HTTP 0.9": (505, b"GET /healthz\r\n\r\n"),
    "HTTP 0.9, said": (505, request(HOST, LENGTH, first=b"POST /orders HTTP/0.9")),
    "HTTP 1.2": (400, request(HOST, LENGTH, first=b"POST /orders HTTP/1.2")),
    "HTTP 2.0": (505, request(HOST, LENGTH, first=b"POST /orders HTTP/2.0")),
    "another protocol": (400, request(HOST, LENGTH, first=b"POST /orders HTCPCP/1.0")),
    "a method in small letters": (400, request(HOST, LENGTH, first=b"post /orders HTTP/1.1")),
    "an address of another scheme": (400, request(HOST, LENGTH, first=b"POST ftp://x/orders HTTP/1.1")),
    "an address with a user": (400, request(HOST, LENGTH, first=b"POST http://u:p@x/orders HTTP/1.1")),
    "an address without a host": (400, request(HOST, LENGTH, first=b"POST http:///orders HTTP/1.1")),
    "a target with a fragment": (400, request(HOST, LENGTH, first=b"POST /orders#a HTTP/1.1")),
    "a target that is a star": (400, request(HOST, LENGTH, first=b"POST * HTTP/1.1")),
    "a target without a slash": (400, request(HOST, LENGTH, first=b"POST orders HTTP/1.1")),
    "a proxy's request": (400, request(HOST, first=b"CONNECT example.org:25 HTTP/1.1", body=b"")),
    "two keys": (400, request(HOST, LENGTH, b"Idempotency-Key: a", b"Idempotency-Key: b")),
    "two names of a message": (400, request(HOST, LENGTH, b"Demaq-Message: a", b"Demaq-Message: b")),
    "two content types": (400, request(HOST, LENGTH, b"Content-Type: text/xml", b"Content-Type: application/json")),
    "two authorizations": (400, request(HOST, LENGTH, b"Authorization: Basic YTpi", b"Authorization: Bearer a")),
    "too many trailers": (
        431,
        request(HOST, b"Transfer-Encoding: chunked", body=b"0\r\n" + b"X: 1\r\n" * (HEADERS_MAX + 1) + b"\r\n"),
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_not_http_is_refused_and_the_connection_is_closed(here: Running, what: str):
    status, data = WRONG[what]
    before = len(here.stored("orders"))
    heard = said(here, data)

    head, _, text = heard.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), heard
    assert b"\r\nconnection: close" in head.lower()
    assert text.strip()
    assert heard.count(b"HTTP/1.1 ") == 1, "what follows is no second request"
    assert len(here.stored("orders")) == before


@pytest.mark.parametrize(
    "data",
    [
        request(HOST, LENGTH),
        request(HOST, b"Content-Length: 8 "),
        request(b"Host:", LENGTH),
        request(b"HOST: [::1]:8080", LENGTH),
        request(HOST, b"Transfer-Encoding: Chunked", body=CHUNKED),
        request(LENGTH, first=b"POST /orders HTTP/1.0"),
        request(HOST, LENGTH, b"Expect: 100-Continue"),
        request(LENGTH, b"Expect: 100-continue", first=b"POST /orders HTTP/1.0"),
        request(b"Host: other", LENGTH, first=b"POST http://x:80/orders HTTP/1.1"),
        request(HOST, LENGTH, first=b"POST /orders?a=b HTTP/1.1"),
        request(HOST, LENGTH, b"X: " + b"x" * (HEADER_BYTES_MAX - 1)),
        b"\r\n" + request(HOST, LENGTH),
        request(HOST, LENGTH, b"Connection: upgrade", b"Upgrade: websocket"),
        request(LENGTH, b"Connection: Upgrade", b"Upgrade: h2c", first=b"POST /orders HTTP/1.0"),
        request(HOST, b"Connection: Upgrade", b"Upgrade: h2c", b"Transfer-Encoding: chunked", body=CHUNKED),
    ],
)
def test_what_is_http_is_taken(here: Running, data: bytes):
    before = len(here.stored("orders"))
    heard = said(here, data)

    assert b" 202 " in heard
    if b"HTTP/1.0" in data:
        assert b" 100 " not in heard
    assert len(here.stored("orders")) == before + 1


HTTP2 = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk")
"""As Java's own client asks for HTTP/2."""


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_who_asks_for_another_protocol_is_answered_in_this_one(here: Running, size: int):
    data = request(HOST, LENGTH, *HTTP2) + request(HOST, *HTTP2, b"Transfer-Encoding: chunked", body=CHUNKED)
    data += request(HOST, *HTTP2, first=b"GET /healthz HTTP/1.1", body=b"") + request(HOST, LENGTH)
    before = len(here.stored("orders"))
    host, port = here.address.removeprefix("http://").split(":")
    heard = b""
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), size):
            connection.sendall(data[start : start + size])
        while heard.count(b"HTTP/1.1 ") < 4:
            piece = connection.recv(10_000)
            assert piece, heard
            heard += piece

    assert [answer[:3] for answer in heard.split(b"HTTP/1.1 ")[1:]] == [b"202", b"202", b"200", b"202"]
    assert len(here.stored("orders")) == before + 3


def test_a_trailer_is_no_header_of_the_request(here: Running):
    trailers = b"X-Trace: forged\r\nX-Other: a\r\nHost: evil\r\nIdempotency-Key: k\r\nDemaq-Sender: somebody\r\n"
    body = b"8\r\n<order/>\r\n0\r\n" + trailers + b"\r\n"
    for _ in range(2):
        assert b" 202 " in said(here, request(HOST, b"X-Trace: t1", b"Transfer-Encoding: chunked", body=body))

    one, other = here.stored("orders")[-2:]
    assert one.properties["demaq:header.X-Trace"].text == "t1"
    assert "demaq:header.X-Other" not in one.properties
    assert "Sender" not in one.properties
    assert one.seq != other.seq


def test_headers_of_one_name_are_joined(here: Running):
    assert b" 202 " in said(here, request(HOST, LENGTH, b"X-Way: a", b"x-way: b"))
    assert here.stored("orders")[-1].properties["demaq:header.X-Way"].text == "a, b"


@pytest.mark.parametrize(
    "version", ["http://schemas.xmlsoap.org/soap/envelope/", "http://www.w3.org/2003/05/soap-envelope"]
)
def test_a_soap_block_is_no_header_of_the_request_and_blocks_of_two_namespaces_are_two(here: Running, version: str):
    blocks = """<X-Trace xmlns="urn:a">forged</X-Trace><X-Trace>forged</X-Trace>
        <a:id xmlns:a="urn:a">1</a:id><b:id xmlns:b="urn:b">2</b:id><a:id xmlns:a="urn:a">3</a:id>"""
    text = f'<e:Envelope xmlns:e="{version}"><e:Header>{blocks}</e:Header><e:Body><order/></e:Body></e:Envelope>'
    assert here.post("/orders", text, X_Trace="t1", X_Id="real").status_code == 202

    found = {
        name.removeprefix("demaq:header."): value.text
        for name, value in here.stored("orders")[-1].properties.items()
        if name.startswith("demaq:header.")
    }
    assert found["X-Trace"] == "t1"
    assert (found["{urn:a}X-Trace"], found["{}X-Trace"]) == ("forged", "forged")
    assert (found["{urn:a}id"], found["{urn:b}id"]) == ("1, 3", "2")
    assert "id" not in found


def test_the_host_of_an_absolute_target_counts_more_than_the_header():
    headers = [(b"host", b"other")]
    assert expect_sound(b"POST", b"http://x:81/orders", "1.1", headers) == b"x:81"
    assert expect_sound(b"POST", b"/orders", "1.1", headers) is None
