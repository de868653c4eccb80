"""Requests become messages, or are refused with a status that says why; nothing that was accepted is lost."""

from __future__ import annotations

import contextlib
import re
import resource
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from demaq.engine.arrivals import EvaluatedArrivals
from demaq.engine.intake import IncomingMessage
from demaq.errors import StoreError
from demaq.gateways.admission import LOAD_SECONDS, LOAD_SECONDS_MAX
from demaq.gateways.http import http_protocol
from demaq.gateways.http.request_body import Held
from demaq.gateways.http.responses import Refusal
from demaq.gateways.http.server import listen
from demaq.gateways.settings import IncomingSettings, Settings
from demaq.server.node import Node
from demaq.store.protocol import NewMessage
from tests.support.gateways.client import Headers
from tests.support.gateways.nodes import Running, running, wait_until

APPLICATION = """
create queue orders kind incomingGateway
create queue invoices kind incomingGateway endpoint "http:/v1/invoices/" errorqueue wrong
create queue ask kind incomingGateway endpoint "/ask" schema ask.xsd
create queue slow kind incomingGateway
create queue full kind incomingGateway
create queue wrong
create queue done
create queue answers kind outgoingGateway
create property customer as xs:integer queue orders value //@customer
create property sender as xs:string queue orders value qs:property("demaq:sender")
create property agent as xs:string queue orders value qs:property("demaq:header.X-Trace")
create rule keep for orders if (/order) then do enqueue . into done
create rule answer for ask if (/question) then do enqueue <answer>{string(/question)}</answer> into answers
create rule twice for ask if (/question = "twice") then do enqueue <answer>again</answer> into answers
create rule silent for slow if (/answer) then do enqueue <late/> into answers
"""
SCHEMA = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="question" type="xs:string"/></xs:schema>"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    quick = IncomingSettings(body_bytes_max=100_000, body_seconds_max=0.5, reply_seconds_max=2)
    full = IncomingSettings(disk_free_bytes_min=10**18, retry_after_seconds=7)
    slow = IncomingSettings(reply_seconds_max=0.2, late="timeout")
    settings = Settings(incoming_default=quick, incoming_by_queue={"slow": slow, "full": full})
    with running(tmp_path_factory.mktemp("intake"), APPLICATION, settings, ask_xsd=SCHEMA) as found:
        yield found


def count(here: Running, queue: str) -> int:
    return len(here.stored(queue))


def test_a_message_is_stored_before_its_sender_is_answered(here: Running):
    answer = here.post("/orders", "<order customer='7'/>", X_Trace="t1")

    assert answer.status_code == 202
    number = int(answer.headers["demaq-message-id"])
    assert answer.text == f'<accepted message="{number}"/>'
    message = here.node.store.message(number)
    assert message is not None
    values = {name: value.text for name, value in message.properties.items()}
    assert values["customer"] == "7"
    assert values["demaq:sender"] == values["sender"] == "127.0.0.1"
    assert values["demaq:header.X-Trace"] == values["agent"] == "t1"
    assert values["demaq:contentType"] == "application/xml"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", values["demaq:arrived"])
    assert "demaq:connection" not in values


@pytest.mark.parametrize("path", ["/v1/invoices", "/v1/invoices/", "/v1/%69nvoices"])
def test_an_endpoint_says_where_a_gateway_is(here: Running, path: str):
    assert here.post(path, "<invoice/>").status_code == 202


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("<order>ü</order>".encode(), "application/xml"),
        ("<order>ü</order>".encode("utf-16"), "text/xml"),
        ("\ufeff<order>ü</order>".encode(), "application/order+xml"),
        ("<?xml version='1.0' encoding='ISO-8859-1'?><order>ü</order>".encode("latin-1"), "application/xml"),
        ("<order>ü</order>".encode("latin-1"), 'text/xml; charset="iso-8859-1"'),
        ("<?xml version='1.0' encoding='utf-8'?><order>ü</order>".encode("latin-1"), "text/xml; charset=ISO-8859-1"),
        ("<?xml version='1.0' encoding='windows-1252'?><order>ü</order>".encode("cp1252"), None),
    ],
)
def test_any_encoding_that_is_declared_is_read(here: Running, body: bytes, content_type: str | None):
    answer = here.post("/orders", body, content_type)

    assert answer.status_code == 202
    message = here.node.store.message(int(answer.headers["demaq-message-id"]))
    assert message is not None
    assert message.body == "<order>ü</order>"


