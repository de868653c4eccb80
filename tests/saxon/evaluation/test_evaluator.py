"""Rules evaluated on messages: what fires, what it makes, what goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from demaq.documents import Document, parse_document
from demaq.errors import MessageError, ProgramError
from demaq.evaluation.outcomes import Enqueued, SliceReset
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.memory_state import MemoryState
from demaq.messages import PropertyValue
from demaq.testing.lab import load_text
from demaq.xml_bounds import NAMESPACES_MAX
from tests.support.programs import NOW, Bench, bodies, failures, program, values

QUEUES = "create queue a create queue b create queue c\n"


def bench(folder: Path, text: str, **files: str) -> Bench:
    return Bench(program(folder, QUEUES + text, **files))


def test_a_rule_whose_condition_holds_enqueues(tmp_path: Path) -> None:
    outcome = bench(tmp_path, "create rule r for a if (//x) then do enqueue <y>{//x}</y> into b").run("a", "<x>1</x>")
    assert outcome.fired == ["r"]
    assert bodies(outcome, "b") == ["<y><x>1</x></y>"]


def test_a_rule_whose_condition_does_not_hold_does_nothing(tmp_path: Path) -> None:
    outcome = bench(tmp_path, "create rule r for a if (//x) then do enqueue <y/> into b").run("a", "<z/>")
    assert (outcome.fired, outcome.actions, outcome.errors) == ([], [], [])


def test_actions_stand_in_the_order_of_the_rules(tmp_path: Path) -> None:
    outcome = bench(
        tmp_path,
        """
        create property k as xs:string queue a value //k
        create slicing s on k
        create rule late for s if (qs:slice()) then do enqueue <third/> into b
        create rule one for a if (true()) then (do enqueue <first/> into b, do enqueue <second/> into c)
        create rule two for a if (true()) then do enqueue <after/> into b
        """,
    ).run("a", "<m><k>1</k></m>")
    assert bodies(outcome) == ["<first/>", "<second/>", "<after/>", "<third/>"]


def test_a_comma_continues_the_innermost_branch(tmp_path: Path) -> None:
    outcome = bench(
        tmp_path,
        """
        create rule r for a
        if (//x) then
          let $n := 1
          return do enqueue <p/> into b,
                 do enqueue <q/> into c
        """,
    ).run("a", "<x/>")
    assert bodies(outcome) == ["<p/>", "<q/>"]


@pytest.mark.parametrize("path", ["/", "root()", "//x/..", "//x/ancestor::node()[last()]", ".", "qs:message()"])
def test_a_rule_may_reach_the_document_node_in_any_way(tmp_path: Path, path: str) -> None:
    text = f"create rule r for a if (({path}) instance of document-node()) then do enqueue ({path}) into b"
    assert bodies(bench(tmp_path, text).run("a", "<x/>")) == ["<x/>"]


def test_no_rule_sees_the_other_messages_of_its_batch(tmp_path: Path) -> None:
    lab = bench(
        tmp_path,
        """
        create rule r for a if (true()) then
          do enqueue <seen n="{count(//x)}" up="{count(//x[1]/ancestor::*)}" after="{count(//x/following::*)}"
            roots="{count(//x[1]/../../*)}"/> into b
        """,
    )
    messages = [lab.state.add("a", parse_document("<m><x/></m>")) for _ in range(3)]
    outcomes = lab.evaluator.evaluate(messages, lab.state, NOW)
    assert {text for outcome in outcomes for text in bodies(outcome)} == {'<seen n="1" up="1" after="0" roots="1"/>'}


def test_a_failing_rule_loses_its_own_actions_and_no_others(tmp_path: Path) -> None:
    outcome = bench(
        tmp_path,
        """
        create rule bad for a if (true()) then (do enqueue <lost/> into b, do enqueue <x>{1 div 0}</x> into b)
        create rule good for a if (true()) then do enqueue <kept/> into b
        """,
    ).run("a", "<m/>")
    assert bodies(outcome) == ["<kept/>"]
    assert failures(outcome) == [("bad", "dynamicError", "FOAR0001")]


def test_an_error_is_reported_at_the_authors_line(tmp_path: Path) -> None:
    text = """
create rule bad for a
  if (//x) then
    let $n := xs:integer(//x)
    return
      do enqueue <r>{
        if ($n = 1) then error(xs:QName("demaq:mine"), "no") else ()
      }</r> into b
"""
    outcome = bench(tmp_path, text).run("a", "<x>1</x>")
    assert outcome.errors[0].code == "demaq:mine"
    assert outcome.errors[0].at is not None
    assert outcome.errors[0].at.line == 8
    outcome = bench(tmp_path, text).run("a", "<x>one</x>")
    assert outcome.errors[0].code == "FORG0001"
    assert outcome.errors[0].at is not None
    assert outcome.errors[0].at.line == 5


LIBRARY = """module namespace l = "urn:l";
declare variable $l:limit := 10;
declare variable $l:day :=
  xs:date("day " || $l:limit);
declare function l:half($x) {
  xs:integer($x) div 2 };
"""


@pytest.mark.parametrize(
    ("expression", "code", "place"),
    [
        ("l:half(//x)", "FORG0001", "library.xqm:6"),
        ("$l:day", "FORG0001", "library.xqm:4"),
        ("$own", "FOAR0001", "app.dmq:3"),
        ("$typed", "XPTY0004", "app.dmq:4"),
        ("$through", "FOAR0001", "app.dmq:3"),
        ("$thrown", "demaq:mine", "app.dmq:7"),
        ("local:f($l:limit)", "FOAR0001", "app.dmq:6"),
    ],
)
def test_an_error_in_the_prolog_or_a_library_is_found_where_it_is(
    tmp_path: Path, expression: str, code: str, place: str
) -> None:
    text = f"""import module namespace l = "urn:l" at "library.xqm";
declare variable $own :=
  $l:limit div ($l:limit - 10);
declare variable $typed as xs:integer := parse-json('"x"');
declare variable $through := $own + 1;
declare function local:f($x) {{ $x div 0 }};
declare variable $thrown := error(xs:QName("demaq:mine"), "no");
create queue a create queue b
create rule r for a if (//x) then do enqueue <r>{{ {expression} }}</r> into b
create rule s for a if (//x) then do enqueue <fine/> into b
"""
    lab = Bench(program(tmp_path, text, library_xqm=LIBRARY))
    outcome = lab.run("a", "<x>one</x>")
    (error,) = outcome.errors
    assert (error.rule, error.kind, error.code) == ("r", "dynamicError", code)
    assert error.at is not None
    assert f"{Path(error.at.file).name}:{error.at.line}" == place
    assert bodies(outcome) == ["<fine/>"]


@pytest.mark.parametrize(
    ("prolog", "action", "place"),
    [
        ("", '(do enqueue <a/> into b,\n do enqueue <r\n  n="{xs:integer(//x)}"/> into b)', (4, 3)),
        ("", '(do enqueue <a/> into b,\n do enqueue <r m="{1}"\n  n="{xs:integer(//x)}"/> into b)', (3, 2)),
        ("", '(do enqueue <a m="{1}"/> into b,\n do enqueue <r n="{xs:integer(//x)}"/> into b)', (2, 1)),
        ("declare function local:f($x) { <y z='{$x}'/> };", 'do enqueue <r n="{xs:integer(//x)}"/> into b', (2, 1)),
    ],
)
def test_an_error_in_an_attribute_is_found_as_near_as_is_certain(
    tmp_path: Path, prolog: str, action: str, place: tuple[int, int]
) -> None:
    text = f"{prolog} create queue a create queue b\ncreate rule r for a if (//x) then {action}"
    (error,) = Bench(program(tmp_path, text)).run("a", "<x>one</x>").errors
    assert error.code == "FORG0001"
    assert error.at is not None
    assert (error.at.line, error.at.column) == place


def test_endless_recursion_costs_its_own_rule_and_message_only(tmp_path: Path) -> None:
    lab = Bench(
        program(
            tmp_path,
            "declare function local:f($x) { 1 + local:f($x) };\n"
            + QUEUES
            + "create rule endless for a if (//bad) then do enqueue <x>{local:f(1)}</x> into b\n"
            + "create rule fine for a if (true()) then do enqueue <ok/> into b",
        )
    )
    messages = [lab.state.add("a", parse_document(body)) for body in ("<m/>", "<bad/>", "<m/>")]
    outcomes = lab.evaluator.evaluate(messages, lab.state, NOW)
    assert [bodies(outcome) for outcome in outcomes] == [["<ok/>"]] * 3
    assert [failures(outcome) for outcome in outcomes] == [
        [],
        [("endless", "dynamicError", "demaq:notEvaluated")],
        [],
    ]


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        ("(<p/>, <q/>)", "2 items"),
        ("()", "nothing"),
        ('"text"', "the value text"),
        ("//@id", "an attribute"),
        ("text { 'x' }", "a text node"),
        ("document { <p/>, <q/> }", "a document with 2 elements"),
        ("map { }", "a function, map or array"),
    ],
)
def test_only_one_element_can_be_enqueued(tmp_path: Path, message: str, problem: str) -> None:
    text = f"create rule r for a if (true()) then do enqueue {message} into b"
    outcome = bench(tmp_path, text).run("a", '<m id="1"/>')
    assert failures(outcome) == [("r", "enqueueError", "demaq:enqueueError")]
    assert problem in outcome.errors[0].description


# --- state -----------------------------------------------------------------------------------------------------------


def test_a_slice_rule_sees_the_messages_of_its_slice_and_itself(tmp_path: Path) -> None:
    lab = bench(
        tmp_path,
        """
        create property k as xs:string queue a, b value //k
        create slicing s on k
        create rule r for s if (count(qs:slice()) = 3) then do enqueue <n key="{qs:slicekey()}">{qs:slice()/*/v}</n> into c
        """,
    )
    lab.add("a", "<m><k>1</k><v>1</v></m>", "<m><k>2</k><v>2</v></m>")
    lab.add("b", "<m><k>1</k><v>3</v></m>")
    outcome = lab.run("b", "<m><k>1</k><v>4</v></m>")
    assert bodies(outcome) == ['<n key="1"><v>1</v><v>3</v><v>4</v></n>']
    assert outcome.reads.slices == {("s", "1")}


def test_a_message_without_the_slicing_property_is_in_no_slice(tmp_path: Path) -> None:
    lab = bench(
        tmp_path,
        """
        create property k as xs:string queue a value //k
        create slicing s on k
        create rule r for s if (true()) then do reset
        """,
    )
    assert lab.run("a", "<m/>").fired == []
    assert lab.run("a", "<m><k>7</k></m>").actions == [SliceReset(rule="r", slicing="s", key="7")]


def test_the_message_is_the_same_node_in_its_slice(tmp_path: Path) -> None:
    lab = bench(
        tmp_path,
        """
        create property k as xs:string queue a value //k
        create slicing s on k
        create rule r for s if (exists(qs:slice() except qs:message())) then
          do enqueue <others>{qs:slice() except qs:message()}</others> into b
        """,
    )
    assert lab.run("a", "<m><k>1</k></m>").fired == []
    assert bodies(lab.run("a", "<n><k>1</k></n>")) == ["<others><m><k>1</k></m></others>"]


def test_messages_are_in_the_order_in_which_they_were_enqueued_whichever_was_parsed_first(tmp_path: Path) -> None:
    lab = bench(
        tmp_path,
        """
        create rule one for a if (//only) then do enqueue <n>{qs:queue("b")[//id = qs:message()//only]//v}</n> into c
        create rule all for a if (//all) then do enqueue <n>{qs:queue("b")//v}</n> into c
        """,
    )
    lab.add("b", "<m><id>1</id><v>1</v></m>", "<m><id>2</id><v>2</v></m>", "<m><id>3</id><v>3</v></m>")
    assert bodies(lab.run("a", "<q><only>3</only></q>")) == ["<n><v>3</v></n>"]
    assert bodies(lab.run("a", "<q><only>2</only></q>")) == ["<n><v>2</v></n>"]
    assert bodies(lab.run("a", "<q><all/></q>")) == ["<n><v>1</v><v>2</v><v>3</v></n>"]


def test_messages_that_rules_of_one_batch_read_in_parts_are_in_the_order_in_which_they_were_enqueued(
    tmp_path: Path,
) -> None:
    lab = bench(
        tmp_path,
        """
        create rule one for a if (//only) then do enqueue <n>{qs:queue("b")[//id = qs:message()//only]//v}</n> into c
        create rule all for a if (//all) then do enqueue
          <n in="{qs:queue("b")[//id = 1] << qs:queue("b")[//id = 3]}">{reverse(qs:queue("b"))/(.|.)//v}</n> into c
        """,
    )
    lab.add("b", "<m><id>1</id><v>1</v></m>", "<m><id>2</id><v>2</v></m>", "<m><id>3</id><v>3</v></m>")
    texts = ("<q><only>3</only></q>", "<q><only>2</only><all/></q>", "<q><only>1</only><all/></q>")
    messages = [lab.state.add("a", parse_document(text)) for text in texts]
    every = '<n in="true"><v>1</v><v>2</v><v>3</v></n>'
    assert [bodies(outcome) for outcome in lab.evaluator.evaluate(messages, lab.state, NOW)] == [
        ["<n><v>3</v></n>"],
        ["<n><v>2</v></n>", every],
        ["<n><v>1</v></n>", every],
    ]


@pytest.mark.parametrize(
    "read",
    [
        'qs:queue("b")[//id = //wanted]',  # both sides of the looked-up message: a scan
        'qs:queue("b")[//id = qs:message()//wanted]',
        'qs:queue("b")[.//id eq qs:message()//wanted]',
        'qs:queue("b")/m[id = qs:message()//wanted]/..',
        'for $m in qs:queue("b") where $m//id = //wanted return $m',
        'let $all := qs:queue("b"), $w := //wanted return $all[//id = $w]',
        'let $all := qs:queue("b")/m return $all[id = qs:message()//wanted]',
        'for $w in //wanted return qs:queue("b")[//id = $w]',
        'qs:queue("b")[some $i in .//id satisfies $i = qs:message()//wanted]',
        'qs:queue(concat("", "b"))[//id = qs:message()//wanted]',
        '("b" => qs:queue())[//id = qs:message()//wanted]',
        'let $q := qs:queue#1 return $q("b")[//id = qs:message()//wanted]',
    ],
)
def test_whatever_way_a_queue_is_read_the_same_messages_are_found(tmp_path: Path, read: str) -> None:
    lab = bench(tmp_path, f"create rule r for a if (true()) then do enqueue <found>{{({read})//v}}</found> into c")
    lab.add("b", "<m><id>1</id><v>one</v></m>", "<m><id>2</id><v>two</v></m>", "<m><id>2</id><v>zwei</v></m>")
    outcome = lab.run("a", "<q><wanted>2</wanted></q>")
    expected = "" if read == 'qs:queue("b")[//id = //wanted]' else "<v>two</v><v>zwei</v>"
    assert bodies(outcome) == [f"<found>{expected}</found>" if expected else "<found/>"]


@pytest.mark.parametrize(
    ("key", "stored", "found"),
    [
        ("xs:integer(//n)", "05", True),
        ("xs:double(//n)", "5.0", True),
        ("string(//n)", "05", False),
        ("xs:date('2026-05-01')", "2026-05-01", True),
        ("(7, 5)", "5e0", True),
    ],
)
def test_keys_of_any_type_find_what_equals_them(tmp_path: Path, key: str, stored: str, found: bool) -> None:
    lab = bench(
        tmp_path,
        f'create rule r for a if (let $k := {key} return qs:queue("b")[//id = $k]) then do enqueue <y/> into c',
    )
    lab.add("b", f"<m><id>{stored}</id></m>")
    assert bool(lab.run("a", "<q><n>5</n></q>").fired) is found


def test_collections_are_read_by_name(tmp_path: Path) -> None:
    lab = bench(
        tmp_path,
        'create rule r for a if (true()) then do enqueue <p>{collection("prices")//price[@of = qs:message()/*/@of]}</p> into b',
    )
    lab.state.add_to_collection("prices", parse_document('<l><price of="x">1</price><price of="y">2</price></l>'))
    outcome = lab.run("a", '<q of="y"/>')
    assert bodies(outcome) == ['<p><price of="y">2</price></p>']
    assert outcome.reads.collections == {"prices"}


def test_a_try_of_the_author_does_not_hide_that_state_is_needed(tmp_path: Path) -> None:
    lab = bench(
        tmp_path,
        'create rule r for a if (true()) then do enqueue <n>{try { count(qs:queue(//q)) } catch * { "caught" }}</n> into c',
    )
    lab.add("b", "<m/>", "<m/>")
    assert bodies(lab.run("a", "<x><q>b</q></x>")) == ["<n>2</n>"]
    assert bodies(lab.run("a", "<x><q>a</q><q>b</q></x>")) == ["<n>caught</n>"]


# --- properties ------------------------------------------------------------------------------------------------------

PROPERTIES = """
create property n as xs:integer queue a, b value //n
create property vip as xs:boolean inherited queue a, b value false()
create property fixed as xs:string fixed queue b value /*/name()
create property c as xs:decimal queue c
"""


def test_properties_are_explicit_then_inherited_then_computed(tmp_path: Path) -> None:
    lab = bench(
        tmp_path,
        PROPERTIES
        + """
        create rule r for a if (true()) then (
          do enqueue <x><n>3</n></x> into b,
          do enqueue <x><n>3</n></x> into b with n value 4 with vip value false()
        )
        """,
    )
    outcome = lab.run("a", "<m/>", {"vip": PropertyValue("boolean", "true", "true")})
    assert values(outcome) == [
        {"n": "3", "vip": "true", "fixed": "x"},
        {"n": "4", "vip": "false", "fixed": "x"},
    ]


def test_several_equal_values_are_one_and_different_ones_an_error(tmp_path: Path) -> None:
    lab = bench(tmp_path, PROPERTIES + "create rule r for a if (true()) then do enqueue <x>{//y}{//n}</x> into b")
    assert values(lab.run("a", "<m><n>7</n><n>07</n></m>"))[0]["n"] == "7"
    with pytest.raises(MessageError, match="2 different values") as refusal:
        lab.run("a", "<m><n>7</n><n>8</n></m>")
    assert refusal.value.kind == "propertyError"


def test_a_value_that_cannot_be_cast_is_an_error_of_the_enqueuing_rule(tmp_path: Path) -> None:
    lab = bench(
        tmp_path, PROPERTIES + "create rule r for a if (true()) then do enqueue <x/> into c with c value 'much'"
    )
    outcome = lab.run("a", "<m/>")
    assert failures(outcome) == [("r", "propertyError", "demaq:propertyError")]
    assert outcome.errors[0].at is not None
    assert (outcome.errors[0].at.line, outcome.errors[0].at.column) == (7, 61)


def test_values_are_equal_by_type_not_by_spelling(tmp_path: Path) -> None:
    lab = bench(
        tmp_path,
        "create property at as xs:dateTime queue a value //at create slicing s on at "
        "create rule r for s if (true()) then do reset",
    )
    first = lab.run("a", "<m><at>2026-05-01T12:00:00Z</at></m>")
    second = lab.run("a", "<m><at>2026-05-01T14:00:00+02:00</at></m>")
    assert first.actions == second.actions != []


def test_rules_read_properties_of_the_message_and_of_others(tmp_path: Path) -> None:
    lab = bench(
        tmp_path,
        PROPERTIES
        + """
        create rule r for a if (true()) then
          do enqueue <p own="{qs:property("n") + 1}" q="{qs:property("demaq:queue")}"
            all="{for $m in qs:queue("a") return qs:property("n", $m)}"/> into c
        """,
    )
    lab.add("a", "<m><n>5</n></m>")
    assert bodies(lab.run("a", "<m><n>6</n></m>")) == ['<p own="7" q="a" all="5 6"/>']


def test_the_time_is_the_messages_own(tmp_path: Path) -> None:
    lab = bench(
        tmp_path,
        "create rule r for a if (true()) then do enqueue "
        '<t d="{current-date()}" z="{implicit-timezone()}">{current-dateTime(), (current-time#0)()}</t> into b',
    )
    assert bodies(lab.run("a", "<m/>")) == ['<t d="2026-05-01Z" z="PT0S">2026-05-01T12:30:00Z 12:30:00Z</t>']


def test_timers_take_durations_times_and_seconds(tmp_path: Path) -> None:
    lab = Bench(
        program(
            tmp_path,
            "create queue a create queue t kind echo create rule r for a if (true()) then "
            "for $v in (xs:dayTimeDuration('PT1M'), xs:dateTime('2026-05-01T00:00:00Z'), 90, '2.5') "
            "return do enqueue <x/> into t with timeout value $v with target value 'a'",
        )
    )
    outcome = lab.run("a", "<m/>")
    assert [value["timeout"] for value in values(outcome)] == ["PT1M", "2026-05-01T00:00:00Z", "PT1M30S", "PT2.5S"]


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ("with target value 'a'", "when"),
        ("with timeout value 5", "where to"),
        ("with timeout value 5 with target value concat('no', 'where')", "is no queue"),
        ("with timeout value 5 with target value concat('i', 'n')", "is an incoming gateway"),
        ("with timeout value 5 with target value concat('', 't')", "is an echo queue, and timeout"),
        ("with timeout value 'soon' with target value 'a'", "is neither"),
    ],
)
def test_timers_that_could_never_end_are_an_error_of_the_rule(tmp_path: Path, properties: str, reason: str) -> None:
    text = (
        "create queue a create queue t kind echo create queue in kind incomingGateway "
        f"create rule r for a if (true()) then do enqueue <x/> into t {properties}"
    )
    outcome = Bench(program(tmp_path, text)).run("a", "<m/>")
    assert failures(outcome) == [("r", "propertyError", "demaq:propertyError")]
    assert reason in outcome.errors[0].description


def test_properties_may_be_computed_from_others_in_any_order_of_declaration(tmp_path: Path) -> None:
    lab = bench(
        tmp_path,
        """
        create property third as xs:integer queue b value qs:property("second") + 1
        create property second as xs:integer queue b value qs:property("first") + 1
        create property first as xs:integer queue b value //n
        create rule r for a if (true()) then do enqueue . into b
        """,
    )
    assert values(lab.run("a", "<n>1</n>")) == [{"first": "1", "second": "2", "third": "3"}]


# --- functions, modules, schemas -------------------------------------------------------------------------------------


def test_declared_functions_know_the_message(tmp_path: Path) -> None:
    lab = Bench(
        program(
            tmp_path,
            """
            declare variable $tax := 0.19;
            declare function local:id() { qs:message()//id };
            declare function local:twice($x) { local:id(), $x, count(qs:queue("b")), $tax };
            create queue a create queue b
            create rule r for a if (local:id()) then
              do enqueue <x>{local:twice(1), for-each((1, 2), local:twice#1), "z" => local:twice()}</x> into b
            """,
        )
    )
    lab.add("b", "<m/>")
    assert bodies(lab.run("a", "<m><id>7</id></m>")) == [
        "<x><id>7</id>1 1 0.19<id>7</id>1 1 0.19<id>7</id>2 1 0.19<id>7</id>z 1 0.19</x>"
    ]


def test_updating_functions_act_in_the_name_of_the_rule_that_calls_them(tmp_path: Path) -> None:
    lab = Bench(
        program(
            tmp_path,
            """
            declare updating function local:log($what) {
              do enqueue <log by="{qs:property("demaq:queue")}">{$what}</log> into b with n value 5,
              do reset s key 3
            };
            declare %updating function local:twice($what) { local:log($what), local:log("again") };
            create queue a create queue b
            create property n as xs:integer queue a, b value //n
            create slicing s on n
            create rule one for a if (//x) then local:twice(//x/text())
            create rule two for a if (//y) then (do enqueue <y/> into b, local:log(1 div 0))
            """,
        )
    )
    outcome = lab.run("a", "<x>1</x>")
    assert bodies(outcome) == ['<log by="a">1</log>', '<log by="a">again</log>']
    assert {action.rule for action in outcome.actions} == {"one"}
    assert lab.evaluator.compiled.plan.rules["one"].enqueues[0].queue == "b"
    assert lab.evaluator.compiled.plan.rules["one"].resets == ("s",)
    assert failures(lab.run("a", "<y/>")) == [("two", "dynamicError", "FOAR0001")]


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ('<x k="{{"/>', '<x k="{"/>'),
        ('<x k="a{{" l="{1}" m="}}"/>', '<x k="a{" l="1" m="}"/>'),
        ('<x k="{{{//n}{{{{}}"/>', '<x k="{1{{}"/>'),
        ("""<x k='{<y l="{{"/>/@l}'/>""", '<x k="{"/>'),
    ],
)
def test_an_attribute_may_have_braces_that_do_not_match(tmp_path: Path, element: str, expected: str) -> None:
    lab = bench(tmp_path, f"create rule r for a if (//n) then do enqueue {element} into b")
    assert bodies(lab.run("a", "<n>1</n>")) == [expected]


