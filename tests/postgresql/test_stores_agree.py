"""Whatever is done to them, the stores on SQLite and PostgreSQL answer as the plain one in memory, reopened or not."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from demaq.errors import AlreadyProcessed
from demaq.messages import PropertyValue
from demaq.store import MemoryStore
from demaq.store.opening import open_store
from demaq.store.protocol import (
    Attempt,
    MigratedMessage,
    NewMessage,
    NextProgram,
    Postponed,
    SequenceChanges,
    SequenceMessage,
    Step,
    StoredAnswer,
    Timer,
)
from tests.support.store.contract import FOREVER, MORNING, Clock
from tests.support.store.sequence_contract import DIRECTIONS, HIGHEST, sequence
from tests.support.store.server import Server

MEMORY = Path("/dev/shm")  # this is about answers, not about disks
QUEUES = ("a", "b", "out")
KEYS = ("1", "2")
slices = st.sampled_from([(name, key) for name in ("s", "t") for key in KEYS])
entries = st.sampled_from([(name, value) for name in ("i", "j") for value in KEYS])
times = st.integers(0, 5).map(lambda hours: MORNING + timedelta(hours=hours))
numbers = st.integers(1, 30)
new_messages = st.builds(
    NewMessage,
    queue=st.sampled_from(QUEUES),
    body=st.sampled_from(["<a/>", "<b>ü</b>"]),
    properties=st.dictionaries(
        st.sampled_from("pq"),
        st.builds(PropertyValue, st.just("decimal"), st.just("1.0"), st.sampled_from(["1", "1.0"])),
    ),
    created=times,
    rule=st.none() | st.just("r"),
    trigger=st.none() | numbers,
    origin=st.none() | numbers,
    priority=st.none() | st.integers(-1, 1),
    slices=st.lists(slices, max_size=3).map(tuple),
    entries=st.lists(entries, max_size=3).map(tuple),
    timer=st.none() | st.builds(Timer, due=times, target=st.just("a")),
    undelivered=st.booleans(),
    request=st.none() | st.sampled_from("xyz"),
)
messages = st.lists(new_messages, max_size=4)
migrated = st.builds(
    MigratedMessage,
    seq=numbers,
    properties=st.none() | st.just({"q": PropertyValue.string("2")}),
    slices=st.lists(slices, max_size=3, unique=True).map(tuple),
    entries=st.lists(entries, max_size=3).map(tuple),
    discarded=st.sampled_from([False, False, True]),
)
resets = st.lists(slices, max_size=2).map(tuple)
SEQUENCES = tuple([(direction, name) for direction in DIRECTIONS for name in ("x", "y")])
places = st.sampled_from(SEQUENCES)
contents: tuple[dict[str, Any], ...] = ({"message": 3}, {"held": "<a>ü</a>"}, {"held": ""})
message_numbers = st.sampled_from([1, 2, 3, HIGHEST])


@st.composite
def sequence_changes(draw: st.DrawFn) -> SequenceChanges:
    """Changes of sequences; messages are added to those that are written."""
    written = draw(st.lists(st.tuples(places, times, st.booleans(), st.sampled_from("ab")), max_size=3))
    added = [
        SequenceMessage(direction=direction, sequence=name, number=draw(message_numbers), **fields)
        for (direction, name), *_ in written
        for fields in draw(st.lists(st.sampled_from(contents), max_size=2))
    ]
    removed = draw(st.lists(st.tuples(places, message_numbers), max_size=2))
    return SequenceChanges(
        sequences=tuple(
            [
                sequence(name, direction, queue=queue, has_ended=has_ended, changed=changed)
                for (direction, name), changed, has_ended, queue in written
            ]
        ),
        added=tuple(added),
        removed=tuple([(direction, name, number) for (direction, name), number in removed]),
        replay_keys=draw(st.dictionaries(st.sampled_from("kl"), times, max_size=2)),
    )


class StoresAgree(RuleBasedStateMachine):
    def __init__(self, where: str | Path | None = None) -> None:
        super().__init__()
        self.clock = Clock()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.where = where or Path(self.folder.name)
        self.plain = MemoryStore(now=self.clock)
        self.durable = open_store(self.where, now=self.clock)

    def teardown(self) -> None:
        self.durable.close()
        self.folder.cleanup()

    def same(self, method: str, *arguments: Any) -> Any:
        expected = getattr(self.plain, method)(*arguments)
        assert getattr(self.durable, method)(*arguments) == expected, (method, arguments)
        return expected

    @initialize(first=st.lists(new_messages, min_size=3, max_size=8))
    def start(self, first: list[NewMessage]) -> None:
        self.same("append", first)

    @rule(messages=messages, changes=st.none() | sequence_changes())
    def append(self, messages: list[NewMessage], changes: SequenceChanges | None) -> None:
        self.same("append", messages, changes)

    @rule(changes=sequence_changes())
    def change_sequences(self, changes: SequenceChanges) -> None:
        self.same("change_sequences", changes)

    @rule()
    def begin_epoch(self) -> None:
        self.plain.begin_epoch()
        self.durable.begin_epoch()

    @rule(data=st.data(), count=st.integers(1, 4))
    def commit(self, data: st.DataObject, count: int) -> None:
        """Mostly what an engine would do: each waiting message once."""
        waiting = [message.seq for message in self.plain.stored(None, 0, 999) if message.processed is None]
        chosen = data.draw(st.permutations(waiting))[:count]
        steps = []
        for seq in chosen:
            processed, fired = data.draw(st.sampled_from([(seq, None), (None, seq)]))
            created = tuple(data.draw(messages))
            steps.append(Step(processed=processed, fired=fired, resets=data.draw(resets), created=created))
        self.same("commit", steps, data.draw(st.booleans()), data.draw(st.none() | sequence_changes()))

    @rule(
        seqs=st.lists(st.none() | numbers, min_size=1, max_size=3),
        created=messages,
        resets=resets,
        changes=sequence_changes(),
    )
    def commit_anything(
        self,
        seqs: list[int | None],
        created: list[NewMessage],
        resets: tuple[tuple[str, str], ...],
        changes: SequenceChanges,
    ) -> None:
        """Numbers out of the hat: processed before, not there, or made by an earlier step of the same commit."""
        steps = [Step(processed=seq, created=tuple(created), resets=resets) for seq in seqs]
        try:
            expected: object = self.plain.commit(steps, changes=changes)
        except AlreadyProcessed as error:
            expected = str(error)
        try:
            answer: object = self.durable.commit(steps, changes=changes)
        except AlreadyProcessed as error:
            answer = str(error)
        assert answer == expected

    @rule(seq=numbers)
    def deliver(self, seq: int) -> None:
        attempt = Attempt(
            message=seq, queue="a", number=2, at=self.clock(), seconds=0.5, destination="x", result="sent", status="200"
        )
        answer = StoredAnswer(connection="c", status=200, content_type="text/xml", body=f"<a>{seq}</a>")
        steps = [Step(delivered=seq, attempt=attempt, answer=answer)]
        if any([found.seq == seq for queue in QUEUES for found in self.plain.to_send(queue, FOREVER, 0, 999)]):
            self.same("commit", steps)
            return
        for store in (self.plain, self.durable):
            with pytest.raises(AlreadyProcessed):
                store.commit(steps)

    @rule(seq=numbers, due=times, number=st.none() | st.integers(1, 3))
    def postpone(self, seq: int, due: Any, number: int | None) -> None:
        attempt = None
        if number is not None:
            attempt = Attempt(
                message=seq, queue="b", number=number, at=self.clock(), seconds=0, destination="y", result="again"
            )
        self.same("postpone", [Postponed(message=seq, due=due, attempt=attempt)])

    @rule(seqs=st.lists(numbers, max_size=4), due=times)
    def send_again(self, seqs: list[int], due: Any) -> None:
        self.same("send_again", seqs, due)

    @rule(now=times, limit=st.integers(1, 5), after=numbers, due=st.none() | times)
    def look_at_what_is_to_send(self, now: Any, limit: int, after: int, due: Any) -> None:
        self.same("sendings")
        self.same("unsent", None, None, limit)
        self.same("attempts", None, None, limit)
        self.same("answer", "c")
        for queue in QUEUES:
            self.same("to_send", queue, now, after, limit)
            self.same("to_send_again", queue, now, None if due is None else (due, after), 99, limit)
            self.same("next_to_send", queue, now)
            self.same("attempts", queue, None, limit)
            self.same("unsent", queue, None, limit)

    @rule(before=times, limit=st.integers(1, 5))
    def collect_garbage(self, before: Any, limit: int) -> None:
        self.same("collect_garbage", before, limit)

    @rule(hours=st.sampled_from([1, 13]))
    def time_passes(self, hours: int) -> None:
        self.clock.time += timedelta(hours=hours)

    @rule(documents=st.lists(st.sampled_from(["<a/>", "<b/>"]), max_size=2))
    def load_collection(self, documents: list[str]) -> None:
        self.same("load_collection", "c", documents)
        self.same("collection", "c")

    @rule(digest=st.sampled_from("de"), messages=st.lists(migrated, max_size=6), done=numbers)
    def note_migrated(self, digest: str, messages: list[MigratedMessage], done: int) -> None:
        self.same("note_migrated", digest, messages, done)

    @rule(
        digest=st.sampled_from("de"),
        messages=st.none() | st.lists(migrated, max_size=6),
        priorities=st.dictionaries(st.sampled_from(QUEUES), st.none() | st.integers(-1, 1)),
    )
    def activate(self, digest: str, messages: list[MigratedMessage] | None, priorities: dict[str, int | None]) -> None:
        if messages is not None:
            self.same("note_migrated", digest, messages, 30)
        files = {"f": digest}
        program = NextProgram(digest=digest, files=files, indexes=(digest, "i"), priorities=priorities)
        self.same("activate", program, MORNING)

    @rule()
    def reopen(self) -> None:
        self.durable.close()
        self.durable = open_store(self.where, now=self.clock)

    @rule(back=st.integers(0, 12))
    def read_an_older_snapshot(self, back: int) -> None:
        self.read(max(0, self.plain.snapshot() - back))

    @invariant()
    def read_now(self) -> None:
        self.read(self.same("snapshot"))
        self.same("counts")
        self.same("stored", None, 0, 999)
        self.same("stored", "a", 2, 3)
        self.same("pending", 5)
        self.same("due_timers", MORNING + timedelta(hours=3), 3)
        self.same("next_due")
        self.same("caused_by", 3)
        self.same("message", 4)
        self.same("slice_keys", "s", "", 9)
        self.same("visible", "a", 2, 3)
        self.same("members", "s", "k", 2, 3)
        self.same("timers", None, 9)
        self.same("collections")
        self.same("program")
        self.same("indexes")
        self.same("slicings")
        self.same("migrated_until", "d")
        self.same("next_properties", list(range(30)))
        self.same("sequences")
        self.same("sequences", "out", "a")
        self.same("sequences", None, "b")
        self.same("known_replays", ["k", "l", "m"], MORNING + timedelta(hours=2))
        for direction, name in SEQUENCES:
            self.same("sequence_messages", direction, name)

    def read(self, snapshot: int) -> None:
        for queue in QUEUES:
            self.same("queue", queue, snapshot)
        for key in KEYS:
            self.same("slice", "s", key, snapshot)
            self.same("slice", "t", key, snapshot)
            self.same("lookup", "i", [key], snapshot)
        self.same("lookup", "j", KEYS, snapshot)


TestStoresAgree = StoresAgree.TestCase
TestStoresAgree.settings = settings(max_examples=settings().max_examples // 4, stateful_step_count=25)


def test_the_store_on_a_server_agrees(server: Server):
    """With fewer examples: each needs new tables on the server."""

    class OnServer(StoresAgree):
        def __init__(self) -> None:
            super().__init__(server.address(server.new_schema()))

    few = settings(max_examples=settings().max_examples // 10, stateful_step_count=25)
    run_state_machine_as_test(OnServer, settings=few)
