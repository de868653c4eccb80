"""Senders who wait for answers: many at once, some who go away, some who ask again."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from demaq.errors import StoreError
from demaq.gateways.settings import IncomingSettings, Settings
from tests.support.gateways.client import Client, Headers, Response
from tests.support.gateways.nodes import Running, running, wait_until

APPLICATION = """
create queue ask kind incomingGateway
create queue slow kind incomingGateway
create queue never kind incomingGateway
create queue plain kind incomingGateway
create queue second
create queue third
create queue answers kind outgoingGateway
create rule first for ask if (/question) then do enqueue <two>{string(/question)}</two> into second
create rule then for second if (/two) then do enqueue <three>{string(/two)}</three> into third
create rule last for third if (/three) then do enqueue <answer>{string(/three)}</answer> into answers
create queue later kind echo
create rule wait for slow if (/question) then
  do enqueue /* into later with timeout value xs:dayTimeDuration("PT0.6S") with target value "third"
create rule echoed for third if (/question) then do enqueue <answer>{string(/question)}</answer> into answers
create rule silent for never if (/answer) then do enqueue <late/> into answers
"""
AT_ONCE = 50


@pytest.fixture(scope="module", params=[timedelta(days=1), timedelta(0)], ids=["kept", "not kept"])
def here(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Running]:
    short = IncomingSettings(reply_seconds_max=0.2)
    settings = Settings(incoming_default=IncomingSettings(reply_seconds_max=20), incoming_by_queue={"never": short})
    with running(tmp_path_factory.mktemp("conversations"), APPLICATION, settings, keep=request.param) as found:
        yield found


def waiting(here: Running) -> int:
    return len(here.gateways.connections)


def at_once(here: Running, path: str, texts: list[str], **headers: str) -> list[Response]:
    with ThreadPoolExecutor(len(texts)) as threads:
        return list(threads.map(lambda text: here.post(path, f"<question>{text}</question>", **headers), texts))


def test_many_conversations_at_once_each_get_their_own_answer(here: Running):
    texts = [f"q{number}" for number in range(AT_ONCE)]
    here.client = Client(here.address, timeout=60)

    answers = at_once(here, "/ask", texts)

    assert [answer.text for answer in answers] == [f"<answer>{text}</answer>" for text in texts]
    assert waiting(here) == 0


def test_an_answer_for_a_client_that_has_gone_is_an_error(here: Running):
    before = len(here.stored("demaq:errors"))
    with _connection(here) as connection:
        connection.sendall(_request("slow", "gone"))
        wait_until(lambda: waiting(here) == 1)
    wait_until(lambda: waiting(here) == 0)

    [error] = here.wait_for("demaq:errors", before + 1)[before:]
    assert "<connectionClosed/>" in error.body
    assert "gone" in error.body


def test_a_client_that_goes_does_not_take_the_answer_from_others_with_the_same_key(here: Running):
    with ThreadPoolExecutor(1) as threads:
        with _connection(here) as connection:
            connection.sendall(_request("slow", "shared", "Idempotency-Key: shared-1"))
            wait_until(lambda: waiting(here) == 1)
            other = threads.submit(here.post, "/slow", "<question>shared</question>", Idempotency_Key="shared-1")
            time.sleep(0.1)
        assert other.result().text == "<answer>shared</answer>"
    assert waiting(here) == 0


def test_requests_with_one_key_at_the_same_time_are_one_message_and_get_one_answer(here: Running):
    before = len(here.stored("slow"))
    answers = at_once(here, "/slow", ["a", "a", "a", "a"], Idempotency_Key="same")

    assert len({answer.text for answer in answers}) == 1
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.headers["demaq-message-id"] for answer in answers}) == 1
    assert not here.keeps_all or len(here.stored("slow")) == before + 1


def test_an_answer_can_be_fetched_later_with_the_key(here: Running):
    first = here.post("/slow", "<question>async</question>", Idempotency_Key="async-1", Prefer="respond-async")
    again = here.post("/slow", "<question>async</question>", Idempotency_Key="async-1")

    assert (first.status_code, again.status_code) == (202, 200)
    assert again.text == "<answer>async</answer>"
    assert first.headers["demaq-message-id"] == again.headers["demaq-message-id"]


@pytest.mark.parametrize(
    "prefer", [["wait=0"], ["handling=strict", "wait=0"], ["respond-async"], ['x="y", respond-async']]
)
def test_a_client_that_prefers_so_is_answered_at_once_that_the_message_is_stored(here: Running, prefer: list[str]):
    headers: Headers = {"Content-Type": "application/xml", "Prefer": prefer}
    began = time.monotonic()
    answer = here.client.post("/slow", content=b"<question/>", headers=headers)

    assert answer.status_code == 202
    assert time.monotonic() - began < 0.5


def test_a_client_without_an_answer_in_time_gets_that_the_message_is_stored(here: Running):
    answer = here.post("/never", "<question/>")

    assert answer.status_code == 202
    number = int(answer.headers["demaq-message-id"])
    assert not here.keeps_all or here.node.store.message(number) is not None
    assert waiting(here) == 0


def test_pipelined_requests_are_answered_in_order(here: Running):
    with _connection(here) as connection:
        connection.sendall(
            _request("slow", "one") + _request("ask", "two") + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        )
        found = _read_until(connection, b"ok\n")

    places = [found.index(text) for text in (b"<answer>one<", b"<answer>two<", b"ok\n")]
    assert places == sorted(places)


@pytest.mark.parametrize("queue", ["slow", "never", "plain"])
def test_a_client_that_closes_its_side_after_a_request_gets_that_it_is_stored(here: Running, queue: str):
    with _connection(here) as connection:
        connection.sendall(_request(queue, "half"))
        connection.shutdown(socket.SHUT_WR)
        assert _read_until(connection, b"never").startswith(b"HTTP/1.1 202 ")
    wait_until(lambda: waiting(here) == 0)


def test_nonsense_after_a_request_is_not_taken_for_its_answer(here: Running):
    before = len(here.stored("slow"))
    with _connection(here) as connection:
        connection.sendall(_request("slow", "first") + b"\x16\x03 nonsense\r\n\r\n")
        found = _read_until(connection, b"never")

    assert b" 400 " not in found
    assert not here.keeps_all or len(here.wait_for("slow", before + 1)) == before + 1


@pytest.mark.slow
def test_what_was_said_before_a_node_stopped_still_holds_when_it_is_started_again(tmp_path: Path):
    settings = Settings(incoming_default=IncomingSettings(reply_seconds_max=60))
    with running(tmp_path, APPLICATION, settings) as here, ThreadPoolExecutor(1) as threads:
        first = here.post("/ask", "<question>kept</question>", Idempotency_Key="k")
        waits = threads.submit(here.post, "/never", "<question>still here</question>")
        wait_until(lambda: waiting(here) == 1)
        here.gateways.stop_receiving()
        accepted = waits.result()
        assert accepted.status_code == 202
        assert waiting(here) == 0
    with running(tmp_path, APPLICATION, http=_another_loopback()) as here:
        again = here.post("/ask", "<question>kept</question>", Idempotency_Key="k")
        other = here.post("/ask", "<question>other</question>", Idempotency_Key="k")

        assert other.status_code == 422
        assert first.text == again.text == "<answer>kept</answer>"
        assert first.headers["demaq-message-id"] == again.headers["demaq-message-id"]
        assert here.node.store.message(int(accepted.headers["demaq-message-id"])) is not None


def _another_loopback() -> tuple[str, int]:
    """That of IPv6, on machines that have it."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return "::1", 0
    except OSError:
        return "127.0.0.1", 0


def _request(queue: str, text: str, *headers: str) -> bytes:
    body = f"<question>{text}</question>"
    lines = [
        f"POST /{queue} HTTP/1.1",
        "Host: x",
        "Content-Type: application/xml",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def _connection(here: Running) -> socket.socket:
    host, port = here.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def _read_until(connection: socket.socket, end: bytes) -> bytes:
    found = b""
    while end not in found:
        piece = connection.recv(10_000)
        if not piece:
            break
        found += piece
    return found


@pytest.mark.parametrize("headers", [{}, {"Idempotency_Key": "doubt"}])
def test_an_answer_whose_commit_failed_and_took_place_reaches_its_sender(
    here: Running, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
):
    engine = here.node.engine
    deliver, faults = engine.deliver, [StoreError("the disk has failed")]

    def fail_afterwards(ended: Any) -> None:
        deliver(ended)
        if faults:
            raise faults.pop()

    monkeypatch.setattr(engine, "deliver", fail_afterwards)
    answer = here.post("/ask", "<question>doubt</question>", **headers)
    assert (answer.status_code, answer.text) == (200, "<answer>doubt</answer>")
    assert not faults
