"""The engine in the laboratory: what a program does to its queues."""

from __future__ import annotations

from functools import partial

import pytest

from demaq.errors import MessageError
from demaq.testing import Lab, LabMessage


def texts(messages: list[LabMessage]) -> list[str]:
    return [message.body for message in messages]


# --- order and visibility --------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True, params=["serial", "inline"])
def _one_at_a_time_or_in_rounds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "Lab", partial(Lab, pipeline=request.param))


def test_messages_are_processed_oldest_first() -> None:
    with Lab("create queue a create queue b create rule r for a if (true()) then do enqueue . into b") as lab:
        for n in range(5):
            lab.enqueue("a", f"<m n='{n}'/>")
        lab.run_until_idle()
        assert texts(lab.read_created("b")) == [f'<m n="{n}"/>' for n in range(5)]


def test_a_higher_priority_goes_first_even_when_it_came_last() -> None:
    program = """
    create queue slow create queue fast priority 5 create queue log
    create rule s for slow if (true()) then do enqueue <slow>{//n}</slow> into log
    create rule f for fast if (true()) then do enqueue <fast>{//n}</fast> into log
    create rule t for slow if (//urgent) then do enqueue <m><n>9</n></m> into fast
    """
    with Lab(program) as lab:
        lab.enqueue("slow", "<m><n>1</n><urgent/></m>")
        lab.enqueue("slow", "<m><n>2</n></m>")
        lab.enqueue("fast", "<m><n>3</n></m>")
        lab.run_until_idle()
        assert texts(lab.read_created("log")) == [
            "<fast><n>3</n></fast>",
            "<slow><n>1</n></slow>",
            "<fast><n>9</n></fast>",
            "<slow><n>2</n></slow>",
        ]


def test_a_rule_sees_unprocessed_messages_and_itself_but_not_what_its_own_transaction_makes() -> None:
    program = """
    create queue a create queue b create queue c
    create rule one for a if (true()) then (do enqueue <x/> into b,
      do enqueue <n a="{count(qs:queue())}" b="{count(qs:queue("b"))}"/> into c)
    """
    with Lab(program) as lab:
        lab.enqueue("a", "<m/>")
        lab.enqueue("a", "<m/>")
        lab.run_until_idle()
        # b is a mailbox: what is in it is not processed. What is processed in a and in no slice is gone.
        assert texts(lab.read_created("c")) == ['<n a="2" b="0"/>', '<n a="1" b="1"/>']


def test_a_round_ends_like_a_serial_execution_when_messages_depend_on_each_other() -> None:
    program = """
    create queue in create queue seen
    create rule first for in if (not(qs:queue("seen")[/seen/id = qs:message()//id])) then
      do enqueue <seen>{//id}</seen> into seen
    """
    with Lab(program) as lab:
        for n in (1, 2, 1, 3, 2, 1):
            lab.enqueue("in", f"<m><id>{n}</id></m>")
        lab.run_until_idle()
        assert texts(lab.read_created("seen")) == [f"<seen><id>{n}</id></seen>" for n in (1, 2, 3)]


# --- slices ----------------------------------------------------------------------------------------------------------

SLICES = """
create queue a create queue b create queue out
create property k as xs:integer queue a, b value //k
create slicing s on k
create rule join for s if (count(qs:slice()) = 2) then (do enqueue <joined k="{qs:slicekey()}"/> into out, do reset)
"""


def test_a_reset_opens_a_new_lifetime() -> None:
    with Lab(SLICES) as lab:
        for n in (7, "07", 8, 7, "+7"):
            lab.enqueue("a", f"<m><k>{n}</k></m>")
            lab.run_until_idle()
        assert texts(lab.read_created("out")) == ['<joined k="7"/>', '<joined k="7"/>']
        assert len(lab.read_slice("s", "8")) == 1
        assert lab.read_slice("s", "7") == []