@pytest.mark.parametrize(
    ("body", "content_type", "status", "kind", "reason"),
    [
        ("<order>", "application/xml", 400, "notWellFormed", "line 1"),
        ("", "application/xml", 400, "notWellFormed", ""),
        ("<!DOCTYPE order [<!ENTITY a 'b'>]><order>&a;</order>", "text/xml", 400, "notWellFormed", "document type"),
        ("<a>" * 300 + "</a>" * 300, "application/xml", 400, "notWellFormed", "deep"),
        ("<?xml version='1.1'?><order/>", "application/xml", 400, "notWellFormed", "1.1"),
        ("<order>\udcfc</order>", "application/xml", 400, "notWellFormed", ""),
        ("<order customer='seven'/>", "application/xml", 422, "propertyError", "customer"),
        ("{}", "application/json", 415, "refused", "application/json"),
        ("<order/>", "application/xml; charset=nonsense", 415, "refused", "nonsense"),
        ("<order/>", "application/xml; charset=utf-32", 400, "refused", "utf-32"),
        ("<order>" + "x" * 100_001 + "</order>", "application/xml", 413, "refused", "100,000"),
    ],
)
def test_what_is_wrong_is_said_with_status_and_reason(
    here: Running, body: str, content_type: str, status: int, kind: str, reason: str
):
    before = count(here, "orders")
    answer = here.post("/orders", body.encode("utf-8", "surrogateescape"), content_type)

    assert answer.status_code == status
    assert f"<{kind}/>" in answer.text
    assert reason in answer.text
    assert count(here, "orders") == before


def test_what_is_refused_is_kept_with_its_body_in_the_right_error_queue(here: Running):
    before = count(here, "wrong")
    assert here.post("/v1/invoices", "<invoice>\x01 & so on").status_code == 400

    [message] = here.stored("wrong")[before:]
    assert "<notWellFormed/>" in message.body
    assert "<initialText>&lt;invoice&gt;\ufffd &amp; so on</initialText>" in message.body


@pytest.mark.parametrize(
    ("body", "content_type", "kept"),
    [
        ("{}", "application/json", "<initialText>{}</initialText>"),
        ("<invoice/>", "application/xml; charset=nonsense", "<initialMessage><invoice/></initialMessage>"),
        ("<invoice>" + "x" * 100_001 + "</invoice>", "application/xml", "<initialText></initialText>"),
    ],
)
def test_what_is_no_message_at_all_is_reported_to_operators(here: Running, body: str, content_type: str, kept: str):
    before = count(here, "wrong")
    assert here.post("/v1/invoices", body, content_type).status_code in (413, 415)

    [message] = here.stored("wrong")[before:]
    assert "<refused/>" in message.body
    assert kept in message.body


def test_a_schema_is_checked(here: Running):
    answer = here.post("/ask", "<nonsense/>")

    assert answer.status_code == 422
    assert "<schemaViolation/>" in answer.text


def test_a_message_in_a_soap_envelope_is_taken_out_and_its_headers_are_properties(here: Running):
    text = """<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/" xmlns:o="urn:o">
      <e:Header><o:tenant>north</o:tenant></e:Header><e:Body><o:order at="o:x"/></e:Body></e:Envelope>"""
    answer = here.post("/v1/invoices", text, "text/xml", SOAPAction='"urn:x"')

    assert (answer.status_code, answer.content) == (202, b"")
    message = here.node.store.message(int(answer.headers["demaq-message-id"]))
    assert message is not None
    assert message.body.startswith("<o:order")
    assert 'xmlns:o="urn:o"' in message.body
    assert message.properties["demaq:header.{urn:o}tenant"].text == "north"


