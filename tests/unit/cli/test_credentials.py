"""`demaq tokens` and `demaq users`."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from demaq.cli import main as cli
from demaq.gateways.security import passwords
from demaq.gateways.security.credential_file import TOKENS, USERS, read_entries
from demaq.gateways.security.passwords import password_matches
from demaq.gateways.security.tokens import token_hash

PASSWORD = "correct horse"


class Asked:
    """Runs commands in a folder of their own; keeps what the last one said."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self.out = self.err = ""

    def __call__(self, *words: str, typed: bytes = b"") -> int:
        stdin = SimpleNamespace(buffer=io.BytesIO(typed), isatty=lambda: False)
        self._monkeypatch.setattr(sys, "stdin", stdin)
        code = cli.run(cli.demaq, list(words))
        self.out, self.err = self._capsys.readouterr()
        return code


@pytest.fixture
def demaq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Asked:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(passwords, "COST", 2**8)  # a hash is slow to compute on purpose
    return Asked(capsys, monkeypatch)


def test_a_token_is_printed_once_and_kept_as_a_hash(demaq: Asked):
    assert demaq("tokens", "add", "shop", "--queue", "orders", "--expires", "90d") == 0
    token = demaq.out.strip()
    assert demaq.err == "token shop is in tokens; it is not shown again\n"

    (entry,) = read_entries(Path("tokens"), TOKENS)
    assert (entry.name, entry.hash, entry.queues) == ("shop", token_hash(token), frozenset({"orders"}))
    assert entry.expires is not None
    assert token not in Path("tokens").read_text()
    assert demaq("tokens", "list") == 0
    assert demaq.out.startswith("shop: orders; expires 20")
    assert token_hash(token) not in demaq.out


def test_listings_are_for_programs_too(demaq: Asked):
    demaq("tokens", "add", "shop", "--queue", "payments", "--queue", "orders", "--expires", "0s")
    demaq("tokens", "add", "bank")
    assert demaq("tokens", "list", "--json") == 0
    shop, bank = json.loads(demaq.out)

    assert (shop["name"], shop["queues"], shop["expired"]) == ("shop", ["orders", "payments"], True)
    assert bank == {"name": "bank", "expires": None, "expired": False, "queues": None, "role": None}
    demaq("tokens", "list")
    assert demaq.out.splitlines()[0].startswith("shop: orders, payments; expired 20")
    assert demaq.out.splitlines()[1] == "bank: all gateways"


def test_a_token_is_replaced_when_that_is_said(demaq: Asked):
    demaq("tokens", "add", "shop")
    first = demaq.out
    assert demaq("tokens", "add", "shop") == 1
    assert demaq.err == "demaq: tokens: there is a token shop already; --replace puts a new one there\n"
    assert demaq.out == ""
    assert demaq("tokens", "add", "shop", "--replace") == 0
    assert demaq.out != first


def test_what_is_removed_is_gone(demaq: Asked):
    demaq("tokens", "add", "shop")
    assert demaq("tokens", "remove", "shpo") == 1
    assert demaq.err == "demaq: tokens: there is no token shpo; did you mean shop?\n"
    assert demaq("tokens", "remove", "shop") == 0
    assert demaq.out == "token shop is removed from tokens\n"
    assert demaq("tokens", "list") == 0
    assert (demaq.out, demaq.err) == ("", "no tokens in tokens\n")


@pytest.mark.parametrize("way", [["--password-file", "password"], ["--password-file", "-"], []])
def test_a_password_comes_from_a_file_or_from_standard_input(demaq: Asked, way: list[str]):
    Path("password").write_text(f"{PASSWORD}\n")
    assert demaq("users", "add", "joe", "--file", "who", *way, typed=f"{PASSWORD}\n".encode()) == 0
    assert (demaq.out, demaq.err) == ("user joe is in who\n", "")

    (entry,) = read_entries(Path("who"), USERS)
    assert password_matches(PASSWORD, entry.hash)
    assert demaq("users", "list", "--file", "who") == 0
    assert demaq.out == "joe: all gateways\n"
    assert demaq("users", "remove", "joe", "--file", "who") == 0
    assert demaq.out == "user joe is removed from who\n"


def test_a_password_is_asked_for_at_a_terminal(demaq: Asked, monkeypatch: pytest.MonkeyPatch):
    asked: list[dict[str, object]] = []

    def prompt(text: str, **options: object) -> str:
        asked.append(options)
        return PASSWORD

    monkeypatch.setattr(click, "prompt", prompt)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    assert cli.run(cli.demaq, ["users", "add", "joe"]) == 0

    assert asked == [{"hide_input": True, "confirmation_prompt": True, "err": True}]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (b"short", "a password has 8 to 256 characters"),
        (b"a" * 257, "a password has 8 to 256 characters"),
        (b"\xff" * 10, "the password is not UTF-8"),
        (b"two lines\nof them", "a password is one line of characters that can be typed"),
    ],
)
def test_what_is_no_password_is_refused_and_not_shown(demaq: Asked, typed: bytes, said: str):
    assert demaq("users", "add", "joe", typed=typed) == 1
    assert demaq.err == f"demaq: {said}\n"
    assert not Path("users").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tokens", "list"], "tokens: there is no such file; demaq tokens add NAME --file tokens makes it"),
        (["tokens", "add", "a b"], "a name has up to 64 letters, digits and characters of ._@+-"),
        (["users", "add", "a:b"], "a name has up to 64 letters, digits and characters of ._@+-"),
        (["tokens", "add", "a", "--queue", "b,c"], "'b,c' is not the name of a queue"),
        (["tokens", "add", "a", "--expires", "500000w"], "that date is too late"),
        (["tokens", "add", "a", "--file", "no/folder"], "no/folder: No such file or directory"),
        (["users", "add", "a", "--password-file", "missing"], "missing: No such file or directory"),
    ],
)
def test_a_mistake_is_one_line(demaq: Asked, words: list[str], said: str):
    assert demaq(*words) == 1
    assert demaq.err.startswith(f"demaq: {said}")
    assert demaq.err.count("\n") == 1
