"""Whom messages may name as recipients: lists, and what an address really is."""

from __future__ import annotations

import ipaddress
import random

import pytest

from demaq.gateways.security.recipients import NO_RECIPIENTS, Recipients, WrongEntry, is_public, plain_address

SPECIAL = [
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.1",
    "192.0.2.1",
    "192.168.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:0a00:0001::1",
    "fc00::1",
    "fd12::1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "2002:0808:0808::1", "64:ff9b::8.8.8.8"]


@pytest.mark.parametrize("address", SPECIAL)
def test_an_address_that_is_special_is_not_reached_by_any_name(address: str):
    assert not is_public(plain_address(address))
    all_recipients = Recipients.of(["*:*", "bank.example.org", "*.example.org"])
    assert not all_recipients.may_connect("http", "bank.example.org", 80, address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_reached_by_a_name_that_is_listed(address: str):
    assert Recipients.of(["bank.example.org"]).may_connect("https", "bank.example.org", 443, address)
    assert not Recipients.of(["bank.example.org"]).may_connect("https", "shop.example.org", 443, address)
    assert not NO_RECIPIENTS.may_connect("https", "bank.example.org", 443, address)


def test_no_private_address_of_ipv4_is_public_however_it_is_embedded():
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    networks = [ipaddress.ip_network(n) for n in ("10.0.0.0/8", "127.0.0.0/8", "192.168.0.0/16", "169.254.0.0/16")]
    for _ in range(500):
        network = chance.choice(networks)
        number = int(network.network_address) + chance.randrange(network.num_addresses)
        inside = ipaddress.IPv4Address(number)
        for prefix in ("::ffff:", "64:ff9b::", "::"):
            assert not is_public(plain_address(f"{prefix}{inside}")), (seed, prefix, inside)
        assert not is_public(ipaddress.IPv6Address((0x2002 << 112) | (number << 80) | 1)), (seed, inside)


@pytest.mark.parametrize(
    ("entry", "scheme", "host", "port", "address", "allowed"),
    [
        ("https://bank.example.org", "https", "bank.example.org", 443, "8.8.8.8", True),
        ("https://bank.example.org", "http", "bank.example.org", 80, "8.8.8.8", False),
        ("https://bank.example.org", "https", "bank.example.org", 444, "8.8.8.8", False),
        ("https://bank.example.org:444/", "https", "BANK.example.org.", 444, "8.8.8.8", True),
        ("bank.example.org", "http", "bank.example.org", 80, "8.8.8.8", True),
        ("bank.example.org", "http", "bank.example.org", 25, "8.8.8.8", False),
        ("bank.example.org:*", "http", "bank.example.org", 25, "8.8.8.8", True),
        ("bank.example.org", "http", "evil-bank.example.org", 80, "8.8.8.8", False),
        ("*.example.org", "http", "a.b.example.org", 80, "8.8.8.8", True),
        ("*.example.org", "http", "example.org", 80, "8.8.8.8", False),
        ("*.example.org", "http", "evilexample.org", 80, "8.8.8.8", False),
        ("bücher.example", "http", "xn--bcher-kva.example", 80, "8.8.8.8", True),
        ("*", "http", "8.8.8.8", 80, "8.8.8.8", True),
        ("*", "http", "any.example", 8080, "8.8.8.8", False),
        ("10.0.0.0/8:*", "http", "erp.intranet", 8080, "10.1.2.3", True),
        ("10.0.0.0/8:*", "http", "erp.intranet", 8080, "11.1.2.3", False),
        ("10.0.0.0/8", "http", "10.1.2.3", 8080, "10.1.2.3", False),
        ("127.0.0.1:8080", "http", "2130706433", 8080, "127.0.0.1", True),
        ("127.0.0.1:8080", "http", "::ffff:127.0.0.1", 8080, "::ffff:127.0.0.1", True),
        ("127.0.0.1", "http", "localhost", 80, "::1", False),
        ("localhost:*", "http", "localhost", 8080, "::1", True),
        ("localhost:*", "http", "rebound.example", 8080, "10.0.0.1", False),
        ("[::1]:8080", "http", "::1", 8080, "::1", True),
        ("[fd00::/8]", "https", "a.intranet", 443, "fd12::1", True),
        ("0.0.0.0/0:*", "http", "0", 8080, "0.0.0.0", True),
    ],
)
def test_an_entry_allows_what_it_says(entry: str, scheme: str, host: str, port: int, address: str, allowed: bool):
    recipients = Recipients.of([entry])
    assert recipients.may_connect(scheme, host, port, address) is allowed
    assert recipients.may_name(scheme, host, port) or not allowed


@pytest.mark.parametrize(
    "entry",
    [
        *["", "a b", "ftp://a", "http://u:p@a", "a/b", "a:0", "a:99999", "a:b", "10.0.0/8", "1.2.3.4.5", "*a.b", "a.*"],
        *["[x]", "http://a/b", "[::1", "mailto:", "mailto:a", "mailto:*@", "mailto:a*@b", "mailto:*@*"],
    ],
)
def test_what_is_no_entry_is_refused(entry: str):
    with pytest.raises(WrongEntry):
        Recipients.of([entry])


def test_mails_are_allowed_by_address_and_domain():
    some = Recipients.of(["mailto:Joe@Example.org", "MAILTO:*@shop.example", "bank.example"])

    assert some.may_mail("joe@example.org")
    assert some.may_mail("anybody@Shop.example")
    assert not some.may_mail("jane@example.org")
    assert not some.may_mail("a@sub.shop.example")
    assert not some.may_mail("a@bank.example")
    assert Recipients.of(["mailto:*"]).may_mail("a@b.example")
    assert not NO_RECIPIENTS.may_mail("a@b.example")
