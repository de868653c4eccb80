"""Mutated real mails through a real dialogue: each is answered, none that was accepted is lost, nothing breaks."""

from __future__ import annotations

import asyncio
import base64
import logging
from email.message import EmailMessage

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demaq.documents import parse_document
from demaq.gateways.mail.parsed_mail import read_mail
from demaq.gateways.mail.smtp_server import MailListener
from tests.support.gateways.mail.fakes import FakeIntake, with_listener

SECONDS_MAX = 10.0
MAILS_OF_A_DIALOGUE = 8


def _with_attachment() -> bytes:
    mail = EmailMessage()
    mail["From"] = "Jörg <joerg@example.org>"
    mail["To"] = "orders@example.org"
    mail["Subject"] = "Bücher und mehr"
    mail["Message-ID"] = "<1@example.org>"
    mail.set_content("Grüße")
    mail.add_alternative("<p>Grüße</p>", subtype="html")
    mail.add_attachment(b"<order><line n='1'/></order>", maintype="application", subtype="xml", filename="o.xml")
    return mail.as_bytes().replace(b"\n", b"\r\n")


SIGNED = b"""From: "Ann" <ann@example.org>
To: orders@example.org
Message-ID: <2@example.org>
MIME-Version: 1.0
Content-Type: multipart/signed; protocol="application/pkcs7-signature"; micalg=sha-256; boundary="----A1"

This is an S/MIME signed message

------A1
Content-Type: multipart/mixed; boundary=in

--in
Content-Type: text/xml; charset="iso-8859-1"; name*0*=utf-8''b%C3%BC; name*1="cher.xml"
Content-Transfer-Encoding: quoted-printable

<order name=3D"B=FCcher"/>
--in--

------A1
Content-Type: application/pkcs7-signature; name="smime.p7s"
Content-Transfer-Encoding: base64
Content-Disposition: attachment; filename="smime.p7s"

MIIGFAYJKoZIhvcNAQcCoIIGBTCCBgECAQExDzANBglghkgBZQMEAgEFADALBgkq

------A1--
""".replace(b"\n", b"\r\n")

REPORT = b"""From: MAILER-DAEMON@example.org
Content-Type: multipart/report; report-type=delivery-status; boundary=r

--r
Content-Type: message/delivery-status

Reporting-MTA: dns; example.org

Final-Recipient: rfc822; a@example.org
Action: failed
--r
Content-Type: message/rfc822

Content-Type: application/xml

<order/>
--r--
""".replace(b"\n", b"\r\n")

PLAIN = b"From: a@example.org\r\nMessage-ID: <3@a>\r\n\r\n<?xml version='1.0'?>\r\n<order>text</order>\r\n"
ENCODED = b"Content-Type: application/xml\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.encodebytes(
    "<?xml version='1.0' encoding='utf-16'?><o>ä</o>".encode("utf-16")
).replace(b"\n", b"\r\n")
MAILS = [_with_attachment(), SIGNED, REPORT, PLAIN, ENCODED]

PIECES = [
    b"\x00",
    b"\xff\xfe",
    b"\r\n",
    b"\n",
    b"\r",
    b"--in\r\n",
    b"--in--\r\n",
    b"------A1\r\n",
    b"\r\n.\r\n",
    b"\r\n..\r\n",
    b"<a>" * 300,
    b"<!DOCTYPE a [<!ENTITY b 'c'>]>",
    b"Content-Type: multipart/mixed; boundary=in\r\n\r\n--in\r\n",
    b"Content-Type: message/rfc822\r\n\r\n",
    b"Content-Type: text/xml; charset=utf-7\r\n",
    b'Content-Type: text/xml; charset="\xff\x00"; name="=?x?b?!?="\r\n',
    b"Content-Transfer-Encoding: x-uuencode\r\n",
    b"Content-Disposition: attachment; filename*=klingon''%ff.xml\r\n",
    b'From: =?utf-8?b?////?= <((("@,;:>\r\n',
    b"Message-ID: \x00<\xff>\r\n",
    b"=?utf-8?q?=ZZ?=",
    b"; charset*1*=a''b; charset*0=c",
    b"]]>&#0;&x;",
]


@st.composite
def mutated_mails(draw: st.DrawFn) -> bytes:
    """A real mail with pieces put in, taken out, doubled and mixed with those of another one."""
    data = draw(st.sampled_from(MAILS))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 60)))
        act = draw(st.sampled_from(["put", "take", "double", "mix", "flip"]))
        if act == "put":
            data = data[:start] + draw(st.sampled_from(PIECES)) + data[start:]
        elif act == "take":
            data = data[:start] + data[end:]
        elif act == "double":
            data = data[:end] + data[start:]
        elif act == "mix":
            data = data[:start] + draw(st.sampled_from(MAILS))[start:]
        else:
            data = data[:start] + draw(st.binary(max_size=8)) + data[end:]
    return data


