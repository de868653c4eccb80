"""Few and small rounds: a drawn application whose messages multiply is given up soon, by StillBusy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

STEPS_MAX = 20
ROUNDS_MAX = 40


@contextmanager
def in_small_rounds() -> Iterator[None]:
    """Let a laboratory run so many rounds at most, and each process so many created messages at most."""
    with patch("demaq.engine.round.STEPS_MAX", STEPS_MAX), patch("demaq.testing.lab.ROUNDS_MAX", ROUNDS_MAX):
        yield
