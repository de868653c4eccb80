"""Who may send, and what happens to those who may not."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from demaq.gateways.security import authentication
from demaq.gateways.security.authentication import (
    ANONYMOUS,
    ANSWER_DELAY_SECONDS_MAX,
    HASHES_PER_ADDRESS_MAX,
    REMEMBERED_SECONDS,
    Authenticator,
    AuthKind,
    Denied,
    Identity,
)
from demaq.gateways.security.authorization_header import credentials_in
from demaq.gateways.security.client_certificates import PeerCertificate
from demaq.gateways.security.credential_file import TOKENS, USERS, Entry, add_entry, remove_entry
from demaq.gateways.security.file_watch import LOOK_EVERY_SECONDS
from demaq.gateways.security.throttle import FREE_FAILURES
from demaq.gateways.security.tokens import token_hash
from demaq.gateways.settings import IncomingSettings
from tests.support.gateways.security.clock import HandClock

TOKEN = "dmq_a-good-token"
EXPIRED = "dmq_an-old-token"
PASSWORD = "correct horse"
HERE, THERE = "192.0.2.1", "192.0.2.2"
SHOP = PeerCertificate(("shop.example.org", "urn:shop"))

_HASHED, _ANOTHER = ["scrypt:32768:8:1:AAAAAAAA:" + letter * 44 for letter in "AB"]
"""Hashes by their form: nothing is computed with them, see `hashes`."""


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def bearer(token: str) -> str:
    return f"Bearer {token}"


class Node:
    """Gateways of every kind, a clock, and a count of slow hashes."""

    def __init__(self, folder: Path) -> None:
        self.users, self.tokens = folder / "users", folder / "tokens"
        add_entry(self.users, USERS, Entry(name="joe", hash=_HASHED))
        add_entry(self.users, USERS, Entry(name="payer", hash=_HASHED, queues=frozenset({"payments"})))
        add_entry(self.tokens, TOKENS, Entry(name="shop", hash=token_hash(TOKEN), queues=frozenset({"bearer", "any"})))
        expires = datetime(2026, 1, 1, tzinfo=UTC)
        add_entry(self.tokens, TOKENS, Entry(name="old", hash=token_hash(EXPIRED), expires=expires))

        def asking(*auth: AuthKind, certificates: tuple[str, ...] = ()) -> IncomingSettings:
            return IncomingSettings(auth=auth, users=self.users, tokens=self.tokens, certificates=certificates)

        self.clock = HandClock()
        self.authenticator = Authenticator(
            {
                "open": IncomingSettings(),
                "basic": asking("basic"),
                "bearer": asking("bearer"),
                "payments": asking("bearer"),
                "certificate": asking("certificate"),
                "listed": asking("certificate", certificates=("urn:shop",)),
                "any": asking("basic", "bearer", "certificate", certificates=("urn:shop",)),
            },
            self.clock,
            lambda: datetime(2026, 11, 16, tzinfo=UTC),
        )

    def check(
        self, queue: str, header: str | None = None, certificate: PeerCertificate | None = None, address: str = HERE
    ) -> Identity | Denied:
        return self.authenticator.check(queue, header, certificate, address)

    def denied(self, queue: str, header: str | None = None, address: str = HERE) -> Denied:
        found = self.check(queue, header, None, address)
        assert isinstance(found, Denied)
        return found


@pytest.fixture
def hashes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passwords for which a slow hash was computed; it is a quick one here."""
    computed: list[str] = []

    def quick(password: str, hashed: str) -> bool:
        computed.append(password)
        return hashed == _HASHED and password == PASSWORD

    monkeypatch.setattr(authentication, "password_matches", quick)
    monkeypatch.setattr(authentication, "password_hash", lambda password: "nobody's")
    return computed


@pytest.fixture
def node(tmp_path: Path, hashes: list[str]) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.authenticator.close()


# --- who is let in ---------------------------------------------------------------------------------------------------


