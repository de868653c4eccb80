"""Mails that we write and send, to real servers that are not always willing."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any, TypeVar

import pytest
import trustme
from aiosmtpd.smtp import SMTP, AuthResult

from demaq.documents import parse_document
from demaq.errors import ERROR_KINDS, MessageError
from demaq.gateways.mail.addresses import read_mailto
from demaq.gateways.mail.composition import compose
from demaq.gateways.mail.parsed_mail import read_mail
from demaq.gateways.mail.relay import Relay, send_mail
from demaq.gateways.mail.smtp_server import MailListener
from demaq.gateways.mail.smtp_session import DialogueSettings
from demaq.gateways.outbox.delivery_results import Delivered, DeliveryFailed
from tests.support.gateways.mail.fakes import FakeIntake, with_listener

NOW = datetime(2026, 11, 16, 6, 0, tzinfo=UTC)
SECONDS_MAX = 10.0
Result = TypeVar("Result")


def written(
    text: str = "<s:order xmlns:s='s'>ä</s:order>", to: str = "mailto:a@example.org", **more: Any
) -> EmailMessage:
    named = {"sender": "node@example.org", "message_id": "17@node.example.org"} | more
    return compose(text, recipient=to, date=NOW, **named)


# --- writing ---------------------------------------------------------------------------------------------------------


def test_data_is_the_only_attachment_and_a_line_of_text_says_so() -> None:
    mail = written(headers={"In-Reply-To": "<1@shop.example>"})

    head = mail.as_bytes().decode().partition("\r\n\r\n")[0]
    assert [line for line in sorted(head.splitlines()) if "boundary" not in line] == [
        "Date: Mon, 16 Nov 2026 06:00:00 +0000",
        "From: node@example.org",
        "In-Reply-To: <1@shop.example>",
        "MIME-Version: 1.0",
        "Message-ID: <17@node.example.org>",
        "Subject: order",
        "To: a@example.org",
    ]
    text, attachment = mail.iter_parts()
    assert text.get_content() == "This mail carries a document for a program. It is attached: order.xml\n"
    assert (attachment.get_content_type(), attachment.get_filename()) == ("application/xml", "order.xml")
    assert attachment["Content-Transfer-Encoding"] == "base64"
    assert attachment.get_content_disposition() == "attachment"
    assert attachment.get_content().decode() == (
        '<?xml version="1.0" encoding="UTF-8"?>\n<s:order xmlns:s=\'s\'>ä</s:order>'
    )


def test_what_we_write_we_can_read() -> None:
    found = read_mail(written(to="mailto:a@example.org?subject=B%C3%BCcher").as_bytes())

    assert parse_document(found.body).text == "<s:order xmlns:s='s'>ä</s:order>"
    assert (found.sender, found.message_id) == ("node@example.org", "<17@node.example.org>")
    assert found.transport["demaq:header.Subject"] == "Bücher"


def test_a_long_message_id_stays_as_it_is() -> None:
    long = f"{'a' * 150}@node.example.org"

    assert read_mail(written(message_id=long).as_bytes()).message_id == f"<{long}>"


@pytest.mark.parametrize(
    ("to", "subject", "expected"),
    [
        ("mailto:a@b.c?subject=new%20order", "queue", "new order"),
        ("mailto:a@b.c", "queue", "queue"),
        ("mailto:a@b.c", None, "order"),
    ],
)
def test_the_subject_is_that_of_the_recipient_or_the_given_one_or_the_root_element(
    to: str, subject: str | None, expected: str
) -> None:
    assert written(to=to, subject=subject)["Subject"] == expected


def test_recipients_are_read_from_the_address() -> None:
    mailto = read_mailto("MAILTO:a@example.org,b%2Bx@example.org?cc=d@k%C3%B6ln.example&to=e@example.org")

    assert mailto.to == ("a@example.org", "b+x@example.org", "e@example.org")
    assert mailto.cc == ("d@xn--kln-sna.example",)


@pytest.mark.parametrize(
    "to",
    [
        "http://example.org",
        "mailto:",
        "mailto:nobody",
        "mailto:a@b@c",
        "mailto:a b@example.org",
        "mailto:a@example.org%0d%0aBcc:%20spy@example.org",
        "mailto:a@example.org?subject=x%0aBcc:%20spy@example.org",
        "mailto:a@example.org?subject=x%E2%80%A8y",
        "mailto:a@example.org?bcc=spy@example.org",
        "mailto:" + ",".join([f"a{number}@example.org" for number in range(200)]),
        f"mailto:{'a' * 300}@example.org",
        "mailto:%ff@example.org\ud800",
    ],
)
def test_an_address_that_cannot_be_written_to_is_refused(to: str) -> None:
    with pytest.raises(MessageError) as refused:
        written(to=to)

    assert refused.value.kind == "routing"
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    "more",
    [
        {"subject": "a\r\nBcc: spy@example.org"},
        {"subject": "a\x00"},
        {"sender": "a@b.c\nBcc: spy@example.org"},
        {"message_id": "1@a>\r\nBcc: spy@example.org"},
        {"message_id": "no-at-sign"},
        {"headers": {"X-A": "a\rb"}},
        {"headers": {"X-A\r\nBcc": "spy@example.org"}},
        {"headers": {"bcc": "spy@example.org"}},
        {"headers": {"Content-Type": "text/html"}},
    ],
)
def test_no_value_can_begin_another_header(more: dict[str, Any]) -> None:
    with pytest.raises(MessageError):
        written(**more)


# --- sending ---------------------------------------------------------------------------------------------------------


class Receiver:
    """A mail server that answers as configured: a list of answers for each command."""

    def __init__(self, **answers: list[str]) -> None:
        self.answers = answers
        self.mails: list[bytes] = []
        self.recipients: list[str] = []

    def _next(self, command: str) -> str:
        waiting = self.answers.get(command)
        return waiting.pop(0) if waiting else "250 OK"

    async def handle_MAIL(  # noqa: N802  # the name is aiosmtpd's
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        envelope.mail_from = address
        return self._next("mail")

    async def handle_RCPT(  # noqa: N802  # the name is aiosmtpd's
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        answer = self._next("rcpt")
        if answer.startswith("2"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802  # as above
        answer = self._next("data")
        if answer.startswith("2"):
            self.mails.append(envelope.content)
            self.recipients += envelope.rcpt_tos
        return answer


def serving(work: Callable[[int], Awaitable[Result]], protocol: Callable[[], asyncio.BaseProtocol]) -> Result:
    """What is found out beside a server that speaks a protocol."""

    async def run() -> Result:
        made: list[Any] = []

        def remembered() -> asyncio.BaseProtocol:
            made.append(protocol())
            return made[-1]  # type: ignore[no-any-return]

        server = await asyncio.get_running_loop().create_server(remembered, "127.0.0.1", 0)
        try:
            return await asyncio.wait_for(work(server.sockets[0].getsockname()[1]), SECONDS_MAX)
        finally:
            server.close()
            for each in made:
                if getattr(each, "transport", None) is not None:
                    each.transport.abort()
            await asyncio.sleep(0)
            await server.wait_closed()

    return asyncio.run(run())


def sending(receiver: Receiver, *mails: EmailMessage, **options: Any) -> list[Delivered | DeliveryFailed]:
    """What becomes of one attempt after the other."""

    async def work(port: int) -> list[Delivered | DeliveryFailed]:
        relay = Relay(host="127.0.0.1", port=port, host_name="node.example.org", timeout_seconds=SECONDS_MAX)
        return [await send_mail(mail, relay) for mail in mails]

    return serving(work, lambda: SMTP(receiver, hostname="relay.example", **{"enable_SMTPUTF8": True} | options))


def test_a_relay_that_puts_us_off_takes_the_same_mail_later() -> None:
    receiver = Receiver(data=["451 4.3.0 later"])
    first, second = sending(receiver, written(), written())

    assert first == DeliveryFailed(
        kind="refused",
        reason="the relay refuses the mail: 451 4.3.0 later",
        status="451 4.3.0 later",
        again=True,
    )
    assert second == Delivered(status="250 OK")
    assert [read_mail(mail).message_id for mail in receiver.mails] == ["<17@node.example.org>"]


@pytest.mark.parametrize("command", ["mail", "rcpt", "data"])
@pytest.mark.parametrize(("answer", "again"), [("450 busy", True), ("550 never", False)])
def test_a_refusal_is_final_or_not_as_the_relay_says(command: str, answer: str, again: bool) -> None:
    receiver = Receiver(**{command: [answer]})
    [found] = sending(receiver, written())

    assert isinstance(found, DeliveryFailed)
    assert (found.kind, found.status, found.again) == ("refused", answer, again)
    assert receiver.mails == []


@pytest.mark.parametrize(
    ("answers", "status", "again"),
    [
        (["250 OK", "450 busy", "250 OK"], "450 busy", True),
        (["450 busy", "550 never", "250 OK"], "550 never", False),
    ],
)
def test_a_mail_goes_to_all_its_recipients_or_to_none(answers: list[str], status: str, again: bool) -> None:
    receiver = Receiver(rcpt=answers)
    first, second = sending(receiver, *[written(to="mailto:a@b.c,d@b.c?cc=e@b.c")] * 2)

    assert isinstance(first, DeliveryFailed)
    assert (first.status, first.again) == (status, again)
    assert second == Delivered(status="250 OK")
    assert (len(receiver.mails), receiver.recipients) == (1, ["a@b.c", "d@b.c", "e@b.c"])


def test_an_address_with_other_letters_needs_a_relay_that_knows_them() -> None:
    receiver = Receiver()
    mail = written(to="mailto:j%C3%BCrgen@example.org")

    assert sending(receiver, mail) == [Delivered(status="250 OK")]
    assert receiver.recipients == ["jürgen@example.org"]
    [found] = sending(receiver, mail, enable_SMTPUTF8=False)
    assert isinstance(found, DeliveryFailed)
    assert (found.kind, found.again) == ("refused", False)


def test_without_a_relay_nothing_can_be_sent() -> None:
    found = asyncio.run(send_mail(written(), None))

    assert isinstance(found, DeliveryFailed)
    assert (found.kind, found.again, "[mail]" in found.reason) == ("routing", False, True)


def test_a_relay_that_is_not_there_may_come_back() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    found = asyncio.run(send_mail(written(), Relay(host="127.0.0.1", port=port, host_name="a")))

    assert isinstance(found, DeliveryFailed)
    assert (found.kind, found.again) == ("disconnectedTransport", True)


@pytest.mark.parametrize("host", ["relay.invalid", "a..b", "x" * 70 + ".example"])
def test_an_unknown_relay_is_an_error_that_says_so(host: str, monkeypatch) -> None:
    async def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", unknown)  # no name server is asked in tests
    found = asyncio.run(send_mail(written(), Relay(host=host, host_name="a")))

    assert isinstance(found, DeliveryFailed)
    assert (found.kind, found.again) == ("nameResolution", True)


@pytest.mark.parametrize(
    ("greeting", "kind", "again"),
    [
        (b"", "timeout", True),
        (b"220 hello\r\n", "timeout", True),
        (b"421 not now\r\n", "refused", True),
        (b"554 never\r\n", "refused", False),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "refused", True),
    ],
)
def test_a_server_that_does_not_speak_as_it_should(greeting: bytes, kind: str, again: bool) -> None:
    class Greeter(asyncio.Protocol):
        transport: asyncio.Transport

        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            transport.write(greeting)

    async def work(port: int) -> Delivered | DeliveryFailed:
        return await send_mail(written(), Relay(host="127.0.0.1", port=port, host_name="a", timeout_seconds=0.2))

    found = serving(work, Greeter)
    assert isinstance(found, DeliveryFailed)
    assert (found.kind, found.again) == (kind, again)


@pytest.mark.parametrize("last", [b"MAIL", b"DATA", b"\r\n.\r\n"])
def test_a_relay_that_hangs_up_is_tried_again(last: bytes) -> None:
    class HangingUp(asyncio.Protocol):
        transport: asyncio.Transport

        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            transport.write(b"220 hello\r\n")

        def data_received(self, data: bytes) -> None:
            if last in data:
                self.transport.abort()
            else:
                self.transport.write(b"354 go on\r\n" if data.startswith(b"DATA") else b"250 OK\r\n")

    async def work(port: int) -> Delivered | DeliveryFailed:
        return await send_mail(written(), Relay(host="127.0.0.1", port=port, host_name="a", timeout_seconds=1.0))

    found = serving(work, HangingUp)
    assert isinstance(found, DeliveryFailed)
    assert (found.kind, found.again) == ("disconnectedTransport", True)


# --- TLS and passwords -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def relay_side(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def attempt(receiver: Receiver, relay: dict[str, Any], **server: Any) -> Delivered | DeliveryFailed:
    async def work(port: int) -> Delivered | DeliveryFailed:
        return await send_mail(written(), Relay(host="127.0.0.1", port=port, host_name="a", **relay))

    return serving(work, lambda: SMTP(receiver, hostname="relay.example", **server))


def test_a_password_is_sent_over_tls(authority: trustme.CA, relay_side: ssl.SSLContext) -> None:
    def check(server: Any, session: Any, envelope: Any, mechanism: str, credentials: Any) -> AuthResult:
        return AuthResult(success=credentials == (b"node", b"right"), handled=False, auth_data=credentials)

    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    server = {"tls_context": relay_side, "auth_required": True, "authenticator": check}
    relay = {"tls": "required", "tls_context": trusting, "user": "node"}
    receiver = Receiver()

    assert attempt(receiver, relay | {"password": "right"}, **server) == Delivered(status="250 OK")
    found = attempt(receiver, relay | {"password": "wrong"}, **server)
    assert isinstance(found, DeliveryFailed)
    assert (found.kind, found.again, found.status) == (
        "authentication",
        False,
        "535 5.7.8 Authentication credentials invalid",
    )
    assert "wrong" not in repr(Relay(host="a", password="wrong"))


def test_a_password_is_not_sent_without_tls() -> None:
    found = attempt(Receiver(), {"user": "node", "password": "right"})

    assert isinstance(found, DeliveryFailed)
    assert (found.kind, found.again) == ("authentication", False)


def test_a_certificate_that_is_not_trusted_is_said_so(relay_side: ssl.SSLContext) -> None:
    receiver = Receiver()
    found = attempt(receiver, {"tls": "required"}, tls_context=relay_side)

    assert isinstance(found, DeliveryFailed)
    assert (found.kind, found.again) == ("invalidCertificate", False)
    assert receiver.mails == []


def test_a_relay_without_tls_is_not_used_where_it_must_be() -> None:
    found = attempt(Receiver(), {"tls": "required"})

    assert isinstance(found, DeliveryFailed)
    assert (found.kind, found.again) == ("refused", False)


def test_every_kind_is_one_of_an_error_message() -> None:
    kinds = ("routing", "refused", "authentication", "invalidCertificate", "nameResolution", "timeout")

    assert set(kinds) | {"disconnectedTransport"} <= set(ERROR_KINDS)


# --- from node to node -----------------------------------------------------------------------------------------------


def test_a_mail_of_one_node_is_a_message_of_another_one_once() -> None:
    intake = FakeIntake(failures=[TimeoutError()])

    async def three_times(listener: MailListener) -> list[bool]:
        relay = Relay(host="127.0.0.1", port=listener.port, host_name="a")
        return [
            isinstance(await send_mail(written(to="mailto:orders@example.org"), relay), Delivered) for _ in range(3)
        ]

    assert with_listener(three_times, intake, settings=DialogueSettings(host_name="b")) == [False, True, True]
    [received] = intake.stored
    assert (received.request or "").startswith("mail:orders::<17@node.example.org>:")
