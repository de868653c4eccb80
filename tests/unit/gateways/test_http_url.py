"""Addresses of outgoing gateways, in the parts and in the form in which they are sent."""

from __future__ import annotations

import random

import pytest

from demaq.gateways.outbox.http_url import ADDRESS_CHARACTERS_MAX, InvalidUrl, parse_url
from tests.support.drawing import example_count


@pytest.mark.parametrize(
    ("address", "host", "port", "authority", "target"),
    [
        ("http://a.example", "a.example", 80, "a.example", "/"),
        ("HTTP://A.Example:80/", "a.example", 80, "a.example", "/"),
        ("https://a.example:443/x", "a.example", 443, "a.example", "/x"),
        ("https://a.example:80/x", "a.example", 80, "a.example:80", "/x"),
        ("http://a.example:/x", "a.example", 80, "a.example", "/x"),
        ("http://a.example:0", "a.example", 0, "a.example:0", "/"),
        ("http://a.example:65535?q", "a.example", 65535, "a.example:65535", "/?q"),
        ("http://a.example.:8080/", "a.example.", 8080, "a.example.:8080", "/"),
        ("http://127.0.0.1/", "127.0.0.1", 80, "127.0.0.1", "/"),
        ("http://2130706433/", "2130706433", 80, "2130706433", "/"),
        ("http://[::1]:81/", "::1", 81, "[::1]:81", "/"),
        ("http://[::ffff:127.0.0.1]", "::ffff:127.0.0.1", 80, "[::ffff:127.0.0.1]", "/"),
        ("http://bücher.example/", "xn--bcher-kva.example", 80, "xn--bcher-kva.example", "/"),
        ("http://STRASSE.straße.de/", "strasse.xn--strae-oqa.de", 80, "strasse.xn--strae-oqa.de", "/"),
        ("http://a.example/ü/日?ü=é", "a.example", 80, "a.example", "/%C3%BC/%E6%97%A5?%C3%BC=%C3%A9"),
        ("http://a.example/%41%zz%/?%41%", "a.example", 80, "a.example", "/%41%zz%/?%41%"),
        ("http://a.example/a b\"<>`{}?a b\"<>`{}", "a.example", 80, "a.example", "/a%20b%22%3C%3E%60%7B%7D?a%20b%22%3C%3E`{}"),
        ("http://a.example/!$&'()*+,;=:@~[]|^\\", "a.example", 80, "a.example", "/!$&'()*+,;=:@~[]|^\\"),
        ("http://a.example/a/./b/../c", "a.example", 80, "a.example", "/a/c"),
        ("http://a.example/../../c/..", "a.example", 80, "a.example", "/"),
        ("http://a.example//x/...", "a.example", 80, "a.example", "//x/..."),
        ("http://a.example/?a/../b", "a.example", 80, "a.example", "/?a/../b"),
        ("http://a.example/x?#y", "a.example", 80, "a.example", "/x?"),
        ("http://a.example/x#?y", "a.example", 80, "a.example", "/x"),
    ],
)  # fmt: skip
def test_an_address_is_sent_in_the_form_that_others_send_it_in(
    address: str, host: str, port: int, authority: str, target: str
):
    url = parse_url(address)

    assert (url.host, url.port, url.authority, url.target) == (host, port, authority, target)
    assert url.server == (address.partition(":")[0].lower(), host, port)


@pytest.mark.parametrize(
    "address",
    [
        *["", "a.example", "//a.example/", "ftp://a.example/", "http:a.example", "http:///x", "http://", "http://:80/"],
        *["http://a.example:x/", "http://a.example:65536/", "http://a.example:-1/", "http://a.example:8_0/"],
        *["http://1.2.3.999/", "http://01.2.3.4/", "http://[::g]/", "http://[::1/", "http://::1/", "http://[::1]x/"],
        *["http://joe:hunter2@a.example/", "http://joe@a.example/", "http://☃.example/", "http://ü..example/"],
        *["http://a.example/\r\nX: y", "http://a.example/\n", "http://a.example/\0", "http://a\tb/", "http://a\x7fb/"],
        *[
            'http://a"b/',
            "http://a b/",
            "http://a<b/",
            "http://a\\b/",
            f"http://a.example/{'x' * ADDRESS_CHARACTERS_MAX}",
        ],
    ],
)
def test_what_is_no_address_is_refused_without_quoting_it(address: str):
    with pytest.raises(InvalidUrl) as raised:
        parse_url(address)
    assert "hunter2" not in str(raised.value)
    assert len(str(raised.value)) < 100


def test_half_a_character_is_refused():
    with pytest.raises(UnicodeError):
        parse_url("http://a.example/\ud800")


def test_whatever_an_address_is_it_makes_one_line_of_ascii(chance: random.Random):
    """Neither the target nor the host can end the line that they are in, or have a blank."""
    characters = [
        "a",
        "/",
        ".",
        "..",
        "%",
        "?",
        "#",
        ":",
        "@",
        "ü",
        "\r",
        "\n",
        " ",
        "\t",
        "\0",
        "[",
        "]",
        "\u2028",
        "80",
    ]
    parsed = 0
    addresses = example_count(3_000, "ADDRESSES")
    for _ in range(addresses):
        address = "http://" + "".join(chance.choices(["h", *characters], [20] + [1] * len(characters), k=3))
        address += "/" + "".join(chance.choices(characters, k=chance.randrange(6)))
        try:
            url = parse_url(address)
        except (InvalidUrl, UnicodeError):
            continue
        parsed += 1
        for text in (url.host, url.authority, url.target):
            assert text.isascii()
            assert text.isprintable()
            assert " " not in text
        assert url.target.startswith("/")
        assert url.authority
    assert parsed > 0.1 * addresses