def test_without_authentication_all_clients_may_send(node: Node):
    assert node.check("open") == ANONYMOUS
    assert node.check("open", "Bearer nonsense") == ANONYMOUS


@pytest.mark.parametrize(
    ("queue", "header", "certificate", "identity"),
    [
        ("basic", basic("joe", PASSWORD), None, Identity(name="joe", kind="basic")),
        ("bearer", bearer(TOKEN), None, Identity(name="shop", kind="bearer")),
        ("bearer", f"bEaReR   {TOKEN} ", None, Identity(name="shop", kind="bearer")),
        ("certificate", None, SHOP, Identity(name="shop.example.org", kind="certificate")),
        ("listed", None, SHOP, Identity(name="urn:shop", kind="certificate")),
        ("any", basic("joe", PASSWORD), None, Identity(name="joe", kind="basic")),
        ("any", bearer(TOKEN), None, Identity(name="shop", kind="bearer")),
        ("any", bearer("wrong"), SHOP, Identity(name="urn:shop", kind="certificate")),
        ("any", bearer(TOKEN), PeerCertificate(("stranger",)), Identity(name="shop", kind="bearer")),
    ],
)
def test_a_client_with_valid_credentials_may_send(node: Node, queue, header, certificate, identity):
    assert node.check(queue, header, certificate) == identity


@pytest.mark.parametrize(
    ("queue", "header", "certificate", "status", "reason"),
    [
        ("basic", None, None, 401, "missing"),
        ("basic", basic("joe", "wrong password"), None, 401, "wrong"),
        ("basic", basic("nobody", PASSWORD), None, 401, "wrong"),
        ("basic", basic("payer", PASSWORD), None, 403, "otherGateway"),
        ("basic", bearer(TOKEN), None, 401, "malformed"),
        ("basic", None, SHOP, 401, "missing"),
        ("bearer", bearer("wrong"), None, 401, "wrong"),
        ("bearer", bearer(token_hash(TOKEN).removeprefix("sha256:")), None, 401, "wrong"),
        ("bearer", bearer(EXPIRED), None, 401, "expired"),
        ("payments", bearer(TOKEN), None, 403, "otherGateway"),
        ("certificate", None, None, 403, "missing"),
        ("certificate", bearer(TOKEN), None, 403, "missing"),
        ("listed", None, PeerCertificate(("stranger",)), 403, "certificate"),
        ("any", None, PeerCertificate(("stranger",)), 403, "certificate"),
        ("any", bearer("wrong"), PeerCertificate(("stranger",)), 401, "wrong"),
    ],
)
def test_a_client_without_valid_credentials_may_not_and_is_counted(
    node: Node, queue, header, certificate, status, reason
):
    found = node.check(queue, header, certificate)

    assert isinstance(found, Denied)
    assert (found.status, found.reason) == (status, reason)
    assert (found.www_authenticate is not None) == (status == 401)
    assert dict(node.authenticator.failures) == {(queue, reason): 1}


def test_all_that_may_be_shown_is_asked_for(node: Node):
    assert node.denied("any").www_authenticate == 'Basic realm="demaq", charset="UTF-8", Bearer realm="demaq"'


@given(header=st.text() | st.binary().map(lambda data: "Basic " + base64.b64encode(data).decode()))
@example(header="Basic")
@example(header="Basic ")
@example(header="Basic :")
@example(header="Basic =")
@example(header="Bearer")
@example(header="Bearer  ")
@example(header="Bearer \udc80")
@example(header="Bearer " + "a" * 10_000)
@example(header="Basic " + "A" * 4_000)
@example(header=f"Basic {TOKEN}")
@example(header=f"Bearer {TOKEN}, Bearer {TOKEN}")
@example(header=f"Bearer {TOKEN}\n")
@example(header=f"Bearer\t{TOKEN}")
@example(header=basic("joe", "") + "=")
@example(header=basic("joe\0", PASSWORD))
@example(header=basic("", PASSWORD))
def test_whatever_stands_in_a_header_is_an_answer_and_never_lets_in(header: str, hostile: Node):
    for queue in ("basic", "bearer", "any"):
        found = hostile.check(queue, header)
        assert isinstance(found, Denied)
        assert found.status in (401, 429)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Node:
    return Node(tmp_path_factory.mktemp("hostile"))


