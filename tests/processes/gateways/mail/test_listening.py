"""Real clients of SMTP against the listener."""

from __future__ import annotations

import asyncio
import logging
import smtplib
import socket
import ssl
import time
from email.message import EmailMessage

import pytest
import trustme

from demaq.errors import MessageError, OperatorError, StoreError
from demaq.gateways.admission import Overloaded
from demaq.gateways.http.request_body import Held
from demaq.gateways.mail.smtp_server import MailListener
from demaq.gateways.mail.smtp_session import BUFFER_BYTES, DialogueSettings
from tests.support.gateways.mail.fakes import ENDPOINTS, FakeIntake, listening, with_listener

SECONDS_MAX = 10
ORDERS = "orders@example.org"


def order(text: str = "<order/>", message_id: str | None = "<1@shop.example>") -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Ann <ann@shop.example>"
    mail["To"] = ORDERS
    mail["Subject"] = "Bücher"
    if message_id:
        mail["Message-ID"] = message_id
    mail.set_content("Please find it attached.")
    mail.add_attachment(text.encode(), maintype="application", subtype="xml", filename="order.xml")
    return mail


def connect(port: int) -> smtplib.SMTP:
    return smtplib.SMTP("127.0.0.1", port, local_hostname="client.example", timeout=SECONDS_MAX)


def send(port: int, mail: EmailMessage | None = None, to: list[str] | None = None) -> tuple[int, str]:
    """The last answer of the listener to a mail."""
    client = connect(port)
    try:
        client.send_message(mail or order(), to_addrs=to or [ORDERS])
    except smtplib.SMTPDataError as error:
        return error.smtp_code, _text(error.smtp_error)
    except smtplib.SMTPRecipientsRefused as error:
        code, text = next(iter(error.recipients.values()))
        return code, _text(text)
    finally:
        client.close()
    return 250, ""


def _text(answer: bytes | str) -> str:
    return answer.decode() if isinstance(answer, bytes) else answer


