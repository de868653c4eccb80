"""Which kind of failure an error is, and whether the message is sent again."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from demaq.errors import ERROR_KINDS, OperatorError
from demaq.gateways.outbox.http_connection import HttpError, HttpResponse
from demaq.gateways.outbox.http_results import REASON_CHARACTERS_MAX, judge_error, judge_refusal
from demaq.gateways.outbox.http_url import InvalidUrl

RESET = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


@pytest.mark.parametrize(
    ("error", "kind", "reason", "again"),
    [
        (TimeoutError(), "timeout", "no answer in time (TimeoutError)", True),
        (ssl.SSLCertVerificationError(1, "self-signed"), "invalidCertificate", "self-signed", False),
        (socket.gaierror(-2, "Name or service not known"), "nameResolution", "[Errno -2] Name or service", True),
        (OSError("All connection attempts failed"), "disconnectedTransport", "All connection attempts failed", True),
        (ssl.SSLError(1, "[SSL] wrong version number"), "disconnectedTransport", "wrong version", True),
        (ConnectionResetError(), "disconnectedTransport", "ConnectionResetError", True),
        (RESET, "disconnectedTransport", "[Errno 104] Connection reset by peer", True),
        (HttpError("the response is not HTTP"), "disconnectedTransport", "the response is not HTTP", True),
        (InvalidUrl("Invalid port in URL"), "routing", "Invalid port in URL", False),
        (UnicodeEncodeError("ascii", "ü", 0, 1, "not in range"), "routing", "'ascii' codec can't encode", False),
        (OperatorError("ca.pem: no such file"), "disconnectedTransport", "OperatorError: ca.pem: no such file", True),
        (HttpError("x" * 1000), "disconnectedTransport", "x" * (REASON_CHARACTERS_MAX - 1) + "…", True),
        (HttpError("at http://a.example/?key=hunter2"), "disconnectedTransport", "http://a.example/?key=…", True),
    ],
)
def test_an_error_is_of_a_kind(error: Exception, kind: str, reason: str, again: bool):
    failure = judge_error(error)

    assert (failure.kind, failure.again) == (kind, again)
    assert kind in ERROR_KINDS
    assert reason in failure.reason


@pytest.mark.parametrize(
    ("status", "kind", "again"),
    [
        *[(status, "refused", False) for status in (300, 304, 307, 400, 404, 410, 422, 499)],
        *[(status, "authentication", False) for status in (401, 403, 407)],
        *[(status, "refused", True) for status in (408, 425, 429, 500, 501, 503, 599, 999)],
    ],
)
def test_a_refusal_is_final_unless_it_is_the_servers_turn(status: int, kind: str, again: bool):
    response = HttpResponse(status=status, headers={"retry-after": "7"}, body=b"no\n  <why/>")
    failure = judge_refusal(response)

    assert (failure.kind, failure.again, failure.after_seconds, failure.status_code) == (kind, again, 7.0, status)
    assert ("no <why/>" in failure.reason) == (status >= 400)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", None),
        ("x", None),
        ("0", 0.0),
        ("120", 120.0),
        ("9" * 12, None),
        ("Mon, 01 Jan 2001 00:00:00 GMT", 0.0),
        ("Mon, 01 Jan 2001 00.00.99999999999 GMT", None),
    ],
)
def test_a_server_says_when_it_wants_to_be_asked_again(text: str, seconds: float | None):
    failure = judge_refusal(HttpResponse(status=503, headers={"retry-after": text}, body=b""))

    assert failure.after_seconds == seconds