@pytest.mark.parametrize(
    ("namespace", "content_type", "status", "marks"),
    [
        ("http://schemas.xmlsoap.org/soap/envelope/", "text/xml", 500, ["faultcode", "Client"]),
        ("http://www.w3.org/2003/05/soap-envelope", "application/soap+xml", 400, ["Code", "Sender"]),
    ],
)
def test_who_speaks_soap_is_refused_with_a_fault(
    here: Running, namespace: str, content_type: str, status: int, marks: list[str]
):
    text = f'<e:Envelope xmlns:e="{namespace}"><e:Body><order customer="seven"/></e:Body></e:Envelope>'
    answer = here.post("/orders", text, content_type)

    assert answer.status_code == status
    assert answer.headers["content-type"].startswith(content_type)
    assert namespace in answer.text
    assert all(mark in answer.text for mark in marks)


# answers


def test_a_sender_that_may_be_answered_waits_for_it(here: Running):
    answer = here.post("/ask", "<question>why</question>")

    assert (answer.status_code, answer.text) == (200, "<answer>why</answer>")
    assert answer.headers["content-type"].startswith("application/xml")


def test_an_answer_to_soap_is_soap(here: Running):
    text = '<e:Envelope xmlns:e="http://www.w3.org/2003/05/soap-envelope"><e:Body><question>how</question></e:Body></e:Envelope>'
    answer = here.post("/ask", text, "application/soap+xml")

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/soap+xml")
    assert "<answer>how</answer>" in answer.text
    assert "http://www.w3.org/2003/05/soap-envelope" in answer.text


def test_the_first_answer_wins_and_the_second_is_an_error(here: Running):
    before = count(here, "demaq:errors")
    answer = here.post("/ask", "<question>twice</question>")

    assert answer.text == "<answer>twice</answer>"
    errors = here.wait_for("demaq:errors", before + 1)[before:]
    assert ["<connectionClosed/>" in error.body for error in errors] == [True]


def test_who_prefers_not_to_wait_does_not(here: Running):
    answer = here.post("/ask", "<question>later</question>", Prefer="respond-async")

    assert answer.status_code == 202


def test_a_sender_that_is_not_answered_in_time_gets_that_response(here: Running):
    began = time.monotonic()
    answer = here.post("/slow", "<nothing/>")

    assert answer.status_code == 504
    assert "<timeout/>" in answer.text
    assert int(answer.headers["demaq-message-id"]) > 0
    assert time.monotonic() - began < 10
    assert here.post("/ask", "<question>now</question>", Prefer="wait=0").status_code in (200, 202)


def test_a_repeated_request_gets_the_first_answer_again(here: Running):
    first = here.post("/ask", "<question>once</question>", Idempotency_Key="a-1")
    before = count(here, "ask")
    again = here.post("/ask", "<question>once</question>", Idempotency_Key="a-1")

    assert first.text == again.text == "<answer>once</answer>"
    assert first.headers["demaq-message-id"] == again.headers["demaq-message-id"]
    assert count(here, "ask") == before
    stored = [here.post("/orders", "<order/>", Idempotency_Key="a-1") for _ in range(2)]
    assert stored[0].text == stored[1].text


def test_a_message_of_another_node_is_stored_once(here: Running):
    name = "0123456789abcdef" * 2 + "/17"
    answers = [here.post("/orders", "<order/>", Demaq_Message=name, Demaq_Sender="http://there/") for _ in range(3)]

    assert len({answer.text for answer in answers}) == 1
    message = here.node.store.message(int(answers[0].headers["demaq-message-id"]))
    assert message is not None
    assert message.properties["Sender"].text == "http://there/"


