"""A file of settings: what it may contain, and how problems with it are reported."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demaq.errors import OperatorError
from demaq.gateways.security import authentication, throttle
from demaq.gateways.security.file_watch import LOOK_EVERY_SECONDS
from demaq.gateways.security.secrets import Secret
from demaq.gateways.security.tls import OwnCertificate
from demaq.gateways.settings import (
    IncomingSettings,
    MailSettings,
    MessageSecuritySettings,
    OutgoingSettings,
    RelaySettings,
    Settings,
    Tls,
    exposures,
    read_settings,
)
from demaq.gateways.settings.settings_keys import (
    INCOMING_KEYS,
    MAIL_KEYS,
    NODE_KEYS,
    OUTGOING_KEYS,
    SECTIONS,
    SECURITY_FIELDS,
    TELEMETRY_KEYS,
    TLS_KEYS,
)
from tests.support.docs.pages import PROJECT, Page

HIDDEN = "hunter2hunter2"


class Operator:
    """Writes a file of settings and has it read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "settings.toml"
        secret = folder / "secret"
        secret.touch(mode=0o600)
        secret.write_text(f"{HIDDEN}\n")

    def read(self, text: str, **environment: str) -> Settings:
        self.file.write_text(text, encoding="utf-8")
        return read_settings(
            self.file, incoming=["orders", "payments"], outgoing=["bank", "shop"], environment=environment
        )

    def refusal(self, text: str, **environment: str) -> str:
        """Return the error, without the path of the file."""
        with pytest.raises(OperatorError) as error:
            self.read(text, **environment)
        said = str(error.value)
        assert said.startswith(f"{self.file}:")
        assert "\n" not in said
        assert HIDDEN not in said
        return said.removeprefix(f"{self.file}:").replace(f"{self.folder}/", "")


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    return Operator(tmp_path)


# --- what it may say -------------------------------------------------------------------------------------------------


def test_an_empty_file_is_as_none_but_for_where_its_neighbours_are(operator: Operator):
    settings = operator.read("")
    beside = IncomingSettings(users=operator.folder / "users", tokens=operator.folder / "tokens")

    assert settings == Settings(file=operator.file, incoming_default=beside)
    assert settings.incoming("orders") == beside
    assert settings.outgoing("bank") == Settings().outgoing("bank") == OutgoingSettings()


def test_everything_that_can_be_said_is_read(operator: Operator):
    settings = operator.read(
        """
        [node]
        auth = ["bearer", "basic"]
        users = "who/users"
        tokens = "/etc/demaq/tokens"
        certificates = ["urn:shop"]
        body_max = "1.5MB"
        body_time = "10s"
        reply_time = "1m"
        late = "timeout"
        backlog_max = 5
        disk_free_min = "1GiB"
        retry_after = "90s"
        [incoming.orders]
        auth = "none"
        body_max = "1KB"
        [outgoing]
        connections = 2
        rate = "30/min"
        attempts = 3
        retry_first = "2s"
        retry_max = "1h"
        timeout = "5s"
        breaker_failures = 7
        breaker_pause = "1m"
        ca = "ca.pem"
        ca_only = true
        user = "demaq"
        password = {file = "secret"}
        credentials_to = ["https://bank.example.org:8443"]
        [outgoing.bank]
        certificate = "client.pem"
        key = "client.key"
        key_password = {env = "KEY_PASSWORD"}
        token = {env = "BANK_TOKEN"}
        [mail]
        relay = "smtp://mail.example.org:2525"
        starttls = "required"
        user = "demaq"
        password = {file = "secret"}
        ca = "ca.pem"
        sender = "demaq@example.org"
        size_max = "1MB"
        [tls]
        certificate = "node.pem"
        key = "node.key"
        client_ca = "clients.pem"
        """,
        KEY_PASSWORD="key password",
        BANK_TOKEN="bank token",
    )
    folder = operator.folder

    payments = settings.incoming("payments")
    assert payments == IncomingSettings(
        auth=("basic", "bearer"),
        users=folder / "who/users",
        tokens=Path("/etc/demaq/tokens"),
        certificates=("urn:shop",),
        body_bytes_max=1_500_000,
        body_seconds_max=10.0,
        reply_seconds_max=60.0,
        late="timeout",
        backlog_max=5,
        disk_free_bytes_min=2**30,
        retry_after_seconds=90.0,
    )
    assert settings.incoming("orders") == replace(payments, auth=(), body_bytes_max=1000)
    shop = settings.outgoing("shop")
    assert shop == OutgoingSettings(
        connections=2,
        rate_per_second=0.5,
        attempts=3,
        retry_first_seconds=2.0,
        retry_seconds_max=3600.0,
        timeout_seconds=5.0,
        breaker_failures=7,
        breaker_pause_seconds=60.0,
        ca=folder / "ca.pem",
        ca_only=True,
        user="demaq",
        password=Secret(HIDDEN),
        credentials_to=("https://bank.example.org:8443",),
    )
    own = OwnCertificate(
        certificate=folder / "client.pem", key=folder / "client.key", key_password=Secret("key password")
    )
    assert settings.outgoing("bank") == replace(shop, own=own, user=None, password=None, token=Secret("bank token"))
    relay = RelaySettings(
        host="mail.example.org",
        port=2525,
        tls="required",
        user="demaq",
        password=Secret(HIDDEN),
        ca=folder / "ca.pem",
    )
    assert settings.mail == MailSettings(relay=relay, sender="demaq@example.org", size_bytes_max=1_000_000)
    node = OwnCertificate(certificate=folder / "node.pem", key=folder / "node.key")
    assert settings.tls == Tls(own=node, client_ca=folder / "clients.pem")
    assert HIDDEN not in repr(settings)
    assert "bank token" not in repr(settings)


