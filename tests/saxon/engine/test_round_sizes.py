"""Rounds are as large as memory allows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from demaq.engine import engine as engine_module
from demaq.engine.engine import Engine
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state import snapshot_reader
from demaq.evaluation.state.snapshot_reader import Documents
from demaq.store import MemoryStore
from demaq.store.protocol import NewMessage, as_stored
from demaq.testing.lab import load_text
from tests.support.engines import local_engine

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PROGRAM = """
create queue in create queue out
create rule count for in if (true()) then do enqueue <n/> into out
"""


def engine_with(sizes: list[int]) -> Engine:
    compiled = compile_program(load_text(PROGRAM))
    engine = local_engine(SaxonEvaluator(compiled), MemoryStore(), lambda: NOW)
    for size in sizes:
        engine.enqueue("in", f"<m>{'x' * size}</m>")
    return engine


def test_large_messages_make_small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "ROUND_CHARACTERS_MAX", 1000)
    monkeypatch.setattr(engine_module, "PENDING_MESSAGES_FIRST", 2)
    engine = engine_with([300] * 7 + [5000] + [1] * 30)
    assert engine.run_round() == 4
    rounds = []
    while done := engine.run_round():
        rounds.append(done)
    assert sum(rounds) == 34
    assert len(rounds) > 1
    assert len(engine.store.waiting("out", 100)) == 38


def test_documents_are_forgotten_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_reader, "DOCUMENTS_CHARACTERS_MAX", 100)
    documents = Documents()
    stored = [as_stored(NewMessage(queue="q", body="x" * 60, properties={}, created=NOW), n) for n in range(3)]
    first = documents.of(stored[0])
    assert documents.of(stored[0]) is first
    documents.of(stored[1])
    documents.of(stored[2])
    assert documents.of(stored[0]) is not first