def test_another_message_under_the_same_key_is_refused_and_kept_as_an_error(here: Running):
    first = here.post("/v1/invoices", "<invoice/>", Idempotency_Key="b-1")
    wrong = count(here, "wrong")
    others = [here.post("/v1/invoices", "<other/>", Idempotency_Key="b-1") for _ in range(2)]
    third = here.post("/v1/invoices", "<third/>", Idempotency_Key="b-1")
    again = here.post("/v1/invoices", "<invoice/>", Idempotency_Key="b-1")

    assert [answer.status_code for answer in (*others, third)] == [422, 422, 422]
    assert "another message was sent under this name" in others[0].text
    assert again.text == first.text
    reported = here.bodies("wrong")[wrong:]
    assert len(reported) == 2, "each of them once, however often it comes"
    assert "<other/>" in reported[0]
    assert "<third/>" in reported[1]


def test_keys_that_begin_alike_are_different_keys(here: Running):
    keys = ["k", "k k", "k!", "kk", "k:", "k/1", "K"]
    answers = [here.post("/orders", f"<order n='{n}'/>", Idempotency_Key=key) for n, key in enumerate(keys)]

    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == len(keys)


def test_no_sender_makes_a_message_of_a_node_vanish_by_using_its_name_first(here: Running):
    name = "0123456789abcdef" * 2 + "/18"
    key = {"Demaq_Message": name, "Idempotency_Key": name}
    forged = here.post("/ask", "<question>forged</question>", **key)
    real = here.post("/ask", "<question>real</question>", **key)
    again = here.post("/ask", "<question>real</question>", **key)
    from_other = here.post("/ask", "<question>real</question>", Demaq_Sender="http://other/", **key)

    assert forged.text == "<answer>forged</answer>"
    assert real.text == again.text == from_other.text == "<answer>real</answer>"
    numbers = [answer.headers["demaq-message-id"] for answer in (forged, real, again, from_other)]
    assert numbers[1] == numbers[2]
    assert len(set(numbers)) == 3, "what says something else is another message"


@pytest.mark.parametrize("key", ["", "x" * 256, "\u00fc"])
def test_a_key_that_cannot_be_one_is_refused(here: Running, key: str):
    headers: Headers = {"Idempotency-Key": key.encode(), "Content-Type": "application/xml"}
    assert here.client.post("/orders", content=b"<order/>", headers=headers).status_code == 400


# the server


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/orders", 405),
        ("PUT", "/orders", 405),
        ("POST", "/nowhere", 404),
        ("POST", "/healthz", 405),
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("HEAD", "/healthz", 200),
    ],
)
def test_other_requests_are_answered_too(here: Running, method: str, path: str, status: int):
    assert here.client.request(method, path).status_code == status


def test_a_slow_sender_is_cut_off(here: Running):
    with _connection(here) as connection:
        connection.sendall(
            b"POST /orders HTTP/1.1\r\nHost: x\r\nContent-Type: text/xml\r\nContent-Length: 100\r\n\r\n<ord"
        )
        assert b" 408 " in connection.recv(1000)


def test_what_a_sender_did_not_finish_is_no_error(here: Running):
    before = here.bodies("demaq:errors")
    for _ in range(3):
        with _connection(here) as connection:
            connection.sendall(b"POST /orders HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n<ord")
    assert here.post("/orders", "<not well-formed").status_code == 400
    here.wait_for("demaq:errors", len(before) + 1)
    assert not [body for body in here.bodies("demaq:errors")[len(before) :] if "<refused/>" in body]


def test_a_large_body_is_refused_before_it_is_sent(here: Running):
    with _connection(here) as connection:
        connection.sendall(
            b"POST /orders HTTP/1.1\r\nHost: x\r\nContent-Type: text/xml\r\nContent-Length: 999999999999\r\n\r\n"
        )
        assert b" 413 " in connection.recv(1000)


def test_headers_without_end_are_cut_off(here: Running):
    with _connection(here) as connection:
        connection.sendall(b"POST /orders HTTP/1.1\r\nHost: x\r\n")
        answer = b""
        try:
            for _ in range(300):
                connection.sendall(b"X-A: " + b"x" * 1000 + b"\r\n")
            answer = connection.recv(1000)
        except OSError:
            pass
        assert answer == b"" or b" 4" in answer


