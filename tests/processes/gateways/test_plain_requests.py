"""A request that is for nothing but to store a message is answered without a task, and no one can tell."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from typing import Any, BinaryIO

import pytest

from demaq.documents import Document, parse_document
from demaq.errors import StoreError
from demaq.gateways.http import incoming_gateway
from demaq.gateways.http.incoming_gateway import IncomingGateway, TakenRequest
from demaq.gateways.settings import IncomingSettings, Settings
from demaq.store.protocol import StoredMessage
from tests.support.gateways.nodes import Running, running, wait_until

APPLICATION = """
create queue orders kind incomingGateway
create queue few kind incomingGateway
create queue short kind incomingGateway
create queue numbers kind incomingGateway
create property number as xs:integer queue numbers value /n
"""
ENVELOPE = '<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><order/></e:Body></e:Envelope>'
REQUESTS = {
    "a message": ("/orders", "<order/>", {}),
    "headers": ("/orders", "<order/>", {"X-Trace": "t", "Demaq-Sender": "me", "Demaq-Hops": "3", "Cookie": "c"}),
    "another encoding": ("/orders", "<order>\xfc</order>", {"Content-Type": "text/xml; charset=iso-8859-1"}),
    "an encoding that is none": ("/orders", "<order/>", {"Content-Type": "text/xml; charset=rot13"}),
    "no content type": ("/orders", "<order/>", {"Content-Type": ""}),
    "a key": ("/orders", "<order/>", {"Idempotency-Key": "k"}),
    "no key": ("/orders", "<order/>", {"Idempotency-Key": '""'}),
    "not well-formed": ("/orders", "<order>", {}),
    "a document type": ("/orders", "<!DOCTYPE order []><order/>", {}),
    "an envelope": ("/orders", ENVELOPE, {"Content-Type": "text/xml"}),
    "an envelope that is declared": ("/orders", ENVELOPE, {"Content-Type": "text/xml", "SOAPAction": '""'}),
    "no envelope": ("/orders", "<order/>", {"Content-Type": "application/soap+xml"}),
    "something else": ("/orders", "{}", {"Content-Type": "application/json"}),
    "packed": ("/orders", "<order/>", {"Content-Encoding": "gzip"}),
    "too long": ("/short", f"<order>{'x' * 200}</order>", {}),
    "a property that is none": ("/numbers", "<n>one</n>", {}),
    "a path with a slash at its end": ("/orders/", "<order/>", {}),
    "a last request": ("/orders", "<order/>", {"Connection": "close"}),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    few = IncomingSettings(gateway_rate_per_second=0.001, gateway_burst=2)
    settings = Settings(incoming_by_queue={"few": few, "short": IncomingSettings(body_bytes_max=100)})
    with running(tmp_path_factory.mktemp("plain"), APPLICATION, settings) as found:
        found.post("/orders", "<order/>")  # so that the load is known
        yield found


def connect(here: Running) -> socket.socket:
    host, port = here.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def write(path: str, body: str, headers: dict[str, str]) -> bytes:
    """A request in one piece, as most clients send short ones."""
    known = {"Host": "a", "Content-Type": "application/xml", **headers, "Content-Length": str(len(body))}
    lines = [f"{name}: {value}\r\n" for name, value in known.items()]
    return f"POST {path} HTTP/1.1\r\n{''.join(lines)}\r\n{body}".encode("latin-1")


def read(connection: socket.socket, answers: int = 1) -> bytes:
    """So many answers."""
    with connection.makefile("rb") as stream:
        return b"".join([_read_answer(stream) for _ in range(answers)])


def _read_answer(stream: BinaryIO) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = stream.readline()
        assert line, head
        head += line
    length = re.search(rb"content-length: ([0-9]+)", head)
    assert length is not None
    return head + stream.read(int(length[1]))


def ask(here: Running, path: str, body: str, headers: dict[str, str]) -> bytes:
    with connect(here) as connection:
        connection.sendall(write(path, body, headers))
        return read(connection)


def without_numbers(answer: bytes) -> bytes:
    return re.sub(rb"[0-9]+ GMT|date: [^\r]*|message-id: [0-9]+|message=\"[0-9]+\"|content-length: [0-9]+", b"", answer)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_that_is_taken_is_answered_as_any_other(
    here: Running, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, body, headers = REQUESTS[name]
    keyed = {**headers, "Idempotency-Key": headers["Idempotency-Key"] + "2"} if name == "a key" else headers
    quick, taken = ask(here, path, body, headers), here.stored("orders")[-1]
    monkeypatch.setattr(IncomingGateway, "take", lambda *_: None)
    usual, served = ask(here, path, body, keyed), here.stored("orders")[-1]

    assert without_numbers(quick) == without_numbers(usual)
    assert comparable(taken) == comparable(served)


def comparable(message: StoredMessage) -> object:
    properties = {name: value for name, value in message.properties.items() if name != "demaq:arrived"}
    return message.queue, message.body, list(properties.items()), message.hops


def test_plain_requests_are_taken(here: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[TakenRequest | None] = []
    take = IncomingGateway.take

    def note(*arguments: Any) -> TakenRequest | None:
        taken.append(take(*arguments))
        return taken[-1]

    monkeypatch.setattr(IncomingGateway, "take", note)
    here.post("/orders", "<order/>")
    for _ in range(3):
        ask(here, "/orders", "<order/>", {})

    assert any([each is not None for each in taken])


def test_requests_that_are_sent_at_once_are_answered_in_their_order(here: Running) -> None:
    with connect(here) as connection:
        connection.sendall(b"".join([write("/orders", body, {}) for body in ("<a/>", "<b>", "<c/>", "<d/>")]))
        heard = read(connection, 4)

    numbers = [int(number) for number in re.findall(rb'<accepted message="([0-9]+)"/>', heard)]
    assert [here.node.store.message(number).body for number in numbers] == ["<a/>", "<c/>", "<d/>"]  # type: ignore[union-attr]
    assert re.findall(rb"HTTP/1.1 ([0-9]+)", heard) == [b"202", b"400", b"202", b"202"]


def test_a_sender_that_closes_its_side_is_answered(here: Running) -> None:
    with connect(here) as connection:
        connection.sendall(write("/orders", "<order/>", {}))
        connection.shutdown(socket.SHUT_WR)
        heard = read(connection)

    assert heard.startswith(b"HTTP/1.1 202 ")
    assert b"connection: close" in heard


def test_the_message_of_a_sender_that_has_gone_is_stored(here: Running) -> None:
    before = len(here.stored("orders"))
    with connect(here) as connection:
        connection.sendall(write("/orders", "<gone/>", {}))

    wait_until(lambda: len(here.stored("orders")) > before)


def test_a_rate_counts_each_request_once_and_what_exceeds_it_is_not_parsed(
    here: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[bytes | str] = []

    def note(body: bytes | str, *more: Any) -> Document:
        parsed.append(body)
        return parse_document(body, *more)

    monkeypatch.setattr(incoming_gateway, "parse_document", note)
    statuses = [ask(here, "/few", "<order/>", {})[9:12] for _ in range(4)]

    assert statuses == [b"202", b"202", b"429", b"429"]
    assert len(parsed) == 2


def test_a_store_that_fails_asks_to_come_again(here: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(here, "/orders", "<order/>", {})

    def fail(*_: Any, **__: Any) -> None:
        raise StoreError("the disk is gone")

    monkeypatch.setattr(here.node.engine, "append_numbered", fail)
    assert ask(here, "/orders", "<order/>", {}).startswith(b"HTTP/1.1 503 ")


def test_what_is_held_for_a_request_is_given_back(here: Running) -> None:
    for body in ("<order/>", "<order>"):
        ask(here, "/orders", body, {})

    held = here.gateways._held
    wait_until(lambda: held.trees == 0)
    assert held.bytes == 0


def test_few_heads_are_remembered(here: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming_gateway, "HEADS_MAX", 3)
    server = here.gateways.server
    assert server is not None
    gateway = server._gateways["/orders"]
    for number in range(10):
        ask(here, "/orders", "<order/>", {"X-Number": str(number)})
    ask(here, "/orders", "<order/>", {"X-Long": "x" * 2_000})

    assert 0 < len(gateway._heads) <= 3
    values = {value.text for message in here.stored("orders") for value in message.properties.values()}
    assert {"9", "x" * 1_000} & values == {"9"}
