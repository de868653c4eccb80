"""What every store promises about pauses, audit records, searches and removal. `DurableOperatorContract` is for stores
that can be reopened."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from demaq.errors import StoreDamaged, StoreError
from demaq.store import Store
from demaq.store.message_scan import STATE_BITS, Scan, ScanResult
from demaq.store.opening import open_store, open_store_readonly
from demaq.store.operator_records import AuditRecord, Pause, PauseKind
from demaq.store.protocol import SequenceChanges, Step, Timer
from demaq.store.sql_store import SqlStore
from demaq.store.store_verification import verify_store
from tests.support.store.contract import FOREVER, MORNING, new
from tests.support.store.sequence_contract import pending, sequence

HOUR = timedelta(hours=1)


def pause(kind: PauseKind = "queue", name: str = "orders", **fields: str) -> Pause:
    return Pause(kind=kind, name=name, since=MORNING, **{"who": "anna", "why": "prices <are> wrong\n", **fields})


def entry(action: str = "pause", **fields: object) -> AuditRecord:
    known = {"at": MORNING, "who": "anna", "subject": "queue orders", **fields}
    return AuditRecord(action=action, **known)  # type: ignore[arg-type]


def scan_all(store: Store, scan: Scan) -> list[int]:
    """The seqs of all messages that match, in pieces."""
    found: list[int] = []
    while True:
        result: ScanResult = store.scan(scan)
        found += [head.seq for head in result.heads]
        if result.last is None:
            return found
        assert result.scanned > 0
        scan = replace(scan, start=result.last)


def fill(store: Store) -> None:
    """A message in each state: 1 waits, 2 is new, 3 a timer, 4 to be sent, 5 done, 6 kept, 7 done and unmatched."""
    store.append(
        [
            new("a"),
            new("b", priority=None),
            new("c", priority=None, timer=Timer(due=FOREVER, target="a"), created=MORNING + HOUR),
            new("out", priority=None, undelivered=True),
            new("a", slices=(("s", "k"),)),
            new("a"),
            new("b", slices=(("s", "k"), ("t", "k"))),
        ]
    )
    store.commit([Step(processed=5), Step(processed=6), Step(processed=7, unmatched=True)])


class OperatorContract:
    # pauses and audit records

    def test_a_pause_holds_until_it_is_removed(self, store: Store):
        assert store.pauses() == []
        first, second = pause("rule", "ship"), pause()
        assert store.change_pauses([first, second], (), entry()) == 1
        assert store.pauses() == [second, first]
        assert store.change_pauses((), [("queue", "orders"), ("gateway", "none")], entry("resume")) == 2
        assert store.pauses() == [first]
        assert [each.action for each in store.audit(None, 9)] == ["resume", "pause"]

    def test_a_part_that_is_paused_keeps_its_pause(self, store: Store):
        store.change_pauses([pause()], (), entry())
        store.change_pauses([pause(who="bob", why="")], (), entry())
        assert store.pauses() == [pause()]

    def test_a_queue_and_a_gateway_of_one_name_are_two_parts(self, store: Store):
        store.change_pauses([pause(), pause("gateway")], (), entry())
        store.change_pauses((), [("gateway", "orders")], entry("resume"))
        assert store.pauses() == [pause()]

    def test_audit_records_are_read_newest_first_in_pages(self, store: Store):
        written = [entry(f"a{n}", why="<&>", details={"n": n, "ü": [None, "x"]}, result="done") for n in range(5)]
        assert [store.note_audit(each) for each in written] == [1, 2, 3, 4, 5]
        numbered = [replace(each, number=number) for number, each in enumerate(written, start=1)]
        assert store.audit(None, 2) == numbered[:2:-1]
        assert store.audit(4, 9) == numbered[2::-1]
        assert store.audit(1, 9) == []

    def test_an_audit_record_is_written_again_by_its_number(self, store: Store):
        store.note_audit(entry("purge", result="1 message removed"))
        store.note_audit(entry())
        assert store.note_audit(entry("purge", result="2 messages removed", number=1)) == 1
        assert [each.result for each in store.audit(None, 9)] == ["", "2 messages removed"]

    def test_what_operators_do_is_on_record_with_it(self, store: Store):
        store.append([new("out", priority=None, undelivered=True)])
        assert store.load_collection("prices", ["<p/>"], entry("load collection")) == 1
        assert store.send_again([1], MORNING, entry("redeliver")) == []
        assert store.send_again([1, 9], MORNING, entry("redeliver")) == [9]
        assert [each.action for each in store.audit(None, 9)] == ["redeliver", "load collection"]

    def test_pauses_and_records_take_no_number(self, store: Store):
        before = store.snapshot()
        store.change_pauses([pause()], (), entry())
        store.note_audit(entry())
        assert store.snapshot() == before

    # what is paused is left out

    def test_timers_of_some_queues_are_left_out(self, store: Store):
        timers = [Timer(due=MORNING + n * HOUR, target="a") for n in (1, 2)]
        store.append([new(queue, priority=None, timer=timer) for queue, timer in zip("cd", timers, strict=True)])
        assert [m.seq for m in store.due_timers(FOREVER, 9, ["c"])] == [2]
        assert (store.next_due(["c"]), store.next_due(["d"])) == (MORNING + 2 * HOUR, MORNING + HOUR)
        assert (store.due_timers(FOREVER, 9, ["c", "d"]), store.next_due(["c", "d"])) == ([], None)

    def test_messages_of_one_priority_are_read_after_a_number(self, store: Store, chance: Random):
        drawn = chance
        messages = [new(drawn.choice("abc"), priority=drawn.choice([None, 0, 5, -3])) for _ in range(60)]
        store.append(messages)
        done = drawn.sample(range(1, 61), 20)
        store.commit([Step(processed=seq) for seq in sorted(done)])
        for _ in range(20):
            priority, after, limit = drawn.choice([0, 5, -3]), drawn.randrange(61), drawn.randrange(1, 20)
            but, but_of = drawn.sample(range(1, 61), 5), drawn.sample("abc", drawn.randrange(3))
            expected = [
                seq
                for seq, message in enumerate(messages, start=1)
                if message.priority == priority and seq > after and seq not in (*done, *but)
                if message.queue not in but_of
            ][:limit]
            assert [m.seq for m in store.pending_at(priority, after, limit, but, but_of)] == expected

    # unmatched

    def test_it_is_remembered_that_no_rule_has_reacted(self, store: Store):
        store.append([new(slices=(("s", "k"),)) for _ in range(2)])
        done = store.commit([Step(processed=1, unmatched=True), Step(processed=2)])
        found = store.messages([1, 2])
        assert [m.unmatched for m in found] == [True, False]
        assert [m.processed for m in found] == [each.number for each in done]
        store.commit([Step(resets=(("s", "k"),))])
        assert [(m.unmatched, m.retired) for m in store.messages([1, 2])] == [(True, 5), (False, 5)]

    # scans

    @pytest.mark.parametrize(
        ("states", "expected"),
        [
            ({"waits"}, [1, 4]),
            ({"new"}, [2]),
            ({"timer"}, [3]),
            ({"done"}, [5, 7]),
            ({"kept"}, [6]),
            ({"unmatched"}, [7]),
            ({"kept", "unmatched"}, [6, 7]),
            (set(), [1, 2, 3, 4, 5, 6, 7]),
        ],
    )
    def test_a_scan_finds_messages_by_state(self, store: Store, states: set[str], expected: list[int]):
        fill(store)
        assert scan_all(store, Scan(states=frozenset(states))) == expected
        assert scan_all(store, Scan(states=frozenset(states), backwards=True)) == expected[::-1]

    def test_a_scan_says_what_becomes_of_each_message(self, store: Store):
        fill(store)
        heads = store.scan(Scan()).heads
        states = ["waits", "new", "timer", "waits", "done", "kept", "done"]
        assert [head.state for head in heads] == states
        assert [head.unmatched for head in heads] == [False] * 6 + [True]
        assert heads[6].slices == (("s", "k"), ("t", "k"))
        assert heads[2].due == FOREVER
        assert store.heads([7, 2, 99]) == [heads[1], heads[6]]

    def test_a_scan_finds_messages_by_slice_queue_and_time(self, store: Store):
        fill(store)
        assert scan_all(store, Scan(slice=("s", "k"))) == [5, 7]
        assert scan_all(store, Scan(slice=("s", "k"), backwards=True, rows_max=1)) == [7, 5]
        assert scan_all(store, Scan(slice=("s", "k"), queue="b")) == [7]
        assert scan_all(store, Scan(slice=("s", "other"))) == []
        assert scan_all(store, Scan(since=MORNING + HOUR)) == [3]
        assert scan_all(store, Scan(until=MORNING + HOUR, queue="c")) == []
        store.commit([Step(resets=(("s", "k"),))])
        assert scan_all(store, Scan(slice=("s", "k"))) == []

    def test_a_scan_in_pieces_finds_the_same(self, store: Store, chance: Random):
        drawn = chance
        store.append([new(drawn.choice("ab"), priority=drawn.choice([None, 0])) for _ in range(50)])
        store.commit([Step(processed=seq, unmatched=seq % 3 == 0) for seq in drawn.sample(range(1, 51), 20)])
        for _ in range(10):
            states = frozenset(drawn.sample(sorted(STATE_BITS), drawn.randrange(3)))
            scan = Scan(queue=drawn.choice([None, "a"]), states=states, backwards=drawn.random() < 0.5)
            whole = scan_all(store, scan)
            assert scan_all(store, replace(scan, rows_max=drawn.randrange(1, 9), limit=drawn.randrange(1, 9))) == whole
            assert whole == sorted(whole, reverse=scan.backwards)

    # removal

    def test_messages_are_removed_whatever_their_state(self, store: Store):
        fill(store)
        before = store.snapshot()
        removed, number = store.purge([1, 3, 4, 6, 7, 99], entry("purge"))
        assert (removed, number) == ([1, 3, 4, 6, 7], 1)
        assert [m.seq for m in store.stored(None, 0, 9)] == [2, 5]
        assert store.counts() == {"a": (1, 0), "b": (1, 1)}
        assert (store.pending(9), store.next_due(), store.sendings()) == ([], None, {})
        assert [m.seq for m in store.slice("s", "k", store.snapshot())] == [5]
        assert store.snapshot() == before + 1
        assert store.append([new()]) == [before + 2]

    def test_what_is_not_there_is_not_removed_again(self, store: Store):
        fill(store)
        store.purge([1], entry("purge"))
        before = store.snapshot()
        assert store.purge([1, 99], entry("purge")) == ([], 2)
        assert store.snapshot() == before

    def test_a_removed_message_is_in_no_index_and_its_request_is_known(self, store: Store):
        store.append([new(entries=(("i", "v"),), request="r"), new(entries=(("i", "v"),))])
        store.purge([1], entry("purge"))
        assert store.find("i", ["v"], store.snapshot()) == {"v": [2]}
        assert store.append([new(request="r")]) == [1]
        store.commit([Step(processed=2)])
        store.collect_garbage(FOREVER, 9)
        assert store.stored(None, 0, 9) == []

    def test_what_a_reliable_sequence_has_numbered_stays(self, store: Store):
        store.append([new("out", priority=None, undelivered=True) for _ in range(2)])
        store.change_sequences(SequenceChanges(sequences=(sequence("t", "out"),), added=(pending(1, 1, "t"),)))
        assert store.purge([1, 2], entry("purge"))[0] == [2]
        assert [each.message for each in store.unsent(None, None, 9)] == [1]


class DurableOperatorContract(OperatorContract):
    @pytest.fixture
    def where(self) -> str | Path:
        """Where the store of the fixture `store` is."""
        raise NotImplementedError

    @pytest.fixture
    def before_operators(self) -> tuple[ModuleType, int]:
        """The module that has the migrations, and the last version without pauses."""
        raise NotImplementedError

    @pytest.fixture
    def old(self) -> str | Path:
        """Where there is no store yet."""
        raise NotImplementedError

    def test_pauses_and_records_are_there_after_reopening(self, store: SqlStore, where: str | Path):
        store.change_pauses([pause()], (), entry(details={"ü": 1}))
        expected = store.pauses(), store.audit(None, 9)
        store.close()
        with closing(open_store(where)) as again:
            assert (again.pauses(), again.audit(None, 9)) == expected
        with closing(open_store_readonly(where)) as reader:
            assert (reader.pauses(), reader.audit(None, 9)) == expected
            for refused in (
                lambda: reader.change_pauses([pause()], (), entry()),
                lambda: reader.note_audit(entry()),
                lambda: reader.purge([1], entry()),
            ):
                with pytest.raises(StoreError, match="for reading only"):
                    refused()

    def test_a_store_from_before_pauses_gets_them(
        self, old: str | Path, before_operators: tuple[ModuleType, int], monkeypatch: pytest.MonkeyPatch
    ):
        module, version = before_operators
        with monkeypatch.context() as former:
            former.setattr(module, "MIGRATIONS", module.MIGRATIONS[:version])
            with closing(open_store(old)) as made:
                made.append([new(slices=(("s", "k"),)), new()])
                expected = made.stored(None, 0, 9)
        with pytest.raises(StoreError, match="made by an older Demaq"):
            open_store_readonly(old)
        with closing(open_store(old)) as upgraded:
            assert upgraded.stored(None, 0, 9) == expected
            assert (upgraded.pauses(), upgraded.audit(None, 9)) == ([], [])
            assert scan_all(upgraded, Scan(states=frozenset(["waits"]))) == [1, 2]
            upgraded.change_pauses([pause()], (), entry())
            assert upgraded.pauses() == [pause()]
        assert verify_store(old).findings == []

    @pytest.mark.parametrize(
        ("change", "finding"),
        [
            ("UPDATE pauses SET who = 'eve'", "1 rows of pauses are damaged"),
            ("UPDATE audit SET result = 'nothing'", "1 rows of audit are damaged"),
        ],
    )
    def test_a_damaged_record_is_found_and_never_given_out(
        self, store: SqlStore, where: str | Path, change: str, finding: str
    ):
        store.change_pauses([pause()], (), entry())
        fill(store)
        store.purge([1, 5], entry("purge", number=1))
        assert verify_store(where).findings == []
        with store._database.transaction():
            store._database.execute(change)
        [found] = verify_store(where).findings
        assert finding in str(found)
        with pytest.raises(StoreDamaged, match="not what was"):
            _ = store.pauses() if "pauses" in change else store.audit(None, 9)

    def test_a_statement_that_takes_too_long_is_given_up(self, store: SqlStore):
        store.append([new() for _ in range(400)])
        store.limit_statements(0.002)
        with pytest.raises(StoreError):
            store._database.rows("SELECT count(*) FROM messages AS a CROSS JOIN messages AS b CROSS JOIN messages AS c")
        assert len(store.pauses()) == 0
