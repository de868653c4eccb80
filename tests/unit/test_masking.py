"""Addresses are shown without names, passwords and values of the query, wherever they are shown."""

from __future__ import annotations

import random
import string

import pytest

from demaq.language.endpoints import parse_destination
from demaq.masking import MASK, mask_address, mask_addresses
from tests.support.drawing import example_count

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("address", "masked"),
    [
        ("https://api.example/v1?key=hunter2", "https://api.example/v1?key=…"),
        ("https://api.example/v1?a=1&key=hunter2&b", "https://api.example/v1?a=…&key=…&…"),
        ("https://api.example?hunter2", "https://api.example?…"),
        ("https://api.example/?a=b=hunter2", "https://api.example/?a=…"),
        ("https://api.example/?a=1;key=hunter2", "https://api.example/?a=…"),
        ("https://api.example/#hunter2", "https://api.example/#…"),
        ("https://joe:hunter2@api.example:81/x", "https://…@api.example:81/x"),
        ("https://hunter2@api.example", "https://…@api.example"),
        ("https://joe:hunter2@b@api.example/", "https://…@api.example/"),
        ("HTTPS://joe:hunter2@[::1]:81/", "HTTPS://…@[::1]:81/"),
        ("http:joe:hunter2@api.example", "http:…@api.example"),
        ("http:/joe:hunter2@api.example", "http:/…@api.example"),
        ("joe:hunter2@api.example", "joe:…@api.example"),
        ("https://joe:hunt/er2@api.example/x", "https://…@api.example/x"),
        ("https://api.example/users/@me", "https://api.example/users/@me"),
        ("https://api.example:443/a", "https://api.example:443/a"),
        ("postgresql://joe:hunter2@db/shop?password=hunter2", "postgresql://…@db/shop?password=…"),
        ("mailto:joe@example.org?subject=Hello", "mailto:joe@example.org?subject=Hello"),
        ("https://api.example:hunter2/", "https://api.example:…/"),
        ("", ""),
        ("?", "?"),
    ],
)
def test_an_address_is_masked(address: str, masked: str):
    assert mask_address(address) == masked
    assert mask_address(masked) == masked, "masking twice masks nothing more"


def test_addresses_within_a_text_are_masked():
    text = "no answer from https://a.example/x?key=hunter2 (see 'http://joe:hunter2@b.example/') and mailto:a@b?x=y"
    assert mask_addresses(text) == (
        "no answer from https://a.example/x?key=… (see 'http://…@b.example/') and mailto:a@b?x=y"
    )
    assert mask_addresses("neither http://a:81, http://b:82. Nor ('http://c:83')!") == (
        "neither http://a:81, http://b:82. Nor ('http://c:83')!"
    )
    assert mask_addresses("nothing to mask?key=1") == "nothing to mask?key=1"


def test_no_secret_survives_wherever_it_stands(chance: random.Random):
    letters = string.ascii_letters + string.digits + "-._~!$'()*+,:;%"
    seen: set[str] = set()
    for _ in range(example_count(2_000, "MASKED_ADDRESSES")):
        secret = "S3cRet" + "".join([chance.choice(letters) for _ in range(chance.randrange(8))])
        place = chance.choice(["user", "password", "value", "name less", "fragment"])
        seen.add(place)
        user = {"user": f"{secret}@", "password": f"joe:{secret}@"}.get(place, chance.choice(["", "joe@"]))
        query = {"value": f"?a=b&key={secret}&c=d", "name less": f"?{secret}"}.get(place, chance.choice(["", "?a=b"]))
        fragment = f"#{secret}" if place == "fragment" else ""
        address = f"{chance.choice(['http', 'https', 'HTTP'])}://{user}host.example{query}{fragment}"
        for shown in (mask_address(address), mask_addresses(f"cannot reach {address} now")):
            assert "S3cRet" not in shown, (address, shown)
            assert "host.example" in shown, (address, shown)
    assert len(seen) == 5


@pytest.mark.parametrize(
    "address",
    [
        f"https://joe:{SECRET}@host/",
        f"https://host:{SECRET}/",
        f"https://joe:{SECRET}/x@host/",
        f"https:///?key={SECRET}",
        f"https://[host/?key={SECRET}",
        f"https://ho st/?key={SECRET}",
        f"host/path?key={SECRET}",
        f"ftp://joe:{SECRET}@host/",
        f"mailto:nobody?{SECRET}"[:14],
    ],
)
def test_an_address_that_is_refused_is_refused_without_its_secrets(address: str):
    with pytest.raises(ValueError, match=r".") as refused:
        parse_destination(address)
    assert SECRET not in str(refused.value)
    assert MASK in str(refused.value) or SECRET not in address or "?" not in address