def test_everything_about_the_security_of_messages_is_read(operator: Operator):
    settings = operator.read(
        """
        [node]
        security_key = "node.key"
        security_certificate = "node.pem"
        security_key_password = {file = "secret"}
        security_old_keys = ["old.pem"]
        security_trusted = ["a.pem", "/etc/b.pem"]
        security_roots = ["root.pem"]
        security_known = ["between.pem"]
        security_users = "people"
        clock_skew = "1m"
        message_lifetime = "90s"
        [outgoing.bank]
        security_key = "bank.key"
        security_certificate = "bank.pem"
        security_key_password = {env = "KEY_PASSWORD"}
        security_old_keys = []
        security_trusted = ["theirs.pem"]
        security_partner = "theirs.pem"
        security_user = "demaq"
        security_password = {file = "secret"}
        clock_skew = "1s"
        message_lifetime = "1d"
        """,
        KEY_PASSWORD="key password",
    )
    folder = operator.folder

    assert settings.incoming("orders").security == MessageSecuritySettings(
        key=folder / "node.key",
        certificate=folder / "node.pem",
        key_password=Secret(HIDDEN),
        old_keys=(folder / "old.pem",),
        trusted=(folder / "a.pem", Path("/etc/b.pem")),
        roots=(folder / "root.pem",),
        known=(folder / "between.pem",),
        users=folder / "people",
        clock_skew_seconds=60.0,
        lifetime_seconds=90.0,
    )
    assert settings.outgoing("bank").security == MessageSecuritySettings(
        key=folder / "bank.key",
        certificate=folder / "bank.pem",
        key_password=Secret("key password"),
        trusted=(folder / "theirs.pem",),
        partner=folder / "theirs.pem",
        user="demaq",
        password=Secret(HIDDEN),
        clock_skew_seconds=1.0,
        lifetime_seconds=86400.0,
    )
    assert settings.outgoing("shop").security == MessageSecuritySettings()
    assert HIDDEN not in repr(settings)
    assert "key password" not in repr(settings)