def test_what_is_no_http_is_refused(here: Running):
    with _connection(here) as connection:
        connection.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert b" 400 " in connection.recv(1000)


def _read_until(connection: socket.socket, end: bytes) -> bytes:
    found = b""
    while end not in found:
        piece = connection.recv(1000)
        assert piece, found
        found += piece
    return found


def _connection(here: Running) -> socket.socket:
    host, port = here.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


@pytest.mark.parametrize("body", ["<order/>", "<not well-formed"])
def test_a_full_disk_asks_to_come_again_and_nothing_is_stored(here: Running, body: str):
    before = count(here, "full"), count(here, "demaq:errors")
    answer = here.post("/full", body)
    fault = here.post("/full", body, "application/soap+xml")

    assert (answer.status_code, fault.status_code) == (503, 503)
    assert answer.headers["retry-after"] == fault.headers["retry-after"] == "7"
    assert "the disk is nearly full" in answer.text
    assert fault.text == answer.text  # it is a matter of HTTP, before SOAP
    assert (count(here, "full"), count(here, "demaq:errors")) == before
    assert here.post("/orders", "<order/>").status_code == 202


def test_a_store_that_does_not_answer_asks_to_come_again(here: Running, monkeypatch: pytest.MonkeyPatch):
    def fails(*words: object, **named: object) -> object:
        raise StoreError("the disk is gone")

    monkeypatch.setattr(here.node.engine, "append_numbered", fails)
    monkeypatch.setattr(here.node.store, "commit", fails)
    answer = here.post("/orders", "<order/>")

    assert answer.status_code == 503
    assert "the disk is gone" not in answer.text