def in_library(folder: Path, prolog: str, uri: str = "urn:lib", outer: str = "") -> list[str]:
    """The messages that a rule makes of what function l:f() of a library module returns."""
    library = f'module namespace l = "{uri}"; {prolog}'
    text = f'import module namespace l = "{uri}" at "lib.xqm"; {outer} {QUEUES}'
    rule = "create rule r for a if (true()) then do enqueue <r>{l:f()}</r> into b"
    return bodies(Bench(program(folder, text + rule, lib_xqm=library)).run("a", "<m/>"))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("element x { element y {} }", '<r><x xmlns="urn:inner"><y/></x></r>'),
        ("<x><y/></x>/element(y)", '<r><y xmlns="urn:inner"/></r>'),
        ("<x/> instance of element(x), document { <x/> } instance of document-node(element(x))", "<r>true true</r>"),
        ('<x xmlns="urn:o">{ element y {} }</x>', '<r><x xmlns="urn:o"><y/></x></r>'),
        ('element { "o:x" } { attribute { "o:y" } { 1 } }', '<r><o:x xmlns:o="urn:o" o:y="1"/></r>'),
        ('namespace-uri-from-QName(xs:QName("o:x"))', "<r>urn:o</r>"),
        (
            'copy $c := <x><y/></x> modify rename node $c/y as "o:z" return $c',
            '<r><x xmlns="urn:inner"><o:z xmlns:o="urn:o"/></x></r>',
        ),
        (
            'namespace-uri-from-QName(node-name(<o:x xmlns:o="urn:a&amp;b{{">{ element o:y {} }</o:x>/*))',
            "<r>urn:a&amp;b{</r>",
        ),
    ],
)
def test_names_in_a_library_are_those_of_its_own_prolog(tmp_path: Path, body: str, expected: str) -> None:
    prolog = f"""declare default element namespace "urn:inner"; declare namespace o = "urn:o";
    declare function l:f() {{ {body} }};"""
    assert in_library(tmp_path, prolog) == [expected]