def test_a_gateway_takes_groups_about_the_security_of_messages_whole_or_not_at_all(operator: Operator):
    common = """
        security_key = "all.key"
        security_certificate = "all.pem"
        security_key_password = {file = "secret"}
        security_old_keys = ["old.pem"]
        security_trusted = ["a.pem"]
        security_roots = ["root.pem"]
        security_known = ["between.pem"]
        clock_skew = "1m"
        """
    incoming = f"[node]\n{common}security_users = 'people'\n"
    outgoing = f"[outgoing]\n{common}security_user = 'a'\nsecurity_password = {{file = 'secret'}}\n"
    settings = operator.read(
        f"""{incoming}{outgoing}
        [incoming.orders]
        security_key = "own.key"
        security_certificate = "own.pem"
        [incoming.payments]
        security_trusted = ["b.pem"]
        message_lifetime = "1m"
        [outgoing.bank]
        security_roots = ["b.pem"]
        [outgoing.shop]
        security_user = "b"
        """
    )
    all_incoming, all_outgoing = settings.incoming_default.security, settings.outgoing_default.security
    folder = operator.folder

    assert settings.incoming("orders").security == replace(
        all_incoming, key=folder / "own.key", certificate=folder / "own.pem", key_password=None, old_keys=()
    )
    assert settings.incoming("payments").security == replace(
        all_incoming, trusted=(folder / "b.pem",), roots=(), known=(), lifetime_seconds=60.0
    )
    assert settings.outgoing("bank").security == replace(all_outgoing, trusted=(), roots=(folder / "b.pem",), known=())
    assert settings.outgoing("shop").security == replace(all_outgoing, user="b", password=None)


def test_every_setting_about_the_security_of_messages_sets_a_field_of_its_own():
    named = [key for key in {**INCOMING_KEYS, **OUTGOING_KEYS} if key.startswith("security_")]

    assert {*named, "clock_skew", "message_lifetime"} == set(SECURITY_FIELDS)
    assert sorted(SECURITY_FIELDS.values()) == sorted([field.name for field in fields(MessageSecuritySettings)])


def test_who_may_read_metrics_is_said_for_the_node(operator: Operator):
    operator.file.write_text('[node]\nmetrics = "off"\nlate = "timeout"\n')
    settings = read_settings(operator.file, incoming=["orders"], outgoing=[])

    assert (settings.metrics, settings.incoming("orders").late) == ("off", "timeout")
    operator.file.write_text('[incoming.orders]\nmetrics = "off"\n')
    with pytest.raises(OperatorError, match=r'settings.toml:2:1: "metrics" is not a key of \[incoming.orders\]'):
        read_settings(operator.file, incoming=["orders"], outgoing=[])


def test_a_gateway_that_has_the_name_of_a_secret_has_a_section_all_the_same(operator: Operator):
    operator.file.write_text('[outgoing]\ntoken = {file = "secret"}\n[outgoing.password]\nattempts = 2\n')
    settings = read_settings(operator.file, incoming=[], outgoing=["password"])

    assert settings.outgoing("password").attempts == 2
    assert settings.outgoing_default.token == Secret(HIDDEN)


@pytest.mark.parametrize(
    ("text", "tls", "port"),
    [
        ('relay = "smtp://mail"', "if offered", 25),
        ('relay = "smtps://mail"', "from the start", 465),
        ('relay = "smtp://mail"\nuser = "a"\npassword = {file = "secret"}', "required", 25),
        ('relay = "smtp://127.0.0.1"\nuser = "a"\npassword = {file = "secret"}\nstarttls = "never"', "never", 25),
    ],
)
def test_mail_with_a_password_goes_over_tls(operator: Operator, text: str, tls: str, port: int):
    relay = operator.read(f"[mail]\n{text}").mail.relay

    assert relay is not None
    assert (relay.tls, relay.port) == (tls, port)


def test_the_command_line_says_which_certificates(operator: Operator):
    settings = operator.read('[outgoing.bank]\nca = "bank.pem"\n[mail]\nrelay = "smtps://mail"\n')
    settings = settings.with_ca(Path("ca.pem")).with_tls(Path("node.pem"), Path("node.key"))

    assert settings.outgoing("bank").ca == operator.folder / "bank.pem"
    assert settings.outgoing("shop").ca == Path("ca.pem")
    assert settings.mail.relay is not None
    assert settings.mail.relay.ca == Path("ca.pem")
    assert settings.tls.own == OwnCertificate(certificate=Path("node.pem"), key=Path("node.key"))