def test_a_message_enqueued_with_a_reset_is_in_the_new_lifetime() -> None:
    program = """
    create queue a
    create property k as xs:string queue a value //k
    create slicing s on k
    create rule r for s if (qs:slice()/close) then (do enqueue <open><k>{qs:slicekey()}</k></open> into a, do reset)
    """
    with Lab(program) as lab:
        lab.enqueue("a", "<m><k>x</k></m>")
        lab.enqueue("a", "<close><k>x</k></close>")
        lab.run_until_idle()
        assert texts(lab.read_slice("s", "x")) == ["<open><k>x</k></open>"]


def test_unprocessed_messages_of_the_old_lifetime_are_processed_by_their_queue_and_not_by_the_slicing() -> None:
    program = """
    create queue a create queue out
    create property k as xs:string queue a value //k
    create slicing s on k
    create rule of_queue for a if (true()) then do enqueue <queue>{//n}</queue> into out
    create rule of_slice for s if (true()) then (do enqueue <slice>{//n}</slice> into out, do reset)
    """
    with Lab(program) as lab:
        lab.enqueue("a", "<m><k>1</k><n>1</n></m>")
        lab.enqueue("a", "<m><k>1</k><n>2</n></m>")
        lab.run_until_idle()
        assert texts(lab.read_created("out")) == [
            "<queue><n>1</n></queue>",
            "<slice><n>1</n></slice>",
            "<queue><n>2</n></queue>",
        ]


def test_a_message_stays_until_the_last_of_its_slices_is_reset() -> None:
    program = """
    create queue orders create queue done
    create property packing as xs:string queue orders value //id
    create property paying as xs:string queue orders value //id
    create slicing packed on packing
    create slicing paid on paying
    create rule p for done if (//packed) then do reset packed key //id
    create rule q for done if (//paid) then do reset paid key //id
    """
    with Lab(program) as lab:
        lab.enqueue("orders", "<order><id>1</id></order>")
        lab.run_until_idle()
        lab.enqueue("done", "<d><paid/><id>1</id></d>")
        lab.run_until_idle()
        assert len(lab.read_queue("orders")) == 1
        lab.enqueue("done", "<d><packed/><id>1</id></d>")
        lab.run_until_idle()
        # orders has no rule: its messages are not processed, so it is a mailbox and keeps them
        assert len(lab.read_queue("orders")) == 1
        assert len(lab.take("orders")) == 1
        assert lab.read_queue("orders") == []


def test_what_is_processed_and_in_no_slice_is_invisible_at_once_and_removed_later() -> None:
    with Lab("create queue a create queue b create rule r for a if (//x) then do enqueue <y/> into b") as lab:
        lab.enqueue("a", "<x/>")
        lab.run_until_idle()
        assert lab.read_queue("a") == []
        assert texts(lab.read_stored("a")) == ["<x/>"]
        lab.advance(1)
        assert lab.collect_garbage() == 1
        assert lab.read_stored("a") == []
        assert texts(lab.read_queue("b")) == ["<y/>"]


def test_messages_can_be_grouped_by_what_the_system_knows_of_them() -> None:
    program = """
    create queue a create queue b
    create slicing family on demaq:origin
    create slicing self on demaq:id
    create rule grow for family if (count(qs:slice()) lt 3) then do enqueue <child/> into a
    create rule done for family if (count(qs:slice()) eq 3) then
      do enqueue <done of="{qs:slicekey()}"/> into b
    """
    with Lab(program) as lab:
        first = lab.enqueue("a", "<m/>")
        second = lab.enqueue("a", "<m/>")
        lab.run_until_idle()
        assert {m.properties["demaq:origin"] for m in lab.read_created("a")} == {first, second}
        assert [m.id for m in lab.read_slice("self", second)] == [second]
        assert len(lab.read_slice("family", first)) >= 3
        assert f'<done of="{first}"/>' in texts(lab.read_created("b"))


# --- errors -----------------------------------------------------------------------------------------------------------


