"""A changed program on an old store: what was stored reads as if it had always been the program, and nothing is lost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demaq.compiler.planner import make_plan
from demaq.engine.migration import backfill
from demaq.engine.migration.migrate_store import Migration, find_migration, migrate_store
from demaq.errors import QueueNotEmpty
from demaq.evaluation.saxon.compiled import CompiledProgram, compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.language.loader import load_program
from demaq.store import MemoryStore, SqliteStore, migration
from demaq.store.protocol import MigratedMessage, StoredMessage
from demaq.store.sql_store import SqlStore
from demaq.store.tables import Tables
from demaq.testing import Lab
from demaq.testing.lab import START, LabMessage
from tests.support.engines import local_engine

LOG = "create queue orders create queue log\n"
CUSTOMER = "create property customer as xs:string queue orders value //customer\n"
ORDERS = [f"<order id='{number}'><customer>{name}</customer></order>" for number, name in enumerate("abab", 1)]


def run(store: Path, program: str, bodies: Sequence[str] = (), queue: str = "orders", **options: Sequence[str]) -> None:
    with Lab(program, store=store, **options) as lab:  # type: ignore[arg-type]
        for body in bodies:
            lab.enqueue(queue, body)
        lab.run_until_idle()


def migrate(program: str, store: Path, discard: Sequence[str] = ()) -> list[str]:
    """Migrate a store. Return the lines that `demaq run` would print."""
    lines: list[str] = []
    with Lab("create queue nothing") as scratch:
        folder = Path(scratch._folder or "") / "program.dmq"
        folder.write_text(program)
        compiled = compile_program(load_program(folder))
    kept = SqliteStore(store)
    try:
        migrate_store(compiled.plan, SaxonEvaluator(compiled), kept, lambda: datetime.now(UTC), discard, lines.append)
    finally:
        kept.close()
    return lines


def in_slice(lab: Lab, slicing: str, key: str) -> list[StoredMessage]:
    """The messages of a slice, whether the program knows it or not."""
    return lab.store.slice(slicing, key, lab.store.snapshot())


def ids(messages: Sequence[LabMessage | StoredMessage]) -> list[str]:
    return [m.id if isinstance(m, LabMessage) else str(m.seq) for m in messages]


# indexes


LOOKUP = """create queue questions create queue answers
create rule answer for questions
  if (//question) then do enqueue <answer>{count(qs:queue("orders")[//customer = qs:message()//question])}</answer> into answers
"""


def test_a_new_lookup_finds_messages_that_were_stored_before(tmp_path: Path):
    run(tmp_path, LOG, ORDERS)
    with Lab(LOG + LOOKUP, store=tmp_path) as lab:
        assert lab.program.rules
        lab.enqueue("orders", ORDERS[0])
        lab.enqueue("questions", "<question>a</question>")
        lab.run_until_idle()
        assert [message.body for message in lab.read_created("answers")] == ["<answer>3</answer>"]


def test_a_lookup_that_comes_back_finds_what_was_stored_without_it(tmp_path: Path):
    run(tmp_path, LOG + LOOKUP, ORDERS[:1])
    run(tmp_path, LOG, ORDERS[1:])
    with Lab(LOG + LOOKUP, store=tmp_path) as lab:
        lab.enqueue("questions", "<question>b</question>")
        lab.enqueue("questions", "<question>a</question>")
        lab.run_until_idle()
        assert [message.body for message in lab.read_created("answers")] == ["<answer>2</answer>", "<answer>2</answer>"]


# properties


def test_a_new_property_is_computed_on_stored_messages(tmp_path: Path):
    run(tmp_path, LOG, [*ORDERS[:2], "<order/>"])
    with Lab(LOG + CUSTOMER, store=tmp_path) as lab:
        assert [message.properties.get("customer") for message in lab.read_queue("orders")] == ["a", "b", None]


def test_the_time_of_a_computed_value_is_that_of_its_message(tmp_path: Path):
    with Lab(LOG, store=tmp_path) as lab:
        lab.advance(60)
        lab.enqueue("orders", "<order/>")
        created = lab.now
    with Lab(LOG + "create property at as xs:dateTime queue orders value current-dateTime()", store=tmp_path) as lab:
        [message] = lab.read_queue("orders")
        assert datetime.fromisoformat(message.properties["at"].replace("Z", "+00:00")) == created


CHAIN = """create queue start create queue middle create queue end
create rule one for start if (true()) then do enqueue /* into middle
create rule two for middle if (true()) then do enqueue /* into end
"""


def test_a_new_property_is_inherited_along_the_messages_that_caused_each_other(tmp_path: Path):
    run(tmp_path, CHAIN, ["<m id='1'/>", "<m id='2'/>"], "start")
    inherited = "create property id as xs:integer inherited queue start value //@id queue middle, end"
    with Lab(CHAIN + inherited, store=tmp_path) as lab:
        assert [message.properties["id"] for message in lab.read_queue("end")] == ["1", "2"]


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_inheritance_does_not_depend_on_how_messages_are_batched(
    tmp_path: Path, batch: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(backfill, "BATCH_MESSAGES", batch)
    monkeypatch.setattr(backfill, "PAGE_MESSAGES", batch)
    test_a_new_property_is_inherited_along_the_messages_that_caused_each_other(tmp_path)


def test_inheritance_breaks_at_a_message_that_was_removed(tmp_path: Path):
    with Lab(CHAIN, store=tmp_path) as lab:
        lab.enqueue("start", "<m id='1'/>")
        lab.advance(1)
        assert lab.collect_garbage() == 2
    inherited = "create property id as xs:integer inherited queue start value //@id queue middle, end"
    with Lab(CHAIN + inherited, store=tmp_path) as lab:
        assert ["id" in message.properties for message in lab.read_queue("end")] == [False]


def test_a_value_that_was_set_is_kept_and_one_that_is_computed_only_is_computed_again(tmp_path: Path):
    free = "create property p as xs:string queue orders value 'old' create property f as xs:string fixed queue orders value 'old'"
    with Lab(LOG + free, store=tmp_path) as lab:
        lab.enqueue("orders", "<order/>", {"p": "given"})
    with Lab(LOG + free.replace("old", "new"), store=tmp_path) as lab:
        [message] = lab.read_queue("orders")
        assert (message.properties["p"], message.properties["f"]) == ("given", "new")


def test_a_property_of_another_type_is_cast_and_its_slices_are_found_by_the_new_key(tmp_path: Path):
    program = LOG + "create property n as xs:string queue orders value //@n create slicing s on n"
    run(tmp_path, program, ["<o n='07'/>", "<o n='7'/>", "<o n='x'/>"])
    with Lab(program.replace("xs:string", "xs:integer"), store=tmp_path) as lab:
        assert len(in_slice(lab, "s", "7")) == 2
        assert in_slice(lab, "s", "07") == in_slice(lab, "s", "x") == []
        assert [message.properties.get("n") for message in lab.read_queue("orders")] == ["7", "7", None]


def test_values_are_cast_from_the_type_they_had(tmp_path: Path):
    program = (
        LOG
        + "create property n as xs:double queue orders value 1.0e7 create property t as xs:dateTime queue orders value xs:dateTime('2026-02-03T04:05:06Z')"
    )
    run(tmp_path, program, ["<o/>"])
    with Lab(program.replace("xs:double", "xs:integer").replace("xs:dateTime queue", "xs:date queue").replace("value xs:dateTime('2026-02-03T04:05:06Z')", ""), store=tmp_path) as lab:  # fmt: skip
        [message] = lab.read_queue("orders")
        assert (message.properties["n"], message.properties["t"]) == ("10000000", "2026-02-03Z")


def test_what_cannot_be_computed_is_counted_and_the_first_ones_are_named(tmp_path: Path):
    run(tmp_path, LOG, [f"<o n='x{number}'/>" for number in range(7)] + ["<o n='7'/>"])
    typed = "create property n as xs:integer queue orders value //@n"
    lines = migrate(LOG + typed, tmp_path)
    assert lines[:3] == [
        "property n: new",
        "filling in 8 messages",
        "7 values could not be computed and will be absent:",
    ]
    assert len(lines) == 4 + backfill.EXAMPLES_MAX
    assert lines[3].startswith("  message 1 of orders: property n: ")
    assert lines[-1] == "  and 2 more"
    with Lab(LOG + typed, store=tmp_path) as lab:
        assert [message.properties.get("n") for message in lab.read_queue("orders")] == [None] * 7 + ["7"]


def test_a_program_that_brings_back_a_property_finds_the_values_that_were_set(tmp_path: Path):
    program = LOG + "create property p as xs:string queue orders create slicing s on p"
    with Lab(program, store=tmp_path) as lab:
        lab.enqueue("orders", "<order/>", {"p": "07"})
        lab.enqueue("orders", "<order/>", {"p": "x"})
    for other in (LOG, program.replace("xs:string", "xs:date"), program.replace("xs:string", "xs:string fixed").replace("orders create slicing", "orders value 'f' create slicing")):  # fmt: skip
        with Lab(other, store=tmp_path) as lab:
            assert {m.properties.get("p") for m in lab.read_queue("orders")} in ({None}, {"f"})
            assert in_slice(lab, "s", "07") == []
        with Lab(program, store=tmp_path) as lab:
            assert len(in_slice(lab, "s", "07")) == 1
            assert [m.properties.get("p") for m in lab.read_queue("orders")] == ["07", "x"]
            assert not [name for m in lab.read_queue("orders") for name in m.properties if "former" in name]


def test_what_an_expression_depends_on_is_part_of_the_property(tmp_path: Path):
    program = "declare variable $unit := 1; create queue orders create queue log create property n as xs:integer fixed queue orders value $unit create property m as xs:integer fixed queue orders value qs:property('n') * 2"
    run(tmp_path, program, ["<o/>"])
    with Lab(program.replace(":= 1", ":= 5"), store=tmp_path) as lab:
        [message] = lab.read_queue("orders")
        assert (message.properties["n"], message.properties["m"]) == ("5", "10")


# slicings


def test_a_new_slicing_holds_stored_messages_and_retains_the_processed_ones(tmp_path: Path):
    rule = "create rule note for orders if (true()) then do enqueue <noted/> into log\n"
    program = LOG + CUSTOMER + rule + "create slicing forever on customer\n"
    run(tmp_path, program, ORDERS)
    added = (
        program
        + "create property id as xs:integer queue orders value //@id create slicing ids on id create rule late for ids if (true()) then do enqueue <late/> into log"
    )
    with Lab(added, store=tmp_path) as lab:
        lab.run_until_idle()
        assert lab.read_created("log") == []  # no rule fires
        assert len(in_slice(lab, "ids", "2")) == 1
    with Lab(added.replace("create slicing forever on customer\n", ""), store=tmp_path) as lab:
        assert lab.collect_garbage() == 0
        assert len(lab.read_queue("orders")) == 4


def test_messages_that_only_a_removed_slicing_kept_retire(tmp_path: Path):
    program = LOG + CUSTOMER + "create rule note for orders if (//x) then do enqueue <noted/> into log\n"
    run(tmp_path, program + "create slicing s on customer", ORDERS)
    with Lab(program, store=tmp_path) as lab:
        assert lab.read_queue("orders") == []
        lab.advance(1)
        assert lab.collect_garbage() == 4
    with Lab(program + "create slicing s on customer", store=tmp_path) as lab:
        assert in_slice(lab, "s", "a") == []


def test_a_retired_message_stays_retired(tmp_path: Path):
    program = LOG + "create rule note for orders if (//x) then do enqueue <noted/> into log\n"
    run(tmp_path, program, ORDERS)
    with Lab(program + CUSTOMER + "create slicing s on customer", store=tmp_path) as lab:
        assert lab.read_queue("orders") == []
        assert in_slice(lab, "s", "a") == []
        assert [message.properties["customer"] for message in lab.read_stored("orders")] == ["a", "b", "a", "b"]


def test_a_message_that_was_released_from_a_slice_does_not_come_back(tmp_path: Path):
    program = (
        LOG
        + CUSTOMER
        + "create slicing s on customer create slicing t on customer create rule end for s if (//end) then do reset\n"
    )
    run(tmp_path, program, [*ORDERS, "<order><customer>a</customer><end/></order>"])
    changed = (
        program.replace("value //customer", "value string(//customer)")
        + "create property id as xs:integer queue orders value //@id"
    )
    with Lab(changed, store=tmp_path) as lab:
        assert (len(in_slice(lab, "s", "a")), len(in_slice(lab, "s", "b")), len(in_slice(lab, "t", "a"))) == (0, 2, 3)


def test_a_slicing_on_another_property_starts_anew(tmp_path: Path):
    both = LOG + CUSTOMER + "create property id as xs:string queue orders value //@id "
    run(tmp_path, both + "create slicing s on customer", ORDERS)
    with Lab(both + "create slicing s on id", store=tmp_path) as lab:
        assert in_slice(lab, "s", "a") == []
        assert ids(in_slice(lab, "s", "3")) == ["3"]


def test_a_new_slicing_may_be_on_a_property_of_the_system(tmp_path: Path):
    run(tmp_path, CHAIN, ["<m/>", "<m/>"], "start")
    with Lab(CHAIN + "create slicing tree on demaq:origin", store=tmp_path) as lab:
        assert [message.queue for message in in_slice(lab, "tree", "1")] == ["end"]
        lab.enqueue("start", "<m/>")
        lab.run_until_idle()
        assert len(lab.store.slice_keys("tree", None, 9)) == 3
    with Lab(CHAIN + "create queue more create slicing tree on demaq:origin", store=tmp_path) as lab:
        assert [message.queue for message in in_slice(lab, "tree", "1")] == ["end"]


# queues


def test_a_removed_queue_must_be_empty(tmp_path: Path):
    run(tmp_path, LOG, ORDERS)
    with pytest.raises(QueueNotEmpty, match=r"queue orders is not in the program any more, but holds 4 messages \(4 unprocessed\): run the old program"):  # fmt: skip
        Lab("create queue log", store=tmp_path)
    with Lab(LOG, store=tmp_path) as lab:
        assert len(lab.read_queue("orders")) == 4
        lab.take("orders", 4)
    with Lab("create queue log", store=tmp_path) as lab:
        assert len(lab.read_stored("orders")) == 4


def test_messages_of_a_removed_queue_may_be_discarded(tmp_path: Path):
    program = LOG + "create property k as xs:string queue orders, log value 'k' create slicing s on k"
    run(tmp_path, program, ORDERS)
    run(tmp_path, program, ["<kept/>"], "log")
    rest = "create queue log create property k as xs:string queue log value 'k' create slicing s on k"
    with Lab(rest, store=tmp_path, discard=["orders", "unknown"]) as lab:
        assert len(in_slice(lab, "s", "k")) == 1
        assert lab.store.counts() == {"log": (1, 1)}
        lab.advance(1)
        assert lab.collect_garbage() == 4
    run(tmp_path, rest, discard=["orders", "log"])  # as a service that is started again the same way
    with Lab(rest, store=tmp_path) as lab:
        assert len(lab.read_queue("log")) == 1


TIMER = """create queue start create queue wait kind echo create queue log
create rule later for start if (true()) then do enqueue <late/> into wait with timeout value 10 with target value "log"
"""


def test_a_queue_with_running_timers_stays_an_echo_queue(tmp_path: Path):
    run(tmp_path, TIMER, ["<go/>"], "start")
    basic = "create queue start create queue wait create queue log"
    with pytest.raises(QueueNotEmpty, match="queue wait was echo is basic now, and 1 message would be stuck"):
        Lab(basic, store=tmp_path)
    with Lab(TIMER, store=tmp_path) as lab:
        lab.advance(11)
        assert len(lab.read_queue("log")) == 1
    run(tmp_path, basic)


def test_a_queue_with_waiting_messages_does_not_become_a_timer_or_a_gateway(tmp_path: Path):
    run(tmp_path, LOG, ORDERS)
    with pytest.raises(QueueNotEmpty, match="4 messages would be stuck"):
        Lab(LOG.replace("orders", "orders kind echo"), store=tmp_path)
    run(tmp_path, LOG.replace("orders", "orders kind echo"), discard=["orders"])


def test_a_timer_whose_target_is_gone_becomes_an_error(tmp_path: Path):
    run(tmp_path, TIMER, ["<go/>"], "start")
    without = "create queue start create queue wait kind echo errorqueue trouble create queue trouble create queue other create rule later for start if (true()) then do enqueue <late/> into wait with timeout value 10 with target value 'other'"
    with Lab(without, store=tmp_path) as lab:
        lab.advance(11)
        [error] = lab.read_created("trouble")
        assert "<enqueueError/>" in error.body
        assert "there is no queue log" in error.body
        assert lab.store.next_due() is None


def test_an_error_of_a_message_whose_rule_is_gone_goes_to_its_queue(tmp_path: Path):
    run(tmp_path, TIMER, ["<go/>"], "start")
    other = "create queue start create queue wait kind echo errorqueue trouble create queue trouble"
    with Lab(other, store=tmp_path) as lab:
        lab.advance(11)
        assert len(lab.read_created("trouble")) == 1


def test_a_persistent_message_outlives_its_queue_becoming_transient(tmp_path: Path):
    run(tmp_path, LOG, ORDERS[:1])
    transient = LOG.replace("orders", "orders mode transient")
    run(tmp_path, transient, ORDERS[1:])
    with Lab(transient, store=tmp_path) as lab:
        assert ids(lab.read_queue("orders")) == ["1"]


def test_new_rules_process_what_waited_in_a_mailbox_and_new_priorities_hold(tmp_path: Path):
    run(tmp_path, "create queue a create queue b create queue log", ["<m/>"], "a")
    run(tmp_path, "create queue a create queue b create queue log", ["<m/>"], "b")
    rules = "create queue a create queue b priority 5 create queue log create rule x for a if (true()) then do enqueue <a/> into log create rule y for b if (true()) then do enqueue <b/> into log"
    with Lab(rules, store=tmp_path) as lab:
        lab.run_until_idle()
        assert [message.body for message in lab.read_created("log")] == ["<b/>", "<a/>"]


def test_a_pending_message_of_an_unknown_queue_does_no_harm():
    store = MemoryStore()
    with Lab("create queue gone create queue log create rule r for gone if (true()) then do enqueue <x/> into log", store=store) as lab:  # fmt: skip
        lab.enqueue("gone", "<m/>")
        compiled = compile_program(Lab("create queue other").program)
        engine = local_engine(SaxonEvaluator(compiled), store, lambda: lab.now)
        assert engine.run_round() == 0


# what is said


def test_a_first_start_and_an_unchanged_program_say_nothing(tmp_path: Path):
    assert migrate(LOG, tmp_path) == []
    run(tmp_path, LOG, ORDERS)
    assert migrate(LOG, tmp_path) == []
    assert migrate("(: a comment :)\n\n" + LOG.replace(" ", "  "), tmp_path) == []


def test_a_basic_queue_that_is_declared_a_mailbox_has_not_changed(tmp_path: Path):
    basic = "create queue orders create queue log create rule r for orders if (/order) then do enqueue <x/> into log"
    mailbox = basic.replace("create queue log", "create queue log kind mailbox")
    run(tmp_path, basic, ["<order/>"])
    assert migrate(mailbox, tmp_path) == []
    with Lab(mailbox, store=tmp_path) as lab:
        assert [message.body for message in lab.take("log")] == ["<x/>"]
    assert migrate(basic, tmp_path) == []


def test_every_difference_is_named(tmp_path: Path):
    old = """create queue a create queue b create queue c create collection x
    create property p as xs:string queue a create property q as xs:string queue a value 'x'
    create slicing s on p create slicing t on p
    create rule r for a if (//x) then do enqueue <x/> into b
    create rule u for a if (//x) then do enqueue <x/> into b"""
    new = """module m errorqueue b;
    create queue a priority 3 errorqueue b create queue b create queue d create collection y
    create property p as xs:integer inherited queue a, b create property r as xs:string queue a
    create slicing s on r create slicing v on p
    create rule r for a if (//y) then do enqueue <x/> into b
    create rule w for a if (qs:queue("d")[//k = qs:message()//k]) then do enqueue <x/> into b"""
    assert migrate(old, tmp_path) == []
    assert migrate(new, tmp_path) == [
        "module program.dmq: changed (error queue none is now b)",
        "queue a: changed (priority 0 is now 3, error queue none is now b)",
        "queue d: new",
        "queue c: removed",
        "property p: changed (xs:string is now xs:integer, free is now inherited, now on b)",
        "property r: new",
        "property q: removed",
        "slicing s: changed (property p is now r)",
        "slicing v: new",
        "slicing t: removed",
        "collection y: new",
        "collection x: removed",
        "rule r: changed",
        "rule w: new",
        "rule u: removed",
        "index d //k: new",
    ]


def test_discarding_is_announced(tmp_path: Path):
    run(tmp_path, LOG, ORDERS)
    assert migrate("create queue log", tmp_path, ["orders"]) == ["queue orders: removed", "queue orders: 4 messages discarded"]  # fmt: skip


TIMED = """
create queue orders create queue reminders kind echo
create property customer as xs:string queue orders value //customer create slicing customers on customer
create rule remind for orders
  if (/order) then do enqueue <r/> into reminders with timeout value 100000 with target value "orders"
"""


def test_discarding_a_queue_names_the_timers_that_aim_at_it(tmp_path: Path):
    with Lab(TIMED, store=tmp_path) as lab:
        for body in ORDERS:
            lab.enqueue("orders", body)
        lab.run_until_idle()
        seqs = [message.seq for message in lab.store.stored("reminders", 0, 9)]
    due = START + timedelta(seconds=100_000)
    smaller = "create queue reminders kind echo"
    named = "; ".join([f"message {seq} of reminders, due {due:%Y-%m-%d %H:%M:%S}" for seq in seqs[:3]])
    line = f"queue orders: 4 timers aim at it ({named}; 1 more), to become errors"
    with pytest.raises(QueueNotEmpty, match="queue orders is not in the program any more") as refused:
        migrate(smaller, tmp_path)
    assert line in str(refused.value)
    assert line in migrate(smaller, tmp_path, ["orders"])


def test_timers_that_are_discarded_themselves_are_not_named(tmp_path: Path):
    run(tmp_path, TIMED, ORDERS[:1])
    lines = migrate("create queue log", tmp_path, ["orders", "reminders"])
    assert not [line for line in lines if "timer" in line]


def test_an_unchanged_program_reads_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "orders.dmq"
    file.write_text(LOG + CUSTOMER + LOOKUP)
    with Lab(file, store=tmp_path / "store") as lab:
        lab.enqueue("orders", ORDERS[0])
    for name in ("stored", "counts", "pending", "queue", "activate", "note_migrated"):
        monkeypatch.delattr(SqlStore, name)
    Lab(file, store=tmp_path / "store").close()


# an old program that cannot be read, or is not known


def test_a_slice_that_was_reset_stays_empty_if_the_program_before_can_no_longer_be_read(tmp_path: Path):
    program = (
        LOG
        + CUSTOMER
        + "create slicing s on customer create slicing t on customer create rule end for s if (//end) then do reset\n"
    )
    run(tmp_path, program, [ORDERS[0], "<order><customer>a</customer><end/></order>"])
    store = SqliteStore(tmp_path)
    store._database.execute('UPDATE programs SET files = \'{"a.dmq": "create nonsense"}\'')
    store.close()
    with Lab(program + LOOKUP, store=tmp_path) as lab:
        assert (len(in_slice(lab, "s", "a")), len(in_slice(lab, "t", "a"))) == (0, 2)


def test_a_program_that_can_no_longer_be_read_may_have_been_anything(tmp_path: Path):
    program = LOG + CUSTOMER + "create slicing s on customer create rule end for s if (//end) then do reset\n"
    run(tmp_path, program, [*ORDERS, "<order><customer>a</customer><end/></order>"])
    run(tmp_path, program, ORDERS[:1])
    store = SqliteStore(tmp_path)
    store._database.execute('UPDATE programs SET files = \'{"a.dmq": "create nonsense"}\'')
    store._database.execute("INSERT INTO slice_members (slicing, ended, key, seq) VALUES ('gone', 0, 'k', 2)")
    store._database.execute("""UPDATE messages SET slices = '[["gone","k",0],["s","b",0]]' WHERE seq = 2""")
    store.close()
    with Lab(program + LOOKUP, store=tmp_path) as lab:
        assert len(in_slice(lab, "s", "a")) == 1  # the others were released
        assert len(in_slice(lab, "s", "b")) == 2
        assert in_slice(lab, "gone", "k") == []
        lab.enqueue("questions", "<question>b</question>")
        lab.run_until_idle()
        assert [message.body for message in lab.read_created("answers")] == ["<answer>2</answer>"]


def test_differences_are_data(tmp_path: Path):
    run(tmp_path, LOG, ORDERS)
    program = Lab(LOG + CUSTOMER).program
    store = SqliteStore(tmp_path)
    active = store.program()
    assert active is not None
    found = find_migration(make_plan(program), store, active[2])
    store.close()
    assert isinstance(found, Migration)
    assert [(item.part, item.name, item.change) for item in found.differences] == [("property", "customer", "new")]
    assert found.queues == {"orders"}


# interrupted


class Killed(BaseException):
    """As kill -9: nothing after it happens."""


SLICED = (
    LOG
    + CUSTOMER
    + "create slicing s on customer create property id as xs:integer queue orders value //@id create slicing ids on id\n"
)
RESLICED = LOG + CUSTOMER.replace("value //customer", "value concat('x', //customer)").replace("xs:string", "xs:string fixed") + "create slicing s on customer create property n as xs:integer queue orders value //@id create slicing ns on n\n" + LOOKUP  # fmt: skip


def kill_after(monkeypatch: pytest.MonkeyPatch, transactions: int) -> None:
    """The process ends after so many transactions of a migration."""
    left = [transactions]
    apply_batch, note_migrated = migration.apply_batch, migration.note_migrated

    def count() -> None:
        if left[0] == 0:
            raise Killed
        left[0] -= 1

    def noting(tables: Tables, digest: str, messages: Sequence[MigratedMessage], done: int) -> None:
        count()
        note_migrated(tables, digest, messages, done)

    def writing(tables: Tables, now: int) -> bool:
        count()
        return apply_batch(tables, now)

    monkeypatch.setattr(migration, "note_migrated", noting)
    monkeypatch.setattr(migration, "apply_batch", writing)
    monkeypatch.setattr(migration, "MIGRATED_BATCH", 1)
    monkeypatch.setattr(backfill, "BATCH_MESSAGES", 1)


@cache
def compiled(text: str) -> CompiledProgram:
    with Lab(text) as lab:
        return compile_program(lab.program)


def start(folder: Path, text: str, bodies: Sequence[str] = ()) -> SqliteStore:
    """As a Lab does, with a program that is compiled once."""
    store = SqliteStore(folder)
    try:
        program, evaluator = compiled(text), SaxonEvaluator(compiled(text))
        migrate_store(program.plan, evaluator, store, lambda: START)
        engine = local_engine(evaluator, store, lambda: START)
        for body in bodies:
            engine.enqueue("orders", body)
    except BaseException:
        store.close()
        raise
    return store


def state(store: SqliteStore) -> object:
    """Everything that can be read; the store is closed after that."""
    now = store.snapshot()
    names = [(s, k) for s in ("s", "ids", "ns") for k in ("a", "b", "xa", "xb", "1", "2", "3", "4", "5")]
    found = (
        [(m.body, m.properties, sorted(m.slices), m.retired is None) for m in store.stored(None, 0, 99)],
        {name: [message.seq for message in store.slice(*name, now)] for name in names},
        [len(store.lookup("orders //customer", [f"s{name}"], now)) for name in "ab"],
        store.counts(),
    )
    store.close()
    return found


FIFTH = "<order id='5'><customer>a</customer></order>"


@pytest.mark.parametrize("transactions", range(1, 16))
@pytest.mark.parametrize("between", ["nothing", "old", "old and more", "third"])
def test_an_interrupted_change_is_completed_or_was_never_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactions: int, between: str
):
    more = [FIFTH] if between == "old and more" else []
    before = state(start(tmp_path / "calm", SLICED, [*ORDERS, *more]))
    expected = state(start(tmp_path / "calm", RESLICED))
    start(tmp_path / "store", SLICED, ORDERS).close()
    with monkeypatch.context() as patch, suppress(Killed):
        kill_after(patch, transactions)
        start(tmp_path / "store", RESLICED).close()
    reader = SqliteStore.open_readonly(tmp_path / "store")
    decided = reader.program()[0] == 2  # type: ignore[index]
    reader.close()
    assert decided == (transactions >= 6)  # opened, cleared, four messages noted
    if between == "third":
        start(tmp_path / "store", RESLICED.replace("'x'", "'y'").replace("create slicing ns on n", "")).close()
    elif between != "nothing":
        returned = state(start(tmp_path / "store", SLICED, more))
        assert decided or returned == before
    if decided and between == "old and more":
        return  # the fifth message came under another program than in the calm store
    if decided and between == "old":
        state(start(tmp_path / "calm", SLICED))
        expected = state(start(tmp_path / "calm", RESLICED))
    assert state(start(tmp_path / "store", RESLICED)) == expected


def test_an_interrupted_start_continues_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "orders.dmq"
    file.write_text(SLICED)
    with Lab(file, store=tmp_path / "store") as lab:
        for body in ORDERS:
            lab.enqueue("orders", body)
    file.write_text(RESLICED)
    with monkeypatch.context() as patch:
        kill_after(patch, 3)
        with pytest.raises(Killed):
            Lab(file, store=tmp_path / "store")
    asked: list[int] = []
    migrate_properties = SaxonEvaluator.migrate_properties

    def counting(self, arrivals):
        asked.append(len(arrivals))
        return migrate_properties(self, arrivals)

    monkeypatch.setattr(SaxonEvaluator, "migrate_properties", counting)
    with Lab(file, store=tmp_path / "store") as lab:
        assert ids(in_slice(lab, "ns", "1")) == ["1"]
    assert sum(asked) == 3


# any two versions


FORWARD = """create queue a create queue b create queue ask create queue answers
create rule forward for a if (true()) then do enqueue <n k="{/*/@k}"/> into b
"""
PROPERTIES = [
    "",
    "create property p as xs:string fixed queue a value //@k create slicing s on p\n",
    "create property p as xs:integer fixed queue b value //@k create slicing s on p\n",
    "create property p as xs:integer fixed queue a, b value //@k + 1 create slicing s on p\n",
    "create property p as xs:integer fixed queue a, b value //@k + 1 create property q as xs:string fixed queue b value concat('q', qs:property('p')) create slicing s on q\n",
]
OTHERS = [
    "",
    "create property r as xs:integer inherited queue a value //@k queue b create slicing t on r\n"
    'create rule look for ask if (qs:queue("b")[//@k = qs:message()//@k]) then do enqueue <x/> into answers\n',
]
VERSIONS = [FORWARD + "".join(parts) for parts in product(PROPERTIES, OTHERS)]


def processed(store: MemoryStore, text: str, keys: Sequence[int]) -> None:
    program, evaluator = compiled(text), SaxonEvaluator(compiled(text))
    migrate_store(program.plan, evaluator, store, lambda: START)
    engine = local_engine(evaluator, store, lambda: START)
    for key in keys:
        engine.enqueue("a", f"<m k='{key:02}'/>")
        engine.run_round()


def reads(store: MemoryStore, text: str, visible: Sequence[int]) -> object:
    """What rules see of some messages: properties that are declared, slices, look-ups."""
    program = compiled(text).plan.program
    now = store.snapshot()
    messages = [message for message in map(store.message, visible) if message is not None]
    names = {m.seq: {p.name for p in program.properties_of(m.queue)} for m in messages}
    keys = [str(key) for key in range(9)] + [f"0{key}" for key in range(9)] + [f"q{key}" for key in range(9)]
    found = [store.slice(slicing, key, now) for slicing in "st" for key in keys]
    if compiled(text).plan.indexes:
        found += [store.lookup("b //@k", [f"s0{key}"], now) for key in range(9)]
    return (
        [({k: v for k, v in m.properties.items() if k in names[m.seq]}, sorted(m.slices)) for m in messages],
        [[message.seq for message in part if message.seq in visible] for part in found],
    )


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(st.sampled_from(VERSIONS), min_size=2, max_size=4), st.lists(st.integers(0, 6), max_size=4))
def test_what_is_left_of_a_program_that_changed_reads_as_if_it_had_always_been_the_last_one(
    versions: list[str], keys: list[int]
):
    changed, last = MemoryStore(), MemoryStore()
    processed(changed, versions[0], keys)
    processed(last, versions[-1], keys)
    for version in versions[1:]:
        processed(changed, version, [])
    visible = [message.seq for message in changed.stored(None, 0, 99) if message.retired is None]
    assert reads(changed, versions[-1], visible) == reads(last, versions[-1], visible)
