"""Mails for people: what an application writes as `<mail>`, as it arrives at a real mail server."""

from __future__ import annotations

import contextlib
import smtplib
import socket
from collections.abc import Iterator
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from lxml import etree

from demaq.cli import main as cli
from demaq.errors import MessageError
from demaq.gateways.mail.form import read_mail_form
from demaq.gateways.security.recipients import Recipients
from demaq.gateways.settings import MailSettings, OutgoingSettings, RelaySettings, Settings
from demaq.schemas import schema_text
from tests.processes.gateways.mail.test_sending import Receiver, written
from tests.support.gateways.nodes import ANY_PORT, Running, running, wait_until

WHOLE = """<mail>
  <subject>Grüße
    aus Köln</subject>
  <text>
    Guten Tag,
      {long}
    .
    ..zwei
    From us
  </text>
  <html xmlns="http://www.w3.org/1999/xhtml"><p>Guten <b>Tag</b><br/>ü &lt; &amp;</p></html>
  <attachment name="größe.xml"><o:order xmlns:o="urn:o">é</o:order></attachment>
  <attachment name="note.txt">ü</attachment>
  <attachment name="empty.txt"/>
  <attachment name="picture.png" type="image/png" encoding="base64"> iVBO
    Rw0= </attachment>
</mail>""".replace("{long}", "lang " * 500)
WRONG = {
    "<mail/>": "Missing child",
    "<mail><subject>s</subject></mail>": "Missing child",
    "<mail><subject>s</subject><bold/></mail>": "'bold'",
    "<mail><subject>s</subject><text/><text/></mail>": "'text'",
    "<mail><subject>s</subject><text><b/></text></mail>": "'text'",
    "<mail><subject>s</subject><text/><html/><html/></mail>": "'html'",
    "<mail><subject>s</subject><p xmlns='http://www.w3.org/1999/xhtml'/></mail>": "p is not expected",
    "<mail to='x'><subject>s</subject><text/></mail>": "attribute 'to'",
    "<mail><text>no subject</text></mail>": "has no subject",
    "<mail><subject> </subject><text>no subject</text></mail>": "has no subject",
    "<mail><subject>s</subject><text/><attachment>x</attachment></mail>": "attribute 'name'",
    "<mail><subject>s</subject><text/><attachment name='../x'>x</attachment></mail>": "attribute 'name'",
    "<mail><subject>s</subject><text/><attachment name='x' type='text'>x</attachment></mail>": "attribute 'type'",
    "<mail><subject>s</subject><text/><attachment name='x' type='message/rfc822'>x</attachment></mail>": "'type'",
    "<mail><subject>s</subject><text/><attachment name='x' type='text/plain; a=b'>x</attachment></mail>": "'type'",
    "<mail><subject>s</subject><text/><attachment name='x' encoding='base64'>a</attachment></mail>": "no base64",
    "<mail><subject>s</subject><text/><attachment name='x' encoding='base64'>_-_-</attachment></mail>": "no base64",
    "<mail><subject>s</subject><text/><attachment name='x' encoding='base64'><a/></attachment></mail>": "no base64",
    "<mail><subject>s</subject><text/><attachment name='x'>a<b/></attachment></mail>": "one of the two",
    "<mail><subject>s</subject><text/><attachment name='x'><a/><b/></attachment></mail>": "'b'",
}


def parts(mail: EmailMessage) -> list[EmailMessage]:
    return [part for part in mail.walk() if not part.is_multipart()]


# what is wrong


@pytest.mark.parametrize("text", WRONG)
def test_a_mail_that_is_not_as_the_form_says_is_an_error_of_the_message(text: str):
    with pytest.raises(MessageError) as refused:
        written(text)
    assert refused.value.kind == "schemaViolation"
    assert WRONG[text] in refused.value.message


def test_the_published_schema_accepts_what_the_form_accepts():
    schema = etree.XMLSchema(etree.fromstring(schema_text("mail").encode()))
    assert schema.validate(etree.fromstring(WHOLE)), schema.error_log
    assert not schema.validate(etree.fromstring("<mail><subject>s</subject><bold/></mail>"))


def test_a_root_of_another_namespace_is_data():
    names = [part.get_filename() for part in parts(written("<mail xmlns='urn:mine'><bold/></mail>"))]
    assert names == [None, "mail.xml"]


# what is written


def test_a_page_may_be_a_whole_one_or_its_content_or_the_text_of_one():
    pages = {
        "<html><p>a<br/></p></html>": "<!DOCTYPE html>\n<html><body><p>a<br></p></body></html>\n",
        '<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:body lang="de"><h:p>a</h:p></h:body></h:html>': (
            '<!DOCTYPE html>\n<html><body lang="de"><p>a</p></body></html>\n'
        ),
        "<html>&lt;p>a&lt;br>&lt;/p></html>": "<p>a<br></p>\n",
        "<html><!-- nothing -->plain</html>": "plain\n",
        "<html/>": "\n",
    }
    for page, expected in pages.items():
        form = read_mail_form(etree.fromstring(f"<mail><subject>s</subject>{page}</mail>"))
        assert (form.html, form.text) == (expected, None)


