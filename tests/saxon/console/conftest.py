"""Pages are made in threads, in a process in which other tests have used Saxon."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def only_this_thread_collects_garbage() -> Iterator[None]:
    """Saxon ends the process when another thread frees what this one has made."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        if was_enabled:  # not in a run of many tests, which collects between them
            gc.enable()


@pytest.fixture(autouse=True)
def what_is_there_is_no_garbage() -> None:
    """Actions collect garbage in their threads, and what other tests and fixtures have left may hold Saxon's."""
    gc.collect()
    gc.freeze()
