"""Pages are made in threads of a process in which the tests use Saxon."""

from __future__ import annotations

import threading

import pytest

from demaq.evaluation.saxon.processor import Saxon


@pytest.fixture(autouse=True)
def only_this_thread_uses_saxon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that asks Saxon by itself, instead of the worker process, fails: it would end a console."""
    own, make = threading.get_ident(), Saxon.__init__

    def make_here(self: Saxon) -> None:
        assert threading.get_ident() == own, "a thread of the console uses Saxon"
        make(self)

    monkeypatch.setattr(Saxon, "__init__", make_here)
