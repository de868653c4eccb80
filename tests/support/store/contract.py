"""What every store promises. A store's own test file subclasses `StoreContract` and says how one is made."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from demaq.errors import AlreadyProcessed
from demaq.messages import PropertyValue
from demaq.store import MemoryStore, SqliteStore, Store
from demaq.store.protocol import (
    OWN_NUMBER,
    Attempt,
    MigratedMessage,
    NewMessage,
    NextProgram,
    Postponed,
    Step,
    StoredAnswer,
    StoredMessage,
    Timer,
    ToSend,
    Unsent,
)
from demaq.store.request_names import make_request
from demaq.store.row_verification import verify_tables
from demaq.store.sql_store import SqlStore

MORNING = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
FOREVER = datetime(2999, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.time = MORNING

    def __call__(self) -> datetime:
        return self.time


def new(queue: str = "orders", body: str = "<order/>", **fields: Any) -> NewMessage:
    """A message that will be processed, unless its fields say otherwise."""
    return NewMessage(queue=queue, body=body, **{"properties": {}, "created": MORNING, "priority": 0, **fields})


def next_program(digest: str = "d", **fields: Any) -> NextProgram:
    return NextProgram(digest=digest, **{"files": {}, "indexes": (), "priorities": {}, **fields})


def seqs(messages: Sequence[StoredMessage | ToSend]) -> list[int]:
    return [message.seq for message in messages]


def attempt(message: int, number: int, result: Literal["sent", "again", "failed"], queue: str = "out") -> Attempt:
    return Attempt(
        message=message,
        queue=queue,
        number=number,
        at=MORNING,
        seconds=0.25,
        destination="http://there.invalid/ü",
        result=result,
        status=None if result == "sent" else "503",
        kind=None if result == "sent" else "refused",
        reason=None if result == "sent" else "it is closed",
    )


def to_send(store: Store) -> list[tuple[int, int]]:
    """Messages of the queue `out` and their attempts."""
    return [(found.seq, found.attempts) for found in store.to_send("out", FOREVER, 0, 9)]


class StoreContract:
    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    # messages and numbers

    def test_a_message_comes_back_as_it_was_stored(self, store: Store):
        message = new(
            body="<order>für 3 €</order>",
            properties={
                "total": PropertyValue("decimal", "3.50", "3.5"),
                "customer": PropertyValue.string("O'Neil\n🙂"),
            },
            created=MORNING + timedelta(microseconds=123457),
            rule="confirm",
            trigger=7,
            origin=5,
            hops=3,
            slices=(("order", "17"), ("customer", "O'Neil")),
            entries=(("orders/@id", "17"),),
            timer=Timer(due=MORNING + DAY, target="reminders"),
            undelivered=True,
            transient=True,
        )
        [seq] = store.append([message])
        assert store.message(seq) == StoredMessage(
            seq=seq,
            queue="orders",
            body=message.body,
            properties=message.properties,
            created=message.created,
            rule="confirm",
            trigger=7,
            origin=5,
            hops=3,
            slices=message.slices,
            processed=None,
            retired=None,
            timer=message.timer,
            transient=True,
            undelivered=True,
        )

    @pytest.mark.parametrize("kinds", [1, 2, 30])
    def test_many_messages_of_one_commit_come_back_as_they_were_whatever_they_share(
        self, store: Store, chance: random.Random, kinds: int
    ):
        def draw() -> dict[str, Any]:
            return {
                "queue": chance.choice(("orders", "größe")),
                "created": MORNING + timedelta(microseconds=chance.randrange(3)),
                "rule": chance.choice((None, "confirm", "it's")),
                "hops": chance.randrange(3),
                "priority": chance.choice((None, 0, 5)),
                "transient": chance.random() < 0.5,
            }

        alike = [draw() for _ in range(kinds)]
        is_caused, is_requested = chance.random() < 0.5, chance.random() < 0.5
        messages = [
            new(
                **alike[number * kinds // 100 if chance.random() < 0.9 else -1],
                body=f"<order>{number}</order>",
                trigger=number if is_caused else None,
                origin=1 if is_caused else None,
                request=f"r{number}" if is_requested else None,
            )
            for number in range(1, 100)
        ]
        numbers = store.append(messages)
        store.commit([Step(processed=numbers[0], created=tuple(messages[:40]))])
        assert numbers == list(range(1, 100))
        for seq, message in [*zip(numbers, messages, strict=True)][1:]:
            stored = store.message(seq)
            assert stored is not None
            expected = {f.name: getattr(message, f.name) for f in fields(NewMessage) if hasattr(stored, f.name)}
            assert {name: getattr(stored, name) for name in expected} == {**expected, "origin": message.origin or seq}
        if isinstance(store, SqlStore):
            assert verify_tables(store._database).findings == []

    def test_a_message_without_an_origin_is_its_own(self, store: Store):
        store.append([new()])
        [seq] = store.append([new()])
        assert store.message(seq).origin == seq  # type: ignore[union-attr]

    def test_a_time_comes_back_as_the_same_moment_whatever_its_zone(self, store: Store):
        created = datetime.fromisoformat("2026-03-01T12:00:00+05:30")
        [seq] = store.append([new(created=created)])
        assert store.message(seq).created == created  # type: ignore[union-attr]

    def test_numbers_increase_and_steps_take_one_each(self, store: Store):
        assert store.snapshot() == 0
        assert store.append([new(), new()]) == [1, 2]
        first, second = store.commit([Step(processed=1, created=(new(), new())), Step(processed=2)])
        assert (first.number, first.created) == (3, (4, 5))
        assert (second.number, second.created) == (6, ())
        assert store.snapshot() == 6
        assert store.append([new()]) == [7]

    def test_nothing_to_store_takes_no_number(self, store: Store):
        assert store.append([]) == []
        assert store.commit([]) == []
        assert store.snapshot() == 0

    def test_a_message_that_does_not_exist_is_none(self, store: Store):
        assert store.message(1) is None

    # snapshots

    def test_a_message_is_visible_from_its_number_on(self, store: Store):
        store.append([new(), new(queue="others"), new()])
        assert seqs(store.queue("orders", 0)) == []
        assert seqs(store.queue("orders", 2)) == [1]
        assert seqs(store.queue("orders", 3)) == [1, 3]

    def test_what_a_step_creates_is_invisible_to_an_older_snapshot(self, store: Store):
        store.append([new(slices=(("order", "1"),), entries=(("i", "v"),))])
        before = store.snapshot()
        store.commit([Step(processed=1, created=(new(slices=(("order", "1"),), entries=(("i", "v"),)),))])
        for snapshot, expected in ((before, [1]), (store.snapshot(), [1, 3])):
            assert seqs(store.queue("orders", snapshot)) == expected
            assert seqs(store.slice("order", "1", snapshot)) == expected
            assert seqs(store.lookup("i", ["v"], snapshot)) == expected

    def test_a_retired_message_stays_visible_to_an_older_snapshot(self, store: Store):
        store.append([new(entries=(("i", "v"),)), new(entries=(("i", "v"),)), new(entries=(("i", "v"),))])
        before = store.snapshot()
        store.commit([Step(processed=2)])
        assert seqs(store.queue("orders", before)) == [1, 2, 3]
        assert seqs(store.lookup("i", ["v"], before)) == [1, 2, 3]
        assert seqs(store.queue("orders", store.snapshot())) == [1, 3]
        assert seqs(store.lookup("i", ["v"], store.snapshot())) == [1, 3]

    def test_a_snapshot_between_two_steps_of_a_commit_sees_the_first_alone(self, store: Store):
        store.append([new(), new()])
        first, _ = store.commit([Step(processed=1, created=(new("next"),)), Step(processed=2, created=(new("next"),))])
        between = first.created[-1]
        assert seqs(store.queue("orders", between)) == [2]
        assert seqs(store.queue("next", between)) == [between]

    # slices and their lifetimes

    def test_a_slice_holds_its_messages_of_all_queues_in_order(self, store: Store):
        for queue, key in (("b", "1"), ("a", "1"), ("a", "2"), ("b", "1")):
            store.append([new(queue, slices=(("order", key), ("other", "1")))])
        assert seqs(store.slice("order", "1", store.snapshot())) == [1, 2, 4]
        assert seqs(store.slice("order", "2", store.snapshot())) == [3]
        assert seqs(store.slice("order", "3", store.snapshot())) == []
        assert seqs(store.slice("unknown", "1", store.snapshot())) == []

    def test_a_message_is_in_a_slice_once_however_often_it_is_named(self, store: Store):
        store.append([new(slices=(("order", "1"), ("order", "1")), entries=(("i", "v"), ("i", "v")))])
        assert store.message(1).slices == (("order", "1"),)  # type: ignore[union-attr]
        assert store.slice_keys("order", "", 9) == [("1", 1)]
        assert seqs(store.lookup("i", ["v"], 1)) == [1]

    def test_a_message_can_be_in_a_slice_of_its_own_number(self, store: Store):
        first, second = store.append([new(slices=(("own", OWN_NUMBER),)), new(slices=(("own", OWN_NUMBER),))])
        assert seqs(store.slice("own", str(second), store.snapshot())) == [second]
        store.commit([Step(processed=first, resets=(("own", str(first)),))])
        assert store.slice_keys("own", None, 10) == [(str(second), 1)]
        found = store.message(second)
        assert found is not None
        assert found.slices == (("own", str(second)),)

    def test_a_reset_ends_a_lifetime_and_the_message_enqueued_with_it_opens_the_next(self, store: Store):
        order = (("order", "1"),)
        store.append([new(slices=order), new(slices=order), new(slices=(("order", "2"),))])
        before = store.snapshot()
        [done] = store.commit([Step(processed=1, resets=order, created=(new(slices=order),))])
        assert seqs(store.slice("order", "1", store.snapshot())) == list(done.created)
        assert seqs(store.slice("order", "1", before)) == [1, 2]
        assert seqs(store.slice("order", "2", store.snapshot())) == [3]

    def test_every_lifetime_can_be_read_at_its_own_snapshot(self, store: Store):
        order = (("order", "1"),)
        seen = []
        for _ in range(3):
            store.append([new(slices=order)])
            seen.append((store.snapshot(), seqs(store.slice("order", "1", store.snapshot()))))
            store.commit([Step(resets=order)])
        assert [store.slice("order", "1", snapshot)[0].seq for snapshot, _ in seen] == [1, 3, 5]
        assert [found for _, found in seen] == [[1], [3], [5]]

    def test_messages_say_which_slices_they_were_in_at_the_snapshot(self, store: Store):
        store.append([new(slices=(("order", "1"), ("customer", "c")))])
        before = store.snapshot()
        store.commit([Step(resets=(("order", "1"),))])
        [then] = store.queue("orders", before)
        [now] = store.queue("orders", store.snapshot())
        assert then.slices == (("order", "1"), ("customer", "c"))
        assert now.slices == (("customer", "c"),)
        assert store.message(1).slices == (("customer", "c"),)  # type: ignore[union-attr]

    def test_an_unprocessed_message_of_an_old_lifetime_stays_pending_and_is_in_no_slice(self, store: Store):
        store.append([new(slices=(("order", "1"),))])
        [done] = store.commit([Step(resets=(("order", "1"),))])
        assert done.retired == ()
        [waiting] = store.pending(9)
        assert (waiting.seq, waiting.slices, waiting.retired) == (1, (), None)
        [done] = store.commit([Step(processed=1)])
        assert done.retired == (1,)

    def test_resetting_a_slice_twice_or_without_messages_does_no_harm(self, store: Store):
        order = ("order", "1")
        store.append([new(slices=(order,))])
        store.commit(
            [Step(resets=(order, order, ("order", "none"))), Step(resets=(order,), created=(new(slices=(order,)),))]
        )
        assert len(store.slice("order", "1", store.snapshot())) == 1

    def test_slices_made_and_reset_within_one_commit_are_gone(self, store: Store):
        order = (("order", "1"),)
        store.append([new(slices=order)])
        first, second = store.commit(
            [Step(processed=1, created=(new(slices=order),)), Step(resets=order, created=(new("next", slices=order),))]
        )
        assert seqs(store.slice("order", "1", store.snapshot())) == list(second.created)
        assert seqs(store.slice("order", "1", first.created[0])) == [1, *first.created]
        assert second.retired == (1,)

    def test_the_first_of_two_resets_in_one_commit_ends_the_lifetime(self, store: Store):
        order = ("order", "1")
        store.append([new(slices=(order,))])
        first, _ = store.commit([Step(processed=1, resets=(order,)), Step(resets=(order,))])
        assert first.retired == (1,)
        assert store.message(1).retired == first.number  # type: ignore[union-attr]
        assert store.slice("order", "1", first.number) == []
        assert seqs(store.slice("order", "1", 1)) == [1]

        [late] = store.append([new(slices=(order, ("other", "1")))])
        first, _ = store.commit([Step(resets=(order,)), Step(resets=(order,))])
        [message] = store.queue("orders", first.number)
        assert (message.seq, message.slices) == (late, (("other", "1"),))

    def test_keys_of_slices_are_listed_in_pages_with_their_sizes(self, store: Store):
        for key in ("b", "a", "c", "b", "ä", "Z", "gone"):
            store.append([new(slices=(("order", key),))])
        store.commit([Step(resets=(("order", "gone"),))])
        assert store.slice_keys("order", "", 3) == [("Z", 1), ("a", 1), ("b", 2)]
        assert store.slice_keys("order", "a", 9) == [("b", 2), ("c", 1), ("ä", 1)]
        assert store.slice_keys("other", "", 9) == []

    def test_the_largest_and_the_oldest_slices_are_found(self, store: Store):
        for key in ("b", "a", "c", "a", "c", "c", "gone", "gone", "gone", "gone"):
            store.append([new(slices=(("order", key), ("other", key)))])
        store.commit([Step(resets=(("order", "gone"),))])
        assert store.notable_slices("order", "size", 100, 2) == [("c", 3, 3), ("a", 2, 2)]
        assert store.notable_slices("order", "age", 100, 2) == [("b", 1, 1), ("a", 2, 2)]
        assert len(store.notable_slices("order", "size", 1, 9)) == 1
        assert store.notable_slices("nothing", "age", 100, 9) == []

    def test_members_of_former_lifetimes_are_known_by_the_reset_that_ended_them(self, store: Store):
        order = (("order", "1"),)
        store.append([new(slices=order), new(slices=order), new(slices=(("order", "2"),))])
        [first] = store.commit([Step(resets=(("order", "1"), ("order", "2")), created=(new(slices=order),))])
        [second] = store.commit([Step(resets=order)])
        assert store.ended_members("order", "1", 100) == [
            (1, first.number),
            (2, first.number),
            (first.created[0], second.number),
        ]
        assert store.ended_members("order", "1", 1) == [(first.created[0], second.number)]
        assert store.ended_members("order", "3", 100) == []

    def test_the_empty_text_is_a_key_too_and_comes_first(self, store: MemoryStore | SqliteStore):
        store.append([new(slices=(("order", ""),)), new(slices=(("order", "a"),))])
        assert seqs(store.slice("order", "", 2)) == [1]
        assert store.slice_keys("order", None, 9) == [("", 1), ("a", 1)]

    # indexes

    def test_a_lookup_finds_each_message_once_in_order(self, store: Store):
        store.append([new(entries=(("i", "b"), ("i", "a"))), new(entries=(("i", "c"),)), new(entries=(("i", "a"),))])
        store.append([new(entries=(("j", "a"),))])
        assert seqs(store.lookup("i", ["a", "b", "a"], store.snapshot())) == [1, 3]
        assert seqs(store.lookup("i", ["c"], store.snapshot())) == [2]
        assert seqs(store.lookup("i", [], store.snapshot())) == []
        assert seqs(store.lookup("i", ["A", "x"], store.snapshot())) == []

    def test_what_would_be_read_is_counted_up_to_a_limit(self, store: Store):
        members = [new(slices=(("s", "a"),)) for _ in range(3)] + [new(slices=(("s", "b"), ("t", "a")))]
        entries = [new(entries=(("i", "a"),)), new(entries=(("i", "a"), ("i", "b"))), new(entries=(("j", "a"),))]
        store.append([*members, *entries])
        assert [store.count_members("s", ["a"], limit) for limit in (2, 3, 9)] == [2, 3, 3]
        assert store.count_members("s", ["a", "b", "none"], 9) == 4
        assert store.count_members("s", [], 9) == store.count_members("u", ["a"], 9) == 0
        assert [store.count_found("i", ["a"], limit) for limit in (1, 9)] == [1, 2]
        assert store.count_found("i", ["a", "b", "none"], 9) == 3
        assert store.count_found("i", [], 9) == store.count_found("k", ["a"], 9) == 0
        store.commit([Step(processed=1, resets=(("s", "a"),))])
        assert store.count_members("s", ["a"], 9) == 0

    def test_what_is_found_in_an_index_is_what_a_lookup_returns(self, store: Store):
        store.append([new(entries=(("i", "b"), ("i", "a"))), new(entries=(("i", "c"),)), new(entries=(("i", "a"),))])
        before = store.snapshot()
        store.commit([Step(processed=1)])
        for snapshot, expected in ((0, []), (2, [1]), (before, [1, 3]), (store.snapshot(), [3])):
            found = store.find("i", ["a", "none"], snapshot)
            assert {value: sorted(seqs) for value, seqs in found.items()} == {"a": expected, "none": []}
        assert store.find("i", [], before) == {}

    def test_values_that_look_like_numbers_or_quotes_are_only_texts(self, store: Store):
        values = ["1", "1.0", "01", "", "null", '"', "\\", "[", "é", "'"]
        store.append([new(entries=(("i", value),)) for value in values])
        for number, value in enumerate(values, 1):
            assert seqs(store.lookup("i", [value], store.snapshot())) == [number]

    # processing and retirement

    def test_a_processed_message_in_no_slice_retires_at_once(self, store: Store):
        store.append([new()])
        [done] = store.commit([Step(processed=1)])
        assert done.retired == (1,)
        message = store.message(1)
        assert message is not None
        assert (message.processed, message.retired) == (done.number, done.number)

    def test_a_processed_message_in_a_slice_is_retained_until_the_reset(self, store: Store):
        store.append([new(slices=(("order", "1"),))])
        assert store.commit([Step(processed=1)])[0].retired == ()
        assert seqs(store.queue("orders", store.snapshot())) == [1]
        assert store.commit([Step(resets=(("order", "1"),))])[0].retired == (1,)
        assert seqs(store.queue("orders", store.snapshot())) == []

    def test_several_slicings_hold_a_message_until_the_last_is_reset(self, store: Store):
        slices = (("order", "1"), ("customer", "c"), ("month", "3"))
        store.append([new(slices=slices)])
        store.commit([Step(processed=1)])
        retired = [store.commit([Step(resets=(slice,))])[0].retired for slice in reversed(slices)]
        assert retired == [(), (), (1,)]

    def test_a_message_that_resets_its_own_slice_retires_with_the_others(self, store: Store):
        store.append([new(slices=(("order", "1"),)) for _ in range(3)])
        store.commit([Step(processed=1)])
        [done] = store.commit([Step(processed=3, resets=(("order", "1"),))])
        assert done.retired == (1, 3)
        assert seqs(store.pending(9)) == [2]

    def test_a_message_may_be_processed_in_the_commit_that_creates_it(self, store: Store):
        store.append([new()])
        first, second = store.commit([Step(processed=1, created=(new("next"),)), Step(processed=3)])
        assert first.created == (3,)
        assert second.retired == (3,)
        assert store.pending(9) == []
        assert seqs(store.stored(None, 0, 9)) == [1, 3]

    def test_what_comes_and_goes_within_a_commit_need_not_be_stored(self, store: Store):
        [first] = store.append([new()])
        made, kept = new(trigger=first), new(slices=(("s", "1"),), entries=(("i", "1"),))
        committed = store.commit(
            [Step(processed=first, created=(made, kept)), Step(processed=first + 2), Step(processed=first + 3)],
            elide=True,
        )
        assert [step.created for step in committed] == [(first + 2, first + 3), (), ()]
        assert [step.retired for step in committed] == [(first,), (first + 2,), ()]
        assert store.message(first + 2) is None
        assert seqs(store.stored(None, 0, 10)) == [first + 3]
        assert seqs(store.slice("s", "1", store.snapshot())) == [first + 3]
        assert store.counts() == {"orders": (1, 0)}
        assert store.snapshot() == first + 5

    def test_what_is_done_with_can_be_removed_by_the_commit_that_ends_it(self, store: Store):
        waiting = new(slices=(("s", "1"),), entries=(("i", "1"),), request="r")
        store.append([waiting, new(), new(slices=(("s", "1"),), entries=(("i", "1"),))])
        assert [step.retired for step in store.commit([Step(processed=1), Step(processed=2)], elide=True)] == [(), (2,)]
        assert seqs(store.stored(None, 0, 10)) == [1, 3]
        [done] = store.commit([Step(processed=3, resets=(("s", "1"),))], elide=True)
        assert done.retired == (1, 3)
        assert store.stored(None, 0, 10) == []
        assert store.slice("s", "1", done.number - 1) == store.lookup("i", ["1"], done.number - 1) == []
        assert all(numbers == (0, 0) for numbers in store.counts().values())
        assert store.append([waiting]) == [1], "its request is still remembered"
        assert store.collect_garbage(FOREVER, 9) == 0

    def test_what_is_done_with_but_to_be_sent_again_is_not_removed_yet(self, store: Store):
        store.append([new("mail", slices=(("s", "1"),), undelivered=True), new()])
        store.commit([Step(delivered=1), Step(processed=1)], elide=True)
        assert store.send_again([1], MORNING) == []
        [done] = store.commit([Step(processed=2, resets=(("s", "1"),))], elide=True)
        assert done.retired == (1, 2)
        assert seqs(store.stored(None, 0, 10)) == [1]
        store.commit([Step(delivered=1)], elide=True)
        assert store.collect_garbage(FOREVER, 9) == 1

    def test_messages_are_read_in_one_go_in_order_as_far_as_they_are_there(self, store: Store):
        numbers = store.append([new(), new(), new()])
        assert seqs(store.messages([numbers[2], 77, numbers[0]])) == [numbers[0], numbers[2]]
        assert store.messages([]) == []

    def test_a_mailbox_message_is_never_pending_and_stays_until_a_client_takes_it(self, store: Store):
        store.append([new("mailbox", priority=None)])
        assert store.pending(9) == []
        assert store.collect_garbage(FOREVER, 9) == 0
        assert seqs(store.queue("mailbox", store.snapshot())) == [1]
        assert store.commit([Step(processed=1)])[0].retired == (1,)

    def test_those_who_take_messages_find_the_oldest_that_wait(self, store: Store):
        numbers = store.append([new("box", priority=None, slices=(("s", "1"),)) for _ in range(4)] + [new("other")])
        store.commit([Step(processed=numbers[0]), Step(processed=numbers[2])])
        assert seqs(store.waiting("box", 1)) == [numbers[1]]
        assert seqs(store.waiting("box", 10)) == [numbers[1], numbers[3]]
        assert store.waiting("nobody's", 10) == []

    def test_processing_a_message_twice_keeps_nothing_of_the_whole_commit(self, store: Store):
        order = (("order", "1"),)
        store.append([new(), new(slices=order), new(undelivered=True)])
        store.commit([Step(processed=1)])
        before = (store.snapshot(), store.stored(None, 0, 9), store.counts(), store.slice_keys("order", "", 9))
        with pytest.raises(AlreadyProcessed):
            store.commit([Step(processed=2, resets=order, created=(new("next", request="r"),)), Step(processed=1)])
        assert before == (store.snapshot(), store.stored(None, 0, 9), store.counts(), store.slice_keys("order", "", 9))
        assert seqs(store.pending(9)) == [2, 3]
        [done] = store.commit([Step(processed=2, created=(new("next", request="r"),))])
        assert done.created == (done.number + 1,)

    @pytest.mark.parametrize(
        "steps",
        [
            [Step(processed=1), Step(processed=1)],
            [Step(processed=1, fired=1)],
            [Step(fired=1), Step(processed=1)],
            [Step(processed=2)],
            [Step(fired=99)],
        ],
    )
    def test_a_message_is_processed_once_even_within_one_commit_or_never_if_it_is_not_there(
        self, store: Store, steps: list[Step]
    ):
        store.append([new()])
        with pytest.raises(AlreadyProcessed):
            store.commit(steps)
        assert store.snapshot() == 1
        assert seqs(store.pending(9)) == [1]

    def test_pending_messages_can_be_asked_for_but_for_some(self, store: Store):
        store.append([new(priority=priority) for priority in (0, 5, 0, 5)])
        assert seqs(store.pending(9, but=[2, 3])) == [4, 1]
        assert seqs(store.pending(1, but=[2])) == [4]
        queues = {message.seq: message.queue for message in store.pending(9)}
        for queue in set(queues.values()):
            others = [seq for seq, of in queues.items() if of != queue]
            assert seqs(store.pending(9, but_of=[queue])) == others
            assert seqs(store.pending(9, but=others[:1], but_of=[queue])) == others[1:]
        assert seqs(store.pending(9, but_of=list(queues.values()))) == []

    def test_many_slices_and_many_lookups_are_as_each_alone(self, store: Store):
        store.append([new(slices=(("s", key),), entries=(("i", value),)) for key, value in ("ax", "by", "ay", "cx")])
        store.append([new(slices=(("s", "a"), ("s", "b")), entries=(("i", "x"), ("i", "y")))])
        store.commit([Step(processed=seq) for seq in range(1, 6)])
        before = store.snapshot()
        store.commit([Step(resets=(("s", "a"),)), Step(resets=(("s", "c"),))])
        for snapshot in (3, before, store.snapshot()):
            slices = store.slices("s", ["a", "b", "c", "nobody"], snapshot)
            lookups = store.lookups("i", ["x", "y", "z"], snapshot)
            assert {key: seqs(found) for key, found in slices.items()} == {
                key: seqs(store.slice("s", key, snapshot)) for key in ("a", "b", "c", "nobody")
            }
            assert {value: seqs(found) for value, found in lookups.items()} == {
                value: seqs(store.lookup("i", [value], snapshot)) for value in ("x", "y", "z")
            }
        assert store.slices("s", [], before) == {}

    def test_numbers_of_what_came_and_went_are_taken(self, store: Store):
        store.append([new()])
        [done] = store.commit([Step(processed=1, elided=6, created=(new("left", trigger=4),))], elide=True)
        assert (done.number, done.created) == (2, (9,))
        assert store.snapshot() == 9
        assert seqs(store.queue("left", 9)) == [9]
        folded, last = store.commit([Step(processed=9, elided=4, created=(new(),)), Step(processed=15)], elide=True)
        assert (folded.created, last.retired) == ((15,), (15,))

    @pytest.mark.parametrize("elide", [False, True])
    def test_a_step_that_only_stores_messages_takes_no_number_and_later_ones_may_process_them(
        self, store: Store, elide: bool
    ):
        assert store.append([new("out")]) == [1]
        passed, arrived, done = store.commit(
            [
                Step(elided=4, created=(new("out", trigger=2), new("out", trigger=4))),
                Step(created=(new(), new(request="a"))),
                Step(processed=8, created=(new("out", trigger=8),)),
            ],
            elide,
        )
        assert (passed.number, passed.created) == (1, (6, 7))
        assert (arrived.number, arrived.created, arrived.retired) == (7, (8, 9), ())
        assert (done.number, done.created, done.retired) == (10, (11,), (8,))
        assert store.snapshot() == 11
        assert seqs(store.queue("out", 11)) == [1, 6, 7, 11]
        assert store.append([new(request="a"), new()]) == [9, 12]
        assert (store.message(8) is None) == elide
        assert store.counts()["out"] == (4, 4)

    def test_pending_messages_come_by_priority_then_by_age(self, store: Store):
        store.append([new(priority=priority) for priority in (0, 5, -3, 5, None, 0)])
        assert seqs(store.pending(9)) == [2, 4, 1, 6, 3]
        assert seqs(store.pending(3)) == [2, 4, 1]
        store.commit([Step(processed=2)])
        assert seqs(store.pending(2)) == [4, 1]

    def test_what_a_message_caused_is_known_as_long_as_it_is_there(self, store: Store):
        store.append([new()])
        store.commit([Step(processed=1, created=(new("a", trigger=1), new("b", trigger=1, slices=(("s", "k"),))))])
        store.append([new(trigger=3)])
        assert store.caused_by(1) == [3, 4]
        assert store.caused_by(3) == [5]
        assert store.caused_by(4) == []
        store.commit([Step(processed=3), Step(processed=4)])
        store.collect_garbage(FOREVER, 9)
        assert store.caused_by(1) == [4]

    # gateways

    def test_an_undelivered_message_does_not_retire_before_it_is_delivered(self, store: Store):
        store.append([new("out", undelivered=True)])
        assert store.commit([Step(processed=1)])[0].retired == ()
        before = store.snapshot()
        store.commit([Step(delivered=1)])
        assert store.snapshot() == before + 1
        message = store.message(1)
        assert message is not None
        assert (message.undelivered, message.retired) == (False, before + 1)
        assert seqs(store.queue("out", before)) == [1]
        assert store.queue("out", store.snapshot()) == []

    def test_a_delivered_message_retires_only_when_processed_and_released(self, store: Store):
        store.append([new("out", undelivered=True, slices=(("s", "k"),))])
        store.commit([Step(delivered=1)])
        assert seqs(store.queue("out", store.snapshot())) == [1]
        assert store.commit([Step(processed=1)])[0].retired == ()
        assert store.commit([Step(resets=(("s", "k"),))])[0].retired == (1,)

    def test_a_reset_releases_an_undelivered_message_and_delivery_retires_it(self, store: Store):
        store.append([new("out", undelivered=True, slices=(("s", "k"),), entries=(("i", "v"),))])
        assert store.commit([Step(processed=1, resets=(("s", "k"),))])[0].retired == ()
        store.commit([Step(delivered=1)])
        assert store.lookup("i", ["v"], store.snapshot()) == []
        assert store.counts() == {}

    def test_what_is_not_to_be_sent_cannot_be_delivered(self, store: Store):
        store.append([new("out", undelivered=True), new(), new("out", undelivered=True)])
        store.commit([Step(delivered=1)])
        before = store.snapshot()
        for seq in (1, 2, 99):
            with pytest.raises(AlreadyProcessed):
                store.commit([Step(delivered=3), Step(delivered=seq)])
        assert store.snapshot() == before
        assert to_send(store) == [(3, 0)]

    def test_a_message_that_is_not_processed_otherwise_may_be_processed_by_its_delivery(self, store: Store):
        store.append([new("out", undelivered=True, priority=None)])
        [done] = store.commit([Step(processed=1, delivered=1, created=(new("answers"),))])
        assert (done.retired, done.created) == ((1,), (3,))

    def test_messages_are_sent_as_they_are_due(self, store: Store):
        hour = timedelta(hours=1)
        times = (MORNING + hour, MORNING, MORNING + 2 * hour, MORNING)
        store.append([new("out", undelivered=True, created=at) for at in times])
        store.append([new("other", undelivered=True), new("out")])
        assert to_send(store) == [(1, 0), (2, 0), (3, 0), (4, 0)]
        assert seqs(store.to_send("out", MORNING + hour, 0, 2)) == [1, 2]
        assert seqs(store.to_send("out", MORNING + hour, 2, 9)) == [4], "the third is not due"
        assert seqs(store.to_send_again("out", FOREVER, None, 9, 9)) == [2, 4, 1, 3]
        assert seqs(store.to_send_again("out", MORNING + hour, None, 9, 2)) == [2, 4]
        assert seqs(store.to_send_again("out", MORNING + hour, (MORNING, 2), 9, 9)) == [4, 1]
        assert seqs(store.to_send_again("out", MORNING + hour, (MORNING, 4), 9, 9)) == [1]
        assert seqs(store.to_send_again("out", FOREVER, (MORNING, 0), 2, 9)) == [2, 1]
        assert store.sendings() == {"other": (1, MORNING, MORNING), "out": (4, MORNING, MORNING + hour)}
        assert store.next_to_send("out", MORNING) == MORNING + hour
        again = Postponed(message=2, due=MORNING + 3 * hour, attempt=attempt(2, 1, "again"))
        store.postpone([again, Postponed(message=4, due=MORNING + 4 * hour), Postponed(message=6, due=MORNING)])
        assert store.next_to_send("out", MORNING + 3 * hour) == MORNING + 4 * hour
        assert store.next_to_send("out", MORNING + 4 * hour) is None
        assert to_send(store) == [(1, 0), (2, 1), (3, 0), (4, 0)]
        later = store.to_send_again("out", FOREVER, (MORNING + 2 * hour, 3), 9, 9)
        assert [(found.seq, found.due) for found in later] == [(2, MORNING + 3 * hour), (4, MORNING + 4 * hour)]
        assert store.sendings()["out"] == (4, MORNING + hour, MORNING + hour)

    def test_the_next_message_to_send_is_the_first_that_is_not_due_yet(self, store: Store):
        hour = timedelta(hours=1)
        times = (MORNING, MORNING + 2 * hour, MORNING + hour)
        store.append([new("out", undelivered=True, created=at) for at in times])
        store.append([new("other", undelivered=True)])
        assert store.next_to_send("out", MORNING - hour) == MORNING
        assert store.next_to_send("out", MORNING) == MORNING + hour
        assert store.next_to_send("out", MORNING + 2 * hour) is None
        assert store.next_to_send("elsewhere", MORNING - hour) is None

    def test_what_is_to_be_sent_is_listed_as_it_is_due(self, store: Store):
        hour = timedelta(hours=1)
        store.append([new("out", undelivered=True), new("other", undelivered=True), new("out", undelivered=True)])
        store.postpone([Postponed(message=1, due=MORNING + hour, attempt=attempt(1, 1, "again"))])
        late = Unsent(message=1, queue="out", created=MORNING, due=MORNING + hour, attempts=1)
        other = Unsent(message=2, queue="other", created=MORNING, due=MORNING, attempts=0)
        third = Unsent(message=3, queue="out", created=MORNING, due=MORNING, attempts=0)
        assert store.unsent(None, None, 9) == [other, third, late]
        assert store.unsent(None, None, 2) == [other, third]
        assert store.unsent("out", None, 9) == [third, late]
        assert store.unsent(None, 1, 9) == store.unsent("out", 1, 9) == [late]
        assert store.unsent("other", 1, 9) == store.unsent(None, 99, 9) == []
        store.commit([Step(delivered=3)])
        assert store.unsent("out", None, 9) == [late]

    def test_attempts_are_remembered_longer_than_their_messages(self, store: Store, clock: Clock):
        store.append([new("out", undelivered=True, priority=None), new("other", undelivered=True)])
        tried = attempt(1, 1, "again")
        store.postpone([Postponed(message=1, due=MORNING, attempt=tried)])
        sent = attempt(1, 2, "sent")
        store.commit([Step(processed=1, delivered=1, attempt=sent)])
        waiting = attempt(2, 1, "again", queue="other")
        store.postpone([Postponed(message=2, due=MORNING, attempt=waiting)])
        assert store.collect_garbage(FOREVER, 9) == 1
        assert store.attempts(None, None, 9) == [waiting, sent, tried]
        assert store.attempts("out", None, 1) == [sent]
        assert store.attempts(None, 2, 9) == store.attempts("other", 2, 9) == [waiting]
        assert store.attempts("out", 2, 9) == []
        clock.time = MORNING + timedelta(days=1, seconds=1)
        store.collect_garbage(FOREVER, 9)
        assert store.attempts(None, None, 9) == [waiting]

    def test_a_message_can_be_sent_again_as_long_as_it_is_there(self, store: Store):
        store.append([new("out", undelivered=True, priority=None)])
        store.commit([Step(processed=1, delivered=1, attempt=attempt(1, 1, "failed"))])
        assert store.send_again([1], MORNING) == []
        assert to_send(store) == [(1, 0)]
        assert store.collect_garbage(FOREVER, 9) == 0
        [done] = store.commit([Step(delivered=1, attempt=attempt(1, 2, "sent"))])
        assert done.retired == ()
        assert store.collect_garbage(FOREVER, 9) == 1
        assert store.send_again([1], MORNING) == [1]

    def test_of_several_messages_all_are_sent_again_or_none(self, store: Store):
        store.append([new("out", undelivered=True, priority=None) for _ in range(4)])
        store.postpone([Postponed(message=1, due=FOREVER, attempt=attempt(1, 3, "again"))])
        store.commit([Step(processed=2, delivered=2), Step(processed=3, delivered=3)], elide=True)
        store.commit([Step(processed=4, delivered=4)])
        assert store.send_again([1, 2, 3, 4], MORNING) == [2, 3]
        assert [(each.message, each.due, each.attempts) for each in store.unsent(None, None, 9)] == [(1, FOREVER, 3)]
        assert store.send_again([4, 1, 4], MORNING) == []
        assert [(each.message, each.due, each.attempts) for each in store.unsent(None, None, 9)] == [
            (1, MORNING, 0),
            (4, MORNING, 0),
        ]

    def test_what_waits_to_be_sent_may_be_due_at_once_and_counts_anew(self, store: Store):
        store.append([new("out", undelivered=True)])
        store.postpone([Postponed(message=1, due=FOREVER, attempt=attempt(1, 1, "again"))])
        assert store.send_again([1], MORNING) == []
        assert [(found.seq, found.attempts) for found in store.to_send("out", MORNING, 0, 9)] == [(1, 0)]

    def test_what_is_to_be_sent_is_shown_with_its_properties_and_slices(self, store: Store):
        properties = {"Recipient": PropertyValue.string("http://there.invalid/")}
        store.append([new("out", undelivered=True, properties=properties, slices=(("s", "k"), ("s", "l")))])
        store.commit([Step(resets=(("s", "l"),))])
        [found] = store.to_send("out", FOREVER, 0, 9)
        assert (found.queue, found.properties, found.slices) == ("out", properties, (("s", "k"),))

    def test_the_first_answer_on_a_connection_is_remembered(self, store: Store, clock: Clock):
        store.append([new("out", undelivered=True), new("out", undelivered=True)])
        first = StoredAnswer(connection="c", status=200, content_type="application/xml", body="<a>ü</a>")
        store.commit([Step(delivered=1, answer=first)])
        store.commit([Step(delivered=2, answer=replace(first, body="<b/>"))])
        assert store.answer("c") == first
        assert store.answer("d") is None
        clock.time = MORNING + timedelta(days=1, seconds=1)
        store.collect_garbage(FOREVER, 9)
        assert store.answer("c") is None

    def test_a_store_has_a_name_of_its_own(self, store: Store):
        assert len(store.identity()) == 32
        assert store.identity() == store.identity() != MemoryStore().identity()

    def test_in_a_new_epoch_new_messages_have_another_name_and_the_older_ones_keep_theirs(self, store: Store):
        first = store.identity()
        store.append([new(), new()])
        second = store.begin_epoch()
        store.append([new()])
        assert second == store.identity() != first
        assert len(second) == 32
        assert second[:16] == first[:16]  # it is the same store
        names = [store.epochs().message_name(seq) for seq in (1, 2, 3, 99)]
        assert names == [f"{first}/1", f"{first}/2", f"{second}/3", f"{second}/99"]

    def test_of_epochs_in_which_nothing_was_stored_only_the_last_one_counts(self, store: Store):
        store.append([new()])
        first = store.identity()
        names = {store.begin_epoch() for _ in range(3)}
        assert len(names) == 3
        assert store.epochs().epoch_name(1) == first
        assert store.epochs().epoch_name(2) == store.identity() in names

    # timers

    def test_timers_come_in_due_order_then_by_age(self, store: Store):
        for hours in (3, 1, 2, 1):
            store.append([new("echo", priority=None, timer=Timer(due=MORNING + timedelta(hours=hours), target="t"))])
        assert store.next_due() == MORNING + timedelta(hours=1)
        assert store.due_timers(MORNING, 9) == []
        assert seqs(store.due_timers(MORNING + timedelta(hours=2), 9)) == [2, 4, 3]
        assert seqs(store.due_timers(MORNING + DAY, 3)) == [2, 4, 3]
        assert store.pending(9) == []

    def test_a_timer_fires_once_and_counts_as_processed(self, store: Store):
        store.append([new("echo", priority=None, timer=Timer(due=MORNING, target="t"))])
        [done] = store.commit([Step(fired=1, created=(new("t", trigger=1),))])
        assert done.retired == (1,)
        assert store.message(1).processed == done.number  # type: ignore[union-attr]
        assert store.due_timers(FOREVER, 9) == []
        assert store.next_due() is None
        with pytest.raises(AlreadyProcessed):
            store.commit([Step(fired=1)])

    def test_resetting_a_slice_cancels_no_timer(self, store: Store):
        store.append([new("echo", priority=None, slices=(("s", "k"),), timer=Timer(due=MORNING, target="t"))])
        store.commit([Step(resets=(("s", "k"),))])
        assert seqs(store.due_timers(MORNING, 9)) == [1]

    def test_a_fired_message_in_a_slice_is_retained(self, store: Store):
        store.append([new("echo", priority=None, slices=(("s", "k"),), timer=Timer(due=MORNING, target="t"))])
        assert store.commit([Step(fired=1)])[0].retired == ()
        assert store.commit([Step(resets=(("s", "k"),))])[0].retired == (1,)

    # repeated requests

    def test_a_repeated_request_is_answered_with_the_first_message(self, store: Store):
        assert store.append([new(request="a")]) == [1]
        assert store.append([new(body="<another/>", request="a"), new(), new(request="b"), new(request="b")]) == [
            1,
            2,
            3,
            3,
        ]
        assert store.message(1).body == "<order/>"  # type: ignore[union-attr]
        assert store.snapshot() == 3
        [done] = store.commit([Step(created=(new(request="b"), new(request="c")))])
        assert done.created == (3, 4)
        assert store.append([new(request="c")]) == [4]

    def test_requests_of_one_name_are_one_whatever_their_digests(self, store: Store):
        long = "n" * 300
        assert store.append(
            [new(request=make_request("a", "1")), new(request=make_request("a", "2")), new(request="a b")]
        ) == [
            1,
            1,
            2,
        ]
        assert store.append(
            [new(request=make_request("a", "2")), new(request=make_request("ab", "1")), new(request="old")]
        ) == [
            1,
            3,
            4,
        ]
        assert store.append([new(request=make_request("old", "1"))]) == [4], "known before there were digests"
        assert store.append([new(request=make_request(long, "1")), new(request=make_request(f"{long}er", "2"))]) == [
            5,
            6,
        ]
        assert store.append([new(request=make_request(long, "3"))]) == [5]
        assert store.requested("a\x1f") == {make_request("a", "1"): 1}

    def test_a_name_is_free_again_a_day_after_its_message_was_removed(self, store: Store, clock: Clock):
        store.append([new(request=make_request("a", "1"))])
        store.commit([Step(processed=1)])
        assert store.collect_garbage(FOREVER, 9) == 1
        clock.time += DAY
        store.collect_garbage(FOREVER, 9)
        assert store.append([new(request=make_request("a", "2"))]) == [1]
        clock.time += timedelta(seconds=1)
        store.collect_garbage(FOREVER, 9)
        assert store.append([new(request=make_request("a", "2"))]) == [3]

    def test_the_history_of_a_slice_has_members_of_all_lifetimes(self, store: Store):
        mine = (("s", "1"),)
        store.append([new(slices=mine), new(slices=(("s", "2"),)), new(slices=mine)])
        store.commit([Step(processed=1, resets=mine)])
        store.append([new(slices=mine)])
        assert store.slice_history("s", "1", 9) == [1, 3, 5]
        assert store.slice_history("s", "1", 2) == [1, 3]
        assert store.slice_history("t", "1", 9) == []

    def test_messages_with_a_property_can_be_spared_from_elision(self, store: Store):
        mark = {"demaq:sampled": PropertyValue("boolean", "true", "true")}
        decoy = {"p": PropertyValue.string('"demaq:sampled"')}
        store.append([new(properties=mark), new(properties=decoy), new(properties=mark, request="r")])
        created = tuple([new(properties=each, trigger=1, origin=1) for each in (mark, decoy)])
        steps = [Step(processed=1, created=created), Step(processed=2), Step(processed=3), Step(processed=5)]
        [done, *_] = store.commit([*steps, Step(processed=6)], elide="demaq:sampled")
        assert done.created == (5, 6)
        assert [message.seq for message in store.stored(None, 0, 9)] == [1, 3, 5]
        assert all([message.retired is not None for message in store.messages([1, 3, 5])])
        assert store.append([new(request="r")]) == [3]
        assert store.collect_garbage(FOREVER, 9) == 3

    def test_the_messages_of_a_conversation_are_found_by_its_first_one(self, store: Store):
        store.append([new(), new()])
        store.commit([Step(processed=1, created=(new(trigger=1, origin=1), new(trigger=1, origin=1)))])
        store.commit([Step(processed=2, created=(new(trigger=2, origin=2),))])
        (last,) = store.commit([Step(processed=4, created=(new(trigger=4, origin=1),))])[0].created
        assert store.conversation(1, 100) == [(1, None), (4, 1), (5, 1), (last, 4)]
        assert store.conversation(1, 4) == [(1, None), (4, 1), (5, 1)]
        assert store.conversation(4, 100) == []

    def test_requests_are_found_by_how_they_begin(self, store: Store):
        store.append([new(request=name) for name in ("a:1:x", "a:10", "a:1:", "a:1:\U0001f600", "a:", "b")])
        assert store.requested("a:1:") == {"a:1:": 3, "a:1:x": 1, "a:1:\U0001f600": 4}
        assert list(store.requested("a:")) == ["a:", "a:10", "a:1:", "a:1:x", "a:1:\U0001f600"]
        assert store.requested("c") == {}
        long = "l" * 300
        store.append([new(request=long), new(request=f"{long}er")])
        assert store.requested(long) == {long: 7, f"{long}er": 8}
        assert store.requested(f"{long}e") == {f"{long}er": 8}
        assert store.first_requested("a:", "") == ("a:", 5)
        assert store.first_requested("a:", "a:1:y") == ("a:1:\U0001f600", 4)
        assert store.first_requested("a:", "b") is None
        assert store.first_requested(long, f"{long}a") == (f"{long}er", 8)
        assert store.request_of(3) == "a:1:"
        assert store.request_of(1_000_000) is None

    def test_a_request_is_remembered_for_a_day_after_its_message_was_removed(self, store: Store, clock: Clock):
        store.append([new(request="a")])
        store.commit([Step(processed=1)])
        assert store.collect_garbage(FOREVER, 9) == 1
        clock.time += DAY
        store.collect_garbage(FOREVER, 9)
        assert store.append([new(request="a")]) == [1]
        assert store.message(1) is None
        clock.time += timedelta(seconds=1)
        store.collect_garbage(FOREVER, 9)
        assert store.append([new(request="a")]) == [3]

    # garbage collection

    def test_garbage_is_what_retired_before_a_time_longest_retired_first(self, store: Store, clock: Clock):
        store.append([new() for _ in range(6)])
        for seq in (3, 1, 2, 5):
            store.commit([Step(processed=seq)])
            clock.time += timedelta(hours=1)
        assert store.collect_garbage(MORNING, 9) == 0
        assert store.collect_garbage(MORNING + timedelta(hours=3), 2) == 2
        assert seqs(store.stored(None, 0, 9)) == [2, 4, 5, 6]
        assert store.collect_garbage(MORNING + timedelta(hours=3), 9) == 1
        assert store.collect_garbage(MORNING + timedelta(hours=3), 9) == 0
        assert seqs(store.stored(None, 0, 9)) == [4, 5, 6]

    def test_removed_messages_leave_nothing(self, store: Store):
        message = new(slices=(("s", "k"), ("t", "k")), entries=(("i", "v"),))
        store.append([message, message])
        before = store.snapshot()
        store.commit([Step(processed=1, resets=(("s", "k"),)), Step(resets=(("t", "k"),))])
        assert store.collect_garbage(FOREVER, 9) == 1
        assert store.message(1) is None
        assert seqs(store.queue("orders", before)) == [2]
        assert seqs(store.slice("s", "k", before)) == [2]
        assert seqs(store.slice("t", "k", before)) == [2]
        assert seqs(store.lookup("i", ["v"], before)) == [2]

    def test_nothing_visible_is_ever_removed(self, store: Store):
        store.append([new(), new(slices=(("s", "k"),)), new("out", undelivered=True), new("box", priority=None)])
        store.append([new("echo", priority=None, timer=Timer(due=MORNING, target="t"))])
        store.commit([Step(processed=2), Step(processed=3)])
        assert store.collect_garbage(FOREVER, 99) == 0
        assert len(store.stored(None, 0, 99)) == 5

    def test_numbers_are_not_used_again_after_the_newest_messages_were_removed(self, store: Store):
        store.append([new(), new()])
        store.commit([Step(processed=2)])
        store.collect_garbage(FOREVER, 9)
        assert store.append([new()]) == [4]

    # listings

    def test_everything_stored_is_listed_in_pages_retired_or_not(self, store: Store):
        store.append([new("a"), new("b"), new("a"), new("a"), new("b")])
        store.commit([Step(processed=3)])
        assert seqs(store.stored(None, 0, 2)) == [1, 2]
        assert seqs(store.stored(None, 2, 9)) == [3, 4, 5]
        assert seqs(store.stored("a", 0, 2)) == [1, 3]
        assert seqs(store.stored("a", 3, 2)) == [4]
        assert seqs(store.stored("c", 0, 9)) == []

    def test_what_rules_see_of_a_queue_and_of_a_slice_is_listed_in_pages(self, store: Store):
        member = (("s", "k"),)
        store.append([new("a", slices=member), new("b"), new("a"), new("a", slices=member), new("a", slices=member)])
        store.commit([Step(processed=3), Step(processed=4)])
        assert seqs(store.visible("a", 0, 2)) == [1, 4]
        assert seqs(store.visible("a", 4, 2)) == [5]
        assert seqs(store.members("s", "k", 0, 2)) == [1, 4]
        assert seqs(store.members("s", "k", 4, 2)) == [5]
        store.commit([Step(resets=member)])
        assert seqs(store.visible("a", 0, 9)) == [1, 5]
        assert store.members("s", "k", 0, 9) == []

    def test_timers_are_listed_in_pages_from_after_one_of_them(self, store: Store):
        for hours in (3, 1, 2, 1):
            store.append([new("echo", priority=None, timer=Timer(due=MORNING + timedelta(hours=hours), target="t"))])
        store.append([new()])
        assert seqs(store.timers(None, 2)) == [2, 4]
        assert seqs(store.timers((MORNING + timedelta(hours=1), 2), 2)) == [4, 3]
        store.commit([Step(fired=2)])
        assert seqs(store.timers((MORNING + timedelta(hours=1), 2), 9)) == [4, 3, 1]
        assert seqs(store.timers(None, 9)) == [4, 3, 1]

    def test_the_times_of_what_waits_are_those_of_the_first_messages_of_a_priority(self, store: Store):
        times = [MORNING + timedelta(minutes=minute) for minute in range(5)]
        queues = [("a", 0), ("b", 5), ("a", 0), ("c", 0), ("box", None)]
        made = [
            replace(new(queue, priority=priority), created=at)
            for (queue, priority), at in zip(queues, times, strict=True)
        ]
        first, *_ = store.append(made)
        assert store.pending_times(0, 10) == [("a", times[0]), ("a", times[2]), ("c", times[3])]
        assert store.pending_times(0, 2) == [("a", times[0]), ("a", times[2])]
        assert store.pending_times(5, 10) == [("b", times[1])]
        assert (store.waiting_time("box"), store.waiting_time("a")) == (times[4], None)
        store.commit([Step(processed=first)])
        assert store.pending_times(0, 1) == [("a", times[2])]

    def test_counts_are_of_visible_messages_and_of_the_unprocessed_ones(self, store: Store):
        assert store.counts() == {}
        store.append([new("a"), new("a"), new("b", slices=(("s", "k"),)), new("box", priority=None)])
        assert store.counts() == {"a": (2, 2), "b": (1, 1), "box": (1, 1)}
        store.commit([Step(processed=1), Step(processed=3)])
        assert store.counts() == {"a": (1, 1), "b": (1, 0), "box": (1, 1)}
        store.commit([Step(processed=2), Step(resets=(("s", "k"),))])
        assert store.counts() == {"box": (1, 1)}

    # collections and programs

    def test_a_collection_is_replaced_and_its_version_counted(self, store: Store):
        assert store.collection("prices") == (0, [])
        assert store.load_collection("prices", ["<b/>", "<a/>", "<a/>"]) == 1
        assert store.collection("prices") == (1, ["<b/>", "<a/>", "<a/>"])
        assert store.load_collection("prices", []) == 2
        assert store.collection("prices") == (2, [])
        assert store.load_collection("prices", ["<c/>"]) == 3
        assert store.load_collection("customers", ["<d/>"]) == 1
        assert store.collection("prices") == (3, ["<c/>"])
        assert store.collections() == [("customers", 1, 1), ("prices", 3, 1)]
        store.load_collection("customers", [])
        assert store.collections() == [("customers", 2, 0), ("prices", 3, 1)]

    def test_a_version_of_the_program_is_active_from_its_activation_on(self, store: Store):
        assert store.program() is None
        files = {"a.dmq": 'create queue "ä"\n'}
        assert store.activate(next_program("d1", files=files), MORNING) == 1
        assert store.activate(next_program("d1", files=files), MORNING + DAY) == 1
        assert store.program() == (1, "d1", files)
        assert store.activate(next_program("d2"), MORNING) == 2
        assert store.activate(next_program("d1", files={"b.dmq": ""}), MORNING) == 3
        assert store.program() == (3, "d1", {"b.dmq": ""})

    # a changed program

    def test_new_priorities_hold_for_unprocessed_messages_of_their_queues(self, store: Store):
        store.append([new("a"), new("b"), new("c"), new("box", priority=None), new("a", slices=(("s", "k"),))])
        store.commit([Step(processed=5)])
        store.activate(next_program(priorities={"b": 7, "c": None, "box": 3, "unknown": 1}), MORNING)
        assert seqs(store.pending(9)) == [2, 4, 1]
        store.activate(next_program(priorities={"a": 9}), MORNING)
        assert seqs(store.pending(9)) == [1, 2, 4]

    def test_complete_indexes_are_those_of_the_active_version(self, store: Store):
        assert store.indexes() == frozenset()
        store.activate(next_program("d1", indexes=("i", "j")), MORNING)
        store.note_migrated("d2", [], 0)
        assert store.indexes() == {"i", "j"}
        store.activate(next_program("d2", indexes=("j", "k")), MORNING)
        assert store.indexes() == {"j", "k"}

    def test_slicings_are_those_with_messages_in_current_slices(self, store: Store):
        assert store.slicings() == []
        store.append([new(slices=(("s", "k"), ("u", "k"))), new(slices=(("t", "k"), ("s", "l")))])
        assert store.slicings() == ["s", "t", "u"]
        store.commit([Step(resets=(("t", "k"), ("s", "k")))])
        assert store.slicings() == ["s", "u"]
        assert store.former_slicings() == ["s", "t", "u"]

    def test_what_is_noted_about_messages_holds_when_their_program_is_activated(self, store: Store):
        store.append([new(slices=(("s", "k"),), entries=(("i", "v"),), properties={"p": PropertyValue.string("1")})])
        store.append([new()])
        seven = PropertyValue("integer", "7", "7")
        noted = MigratedMessage(seq=1, properties={"p": seven}, slices=(("s", "7"), ("t", "x")), entries=(("j", "w"),))
        before = (store.stored(None, 0, 9), store.snapshot())
        store.note_migrated("d", [noted], 1)
        assert (store.stored(None, 0, 9), store.snapshot()) == before
        assert store.lookup("j", ["w"], 2) == []
        assert store.next_properties([1, 2, 99]) == {1: {"p": seven}, 2: {}}
        store.activate(next_program(), MORNING)
        now = store.snapshot()
        message = store.message(1)
        assert message is not None
        assert (message.properties, message.slices) == ({"p": seven}, (("s", "7"), ("t", "x")))
        assert seqs(store.slice("s", "7", now)) == seqs(store.slice("t", "x", now)) == [1]
        assert store.slice("s", "k", now) == store.lookup("i", ["v"], now) == []
        assert seqs(store.lookup("j", ["w"], now)) == [1]
        assert store.counts() == {"orders": (2, 2)}

    def test_an_activation_that_changes_messages_takes_a_number(self, store: Store):
        store.activate(next_program("d1"), MORNING)
        assert store.append([new()]) == [1]
        store.note_migrated("d2", [MigratedMessage(seq=1)], 1)
        store.activate(next_program("d2"), MORNING)
        assert store.snapshot() == 2
        assert store.append([new()]) == [3]

    def test_how_far_messages_were_looked_at_is_known_until_anything_else_happens(self, store: Store):
        store.append([new(), new(), new()])
        assert store.migrated_until("d") == 0
        store.note_migrated("d", [MigratedMessage(seq=1, slices=(("s", "k"),))], 1)
        store.note_migrated("d", [], 2)
        assert store.migrated_until("d") == 2
        assert store.migrated_until("e") == 0
        store.commit([Step(processed=3)])
        assert store.migrated_until("d") == 0
        store.note_migrated("d", [MigratedMessage(seq=2, slices=(("s", "k"),))], 2)
        store.activate(next_program(), MORNING)
        assert seqs(store.slice("s", "k", store.snapshot())) == [2]
        assert store.migrated_until("d") == 0

    def test_what_was_noted_for_another_program_never_holds(self, store: Store):
        store.append([new()])
        store.note_migrated("d", [MigratedMessage(seq=1, slices=(("s", "k"),))], 1)
        store.activate(next_program("e"), MORNING)
        assert store.slicings() == []
        store.note_migrated("d", [MigratedMessage(seq=1, slices=(("s", "k"),))], 1)
        store.note_migrated("e", [MigratedMessage(seq=1, slices=(("t", "k"),))], 1)
        assert store.migrated_until("d") == 0
        store.activate(next_program("e"), MORNING)
        assert store.slicings() == ["t"]

    def test_a_message_that_leaves_its_last_slice_retires_if_it_is_processed_and_delivered(self, store: Store):
        order = (("s", "k"),)
        store.append([new(slices=order), new(slices=order), new(slices=order, undelivered=True), new(slices=order)])
        store.commit([Step(processed=1), Step(processed=3), Step(processed=4)])
        store.note_migrated(
            "d", [MigratedMessage(seq=seq) for seq in (1, 2, 3)] + [MigratedMessage(seq=4, slices=(("t", "k"),))], 4
        )
        store.activate(next_program(), MORNING)
        assert seqs(store.queue("orders", store.snapshot())) == [2, 3, 4]
        assert store.counts() == {"orders": (3, 1)}
        assert store.collect_garbage(FOREVER, 9) == 1
        assert store.commit([Step(processed=2)])[0].retired == (2,)
        store.commit([Step(delivered=3)])
        assert seqs(store.queue("orders", store.snapshot())) == [4]

    def test_a_retired_message_stays_retired_and_only_its_properties_change(self, store: Store):
        store.append([new()])
        store.commit([Step(processed=1)])
        value = {"p": PropertyValue.string("1")}
        store.note_migrated(
            "d", [MigratedMessage(seq=1, properties=value, slices=(("s", "k"),), entries=(("i", "v"),))], 1
        )
        store.activate(next_program(), MORNING)
        message = store.message(1)
        assert message is not None
        assert (message.properties, message.slices, message.retired) == (value, (), 2)
        assert store.slicings() == []
        assert store.lookup("i", ["v"], store.snapshot()) == store.lookup("i", ["v"], 1) == []

    def test_a_slice_may_be_joined_again(self, store: Store):
        order = ("s", "k")
        store.append([new(slices=(order, ("t", "k")), entries=(("i", "v"),)), new(slices=(order,))])
        store.commit([Step(processed=1, resets=(order,), created=(new(slices=(order,)),))])
        store.note_migrated("d", [MigratedMessage(seq=1, slices=(order, ("t", "k")), entries=(("i", "v"),))], 1)
        store.activate(next_program(), MORNING)
        assert seqs(store.slice(*order, store.snapshot())) == [1, 4]
        [done] = store.commit([Step(resets=(order, ("t", "k")))])
        assert done.retired == (1,)
        assert store.collect_garbage(FOREVER, 9) == 1

    def test_discarded_messages_leave_their_slices_and_retire(self, store: Store):
        slices = (("s", "k"),)
        store.append([new(slices=slices, entries=(("i", "v"),)), new("kept", slices=slices), new(undelivered=True)])
        store.append([new(priority=None, timer=Timer(due=MORNING, target="kept"))])
        store.commit([Step(processed=3)])
        store.note_migrated("d", [MigratedMessage(seq=seq, discarded=True) for seq in (1, 3, 4)], 4)
        store.activate(next_program(), MORNING)
        assert store.counts() == {"kept": (1, 1)}
        assert seqs(store.slice("s", "k", store.snapshot())) == [2]
        assert store.lookup("i", ["v"], store.snapshot()) == []
        assert store.next_due() is None
        assert seqs(store.pending(9)) == [2]
        assert store.collect_garbage(FOREVER, 9) == 3

    def test_what_was_noted_about_a_message_that_was_removed_since_is_void(self, store: Store):
        store.append([new()])
        store.commit([Step(processed=1)])
        store.note_migrated("d", [MigratedMessage(seq=1, properties={})], 1)
        store.collect_garbage(FOREVER, 9)
        assert store.migrated_until("d") == 1
        store.activate(next_program(), MORNING)
        assert store.stored(None, 0, 9) == []

    # several threads

    def test_threads_may_call_at_the_same_time(self, store: Store):
        def work(queue: str) -> None:
            for _ in range(20):
                [seq] = store.append([new(queue)])
                store.commit([Step(processed=seq, created=(new(f"{queue} done", priority=None),))])
                store.queue(queue, store.snapshot())

        threads = [threading.Thread(target=work, args=[name]) for name in ("a", "b", "c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.counts() == {f"{name} done": (20, 20) for name in ("a", "b", "c")}
        assert store.snapshot() == 3 * 20 * 3