def test_an_error_goes_to_the_rule_then_the_queue_then_the_module_then_the_system() -> None:
    program = """
    {header}
    create queue a {queue} create queue e1 create queue e2 create queue e3
    create rule r for a {rule} if (true()) then do enqueue <x>{{1 div 0}}</x> into e1
    """
    cases = [
        ("module m errorqueue e3;", "errorqueue e2", "errorqueue e1", "e1"),
        ("module m errorqueue e3;", "errorqueue e2", "", "e2"),
        ("module m errorqueue e3;", "", "", "e3"),
        ("", "", "", "demaq:errors"),
    ]
    for header, queue, rule, expected in cases:
        with Lab(program.format(header=header, queue=queue, rule=rule)) as lab:
            sent = lab.enqueue("a", "<m>1</m>")
            lab.run_until_idle()
            (error,) = lab.read_created(expected)
            assert error.body.startswith("<error><dynamicError/><rule>r</rule><queue>a</queue>")
            assert f"<messageId>{sent}</messageId><code>FOAR0001</code>" in error.body
            assert "<initialMessage><m>1</m></initialMessage></error>" in error.body
            assert ' line="4" column=' in error.body
            assert error.trigger == sent


def test_a_rule_may_ask_how_far_up_an_error_has_come() -> None:
    program = """
    module m errorqueue e;
    create queue a create queue e create queue seen
    create rule r for a if (true()) then do enqueue <x>{1 div 0}</x> into seen
    create rule s for e if (true()) then do enqueue <level>{qs:property("demaq:errorLevel") + 1}</level> into seen
    """
    with Lab(program) as lab:
        lab.enqueue("a", "<m/>")
        lab.run_until_idle()
        assert texts(lab.read_created("seen")) == ["<level>3</level>"]


def test_errors_about_error_messages_go_up_and_come_to_an_end() -> None:
    program = """
    module m errorqueue e2;
    create queue a errorqueue e1 create queue e1 errorqueue a create queue e2
    create rule one for a if (true()) then do enqueue <x>{1 div 0}</x> into e2
    create rule two for e1 if (true()) then do enqueue <x>{1 div 0}</x> into e2
    create rule three for e2 if (true()) then do enqueue <x>{1 div 0}</x> into e2
    create rule four for demaq:errors if (true()) then do enqueue <x>{1 div 0}</x> into e2
    """
    with Lab(program) as lab:
        lab.enqueue("a", "<m/>")
        lab.run_until_idle()
        assert [len(lab.read_created(queue)) for queue in ("e1", "e2", "demaq:errors")] == [1, 1, 1]


def test_error_messages_inherit_what_the_failed_message_would_hand_on() -> None:
    program = """
    create queue a create queue e
    create property vip as xs:boolean inherited queue a, e
    create rule r for a errorqueue e if (true()) then do enqueue <x>{1 div 0}</x> into e
    """
    with Lab(program) as lab:
        lab.enqueue("a", "<m/>", {"vip": True})
        lab.run_until_idle()
        assert lab.read_created("e")[0].properties["vip"] == "true"


def test_an_error_that_its_queue_refuses_ends_in_the_systems_queue_whatever_that_computes() -> None:
    program = """
    module m errorqueue me;
    create queue a create queue e create queue me
    create property k as xs:integer queue e, demaq:errors value //k
    create property i as xs:string inherited queue a, demaq:errors
    create rule r for a errorqueue e if (true()) then do enqueue <y>{1 div 0}</y> into a
    create rule s for demaq:errors if (true()) then do enqueue <y>{1 div 0}</y> into a
    """
    with Lab(program) as lab:
        lab.enqueue("a", "<m><k>5</k></m>", {"i": "7"})
        lab.run_until_idle()
        assert len(lab.read_created("e")) == 1
        lab.enqueue("a", "<m><k>x</k></m>", {"i": "7"})
        lab.run_until_idle()
        assert (len(lab.read_created("e")), len(lab.read_created("demaq:errors")), len(lab.read_created("me"))) == (
            1,
            1,
            0,
        )