def test_client_certificates_need_a_certificate_of_the_node(operator: Operator):
    settings = operator.read('[node]\nauth = "certificate"\n[tls]\nclient_ca = "ca.pem"\n')

    with pytest.raises(OperatorError, match="client certificates need a certificate of the node too"):
        settings.server_context()
    assert Settings().server_context() is None


def test_a_warning_says_what_is_open_to_others(operator: Operator):
    settings = operator.read('[incoming.orders]\nauth = "basic"\n')
    queues = ["orders", "payments"]

    for host in ("127.0.0.1", "::1", "localhost"):
        assert exposures(settings, queues, host) == []
    assert exposures(settings, queues, "0.0.0.0") == [
        "any client that reaches 0.0.0.0 may send to payments: auth is none",
        "passwords and tokens for orders travel in the clear: there is no TLS",
    ]
    assert exposures(settings.with_tls(Path("a"), None), ["orders"], "0.0.0.0") == []


def test_a_warning_says_which_of_our_credentials_travel_in_the_clear(operator: Operator):
    settings = operator.read('[outgoing]\ntoken = {file = "secret"}\n')
    endpoints = {"bank": "http://bank.example.org/pay", "shop": "https://shop.example.org/"}

    assert exposures(settings, [], "127.0.0.1", endpoints) == [
        "the password or token of bank travels in the clear: its endpoint is http:"
    ]
    assert exposures(settings, [], "127.0.0.1", {"bank": "http://localhost:8080/", "shop": None}) == []
    assert exposures(Settings(), [], "127.0.0.1", endpoints) == []


# --- where credentials go --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "goes"),
    [
        ("https://bank.example.org/pay", True),
        ("https://BANK.example.org.:443/other?x", True),
        ("https://partner.example.org/pay", True),
        ("http://bank.example.org/pay", False),
        ("https://bank.example.org:8443/pay", False),
        ("https://evil.example.org/pay", False),
        ("https://bank.example.org@evil.example.org/", False),
        ("https://evil.example.org\\@bank.example.org/", False),
        ("https://bank.example.org.evil.example/", False),
        ("mailto:a@bank.example.org", False),
        ("https://bank.example.org:port/", False),
        ("https://[bank.example.org/", False),
        ("", False),
    ],
)
def test_credentials_go_to_the_endpoint_and_to_servers_that_are_listed_alone(url: str, goes: bool):
    gateway = OutgoingSettings(token=Secret("abc"), credentials_to=("https://partner.example.org",))

    found = gateway.authorization(url, "https://bank.example.org/v1")
    assert found == ("Bearer abc" if goes else None)


def test_a_user_is_shown_as_basic_and_an_anonymous_sender_as_nothing():
    endpoint = "https://bank.example.org/"

    assert OutgoingSettings(user="a", password=Secret("b")).authorization(endpoint, endpoint) == "Basic YTpi"
    assert OutgoingSettings().authorization(endpoint, endpoint) is None
    assert OutgoingSettings(token=Secret("abc")).authorization(endpoint, None) is None