def test_a_computed_element_of_a_library_is_not_in_the_namespace_of_its_importer(tmp_path: Path) -> None:
    outer = 'declare default element namespace "urn:outer";'
    made = in_library(tmp_path, "declare function l:f() { local-name(element x {}/self::x) };", outer=outer)
    assert made == ['<r xmlns="urn:outer">x</r>']


@pytest.mark.parametrize("uri", ["lib", "../lib/prices", "a&amp;b"])
def test_a_library_may_have_a_namespace_without_a_scheme(tmp_path: Path, uri: str) -> None:
    prolog = """declare variable $l:one := 1; declare function l:f() { l:g($l:one) + (1 ! l:g#1(.)) };
    declare %private function l:g($n) { $n + count(qs:message()) };"""
    assert in_library(tmp_path, prolog, uri) == ["<r>4</r>"]


def test_a_function_may_be_declared_by_its_full_name(tmp_path: Path) -> None:
    text = "declare function Q{prices}f() { 2 }; " + QUEUES
    lab = Bench(
        program(tmp_path, text + "create rule r for a if (true()) then do enqueue <r>{Q{prices}f()}</r> into b")
    )
    assert bodies(lab.run("a", "<m/>")) == ["<r>2</r>"]


PRESERVE = "declare boundary-space preserve;"
GREATEST = "declare default order empty greatest;"
FORMAT = 'declare decimal-format l:d decimal-separator = "," grouping-separator = ".";'


