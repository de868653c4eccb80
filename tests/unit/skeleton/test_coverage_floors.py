"""A package that is covered less than its floor says fails `./test --coverage`, which names it."""

from __future__ import annotations

import tomllib

import pytest

from tests.coverage_run import PROJECT, SOURCES, TOP, Counts, compare, sum_by_package

FLOORS = {"store": 90, TOP: 80}


def test_files_count_for_the_package_that_they_are_in():
    files = [
        (SOURCES / "errors.py", Counts(10, 9)),
        (SOURCES / "store" / "protocol.py", Counts(20, 20)),
        (SOURCES / "store" / "sql" / "deep" / "down.py", Counts(20, 10)),
    ]

    assert sum_by_package(files) == {TOP: Counts(10, 9), "store": Counts(40, 30)}


def test_a_package_at_its_floor_or_above_is_no_problem():
    assert compare({"store": Counts(100, 90), TOP: Counts(10, 10)}, FLOORS) == []


def test_a_package_below_its_floor_is_named_with_its_share():
    assert compare({"store": Counts(1000, 899), TOP: Counts(10, 8)}, FLOORS) == [
        "store: 89.9 % ran, below its floor of 90 %"
    ]


def test_a_package_without_a_floor_and_a_floor_without_a_package_are_problems():
    assert compare({"store": Counts(10, 10), "new": Counts(4, 3)}, FLOORS) == [
        "new has no floor in pyproject.toml; 75.0 % of it ran",
        "there is no package top, but a floor for it",
    ]


@pytest.mark.parametrize("empty", [Counts(), Counts(0, 0)])
def test_a_package_without_statements_is_covered(empty: Counts):
    assert empty.percent == 100.0


def test_every_package_has_a_floor():
    floors = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["demaq"]["coverage-floors"]
    packages = sum_by_package([(file, Counts(1, 1)) for file in SOURCES.rglob("*.py")])

    assert compare(packages, floors) == []
