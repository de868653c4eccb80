"""Messages that say themselves where they go reach only those that the settings allow."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from demaq.cli.main import demaq, run
from demaq.gateways.outbox import guarded_network
from demaq.gateways.security.recipients import Recipients
from demaq.gateways.settings import MailSettings, OutgoingSettings, RelaySettings, Settings, read_settings
from tests.support.gateways.nodes import Running, running, wait_until
from tests.support.gateways.peers import OtherSide, other_side

APPLICATION = """
create queue start
create queue wrong
create queue closed kind outgoingGateway
create queue open kind outgoingGateway
create queue own kind outgoingGateway endpoint "OWN/own"
create queue mails kind outgoingGateway
create queue ownMails kind outgoingGateway endpoint "mailto:ann@example.org"
create rule closed for start errorqueue wrong
  if (/send/@via = "closed") then do enqueue <m/> into closed with Recipient value string(/send/@to)
create rule open for start errorqueue wrong
  if (/send/@via = "open") then do enqueue <m/> into open with Recipient value string(/send/@to)
create rule own for start errorqueue wrong
  if (/send/@via = "own") then do enqueue <m/> into own with Recipient value string(/send/@to)
create rule mails for start errorqueue wrong
  if (/send/@via = "mails") then do enqueue <m/> into mails with Recipient value string(/send/@to)
create rule ownMails for start errorqueue wrong
  if (/send/@via = "ownMails") then do enqueue <m/> into ownMails with Recipient value string(/send/@to)