@pytest.mark.parametrize(
    ("own", "importers", "body", "expected"),
    [
        (PRESERVE, "", "<x> <y/>\n<!--c-->{1} {2} </x>", "<r><x> <y/>\n<!--c-->1 2 </x></r>"),
        ("", PRESERVE, "<x> <y/>\n<!--c-->{1} {2} </x>", "<r><x><y/><!--c-->12</x></r>"),
        ("", PRESERVE, "<x> <![CDATA[]]> &#x20; a </x>", "<r><x>    a </x></r>"),
        (PRESERVE, PRESERVE, "<x> <y/></x>", "<r><x> <y/></x></r>"),
        (GREATEST, "", "for $x in ([], [1]) order by $x?* return count($x?*)", "<r>1 0</r>"),
        ("", GREATEST, "for $x in ([], [1]) order by $x?* return count($x?*)", "<r>0 1</r>"),
        ("", GREATEST, "for $x in ([], [1]) order by $x?* empty greatest return count($x?*)", "<r>1 0</r>"),
        (FORMAT, "", 'format-number(1.5, "0,0", "l:d")', "<r>1,5</r>"),
        (FORMAT, FORMAT, 'format-number(1.5, "0,0", "l:d")', "<r>1,5</r>"),
    ],
)
def test_a_library_keeps_the_settings_of_its_own_prolog(
    tmp_path: Path, own: str, importers: str, body: str, expected: str
) -> None:
    assert in_library(tmp_path, f"{own} declare function l:f() {{ {body} }};", outer=importers) == [expected]