# --- what is wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[nod]", '1:2: "nod" is not a key of the file; did you mean "node"?'),
        ("node = 1", "1:1: node is a section: [node]"),
        (
            "body_max = 1",
            '1:1: "body_max" is not a key of the file; keys: incoming, mail, node, outgoing, telemetry, tls',
        ),
        ('[node]\nbody_mx = "1MB"', '2:1: "body_mx" is not a key of [node]; did you mean "body_max"?'),
        ("[node]\nbody_max = 1", "2:12: [node] body_max must be a size larger than 0, such as 500KB, 16MB, 2GB"),
        ('[node]\nbody_max = "0MB"', "2:12: [node] body_max must be a size larger than 0, such as 500KB, 16MB, 2GB"),
        ('[node]\ndisk_free_min = "1"', "2:17: [node] disk_free_min must be a size, such as 500KB, 16MB, 2GB"),
        ('[node]\nbody_time = "10"', "2:13: [node] body_time must be a duration longer than 0s, such as 90s, 10m, 12h"),
        ('[node]\nbody_time = "0s"', "2:13: [node] body_time must be a duration longer than 0s, such as 90s, 10m, 12h"),
        ("[node]\nbody_time = 10", "2:13: [node] body_time must be a duration longer than 0s, such as 90s, 10m, 12h"),
        ('[node]\nlate = "acepted"', '2:8: [node] late must be one of "accepted", "timeout"; did you mean "accepted"?'),
        (
            '[node]\nauth = "baerer"',
            '2:8: [node] auth must be one of "none", "basic", "bearer", "certificate"; did you mean "bearer"?',
        ),
        (
            '[node]\nauth = [\n"basic",\n"x"]',
            '4:1: [node] auth must be one of "none", "basic", "bearer", "certificate"',
        ),
        ('[node]\nauth = ["none", "basic"]', '2:8: [node] auth must be "none" alone, or a list of what senders may'),
        ("[node]\nauth = []", '2:8: [node] auth must be "none" alone, or a list of what senders may authenticate with'),
        ('[node]\nauth = "certificate"', "2:1: [node] auth needs client_ca in [tls] for client certificates"),
        (
            '[incoming.orders]\nauth = "certificate"',
            "2:1: [incoming.orders] auth needs client_ca in [tls] for client certificates",
        ),
        ("[node]\nbacklog_max = true", "2:15: [node] backlog_max must be a number from 1 on"),
        ("[node]\nbacklog_max = 0", "2:15: [node] backlog_max must be a number from 1 on"),
        ('[node]\nusers = ""', "2:9: [node] users must be text on one line"),
        ('[node]\ncertificates = "shop"', '2:16: [node] certificates must be a list of texts, such as ["a", "b"]'),
        (
            '[incoming]\nbody_max = "1MB"',
            "2:1: [incoming] body_max is set for one gateway, in [incoming.QUEUE], or for all of them, in [node]",
        ),
        ("[incoming.ordres]", '1:11: [incoming.ordres] there is no incoming gateway ordres; did you mean "orders"?'),
        ("[incoming.bank]", "1:11: [incoming.bank] bank is an outgoing gateway: [outgoing.bank]"),
        ("[outgoing.orders]", "1:11: [outgoing.orders] orders is an incoming gateway: [incoming.orders]"),
        ("[outgoing.xyz]", "1:11: [outgoing.xyz] there is no outgoing gateway xyz; outgoing gateways: bank, shop"),
        ('[outgoing]\nrate = "0/s"', "2:8: [outgoing] rate must be a rate such as 50/s, 100/min"),
        ("[outgoing]\nca_only = 1", "2:11: [outgoing] ca_only must be true or false"),
        ('[outgoing]\nca_only = "true"', "2:11: [outgoing] ca_only must be true or false"),
        (
            '[outgoing]\nretry_first = "1h"',
            "2:1: [outgoing] retry_first is wrong: retry_first is longer than retry_max",
        ),
        (
            '[outgoing]\nretry_max = "0.5s"\n[outgoing.bank]\nattempts = 1',
            "2:1: [outgoing] retry_max is wrong: retry_first is longer than retry_max",
        ),
        (
            '[outgoing.bank]\nretry_first = "1h"',
            "2:1: [outgoing.bank] retry_first is wrong: retry_first is longer than retry_max",
        ),
        (
            '[outgoing]\ntimeout = "1s"\nretry_max = "30s"\n[outgoing.bank]\nretry_first = "31s"',
            "5:1: [outgoing.bank] retry_first is wrong: retry_first is longer than retry_max",
        ),
        ('[outgoing]\nuser = "a"', "2:1: [outgoing] user needs a password, too"),
        ('[outgoing]\nkey = "a"', "2:1: [outgoing] key needs a certificate, too"),
        ('[node]\nsecurity_key = "a"', "2:1: [node] security_key needs a security_certificate, too"),
        (
            '[incoming.orders]\nsecurity_certificate = "a"',
            "2:1: [incoming.orders] security_certificate needs a security_key, too",
        ),
        (
            '[node]\nsecurity_key = "a"\nsecurity_certificate = "b"\n[incoming.orders]\nsecurity_old_keys = ["c"]',
            "5:1: [incoming.orders] security_old_keys needs a security_key, too",
        ),
        ('[node]\nsecurity_trusted = "a.pem"', '2:20: [node] security_trusted must be a list of texts, such as ["a"'),
        ('[node]\nclock_skew = "25h"', "2:14: [node] clock_skew must not be longer than 1d"),
        ('[outgoing]\nmessage_lifetime = "0s"', "2:20: [outgoing] message_lifetime must be a duration longer than 0s"),
        ('[node]\nsecurity_partner = "a"', '2:1: "security_partner" is not a key of [node]; did you mean'),
        ('[outgoing]\nsecurity_users = "a"', '2:1: "security_users" is not a key of [outgoing]; did you mean'),
        ('[outgoing]\nuser = "a:b"', "2:8: [outgoing] user must not contain a colon"),
        (
            '[mail]\nrelay = "mail:25"',
            "2:9: [mail] relay must be an address such as smtp://mail.example.org:25 or smtps",
        ),
        ('[mail]\nstarttls = "never"', "2:1: [mail] starttls needs a relay, too"),
        (
            '[mail]\nrelay = "smtps://a"\nstarttls = "never"',
            "3:1: [mail] starttls is for smtp://; smtps:// has TLS from the start",
        ),
        ('[mail]\nsender = "demaq"', "2:10: [mail] sender must be an address such as demaq@example.org"),
        (
            '[telemetry]\nendpoint = "c:4318"',
            "2:12: [telemetry] endpoint must be an address such as http://127.0.0.1:4318",
        ),
        ("[telemetry]\nsample = 2", "2:10: [telemetry] sample must be a number from 0 to 1"),
        ("[telemetry]\nsample = true", "2:10: [telemetry] sample must be a number from 0 to 1"),
        ("[node", "1:6: not TOML: "),
        ('[node]\nlate = 1\nlate = "timeout"', "3:17: not TOML: Cannot overwrite a value"),
        (
            '[incoming."a\\nb"]',
            "1:11: [incoming.a b] there is no incoming gateway a b; incoming gateways: orders, payments",
        ),
        ("[outgoing]\nattempts = 0\n[node]\nbacklog_max = 0", "2:12: [outgoing] attempts must be a number from 1 on"),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(operator: Operator, text: str, said: str):
    assert operator.refusal(text).startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f'[outgoing]\ntoken = "{HIDDEN}"',
            '2:9: [outgoing] token is a secret: write {file = "PATH"} or {env = "NAME"}',
        ),
        (f'[outgoing.bank]\ntoken = "{HIDDEN}"', "2:9: [outgoing.bank] token is a secret"),
        (f'[mail]\npassword = "{HIDDEN}"', "2:12: [mail] password is a secret"),
        (f'[tls]\nkey_password = ["{HIDDEN}"]', "2:16: [tls] key_password is a secret"),
        (f'[node]\nsecurity_key_password = "{HIDDEN}"', "2:25: [node] security_key_password is a secret"),
        (f'[outgoing.bank]\nsecurity_password = "{HIDDEN}"', "2:21: [outgoing.bank] security_password is a secret"),
        (
            '[outgoing]\nsecurity_password = {file = "secret"}',
            "2:1: [outgoing] security_password needs a security_user, too",
        ),
        (
            '[outgoing]\nsecurity_key_password = {file = "secret"}',
            "2:1: [outgoing] security_key_password needs a security_key, too",
        ),
        (f'[outgoing.bank]\ntoken = {{text = "{HIDDEN}"}}', "2:9: [outgoing.bank] token is a secret"),
        (f'[outgoing]\npasword = "{HIDDEN}"', '2:1: "pasword" is not a key of [outgoing]; did you mean "password"?'),
        (
            f'[mail]\nrelay = "smtp://a:{HIDDEN}@mail"',
            "2:9: [mail] relay must not contain a user: write the keys user and",
        ),
        (
            f'[outgoing]\ncredentials_to = ["https://a:{HIDDEN}@b"]',
            "2:18: [outgoing] credentials_to must be a list of servers",
        ),
        (f'[node]\nlate = "{HIDDEN}"', '2:8: [node] late must be one of "accepted", "timeout"'),
        (f'[node]\nbody_max = "{HIDDEN}"', "2:12: [node] body_max must be a size"),
        ('[outgoing]\ntoken = {env = "NOT_SET"}', "2:16: [outgoing] token: the variable NOT_SET is not set"),
        (
            '[outgoing]\ntoken = {env = "TWO_LINES"}',
            "2:16: [outgoing] token: the variable TWO_LINES has more than one line",
        ),
        ('[outgoing]\ntoken = {file = "missing"}', "2:17: [outgoing] token: missing: No such file or directory"),
        (
            '[outgoing]\ntoken = {file = "open"}',
            "2:17: [outgoing] token: open: others may read or change it; chmod 600 open",
        ),
        ('[outgoing]\ntoken = {file = "empty"}', "2:17: [outgoing] token: empty is empty"),
        ("[outgoing]\ntoken = {file = 1}", "2:17: [outgoing] token must be text on one line"),
        ('[outgoing]\ntoken = {file = "."}', "2:17: [outgoing] token: "),
        (
            '[outgoing]\ntoken = {file = "secret"}\nuser = "a"\npassword = {file = "secret"}',
            "2:1: [outgoing] token excludes user and password",
        ),
        (
            '[mail]\nrelay = "smtp://mail"\nstarttls = "if offered"\nuser = "a"\npassword = {file = "secret"}',
            '3:1: [mail] starttls must be "required", because a password is sent to another machine',
        ),
    ],
)
def test_secrets_come_from_files_and_the_environment_and_are_never_shown(operator: Operator, text: str, said: str):
    (operator.folder / "empty").touch(mode=0o600)
    (operator.folder / "open").write_text(HIDDEN)
    (operator.folder / "open").chmod(0o644)

    assert operator.refusal(text, TWO_LINES=f"{HIDDEN}\n{HIDDEN}").startswith(said)


