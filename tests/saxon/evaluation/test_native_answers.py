"""Native rules answer what XQuery says, or leave the message to Saxon: what has once been wrong, and its kin."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from demaq.documents import parse_document
from demaq.evaluation.native import native_functions
from demaq.evaluation.native.health import FAULTS_MAX
from demaq.evaluation.outcomes import Enqueued
from tests.support.native import Comparison, compare
from tests.support.programs import NOW, Bench, bodies, program

BODIES = [
    parse_document(body)
    for body in (
        '<m a="1" b="2"><a>2</a></m>',
        '<r a="x"><a x="1">t</a><b x="2">u</b></r>',
        '<r><b x="0">y<a x="3"/></b><a>1<a>2</a><a/></a><c x="5"/></r>',
        '<r z="-0"/>',
    )
]

ORDER = [
    "(/r/b, /r/a)/@x",
    "<i>{string-join((/r/b, /r/a)/@x)}</i>",
    "count((/r/b, /r/b)/@x)",
    "(/r/b, /r/a)/text()",
    "count((/r/b, /r/b)/text())",
    "(//a, //b)/self::node()",
    "(//a, //a)/a",
    "count((//a, /r)//@x)",
    "string-join((//b, //a)/string(.), '+')",
    "(for $x in //a return $x/..)/@x",
    "(//a ! a)/@x",
    "(if (/r) then (//b, //a) else ())/@x",
    "count((qs:message(), qs:message())//a)",
    "count((qs:message(), qs:message())/r)",
]
POSITIONS = [
    "/descendant::a[1]",
    "count(//descendant::a[1])",
    "//a[1]",
    ".//a[1]",
    "/r/descendant::a[2]",
    "//a/descendant::a[last()]",
    "(//a)[2]",
    "(/descendant::*)[position() = 3]",
    "//*[position() = last()]/@x",
]
NUMBERS = [
    "sum(//none) + 1000000",
    "sum(//none) * 1000000e0",
    "sum(//none) * 0.5 + 1000000",
    "sum(//none/(@x * 2)) - 1000000",
    "sum((sum(//none), sum(//c/@x)))",
    "max(sum(//none)) + 1000000",
    "sum(//none) = 0, sum(//none) eq 0",
    "string(sum(//none)), concat(sum(//none) + 1000000, '')",
    "if (1e308 * 10 - 1e308 * 10) then 1 else 2",
    "boolean(0e0 * 1e308 * 10)",
    "9007199254740993 = 9007199254740992e0",
    "(9007199254740992 + 1) eq 9007199254740992e0",
    "(9007199254740992 + 1) = 9007199254740992",
    "max((0e0 * (0 - 1), 0e0))",
    "//@z = 0e0, //@z = 0, //@z = 0.0, //@z < 0",
    "//@x = (//c/@x * 0), (//b/@x * (0 - 1)) = 0e0",
    "(/r/b/@x * (0 - 1)) = /r/b/@x",
    "2e308",
    "1e-400",
    "xs:double(count(//a)) + 1000000",
]
TYPES = [
    "string-length(sum(//@x))",
    "contains(sum(//@x), '1')",
    "starts-with(count(//a), '1')",
    "ends-with('1', count(//a))",
    "normalize-space(count(//a))",
    "string-length(true())",
    "string-join(('a', 'b'), //none)",
    "string-join(('a', 'b'), /r/@a)",
    "(1, 2) ! string-length()",
    "(1.5e0, 20e0) ! normalize-space()",
    "some $x in () satisfies $x",
    "(data(/m/@a), data(//a))",
    "data(/m/@a), 'x'",
    "count(if (//a) then () else ())",
]
ATTRIBUTES = [
    "if (/m/@a) then /m/@a else ()",
    "if (/m/@a) then () else /r/@a",
    "if (/m) then /m/@a else /r/@a",
    "if (/m) then /m/@a else /r/@b",
    "for $a in /m/@a return if ($a = '1') then $a else ()",
    "let $a := (if (/m) then /m/@a else ()) return $a",
    "/m/@a, /m/@b",
    "'', /m/@a",
    "exists(<i>{//a, /m/@a}</i>)",
    "boolean(<i>{//a, /m/@a}</i>)",
]

INDEPENDENT = [
    "for $v in /descendant::none where sum(/r) > 1 return $v",
    "for $v in //a for $w in $v/none where sum($v) > 1 return 'x'",
    "for $v in //a for $w in $v/none let $u := sum($v) where $u > 1 return 'x'",
    "for $v in //a where $v/@x = '1' and sum(/r) > 1 return 'x'",
    "let $r := //r return //none[sum($r) > 1]",
    "let $r := //r return count(//none[@x and sum($r) > 1])",
    "let $r := //r return some $v in //none satisfies sum($r) > 1",
    "for $v in //a where $v/@x = '1' and true() return 'x'",
    "//a['x'][@x = '1']",
    "for $v in //none where /r/*/@x/string() return $v",
    "for $v in //none for $w in //a where $v/@x and /r/*/@x/string() return $v",
    "for $v in //none order by $v where /r/*/@x/string() return $v",
    "let $x := /r/*/@x for $v in //none order by $v where $x/string() return $v",
    "for $v in //none count $n group by $n order by $n where /r/*/@x/string() return $n",
    "let $x := /r/*/@x return //none[$x/string()]",
    "some $v in //none, $w in //a satisfies $v/@x and /r/*/@x/string()",
    "for $v in //none return if (/r/*/@x/string()) then $v else ()",
    "for $v in //none return for $w in $v/a return if ($v/@x and /r/*/@x/string()) then $w else ()",
    "for $v in //none return let $w := $v/a return if (/r/*/@x/string()) then $w else ()",
]


def enqueue(content: str) -> str:
    return f"if (true()) then do enqueue <o>{{{content}}}</o> into o"


def agree(rules: list[str], head: str = "") -> Comparison:
    found = compare(rules, BODIES, head)
    assert found.differences == []
    assert found.faults == []
    return found


@pytest.mark.parametrize("contents", [ORDER, POSITIONS, NUMBERS, TYPES, ATTRIBUTES])
def test_native_rules_agree_with_saxon(contents: list[str]):
    found = agree([enqueue(content) for content in contents])
    assert found.compared >= len(contents), "most of them are native, or else this says little"


def test_a_condition_that_saxon_asks_before_a_loop_is_asked_there():
    found = agree([enqueue(content) for content in INDEPENDENT])
    assert not found.left
    assert found.compared
    assert found.fallbacks, "they fail on some messages"


def test_a_condition_that_fails_is_asked_before_an_empty_loop_of_actions():
    loop = "for $v in //none return"
    condition = "if (/r/*/@x/string()) then do enqueue <x/> into o"
    found = agree(
        [f"if (true()) then {loop} {condition}", f"if (true()) then {loop} for $w in $v/a return {condition}"]
    )
    assert not found.left
    assert found.compared
    assert found.fallbacks, "they fail on some messages"


def test_a_condition_is_asked_even_if_both_branches_are_empty():
    found = agree([enqueue("if (xs:integer(/*/a[1]) > 1) then .. else ()")])
    assert not found.left
    assert found.compared
    assert found.fallbacks, "it fails on some messages"


def test_nodes_of_several_documents_are_in_the_order_that_saxon_has():
    contents = [
        "(qs:message()//a, qs:queue('s')//c)/text()",
        "(qs:queue('s')//c, collection('k')//c)/text()",
        "(qs:queue('s')[2]//c, qs:queue('s')[1]//c)/text()",
        "reverse(qs:queue('s'))//c",
        "(for $d in qs:queue('s') order by $d/s/c descending return $d)//c",
        "qs:queue('s')//c/text()",
        "qs:queue('s')//s//c/text()",
    ]
    state = [parse_document("<s><c>1</c></s>"), parse_document("<s><s><c>2</c></s><c>3</c></s>")]
    found = compare([enqueue(content) for content in contents], BODIES, state=state)
    assert (found.differences, found.faults, found.left) == ([], [], {})
    assert found.compared >= 2 * len(BODIES), "documents that are in order stay native"


def test_an_error_in_a_loop_that_is_empty_is_no_error():
    loops = ("for $v in //none return error()", "for $v in //a return if ($v/a) then error() else ()")
    found = agree([enqueue(loop) for loop in loops])
    assert not found.left
    assert found.compared


def test_operands_are_evaluated_beside_one_that_is_empty():
    contents = [
        f"count({one} {sign} {other})"
        for sign in "+-*"
        for one, other in (("//none", "xs:double('x')"), ("xs:double('x')", "//none"))
    ]
    found = agree([enqueue(content) for content in contents])
    assert found.fallbacks == len(contents) * len(BODIES)


def test_a_path_after_an_exclamation_mark_that_saxon_reads_as_one_path_is_left_to_it():
    """It takes `A ! (B, C)/D` for `A/(B, C)/D`, without duplicates."""
    contents = ("//a ! (/r/b, a)/text()", "(//*/a) ! (/descendant::b, r, a)/text()", "//a ! b/(c, d)/text()")
    rules = [enqueue(content) for content in contents]
    assert list(agree(rules).left) == rules


def test_an_empty_string_before_an_attribute_is_judged_as_saxon_does():
    agree([f"if (true()) then do enqueue <o>{{''}}{{/{name}/@a}}</o> into o" for name in ("m", "r")])


@pytest.mark.parametrize("name", ["u:o", "u:o u:k='1'", "o u:k='1'", "o xmlns:v='http://exämple.org/ö'"])
def test_a_namespace_that_libxml2_does_not_call_a_uri_is_native(name: str):
    rule = f"if (true()) then do enqueue <{name}>{{//a}}</{name.split()[0]}> into o"
    found = agree([rule], 'declare namespace u = "http://exämple.org/é";')
    assert found.native == [rule]


def test_a_number_where_a_string_is_expected_is_refused():
    rules = [enqueue(content) for content in TYPES[:6]]
    assert set(agree(rules).left) | set(agree(rules).refused) == set(rules)


PROGRAM = "create queue q create queue o create rule r for q if (/m) then do enqueue <o>{string-length(/m)}</o> into o"


def test_any_exception_sends_the_message_to_saxon_and_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def fail(*_: object) -> object:
        raise IndexError("nobody expected this")

    monkeypatch.setitem(native_functions.CALLED, "root_named", fail)
    monkeypatch.setitem(native_functions.CALLED, "string_of", fail)
    monkeypatch.setitem(native_functions.CALLED, "one_text", fail)
    bench = Bench(program(tmp_path, PROGRAM))
    health = bench.evaluator.health
    with caplog.at_level(logging.WARNING, "demaq.node"):
        for number in range(FAULTS_MAX + 2):
            outcome = bench.run("q", f"<m>{'x' * number}</m>")
            assert [a.document.text for a in outcome.actions if isinstance(a, Enqueued)] == [f"<o>{number}</o>"]
            assert bench.evaluator.is_native("q") == (number < FAULTS_MAX - 1)
    assert health.faults["r"] == FAULTS_MAX, "then Saxon has the rule"
    assert (health.answers, health.fallbacks) == (0, FAULTS_MAX)
    assert "IndexError: nobody expected this" in health.withdrawn["r"]
    first, last = [record.getMessage() for record in caplog.records]
    assert "native rule r (" in first
    assert "app.dmq:1:" in first
    assert "IndexError: nobody expected this" in first
    assert "left to Saxon from now on" in last


def test_an_exception_in_a_property_leaves_the_message_to_saxon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> object:
        raise IndexError("nobody expected this")

    monkeypatch.setitem(native_functions.CALLED, "string_of", fail)
    text = "create queue q create property k as xs:string queue q value /*/string(k)"
    bench = Bench(program(tmp_path, text))
    for _ in range(FAULTS_MAX + 1):
        assert bench.state.add("q", parse_document("<m><k>1</k></m>")).properties["k"].text == "1"
    assert bench.evaluator.health.faults["properties of q"] == FAULTS_MAX


def test_a_message_that_becomes_a_node_while_others_are_evaluated_is_not_skipped(tmp_path: Path):
    text = """create queue q create queue o
    create rule r for q if (/m) then do enqueue <o>{map:size(map { "n": count(qs:queue("q")) })}</o> into o"""
    bench = Bench(program(tmp_path, text))
    messages = [bench.state.add("q", parse_document("<m/>")) for _ in range(3)]
    bench.evaluator.make_nodes(messages[:1])  # its rule reads the others, which become nodes
    outcomes = bench.evaluator.evaluate(messages, bench.state, NOW)
    assert [bodies(outcome) for outcome in outcomes] == [["<o>1</o>"]] * 3


GUARDED = [
    "@k castable as xs:integer and xs:integer($i/@k) > 1",
    "@k = '9' and (/m/y or xs:integer(/m/t) > 1)",
    "$i/q and $i/@k > 1",
    "/m/y and xs:boolean(/m/t)",
    "not(not($i/q) or xs:integer(/m/t) > 1)",
    "not(not($i/q and $i/@k > 1))",
    "if ($i/q) then $i/@k > 1 else false()",
]
LOOPS = [
    "for $i in /m/i where {} return 1",
    "let $i := /m/i[1] where {} return 1",
    "for $i in /m/i let $k := $i/@k where {} order by $k return 1",
    "for $i at $p in /m/i where $i/@k = 'y' where {} return $p",
    "for $i in /m/i count $c where {} return $c",
    "for $i in /m/i return if ({}) then 1 else ()",
    "some $i in /m/i satisfies ({})",
]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_condition_that_saxon_asks_before_its_guard_is_asked_too(loop: str):
    guarded = [condition.replace("@k", "$i/@k").replace("$i/$i", "$i") for condition in GUARDED]
    rules = [f"if (/m) then do enqueue <o>{{ {loop.format(condition)} }}</o> into o" for condition in guarded]
    bodies = ["<m><i k='x'/><t>x</t></m>", "<m><i k='2'><q/></i><t>1</t></m>", "<m><t>x</t></m>", "<m/>"]
    found = compare(rules, [parse_document(body) for body in bodies])
    assert not found.differences
    assert len(found.answered) == len(rules)