@pytest.mark.parametrize(
    "setting",
    [
        'declare default collation "http://www.w3.org/2005/xpath-functions/collation/html-ascii-case-insensitive";',
        "declare copy-namespaces no-preserve, inherit;",
        'declare base-uri "http://library.invalid/";',
        "declare default decimal-format NaN = 'none';",
        "declare decimal-format l:d NaN = 'none';",
    ],
)
def test_a_library_whose_settings_cannot_be_kept_is_refused(tmp_path: Path, setting: str) -> None:
    with pytest.raises(ProgramError, match="a library cannot declare another") as failure:
        in_library(tmp_path, f"{setting} declare function l:f() {{ 1 }};", outer=FORMAT)
    assert failure.value.at is not None
    assert failure.value.at.source.file.endswith("lib.xqm")


def test_library_modules_are_imported_with_their_own_names(tmp_path: Path) -> None:
    library = """
    module namespace l = "urn:lib";
    declare default element namespace "urn:inner";
    declare namespace p = "urn:p";
    declare variable $l:rate := 2;
    declare %private function l:helper($x) { $x * $l:rate };
    declare function l:make($x) { <made p:by="lib">{l:helper($x), qs:message()/name(*)}</made> };
    """
    lab = Bench(
        program(
            tmp_path,
            """
            import module namespace lib = "urn:lib" at "lib.xqm";
            declare default element namespace "urn:outer";
            declare namespace p = "urn:other";
            create queue a create queue b
            create rule r for a if (/m) then do enqueue <p:x>{lib:make(21)}</p:x> into b
            """,
            lib_xqm=library,
        )
    )
    outcome = lab.run("a", '<m xmlns="urn:outer"/>')
    assert bodies(outcome) == [
        '<p:x xmlns:p="urn:other"><made xmlns="urn:inner" xmlns:p="urn:p" p:by="lib">42 m</made></p:x>'
    ]


