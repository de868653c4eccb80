"""The garbage collector runs seldom, and often enough that cycles of objects do not hold much memory."""

from __future__ import annotations

import gc
import weakref

import pytest

from demaq import gc_tuning
from demaq.gc_tuning import BODIES_BYTES, note_received_bytes


class Held:
    """An object in a cycle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> weakref.ref[Held]:
    monkeypatch.setattr(gc_tuning, "_bytes", 0)
    gc.collect(0)  # so that Python has no reason to look as soon as it may
    return weakref.ref(Held())


def test_what_was_received_is_not_held_for_long_after_it_is_done_with(held: weakref.ref[Held]):
    gc.enable()  # it is off in tests, see tests/conftest.py
    try:
        note_received_bytes(BODIES_BYTES - 1)
        assert held() is not None
        note_received_bytes(1)
    finally:
        gc.disable()
    assert held() is None


def test_a_collector_that_is_turned_off_stays_off(held: weakref.ref[Held]):
    note_received_bytes(BODIES_BYTES)
    assert held() is not None
