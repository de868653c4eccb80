"""Systems that are compared take turns, and must come to the same results."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from demaq_bench.comparison import Comparison, Runs
from demaq_bench.figures import Figure, WrongResult
from demaq_bench.workloads import W1, W2, is_refused


class Answering:
    """A system that answers at once."""

    def __init__(self, log: list[str], name: str, steps: int = 1, body: str = "<offer a='1' b='2'/>") -> None:
        self._answers: list[str] = []
        self._log = log
        self._name = name
        self._steps = steps
        self._body = body

    def process_all(self, queue: str, bodies: Sequence[bytes], per_commit: int) -> int:
        self._log.append(self._name)
        self._answers += [self._body] * len(bodies)
        return len(bodies) * self._steps

    def new_answers(self) -> list[str]:
        found, self._answers = self._answers, []
        return found


def test_they_take_turns_and_every_other_turn_goes_backwards():
    log: list[str] = []
    comparison = Comparison(W1, {name: Answering(log, name) for name in ("a", "b")})

    comparison.measure({100: 6}, runs=3)

    assert log == ["b", "a", "a", "b", "b", "a", "a", "b"]
    assert {name: len(runs.microseconds) for name, runs in comparison.runs[100].items()} == {"a": 3, "b": 3}


def test_a_ratio_is_taken_turn_by_turn():
    assert Runs([10.0, 40.0]).times(Runs([5.0, 10.0])) == (2.0, 4.0)


def test_answers_may_be_written_differently_and_must_mean_the_same():
    same = {"a": Answering([], "a"), "b": Answering([], "b", body='<offer b="2" a="1"></offer>')}
    Comparison(W1, same).run({100: 2})
    other = {"a": Answering([], "a"), "b": Answering([], "b", body="<offer/>")}

    with pytest.raises(WrongResult, match="W1: b and a do not agree, such as on <offer"):
        Comparison(W1, other).run({100: 2})


def test_who_leaves_something_undone_is_found_out():
    with pytest.raises(WrongResult, match="W2, a: 15 steps for 3 messages"):
        Comparison(W2, {"a": Answering([], "a", steps=5)}).run({100: 3})


def test_w2_must_refuse_whom_it_has_to():
    assert is_refused(0)

    with pytest.raises(WrongResult, match="W2: 0 refusals, not 1"):
        Comparison(W2, {"a": Answering([], "a", steps=8)}).run({100: 3})


@pytest.mark.parametrize(
    ("target", "reached"), [("at least 0.5", True), ("at least 0.7", False), ("at most 0.6", True), ("flat", None)]
)
def test_a_figure_knows_whether_it_is_what_it_is_to_be(target, reached):
    assert Figure("ratio", 0.6, "", target).is_reached is reached