SCHEMA = """
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
  <xs:element name="order"><xs:complexType><xs:sequence><xs:element name="n" type="xs:int"/></xs:sequence></xs:complexType></xs:element>
</xs:schema>
"""


def test_messages_must_be_valid_where_their_queue_has_a_schema(tmp_path: Path) -> None:
    lab = Bench(
        program(
            tmp_path,
            "create queue a create queue b schema s.xsd "
            "create rule r for a if (true()) then (do enqueue <order><n>1</n></order> into b, do enqueue * into b)",
            s_xsd=SCHEMA,
        )
    )
    assert len(bodies(lab.run("a", "<order><n>2</n></order>"))) == 2
    outcome = lab.run("a", "<order><n>two</n></order>")
    assert (failures(outcome), bodies(outcome)) == ([("r", "schemaViolation", "demaq:schemaViolation")], [])
    with pytest.raises(MessageError) as refusal:
        lab.run("b", "<other/>")
    assert refusal.value.kind == "schemaViolation"


def test_namespaces_and_strange_content_survive(tmp_path: Path) -> None:
    body = (
        '<?pi before?><!-- c --><p:m xmlns:p="urn:p" xmlns="urn:d" p:a="1&#10;2&#9;&lt;&quot;">'
        "<![CDATA[<&]]>\u00e9\U0001f600&#xD;<x xmlns=''/></p:m>"
    )
    lab = bench(tmp_path, "create rule r for a if (true()) then do enqueue . into b")
    made = bodies(lab.run("a", body))[0]
    assert parse_document(made).tree.getroot().get("{urn:p}a") == '1\n2\t<"'
    assert parse_document(made).tree.getroot().text == "<&\u00e9\U0001f600\r"
    assert "<?pi before?>" in made
    assert "<!-- c -->" in made


