"""What is paused waits, wherever it would have been processed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from demaq.engine.engine import Engine
from demaq.engine.round import THROUGHPUT
from demaq.errors import MessageError
from demaq.evaluation.local_evaluator import LocalEvaluator
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.store import MemoryStore
from demaq.store.operator_records import AuditRecord, Pause, PausedPart
from demaq.testing.lab import load_text

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ENTRY = AuditRecord(at=NOW, who="anna", action="purge", subject="")
STAGES = """
create queue in create queue middle create queue out create queue box kind mailbox create queue waits kind echo
create property k as xs:string queue in, middle value //k
create slicing s on k
create rule start for in if (/m) then do enqueue <n>{//k}</n> into middle
create rule forward for middle if (/n) then do enqueue <o>{//k}</o> into out
create rule end for out if (/o) then do enqueue <p/> into box
create rule later for in if (/later) then do enqueue <m><k>t</k></m> into waits with timeout value 1 with target value "in"
create rule count for s if (count(qs:slice()) > 3) then do reset
"""


class World:
    def __init__(self) -> None:
        self.now = NOW
        self.store = MemoryStore(now=lambda: self.now)
        compiled = compile_program(load_text(STAGES))
        rules = SaxonEvaluator(compiled)
        local = LocalEvaluator(rules, self.store)
        self.engine = Engine(
            compiled.plan,
            local,
            self.store,
            lambda: self.now,
            receiver=rules,
            policy=THROUGHPUT,
            arrivals=local,
        )
        self.run()

    def pause(self, *parts: PausedPart) -> None:
        pauses = [Pause(kind=kind, name=name, who="anna", why="", since=NOW) for kind, name in parts]
        self.store.change_pauses(pauses, list(self.engine.pauses.by_part), ENTRY)
        self.store.change_pauses(pauses, (), ENTRY)
        self.engine.set_pauses(self.store.pauses())

    def send(self, *keys: str) -> None:
        for key in keys:
            self.engine.enqueue("in", f"<m><k>{key}</k></m>")
            self.run()

    def run(self) -> None:
        while self.engine.run_round() or self.engine.fire_timers():
            pass

    def waiting(self) -> list[str]:
        return [message.queue for message in self.store.pending(99)]

    def count(self, queue: str) -> int:
        return len(self.store.queue(queue, self.store.snapshot()))


@pytest.fixture
def world() -> World:
    return World()


def test_messages_of_a_paused_queue_wait_and_go_on_when_it_is_resumed(world: World):
    world.pause(("queue", "middle"))
    world.send("a", "b")
    assert world.waiting() == ["middle", "middle"]
    assert world.count("box") == 0
    world.pause()
    world.run()
    assert (world.waiting(), world.count("box")) == ([], 2)


@pytest.mark.parametrize("queue", ["in", "middle", "out"])
def test_a_message_that_arrives_goes_as_far_as_it_may(world: World, queue: str):
    before = world.engine.arrivals.processed
    world.pause(("queue", queue))
    world.run()  # before, it is not known that nothing else waits
    world.send("a")
    assert world.waiting() == [queue]
    assert (world.engine.arrivals.processed > before) == (queue != "in"), "what is paused is stored first"


def test_others_are_processed_on_arrival_while_something_waits(world: World):
    world.pause(("queue", "out"))
    world.send("a", "b", "c")
    before = world.engine.arrivals.processed
    world.send("d")
    assert world.engine.arrivals.processed > before
    assert world.waiting() == ["out"] * 4


def test_a_paused_rule_lets_the_messages_wait_to_which_it_pertains(world: World):
    world.pause(("rule", "forward"))
    world.send("a")
    assert world.waiting() == ["middle"]
    world.pause(("rule", "count"))  # for a slicing of two queues
    world.run()
    world.send("b")
    assert sorted(world.waiting()) == ["in", "middle"]
    world.pause()
    world.run()
    assert world.count("box") == 2


def test_timers_of_a_paused_queue_wait_and_those_of_others_end(world: World):
    world.engine.enqueue("in", "<later/>")
    world.run()
    world.pause(("queue", "waits"))
    world.now += timedelta(hours=1)
    world.run()
    assert (world.count("waits"), world.count("box")) == (1, 0)
    world.pause(("queue", "in"))
    world.run()
    assert (world.count("waits"), world.waiting()) == (0, ["in"])
    world.pause()
    world.run()
    assert world.count("box") == 1


def test_nothing_is_taken_from_a_paused_mailbox(world: World):
    world.send("a")
    world.pause(("queue", "box"))
    with pytest.raises(MessageError, match="paused by anna"):
        world.engine.take("box")
    world.pause()
    assert len(world.engine.take("box")) == 1


def test_a_long_line_of_paused_messages_is_read_once(world: World, monkeypatch: pytest.MonkeyPatch):
    world.pause(("queue", "in"))
    world.send(*[str(n) for n in range(50)])
    starts: list[int] = []
    original = world.store.pending_at

    def pending_at(priority: int, after: int, limit: int, but: Sequence[int], but_of: Sequence[str]):
        starts.append(after)
        return original(priority, after, limit, but, but_of)

    monkeypatch.setattr(world.store, "pending_at", pending_at)
    for _ in range(3):
        world.engine.enqueue("middle", "<n><k>x</k></n>")
        world.run()
    assert world.count("box") == 3
    assert min(starts[2:]) >= 50


def test_what_is_removed_is_never_processed_and_nothing_waits_for_it(world: World):
    world.pause(("queue", "middle"))
    world.send("a", "b", "a")
    first, *_ = world.store.pending(9)
    removed, number = world.engine.purge([first.seq, 999], ENTRY)
    assert (removed, number) == ([first.seq], len(world.store.audit(None, 99)))
    world.pause()
    world.run()
    assert (world.count("box"), world.waiting()) == (2, [])


def test_how_many_messages_no_rule_has_reacted_to_is_counted(world: World):
    for body in ("<x/>", "<m><k>a</k></m>", "<y/>"):
        world.engine.enqueue("in", body)
        world.run()
    world.engine.enqueue("middle", "<z><k>s</k></z>")  # stays in its slice
    world.run()
    assert world.engine.namespaces.ignored == {"in": 2, "middle": 1}
    assert [m.body for m in world.store.stored("middle", 0, 9) if m.unmatched] == ["<z><k>s</k></z>"]