def test_nothing_in_a_mail_can_begin_another_header():
    mail = written(
        "<mail><subject>a&#13;&#10;Bcc: spy@example.org</subject><text>&#13;&#10;Bcc: spy@example.org</text>"
        "<attachment name='a&#10;Bcc: x'>a</attachment></mail>".replace("&#10;Bcc: x", " b")
    )
    found = message_from_bytes(mail.as_bytes(), policy=default)
    assert found["Subject"] == "a Bcc: spy@example.org"
    assert found["Bcc"] is None
    with pytest.raises(MessageError):
        written("<mail><subject>a\u2028b\u0085c\u007fd</subject><text/></mail>")


# on its way

APPLICATION = """
create queue letters kind outgoingGateway endpoint "mailto:ann@example.org" errorqueue troubles
create queue strict kind outgoingGateway schema mail.xsd endpoint "mailto:ann@example.org?subject=Hello"
create queue data kind outgoingGateway endpoint "mailto:orders@example.org"
create queue orders kind incomingGateway endpoint "mailto:orders@example.org"
create queue troubles
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Receiver]]:
    receiver = Receiver()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    relay = Controller(receiver, hostname="127.0.0.1", port=port)
    relay.start()
    settings = Settings(
        mail=MailSettings(relay=RelaySettings(host="127.0.0.1", port=port, tls="never"), sender="shop@example.org"),
        outgoing_default=OutgoingSettings(recipients=Recipients.of(["mailto:*"]), attempts=3, retry_first_seconds=0.05),
    )
    folder = tmp_path_factory.mktemp("letters")
    try:
        with running(folder, APPLICATION, settings, smtp=ANY_PORT, mail_xsd=schema_text("mail")) as here:
            yield here, receiver
    finally:
        relay.stop()


def arrived(world: tuple[Running, Receiver], queue: str, body: str) -> EmailMessage:
    here, receiver = world
    before = len(receiver.mails)
    here.node.enqueue(queue, body)
    wait_until(lambda: len(receiver.mails) > before)
    assert max(len(line) for line in receiver.mails[-1].split(b"\r\n")) <= 998
    found = message_from_bytes(receiver.mails[-1], policy=default)
    assert isinstance(found, EmailMessage)
    return found


def test_a_mail_arrives_as_it_was_written(world: tuple[Running, Receiver]):
    mail = arrived(world, "letters", WHOLE)
    assert (mail["Subject"], mail["To"], mail["From"]) == ("Grüße aus Köln", "ann@example.org", "shop@example.org")
    assert mail.get_content_type() == "multipart/mixed"
    text, page, order, note, empty, picture = parts(mail)
    assert mail.get_body(("plain",)) is text
    assert mail.get_body(("html",)) is page
    lines = text.get_content().splitlines()
    assert lines == ["Guten Tag,", "  " + ("lang " * 500).rstrip() + " ", ".", "..zwei", "From us"]
    assert page.get_content().replace("\r\n", "\n") == (
        "<!DOCTYPE html>\n<html><body><p>Guten <b>Tag</b><br>ü &lt; &amp;</p></body></html>\n"
    )
    assert order.get_filename() == "größe.xml"
    assert order.get_content_type() == "application/xml"
    assert order.get_content().decode() == (
        '<?xml version="1.0" encoding="UTF-8"?>\n<o:order xmlns:o="urn:o">é</o:order>'
    )
    assert (note.get_filename(), note.get_content()) == ("note.txt", "ü\n")
    assert (empty.get_filename(), empty.get_content()) == ("empty.txt", "")
    assert (picture.get_content_type(), picture.get_content()) == ("image/png", b"\x89PNG\r\n"[:5])


def test_text_alone_is_a_mail_of_one_part(world: tuple[Running, Receiver]):
    mail = arrived(world, "strict", "<mail><text/></mail>")
    assert (mail["Subject"], mail.get_content_type(), mail.get_content().strip()) == ("Hello", "text/plain", "")


def test_a_wrong_mail_is_one_error_and_one_attempt(world: tuple[Running, Receiver]):
    here, receiver = world
    before = len(receiver.mails)
    message = here.node.enqueue("letters", "<mail><subject>s</subject><bold/></mail>")
    [error] = here.wait_for("troubles")
    assert error.body.startswith("<error><schemaViolation/>")
    assert "<attempt>1</attempt>" in error.body
    assert [a.result for a in here.node.store.attempts("letters", message, 9)] == ["failed"]
    assert len(receiver.mails) == before


def test_with_the_published_schema_a_wrong_mail_is_refused_when_it_is_enqueued(world: tuple[Running, Receiver]):
    with pytest.raises(MessageError) as refused:
        world[0].node.enqueue("strict", "<mail><bold/></mail>")
    assert refused.value.kind == "schemaViolation"


def test_another_node_takes_the_data_out_of_a_mail(world: tuple[Running, Receiver]):
    here, receiver = world
    body = "<order xmlns='urn:o'>" + "ü" * 50_000 + "<!-- - --></order>"
    arrived(world, "data", body)
    address = here.gateways.smtp_address
    assert address is not None
    with smtplib.SMTP("127.0.0.1", int(address.rpartition(":")[2]), timeout=30) as client:
        client.sendmail("shop@example.org", ["orders@example.org"], receiver.mails[-1])
    assert [message.body for message in here.wait_for("orders")] == [body]


def test_the_schema_of_mails_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    with contextlib.chdir(tmp_path):
        assert cli.run(cli.demaq, ["schema", "mail"]) == 0
    assert capsys.readouterr().out == schema_text("mail")
