"""The client of outgoing gateways against servers of every kind: orderly, sloppy, broken, slow, and hostile."""

from __future__ import annotations

import asyncio
import gc
import random
import re
import socket
import ssl
import struct
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from unittest.mock import MagicMock

import pytest
import trustme

from demaq.gateways.outbox import guarded_network, http_client
from demaq.gateways.outbox.guarded_network import GuardedNetwork, Network, NotAllowed, SocketAddress
from demaq.gateways.outbox.http_client import HttpClient
from demaq.gateways.outbox.http_connection import (
    NO_RESPONSE,
    RESPONSE_HEAD_BYTES_MAX,
    HttpConnection,
    HttpError,
    HttpResponse,
)
from demaq.gateways.outbox.http_url import HttpUrl, parse_url
from demaq.gateways.security.recipients import Recipients
from tests.support.drawing import example_count
from tests.support.gateways.drawn_responses import BODY_LIMIT, HEAD_LIMIT, Drawing, Said
from tests.support.gateways.response_oracle import Expected, read_response

EXAMPLES = example_count(400, "HTTP_RESPONSES")
HANG_SECONDS = 0.05
SECONDS_MAX = 30.0
LARGE = b"x" * 3_000_000
"""More than the buffers of a connection hold."""
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@asynccontextmanager
async def serving(handle: Handler, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator[str]:
    """Yield the address of a server that handles each connection so, and has ended all of them afterwards."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await handle(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(handle_one, host, 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http{'s' if tls is not None else ''}://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head, await reader.readexactly(length)


def answering(*answers: bytes) -> Handler:
    """Return a server that gives one of these answers to each request of a connection, and then waits."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await read_request(reader)
            writer.write(answer)
        await reader.read()

    return handle


async def post(client: HttpClient, address: str, body: bytes = b"<m/>", seconds: float = SECONDS_MAX) -> HttpResponse:
    async with asyncio.timeout(seconds):
        return await client.post(parse_url(address), {"Content-Type": "text/xml"}, body, BODY_LIMIT)


@asynccontextmanager
async def new_client(context: ssl.SSLContext | None = None, idle_max: int = 8) -> AsyncIterator[HttpClient]:
    client = HttpClient(Network(), context, idle_max)
    try:
        yield client
    finally:
        await client.close()


def contexts(authority: trustme.CA, *names: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return those of a server with such a certificate, and of a client that trusts it."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(server)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(client)
    return server, client


# drawn responses


class DrawnServer:
    """Says to each request what its path names, and notes on which connection."""

    def __init__(self, drawn: list[Said], is_tls: bool) -> None:
        self.drawn = drawn
        self.connections: dict[int, int] = {}
        """By number of the request."""
        self._is_tls = is_tls
        self._accepted = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._accepted += 1
        connection, is_kept = self._accepted, True
        while is_kept:
            head = await reader.readuntil(b"\r\n\r\n")
            number = int(head.split(b" ")[1][1:])
            assert number not in self.connections, "every request is sent once"
            self.connections[number] = connection
            said = self.drawn[number]
            if said.fault != "early":
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
            for index, piece in enumerate(said.pieces):
                if index:
                    for _ in range(3):  # so that the client reads what was sent before
                        await asyncio.sleep(0)
                if writer.transport.is_closing():
                    return
                writer.write(piece)
            is_kept = said.ending == "keep"
            if said.ending == "reset":
                connected = writer.get_extra_info("socket")
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if not is_kept and writer.transport.get_write_buffer_size():
                await writer.drain()
                while writer.transport.get_write_buffer_size():
                    await asyncio.sleep(0)


@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
def test_every_response_is_what_the_rfcs_say_it_is(chance: random.Random, authority: trustme.CA, is_tls: bool):
    assert HEAD_LIMIT == RESPONSE_HEAD_BYTES_MAX
    drawn = [Drawing(chance).draw() for _ in range(EXAMPLES)]
    server = DrawnServer(drawn, is_tls)
    server_side, client_side = contexts(authority, "127.0.0.1") if is_tls else (None, None)
    counts: Counter[str] = Counter()
    known: set[int] = set()

    async def run() -> None:
        kept: int | None = None
        """The connection that the next request can use."""
        async with serving(server.handle, server_side) as address, new_client(client_side) as client:
            for number, said in enumerate(drawn):
                # Where a request was not read, the end of the connection is a reset.
                ending = "reset" if said.fault == "early" else said.ending
                expected = read_response(said.data, ending, HEAD_LIMIT, BODY_LIMIT)
                if said.fault in UNCERTAIN:  # whose connection might not be left as it was
                    async with new_client(client_side) as other:
                        outcome = await check(other, f"{address}/{number}", said, expected)
                else:
                    outcome = await check(client, f"{address}/{number}", said, expected)
                    used = server.connections.get(number)
                    if outcome == "timeout" and used is None:  # on a busy machine, before it came
                        kept = None
                        continue
                    assert (used == kept) if kept is not None else used not in known, (number, drawn[number - 1])
                    counts["used again"] += used == kept
                    kept = used if outcome == "response" and expected.is_reusable else None
                known.update([server.connections[number]] if number in server.connections else [])
                counts.update([outcome, *said.forms, *([said.fault] if said.fault else [])])

    asyncio.run(run())
    for form in (
        *("response", "error", "timeout", "used again", "interim", "no body", "folded", "line feeds", "trailers"),
        *("length", "chunked", "both", "close", "bad length", "two", "gzip", "surplus", "in pieces", "byte by byte"),
        *("cut", "garbage", "mutated", "hang", "early", "large head", "large body", "large extension"),
    ):
        assert counts[form] >= EXAMPLES // 400, (form, counts)


UNCERTAIN = ("garbage", "mutated")
"""Faults that may make anything of a response, or leave it as it is. It ends in any case."""


async def check(client: HttpClient, address: str, said: Said, expected: Expected) -> str:
    """Return how a request ended, which is as expected."""
    seconds = HANG_SECONDS if expected.outcome == "timeout" else SECONDS_MAX
    try:
        response = await post(client, address, LARGE if said.fault == "early" else b"<m/>", seconds)
    except HttpError as raised:
        failure: Exception = raised
    except TimeoutError as raised:
        failure = raised
    else:
        return check_response(response, said, expected)
    if said.fault in UNCERTAIN and isinstance(failure, HttpError):
        return "error"
    if said.fault == "early" and said.ending == "reset" and isinstance(failure, HttpError):
        return "reset while writing"
    found = "error" if isinstance(failure, HttpError) else "timeout"
    if found == "error" and expected.outcome == "timeout":  # what hangs was wrong before
        expected = read_response(said.whole, "close", HEAD_LIMIT, BODY_LIMIT)
    assert found == expected.outcome, (failure, address, said, expected)
    return found


def check_response(response: HttpResponse, said: Said, expected: Expected) -> str:
    if said.fault not in UNCERTAIN:
        assert expected.outcome == "response", (said, response)
        assert (response.status, plain(response.headers)) == (expected.status, plain(dict(expected.headers))), said
        assert response.is_cut == expected.is_cut
        assert response.is_cut or response.body == expected.body
    assert 200 <= response.status <= 999
    return "response"


def plain(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with one blank where a line was folded: the parser keeps a tab (RFC 9112, 5.2 wants blanks)."""
    return {name: re.sub("[ \t]+", " ", value) for name, value in headers.items()}


@pytest.mark.parametrize("headers", [1, 60, 300])
def test_a_head_is_limited_even_if_it_arrives_in_one_piece(headers: int):
    transport = MagicMock(asyncio.Transport)
    transport.is_closing.return_value = False
    transport.get_write_buffer_size.return_value = 0
    large = RESPONSE_HEAD_BYTES_MAX // headers
    head = b"".join([b"X-%d: " % number + b"v" * large + b"\r\n" for number in range(headers)])

    async def run() -> None:
        connection = HttpConnection()
        connection.connection_made(transport)
        exchange = asyncio.create_task(connection.exchange(b"", b"", BODY_LIMIT))
        await asyncio.sleep(0)
        connection.data_received(b"HTTP/1.1 200 OK\r\n" + head + b"Content-Length: 0\r\n\r\n")
        with pytest.raises(HttpError, match="more than 102,400 bytes"):
            await exchange
        transport.abort.assert_called()

    asyncio.run(run())


# requests


def test_a_request_is_written_as_servers_expect_it():
    seen: list[tuple[bytes, bytes]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(OK)

    async def run() -> str:
        async with serving(handle) as address, new_client() as client:
            response = await post(client, f"{address}/a/../b c?q=\u00fc#part", "<m>\u00fc</m>".encode())
            assert (response.status_text, response.body) == ("200 OK", b"ok")
            return address.removeprefix("http://")

    authority = asyncio.run(run())
    [(head, body)] = seen
    assert head.decode().split("\r\n") == [
        "POST /b%20c?q=%C3%BC HTTP/1.1",
        f"Host: {authority}",
        "Connection: keep-alive",
        "Content-Type: text/xml",
        f"Content-Length: {len(body)}",
        *("", ""),
    ]
    assert body == "<m>\u00fc</m>".encode()


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\rb", "a\0b", "\x7f"])
def test_a_header_cannot_become_two(value: str):
    with pytest.raises(HttpError, match="the header X has characters") as raised:
        http_client.write_head(parse_url("http://a.example/"), {"X": value}, 0)
    assert value not in str(raised.value)


def test_a_header_is_ascii():
    with pytest.raises(UnicodeError):
        http_client.write_head(parse_url("http://a.example/"), {"X": "\u00fc"}, 0)


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_server_may_refuse_a_request_that_it_has_not_read(is_ended: bool):
    """And the rest of the request is not waited for, even if the server does not close the connection."""
    refusal = b"HTTP/1.1 413 Too Large\r\n" + (b"" if is_ended else b"Content-Length: 3\r\n") + b"\r\nno!"

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(refusal)
        if is_ended:
            writer.write_eof()
        await asyncio.Event().wait()

    async def run() -> None:
        async with serving(handle) as address, new_client() as client:
            response = await post(client, address, b"x" * 50_000_000)
            assert (response.status, response.body) == (413, b"no!")
            assert client._idle == [], "the request was not sent to its end"

    asyncio.run(run())


def test_a_server_may_refuse_before_it_is_asked(monkeypatch: pytest.MonkeyPatch):
    connect = HttpClient._connect

    async def connect_slowly(self: HttpClient, url: HttpUrl) -> HttpConnection:
        connection = await connect(self, url)
        await asyncio.sleep(0.05)
        return connection

    monkeypatch.setattr(HttpClient, "_connect", connect_slowly)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Busy\r\nConnection: close\r\nRetry-After: 9\r\n\r\n")
        await reader.read(10)

    async def run() -> None:
        async with serving(handle) as address, new_client() as client:
            response = await post(client, address)
            assert (response.status, response.headers["retry-after"]) == (503, "9")

    asyncio.run(run())


# connections


def test_connections_are_used_again_up_to_a_number_and_for_a_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_client, "IDLE_SECONDS_MAX", 0.2)
    opened: list[bytes] = []
    together = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(b"")
        while True:
            await read_request(reader)
            await together.wait()
            writer.write(OK)

    async def run() -> None:
        async with serving(handle) as address, new_client(idle_max=2) as client:
            requests = [asyncio.create_task(post(client, address)) for _ in range(5)]
            while len(opened) < 5:
                await asyncio.sleep(0.01)
            together.set()
            await asyncio.gather(*requests)
            assert len(client._idle) == 2
            await asyncio.gather(post(client, address), post(client, address))
            assert len(opened) == 5
            await asyncio.sleep(0.5)
            assert client._idle == [], "they are closed, although no request follows"
            await post(client, address)
            assert len(opened) == 6

    asyncio.run(run())


def test_a_connection_that_the_server_has_closed_is_not_used_again():
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)

    async def run() -> None:
        async with serving(handle) as address, new_client() as client:
            for pause in (0.0, 0.05) * 10:
                assert (await post(client, address)).body == b"ok"
                await asyncio.sleep(pause)

    asyncio.run(run())


def test_a_request_is_not_repeated_by_the_client_if_its_connection_ends():
    """It may have been processed. The outbox tries again, and counts it."""
    asked: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        asked.append(1)
        writer.write(OK)
        await read_request(reader)
        asked.append(2)

    async def run() -> None:
        async with serving(handle) as address, new_client() as client:
            await post(client, address)
            with pytest.raises(HttpError, match=re.escape(NO_RESPONSE)):
                await post(client, address)
            assert asked == [1, 2]
            await post(client, address)
            assert asked == [1, 2, 1]

    asyncio.run(run())


def test_a_request_that_is_cancelled_takes_its_connection_with_it():
    async def run() -> None:
        async with serving(answering(OK, b"HTTP/1.1 200 OK\r\n", OK)) as address, new_client() as client:
            assert (await post(client, address)).body == b"ok"
            with pytest.raises(TimeoutError):
                await post(client, address, seconds=0.05)
            assert client._idle == []
            assert (await post(client, address)).body == b"ok"

    asyncio.run(run())


def test_what_a_server_says_unasked_ends_its_connection():
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await asyncio.sleep(0.05)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        await reader.read()

    async def run() -> None:
        async with serving(handle) as address, new_client() as client:
            for _ in range(2):
                assert (await post(client, address)).body == b"ok"
                await asyncio.sleep(0.15)

    asyncio.run(run())


def test_a_connection_that_has_ended_leaves_nothing_to_the_garbage_collector(monkeypatch: pytest.MonkeyPatch):
    made: list[weakref.ref[HttpConnection]] = []

    class Noted(HttpConnection):
        def __init__(self) -> None:
            super().__init__()
            made.append(weakref.ref(self))

    monkeypatch.setattr(http_client, "HttpConnection", Noted)
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert not gc.isenabled(), "the collector runs between tests only"

    async def run() -> None:
        async with serving(answering(closing)) as address, new_client() as client:
            for _ in range(3):
                await post(client, address)
            await asyncio.sleep(0.01)
            assert [each() for each in made] == [None] * 3

    asyncio.run(run())


# addresses


def test_the_next_address_is_tried_if_one_fails_or_is_silent(monkeypatch: pytest.MonkeyPatch):
    connect = guarded_network._connect
    given_up: list[str] = []

    async def connect_or_wait(to: SocketAddress) -> socket.socket:
        if to[1][0] == "192.0.2.1":  # an address of which nothing comes back
            try:
                await asyncio.Event().wait()
            finally:
                given_up.append("192.0.2.1")
        return await connect(to)

    monkeypatch.setattr(guarded_network, "_connect", connect_or_wait)

    async def run() -> None:
        async with serving(answering(OK)) as address, new_client() as client:
            port = int(address.rpartition(":")[2])
            found = [("192.0.2.1", port), ("127.0.0.1", 1), ("127.0.0.1", port)]

            async def look_up(*args: object, **named: object) -> list[object]:
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", each) for each in found]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
            assert (await post(client, f"http://many.example:{port}/")).body == b"ok"
            assert given_up == ["192.0.2.1"]
            found[:] = [("127.0.0.1", 1), ("127.0.0.1", 1)]
            with pytest.raises(OSError, match="All connection attempts failed"):
                await post(client, f"http://none.example:{port}/")

    asyncio.run(run())


def test_a_host_that_a_message_names_is_looked_up_once_and_connected_to_where_allowed(monkeypatch: pytest.MonkeyPatch):
    async def run() -> None:
        async with serving(answering(OK)) as address:
            port = int(address.rpartition(":")[2])
            lookups: list[str] = []
            found = ["10.0.0.1", "127.0.0.1"]

            async def look_up(host: str, *args: object, **named: object) -> list[object]:
                lookups.append(host)
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in found]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
            listed = Recipients.of(["*.example:*", f"127.0.0.1:{port}"])
            client = HttpClient(GuardedNetwork(listed), None, 8)
            assert (await post(client, f"http://both.example:{port}/")).body == b"ok"
            assert lookups == ["both.example"], "10.0.0.1 was not even tried: it would not have answered"
            found.remove("127.0.0.1")
            with pytest.raises(NotAllowed, match=f"http://10.0.0.1:{port}"):
                await post(client, f"http://other.example:{port}/")
            with pytest.raises(NotAllowed, match=r"https://both\.example:443"):
                await GuardedNetwork(Recipients.of(["http://both.example"])).connect("https", "both.example", 443)
            await client.close()

    asyncio.run(run())


def test_ipv6_is_spoken():
    async def run() -> None:
        async with serving(answering(OK), host="::1") as address, new_client() as client:
            assert (await post(client, address)).body == b"ok"

    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 on this machine")
    asyncio.run(run())


# TLS


def test_names_and_authorities_of_certificates_are_checked(authority: trustme.CA):
    server_side, client_side = contexts(authority, "shop.example")
    asked: list[str | None] = []
    server_side.sni_callback = lambda connection, name, context: asked.append(name)
    stranger = contexts(trustme.CA(), "shop.example")[1]

    async def run(monkeypatch: pytest.MonkeyPatch) -> None:
        async def look_up(*args: object, **named: object) -> list[object]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
        async with serving(answering(OK), server_side) as address:
            port = int(address.rpartition(":")[2])
            async with new_client(client_side) as client:
                assert (await post(client, f"https://shop.example:{port}/")).body == b"ok"
                with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
                    await post(client, f"https://other.example:{port}/")
                with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
                    await post(client, f"https://127.0.0.1:{port}/")
            async with new_client(stranger) as client:
                with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
                    await post(client, f"https://shop.example:{port}/")
            assert asked == ["shop.example", "other.example", None, "shop.example"]

    with pytest.MonkeyPatch.context() as monkeypatch:
        asyncio.run(run(monkeypatch))


def test_a_server_gets_the_certificate_that_it_asks_for(authority: trustme.CA):
    server_side, client_side = contexts(authority, "127.0.0.1")
    authority.configure_trust(server_side)
    server_side.verify_mode = ssl.CERT_REQUIRED
    seen: list[object] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(dict(writer.get_extra_info("peercert"))["subjectAltName"])
        await answering(OK)(reader, writer)

    async def run() -> None:
        async with serving(handle, server_side) as address:
            async with new_client(client_side) as client:
                with pytest.raises((HttpError, OSError)) as raised:
                    await post(client, address)
                assert not isinstance(raised.value, ssl.SSLCertVerificationError)
            authority.issue_cert("node.example").configure_cert(client_side)
            async with new_client(client_side) as client:
                assert (await post(client, address)).body == b"ok"
            assert seen == [(("DNS", "node.example"),)]

    asyncio.run(run())


def test_what_is_no_tls_is_an_error_and_not_a_time_out(authority: trustme.CA):
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read(10)

    async def run() -> None:
        async with serving(handle) as address, new_client(contexts(authority, "x.example")[1]) as client:
            with pytest.raises(OSError, match="SSL"):
                await post(client, address.replace("http:", "https:"))

    asyncio.run(run())
