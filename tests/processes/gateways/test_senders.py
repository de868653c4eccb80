"""Who may send, from the socket to the store: passwords, tokens, certificates; and where secrets are not found afterwards."""

from __future__ import annotations

import base64
import logging
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from demaq.gateways.security.credential_file import TOKENS, USERS, Entry, add_entry
from demaq.gateways.security.passwords import password_hash
from demaq.gateways.security.tls import OwnCertificate
from demaq.gateways.security.tokens import token_hash
from demaq.gateways.settings import IncomingSettings, Settings
from demaq.gateways.settings.settings import Tls
from tests.support.gateways.client import NO_ANSWER, Client, Response
from tests.support.gateways.nodes import Running, running

pytestmark = pytest.mark.slow
APPLICATION = """
create queue open kind incomingGateway
create queue passwords kind incomingGateway
create queue tokens kind incomingGateway
create queue certificates kind incomingGateway
create queue either kind incomingGateway
create queue answers kind outgoingGateway
create rule say for tokens if (/who) then do enqueue <you>{qs:property("demaq:sender")}{string(/who)}</you> into answers
"""
PASSWORD = "correct-horse-battery"
WRONG_PASSWORD = "incorrect-donkey-battery"
TOKENS_BY_NAME = {name: f"dmq_{name}-{'x' * 40}" for name in ("shop", "bank", "other")}
WRONG_TOKEN = f"dmq_wrong-{'x' * 40}"
SECRETS = [PASSWORD, WRONG_PASSWORD, WRONG_TOKEN, *TOKENS_BY_NAME.values()]


class Place:
    """A node with TLS, and what is needed to talk to it."""

    def __init__(self, here: Running, folder: Path, lines: list[str]) -> None:
        self.here = here
        self.folder = folder
        self.lines = lines
        self.address = here.address.replace("127.0.0.1", "localhost")

    def post(
        self,
        path: str,
        authorization: str | None = None,
        body: str = "<m/>",
        certificate: str | None = None,
        **headers: str,
    ) -> Response:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        if certificate is not None:
            context.load_cert_chain(self.folder / certificate)
        if authorization is not None:
            headers["Authorization"] = authorization
        known = {name.replace("_", "-"): value for name, value in headers.items()}
        known["Content-Type"] = "application/xml"
        return Client(self.address, tls=context).post(path, body, known)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("senders")
    ours, theirs = trustme.CA(), trustme.CA()
    ours.cert_pem.write_to_path(folder / "ca.pem")
    for name, issued in {
        "node.pem": ours.issue_cert("localhost"),
        "shop.pem": ours.issue_cert("shop.example.org"),
        "bank.pem": ours.issue_cert("bank.example.org"),
        "stranger.pem": theirs.issue_cert("shop.example.org"),
    }.items():
        issued.private_key_and_cert_chain_pem.write_to_path(folder / name)
        (folder / name).chmod(0o600)
    add_entry(folder / "users", USERS, Entry(name="joe", hash=password_hash(PASSWORD)))
    for name, token in TOKENS_BY_NAME.items():
        queues = frozenset(["either"]) if name == "other" else None
        add_entry(folder / "tokens", TOKENS, Entry(name=name, hash=token_hash(token), queues=queues))
    asking = IncomingSettings(users=folder / "users", tokens=folder / "tokens")
    settings = Settings(
        tls=Tls(own=OwnCertificate(certificate=folder / "node.pem"), client_ca=folder / "ca.pem"),
        incoming_by_queue={
            "passwords": replace(asking, auth=("basic",)),
            "tokens": replace(asking, auth=("bearer",)),
            "certificates": replace(asking, auth=("certificate",), certificates=("shop.example.org",)),
            "either": replace(asking, auth=("basic", "bearer", "certificate")),
        },
    )
    lines: list[str] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    listening = Listening(logging.DEBUG)
    root = logging.getLogger()
    level = root.level
    root.addHandler(listening)
    root.setLevel(logging.DEBUG)
    try:
        with running(folder, APPLICATION, settings) as here:
            yield Place(here, folder, lines)
    finally:
        root.removeHandler(listening)
        root.setLevel(level)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def sender_of(place: Place, answer: Response) -> str:
    message = place.here.node.store.message(int(answer.headers["demaq-message-id"]))
    assert message is not None
    return message.properties["demaq:sender"].text


@pytest.mark.parametrize(
    ("path", "authorization", "certificate", "sender"),
    [
        ("/open", None, None, "127.0.0.1"),
        ("/passwords", basic("joe", PASSWORD), None, "joe"),
        ("/tokens", f"Bearer {TOKENS_BY_NAME['shop']}", None, "shop"),
        ("/certificates", None, "shop.pem", "shop.example.org"),
        ("/either", basic("joe", PASSWORD), None, "joe"),
        ("/either", f"bearer {TOKENS_BY_NAME['other']}", None, "other"),
        ("/either", None, "bank.pem", "bank.example.org"),
    ],
)
def test_a_sender_that_may_send_is_named_in_the_message(
    place: Place, path: str, authorization: str | None, certificate: str | None, sender: str
):
    answer = place.post(path, authorization, certificate=certificate, Prefer="respond-async")

    assert answer.status_code == 202
    assert sender_of(place, answer) == sender