@given(mutated_mails())
def test_every_mail_can_be_read_or_is_refused_in_one_line(data: bytes) -> None:
    mail = read_mail(data, envelope_sender="a@example.org")

    assert mail.refusal is None or len(mail.refusal.splitlines()) == 1
    for value in mail.transport.values():
        document = parse_document(f"<a>{value.replace('&', '').replace('<', '').replace(']]>', '')}</a>")
        assert document.text, "a property holds only characters that XML knows"


@settings(max_examples=25)
@given(st.lists(mutated_mails(), min_size=1, max_size=MAILS_OF_A_DIALOGUE))
def test_every_mail_is_answered_and_none_that_was_accepted_is_lost(caplog_at_warning, mails: list[bytes]) -> None:
    intake = FakeIntake()
    answers = with_listener(lambda listener: _dialogue(listener, mails), intake)

    assert [answer[:3] for answer in answers if answer[:3] not in ("250", "554")] == []
    accepted = [data for data, answer in zip(mails, answers, strict=True) if answer.startswith("250")]
    read = [read_mail(_as_it_arrives(data)) for data in accepted]
    unnamed = [mail for mail in read if mail.message_id is None]
    # A name alone could be used up by a stranger: the same mail is one of the same name and content.
    named = {
        (mail.message_id, mail.sender, mail.transport.get("demaq:contentType"), mail.body)
        for mail in read
        if mail.message_id is not None
    }
    assert len(intake.stored) == len(unnamed) + len(named)
    assert len(intake.refused) == len(mails) - len(accepted), "what was refused is kept"
    assert caplog_at_warning.records == []


@settings(max_examples=25)
@given(
    st.lists(
        st.sampled_from(
            [
                b"EHLO a",
                b"HELO",
                b"MAIL FROM:<a@b.c>",
                b"RCPT TO:<orders@example.org>",
                b"DATA",
                b".",
                b"<a/>",
                b"RSET",
                b"MAIL FROM:<\xff@>",
                b"RCPT TO:<a@b>(",
                b"AUTH LOGIN",
                b"STARTTLS",
                b"HELP \x00",
                b"VRFY \xff",
                b"",
                b"\x00",
            ]
        )
        | st.binary(max_size=30),
        max_size=20,
    )
)
def test_every_dialogue_ends_well(caplog_at_warning, lines: list[bytes]) -> None:
    intake = FakeIntake()

    async def speak(listener: MailListener) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"".join([line + b"\r\n" for line in [*lines, b".", b".", b"QUIT"]]))
        try:
            return await asyncio.wait_for(reader.read(), SECONDS_MAX)
        except ConnectionError:
            return b"421 it has hung up"
        finally:
            writer.close()

    answers = with_listener(speak, intake).splitlines()
    assert answers
    assert all([200 <= int(answer[:3]) < 600 for answer in answers])
    assert caplog_at_warning.records == []


async def _dialogue(listener: MailListener, mails: list[bytes]) -> list[str]:
    """Return the reply that a well-behaved sender gets at the end of each mail."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)

    async def heard() -> str:
        line = await asyncio.wait_for(reader.readline(), SECONDS_MAX)
        while line[3:4] == b"-":
            line = await asyncio.wait_for(reader.readline(), SECONDS_MAX)
        return line.decode()

    async def said(line: bytes) -> str:
        writer.write(line + b"\r\n")
        return await heard()

    found = []
    try:
        await heard()
        await said(b"EHLO a")
        for data in mails:
            assert (await said(b"MAIL FROM:<a@example.org> BODY=8BITMIME")).startswith("250")
            assert (await said(b"RCPT TO:<orders@example.org>")).startswith("250")
            assert (await said(b"DATA")).startswith("354")
            dots_doubled = (b"\r\n" + data).replace(b"\r\n.", b"\r\n..")[2:]
            found.append(await said(dots_doubled + b"\r\n."))
    finally:
        writer.close()
    return found


def _as_it_arrives(data: bytes) -> bytes:
    return data + b"\r\n"


@pytest.fixture(scope="module")
def caplog_at_warning():
    """What any logger says that an operator would see; kept for all examples of a test."""

    class Kept(logging.Handler):
        records: list[logging.LogRecord] = []  # noqa: RUF012  # one for the module

        def emit(self, record: logging.LogRecord) -> None:
            self.records.append(record)

    kept = Kept(logging.WARNING)
    logging.getLogger().addHandler(kept)
    yield kept
    logging.getLogger().removeHandler(kept)