def test_a_file_that_cannot_be_read_is_one_line(operator: Operator):
    with pytest.raises(OperatorError, match=r"nowhere\.toml: No such file or directory$"):
        read_settings(operator.folder / "nowhere.toml", incoming=[], outgoing=[])
    operator.file.write_bytes(b"\xff\xfe")
    with pytest.raises(OperatorError, match="not UTF-8"):
        read_settings(operator.file, incoming=[], outgoing=[])


VALUES = st.recursive(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]))
    .filter(lambda text: "\x7f" not in text)
    .map(lambda text: json.dumps(text, ensure_ascii=False))
    | st.integers(-(2**63), 2**63 - 1).map(str)
    | st.sampled_from(["true", "1.5", "inf", "nan", "2026-11-16", "08:30:00", "2026-11-16T08:30:00Z"])
    | st.sampled_from(
        ['"smtp://[a"', '"smtp://a:b"', '"smtps://a/b"', '"9999999999999w"', '{file = "\\u0000"}', '{env = ""}']
    ),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(st.sampled_from(["file", "env", "orders", "bank", '"a b"']), inner, max_size=2).map(
            lambda items: "{" + ", ".join([f"{key} = {value}" for key, value in items.items()]) + "}"
        )
    ),
    max_leaves=4,
)