def test_a_thousand_rules_on_one_queue_find_the_one_that_fires(tmp_path: Path) -> None:
    shapes = [
        "/root{n}",
        "//e{n}",
        "//@a{n}",
        '//type = "t{n}"',
        '/*/@kind = "k{n}"',
        "/m[x/@y = 'v{n}']",
        "//or{n} or //else{n}",
        "exists(//in{n}) and true()",
    ]
    rules = [
        f"create rule r{n} for a if ({shapes[n % 8].format(n=n)}) then do enqueue <hit n='{n}'/> into b"
        for n in range(200)
    ]
    lab = bench(tmp_path, "\n".join(rules))
    bodies_for = [
        (8, "<root8/>"),
        (9, "<m><e9/></m>"),
        (10, "<m a10=''/>"),
        (11, "<m><z><type>t<b>11</b></type></z></m>"),
        (12, "<m kind='k12'/>"),
        (13, "<m><x y='v13'/></m>"),
        (14, "<m><else14/></m>"),
        (15, "<m><in15/></m>"),
    ]
    for number, body in bodies_for:
        assert lab.run("a", body).fired == [f"r{number}"]
    assert lab.run("a", "<m><root8/><type>x</type></m>").fired == []


def test_default_collations_do_not_fool_the_filter(tmp_path: Path) -> None:
    rules = "\n".join([f"create rule r{n} for a if (//x = 'V{n}') then do enqueue <y/> into b" for n in range(20)])
    lab = Bench(
        program(
            tmp_path,
            'declare default collation "http://www.w3.org/2005/xpath-functions/collation/html-ascii-case-insensitive";'
            + QUEUES
            + rules,
        )
    )
    assert lab.run("a", "<x>v7</x>").fired == ["r7"]


