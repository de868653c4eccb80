"""What tests/conftest.py and tests/support use of the tools of tests beyond their documentation."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import hypothesis.core
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdist.newhooks import pytest_xdist_make_scheduler
from xdist.scheduler import LoadScopeScheduling

from tests.support.store.server import programs


def test_hypothesis_draws_the_same_examples_again_from_the_seed_in_its_core(monkeypatch: pytest.MonkeyPatch):
    core: Any = hypothesis.core
    assert core.global_force_seed is not None, "tests/conftest.py has set it"
    assert not settings().derandomize, "new examples in every run, in CI too"

    def draw(seed: int) -> list[int]:
        drawn: list[int] = []

        @settings(database=None, max_examples=20)
        @given(st.integers())
        def record(number: int) -> None:
            drawn.append(number)

        monkeypatch.setattr(core, "global_force_seed", seed)
        record()
        return drawn

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_xdist_asks_its_scheduler_for_the_scope_of_a_test():
    assert list(inspect.signature(LoadScopeScheduling.__init__).parameters) == ["self", "config", "log"]
    assert list(inspect.signature(LoadScopeScheduling._split_scope).parameters) == ["self", "nodeid"]
    assert "self._split_scope(" in inspect.getsource(LoadScopeScheduling)
    assert list(inspect.signature(pytest_xdist_make_scheduler).parameters) == ["config", "log"]


def test_xdist_sorts_scopes_only_if_its_option_says_so(pytestconfig: pytest.Config):
    assert hasattr(pytestconfig.option, "loadscopereorder")
    assert "self.config.option.loadscopereorder" in inspect.getsource(LoadScopeScheduling)


def test_the_wheel_of_postgresql_has_its_programs_where_we_look_for_them():
    found = programs()
    assert found is not None
    assert all([(Path(found) / name).is_file() for name in ("initdb", "pg_ctl", "postgres")])