@pytest.mark.parametrize(
    ("path", "authorization", "certificate", "status", "challenge"),
    [
        ("/passwords", None, None, 401, "Basic"),
        ("/passwords", basic("joe", WRONG_PASSWORD), None, 401, "Basic"),
        ("/tokens", None, None, 401, "Bearer"),
        ("/tokens", f"Bearer {WRONG_TOKEN}", None, 401, "Bearer"),
        ("/tokens", f"Bearer {TOKENS_BY_NAME['other']}", None, 403, None),
        ("/tokens", basic("joe", PASSWORD), None, 401, "Bearer"),
        ("/certificates", None, None, 403, None),
        ("/certificates", None, "bank.pem", 403, None),
    ],
)
def test_a_sender_that_may_not_is_refused_and_leaves_nothing(
    place: Place, path: str, authorization: str | None, certificate: str | None, status: int, challenge: str | None
):
    before = len(place.here.stored(path[1:])), len(place.here.stored("demaq:errors"))
    authenticator = place.here.gateways.authenticator
    assert authenticator is not None
    failures = authenticator.failures.total()
    answer = place.post(path, authorization, certificate=certificate)

    assert answer.status_code == status
    assert answer.headers.get("www-authenticate", "").startswith(challenge or "")
    assert (len(place.here.stored(path[1:])), len(place.here.stored("demaq:errors"))) == before
    assert authenticator.failures.total() == failures + 1


def test_a_certificate_of_another_authority_does_not_connect(place: Place):
    with pytest.raises(NO_ANSWER):
        place.post("/certificates", certificate="stranger.pem")


def test_what_is_no_tls_is_cut_off(place: Place):
    with socket.create_connection(("127.0.0.1", int(place.address.rpartition(":")[2])), timeout=10) as connection:
        connection.sendall(b"POST /open HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n<m/>")
        assert b"HTTP" not in connection.recv(100)


def test_keys_of_different_senders_are_apart(place: Place):
    found = {}
    for name in ("shop", "bank"):
        for turn in (1, 2):
            answer = place.post("/tokens", f"Bearer {TOKENS_BY_NAME[name]}", f"<who>{name}</who>", Idempotency_Key="1")
            found[name, turn] = answer.text

    assert found["shop", 1] == found["shop", 2] == "<you>shopshop</you>"
    assert found["bank", 1] == found["bank", 2] == "<you>bankbank</you>"


def test_a_name_of_a_known_sender_stands_for_one_message_and_another_one_is_refused(place: Place):
    node_message = "0123456789abcdef" * 2 + "/5"
    for header in ({"Idempotency_Key": "5"}, {"Demaq_Message": node_message}):
        first, again, other = [
            place.post("/tokens", f"Bearer {TOKENS_BY_NAME['shop']}", body, **header)
            for body in ("<who>a</who>", "<who>a</who>", "<who>b</who>")
        ]
        stranger = place.post("/tokens", f"Bearer {TOKENS_BY_NAME['bank']}", "<who>b</who>", **header)

        assert first.headers["demaq-message-id"] == again.headers["demaq-message-id"]
        assert (again.status_code, again.text) == (200, first.text), "the answer is kept for who asks again"
        assert (other.status_code, stranger.status_code) == (422, 200)
        assert "another message was sent under this name" in other.text


def test_failures_are_slowed_and_those_who_are_known_are_not(place: Place):
    began = time.monotonic()
    while time.monotonic() - began < 20:
        at = time.monotonic()
        answer = place.post("/tokens", f"Bearer {WRONG_TOKEN}")
        if time.monotonic() - at > 0.9:
            break
    assert answer.status_code == 401
    assert time.monotonic() - at > 0.9

    at = time.monotonic()
    assert place.post("/tokens", f"Bearer {TOKENS_BY_NAME['shop']}", Prefer="respond-async").status_code == 202
    assert time.monotonic() - at < 0.9


def test_secrets_are_in_no_line_of_the_log_and_nowhere_in_the_store(place: Place):
    assert place.post("/passwords", basic("joe", PASSWORD), "<not well-formed").status_code in (400, 429)
    assert place.post("/tokens", f"Bearer {TOKENS_BY_NAME['shop']}", "<not well-formed").status_code == 400
    encoded = [base64.b64encode(f"joe:{word}".encode()).decode() for word in (PASSWORD, WRONG_PASSWORD)]
    said = "\n".join(place.lines)
    files = [path for path in (place.folder / "store").rglob("*") if path.is_file()]

    assert files
    for secret in [*SECRETS, *encoded]:
        assert secret not in said
        assert [path.name for path in files if secret.encode() in path.read_bytes()] == []
    assert "Traceback" not in said