def test_a_message_that_breaks_something_does_not_keep_others_out(
    here: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    store_first(here.node)
    append = here.node.engine.append_numbered

    def breaks(messages: Sequence[NewMessage], **named: Any) -> list[tuple[int, bool]]:
        time.sleep(0.05)  # meanwhile others come
        if any(["poison" in message.body for message in messages]):
            raise AssertionError("a mistake of ours")
        return append(messages, **named)

    monkeypatch.setattr(here.node.engine, "append_numbered", breaks)
    texts = [f"<order>{'poison' if number == 5 else number}</order>" for number in range(12)]
    with ThreadPoolExecutor(len(texts)) as threads:
        statuses = list(threads.map(lambda text: here.post("/orders", text).status_code, texts))

    assert statuses == [202] * 5 + [500] + [202] * 6
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


def test_a_message_that_breaks_something_on_arrival_does_not_keep_others_out(
    here: Running, monkeypatch: pytest.MonkeyPatch
):
    evaluate = here.node.engine.arrivals.evaluate

    def breaks(sent: Sequence[tuple[str, IncomingMessage]], now: datetime) -> EvaluatedArrivals | None:
        time.sleep(0.05)  # meanwhile others come
        if any([b"poison" in message.body for _, message in sent if isinstance(message.body, bytes)]):
            raise AssertionError("a mistake of ours")
        return evaluate(sent, now)

    monkeypatch.setattr(here.node.engine.arrivals, "evaluate", breaks)
    texts = [f"<order>{'poison' if number == 5 else number}</order>" for number in range(12)]
    with ThreadPoolExecutor(len(texts)) as threads:
        statuses = list(threads.map(lambda text: here.post("/orders", text).status_code, texts))

    assert statuses == [202] * 5 + [500] + [202] * 6


def store_first(node: Node) -> None:
    """Let messages be stored before their rules are evaluated."""
    node.engine.policy = replace(node.engine.policy, fuse=False)


# connections


def test_a_refused_body_that_is_short_leaves_the_connection_open(here: Running):
    with _connection(here) as connection:
        for _ in range(2):
            connection.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n<m/>")
            assert b" 404 " in _read_until(connection, b"</error>")


@pytest.mark.parametrize("how", ["Content-Length: 90000", "Content-Length: 9000000", "Transfer-Encoding: chunked"])
def test_a_refused_body_that_does_not_come_ends_the_connection(here: Running, how: str):
    began = time.monotonic()
    with _connection(here) as connection:
        connection.sendall(f"POST /nowhere HTTP/1.1\r\nHost: x\r\n{how}\r\n\r\n".encode())
        found = b""
        while piece := connection.recv(1000):
            found += piece
    assert b" 404 " in found
    assert b"connection: close" in found
    assert time.monotonic() - began < 8


def test_a_sender_that_waits_to_be_asked_for_a_body_is_not_asked_needlessly(here: Running):
    with _connection(here) as connection:
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 404 ")
    with _connection(here) as connection:
        connection.sendall(b"POST /orders HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 8\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"<order/>")
        assert b" 202 " in connection.recv(1000)


def test_trailers_without_end_are_cut_off(here: Running):
    with _connection(here) as connection, contextlib.suppress(OSError):
        connection.sendall(b"POST /orders HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ")
        for _ in range(10_000):
            connection.sendall(b"x" * 10_000)
        raise AssertionError("nobody has stopped it")


def test_too_many_headers_are_said_to_be_too_many(here: Running):
    with _connection(here) as connection:
        connection.sendall(b"POST /orders HTTP/1.1\r\n" + b"X: 1\r\n" * 300 + b"\r\n")
        assert b" 431 " in connection.recv(1000)


def test_a_connection_on_which_only_blank_lines_come_is_closed(here: Running, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS_MAX", 0.3)
    with _connection(here) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in _read_until(connection, b"ok\n")
        connection.sendall(b"\r\n")
        assert b" 408 " in connection.recv(1000)


def test_small_answers_are_sent_at_once():
    with listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP  # else asyncio leaves them for 40 ms


def test_whatever_is_being_sent_at_once_has_a_bound():
    held = Held(100)
    held.add(90)
    with pytest.raises(Refusal) as refused:
        held.add(20)

    assert (refused.value.status, held.bytes) == (503, 90)


LARGE = b"<x>" + b"a<a/>" * 100_000 + b"</x>"
"""Takes 26 MB as a tree."""


def test_trees_count_before_they_are_made_and_small_ones_find_room_beside_large_ones():
    held = Held(60_000_000)
    first, second = held.reserve(LARGE), held.reserve(LARGE)
    with pytest.raises(Refusal) as refused:
        held.reserve(LARGE)
    assert refused.value.status == 503
    assert refused.value.headers["Retry-After"] == "1"
    small = held.reserve(b"<order/>")
    first.keep(len(LARGE))
    third = held.reserve(LARGE)
    for reservation in (first, second, third, small):
        reservation.keep(0)

    assert held.trees == 0


def test_a_large_document_alone_always_finds_room():
    held = Held(1000)
    held.reserve(b"<order/>")
    held.reserve(LARGE)
    with pytest.raises(Refusal):
        held.reserve(LARGE)


def test_what_is_in_an_envelope_takes_as_much_again_unless_others_need_it():
    held = Held(1000)
    envelope = held.reserve(LARGE)
    taken = envelope.double()
    assert held.trees == 2 * taken
    envelope.keep(taken)
    assert held.trees == taken
    envelope.keep(0)
    held = Held(60_000_000)
    first, second = held.reserve(LARGE), held.reserve(LARGE)
    with pytest.raises(Refusal):
        first.double()
    second.keep(0)
    first.double()
    first.keep(0)
    assert held.trees == 0


@pytest.mark.slow
def test_large_documents_sent_at_once_are_stored_or_asked_to_come_again(tmp_path: Path):
    body = b"<order>" + b"a<a/>" * 700_000 + b"</order>"
    with running(tmp_path, "create queue orders kind incomingGateway\n") as here:
        before = _resident_bytes()
        with ThreadPoolExecutor(5) as senders:
            answers = list(senders.map(lambda _: here.post("/orders", body), range(5)))

        assert {answer.status_code for answer in answers} == {202, 503}
        assert all(["Retry-After" in answer.headers for answer in answers if answer.status_code == 503])
        assert _resident_bytes() - before < 1_500_000_000
        assert here.post("/orders", "<order/>").status_code == 202


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.parametrize(
    "charset", ["punycode", "idna", "unicode_escape", "hex", "undefined", "aliases", "utf-7", "x" * 500]
)
def test_encodings_that_are_none_are_not_known(here: Running, charset: str):
    assert here.post("/orders", "<order/>", f"text/xml; charset={charset}").status_code == 415


BACKLOG = """
create queue work kind incomingGateway
create queue box
create queue later kind echo
create rule pass for work
  if (/m) then (do enqueue <n/> into box,
                do enqueue <n/> into later with timeout value 1000 with target value "box")
"""


def test_a_full_backlog_asks_to_come_again_and_so_says_readiness(tmp_path: Path):
    settings = Settings(incoming_default=IncomingSettings(backlog_max=3, retry_after_seconds=7))
    with running(tmp_path, BACKLOG, settings) as here:
        store_first(here.node)
        with here.node._thread.turn:  # nothing is processed
            assert here.post("/work", "<m/>").status_code == 202
            wait_until(lambda: here.post("/work", "<m/>").status_code == 503)
            assert here.post("/work", "<m/>").headers["retry-after"] == "7"
            ready = here.client.get("/readyz")
            assert (ready.status_code, "messages wait to be processed" in ready.text) == (503, True)
            assert here.client.get("/healthz").status_code == 200
        wait_until(lambda: here.client.get("/readyz").status_code == 200)
        assert here.post("/work", "<m/>").status_code == 202


def test_mailboxes_timers_and_errors_are_no_backlog(tmp_path: Path):
    settings = Settings(incoming_default=IncomingSettings(backlog_max=3))
    with running(tmp_path, BACKLOG, settings) as here:
        for _ in range(5):
            assert here.post("/work", "<m/>").status_code == 202
            assert here.post("/work", "<broken").status_code == 400
        wait_until(lambda: len(here.stored("later")) == 5)
        counts = here.node.store.counts()
        assert min(counts[queue][1] for queue in ("box", "later", "demaq:errors")) >= 5
        time.sleep(LOAD_SECONDS)
        assert here.client.get("/readyz").status_code == 200
        assert here.post("/work", "<m/>").status_code == 202
        wait_until(lambda: here.node.read_status()["waiting"] == 0)


def test_readiness_says_that_some_gateways_take_no_messages(here: Running):
    ready = here.client.get("/readyz")

    expected = "ready, but some gateways take no messages now: the disk is nearly full\n"
    assert (ready.status_code, ready.text) == (200, expected)
    assert here.post("/full", "<m/>").status_code == 503


def test_no_message_is_taken_while_none_can_be_processed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with running(tmp_path, BACKLOG) as here:

        def fail() -> int:
            raise StoreError("the store is away, at 10.0.0.7")

        monkeypatch.setattr(here.node.engine, "run_round", fail)
        here.node.look_for_work()
        wait_until(lambda: here.client.get("/readyz").status_code == 503)
        assert "10.0.0.7" not in here.client.get("/readyz").text
        assert here.post("/work", "<m/>").status_code == 503
        monkeypatch.undo()
        wait_until(lambda: here.client.get("/readyz").status_code == 200)
        assert here.post("/work", "<m/>").status_code == 202


def test_a_store_that_does_not_answer_holds_up_neither_health_nor_readiness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("demaq.gateways.admission.STALL_SECONDS_MAX", LOAD_SECONDS)
    with running(tmp_path, BACKLOG) as here:
        time.sleep(LOAD_SECONDS)
        database = here.node.store._database
        with database.lock:
            began = time.monotonic()
            assert here.client.get("/healthz").status_code == 200
            assert time.monotonic() - began < 1
            wait_until(lambda: here.client.get("/readyz").status_code == 503)
            assert here.post("/work", "<m/>").status_code == 503
            assert time.monotonic() - began < 3 * LOAD_SECONDS_MAX
        wait_until(lambda: here.client.get("/readyz").status_code == 200)