@given(
    section=st.sampled_from(
        ["node", "incoming.orders", "incoming", "outgoing", "outgoing.bank", "mail", "tls", "other"]
    ),
    key=st.sampled_from(sorted({*INCOMING_KEYS, *OUTGOING_KEYS, *MAIL_KEYS, *TLS_KEYS, "other"})),
    value=VALUES,
)
def test_whatever_stands_in_a_file_is_read_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, section: str, key: str, value: str
):
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_text(f"[{section}]\n{key} = {value}\n", encoding="utf-8")
    said = ""
    try:
        read_settings(file, incoming=["orders"], outgoing=["bank"], environment={})
    except OperatorError as error:
        said = str(error)

    assert "\n" not in said
    assert "not TOML" not in said


# --- the reference ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["reference/settings.md", "how-to/secure-a-node.md"])
def test_files_of_settings_in_the_documentation_can_be_read(operator: Operator, page: str):
    for name in ("bank.token", "mail.password"):
        (operator.folder / name).touch(mode=0o600)
        (operator.folder / name).write_text(HIDDEN)
    shown = [block for block in Page(PROJECT / "docs" / page).blocks() if block.text.startswith("[")]

    assert shown
    for block in shown:
        operator.file.write_text(block.text)
        outgoing = ["bank", "warehouse", "customs"]
        environment = {"WAREHOUSE_PASSWORD": HIDDEN, "BANK_PASSWORD": HIDDEN}
        read_settings(operator.file, incoming=["orders", "payments"], outgoing=outgoing, environment=environment)