def test_a_burst_in_one_slice_is_reset_once_for_each_lifetime() -> None:
    program = """
    create queue a create queue out
    create property k as xs:string queue a value //k
    create slicing s on k
    create rule r for s if (/m) then (do enqueue <closed>{//n}</closed> into out, do reset)
    """
    with Lab(program) as lab:
        for n in range(6):
            lab.enqueue("a", f"<m><k>{n % 2}</k><n>{n}</n></m>")
        lab.run_until_idle()
        assert texts(lab.read_created("out")) == ["<closed><n>0</n></closed>", "<closed><n>1</n></closed>"]


def test_rules_handle_errors_like_any_message() -> None:
    program = """
    create queue a create queue e create queue letters
    create rule r for a errorqueue e if (true()) then do enqueue <x>{xs:integer(//n)}</x> into letters
    create rule handle for e if (/error/dynamicError) then
      do enqueue <letter>{/error/initialMessage//n}</letter> into letters
    """
    with Lab(program) as lab:
        lab.enqueue("a", "<m><n>5</n></m>")
        lab.enqueue("a", "<m><n>five</n></m>")
        lab.run_until_idle()
        assert texts(lab.read_created("letters")) == ["<x>5</x>", "<letter><n>five</n></letter>"]


def test_an_endless_chain_of_messages_ends_in_an_error() -> None:
    program = "create queue a create rule r for a if (true()) then do enqueue <n>{. + 1}</n> into a"
    with Lab(program, hops_max=50) as lab:
        lab.enqueue("a", "<n>0</n>")
        lab.run_until_idle()
        assert len(lab.read_created("a")) == 50
        (error,) = lab.read_created("demaq:errors")
        assert "<systemError/>" in error.body


def test_a_clock_made_of_timers_is_not_an_endless_chain() -> None:
    program = """
    create queue tick create queue wait kind echo
    create rule again for tick if (true()) then do enqueue . into wait with timeout value {0} with target value "tick"
    """
    with Lab(program.replace("{0}", '"PT1M"'), hops_max=10) as lab:
        lab.enqueue("tick", "<tick/>")
        lab.advance(50 * 60)
        assert len(lab.read_created("tick")) == 50
        assert lab.read_created("demaq:errors") == []
    with Lab(program.replace("{0}", "0"), hops_max=10) as lab:
        lab.enqueue("tick", "<tick/>")
        lab.run_until_idle()
        assert len(lab.read_created("demaq:errors")) == 1


# --- time ------------------------------------------------------------------------------------------------------------

TIMERS = """
create queue a create queue t kind echo create queue back create property n as xs:integer inherited queue a, t, back
create rule r for a if (true()) then do enqueue <later>{//text()}</later> into t
  with timeout value xs:dayTimeDuration(//in) with target value "back"
"""


def test_echo_queues_bring_messages_back_when_it_is_time_in_due_order() -> None:
    with Lab(TIMERS) as lab:
        for delay in ("PT2H", "PT1H", "PT0S", "-PT5S"):
            lab.enqueue("a", f"<m><in>{delay}</in></m>", {"n": 5})
        lab.run_until_idle()
        assert texts(lab.read_created("back")) == ["<later>-PT5S</later>", "<later>PT0S</later>"]
        lab.advance(3599)
        assert len(lab.read_created("back")) == 2
        lab.advance(1)
        assert len(lab.read_created("back")) == 3
        lab.advance(10_000)
        assert texts(lab.read_created("back"))[2:] == ["<later>PT1H</later>", "<later>PT2H</later>"]
        assert lab.read_created("back")[0].properties["n"] == "5"
        assert "timeout" not in lab.read_created("back")[0].properties
        assert lab.read_queue("t") == []


