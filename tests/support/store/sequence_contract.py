"""What every store promises about sequences and replay keys. `DurableSequenceContract` is for stores that can be reopened."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from demaq.errors import AlreadyProcessed, StoreDamaged, StoreError
from demaq.store import Store
from demaq.store import sequences as sequence_tables
from demaq.store.opening import open_store, open_store_readonly
from demaq.store.protocol import SequenceChanges, SequenceDirection, SequenceMessage, Step, StoredSequence
from demaq.store.sql_store import SqlStore
from demaq.store.store_verification import verify_store
from tests.support.store.contract import DAY, FOREVER, MORNING, Clock, new

SECOND = timedelta(seconds=1)
HIGHEST = 2**63 - 1
DIRECTIONS: tuple[SequenceDirection, ...] = ("in", "out")


def sequence(name: str = "s", direction: SequenceDirection = "in", **fields: Any) -> StoredSequence:
    known = {
        "queue": "orders",
        "peer": "http://there.invalid/",
        "has_ended": False,
        "content": "{}",
        "changed": MORNING,
    }
    return StoredSequence(direction=direction, name=name, **{**known, **fields})


def held(number: int, name: str = "s", text: str = "<order/>") -> SequenceMessage:
    return SequenceMessage(direction="in", sequence=name, number=number, held=text)


def pending(number: int, message: int, name: str = "s") -> SequenceMessage:
    return SequenceMessage(direction="out", sequence=name, number=number, message=message)


def everything(store: Store, keys: Sequence[str] = ("k", "l", "m")) -> Any:
    """All that a store says of sequences."""
    found = store.sequences()
    messages = [each for known in found for each in store.sequence_messages(known.direction, known.name)]
    return found, messages, store.known_replays(keys, datetime.min.replace(tzinfo=MORNING.tzinfo))


FIRST = SequenceChanges(
    sequences=(sequence(), sequence("t", "out")),
    added=(held(2), held(3), pending(1, 7, "t")),
    replay_keys={"k": MORNING + DAY},
)
NEXT = SequenceChanges(
    sequences=(sequence(content="[2]"), sequence("u", "out")),
    added=(held(5), pending(2, 8, "t")),
    removed=(("in", "s", 2),),
    replay_keys={"k": MORNING + 2 * DAY, "l": MORNING + DAY},
)


class SequenceContract:
    # sequences and their messages

    def test_a_sequence_comes_back_as_it_was_written(self, store: Store):
        written = sequence(
            "urn:uuid:ü/🙂",
            peer="http://there.invalid/?a=1&b='ü'",
            has_ended=True,
            content='{"received": "1-3 5", "to": "ü\\n🙂"}',
            changed=datetime.fromisoformat("2026-03-01T12:00:00.123457+05:30"),
        )
        store.change_sequences(SequenceChanges(sequences=(written,)))
        assert store.sequences() == [written]
        assert store.sequence_messages("in", written.name) == []

    def test_a_sequence_that_is_written_again_replaces_the_one_of_its_direction_and_name(self, store: Store):
        store.change_sequences(SequenceChanges(sequences=(sequence(), sequence(direction="out"))))
        later = sequence(queue="others", peer="p", has_ended=True, content="<a/>", changed=MORNING + SECOND)
        store.change_sequences(SequenceChanges(sequences=(later,)))
        assert store.sequences() == [later, sequence(direction="out")]
        store.change_sequences(SequenceChanges(sequences=(later, replace(later, content="1"), sequence(content="2"))))
        assert store.sequences("in") == [sequence(content="2")]

    def test_sequences_come_by_direction_then_by_queue_then_by_name(self, store: Store):
        places = [
            (direction, queue, name) for direction in DIRECTIONS for queue in "ab" for name in ("", "Z", "a", "ä")
        ]
        written = [sequence(f"{queue}{name}", direction, queue=queue) for direction, queue, name in places]
        store.change_sequences(SequenceChanges(sequences=tuple(reversed(written))))
        assert store.sequences() == written
        assert store.sequences("in") == written[:8]
        assert store.sequences(queue="b") == written[4:8] + written[12:]
        assert store.sequences("out", "a") == written[8:12]
        assert store.sequences("out", "c") == store.sequences(queue="c") == []

    def test_messages_of_a_sequence_come_by_number_up_to_the_highest_there_is(self, store: Store):
        numbers = (HIGHEST, 10, 9, 2**32, 1, HIGHEST - 1)
        other = (held(4, "other"), pending(HIGHEST, HIGHEST))
        store.change_sequences(
            SequenceChanges(
                sequences=(sequence(), sequence("other"), sequence(direction="out")),
                added=(*[held(number, text=f"<m>ü {number}</m>") for number in numbers], *other),
            )
        )
        assert store.sequence_messages("in", "s") == [held(n, text=f"<m>ü {n}</m>") for n in sorted(numbers)]
        assert store.sequence_messages("out", "s") == [pending(HIGHEST, HIGHEST)]
        assert store.sequence_messages("in", "other") == [held(4, "other")]
        assert store.sequence_messages("out", "other") == store.sequence_messages("in", "none") == []
        store.change_sequences(SequenceChanges(removed=(("in", "s", HIGHEST), ("in", "s", 1))))
        assert [each.number for each in store.sequence_messages("in", "s")] == [9, 10, 2**32, HIGHEST - 1]

    def test_messages_are_added_replaced_and_removed(self, store: Store):
        store.change_sequences(
            SequenceChanges(sequences=(sequence(), sequence("t")), added=(held(1), held(2), held(2, "t")))
        )
        store.change_sequences(
            SequenceChanges(
                added=(held(2, text="<a/>"), held(2, text="<b/>"), held(3)),
                removed=(("in", "s", 1), ("in", "s", 1), ("in", "s", 9), ("out", "s", 2), ("in", "none", 2)),
            )
        )
        assert store.sequence_messages("in", "s") == [held(2, text="<b/>"), held(3)]
        assert store.sequence_messages("in", "t") == [held(2, "t")]

    def test_what_the_same_changes_add_and_remove_is_not_there(self, store: Store):
        store.change_sequences(SequenceChanges(sequences=(sequence(),), added=(held(2),)))
        store.change_sequences(SequenceChanges(added=(held(2), held(3)), removed=(("in", "s", 2), ("in", "s", 3))))
        assert store.sequence_messages("in", "s") == []

    def test_names_and_keys_may_be_long_and_differ_at_their_end(self, store: Store):
        long = "ü🙂" * 3_000
        names = [f"{long}{end}" for end in ("", "a", "b")]
        for turn in range(2):
            written = [sequence(name, content=str(turn)) for name in names]
            store.change_sequences(
                SequenceChanges(
                    sequences=tuple(written),
                    added=tuple([held(turn + 1, name) for name in names]),
                    replay_keys=dict.fromkeys(names[:2], MORNING),
                )
            )
            assert store.sequences() == written
        assert store.sequence_messages("in", names[1]) == [held(1, names[1]), held(2, names[1])]
        assert store.known_replays(names, MORNING) == {*names[:2]}
        store.change_sequences(SequenceChanges(removed=(("in", names[1], 1),)))
        assert [len(store.sequence_messages("in", name)) for name in names] == [2, 1, 2]

    def test_many_changes_are_applied_as_few_are(self, store: Store):
        names = [f"s{number:04}" for number in range(600)]
        many = SequenceChanges(
            sequences=tuple([sequence(name) for name in names]),
            added=tuple([held(number, name) for name in names for number in (1, 2)]),
            replay_keys=dict.fromkeys(names, MORNING),
        )
        for _ in range(2):
            store.change_sequences(many)
            assert [each.name for each in store.sequences()] == names
        assert store.known_replays([*names, "other"], MORNING) == {*names}
        store.change_sequences(SequenceChanges(removed=tuple([("in", name, 1) for name in names])))
        assert {tuple(store.sequence_messages("in", name)) for name in names[:9]} == {
            (held(2, name),) for name in names[:9]
        }

    # one transaction with messages and steps

    def test_messages_and_changes_of_sequences_are_stored_together(self, store: Store):
        assert store.append([new(), new()], FIRST) == [1, 2]
        assert everything(store) == (list(FIRST.sequences), list(FIRST.added), {"k"})
        [done] = store.commit([Step(processed=1)], changes=NEXT)
        assert done.retired == (1,)
        t, u = sequence("t", "out"), sequence("u", "out")
        messages = [held(3), held(5), pending(1, 7, "t"), pending(2, 8, "t")]
        assert everything(store) == ([sequence(content="[2]"), t, u], messages, {"k", "l"})

    def test_changes_alone_take_no_number(self, store: Store):
        store.append([new()])
        assert store.append([], FIRST) == []
        assert everything(store)[0] == list(FIRST.sequences)
        assert store.commit([], changes=NEXT) == []
        assert store.commit([], True, SequenceChanges(sequences=(sequence("v"),))) == []
        assert [each.name for each in store.sequences()] == ["s", "v", "t", "u"]
        store.change_sequences(SequenceChanges())
        assert store.snapshot() == 1
        assert store.append([new()]) == [2]

    def test_changes_hold_also_if_the_message_was_stored_before(self, store: Store):
        store.append([new(request="r")])
        assert store.append([new(request="r")], FIRST) == [1]
        assert store.snapshot() == 1
        assert everything(store) == (list(FIRST.sequences), list(FIRST.added), {"k"})

    @pytest.mark.parametrize("step", [Step(processed=1), Step(delivered=2), Step(fired=99)])
    def test_a_commit_that_fails_leaves_sequences_as_they_were(self, store: Store, step: Step):
        store.append([new(), new()], FIRST)
        store.commit([Step(processed=1)])
        before = everything(store), store.snapshot(), store.counts()
        with pytest.raises(AlreadyProcessed):
            store.commit([Step(processed=2, created=(new("next"),)), step], changes=NEXT)
        assert (everything(store), store.snapshot(), store.counts()) == before
        store.commit([Step(processed=2)], changes=NEXT)
        assert everything(store) != before[0]

    def test_a_message_of_a_sequence_that_is_not_stored_is_refused_with_everything_else(self, store: Store):
        store.append([new()], FIRST)
        before = everything(store), store.snapshot(), store.counts()
        wrong = replace(NEXT, added=(held(5), pending(1, 7)))
        for change in (
            lambda: store.append([new()], wrong),
            lambda: store.commit([Step(processed=1)], changes=wrong),
            lambda: store.change_sequences(wrong),
        ):
            with pytest.raises(AssertionError, match="sequence that is not stored"):
                change()
            assert (everything(store), store.snapshot(), store.counts()) == before
        store.change_sequences(replace(wrong, sequences=(sequence(direction="out"),)))
        assert store.sequence_messages("out", "s") == [pending(1, 7)]

    # replay keys

    def test_a_replay_key_is_known_until_its_time(self, store: Store):
        store.change_sequences(SequenceChanges(replay_keys={"k": MORNING, "l": MORNING + DAY}))
        assert store.known_replays(["k", "l", "m", "k"], MORNING) == {"k", "l"}
        assert store.known_replays(["k", "m"], MORNING + timedelta(microseconds=1)) == frozenset()
        assert store.known_replays(["l"], MORNING + DAY) == {"l"}
        assert store.known_replays([], MORNING) == store.known_replays(["K", "m"], MORNING) == frozenset()

    def test_a_replay_key_that_is_remembered_again_keeps_the_later_time(self, store: Store):
        for hours, end in ((2, 2), (1, 2), (3, 3), (3, 3)):
            store.change_sequences(SequenceChanges(replay_keys={"k": MORNING + timedelta(hours=hours), "l": MORNING}))
            assert store.known_replays(["k", "l"], MORNING + timedelta(hours=end)) == {"k"}
            assert store.known_replays(["k"], MORNING + timedelta(hours=end, microseconds=1)) == frozenset()

    def test_replay_keys_are_only_texts(self, store: Store):
        keys = ["1", "1.0", "01", "", "null", '"', "\\", "[", "é", "'", "\n"]
        for key in keys:
            before = store.known_replays(keys, MORNING)
            store.change_sequences(SequenceChanges(replay_keys={key: MORNING}))
            assert store.known_replays(keys, MORNING) == before | {key}
        assert store.known_replays(keys, MORNING) == {*keys}

    # forgetting

    def test_replay_keys_are_forgotten_when_their_time_has_passed(self, store: Store, clock: Clock):
        store.change_sequences(SequenceChanges(replay_keys={"k": MORNING, "l": MORNING + SECOND}))
        store.collect_garbage(FOREVER, 9)
        assert store.known_replays(["k", "l"], MORNING) == {"k", "l"}
        clock.time = MORNING + SECOND
        store.collect_garbage(FOREVER, 9)
        assert store.known_replays(["k", "l"], MORNING) == {"l"}
        clock.time = MORNING + 2 * SECOND
        store.collect_garbage(FOREVER, 9)
        assert store.known_replays(["k", "l"], MORNING) == frozenset()

    def test_sequences_that_have_ended_are_forgotten_after_a_day_and_live_ones_never(self, store: Store, clock: Clock):
        live = [sequence("live", direction) for direction in DIRECTIONS]
        ended = [sequence("ended", direction, has_ended=True) for direction in DIRECTIONS]
        late = sequence("late", has_ended=True, changed=MORNING + SECOND)
        names = ("live", "ended", "late")
        store.change_sequences(
            SequenceChanges(
                sequences=(*live, *ended, late),
                added=tuple([held(1, name) for name in names] + [pending(1, 2, name) for name in names[:2]]),
            )
        )
        clock.time = MORNING + DAY
        store.collect_garbage(FOREVER, 9)
        assert len(store.sequences()) == 5
        clock.time = MORNING + DAY + SECOND
        store.collect_garbage(FOREVER, 9)
        assert store.sequences() == [late, *live]
        assert store.sequence_messages("in", "ended") == store.sequence_messages("out", "ended") == []
        assert store.sequence_messages("in", "late") == [held(1, "late")]
        clock.time = FOREVER
        store.collect_garbage(FOREVER, 9)
        assert store.sequences() == live
        assert store.sequence_messages("in", "live") == [held(1, "live")]
        assert store.sequence_messages("out", "live") == [pending(1, 2, "live")]

    def test_a_name_that_was_forgotten_is_free_again(self, store: Store, clock: Clock):
        store.change_sequences(SequenceChanges(sequences=(sequence(has_ended=True),), added=(held(1),)))
        clock.time = MORNING + 2 * DAY
        store.collect_garbage(FOREVER, 9)
        store.change_sequences(SequenceChanges(sequences=(sequence(),)))
        assert (store.sequences(), store.sequence_messages("in", "s")) == ([sequence()], [])

    def test_a_new_epoch_ends_outgoing_sequences_and_keeps_what_is_held_back_in_incoming_ones(self, store: Store):
        store.append([new()], FIRST)
        store.begin_epoch()
        assert everything(store) == ([sequence()], [held(2), held(3)], {"k"})
        assert store.sequence_messages("out", "t") == []
        store.change_sequences(SequenceChanges(sequences=(sequence("t", "out"),), added=(pending(1, 1, "t"),)))
        assert store.sequence_messages("out", "t") == [pending(1, 1, "t")]


class DurableSequenceContract(SequenceContract):
    @pytest.fixture
    def where(self) -> str | Path:
        """Where the store of the fixture `store` is."""
        raise NotImplementedError

    @pytest.fixture
    def before(self) -> tuple[ModuleType, int]:
        """The module that has the migrations, and the last version without sequences."""
        raise NotImplementedError

    @pytest.fixture
    def old(self) -> str | Path:
        """Where there is no store yet."""
        raise NotImplementedError

    def test_sequences_are_there_after_reopening(self, store: SqlStore, where: str | Path, clock: Clock):
        store.append([new(transient=True)], FIRST)
        store.commit([], changes=NEXT)
        expected = everything(store)
        store.close()
        with closing(open_store(where, now=clock)) as again:
            assert everything(again) == expected
            again.change_sequences(SequenceChanges(removed=(("in", "s", 3),)))
        with closing(open_store_readonly(where)) as reader:
            assert [each.number for each in reader.sequence_messages("in", "s")] == [5]

    def test_a_reader_beside_the_writer_sees_each_change_and_changes_nothing(self, store: SqlStore, where: str | Path):
        with closing(open_store_readonly(where)) as reader:
            assert everything(reader) == ([], [], frozenset())
            for change in (
                lambda: store.append([new()], FIRST),
                lambda: store.commit([Step(processed=1)], changes=NEXT),
                lambda: store.change_sequences(SequenceChanges(removed=(("in", "s", 3),), replay_keys={"m": MORNING})),
            ):
                before = everything(reader)
                change()
                assert everything(reader) == everything(store) != before
            for refused in (
                lambda: reader.change_sequences(FIRST),
                lambda: reader.append([], FIRST),
                lambda: reader.commit([], changes=FIRST),
            ):
                with pytest.raises(StoreError, match="for reading only"):
                    refused()

    @pytest.mark.parametrize(
        "statement", ["write_sequence", "write_sequence_message", "delete_sequence_message", "write_replay_key"]
    )
    def test_a_fault_in_the_middle_leaves_messages_and_sequences_as_they_were(
        self, store: SqlStore, statement: str, monkeypatch: pytest.MonkeyPatch
    ):
        store.append([new()], FIRST)
        before = everything(store), store.stored(None, 0, 9), store.snapshot()
        execute = store._database.execute_many

        def fail(text: str, parameters: Sequence[Sequence[Any]], *shared: Any) -> None:
            execute(text, parameters, *shared)
            if text == store._database.sql[statement] and parameters:
                store._database.rows(store._database.sql["newest_number"])  # so that all of it was sent
                raise StoreError("a fault")

        with monkeypatch.context() as patch:
            patch.setattr(store._database, "execute_many", fail)
            for change in (
                lambda: store.append([new("next")], NEXT),
                lambda: store.commit([Step(processed=1)], changes=NEXT),
                lambda: store.change_sequences(NEXT),
            ):
                with pytest.raises(StoreError, match="a fault"):
                    change()
                assert (everything(store), store.stored(None, 0, 9), store.snapshot()) == before
        assert store.append([new("next")], NEXT) == [2]
        assert everything(store) != before[0]

    def test_much_is_forgotten_in_steps_and_messages_go_before_their_sequence(
        self, store: SqlStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(sequence_tables, "EXPIRED_STEP", 4)
        names = ("a", "b", "c")
        store.change_sequences(
            SequenceChanges(
                sequences=tuple([sequence(name, has_ended=True) for name in names]),
                added=tuple([held(number, name) for name in names for number in range(1, 4)]),
                replay_keys={str(number): MORNING + number * SECOND for number in range(10)},
            )
        )
        clock.time = MORNING + 2 * DAY
        left = []
        for _ in range(5):
            found, messages, keys = everything(store, [str(number) for number in range(10)])
            left.append((len(found), len(messages), len(keys)))
            assert {each.sequence for each in messages} <= {each.name for each in found}
            store.collect_garbage(FOREVER, 9)
        assert [messages for _, messages, _ in left] == [9, 5, 1, 0, 0]
        assert [keys for *_, keys in left] == [10, 6, 2, 0, 0]
        assert [sequences for sequences, *_ in left][-2:] == [0, 0]

    def test_a_store_from_before_sequences_is_brought_up_to_date(
        self, old: str | Path, before: tuple[ModuleType, int], monkeypatch: pytest.MonkeyPatch
    ):
        module, version = before
        with monkeypatch.context() as patch:
            patch.setattr(module, "MIGRATIONS", module.MIGRATIONS[:version])
            with closing(open_store(old)) as made:
                made.append([new(), new("out", undelivered=True)])
                identity, expected = made.identity(), made.stored(None, 0, 9)
                with pytest.raises(StoreError, match="sequences"):
                    made.sequences()
        with pytest.raises(StoreError, match="made by an older Demaq"):
            open_store_readonly(old)
        with closing(open_store(old)) as upgraded:
            assert upgraded.stored(None, 0, 9) == expected
            assert upgraded.identity() == identity
            assert everything(upgraded) == ([], [], frozenset())
            upgraded.append([new()], FIRST)
            assert everything(upgraded) == (list(FIRST.sequences), list(FIRST.added), {"k"})
        assert verify_store(old).findings == []

    @pytest.mark.parametrize(
        ("change", "finding"),
        [
            ("UPDATE sequences SET content = '{ }' WHERE name = 's'", "1 rows of sequences are damaged"),
            ("UPDATE sequences SET has_ended = 1", "2 rows of sequences are damaged"),
            ("UPDATE sequence_messages SET held = '<other/>' WHERE number = 2", "1 rows of sequence_messages are"),
            ("UPDATE sequence_messages SET seq = 8 WHERE direction = 'out'", "1 rows of sequence_messages are"),
            ("UPDATE replay_keys SET until = until + 1", "1 rows of replay_keys are damaged"),
            ("DELETE FROM sequences WHERE direction = 'in'", "2 rows of sequence_messages without a sequence"),
        ],
    )
    def test_verification_finds_a_damaged_row(self, store: SqlStore, where: str | Path, change: str, finding: str):
        store.append([new()], FIRST)
        assert verify_store(where).findings == []
        with store._database.transaction():
            store._database.execute(change)
        [found] = verify_store(where).findings
        assert finding in str(found)

    def test_a_damaged_sequence_is_never_given_out(self, store: SqlStore):
        store.append([new()], FIRST)
        with store._database.transaction():
            store._database.execute("UPDATE sequences SET content = '{ }' WHERE name = 's'")
            store._database.execute("UPDATE sequence_messages SET held = '<other/>' WHERE number = 2")
        for read in (lambda: store.sequences("in"), lambda: store.sequence_messages("in", "s")):
            with pytest.raises(StoreDamaged, match="not what was") as refusal:
                read()
            assert "other" not in str(refusal.value)
        assert [each.name for each in store.sequences("out")] == ["t"]
