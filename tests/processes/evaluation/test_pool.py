"""Several evaluator processes: as many rounds at once, and no process without work."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demaq.evaluation.outcomes import Outcome
from demaq.evaluation.round_request import RoundRequest
from demaq.evaluation.workers.pool import EvaluatorPool
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.store import SqliteStore
from demaq.store.protocol import NewMessage, StoredMessage
from demaq.testing.lab import load_text

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PROGRAM = """
create queue in create queue out
create rule answer for in if (/m) then do enqueue <n>{sum(1 to xs:integer(/m))}</n> into out
"""
START_SECONDS_MAX = 60


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "store")
    yield store
    store.close()


@pytest.fixture
def first(store: SqliteStore, tmp_path: Path) -> Iterator[ProcessEvaluator]:
    first = ProcessEvaluator(load_text(PROGRAM).files(), tmp_path / "store")
    first.start()
    yield first
    first.close()


@pytest.fixture
def pool(first: ProcessEvaluator) -> Iterator[EvaluatorPool]:
    pool = EvaluatorPool(first, 2)
    yield pool
    pool.close()


def stored(store: SqliteStore, number: int) -> StoredMessage:
    body = f"<m>{number}</m>"
    [seq] = store.append([NewMessage(queue="in", body=body, properties={}, created=NOW, priority=0)])
    found = store.message(seq)
    assert found is not None
    return found


def asked(pool: EvaluatorPool, store: SqliteStore, message: StoredMessage) -> Sequence[Outcome | None]:
    return pool.run(RoundRequest(batch=[message], snapshot=store.snapshot(), now=NOW, deep=True)).outcomes


def answer(found: Sequence[Outcome | None]) -> str:
    [outcome] = found
    assert outcome is not None
    [action] = outcome.actions
    return str(action.document.text)  # type: ignore[union-attr]


def test_one_round_at_a_time_needs_one_process(pool: EvaluatorPool, store: SqliteStore) -> None:
    for number in (1, 2, 3):
        assert answer(asked(pool, store, stored(store, number))) == f"<n>{number * (number + 1) // 2}</n>"
    assert [other.pid for other in pool._others] == [None]


def test_rounds_that_come_at_once_are_shared_out(
    pool: EvaluatorPool, first: ProcessEvaluator, store: SqliteStore
) -> None:
    messages = [stored(store, number) for number in range(20)]
    [other] = pool._others
    with ThreadPoolExecutor(2) as threads:
        until = time.monotonic() + START_SECONDS_MAX
        while not other.is_ready() and time.monotonic() < until:
            found = list(threads.map(lambda message: answer(asked(pool, store, message)), messages))
            assert found == [f"<n>{n * (n + 1) // 2}</n>" for n in range(20)]
    assert other.is_ready()
    assert other.pid not in (None, first.pid)


def test_what_runs_continues_when_another_process_is_killed(pool: EvaluatorPool, store: SqliteStore) -> None:
    [other] = pool._others
    other.start()
    assert other.pid is not None
    os.kill(other.pid, signal.SIGKILL)
    pool._free.reverse()  # the one that is gone comes first
    assert answer(asked(pool, store, stored(store, 3))) == "<n>6</n>"


def test_a_rule_that_did_not_come_back_in_one_process_is_not_asked_in_another(pool: EvaluatorPool) -> None:
    [other] = pool._others
    assert other._given_up is pool._first._given_up
