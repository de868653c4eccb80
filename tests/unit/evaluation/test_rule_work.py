"""What is counted for each rule, and how the time of some batches stands for all of them."""

from __future__ import annotations

import random

import pytest

from demaq.evaluation.rule_work import TIMED_SHARE, RuleWork, TimedShare


def test_counts_are_taken_once():
    work = RuleWork()
    work.add_all(["a", "b"], 3)
    work.add_asked("a", -1)
    work.divide_seconds(["a", "b", "b", "c"], 4.0)
    assert sorted(work.take()) == [("a", 2, 1.0), ("b", 3, 2.0), ("c", 0, 1.0)]
    assert work.take() == ()


def test_the_first_batch_is_timed_and_then_one_message_in_so_many(chance: random.Random):
    share = TimedShare()
    sizes = [chance.randint(1, 50) for _ in range(2000)]
    timed = [size for size in sizes if share.is_next_timed(size)]
    assert timed[0] == sizes[0]
    before_last = sum(sizes) - max(sizes)  # a batch that was not timed made up no share before its own messages came
    assert before_last / TIMED_SHARE <= sum(timed) <= sum(sizes) / TIMED_SHARE + 2 * max(sizes)


def test_the_time_of_timed_batches_stands_for_all_messages(chance: random.Random):
    share = TimedShare()
    total, messages = 0.0, 0
    for size in [chance.randint(1, 50) for _ in range(3000)]:
        messages += size
        if share.is_next_timed(size):
            share.seconds["r"] = 0.001 * size
            total += share.take_scaled(size)["r"]
            counted = messages
    assert total == pytest.approx(0.001 * counted)