def speak(port: int, *lines: bytes) -> list[str]:
    """Say lines without waiting for answers, and hear all of them."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX) as connection:
        heard = b""
        try:
            for line in [*lines, b"QUIT"]:
                connection.sendall(line + b"\r\n")
            while part := connection.recv(65_536):
                heard += part
        except ConnectionError:  # it has hung up while we were speaking
            pass
    return heard.decode().splitlines()


def speak_in_turn(port: int, *lines: bytes) -> list[str]:
    """Say each line when the one before is answered, until the other side has hung up."""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX) as connection,
        connection.makefile("rb") as answers,
    ):
        heard = [answers.readline().decode(errors="replace")]
        for line in lines:
            connection.sendall(line + b"\r\n")
            heard.append(answers.readline().decode(errors="replace"))
            while heard[-1][3:4] == "-":
                heard.append(answers.readline().decode(errors="replace"))
            if heard[-1].startswith("421") or "goodbye" in heard[-1]:
                break
    return heard


def codes(answers: list[str]) -> list[int]:
    return [int(answer[:3]) for answer in answers if answer[3] == " "]


# --- accepted --------------------------------------------------------------------------------------------------------


def test_the_xml_part_of_a_mail_becomes_a_message() -> None:
    intake = FakeIntake()

    assert listening(send, intake) == (250, "")
    [received] = intake.stored
    assert (received.queue, received.body) == ("orders", b"<order/>")
    assert received.properties == {"Sender": "ann@shop.example", "Recipient": ORDERS}
    assert received.transport["demaq:sender"] == "127.0.0.1", "nobody vouches for what the author has written"
    assert received.transport["demaq:header.Subject"] == "Bücher"
    assert (received.request or "").startswith("mail:orders::<1@shop.example>:")


def test_a_repeated_mail_is_accepted_and_stored_once() -> None:
    intake = FakeIntake()

    assert listening(lambda port: [send(port), send(port)], intake) == [(250, "")] * 2
    assert len(intake.stored) == 1


def test_a_mail_without_message_id_has_no_request_name() -> None:
    intake = FakeIntake()
    listening(lambda port: send(port, order(message_id=None)), intake)

    assert [received.request for received in intake.stored] == [None]


def test_a_very_long_message_id_gives_a_short_request_name() -> None:
    intake = FakeIntake()
    listening(lambda port: [send(port, order(message_id=f"<{'x' * 900}@a>")) for _ in range(2)], intake)

    assert [len(received.request or "") < 200 for received in intake.stored] == [True]


@pytest.mark.parametrize(
    "address", ["orders@example.org", "ORDERS@Example.ORG", "orders+urgent@example.org", '"orders"@example.org']
)
def test_an_address_may_be_written_in_several_ways(address: str) -> None:
    intake = FakeIntake()

    assert listening(lambda port: send(port, to=[address]), intake) == (250, "")
    assert [received.queue for received in intake.stored] == ["orders"]
    assert intake.stored[0].properties["Recipient"] == address.replace('"', "")


def test_addresses_with_other_letters_are_known() -> None:
    intake = FakeIntake()
    lines = [b"EHLO a", "MAIL FROM:<jürgen@example.org> SMTPUTF8".encode(), "RCPT TO:<bücher@köln.example>".encode()]
    lines += [b"DATA", b"", b"<a/>", b"."]
    answers = listening(lambda port: speak(port, *lines), intake, {"books": "mailto:b%C3%BCcher@xn--kln-sna.example"})

    assert codes(answers) == [220, 250, 250, 250, 354, 250, 221]
    assert intake.stored[0].properties == {"Sender": "jürgen@example.org", "Recipient": "bücher@köln.example"}


def test_every_queue_among_the_recipients_gets_the_mail_once() -> None:
    intake = FakeIntake()
    recipients = [ORDERS, "bills@example.org", "invoices@example.org", "orders+x@example.org"]

    assert listening(lambda port: send(port, to=recipients), intake) == (250, "")
    assert [received.queue for received in intake.stored] == ["orders", "bills"]


def test_lines_that_begin_with_a_dot_arrive_as_they_were() -> None:
    intake = FakeIntake()
    lines = [
        b"EHLO a",
        b"MAIL FROM:<a@b.c>",
        b"RCPT TO:<orders@example.org>",
        b"DATA",
        b"",
        b"<a>",
        b"..b",
        b"</a>",
        b".",
    ]
    listening(lambda port: speak(port, *lines), intake)

    assert [received.body for received in intake.stored] == [b"<a>\r\n.b\r\n</a>\r\n"]


@pytest.mark.parametrize("filling", [b"x", b"x.\n.\n", b".\r"])
def test_a_document_in_one_long_line_arrives_as_it_was(filling: bytes) -> None:
    intake = FakeIntake()
    text = b"<a>" + filling * (3 * BUFFER_BYTES // len(filling)) + b".</a>"
    lines = [b"EHLO a", b"MAIL FROM:<a@b.c>", b"RCPT TO:<orders@example.org>", b"DATA", b"", text, b"."]

    assert codes(listening(lambda port: speak(port, *lines), intake))[4:] == [354, 250, 221]
    assert [received.body for received in intake.stored] == [text + b"\r\n"]


def test_only_a_dot_between_whole_line_ends_is_the_end() -> None:
    intake = FakeIntake()
    hidden = b"<a>\n.\nRSET\n.\r\r\nRSET\r.\r\n..\r\n</a>"
    lines = [b"EHLO a", b"MAIL FROM:<a@b.c>", b"RCPT TO:<orders@example.org>", b"DATA", b"", hidden, b"."]

    assert codes(listening(lambda port: speak(port, *lines), intake))[4:] == [354, 250, 221]
    assert len(intake.stored) == 1


def test_the_answer_comes_after_the_message_is_stored() -> None:
    intake = FakeIntake(delay_seconds=0.2)

    def stored_when_answered(port: int) -> int:
        send(port)
        return len(intake.stored)

    assert listening(stored_when_answered, intake) == 1


def test_a_mail_with_an_empty_envelope_sender_is_accepted() -> None:
    lines = [b"EHLO a", b"MAIL FROM:<>", b"RCPT TO:<orders@example.org>", b"DATA", b"", b"<a/>", b"."]
    intake = FakeIntake()

    assert codes(listening(lambda port: speak(port, *lines), intake))[-2:] == [250, 221]
    assert intake.stored[0].properties == {"Recipient": ORDERS}


# --- refused ---------------------------------------------------------------------------------------------------------


def test_an_unknown_address_is_refused_at_once() -> None:
    code, reason = listening(lambda port: send(port, to=["sales@example.org"]))

    assert (code, reason) == (550, "5.1.1 there is no mailbox with the address sales@example.org")


def test_what_is_not_well_formed_is_refused_with_the_reason_and_kept() -> None:
    intake = FakeIntake()
    code, reason = listening(lambda port: send(port, order("<order>")), intake)

    assert (code, reason[:5]) == (554, "5.6.0")
    assert "line 1" in reason
    assert [received.body for received in intake.refused] == [b"<order>"]


def test_a_mail_without_xml_is_refused_with_the_reason_and_kept_whole() -> None:
    intake = FakeIntake()
    mail = EmailMessage()
    mail["From"] = "ann@shop.example"
    mail.set_content("I would like to order.")

    assert listening(lambda port: send(port, mail), intake) == (
        554,
        "5.6.0 the mail has no XML part: it has text/plain",
    )
    [kept] = intake.refused
    assert isinstance(kept.body, bytes)
    assert b"I would like to order." in kept.body
    assert kept.reason == "the mail has no XML part: it has text/plain"


def test_a_mail_without_xml_is_put_off_where_it_cannot_be_kept() -> None:
    mail = EmailMessage()
    mail["From"] = "ann@shop.example"
    mail.set_content("I would like to order.")

    assert listening(lambda port: send(port, mail), FakeIntake(failures=[StoreError("full")]))[0] == 451


def test_a_reason_is_one_line() -> None:
    intake = FakeIntake(failures=[MessageError("schemaViolation", "first\r\n250 OK\nsecond" + "x" * 2_000)])
    code, reason = listening(send, intake)

    assert code == 554
    assert reason.startswith("5.6.0 first 250 OK second")
    assert len(reason) < 500


def test_where_one_queue_refuses_the_reply_names_it() -> None:
    intake = FakeIntake(failures=[MessageError("schemaViolation", "no lines")])
    code, reason = listening(lambda port: send(port, to=[ORDERS, "bills@example.org"]), intake)

    assert (code, reason) == (554, f"5.6.0 stored for bills@example.org, but not for {ORDERS}: no lines")


def test_a_mail_that_is_too_large_is_refused_before_it_is_sent() -> None:
    settings = DialogueSettings(mail_bytes_max=2_000)

    def announce(port: int) -> tuple[str, int]:
        with connect(port) as client:
            client.ehlo()
            return client.esmtp_features["size"], client.mail("a@b.c", ["SIZE=3000"])[0]

    assert listening(announce, settings=settings) == ("2000", 552)


def test_a_mail_that_is_larger_than_it_said_is_refused() -> None:
    lines = [b"HELO a", b"MAIL FROM:<a@b.c>", b"RCPT TO:<orders@example.org>", b"DATA", b"", *[b"x" * 99] * 25, b"."]
    answers = listening(lambda port: speak(port, *lines, b"NOOP"), settings=DialogueSettings(mail_bytes_max=2_000))

    assert answers[5:] == ["552 5.3.4 the mail is larger than 2,000 bytes", "250 OK", "221 Bye"]


def test_a_mail_that_does_not_end_is_cut_off() -> None:
    lines = [b"HELO a", b"MAIL FROM:<a@b.c>", b"RCPT TO:<orders@example.org>", b"DATA", b"x" * 300_000]
    answers = listening(lambda port: speak(port, *lines), settings=DialogueSettings(mail_bytes_max=2_000))

    assert codes(answers)[:5] == [220, 250, 250, 250, 354]
    assert set(codes(answers)[5:]) <= {552, 421}


# --- put off ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure", [Overloaded("the backlog is too long", 30.0), StoreError("the disk is full"), TimeoutError()]
)
def test_a_node_that_cannot_store_puts_the_sender_off(failure: Exception, caplog) -> None:
    intake = FakeIntake(failures=[failure])
    answers = listening(lambda port: [send(port), send(port)], intake)

    assert [code for code, _ in answers] == [451, 250]
    assert len(intake.stored) == 1
    assert [record for record in caplog.records if record.levelno > logging.WARNING] == []


def test_a_mail_that_would_take_too_much_memory_beside_others_is_put_off() -> None:
    large = "<x>" + "a<a/>" * 100_000 + "</x>"
    held = Held(60_000_000)
    others = [held.reserve(large), held.reserve(large)]
    intake = FakeIntake()
    mail = order(large, None)

    def send_twice(port: int) -> list[int]:
        first = send(port, mail)[0]
        others[0].keep(0)
        return [first, send(port, mail)[0], send(port)[0]]

    assert listening(send_twice, intake, held=held) == [451, 250, 250]
    others[1].keep(0)
    assert held.trees == 0


def test_an_internal_error_is_logged_and_not_sent_to_the_sender(caplog) -> None:
    code, reason = listening(send, FakeIntake(failures=[KeyError("secret")]))

    assert (code, "secret" in reason) == (451, False)
    assert [record.exc_info is not None for record in caplog.records if record.name == "demaq.node"] == [True]


def test_a_mail_for_two_queues_is_put_off_until_both_have_it() -> None:
    intake = FakeIntake()
    both = [ORDERS, "bills@example.org"]

    def twice(port: int) -> list[int]:
        first = send(port, to=both[:1])
        intake.failures = [StoreError("full")]
        return [first[0], send(port, to=both)[0], send(port, to=both)[0]]

    assert listening(twice, intake) == [250, 451, 250]
    assert [received.queue for received in intake.stored] == ["orders", "bills"]


# --- misuse ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([b"MAIL FROM:<a@b.c>"], [503]),
        ([b"EHLO"], [501]),
        ([b"EHLO a", b"RCPT TO:<orders@example.org>"], [250, 503]),
        ([b"EHLO a", b"DATA"], [250, 503]),
        ([b"EHLO a", b"MAIL FROM:<a@b.c>", b"DATA"], [250, 250, 503]),
        ([b"EHLO a", b"MAIL FROM:<a@b.c>", b"MAIL FROM:<a@b.c>"], [250, 250, 503]),
        ([b"EHLO a", b"MAIL FROM:<a@b.c> BODY=9BIT"], [250, 501]),
        ([b"EHLO a", b"MAIL FROM:<a@b.c>", b"RCPT TO:<orders@example.org>", b"DATA now"], [250, 250, 250, 501]),
        ([b"EHLO a", b"MAIL FROM:<" + b"(" * 400], [250, 553]),
        ([b"EHLO a", b"MAIL FROM:<@>"], [250, 553]),
        ([b"EHLO a", b"MAIL FROM:\xff"], [250, 553]),
        ([b"VRFY \xff\xfe"], [502]),
        ([b"\xff\xfe\x00"], [500]),
        ([b"EHLO a", b"AUTH PLAIN AGEAYg=="], [250, 538]),
        ([b"EHLO a", b"STARTTLS"], [250, 454]),
        ([b"x" * 100_000], [500]),
        ([b"BDAT 3 LAST"], [500]),
        ([b""], [500]),
    ],
)
def test_misuse_is_answered_and_the_dialogue_continues(lines: list[bytes], expected: list[int], caplog) -> None:
    assert codes(listening(lambda port: speak(port, *lines))) == [220, *expected, 221]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_answer_holds_no_line_breaks_of_the_sender() -> None:
    answers = listening(lambda port: speak(port, b"EHLO a", b"MAIL FROM:<a@b.c>", b'RCPT TO:<"a\r250 OK"@b.c>'))

    assert all([code in (220, 250, 221) or code >= 500 for code in codes(answers)])
    assert len(codes(answers)) == 5


@pytest.mark.parametrize("line", [b"", b"NOOP", b"EHLO a", b"NONSENSE", b"VRFY", b"RCPT TO:<nobody@example.org>"])
def test_who_only_makes_mistakes_is_cut_off(line: bytes) -> None:
    answers = listening(lambda port: speak_in_turn(port, b"EHLO a", b"MAIL FROM:<a@b.c>", *[line] * 200))

    assert "goodbye" in answers[-1] or "too many times" in answers[-1]


def test_a_slow_sender_is_cut_off() -> None:
    def say_little(port: int) -> float:
        with socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX) as connection:
            begun = time.monotonic()
            connection.sendall(b"EHLO a\r\nMAIL FROM:<a@b.c>\r\nRCPT TO:<orders@example.org>\r\nDATA\r\n")
            while connection.recv(1_000):
                pass
            return time.monotonic() - begun

    assert listening(say_little, settings=DialogueSettings(timeout_seconds=0.2)) < SECONDS_MAX / 2


def test_too_many_connections_are_turned_away() -> None:
    def third(port: int) -> int:
        with connect(port), connect(port):
            try:
                connect(port)
            except smtplib.SMTPConnectError as error:
                return error.smtp_code
        return 220

    assert listening(third, connections_max=2) == 421


def test_a_connection_that_has_ended_makes_room() -> None:
    def one_after_another(port: int) -> list[int]:
        found = []
        for _ in range(4):
            found.append(send(port)[0])
            time.sleep(0.05)
        return found

    assert listening(one_after_another, connections_max=1) == [250] * 4


def test_a_sender_who_hangs_up_leaves_nothing(caplog) -> None:
    def hang_up(port: int) -> None:
        for said in (b"", b"EHLO a\r\n", b"EHLO a\r\nMAIL FROM:<a@b.c>\r\nRCPT TO:<orders@example.org>\r\nDATA\r\n<a"):
            connection = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)
            connection.sendall(said)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()
        time.sleep(0.1)

    intake = FakeIntake()
    listening(hang_up, intake)

    assert intake.stored == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


# --- starting and stopping -------------------------------------------------------------------------------------------


def test_stopping_lets_a_mail_be_stored_and_ends_the_others() -> None:
    intake = FakeIntake(delay_seconds=0.3)

    async def stop_meanwhile(listener: MailListener) -> tuple[tuple[int, str], bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        await reader.readline()
        sending = asyncio.create_task(asyncio.to_thread(send, listener.port))
        while not intake.begun:
            await asyncio.sleep(0.01)
        await listener.stop()
        idle = await reader.read()
        writer.close()
        return await sending, idle

    answer, idle = with_listener(stop_meanwhile, intake)
    assert (answer[0], len(intake.stored)) == (250, 1)
    assert idle.startswith(b"421 4.3.2")


def test_a_port_that_is_taken_is_said_in_one_line() -> None:
    async def again(listener: MailListener) -> str:
        with pytest.raises(OperatorError) as failure:
            await MailListener(FakeIntake(), ENDPOINTS, host="127.0.0.1", port=listener.port).start()
        return str(failure.value)

    assert "cannot listen for mail on 127.0.0.1:" in with_listener(again)


@pytest.mark.parametrize(
    ("endpoints", "reason"),
    [
        ({"a": "mailto:a@b.c", "d": "mailto:A@B.C"}, "queues a and d have the same mail address a@b.c"),
        ({"a": "mailto:orders"}, 'queue a: "orders" is no mail address'),
        ({"a": "mailto:"}, 'queue a: "mailto:" names no recipient'),
    ],
)
def test_wrong_endpoints_are_said_in_one_line(endpoints: dict[str, str], reason: str) -> None:
    with pytest.raises(OperatorError, match=reason):
        MailListener(FakeIntake(), endpoints, host="127.0.0.1", port=0)


# --- TLS and passwords -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For the listener and for a client."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


def test_a_mail_comes_over_tls(contexts) -> None:
    server, client_side = contexts

    def securely(port: int) -> tuple[bool, bool]:
        with connect(port) as client:
            client.starttls(context=client_side)
            client.ehlo()
            client.send_message(order(), to_addrs=[ORDERS])
            return client.has_extn("starttls"), client.has_extn("auth")

    intake = FakeIntake()
    assert listening(securely, intake, settings=DialogueSettings(tls=server, tls_required=True)) == (False, False)
    assert len(intake.stored) == 1


def test_where_tls_is_required_nothing_is_taken_without(contexts) -> None:
    settings = DialogueSettings(tls=contexts[0], tls_required=True)

    assert codes(listening(lambda port: speak(port, b"EHLO a", b"MAIL FROM:<a@b.c>"), settings=settings)) == [
        220,
        250,
        530,
        221,
    ]


def test_a_handshake_that_fails_is_no_matter_for_the_log(contexts, caplog) -> None:
    def untrusting(port: int) -> None:
        for _ in range(2):
            client = connect(port)
            with pytest.raises(ssl.SSLError):
                client.starttls(context=ssl.create_default_context())
            client.close()
        speak_in_turn(port, b"EHLO a", b"STARTTLS", b"nonsense")

    def waiting(port: int) -> None:
        speak(port, b"EHLO a", b"STARTTLS")

    listening(untrusting, settings=DialogueSettings(tls=contexts[0]))
    listening(waiting, settings=DialogueSettings(tls=contexts[0], timeout_seconds=0.2))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(("password", "expected"), [("right", 250), ("wrong", 535)])
@pytest.mark.parametrize("way", ["PLAIN", "LOGIN"])
def test_a_sender_says_who_it_is(contexts, way: str, password: str, expected: int) -> None:
    server, client_side = contexts
    asked: list[tuple[str, str, str]] = []

    async def authenticate(name: str, password: str, peer: str) -> bool:
        asked.append((name, password, peer))
        return password == "right"

    def log_in(port: int) -> int:
        with connect(port) as client:
            client.starttls(context=client_side)
            client.ehlo()
            client.esmtp_features["auth"] = way
            assert client.mail("a@b.c")[0] == 530
            try:
                client.login("shop", password)
            except smtplib.SMTPAuthenticationError as error:
                return error.smtp_code
            return client.sendmail("a@b.c", ORDERS, b"\r\n<a/>") == {} and 250

    assert listening(log_in, settings=DialogueSettings(tls=server, authenticate=authenticate)) == expected
    assert asked == [("shop", password, "127.0.0.1")]


def test_passwords_need_a_certificate() -> None:
    async def authenticate(name: str, password: str, peer: str) -> bool:
        return True

    with pytest.raises(OperatorError, match="no certificate"):
        MailListener(FakeIntake(), ENDPOINTS, host="", port=0, settings=DialogueSettings(authenticate=authenticate))
