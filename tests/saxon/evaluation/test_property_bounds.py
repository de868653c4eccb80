"""Properties are as long as they may be: a sender's million digits do not cost a minute."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from demaq.errors import MessageError
from demaq.messages import KEY_BYTES_MAX, PROPERTY_CHARACTERS_MAX
from demaq.testing.lab import Lab

APPLICATION = """
create queue q
create queue numbers
create queue made
create property key as xs:string queue q value string(/*/@key)
create property text as xs:string queue q value upper-case(/*/@text)
create property n as xs:integer queue numbers value /*/@n
create property when as xs:dateTime queue numbers value /*/@when
create property d as xs:decimal queue numbers value /*/d
create property m as xs:integer queue made value /*/@n
create slicing byKey on key
create rule pass for q if (/*/@n) then do enqueue <m n="{/*/@n}"/> into made
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    (tmp_path / "a.dmq").write_text(APPLICATION)
    return Lab(tmp_path / "a.dmq")


@pytest.mark.parametrize(
    ("queue", "body"),
    [
        ("numbers", f"<x n='{'9' * 1_000_000}'/>"),
        ("numbers", f"<x n='{'0' * 1001}'/>"),
        ("numbers", f"<x when='2026-01-01T00:00:00.{'1' * 1_000_000}Z'/>"),
        ("numbers", f"<x><d>0.{'1' * 1_000_000}</d></x>"),
        ("q", f"<x key='{'k' * (KEY_BYTES_MAX + 1)}'/>"),
        ("q", f"<x key='{'ü' * (KEY_BYTES_MAX // 2 + 1)}'/>"),
        ("q", f"<x text='{'t' * (PROPERTY_CHARACTERS_MAX + 1)}'/>"),
    ],
    ids=["digits", "zeros", "seconds", "decimals", "key", "key of two bytes each", "text"],
)
def test_what_is_too_long_for_a_property_is_refused_soon(lab: Lab, queue: str, body: str):
    began = time.process_time()
    with pytest.raises(MessageError, match="has more than") as refused:
        lab.enqueue(queue, body)

    assert refused.value.kind == "propertyError"
    assert time.process_time() - began < 5


def test_as_long_as_a_property_may_be_is_taken(lab: Lab):
    lab.enqueue("numbers", f"<x n='{'9' * 1000}'/>")
    lab.enqueue("q", f"<x key='{'k' * KEY_BYTES_MAX}' text='{'t' * PROPERTY_CHARACTERS_MAX}'/>")


def test_what_a_rule_makes_is_held_to_the_same(lab: Lab):
    lab.enqueue("q", f"<x n='{'9' * 100_000}'/>")
    lab.run_until_idle()

    assert lab.read_queue("made") == []
    assert any(["has more than 1,000 characters" in message.body for message in lab.read_queue("demaq:errors")])
