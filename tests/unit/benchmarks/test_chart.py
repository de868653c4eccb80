"""A chart is a picture that can be read: everything is in it, and no label lies on another."""

from __future__ import annotations

from itertools import pairwise

import pytest
from demaq_bench.chart import chart
from demaq_bench.drawing import HEIGHT, LABEL_HEIGHT, short, slow_messages
from demaq_bench.figures import Figure, Place
from lxml import etree

FACTS: dict[str, str | int] = {"cores": 2, "python": "3", "saxon": "13", "spark": "4", "sqlite": "3"}


def drawn(*figures: Figure) -> list[str]:
    """All texts of a chart."""
    root = etree.fromstring(chart(figures, FACTS).encode())
    return [str(element.text) for element in root.iter("{*}text")]


def test_a_ratio_is_drawn_with_its_target():
    at: Place = {"workload": "W1", "per_commit": 100, "system": "node, inline"}

    words = drawn(Figure("ratio", 0.28, "", "at least 0.5", "throughput", at=at))

    assert {"Speed, hand-written code = 1", "W1", "node, inline", "0.28", "target 0.5"} <= set(words)


def test_a_curve_names_its_lines_where_they_end():
    figures = [
        Figure("speed", speed, "steps/s", group="backlog", at={"waiting": size, "system": system})
        for system, speed in (("node, inline", 2000.0), ("node, spark", 3500.0))
        for size in (1_000, 1_000_000)
    ]

    assert {"inline 2k", "spark 3.5k", "1M", "messages waiting"} <= set(drawn(*figures))


def test_what_was_not_measured_has_no_panel():
    words = drawn(
        Figure("time", 30.0, "µs", group="a step", parts=(("evaluate", 20.0), ("read", 10.0)), at={"workload": "W1"})
    )

    assert words[2:] == [
        "Where the time of a step goes",
        "µs, one part after the other",
        "W1",
        "30",
        "evaluate 20",
        "read 10",
    ]


def test_labels_are_moved_apart_and_stay_in_the_panel():
    places = [y for y, _, _ in slow_messages([(225.0, "a", ""), (226.0, "b", ""), (40.0, "c", ""), (226.0, "d", "")])]

    assert places == sorted(places)
    assert all([after - before >= LABEL_HEIGHT for before, after in pairwise(places)])
    assert places[0] == 40.0
    assert places[-1] <= HEIGHT


@pytest.mark.parametrize(
    ("value", "expected"), [(0.0512, "0.051"), (7, "7"), (250, "250"), (1000, "1k"), (999_999, "1M"), (3544, "3.5k")]
)
def test_numbers_are_abbreviated(value, expected):
    assert short(value) == expected