@pytest.mark.parametrize(("time", "fires"), [("0001-01-01T00:00:00+14:00", True), ("9999-12-31T23:59:59-14:00", False)])
def test_a_timer_at_a_time_beyond_those_of_utc_does_not_stop_the_engine(time: str, fires: bool) -> None:
    with Lab(TIMERS.replace("xs:dayTimeDuration", "xs:dateTime")) as lab:
        lab.enqueue("a", f"<m><in>{time}</in></m>")
        lab.run_until_idle()
        lab.crash()
        lab.run_until_idle()
        assert len(lab.read_queue("back")) == fires


def test_overdue_timers_fire_once_after_a_crash() -> None:
    with Lab(TIMERS) as lab:
        lab.enqueue("a", "<m><in>PT1H</in></m>")
        lab.run_until_idle()
        lab.crash()
        lab.advance(7200)
        lab.crash()
        lab.advance(7200)
        assert len(lab.read_queue("back")) == 1


# --- durability and modes --------------------------------------------------------------------------------------------


def test_nothing_that_was_accepted_is_lost_in_a_crash_and_nothing_is_done_twice() -> None:
    with Lab("create queue a create queue b create rule r for a if (true()) then do enqueue . into b") as lab:
        for n in range(10):
            lab.enqueue("a", f"<m>{n}</m>")
        lab.crash()
        lab.run_until_idle()
        lab.crash()
        lab.run_until_idle()
        assert texts(lab.read_queue("b")) == [f"<m>{n}</m>" for n in range(10)]


def test_transient_queues_are_empty_after_a_crash() -> None:
    program = """
    create queue a create queue t mode transient create queue p
    create property k as xs:string queue t, p value "1"
    create slicing s on k
    create rule r for a if (true()) then (do enqueue <t/> into t, do enqueue <p/> into p)
    create rule never for s if (//never) then do reset
    """
    with Lab(program) as lab:
        lab.enqueue("a", "<m/>")
        lab.run_until_idle()
        assert len(lab.read_slice("s", "1")) == 2
        lab.crash()
        assert texts(lab.read_slice("s", "1")) == ["<p/>"]
        assert lab.read_queue("t") == []


def test_collections_are_read_by_rules() -> None:
    program = 'create queue a create queue b create rule r for a if (true()) then do enqueue <p>{collection("c")//x}</p> into b'
    with Lab(program, collections={"c": ["<d><x>1</x></d>", "<d><x>2</x></d>"]}) as lab:
        lab.enqueue("a", "<m/>")
        lab.run_until_idle()
        assert texts(lab.read_created("b")) == ["<p><x>1</x><x>2</x></p>"]


# --- intake ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queue", "body", "properties", "kind"),
    [
        ("a", "<m", {}, "notWellFormed"),
        ("a", "<m><k>x</k></m>", {}, "propertyError"),
        ("a", "<m/>", {"k": "y"}, "propertyError"),
        ("a", "<m/>", {"unknown": "y"}, "propertyError"),
        ("nowhere", "<m/>", {}, "enqueueError"),
    ],
)
def test_intake_refuses_what_a_queue_cannot_take(queue: str, body: str, properties: dict[str, str], kind: str) -> None:
    with Lab("create queue a create property k as xs:integer queue a value //k") as lab:
        with pytest.raises(MessageError) as refusal:
            lab.enqueue(queue, body, properties)
        assert refusal.value.kind == kind
        assert lab.read_stored("a") == []


def test_messages_know_where_they_come_from() -> None:
    program = """
    create queue a create queue b create queue c
    create rule one for a if (true()) then do enqueue <b/> into b
    create rule two for b if (true()) then
      do enqueue <c rule="{qs:property("demaq:rule")}" origin="{qs:property("demaq:origin")}"/> into c
    """
    with Lab(program) as lab:
        sent = lab.enqueue("a", "<a/>")
        lab.run_until_idle()
        (made,) = lab.read_created("c")
        assert made.body == f'<c rule="one" origin="{sent}"/>'
        assert made.rule == "two"
        assert made.trigger == lab.read_created("b")[0].id
        assert lab.read_stored("b")[0].processed
