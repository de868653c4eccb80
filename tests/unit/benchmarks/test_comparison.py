"""Systems that are compared take turns, and their answers are checked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from demaq_bench.comparison import Comparison, divide
from demaq_bench.contestant import Turn, find_problem, take_turn
from demaq_bench.figures import Figure
from demaq_bench.workloads import W1, W2

Arriving = tuple[str, bytes]


class Answering:
    """A system that gives the answers it is made with."""

    def __init__(self, answers: Sequence[str], left: int = 0) -> None:
        self._answers = list(answers)
        self._left = left

    def run(self, arriving: Sequence[Arriving], per_commit: int) -> None: ...

    def take_answers(self) -> list[str]:
        return self._answers

    def count_waiting(self) -> int:
        return self._left

    def close(self) -> None: ...


class Logging:
    """A contestant that writes down its turns."""

    def __init__(self, log: list[tuple[str, range]], name: str, seconds: float = 1.0) -> None:
        self._log = log
        self._name = name
        self._seconds = seconds

    def turn(self, numbers: range, per_commit: int) -> Turn:
        self._log.append((self._name, numbers))
        return Turn(len(numbers), self._seconds, 0.5, 0.25, 1000.0)


def answers(numbers: range) -> list[str]:
    return [answer for number in numbers if (answer := W1.answer(number)) is not None]


def test_they_take_turns_with_the_same_messages_and_every_other_turn_goes_backwards():
    log: list[tuple[str, range]] = []
    comparison = Comparison({name: Logging(log, name) for name in ("a", "b")})

    comparison.warm_up({100: 6})
    for _ in range(3):
        comparison.run({100: 6})

    assert [name for name, _ in log] == ["b", "a", "a", "b", "b", "a", "a", "b"]
    assert [numbers for _, numbers in log[::2]] == [range(3), range(3, 9), range(9, 15), range(15, 21)]
    assert {name: len(turns) for name, turns in comparison.turns[100].items()} == {"a": 3, "b": 3}


def test_a_ratio_is_taken_turn_by_turn():
    comparison = Comparison({"a": Logging([], "a", 0.5), "b": Logging([], "b", 2.0)})
    comparison.run({1: 10})

    assert comparison.speeds("a", 1) == (20.0,)
    assert comparison.ratios("a", "b", 1) == (4.0,)
    assert divide((10.0, 40.0), (5.0, 10.0)) == (2.0, 4.0)


def test_answers_may_be_written_differently_and_must_mean_the_same():
    text = answers(range(1, 2))[0]

    assert find_problem(W1, range(2), [text]) is None
    assert find_problem(W1, range(2), [text.replace("<offerSummary>", "<offerSummary >")]) is None


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (answers(range(1, 5)), "4 answers for 5 that there must be, without <offerSummary><requestID>r00000005"),
        (answers(range(1, 6)) + answers(range(5, 6)), "6 answers for 5 that there must be, such as <offerSummary>"),
        (["<offerSummary/>", *answers(range(2, 6))], "5 answers for 5 that there must be, such as <offerSummary></"),
    ],
)
def test_an_answer_that_is_missing_doubled_or_wrong_is_found(made, problem):
    found = take_turn(Answering(made), W1, range(6), 100)

    assert isinstance(found, str)
    assert found.startswith(problem)


def test_what_is_left_is_found():
    decided = [answer for number in range(3) if (answer := W2.answer(number)) is not None]

    assert take_turn(Answering(decided, left=2), W2, range(3), 100) == "2 messages are left"
    assert isinstance(take_turn(Answering(decided), W2, range(3), 100), Turn)


@pytest.mark.parametrize(
    ("target", "reached"), [("at least 0.5", True), ("at least 0.7", False), ("at most 0.6", True), ("flat", None)]
)
def test_a_figure_knows_whether_it_is_what_it_is_to_be(target, reached):
    assert Figure("ratio", 0.6, "", target).is_reached is reached
