"""Circles of objects are looked for seldom, and not so seldom that much is held by them."""

from __future__ import annotations

import gc
import weakref

import pytest

from demaq import gc_tuning
from demaq.gc_tuning import BODIES_BYTES, note_received_bytes


class Held:
    """Something in a circle."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> weakref.ref[Held]:
    monkeypatch.setattr(gc_tuning, "_bytes", 0)
    return weakref.ref(Held())


def test_what_came_in_is_not_held_for_long_after_it_is_done_with(held: weakref.ref[Held]):
    gc.enable()  # it is off in tests, see tests/conftest.py
    try:
        note_received_bytes(BODIES_BYTES - 1)
        assert held() is not None
        note_received_bytes(1)
    finally:
        gc.disable()
    assert held() is None


def test_who_has_turned_the_search_off_is_not_disturbed(held: weakref.ref[Held]):
    note_received_bytes(BODIES_BYTES)
    assert held() is not None