# --- files that change -----------------------------------------------------------------------------------------------


def test_a_removed_user_is_out_within_a_second_though_their_password_is_remembered(node: Node, hashes: list[str]):
    assert isinstance(node.check("basic", basic("joe", PASSWORD)), Identity)
    remove_entry(node.users, USERS, "payer")
    node.clock.go_on(LOOK_EVERY_SECONDS)
    assert isinstance(node.check("basic", basic("joe", PASSWORD)), Identity)
    assert len(hashes) == 1  # another one's line does not matter
    remove_entry(node.users, USERS, "joe")
    node.clock.go_on(LOOK_EVERY_SECONDS)

    assert node.denied("basic", basic("joe", PASSWORD)).reason == "wrong"


def test_a_new_password_ends_the_old_one(node: Node):
    assert isinstance(node.check("basic", basic("joe", PASSWORD)), Identity)
    add_entry(node.users, USERS, Entry(name="joe", hash=_ANOTHER), replace=True)
    node.clock.go_on(LOOK_EVERY_SECONDS)

    assert node.denied("basic", basic("joe", PASSWORD)).reason == "wrong"


def test_a_removed_token_is_out_within_a_second(node: Node):
    assert isinstance(node.check("bearer", bearer(TOKEN)), Identity)
    remove_entry(node.tokens, TOKENS, "shop")
    node.clock.go_on(LOOK_EVERY_SECONDS)

    assert node.denied("bearer", bearer(TOKEN)).reason == "wrong"


# --- passwords are slow ----------------------------------------------------------------------------------------------


def test_a_password_that_was_right_is_remembered_while_it_is_used(node: Node, hashes: list[str]):
    for _ in range(5):
        assert isinstance(node.check("basic", basic("joe", PASSWORD)), Identity)
        node.clock.go_on(REMEMBERED_SECONDS - 1)
    assert len(hashes) == 1
    node.clock.go_on(REMEMBERED_SECONDS)
    assert isinstance(node.check("basic", basic("joe", PASSWORD)), Identity)
    assert len(hashes) == 2


def test_a_user_who_is_not_there_takes_as_long_as_one_who_is(node: Node, hashes: list[str]):
    node.denied("basic", basic("nobody", PASSWORD))

    assert hashes == [PASSWORD]


def test_many_connections_that_begin_with_one_password_compute_one_hash(node: Node, hashes: list[str]):
    async def many() -> list[Identity | Denied]:
        decide = node.authenticator.decide
        return await asyncio.gather(*[decide("basic", basic("joe", PASSWORD), None, HERE) for _ in range(64)])

    assert set(asyncio.run(many())) == {Identity(name="joe", kind="basic")}
    assert len(hashes) == 1


def test_one_address_does_not_keep_the_others_waiting(node: Node, hashes: list[str]):
    async def many() -> tuple[list[Identity | Denied], Identity | Denied]:
        decide = node.authenticator.decide
        guesses = [asyncio.ensure_future(decide("basic", basic("joe", f"guess {n}"), None, HERE)) for n in range(100)]
        await asyncio.sleep(0)
        other = await decide("basic", basic("joe", PASSWORD), None, THERE)
        return await asyncio.gather(*guesses), other

    guessed, other = asyncio.run(many())
    assert isinstance(other, Identity)
    assert all(isinstance(found, Denied) for found in guessed)
    assert len(hashes) == HASHES_PER_ADDRESS_MAX + 1
    assert node.authenticator.failures["basic", "busy"] == 100 - HASHES_PER_ADDRESS_MAX


# --- failures are slowed ---------------------------------------------------------------------------------------------


