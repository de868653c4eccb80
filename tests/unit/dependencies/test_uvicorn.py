"""What demaq.gateways.http.http_protocol and demaq.gateways.http.server use of uvicorn beyond its documentation."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import httptools
import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

REQUEST = b"POST /orders?n=1 HTTP/1.1\r\nHost: a\r\nX-Trace: T\r\nContent-Length: 4\r\n\r\n<a/>"


class Transport:
    """Has no methods but those that `CoalescingTransport` passes on to a transport of asyncio, and records calls."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False

    def get_extra_info(self, name: str) -> Any:
        return None

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Refused(Exception):
    """Raised in a callback, as `CarefulProtocol` does."""


async def answer(scope: Any, receive: Any, send: Any) -> None:
    assert await receive() == {"type": "http.request", "body": b"<a/>", "more_body": False}
    await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def connect(protocol_class: type[HttpToolsProtocol] = HttpToolsProtocol, app: Any = answer) -> tuple[Any, Transport]:
    """Return a protocol that is connected to a transport. Within a running loop."""
    config = uvicorn.Config(app, interface="asgi3", ws="none", lifespan="off", log_config=None, server_header=False)
    protocol = protocol_class(config, ServerState(), {})
    transport = Transport()
    protocol.connection_made(transport)  # type: ignore[arg-type]  # it needs no more of one
    return protocol, transport


def in_loop(check: Callable[[], Any]) -> None:
    async def run() -> None:
        check()

    asyncio.run(run())


def test_a_connection_has_the_attributes_that_ours_reads_and_sets():
    def check() -> None:
        protocol, transport = connect()
        assert protocol.loop is asyncio.get_running_loop()
        assert protocol.transport is transport
        assert protocol.scheme == "http"
        assert isinstance(protocol.access_log, bool)
        assert protocol.cycle is None
        assert isinstance(protocol.parser, httptools.HttpRequestParser)

    in_loop(check)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("connection_made", ["self", "transport"]),
        ("connection_lost", ["self", "exc"]),
        ("data_received", ["self", "data"]),
        ("eof_received", ["self"]),
        ("on_message_begin", ["self"]),
        ("on_url", ["self", "url"]),
        ("on_header", ["self", "name", "value"]),
        ("on_headers_complete", ["self"]),
        ("on_body", ["self", "body"]),
        ("on_message_complete", ["self"]),
        ("send_400_response", ["self", "msg"]),
    ],
)
def test_a_method_that_ours_overrides_has_these_parameters(name: str, parameters: list[str]):
    assert list(inspect.signature(getattr(HttpToolsProtocol, name)).parameters) == parameters


def test_a_request_begins_with_an_empty_target_no_headers_and_a_state_of_its_own():
    def check() -> None:
        protocol, _ = connect()
        protocol.on_message_begin()
        first = protocol.scope["state"]
        assert (protocol.url, protocol.headers, protocol.expect_100_continue) == (b"", [], False)
        assert protocol.scope["headers"] is protocol.headers, "what replaces the content of one replaces that of both"
        protocol.on_message_begin()
        assert protocol.scope["state"] is not first

    in_loop(check)


def test_the_target_comes_in_pieces_and_names_of_headers_are_in_small_letters():
    def check() -> None:
        protocol, _ = connect()
        protocol.on_message_begin()
        protocol.on_url(b"/a")
        protocol.on_url(b"?b")
        protocol.on_header(b"X-Trace", b"T")
        assert (protocol.url, protocol.headers) == (b"/a?b", [(b"x-trace", b"T")])

    in_loop(check)


def test_a_request_goes_through_the_parser_that_is_in_the_attribute():
    class Counting:
        def __init__(self, protocol: Any) -> None:
            self._parser = httptools.HttpRequestParser(protocol)
            self.fed = 0

        def feed_data(self, data: bytes) -> None:
            self.fed += len(data)
            self._parser.feed_data(data)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._parser, name)

    def check() -> None:
        protocol, _ = connect()
        protocol.parser = Counting(protocol)
        protocol.data_received(REQUEST)
        assert protocol.parser.fed == len(REQUEST)
        assert protocol.cycle.scope["path"] == "/orders"

    in_loop(check)


