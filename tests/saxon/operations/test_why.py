"""`why`: mistakes that people make, and what is said about them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from demaq.cli.main import demaq, run
from demaq.errors import OperatorError
from demaq.operations.json_values import as_json
from demaq.operations.pause import make_pause
from demaq.operations.why import why_message
from demaq.operations.why.verdict_text import write_details, write_headline, write_message, write_short
from demaq.operations.why.verdicts import MadeMessage, RuleVerdict
from demaq.testing import Lab

HEAD = """
declare namespace p = "urn:p";
declare function local:is-large($order as element()?) as xs:boolean { $order/total > 100 and $order/@vip = "yes" };
create queue orders create queue payments create queue crm create queue out kind mailbox
create property orderID as xs:string queue orders value /order/@id queue payments value /payment/@order
create slicing byOrder on orderID
"""
ORDER = '<order id="17" kind="Rush"><total>90</total><item sku="A" n="3"/><item sku="B" n="9"/></order>'


class Shop:
    """A laboratory with one rule, whose condition is the matter."""

    def __init__(self) -> None:
        self.labs: list[Lab] = []

    def __call__(self, condition: str, *, target: str = "orders", then: str = "do enqueue <o/> into out") -> Lab:
        lab = Lab(f"{HEAD}\ncreate rule r for {target} if ({condition}) then {then}")
        self.labs.append(lab)
        return lab


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = Shop()
    yield made
    for lab in made.labs:
        lab.close()


def verdict(lab: Lab, message: str, rule: str = "r") -> RuleVerdict:
    lab.run_until_idle()
    return lab.why(message, rule).rules[0]


def said(lab: Lab, message: str, rule: str = "r") -> str:
    found = verdict(lab, message, rule)
    json.dumps(as_json(found))
    return "\n".join([write_headline(found, "processed"), *write_details(found, "processed", 200)])


CASES = [
    ("/order/total > 100", ["/order/total > 100 is false: 90 > 100"]),
    ("/order and /order/total > 100", ["  /order/total > 100 is false: 90 > 100"]),
    ('/order/total < "100.5"', ['is false: "90" < "100.5"', "number(…) on one side"]),
    ('"100" > /order/total', ['is false: "100" > "90"', "number(…) on one side"]),
    ('/order/total = "90.0"', ["as numbers, by number(…) on one side, they are equal"]),
    ('/order/@kind = "rush"', ['"Rush" = "rush"', "upper and lower case only"]),
    ('/order/@kind = " Rush"', ["white space only: normalize-space(…)"]),
    ("/order/Total", ["/order has no Total", "there is total: upper and lower case differ"]),
    ("/order/totl", ["did you mean total?"]),
    ("/order/id", ["there is @id, an attribute"]),
    ("/order/@total", ["there is total, an element"]),
    ("/total", ["the root is order", "there is one further down: //total finds it"]),
    (
        "/p:order",
        [
            "the root is order",
            'order is in namespace "urn:p" here, and in no namespace in the document: Q{}order means',
        ],
    ),
    ("/invoice", ["/invoice finds nothing: the root is order"]),
    (
        '/order[@kind = "rush"]/total',
        ["finds nothing: /order finds 1 element, and the predicate holds for none", '@kind = "rush" is false'],
    ),
    ("/order/item[@n > 5]/price", ["/order/item[@n > 5] has no price"]),
    ("//item[3]", ["finds nothing: //item finds 2 elements"]),
    ("//item[last()]/price", ["//item[last()] has no price"]),
    ('/order/id = "17" or /order/priority', ["neither alternative holds", '() = "17"', "no priority, but total, item"]),
    ("not(/order/item)", ['is false: there is (<item sku="A" n="3"/>, <item sku="B" n="9"/>)']),
    ("empty(//item)", ["is false: there is"]),
    ("not(/order/total < 100)", ["is false: 90 < 100"]),
    ("exists(/order/gift)", ["/order/gift finds nothing: /order has no gift"]),
    (
        'some $i in //item satisfies ($i/@sku = "A" and $i/@n > 5)',
        ["for none of 2 items", '$i = <item sku="A" n="3"/>: $i/@n > 5 is false: 3 > 5', '"B" = "A"'],
    ),
    ("every $i in //item satisfies $i/@n > 5", ["not for 1 item", "3 > 5"]),
    ("some $i in //gift satisfies $i/@n", ["there is nothing to ask", "//gift finds nothing"]),
    ("for $i in //item where $i/@n > 50 return $i", ["where $i/@n > 50 holds for none of 2 items", "9 > 50"]),
    ("for $i in //gift return $i", ["//gift finds nothing"]),
    ("let $t := /order/total return $t > 100", ["$t > 100 is false: 90 > 100"]),
    ("let $t := /order/sum return $t", ["$t is empty", "/order/sum finds nothing: /order has no sum"]),
    ("if (/order/@vip) then true() else /order/gift", ["/order/@vip is false", "/order has no gift"]),
    ("local:is-large(/order)", ["$order/total > 100 is false: 90 > 100", '$order/@vip = "yes" is false: () = "yes"']),
    ('contains(/order/@kind, "rush")', ['contains("Rush", "rush")', "upper and lower case differ"]),
    ("/order/total castable as xs:date", ['is false: it is "90"']),
    ("count(//item) = 3", ["2 = 3", '//item is (<item sku="A" n="3"/>, <item sku="B" n="9"/>)']),
    ("count(//gift) > 0", ["0 > 0", "//gift finds nothing"]),
    ('qs:property("orderID") = "18"', ['is false: "17" = "18"']),
    ('qs:queue("crm")', ['qs:queue("crm") holds no message']),
    ("//item => empty()", ["is false: there is"]),
    ("string(/order/note)", ["which counts as false"]),
    ("try { xs:integer(/order/@kind) } catch * { false() }", ["is false"]),
]


@pytest.mark.parametrize(("condition", "expected"), CASES, ids=[condition for condition, _ in CASES])
def test_what_was_false_is_said_with_what_was_there(shop: Shop, condition: str, expected: list[str]) -> None:
    lab = shop(condition)
    found = said(lab, lab.enqueue("orders", ORDER))
    assert found.startswith("rule r did not fire")
    for words in expected:
        assert words in found


def test_a_message_that_is_missing_in_a_slice_is_said_with_what_the_slice_held(shop: Shop) -> None:
    lab = shop("qs:slice()/order and qs:slice()/payment/@euros >= 90", target="byOrder")
    order = lab.enqueue("orders", ORDER)
    lab.enqueue("orders", '<order id="18"/>')
    lab.run_until_idle()
    payment = lab.enqueue("payments", '<payment order="17" euros="80"/>')

    assert 'rule r did not fire on slice byOrder "17"' in said(lab, order)
    assert "qs:slice()/payment/@euros finds nothing: qs:slice() has no payment, but order" in said(lab, order)
    assert [held.count for held in verdict(lab, order).held] == [1], "as it was then"
    assert "is false: 80 >= 90" in said(lab, payment)
    held = verdict(lab, payment).held[0]
    assert (held.what, [each.number for each in held.messages]) == ('slice byOrder "17"', [int(order), int(payment)])


def test_the_items_of_a_queue_that_came_closest_are_shown(shop: Shop) -> None:
    lab = shop('qs:queue("crm")[//name = qs:message()//@kind and //city = "Bonn"]')
    for name in ("a", "b", "c", "Rush"):
        lab.enqueue("crm", f"<c><name>{name}</name><city>Rom</city></c>")
    found = said(lab, lab.enqueue("orders", ORDER))

    assert 'qs:queue("crm") finds 4 messages, and the predicate holds for none' in found
    lines = found.splitlines()
    assert lines[2].startswith("    <c><name>Rush</name>"), "half of what is asked holds for it"
    assert '//city = "Bonn" is false: "Rom" = "Bonn"' in lines[2]
    assert "queue crm holds 4 messages" in found


def test_a_conjunct_that_looks_messages_up_in_a_long_queue_stays_undivided(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(why_message, "READ_MAX", 2)
    lab = shop('qs:queue("crm")[//name = qs:message()//@kind] and /order/total > 100')
    for name in ("a", "b", "c"):
        lab.enqueue("crm", f"<c><name>{name}</name></c>")
    causes = verdict(lab, lab.enqueue("orders", ORDER)).causes

    assert [(cause.words, cause.parts) for cause in causes] == [("finds nothing", ()), ("is false: 90 > 100", ())]


def test_a_rule_that_fired_is_shown_with_what_it_made(shop: Shop) -> None:
    lab = shop("/order", target="byOrder", then="(do enqueue <o>{qs:slicekey()}</o> into out, do reset)")
    order = lab.enqueue("orders", ORDER)
    found = verdict(lab, order)

    assert found.result == "fired"
    assert found.is_certain
    message = found.made[0]
    assert isinstance(message, MadeMessage)
    assert str(message.number) == lab.read_queue("out")[0].id
    assert said(lab, order).splitlines()[1:] == [
        f"  enqueued message {message.number} into out",
        "    <o>17</o>",
        '  reset slice byOrder "17"',
    ]


def test_a_rule_that_fired_and_made_nothing_says_why(shop: Shop) -> None:
    lab = shop("/order", then="for $i in //item return if ($i/@n > 50) then do enqueue <o/> into out")
    found = said(lab, lab.enqueue("orders", ORDER))
    assert found.startswith("rule r fired\n  it made nothing\n  $i/@n > 50 is false: 3 > 50")


def test_the_condition_of_an_inner_if_is_named(shop: Shop) -> None:
    lab = shop("/order", then='if (/order/@kind = "slow") then do enqueue <o/> into out')
    found = said(lab, lab.enqueue("orders", ORDER))
    assert found.splitlines() == ["rule r did not fire", '  /order/@kind = "slow" is false: "Rush" = "slow"']


def test_an_else_that_acted_is_shown_with_the_condition(shop: Shop) -> None:
    lab = shop("/order/gift", then="do enqueue <o/> into out else do enqueue <p/> into out")
    found = said(lab, lab.enqueue("orders", ORDER))
    assert found.startswith("rule r did not fire, and its else acted\n  enqueued message")
    assert "/order has no gift" in found


def test_a_rule_that_failed_says_its_error(shop: Shop) -> None:
    lab = shop("xs:integer(/order/@kind) > 3")
    found = verdict(lab, lab.enqueue("orders", ORDER))
    assert found.failure is not None
    assert (found.result, found.failure.code) == ("failed", "FORG0001")


def test_a_rule_that_may_not_enqueue_for_a_message_far_from_its_cause_has_failed() -> None:
    rules = (
        "create rule again for orders errorqueue failures if (/order) then do enqueue . into orders "
        "create queue failures create rule drop for failures if (/none) then do enqueue <never/> into orders"
    )
    with Lab(HEAD + rules, hops_max=3) as lab:
        lab.enqueue("orders", "<order/>")
        lab.run_until_idle()
        assert lab.read_queue("failures") == [], "the error itself is processed and gone"
        last = lab._processed[-2]
        [said] = lab.why(str(last), "again").rules
        assert said.result == "failed"
        assert said.failure is not None
        assert said.failure.code == "demaq:hops"
        assert said.made == ()


def test_a_message_in_no_slice_says_which_property_it_lacks(shop: Shop) -> None:
    lab = shop("/order", target="byOrder")
    found = verdict(lab, lab.enqueue("orders", '<order xmlns="urn:o" id="17"/>'))
    assert (found.result, found.key) == ("not-asked", None)
    assert found.reason == "the message is in no slice of byOrder: it has no property orderID"
    assert "urn:o" in found.hints[0]


def test_a_slice_that_was_reset_before_is_named() -> None:
    rules = """create rule first for orders if (/order/@id = "17") then do reset byOrder key "18"
    create rule r for byOrder if (/order) then do enqueue <o/> into out"""
    with Lab(HEAD + rules) as lab:
        lab.enqueue("orders", ORDER)
        late = lab.enqueue("orders", '<order id="18"/>')
        found = verdict(lab, late)
    assert found.reason == 'slice byOrder "18" was reset before the message was processed'


def test_a_rule_that_is_not_asked_says_what_the_message_lacks() -> None:
    others = [f"create rule r{n} for orders if (/other{n}) then do enqueue <o/> into out" for n in range(8)]
    mine = """create rule r for orders if (/order[@kind = "rush"]) then do enqueue <o/> into out
    create rule name for orders if (//Total) then do enqueue <o/> into out
    create rule never for orders if (false()) then do enqueue <o/> into out"""
    with Lab("\n".join([HEAD, *others, mine])) as lab:
        message = lab.enqueue("orders", ORDER)
        assert said(lab, message).splitlines() == [
            "rule r was not asked",
            '  the message has no //@kind = "rush"',
            '  hint: @kind is "Rush"',
        ]
        assert "hint: there is total: upper and lower case differ" in said(lab, message, "name")
        assert "its condition is false()" in said(lab, message, "never")


def test_a_message_that_waits_is_evaluated_on_what_is_there_now(shop: Shop) -> None:
    lab = shop("qs:slice()/payment", target="byOrder")
    order = lab.enqueue("orders", ORDER)
    assert [(each.state, each.rules[0].result) for each in [lab.why(order)]] == [("waits", "not-fired")]
    lab.enqueue("payments", '<payment order="17"/>')
    assert lab.why(order).rules[0].result == "fired"
    assert "waits; its rules are evaluated on what is there now" in write_message(lab.why(order))[0]


def test_a_message_that_is_gone_is_known_by_what_it_made(shop: Shop) -> None:
    lab = shop("/order")
    order = lab.enqueue("orders", "<order/>")
    lab.run_until_idle()
    lab.collect_garbage()
    found = lab.why(order)
    assert (found.state, found.rules) == ("gone", ())
    assert found.notes[1:] == (f"it made message {lab.read_queue('out')[0].id} in queue out, rule r",)
    with pytest.raises(OperatorError, match="there is no message 99: the newest number is"):
        lab.why("99")
    with pytest.raises(OperatorError, match=r"there is no rule x; there is r"):
        lab.why(lab.enqueue("orders", ORDER), "x")
    with pytest.raises(OperatorError, match="rule r does not pertain to messages of queue crm"):
        lab.why(lab.enqueue("crm", ORDER), "r")


def test_what_was_removed_since_is_named_and_the_verdict_is_not_certain() -> None:
    rules = """create rule done for payments if (/payment) then do enqueue <p/> into crm
    create rule forget for crm if (/forget) then do enqueue <o/> into out
    create rule r for byOrder if (qs:queue("payments")) then do enqueue <o/> into out
    create rule s for byOrder if (qs:slice()/payment) then do enqueue <o/> into out"""
    with Lab(HEAD.replace(" queue payments value /payment/@order", "") + rules) as lab:
        lab.enqueue("payments", "<payment/>")
        order = lab.enqueue("orders", ORDER)
        assert verdict(lab, order).is_certain, "nothing was removed so far"
        lab.collect_garbage()
        found = verdict(lab, order)
        assert not found.is_certain
        assert found.gone == ("queue payments: messages that were removed since are missing",)
        assert "does not fire, evaluated on what is left" in write_headline(found, "processed")
        assert verdict(lab, order, "s").is_certain, "the message is still in its slice"


def test_a_slice_that_was_reset_since_is_named() -> None:
    rules = """create property kind as xs:string queue orders value /order/@kind
    create slicing byKind on kind
    create rule r for byOrder if (qs:slice()/payment/@none) then do enqueue <o/> into out
    create rule end for byOrder if (/payment) then do reset"""
    with Lab(HEAD + rules) as lab:
        order = lab.enqueue("orders", ORDER)
        lab.enqueue("payments", '<payment order="17"/>')
        lab.run_until_idle()
        assert verdict(lab, order).is_certain, "all members are still there"
        lab.collect_garbage()
        assert verdict(lab, order).gone == (
            'slice byOrder "17": it was reset since, and messages that were removed are missing',
        )


def test_a_message_of_a_paused_queue_says_so(shop: Shop) -> None:
    lab = shop("/order")
    order = lab.enqueue("orders", ORDER)
    pause, entry = make_pause("queue", "orders", "me", "stock-taking", lab.now)
    lab.store.change_pauses([pause], [], entry)
    assert lab.why(order).notes == ("it waits because queue orders is paused: stock-taking",)


def test_what_is_stored_is_shown_if_a_rule_makes_something_else_of_what_is_left() -> None:
    counted = """create queue in create queue out create property k as xs:string queue in value //k create slicing s on k
    create rule r for in if (//k) then do enqueue <o>{count(qs:queue("in"))}</o> into out"""
    with Lab(counted) as lab:
        first = lab.enqueue("in", "<m><k>1</k></m>")
        lab.enqueue("in", "<m/>")
        lab.run_until_idle()
        lab.collect_garbage()
        found = verdict(lab, first)
        [made] = found.made
        assert found.gone
        assert isinstance(made, MadeMessage)
        assert [(str(made.number), made.body)] == [(each.id, each.body) for each in lab.read_queue("out")]
        assert made.body == "<o>2</o>"


def test_a_condition_that_would_fail_is_not_named_if_an_inner_one_is_false(shop: Shop) -> None:
    lab = shop(
        "(every $t in //total/string()//x satisfies $t) and /order",
        then="(if (/order/none) then do enqueue <o/> into out)",
    )
    order = lab.enqueue("orders", ORDER)
    lab.run_until_idle()
    found = verdict(lab, order)
    assert (found.result, [cause.expression for cause in found.causes]) == ("not-fired", ["/order/none"])


def test_what_a_rule_made_proves_that_it_fired_though_what_it_read_is_gone() -> None:
    rules = """create rule pay for payments if (false()) then do enqueue <o/> into out
    create rule r for byOrder if (qs:queue("crm")) then do enqueue <o/> into out
    create rule clear for crm if (/c) then do enqueue <o/> into out"""
    with Lab(HEAD + rules) as lab:
        order = lab.enqueue("orders", ORDER)
        lab.enqueue("crm", "<c/>")
        lab.run_until_idle()
        lab.collect_garbage()
        found = lab.why(order, "r").rules[0]
    assert found.result == "fired"
    assert found.is_certain


def test_an_assertion_that_fails_in_a_laboratory_has_the_reason_as_its_note(shop: Shop) -> None:
    def fail() -> None:
        with shop("/order/total > 100") as lab:
            lab.enqueue("orders", ORDER)
            lab.run_until_idle()
            assert lab.read_created("out") != []

    with pytest.raises(AssertionError) as caught:
        fail()
    assert caught.value.__notes__ == [
        "rule r did not fire (<application>:8)",
        f"  for message 1 of queue orders: {ORDER[:59]}…",
        "  /order/total > 100 is false: 90 > 100",
    ]


def test_a_scenario_that_misses_a_message_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rules = """create rule r for orders if (/order/total > 100) then do enqueue <o/> into out
    create rule paid for payments if (/payment) then do enqueue <o/> into out"""
    Path("app.dmq").write_text(HEAD + rules)
    Path("s.yaml").write_text(
        "scenarios:\n  - name: it\n    steps:\n"
        f"      - arrives: {{queue: orders, body: '{ORDER}'}}\n"
        "      - expect: {queue: out, made: 1}\n"
    )

    assert run(demaq, ["test", "app.dmq", "s.yaml"]) == 1
    assert capsys.readouterr().out.splitlines()[2:7] == [
        "  1 message expected, 0 there",
        "  rule r did not fire (app.dmq:7)",
        f"    for message 1 of queue orders: {ORDER[:59]}…",
        "    /order/total > 100 is false: 90 > 100",
        "  rule paid was given no message",
    ]


def test_the_command_shows_a_message_of_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rules = """create rule r for orders if (/order/total > 100) then do enqueue <o/> into out
    create rule s for orders if (/order) then do enqueue <o/> into out"""
    Path("app.dmq").write_text(HEAD + rules)
    with Lab("app.dmq", "store") as lab:
        order = lab.enqueue("orders", ORDER)
        lab.run_until_idle()

    assert run(demaq, ["why", order, "--store", "store"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"message {order} of queue orders, processed by step 2\n  orderID = 17\n")
    assert (
        "\n\nrule r did not fire  app.dmq:7\n  /order/total > 100 is false: 90 > 100\n\nrule s fired  app.dmq:8\n"
        in shown
    )
    assert run(demaq, ["why", order, "--rule", "r", "--store", "store", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    cause = found["rules"][0]["causes"][0]
    assert (found["state"], found["rules"][0]["result"], len(found["rules"])) == ("processed", "not-fired", 1)
    assert [operand["value"]["items"] for operand in cause["operands"]] == [["90"], ["100"]]
    assert Path("app.dmq").read_text()[cause["start"] : cause["end"]] == "/order/total > 100"
    for args in (["99"], [order, "--rule", "x"]):
        assert run(demaq, ["why", *args, "--store", "store"]) == 1
        assert capsys.readouterr().err.startswith("demaq: there is no ")
    assert run(demaq, ["why", "first", "--store", "store"]) == 2


@pytest.mark.parametrize(
    "condition",
    [
        "xs:decimal(/order/Total) > 100",
        "/order/Total * 2 > 100",
        "-(/order/Total) < 0",
        "xs:integer(/order/Total cast as xs:decimal?) = 90",
        "round(/order/Total) = 90",
        "number(/order/Total) > 100",
        "sum((/order/item/@n, /order/item/@n) ! xs:integer(.)) < number(/order/Total)",
        'upper-case(normalize-space(/order/Total)) = "90"',
        "let $t := /order/Total return number($t) > 100",
    ],
)
def test_what_a_value_was_computed_from_is_looked_at_if_it_is_missing(shop: Shop, condition: str):
    lab = shop(condition)
    found = said(lab, lab.enqueue("orders", ORDER))
    assert "/order/Total finds nothing" in found, found
    assert "there is total: upper and lower case differ" in found


def test_the_short_form_names_every_alternative_and_the_closest_item(shop: Shop):
    lab = shop('/order/total > 100 or @id = "18" or /order/item[@n > 20 and @sku = "C"]')
    found = "\n".join(write_short(verdict(lab, lab.enqueue("orders", ORDER)), "processed", 200))
    assert "/order/total > 100 is false" in found
    assert '@id = "18" is false' in found
    assert found.count("@n > 20 is false") == 1, found
    assert found.count('@sku = "C" is false') == 1, found