"""


class World:
    def __init__(self, here: Running, there: OtherSide, own: OtherSide) -> None:
        self.here, self.there, self.own = here, there, own

    def send(self, via: str, to: str) -> str:
        """The error that a message ends with."""
        before = len(self.here.stored("wrong"))
        self.here.node.enqueue("start", f'<send via="{via}" to="{to}"/>')
        return self.here.wait_for("wrong", before + 1)[-1].body


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as stack:
        there, own = stack.enter_context(other_side()), stack.enter_context(other_side())
        quick = OutgoingSettings(attempts=1, timeout_seconds=5.0)
        listed = Recipients.of(["*:*", there.address])
        settings = Settings(
            mail=MailSettings(relay=RelaySettings(host="127.0.0.1", port=1, tls="never"), sender="shop@example.org"),
            outgoing_default=quick,
            outgoing_by_queue={
                "open": replace(quick, recipients=listed),
                "mails": replace(quick, recipients=Recipients.of(["mailto:*@shop.example"])),
            },
        )
        application = APPLICATION.replace("OWN", own.address)
        yield World(stack.enter_context(running(tmp_path_factory.mktemp("to"), application, settings)), there, own)


def test_a_recipient_that_is_not_listed_is_not_reached_and_the_error_says_what_to_add(world: World):
    error = world.send("closed", f"{world.there.address}/x?key=s3cret")

    assert "<routing/>" in error
    assert f'recipients = ["{world.there.address}"] to [outgoing.closed] in the file of --settings' in error
    assert world.there.got == []


def test_a_recipient_that_is_listed_is_reached(world: World):
    world.here.node.enqueue("start", f'<send via="open" to="{world.there.address}/x"/>')
    wait_until(lambda: len(world.there.at("/x")) == 1)


def test_the_own_endpoint_needs_no_entry_whatever_the_path(world: World):
    world.here.node.enqueue("start", f'<send via="own" to="{world.own.address}/other"/>')
    wait_until(lambda: len(world.own.at("/other")) == 1)
    assert "<routing/>" in world.send("own", f"{world.there.address}/from-own")
    assert world.there.at("/from-own") == []


@pytest.mark.parametrize(
    "host",
    [
        *["localhost", "127.1", "2130706433", "0177.0.0.1", "0x7f.1", "0", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]"],
        *["[::]", "127.0.0.2", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "169.254.169.254", "10.0.0.1", "[fe80::1]"],
    ],
)
def test_no_spelling_of_a_special_address_is_public(world: World, host: str):
    port = world.own.address.rpartition(":")[2]
    before = len(world.own.got)
    error = world.send("open", f"http://{host}:{port}/special")

    assert "<routing/>" in error or "<nameResolution/>" in error, error
    assert len(world.own.got) == before


def test_a_name_that_turns_out_to_be_ours_is_not_connected_to(world: World, monkeypatch: pytest.MonkeyPatch):
    """And a name is looked up once: a second answer, another one, is not asked for."""
    port = int(world.own.address.rpartition(":")[2])
    asked: list[str] = []
    answers = {"one.example": ["127.0.0.1"], "both.example": ["10.255.255.1", "127.0.0.1"]}
    real = socket.getaddrinfo

    def looked_up(host: Any, *args: Any, **named: Any) -> Any:
        if host not in answers:
            return real(host, *args, **named)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answers[host]]

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    before = len(world.own.got)
    for host in answers:
        error = world.send("open", f"http://{host}:{port}/rebound")
        listed = ", ".join([f'"http://{address}:{port}"' for address in answers[host]])
        assert f"recipients = [{listed}] to [outgoing.open]" in error
    assert asked == list(answers)
    assert len(world.own.got) == before


def test_every_connection_to_a_named_recipient_is_checked(world: World, monkeypatch: pytest.MonkeyPatch):
    """And no socket is connected to an address that was not: all of them are made in one place."""
    checked: list[str] = []
    connected: list[str] = []
    may_connect, connect = Recipients.may_connect, guarded_network._connect

    def note_check(self: Recipients, scheme: str, host: str, port: int, address: str) -> bool:
        checked.append(address)
        return may_connect(self, scheme, host, port, address)

    async def note_connection(to: guarded_network.SocketAddress) -> socket.socket:
        connected.append(to[1][0])
        return await connect(to)

    monkeypatch.setattr(Recipients, "may_connect", note_check)
    monkeypatch.setattr(guarded_network, "_connect", note_connection)
    assert "<routing/>" in world.send("open", "http://127.0.0.9:9/")
    assert (checked, connected) == (["127.0.0.9"], [])
    world.there.answer = lambda got: (404, {"Connection": "close"}, b"")
    for _ in range(3):  # the first one may still have a connection
        world.send("open", f"{world.there.address}/checked")
    world.there.answer = lambda got: (202, {}, b"")
    assert checked[1:] == connected
    assert set(connected) == {"127.0.0.1"}
    assert len(connected) >= 2


@pytest.mark.parametrize(
    ("via", "to", "stranger"),
    [
        ("mails", "mailto:a@other.example", "a@other.example"),
        ("mails", "mailto:a@shop.example?cc=b@other.example", "b@other.example"),
        ("mails", "mailto:a@shop.example?to=b@other.example", "b@other.example"),
        ("ownMails", "mailto:ann@example.org,b@other.example", "b@other.example"),
        ("mails", "mailto:a@shop.example", None),
        ("ownMails", "mailto:ann@example.org", None),
    ],
)
def test_mails_go_to_those_who_are_listed(world: World, via: str, to: str, stranger: str | None):
    error = world.send(via, to.replace("&", "&amp;"))

    if stranger is None:
        assert "<disconnectedTransport/>" in error, "nobody listens there, but it was tried"
    else:
        assert f'recipients = ["mailto:{stranger}"] to [outgoing.{via}]' in error


def test_no_secret_of_an_address_is_shown_anywhere(
    world: World, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    """In neither logs, errors, attempts, metrics, status nor listings."""
    caplog.set_level(logging.DEBUG)
    secret = "hunter2"
    world.there.answer = lambda got: (404, {}, f"no such page: {world.there.address}{got.path}".encode())
    query = f"?key={secret}&amp;page=2"
    errors = [
        world.send("open", f"{world.there.address}/x{query}"),
        world.send("open", f"http://no-such-host.invalid:81/x{query}"),
        world.send("open", f"http://joe:{secret}@127.0.0.1/x{query}"),
        world.send("open", f"http://127.0.0.1:{secret}/x"),
        world.send("open", f"ftp://joe:{secret}@127.0.0.1/x{query}"),
        world.send("closed", f"{world.there.address}/x{query}"),
    ]
    here = world.here
    assert here.client.post(f"/nowhere?token={secret}", content=b"<m/>").status_code == 404
    shown = [
        *errors,
        *[repr(attempt) for attempt in here.node.store.attempts(None, None, 1000)],
        json.dumps(here.gateways.status()),
        here.client.get("/metrics").text,
        *[record.getMessage() for record in caplog.records],
    ]
    sent = [m for m in here.stored("open") if secret in m.properties["Recipient"].text]
    assert run(demaq, ["show", str(sent[0].seq), "--store", str(here.node.folder)]) == 0
    assert run(demaq, ["deliveries", "--store", str(here.node.folder)]) == 0
    assert run(demaq, ["deliveries", "--json", "--store", str(here.node.folder)]) == 0
    said = capsys.readouterr()

    assert not [text for text in [*shown, said.out, said.err] if secret in text]
    assert "?key=…&page=…" in said.out
    assert any(["no such page" in error and "?key=…&amp;page=…" in error for error in errors])


def test_settings_name_recipients(tmp_path: Path):
    (tmp_path / "s.toml").write_text(
        '[outgoing]\nrecipients = ["*.example.org", "mailto:*"]\n[outgoing.out]\nrecipients=[]'
    )
    settings = read_settings(tmp_path / "s.toml", incoming=[], outgoing=["out", "other"])

    assert settings.outgoing("other").recipients.may_name("https", "a.example.org", 443)
    assert not settings.outgoing("out").recipients.may_mail("a@example.org")


# hops

LOOP = """
create queue inbox kind incomingGateway
create queue again kind outgoingGateway endpoint "http://127.0.0.1:PORT/inbox"
create rule again for inbox if (/m) then do enqueue . into again
"""


def test_a_loop_between_nodes_ends_as_one_within_a_node(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(tmp_path, LOOP.replace("PORT", str(port)), http=("127.0.0.1", port)) as here:
        here.node.engine.hops_max = 20
        assert here.post("/inbox", "<m/>").status_code == 202
        [error] = here.wait_for("demaq:errors")

        assert "<systemError/>" in error.body
        assert "20 hops" in error.body
        hops = [message.hops for message in here.stored("inbox")]
        assert hops == sorted(hops)
        assert hops[-1] >= 20


def test_hops_that_are_no_number_are_none(tmp_path: Path):
    with running(tmp_path, "create queue inbox kind incomingGateway") as here:
        for value in ("-1", "x", "9" * 10, "7"):
            assert here.post("/inbox", "<m/>", Demaq_Hops=value).status_code == 202
        assert [message.hops for message in here.stored("inbox")] == [0, 0, 0, 7]
