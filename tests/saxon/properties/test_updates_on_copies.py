"""Update expressions on copies do what the recommendation says, to trees and with updates that are random."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from hypothesis import given
from lxml import etree

from tests.support.programs import Bench, bodies, program
from tests.support.properties.update_cases import cases
from tests.support.properties.update_program import ONE_COPY, TWO_COPIES, answered, expected


@cache
def bench(text: str) -> Bench:
    with tempfile.TemporaryDirectory() as folder:
        return Bench(program(Path(folder), text))


def check(text: str, asked: list[str]) -> None:
    outcome = bench(text).run("cases", f"<cases>{''.join(asked)}</cases>")
    assert outcome.errors == []
    (body,) = bodies(outcome)
    for case, answer in zip(asked, etree.fromstring(body.encode()), strict=True):
        kind, due = expected(case)
        found, given_ = answered(answer)
        assert found == kind, (case, etree.tostring(answer), due)
        assert given_ in due if kind == "error" else given_ == due, (case, etree.tostring(answer), given_, due)


@given(cases())
def test_a_copy_is_changed_as_the_recommendation_says(asked: list[str]) -> None:
    check(ONE_COPY, asked)


@given(cases(two=True))
def test_two_copies_are_changed_together(asked: list[str]) -> None:
    check(TWO_COPIES, asked)