KEYS = {"node": NODE_KEYS, "outgoing": OUTGOING_KEYS, "mail": MAIL_KEYS, "tls": TLS_KEYS, "telemetry": TELEMETRY_KEYS}
UNSAID = {"none", '"users"', '"tokens"'}
"""Defaults that cannot be written: nothing, and what depends on where the file is."""


def documented(section: str) -> dict[str, str]:
    """The keys of a section with their defaults, as the reference has them."""
    text = Page(PROJECT / "docs" / "reference" / "settings.md").text
    part = text.partition(f"\n### [{section}]\n")[2].partition("\n#")[0]
    return {key: default.strip("`") for key, default in re.findall(r"^\| `(\w+)` \| (.+?) \|", part, re.MULTILINE)}


def test_every_setting_is_in_the_reference():
    assert KEYS.keys() <= set(SECTIONS)
    for section, known in KEYS.items():
        assert list(documented(section)) == list(known), section


def test_every_default_in_the_reference_is_the_real_one(operator: Operator):
    for section in KEYS:
        written = {key: default for key, default in documented(section).items() if default not in UNSAID}
        lines = [f"{key} = {default}" for key, default in written.items()]
        if section == "mail":
            lines.append('relay = "smtp://mail"')
        said = operator.read("\n".join([f"[{section}]", *lines]))
        unsaid = operator.read('[mail]\nrelay = "smtp://mail"' if section == "mail" else "")
        assert said == unsaid, section


def test_the_limits_of_who_may_send_in_the_reference_are_the_real_ones():
    text = Page(PROJECT / "docs" / "reference" / "settings.md").text
    limits = {
        "failures that cost nothing": f"{throttle.FREE_FAILURES} | each further one from an address doubles the time to wait, from {throttle.BACKOFF.seconds_first:g} s",
        "the longest time that guessed passwords of an address are not looked at": f"{throttle.BACKOFF.seconds_max:g} s",
        "the longest time that the answer to a failure is held back": f"{authentication.ANSWER_DELAY_SECONDS_MAX:g} s",
        "after how long failures are forgotten": f"{throttle.FORGET_SECONDS / 60:g} minutes",
        "addresses and names of users that are remembered for it": f"{throttle.REMEMBERED_MAX:,} each",
        "passwords that are checked at once": f"{authentication.HASHES_AT_ONCE} | {authentication.HASHES_WAITING_MAX} wait, {authentication.HASHES_PER_ADDRESS_MAX} of them",
        "how long a password that was right is remembered after it was used": f"{authentication.REMEMBERED_SECONDS / 60:g} minutes",
        "how soon a changed file of tokens or users holds": f"{LOOK_EVERY_SECONDS:g} s",
        "how soon changed files of keys, certificates and users of WS-Security hold": f"{LOOK_EVERY_SECONDS:g} s",
    }

    for what, limit in limits.items():
        assert f"\n| {what} | {limit}" in text


def test_telemetry_is_read(operator: Operator):
    found = operator.read('[telemetry]\nendpoint = "http://127.0.0.1:4318"\nsample = 0.01')
    assert (found.telemetry.endpoint, found.telemetry.sample) == ("http://127.0.0.1:4318", 0.01)
