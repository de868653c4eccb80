"""Calls with constant arguments in native rules are evaluated when a function is loaded."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from demaq.evaluation.native import native_functions
from demaq.evaluation.native.atomic_values import DayTimes
from demaq.evaluation.native.fallback import InvalidValue
from demaq.evaluation.native.native_functions import load_function


def test_a_call_with_constant_arguments_is_evaluated_once(monkeypatch: pytest.MonkeyPatch):
    made = _count_calls("day_times", monkeypatch)
    function = load_function("def function(m):\n    return day_times('P14D')\n", "test")
    assert [function(None) for _ in range(3)] == [DayTimes(days=14)] * 3
    assert made == ["P14D"]


def test_a_call_of_a_constant_call_is_constant(monkeypatch: pytest.MonkeyPatch):
    made = _count_calls("timeout_values", monkeypatch)
    function = load_function("def function(m):\n    return timeout_values([day_times('P1D')])\n", "test")
    assert [[value.text for value in function(None)] for _ in range(2)] == [["P1D"], ["P1D"]]
    assert len(made) == 1


def test_a_call_of_a_variable_is_evaluated_every_time():
    function = load_function("def function(m):\n    return [decimal(v) + Decimal('1.5') for v in m]\n", "test")
    assert function(["1", "2"]) == [Decimal("2.5"), Decimal("3.5")]


def test_a_constant_call_that_fails_fails_only_where_it_is_evaluated():
    function = load_function("def function(m):\n    return date('2026-02-30') if m else None\n", "test")
    assert function(False) is None
    with pytest.raises(InvalidValue):
        function(True)


def _count_calls(name: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of all calls from now on."""
    found: list[Any] = []
    original: Callable[[Any], Any] = native_functions.CALLED[name]

    def call(argument: Any) -> Any:
        found.append(argument)
        return original(argument)

    monkeypatch.setitem(native_functions.CALLED, name, call)
    return found