def test_a_cycle_says_how_far_a_request_and_its_response_are():
    async def run() -> None:
        protocol, transport = connect()
        head, body = REQUEST[:-4], REQUEST[-4:]
        protocol.data_received(head)
        cycle = protocol.cycle
        assert (cycle.more_body, cycle.response_started, cycle.response_complete) == (True, False, False)
        assert cycle.keep_alive
        assert cycle.scope is protocol.scope
        protocol.data_received(body)
        assert not cycle.more_body
        while not cycle.response_complete:
            await asyncio.sleep(0)
        assert cycle.response_started
        assert transport.written.endswith(b"\r\n\r\nok")
        assert not transport.is_closed
        protocol.connection_lost(None)

    asyncio.run(run())


def test_a_cycle_that_is_not_kept_alive_closes_the_connection_after_its_response():
    async def run() -> None:
        protocol, transport = connect()
        protocol.data_received(REQUEST)
        protocol.cycle.keep_alive = False
        while not protocol.cycle.response_complete:
            await asyncio.sleep(0)
        assert b"connection: close\r\n" in transport.written
        assert transport.is_closed

    asyncio.run(run())


def test_whether_a_client_waits_for_100_continue_is_read_when_the_head_is_complete():
    class Never(HttpToolsProtocol):
        def on_headers_complete(self) -> None:
            self.expect_100_continue = False
            super().on_headers_complete()

    async def run() -> None:
        for protocol_class, is_asked in ((HttpToolsProtocol, True), (Never, False)):
            protocol, transport = connect(protocol_class)
            head, body = REQUEST[:-4], REQUEST[-4:]
            protocol.data_received(head.replace(b"X-Trace: T", b"Expect: 100-continue"))
            await asyncio.sleep(0)
            assert transport.written.startswith(b"HTTP/1.1 100 Continue") == is_asked
            protocol.data_received(body)
            while not protocol.cycle.response_complete:
                await asyncio.sleep(0)
            protocol.connection_lost(None)

    asyncio.run(run())


@pytest.mark.parametrize("callback", ["on_url", "on_header", "on_headers_complete"])
def test_an_exception_in_a_callback_ends_in_send_400_response(callback: str):
    class Refusing(HttpToolsProtocol):
        refusals = 0

        def send_400_response(self, msg: str) -> None:
            self.refusals += 1

    def refuse(*_: Any) -> None:
        raise Refused

    setattr(Refusing, callback, refuse)

    def check() -> None:
        protocol, transport = connect(Refusing)
        protocol.data_received(REQUEST)
        assert protocol.refusals == 1
        assert transport.written == b""

    in_loop(check)


def test_a_status_line_is_there_for_every_status_that_ours_refuses_with():
    for status in (400, 408, 414, 431, 501, 505):
        assert STATUS_LINE[status].startswith(b"HTTP/1.1 %d " % status)
        assert STATUS_LINE[status].endswith(b"\r\n")


def test_a_server_takes_a_class_for_its_protocol_and_a_function_for_its_tls_context():
    def make_context(config: uvicorn.Config, default: Callable[[], Any]) -> Any:
        raise Refused

    config = uvicorn.Config(answer, http=HttpToolsProtocol, log_config=None, ssl_context_factory=make_context)
    with pytest.raises(Refused):
        config.load()
    config = uvicorn.Config(answer, http=HttpToolsProtocol, log_config=None)
    config.load()
    assert config.http_protocol_class is HttpToolsProtocol


def test_a_server_serves_on_given_sockets_until_should_exit_is_set():
    assert list(inspect.signature(uvicorn.Server.serve).parameters) == ["self", "sockets"]
    assert uvicorn.Server(uvicorn.Config(answer)).should_exit is False


def test_a_request_is_begun_by_a_method_that_ours_overrides_and_can_be_answered_without_its_task():
    """A request that is all there is answered by writing to the transport, and its cycle set to complete."""
    begun: list[tuple[Any, Any]] = []

    class Holding(HttpToolsProtocol):
        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            begun.append((cycle, app))

    async def serve_two() -> None:
        protocol, transport = connect(Holding)
        protocol.data_received(REQUEST)
        [(cycle, app)] = begun
        assert app is protocol.app
        assert cycle is protocol.cycle
        assert (bytes(cycle.body), cycle.scope["path"]) == (b"<a/>", "/orders")
        assert (cycle.keep_alive, cycle.disconnected, cycle.flow.write_paused) == (True, False, False)
        assert isinstance(cycle.default_headers, list)
        assert isinstance(cycle.message_event, asyncio.Event)
        assert cycle.transport is transport
        protocol.data_received(REQUEST)
        assert len(begun) == 1, "the next one waits for the end of the first"
        cycle.response_started = cycle.response_complete = True
        cycle.on_response()
        assert len(begun) == 2

    asyncio.run(serve_two())
