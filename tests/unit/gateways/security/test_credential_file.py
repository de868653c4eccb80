"""Files of tokens and users: written whole, read again when they change, and readable by their owner only."""

from __future__ import annotations

import logging
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demaq.errors import OperatorError
from demaq.gateways.security.credential_file import (
    TOKENS,
    USERS,
    CredentialFile,
    Entry,
    add_entry,
    read_entries,
    remove_entry,
)
from demaq.gateways.security.file_watch import LOOK_EVERY_SECONDS
from demaq.gateways.security.tokens import token_hash
from tests.support.gateways.security.clock import HandClock

SHOP = Entry(name="shop", hash=token_hash("a"))
BANK = Entry(
    name="bank",
    hash=token_hash("b"),
    expires=datetime(2027, 11, 16, 8, 30, tzinfo=UTC),
    queues=frozenset({"payments", "refunds"}),
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def test_what_is_added_is_read_again(file: Path):
    add_entry(file, TOKENS, SHOP)
    add_entry(file, TOKENS, BANK)

    assert read_entries(file, TOKENS) == [SHOP, BANK]
    assert file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(file.parent) == ["tokens"]


def test_comments_and_the_lines_of_others_stay(file: Path):
    file.write_text(f"# who may send\n\n{SHOP.line()}\n{BANK.line()}\n")
    file.chmod(0o640)

    remove_entry(file, TOKENS, "shop")

    assert file.read_text() == f"# who may send\n\n{BANK.line()}\n"
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_name_is_there_once_unless_it_is_replaced(file: Path):
    add_entry(file, TOKENS, SHOP)
    other = Entry(name="shop", hash=token_hash("c"))

    with pytest.raises(OperatorError, match=r"there is a token shop already; --replace puts a new one there"):
        add_entry(file, TOKENS, other)
    add_entry(file, TOKENS, other, replace=True)

    assert read_entries(file, TOKENS) == [other]


def test_no_entry_is_lost_when_many_are_added_at_once(file: Path):
    entries = [Entry(name=f"shop{number}", hash=token_hash(str(number))) for number in range(20)]
    threads = [threading.Thread(target=add_entry, args=(file, TOKENS, entry)) for entry in entries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {entry.name for entry in read_entries(file, TOKENS)} == {entry.name for entry in entries}


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o644, 0o666])
def test_a_file_that_others_may_read_or_change_is_refused_with_the_way_forward(file: Path, mode: int):
    add_entry(file, TOKENS, SHOP)
    file.chmod(mode)

    with pytest.raises(OperatorError, match=f"others may read or change it; chmod 600 {file}"):
        read_entries(file, TOKENS)


def test_a_file_that_is_missing_is_one_line_with_the_way_forward(file: Path):
    with pytest.raises(OperatorError, match="there is no such file; demaq users add NAME --file"):
        read_entries(file, USERS)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("sh:op HIDDEN", "line 2: it does not begin with the name of a token"),
        ("shop HIDDEN", "line 2: the second word is not a hash"),
        ("shop", "line 2: the second word is not a hash"),
        (f"shop {token_hash('a')} until HIDDEN", "line 2: after the hash only"),
        (f"shop {token_hash('a')} expires", "line 2: after the hash only"),
        (f"shop {token_hash('a')} expires HIDDEN", "line 2: after `expires` there must be a time"),
        (f"bank {token_hash('a')}", "line 2: bank is there twice"),
    ],
)
def test_a_wrong_line_is_named_and_not_shown(file: Path, line: str, problem: str):
    file.write_text(f"{BANK.line()}\n{line}\n")
    file.chmod(0o600)

    with pytest.raises(OperatorError) as error:
        read_entries(file, TOKENS)

    assert problem in str(error.value)
    assert "HIDDEN" not in str(error.value)


# --- while a node runs -----------------------------------------------------------------------------------------------


def test_a_changed_file_holds_within_a_second(file: Path):
    clock = HandClock()
    add_entry(file, TOKENS, SHOP)
    now = CredentialFile(file, TOKENS, clock)

    add_entry(file, TOKENS, BANK)
    remove_entry(file, TOKENS, "shop")
    assert now.by_name("shop") == SHOP
    clock.go_on(LOOK_EVERY_SECONDS)

    assert now.by_name("shop") is None
    assert now.by_hash(BANK.hash) == BANK


def test_a_file_that_cannot_be_read_any_more_lets_no_client_in(file: Path, caplog: pytest.LogCaptureFixture):
    clock = HandClock()
    add_entry(file, TOKENS, SHOP)
    now = CredentialFile(file, TOKENS, clock)

    file.chmod(0o644)
    clock.go_on(LOOK_EVERY_SECONDS)
    with caplog.at_level(logging.WARNING):
        assert now.by_name("shop") is None
        clock.go_on(LOOK_EVERY_SECONDS)
        assert now.by_name("shop") is None
    assert len(caplog.records) == 1
    file.chmod(0o600)
    clock.go_on(LOOK_EVERY_SECONDS)
    assert now.by_name("shop") == SHOP


def test_a_line_that_becomes_wrong_lets_no_client_in_and_the_others_hold(file: Path, caplog: pytest.LogCaptureFixture):
    clock = HandClock()
    add_entry(file, TOKENS, SHOP)
    now = CredentialFile(file, TOKENS, clock)

    file.write_text(f"{BANK.line()}\nshop HIDDEN\n")
    clock.go_on(LOOK_EVERY_SECONDS)
    with caplog.at_level(logging.WARNING):
        assert (now.by_name("shop"), now.by_name("bank")) == (None, BANK)
    assert "line 2" in caplog.text
    assert "HIDDEN" not in caplog.text