def test_a_client_that_guesses_is_answered_later_and_later_and_then_not_listened_to(node: Node, hashes: list[str]):
    delays = [node.denied("basic", basic("joe", f"guess {n}")).delay_seconds for n in range(FREE_FAILURES + 1)]
    assert delays == [*[0.0] * FREE_FAILURES, 1.0]
    before = len(hashes)

    refused = node.denied("basic", basic("joe", PASSWORD))

    assert (refused.status, refused.reason, refused.retry_after_seconds) == (429, "slowed", 1)
    assert len(hashes) == before
    node.clock.go_on(1.0)
    assert isinstance(node.check("basic", basic("joe", PASSWORD)), Identity)


def test_others_get_in_at_once_however_many_guess(node: Node):
    assert isinstance(node.check("any", basic("joe", PASSWORD)), Identity)
    for n in range(50):
        node.denied("any", basic("joe", f"guess {n}"))
        node.clock.go_on(0.5)

    assert node.denied("any", basic("payer", PASSWORD)).status == 429
    assert isinstance(node.check("any", basic("joe", PASSWORD), address=THERE), Identity)  # another address
    assert isinstance(node.check("any", basic("joe", PASSWORD)), Identity)  # a password that is remembered
    assert isinstance(node.check("any", bearer(TOKEN)), Identity)
    assert isinstance(node.check("any", None, SHOP), Identity)


def test_guesses_from_many_addresses_are_answered_late_by_the_user_they_are_about(node: Node):
    delays = [node.denied("basic", basic("joe", "a guess"), f"198.51.100.{n}").delay_seconds for n in range(20)]

    assert delays[0] == 0
    assert delays[-1] == ANSWER_DELAY_SECONDS_MAX


def test_clients_that_wait_to_be_asked_are_not_slowed(node: Node):
    assert [node.denied("bearer").delay_seconds for _ in range(20)] == [0.0] * 20


def test_only_so_many_answers_are_held_back(node: Node, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(authentication, "ANSWERS_HELD_MAX", 1)
    late = Denied(status=401, reason="wrong", message="", delay_seconds=30.0)

    async def two() -> bool:
        held = asyncio.ensure_future(node.authenticator.hold(late))
        await asyncio.sleep(0)
        await node.authenticator.hold(late)  # at once
        was_held = not held.done()
        held.cancel()
        return was_held

    assert asyncio.run(two())


# --- nothing is revealed ---


def test_no_secret_is_in_what_is_said_or_logged(node: Node, caplog: pytest.LogCaptureFixture):
    guess = "a guess that is wrong"
    caplog.set_level(logging.DEBUG)

    async def everything() -> list[object]:
        headers = [basic("joe", PASSWORD), basic("joe", guess), bearer(TOKEN), bearer(EXPIRED), f"Basic {guess}"]
        found: list[object] = []
        for queue in ("basic", "bearer", "any"):
            for header in headers:
                found += [await node.authenticator.decide(queue, header, None, HERE), credentials_in(header)]
        return found

    said = repr(asyncio.run(everything(), debug=True)) + caplog.text + repr(vars(node.authenticator))
    for secret in (PASSWORD, guess, TOKEN, EXPIRED, _HASHED, token_hash(TOKEN)):
        assert secret not in said
        assert base64.b64encode(secret.encode()).decode() not in said


# --- certificates ----------------------------------------------------------------------------------------------------


def test_the_names_of_a_certificate_are_its_common_name_and_its_alternatives():
    shown = {
        "subject": ((("organizationName", "Shop"),), (("commonName", "shop.example.org"),)),
        "subjectAltName": (("DNS", "shop.example.org"), ("URI", "urn:shop"), ("email", "it@shop.example.org")),
    }

    assert PeerCertificate.of(shown) == PeerCertificate(("shop.example.org", "urn:shop", "it@shop.example.org"))
    assert PeerCertificate.of({"serialNumber": "0A"}) == PeerCertificate(("serial 0A",))
    assert PeerCertificate.of({}) is PeerCertificate.of(None) is None
