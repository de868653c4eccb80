"""What PostgreSQL visits for an answer: what is asked for, however much else is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from demaq.store.postgresql import PostgresqlStore
from demaq.store.protocol import SequenceChanges, Step, Timer
from tests.support.store.contract import FOREVER, MORNING, new
from tests.support.store.sequence_contract import held, sequence
from tests.support.store.server import Server

NO_STATISTICS = """
DO $$
DECLARE name text;
BEGIN
    FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
        EXECUTE 'ALTER TABLE ' || quote_ident(name) || ' SET (autovacuum_enabled = off)';
    END LOOP;
END $$
"""
"""A server that has looked at tables which are as small as these may read them whole. It does so now and then."""
VISITED_MAX = 60
"""Rows in all nodes of a plan together, for answers of five rows at most."""
MANY = 1000
NOW = 10**17
STATEMENTS: dict[str, Any] = {
    "slice": {"slicing": "s", "key": "k", "snapshot": 10**6},
    "lookup": {"index": "i", "wanted": '["k", "none"]', "snapshot": 10**6},
    "slices": {"slicing": "s", "wanted": '["k", "none"]', "snapshot": 10**6},
    "lookups": {"index": "i", "wanted": '["k", "none"]', "snapshot": 10**6},
    "find": {"index": "i", "wanted": '["k", "none"]', "snapshot": 10**6},
    "pending": {"limit": 5},
    "other_pending": {"limit": 5, "but": "[1, 2, 3]", "but_of": '["other"]'},
    "waiting": {"queue": "mailbox", "limit": 5},
    "due_timers": {"now": 0, "limit": 5},
    "first_timers": {"limit": 5},
    "timers": {"due": 0, "seq": 0, "limit": 5},
    "next_due": (),
    "message": [7],
    "messages": ["[7, 8, 9]"],
    "caused_by": [7],
    "stored": {"after": 20, "limit": 5},
    "stored_in_queue": {"queue": "q", "after": 20, "limit": 5},
    "visible": {"queue": "q", "after": 20, "limit": 5},
    "queue": {"queue": "few", "snapshot": 10**6},
    "slice_history": {"slicing": "s", "key": "7", "limit": 5},  # of all that the slice ever held
    "members": {"slicing": "s", "key": "k", "after": 0, "limit": 5},
    "slice_keys": {"slicing": "s", "after": "k", "limit": 5},
    "first_slice_keys": {"slicing": "s", "limit": 5},
    "slicings": (),
    "newest_program": (),
    "states": ["[7, 8, 9]"],
    "states_in_slice": ["s", "k"],
    "known_request": ["r7"],
    "known_requests": {"after": "r77", "end": "r77 "},
    "first_request": {"after": "r77", "end": "r77:"},
    "request_of_message": [7],
    "requests": {"after": "r77", "end": "r77:"},
    "end_slice": [[NOW], ["s"], ["k"]],
    "set_processed": [[NOW], [0], [9]],
    "retire_entry": [[NOW], ["i"], ["k"], [1]],
    "delete_member": [["s"], ["1"], [0], [9]],
    "delete_entry": [["i"], ["1"], [0], [9]],
    "delete_message": [[9]],
    "mark_request_removed": [[NOW], ["r7"]],
    "garbage": [NOW, 5],
    "to_send": {"queue": "out", "now": NOW, "after": 20, "limit": 5},
    "to_send_again": {"queue": "out", "now": NOW, "due": 0, "seq": 0, "until": NOW, "limit": 5},
    "sequences_in_queue": {"queue": "few"},
    "known_sequence": ["in", "s7"],
    "sequence_messages": {"direction": "in", "name": "s7"},
    "known_replays": {"keys": '["s7", "none"]', "now": 0},
    "write_sequence": [["in"], ["s7"], ["q"], ["p"], [0], ["{}"], [NOW], [0]],
    "write_sequence_message": [["in"], ["s7"], [1], [None], ["<a/>"], [0]],
    "delete_sequence_message": [["in"], ["s7"], [1]],
    "write_replay_key": [["s7"], [NOW], [0]],
    "forget_replay_keys": {"now": NOW, "limit": 5},
    "forget_sequence_messages": {"before": NOW, "limit": 5},
    "forget_sequences": {"before": NOW, "limit": 5},
}


@pytest.fixture(scope="module")
def store(server: Server) -> Iterator[PostgresqlStore]:
    store = PostgresqlStore(server.address(server.new_schema()))
    with store._database.transaction():
        store._database.execute(NO_STATISTICS)
    store.append([new("few", slices=(("s", "k"),), entries=(("i", "k"),)) for _ in range(3)])
    others = [((("s", str(number)),), (("i", str(number)),)) for number in range(MANY)]
    store.append([new("q", slices=s, entries=e, request=f"r{e[0][1]}") for s, e in others])
    store.append([new("echo", priority=None, timer=Timer(due=FOREVER, target="t")) for _ in range(MANY)])
    store.append([new("mailbox", priority=None, created=MORNING) for _ in range(MANY)])
    store.append([new("out", priority=None, undelivered=True) for _ in range(MANY)])
    gone = store.append([new("few", slices=(("s", "k"),), entries=(("i", "k"),)) for _ in range(MANY)])
    kept = store.slice("s", "k", store.snapshot())[:3]
    store.commit([Step(processed=seq) for seq in gone])
    store.commit([Step(resets=(("s", "k"),), created=tuple([new("few", slices=(("s", "k"),)) for _ in kept]))])
    names = [f"s{number}" for number in range(MANY)]
    store.change_sequences(
        SequenceChanges(
            sequences=tuple(
                [sequence(f"s{n}", queue="q" if n > 3 else "few", has_ended=n % 2 == 1) for n in range(MANY)]
            ),
            added=tuple([held(number, name) for name in names for number in (1, 2)]),
            replay_keys=dict.fromkeys(names, MORNING),
        )
    )
    yield store
    store.close()


@pytest.mark.parametrize("name", STATEMENTS)
def test_an_answer_costs_what_it_is_about(store: PostgresqlStore, name: str):
    statement = f"EXPLAIN (ANALYZE, FORMAT JSON) {store._database.sql[name]}"
    visited = []

    def explain() -> None:
        with store._database.transaction():
            visited.append(rows_of(store._database.rows(statement, STATEMENTS[name])[0][0][0]["Plan"]))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):  # nothing of it is kept
        explain()
    assert visited[0] <= VISITED_MAX


def rows_of(plan: dict[str, Any]) -> int:
    removed = sum([count for key, count in plan.items() if key.startswith("Rows Removed")])
    own = (plan["Actual Rows"] + removed) * plan["Actual Loops"]
    return int(own) + sum([rows_of(part) for part in plan.get("Plans", [])])
