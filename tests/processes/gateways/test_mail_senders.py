"""A gateway that gets mail asks senders who they are, where it asks at all."""

from __future__ import annotations

import contextlib
import smtplib
import socket
import ssl
from pathlib import Path

import pytest
import trustme
from aiosmtpd.controller import Controller

from demaq.errors import OperatorError
from demaq.gateways.mail.senders import guarded_mailboxes
from demaq.gateways.security.authentication import AuthKind
from demaq.gateways.security.credential_file import USERS, Entry, add_entry
from demaq.gateways.security.passwords import password_hash
from demaq.gateways.security.tls import OwnCertificate
from demaq.gateways.settings import IncomingSettings, MailSettings, RelaySettings, Settings
from demaq.gateways.settings.settings import Tls
from tests.processes.gateways.mail.test_sending import Receiver
from tests.support.gateways.nodes import ANY_PORT, running, wait_until

MAIL = "From: a@example.org\r\nTo: orders@example.org\r\nContent-Type: application/xml\r\n\r\n<order/>\r\n"
APPLICATION = 'create queue orders kind incomingGateway endpoint "mailto:orders@example.org"'


def test_a_mail_is_taken_from_who_says_the_right_password(tmp_path: Path):
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "node.pem")
    (tmp_path / "node.pem").chmod(0o600)
    add_entry(tmp_path / "users", USERS, Entry(name="relay", hash=password_hash("right")))
    settings = Settings(
        tls=Tls(own=OwnCertificate(certificate=tmp_path / "node.pem")),
        incoming_by_queue={"orders": IncomingSettings(auth=("basic",), users=tmp_path / "users")},
    )
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with running(tmp_path, APPLICATION, settings, smtp=ANY_PORT) as here:
        assert here.gateways.smtp_address is not None
        port = int(here.gateways.smtp_address.rpartition(":")[2])
        with smtplib.SMTP("localhost", port, timeout=30) as client:
            client.starttls(context=trusting)
            with pytest.raises(smtplib.SMTPSenderRefused) as refused:
                client.sendmail("a@example.org", ["orders@example.org"], MAIL)
            assert refused.value.smtp_code == 530
            with pytest.raises(smtplib.SMTPAuthenticationError):
                client.login("relay", "wrong")
            client.login("relay", "right")
            client.sendmail("a@example.org", ["orders@example.org"], MAIL)
            for text in ("<order n='1'/>", "<order n='1'/>", "<order n='2'/>"):
                mail = f"Message-ID: <1@a>\r\n{MAIL}".replace("<order/>", text)
                with contextlib.suppress(smtplib.SMTPDataError) if "2" in text else contextlib.nullcontext():
                    client.sendmail("a@example.org", ["orders@example.org"], mail)
        assert here.bodies("orders") == ["<order/>", "<order n='1'/>"]
        [error] = here.bodies("demaq:errors")
        assert "another message was sent under this name" in error
        properties = {name: value.text for name, value in here.stored("orders")[0].properties.items()}
        assert (properties["demaq:sender"], properties["Sender"]) == ("relay", "a@example.org")


def test_hops_of_a_mail_are_counted_on(tmp_path: Path):
    application = (
        APPLICATION
        + """
      create queue copies kind outgoingGateway endpoint "mailto:copies@example.org"
      create rule copy for orders if (/order) then do enqueue . into copies"""
    )
    receiver = Receiver()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    relay = Controller(receiver, hostname="127.0.0.1", port=port)
    relay.start()
    settings = Settings(
        mail=MailSettings(relay=RelaySettings(host="127.0.0.1", port=port, tls="never"), sender="n@example.org")
    )
    try:
        with running(tmp_path, application, settings, smtp=ANY_PORT) as here:
            assert here.gateways.smtp_address is not None
            port = int(here.gateways.smtp_address.rpartition(":")[2])
            with smtplib.SMTP("localhost", port, timeout=30) as client:
                client.sendmail("a@example.org", ["orders@example.org"], f"Demaq-Hops: 7\r\n{MAIL}")
            wait_until(lambda: len(receiver.mails) == 1)
            assert [message.hops for message in here.stored("orders")] == [7]
            assert b"Demaq-Hops: 9" in receiver.mails[0]
    finally:
        relay.stop()


def test_no_sender_makes_a_mail_vanish_by_using_its_message_id_first(tmp_path: Path):
    with running(tmp_path, APPLICATION, smtp=ANY_PORT) as here:
        assert here.gateways.smtp_address is not None
        port = int(here.gateways.smtp_address.rpartition(":")[2])
        with smtplib.SMTP("localhost", port, timeout=30) as client:
            for text in ("<forged/>", "<real/>", "<real/>"):
                mail = f"Message-ID: <5@node.example>\r\n{MAIL}".replace("<order/>", text)
                client.sendmail("a@example.org", ["orders@example.org"], mail)

        assert here.bodies("orders") == ["<forged/>", "<real/>"]
        assert {m.properties["demaq:sender"].text for m in here.stored("orders")} <= {"127.0.0.1", "::1"}


@pytest.mark.parametrize(("auth", "reason"), [(("bearer",), "passwords"), (("basic",), "certificate")])
def test_a_gateway_that_no_sender_could_mail_to_is_refused(auth: tuple[AuthKind, ...], reason: str):
    settings = Settings(incoming_by_queue={"orders": IncomingSettings(auth=auth)})

    with pytest.raises(OperatorError, match=reason):
        guarded_mailboxes(settings, ["orders"])
