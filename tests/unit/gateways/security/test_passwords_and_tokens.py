"""Hashes of passwords and tokens."""

from __future__ import annotations

import pytest

from demaq.gateways.security import passwords
from demaq.gateways.security.passwords import is_password_hash, password_hash, password_matches
from demaq.gateways.security.tokens import TOKEN_BYTES, TOKEN_PREFIX, is_token_hash, new_token, token_hash


def test_only_the_password_matches_its_hash():
    hashed = password_hash("correct horse")

    assert is_password_hash(hashed)
    assert password_matches("correct horse", hashed)
    assert not password_matches("correct horsf", hashed)
    assert "correct" not in hashed


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes that are quick to try: a hundredth of the cost."""
    monkeypatch.setattr(passwords, "COST", 2**8)


@pytest.mark.usefixtures("cheap")
def test_a_letter_may_be_typed_in_two_ways():
    assert password_matches("caf\u0065\u0301 au lait", password_hash("caf\u00e9 au lait"))


@pytest.mark.usefixtures("cheap")
def test_equal_passwords_have_different_hashes():
    assert password_hash("correct horse") != password_hash("correct horse")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "scrypt",
        "sha256:" + "0" * 64,
        "scrypt:32768:8:1:AAAA:===" + "A" * 24,  # not base64
        "scrypt:32767:8:1:AAAAAAAA:" + "A" * 44,  # not a power of two
        "scrypt:4194304:8:1:AAAAAAAA:" + "A" * 44,  # would take gigabytes
        "scrypt:16384:99:1:AAAAAAAA:" + "A" * 44,
    ],
)
def test_what_is_no_hash_of_a_password_matches_nothing(text: str):
    assert not is_password_hash(text)
    assert not password_matches("", text)


def test_tokens_are_long_and_never_the_same():
    token = new_token()

    assert token.startswith(TOKEN_PREFIX)
    assert len(token) >= TOKEN_BYTES * 8 // 6
    assert token != new_token()
    assert is_token_hash(token_hash(token))
    assert not is_token_hash(token)
