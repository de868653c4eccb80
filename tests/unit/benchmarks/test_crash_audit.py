"""The audit of the crash campaign sees what is wrong with a store."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from demaq_bench.crash_audit import Ledger, audit

from demaq.store.protocol import NewMessage, Step
from demaq.store.sqlite import SqliteStore


def message(queue: str, body: str, **more) -> NewMessage:
    return NewMessage(queue=queue, body=body, properties={}, created=datetime.now(UTC), **more)


ORDER = message("orders", "<order><id>a</id></order>", priority=0)
CHECKS = tuple([message("checks", f'<check part="{part}"><id>a</id></check>', priority=0) for part in "ab"])
ALARM = message("alarms", "<alarm><id>a</id></alarm>")
DONE = message("done", "<done><id>a</id></done>")
GLANCE = message("glances", "<glance><id>a</id></glance>", transient=True)


@pytest.mark.parametrize(
    ("created", "missing", "doubled"),
    [
        ((*CHECKS, ALARM), 0, 0),
        ((ALARM, DONE), 0, 0),
        ((CHECKS[0], ALARM), 1, 0),
        (CHECKS, 1, 0),
        ((*CHECKS, ALARM, ALARM), 0, 1),
        ((*CHECKS, ALARM, DONE), 0, 2),
        ((ALARM, DONE, DONE), 0, 2),
        ((), 3, 0),
    ],
)
def test_the_audit_finds_half_transactions_and_double_ones(created, missing, doubled, tmp_path):
    store = SqliteStore(tmp_path)
    (seq,) = store.append([ORDER])
    store.commit([Step(processed=seq, created=created)])

    problems = audit(store, Ledger({"a": seq}), 0, finished=False).problems

    assert (len(problems.missing), len(problems.doubled), problems.otherwise_wrong) == (missing, doubled, [])


def test_the_audit_misses_an_order_that_was_acknowledged(tmp_path):
    problems = audit(SqliteStore(tmp_path), Ledger({"a": 7}), 0, finished=False).problems

    assert problems.missing == ["order a, acknowledged as message 7, is gone without any effect"]


def test_the_audit_finds_an_order_that_is_there_twice(tmp_path):
    store = SqliteStore(tmp_path)
    seqs = store.append([ORDER, ORDER])

    assert len(audit(store, Ledger({"a": seqs[1]}), 0, finished=False).problems.doubled) == 1


def test_the_audit_finds_effects_of_an_order_that_still_waits(tmp_path):
    store = SqliteStore(tmp_path)
    seqs = store.append([ORDER, ALARM])

    assert len(audit(store, Ledger({"a": seqs[0]}), 0, finished=False).problems.doubled) == 1


def test_the_audit_finds_a_transient_message_that_has_outlived_a_crash(tmp_path):
    store = SqliteStore(tmp_path)
    store.append([GLANCE])

    found = audit(store, Ledger(unanswered={"a"}), store.snapshot(), finished=False).problems.otherwise_wrong

    assert found == ["message 1 is transient and was there before the crash"]


def test_the_audit_of_a_finished_store_wants_every_order_done(tmp_path):
    store = SqliteStore(tmp_path)
    (seq,) = store.append([ORDER])

    assert len(audit(store, Ledger({"a": seq}), 0, finished=True).problems.missing) == 1