NAMESPACES = "".join([f" xmlns:p{number}='urn:p{number}'" for number in range(NAMESPACES_MAX + 1)])


def test_many_namespaces_one_beside_the_other_are_harmless() -> None:
    assert parse_document("<a>" + "<b xmlns:p='urn:p'/>" * (2 * NAMESPACES_MAX) + "</a>").tree.getroot()[0].tag == "b"


@pytest.mark.parametrize(
    "body",
    [
        "<a>",
        "<a></b>",
        "",
        "text",
        "<a/><b/>",
        "<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
        "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>",
        "<?xml version='1.1'?><a/>",
        "<p:a/>",
        "<a>&#1;</a>",
        "<a b='1' b='2'/>",
        "<a>\x00</a>",
        "<a>" * 5000 + "</a>" * 5000,
        f"<a{NAMESPACES}/>",
        f"<a><b{NAMESPACES[: len(NAMESPACES) // 2]}><c{NAMESPACES}/></b></a>",
    ],
)
def test_what_is_not_well_formed_is_refused(body: str) -> None:
    with pytest.raises(MessageError) as refusal:
        parse_document(body)
    assert refusal.value.kind == "notWellFormed"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "utf-8-sig"])
def test_bodies_are_read_in_the_encoding_they_declare(encoding: str) -> None:
    declared = "utf-8" if encoding == "utf-8-sig" else encoding
    data = f'<?xml version="1.0" encoding="{declared}"?>\n<a>\u00e4</a>\n'.encode(encoding)
    assert parse_document(data).text == "<a>\u00e4</a>"


def test_messages_of_a_batch_that_read_each_other_are_all_evaluated() -> None:
    program = "create queue q create queue o create rule r for q if (count(qs:queue()) = 2) then do enqueue <o/> into o"
    compiled = compile_program(load_text(program))
    evaluator = SaxonEvaluator(compiled, native=False)
    state = MemoryState(evaluator, {}, NOW)
    messages = [state.add("q", Document(f"<m>{n}</m>")) for n in range(2)]
    evaluator.make_nodes(messages[:1])  # while it is evaluated, Saxon makes a node of the other one too
    assert [outcome.fired for outcome in evaluator.evaluate(messages, state, NOW)] == [["r"], ["r"]]


@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize(
    ("path", "count"),
    [("//node() ! .//*", 5), ("//node() ! .//*[true()]", 5), ("//* ! .//* ! ..", 3), ("//b ! ./../*", 3)],
)
def test_a_path_after_an_exclamation_mark_is_one_for_each_item(path: str, count: int, is_native: bool) -> None:
    # Saxon's parser takes it for a path of all of them, which has each node once.
    rule = f"create rule r for q if (/m) then do enqueue <x>{{count({path})}}</x> into out"
    evaluator = SaxonEvaluator(compile_program(load_text(f"create queue q create queue out {rule}")), native=is_native)
    state = MemoryState(evaluator, {}, NOW)
    [outcome] = evaluator.evaluate([state.add("q", parse_document("<m><b><a/><b>2</b></b></m>"))], state, NOW)
    [action] = outcome.actions
    assert isinstance(action, Enqueued)
    assert action.document.text == f"<x>{count}</x>"
