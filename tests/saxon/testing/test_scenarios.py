"""Scenarios: what they notice, how they say it, and what they do not accept as scenarios."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from textwrap import dedent, indent

import pytest

from demaq.cli import main as cli
from demaq.language.loader import load_program
from demaq.language.program.program import Program
from demaq.testing.scenarios import ScenarioError, ScenarioFailure, read_scenarios, run_scenarios
from demaq.testing.scenarios_steps import seconds_of
from demaq.testing.scenarios_xml import matches, read_body

PROGRAM = """
create queue in schema "m.xsd"
create queue a
create queue out
create queue mailbox
create queue back
create queue e
create queue later kind echo
create queue gone mode transient

create property vip as xs:boolean inherited queue a, out, back
create property k as xs:string fixed queue a, back value /m/@k
create slicing s on k

create rule copy for a
  if (/m) then do enqueue <copy>{/m/@n, /m/*}</copy> into out

create rule box for a
  if (/m/@box) then do enqueue <boxed/> into mailbox

create rule fail for a
  if (/m/@div) then do enqueue <x>{1 div xs:integer(/m/@div)}</x> into out

create rule failElsewhere for a errorqueue e
  if (/m/@cast) then do enqueue <x>{xs:integer(/m/@cast)}</x> into out

create rule wait for a
  if (/m/@after) then do enqueue /m into later
    with timeout value xs:dayTimeDuration(/m/@after) with target value "back"

create rule pass for a
  if (/m/@pass) then do enqueue <t/> into gone

create rule prices for a
  if (/m/@price) then do enqueue <p>{collection("prices")//price/text()}</p> into out

create rule time for a
  if (/m/@time) then do enqueue <now>{current-dateTime()}</now> into out

create rule done for s
  if (/done or /m/@done) then do reset

create rule never for gone if (/never) then do enqueue . into out
create rule ofIn for in if (/never) then do enqueue . into out
create rule ofOut for out if (/never) then do enqueue . into mailbox
"""
SCHEMA = (
    """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="m" type="xs:integer"/></xs:schema>"""
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "app.dmq").write_text(PROGRAM)
    (tmp_path / "m.xsd").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def program() -> Program:
    return _loaded(Path("app.dmq").read_text())


@cache
def _loaded(text: str) -> Program:
    return load_program("app.dmq")


def file_of(steps: str, more: str = "") -> str:
    """A file with one scenario."""
    return f"scenarios:\n  - name: it\n{indent(dedent(more).strip(), '    ')}\n    steps:\n{indent(dedent(steps).strip(), '      ')}\n"


def failure(folder: Path, steps: str, more: str = "") -> ScenarioFailure | None:
    """Why a scenario with these steps fails, if it does."""
    (folder / "s.yaml").write_text(file_of(steps, more), encoding="utf-8")
    (result,) = run_scenarios("app.dmq", read_scenarios("s.yaml", program()).scenarios)
    return result.failure


def failing(folder: Path, steps: str, more: str = "") -> ScenarioFailure:
    found = failure(folder, steps, more)
    assert found is not None
    return found


def mistakes(folder: Path, text: str) -> list[str]:
    """What is found wrong with a file: line, message, hint."""
    (folder / "s.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError) as error:
        read_scenarios("s.yaml", program())
    found = [error.value, *error.value.others]
    assert all([isinstance(item, ScenarioError) and item.at is not None for item in found])
    return [
        f"{item.at.line if item.at else 0}: {item.message}" + (f" ({item.hint})" if item.hint else "") for item in found
    ]


def step_mistakes(folder: Path, steps: str) -> list[str]:
    return mistakes(folder, file_of(steps))


# --- what arrives and what follows -----------------------------------------------------------------------------------


def test_what_is_made_is_compared_in_order(folder: Path) -> None:
    arrive = "- arrives: [{queue: a, body: <m n='1'/>}, {queue: a, body: <m n='2'/>}]\n"

    assert failure(folder, arrive + "- expect: {queue: out, made: [<copy n='1'/>, <copy n='2'/>]}") is None
    assert "-<copy n=" in (
        failing(folder, arrive + "- expect: {queue: out, made: [<copy n='2'/>, <copy n='1'/>]}").diff or ""
    )
    assert (
        failure(folder, arrive + "- expect: {queue: out, made: [<copy n='2'/>, <copy n='1'/>], in any order: true}")
        is None
    )
    assert failure(folder, arrive + "- expect: {queue: out, made: 2}") is None


def test_any_order_lets_a_wildcard_give_way(folder: Path) -> None:
    steps = """
    - arrives: [{queue: a, body: <m n='1'/>}, {queue: a, body: <m n='2'/>}]
    - expect: {queue: out, made: [<copy n='…'/>, <copy n='1'/>], in any order: true}
    """
    assert failure(folder, steps) is None
    assert failing(folder, steps.replace("…", "1")).diff == (
        '--- expected\n+++ actual\n@@ -1 +1 @@\n-<copy n="1"/>\n+<copy n="2"/>'
    )


def test_new_is_what_came_since_the_last_look(folder: Path) -> None:
    steps = """
    - arrives: {queue: a, body: <m n='1'/>}
    - expect: {queue: out, new: <copy n='1'/>}
    - expect: {queue: out, new: []}
    - arrives: {queue: a, body: <m n='2'/>}
    - expect: {queue: out, holds: 0}
    - expect: {queue: out, new: <copy n='2'/>}
    - expect: {queue: out, made: 2}
    """
    assert failure(folder, steps) is None


def test_messages_of_a_list_are_there_before_the_first_is_processed(folder: Path) -> None:
    Path("app.dmq").write_text(
        "create queue a create queue out create rule r for a if (true()) then do enqueue <n>{count(qs:queue())}</n> into out"
    )
    together = "- arrives: [{queue: a, body: <m/>}, {queue: a, body: <m/>}]\n- expect: {queue: out, made: [<n>2</n>, <n>1</n>]}"
    slow_messages = "- arrives: {queue: a, body: <m/>}\n- arrives: {queue: a, body: <m/>}\n- expect: {queue: out, made: [<n>1</n>, <n>1</n>]}"
    assert failure(folder, together) is None
    assert failure(folder, slow_messages) is None


def test_properties_are_set_and_expected(folder: Path) -> None:
    steps = """
    - arrives: {queue: a, body: <m/>, properties: {vip: true}}
    - expect:
        queue: out
        made: [{body: <copy/>, properties: {vip: true, "demaq:rule": copy, "demaq:trigger": …, "demaq:sender": null}}]
    - expect: {queue: out, made: [{properties: {vip: "*"}}]}
    """
    assert failure(folder, steps) is None
    diff = failing(folder, steps.replace("vip: true, ", "vip: false, ")).diff or ""
    assert "-with vip = false\n+with vip = true\n with demaq:rule = copy" in diff
    assert "+without demaq:sender" not in diff
    diff = failing(folder, steps.replace("vip: true, ", "vip: null, ")).diff or ""
    assert "-without vip\n+with vip = true" in diff


def test_bodies_and_collections_may_be_files(folder: Path) -> None:
    (folder / "messages").mkdir()
    (folder / "messages" / "m.xml").write_text("<?xml version='1.0'?>\n<m price='yes'/>")
    (folder / "messages" / "expected.xml").write_text("<p>12</p>")
    (folder / "prices").mkdir()
    (folder / "prices" / "1.xml").write_text("<l><price>1</price></l>")
    (folder / "prices" / "2.xml").write_text("<l><price>2</price></l>")
    steps = """
    - arrives: {queue: a, file: messages/m.xml}
    - expect: {queue: out, made: [<copy/>, {file: messages/expected.xml}]}
    """
    for prices in ("prices", "prices/*.xml", "[prices/1.xml, prices/2.xml]", "[<price>1</price>, prices/2.xml]"):
        assert failure(folder, steps, f"collections: {{prices: {prices}}}") is None, prices


def test_collections_of_the_file_hold_for_all_scenarios_and_may_be_replaced(folder: Path) -> None:
    text = file_of("- arrives: {queue: a, body: <m price=''/>}\n- expect: {queue: out, made: [<copy/>, <p>2</p>]}")
    shared = "collections: {prices: <price>2</price>}\n"
    for head, more, passes in ((shared, "", True), (shared, "collections: {prices: <price>3</price>}", False)):
        changed = text.replace("    steps:", f"    {more}\n    steps:")
        Path("s.yaml").write_text(head + changed)
        (result,) = run_scenarios("app.dmq", read_scenarios("s.yaml", program()).scenarios)
        assert (result.failure is None) == passes


def test_values_stay_as_they_are_written(folder: Path) -> None:
    steps = """
    - arrives: {queue: a, body: <m k="1.20"/>}
    - arrives: {queue: a, body: <m k="no"/>}
    - expect: [{slice: s, key: 1.20, count: 1}, {slice: s, key: no, count: 1}, {slice: s, key: 1.2, count: 0}]
    """
    assert failure(folder, steps) is None


# --- intake ----------------------------------------------------------------------------------------------------------


def test_what_intake_must_refuse(folder: Path) -> None:
    assert (
        failure(folder, "- refused: {queue: in, body: <m>x</m>, kind: schemaViolation, reason: not a valid value}")
        is None
    )
    assert (
        failure(folder, "- refused: [{queue: a, body: <m}, {queue: a, body: <m/>, properties: {vip: perhaps}}]") is None
    )
    assert failing(folder, "- refused: {queue: in, body: <m>1</m>}").message == "queue in accepts the message"
    assert failing(folder, "- refused: {queue: a, body: <m, kind: propertyError}").message.startswith(
        "refused as notWellFormed, not as propertyError: line 1"
    )
    assert failing(folder, "- refused: {queue: a, body: <m, reason: too long}").message.startswith(
        'refused for another reason than "too long": line 1'
    )


def test_an_arrival_that_is_refused_fails(folder: Path) -> None:
    found = failing(folder, "- arrives: {queue: in, body: <m>x</m>}")

    assert found.message.startswith("queue in refuses the message (schemaViolation): ")
    assert (found.at.line, found.step) == (5, "arrives in in")


# --- time, crashes, clients, slices, retention -----------------------------------------------------------------------


def test_time_passes_and_timers_fire(folder: Path) -> None:
    steps = """
    - arrives: {queue: a, body: <m after="PT1H"/>}
    - expect: {timers: 1}
    - passes: 59 minutes 59s
    - expect: [{queue: back, made: []}, {timers: 1}]
    - passes: 1 second
    - expect: [{queue: back, made: <m after="PT1H"/>}, {timers: 0}]
    """
    assert failure(folder, steps) is None
    assert failing(folder, steps.replace("timers: 0", "timers: 2")).message == "2 messages expected, 0 there"


def test_the_clock_begins_where_the_scenario_says(folder: Path) -> None:
    steps = "- arrives: {queue: a, body: <m time=''/>}\n- expect: {queue: out, made: [<copy/>, <now>2030-05-01T12:00:00Z</now>]}"

    assert failure(folder, steps, "begins: 2030-05-01T12:00:00Z") is None
    assert "2026-01-01T00:00:00Z" in (failing(folder, steps).diff or "")


def test_time_that_passes_beyond_the_calendar_fails_its_step(folder: Path) -> None:
    found = failing(folder, "- arrives: {queue: a, body: <m/>}\n- passes: 2 days", "begins: 9999-12-31T12:00:00Z")

    assert found.message == "no clock is 172800.0 seconds after 9999-12-31: it ends with 9999"


def test_a_crash_keeps_what_was_accepted_and_empties_transient_queues(folder: Path) -> None:
    steps = """
    - arrives: {queue: a, body: <m n="1" pass="" after="PT1H"/>}
    - crash: true
    - expect: {queue: out, new: <copy n="1"/>}
    - crash: true
    - expect: [{queue: out, new: []}, {queue: gone, made: 1}, {timers: 1}]
    - passes: PT1H
    - expect: {queue: back, made: 1}
    """
    assert failure(folder, steps) is None


def test_a_crash_right_after_an_arrival_comes_before_anything_is_processed(folder: Path) -> None:
    """Seen by what a transient queue loses: its message must still be unprocessed."""
    Path("app.dmq").write_text("""
    create queue t mode transient create queue out
    create rule r for t if (true()) then do enqueue <made/> into out
    """)
    assert failure(folder, "- arrives: {queue: t, body: <m/>}\n- crash: true\n- expect: {queue: out, made: 0}") is None
    assert failure(folder, "- arrives: {queue: t, body: <m/>}\n- expect: {queue: out, made: 1}\n- crash: true") is None


def test_a_client_takes_messages(folder: Path) -> None:
    steps = """
    - arrives: [{queue: a, body: <m box=""/>}, {queue: a, body: <m box=""/>}]
    - takes: {queue: mailbox, bodies: [<boxed/>]}
    - expect: {queue: mailbox, retained: 1}
    - takes: {queue: mailbox, count: 1}
    - expect: {queue: mailbox, holds: []}
    """
    assert failure(folder, steps) is None
    assert failing(folder, "- takes: {queue: mailbox, bodies: [<boxed/>]}").diff is not None
    assert "rules" in failing(folder, "- takes: {queue: a, count: 1}").message


def test_slices_and_what_they_retain(folder: Path) -> None:
    steps = """
    - arrives: {queue: a, body: <m k="1"/>}
    - expect:
        - {slice: s, key: 1, bodies: [<m k="1"/>]}
        - {queue: a, holds: 1, retained: [<m k="1"/>], stored: 1}
    - arrives: {queue: a, body: <m k="1" done=""/>}
    - expect:
        - {slice: s, key: 1, count: 0}
        - {queue: a, holds: 0, stored: 2}
        - {queue: a, retained: 0, stored: 0}
    """
    assert failure(folder, steps) is None
    found = failing(folder, steps.replace("holds: 0, stored: 2", "holds: 0, stored: 5"))
    assert found.message.startswith("5 messages expected, 2 there:\n<m k=")
    assert found.step == "expect queue a, stored"


# --- errors ----------------------------------------------------------------------------------------------------------

FAILS = "- arrives: {queue: a, body: <m div='0'/>}\n"


def test_an_unexpected_error_fails_the_scenario(folder: Path) -> None:
    found = failing(folder, FAILS + "- expect: {queue: out, made: <copy/>}")

    assert (found.at.line, found.step, found.message) == (5, "arrives in a", "an error was not expected")
    assert found.errors == ("demaq:errors: dynamicError of rule fail, FOAR0001: Integer division by zero",)
    assert failure(folder, FAILS, "errors: allowed") is None


def test_an_error_in_a_queue_of_its_own_is_noticed_too(folder: Path) -> None:
    steps = "- arrives: {queue: a, body: <m cast='x'/>}\n"

    assert failing(folder, steps).errors[0].startswith("e: dynamicError of rule failElsewhere, FORG0001: ")
    assert failure(folder, steps + "- expect: {queue: e, holds: 1}") is None
    assert (
        failure(folder, steps + "- expect: {queue: e, made: <error><dynamicError/><rule>failElsewhere</rule>…</error>}")
        is None
    )


def test_errors_are_expected_by_what_is_known_about_them(folder: Path) -> None:
    full = "{queue: 'demaq:errors', kind: dynamicError, rule: fail, code: FOAR0001, message contains: by zero}"
    assert failure(folder, FAILS + f"- expect: {{error: {full}}}") is None
    for slip in ("queue: e", "kind: timeout", "rule: copy", "code: FORG0001", "message contains: by one"):
        found = failing(folder, FAILS + f"- expect: {{error: {{{slip}}}}}")
        assert found.message == "there is no such error"
        assert len(found.errors) == 1
    assert failing(folder, "- expect: {error: {}}").message == "there is no error"


def test_each_expectation_is_met_by_one_error(folder: Path) -> None:
    two = FAILS + "- arrives: {queue: a, body: <m cast='x'/>}\n"

    assert failure(folder, two + "- expect: {error: [{rule: failElsewhere}, {rule: fail}]}") is None
    assert failing(folder, two + "- expect: {error: {rule: fail}}").message == "an error was not expected"
    assert failing(folder, two + "- expect: {error: [{rule: fail}, {rule: fail}]}").message == "there is no such error"


def test_no_errors_may_be_expected_in_between(folder: Path) -> None:
    steps = "- expect: {no errors: true}\n" + FAILS

    assert failure(folder, steps + "- expect: {error: {rule: fail}}\n- expect: {no errors: true}") is None
    assert failing(folder, steps + "- expect: {no errors: true}", "errors: allowed").message == "there are errors"


def test_a_failed_expectation_tells_of_errors_that_came_up(folder: Path) -> None:
    found = failing(folder, FAILS + "- expect: {queue: out, made: [<copy/>, <x>1</x>]}")

    assert "-<x>1</x>" in (found.diff or "")
    assert len(found.errors) == 1


def test_an_application_that_never_rests_fails_its_scenario(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demaq.testing.lab.ROUNDS_MAX", 20)
    monkeypatch.setattr("demaq.engine.round.STEPS_MAX", 1)
    Path("app.dmq").write_text("create queue a create rule r for a if (true()) then do enqueue . into a")

    message = failing(folder, "- arrives: {queue: a, body: <m/>}").message
    assert message == "still not idle after 20 rounds; messages wait: 1 in a"


# --- XML -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ('<a x="1" y="2"/>', '<a y="2" x="1"/>', True),
        ('<p:a xmlns:p="urn:x"/>', '<a xmlns="urn:x"/>', True),
        ('<a xmlns="urn:x"/>', "<a/>", False),
        ('<a xmlns:p="urn:x" p:b="1"/>', '<a xmlns:q="urn:x" q:b="1"/>', True),
        ("<a> <b/>\n <c/></a>", "<a><b/><c/></a>", True),
        ("<a> x</a>", "<a>x</a>", False),
        ("<a> </a>", "<a/>", False),
        ("<a>x <b/></a>", "<a>x<b/></a>", False),
        ("<a><!-- why --><b/></a>", "<a><b/></a>", True),
        ("<a>1<!-- -->2</a>", "<a>12</a>", True),
        ("<a><?p x?></a>", "<a><?p y?></a>", False),
        ("<a><![CDATA[<]]></a>", "<a>&lt;</a>", True),
        ("<a>…</a>", "<a><b/>text<c/></a>", True),
        ("<a>*</a>", "<a/>", True),
        ("<a>…</a>", "<b/>", False),
        ('<a x="…"/>', '<a x="1"/>', True),
        ('<a x="*"/>', "<a/>", False),
        ("<a><b/>…</a>", "<a><b/><c/><d/></a>", True),
        ("<a>…<d/></a>", "<a><b/><c/><d/></a>", True),
        ("<a>…<c/>…</a>", "<a><b/><c/><d/></a>", True),
        ("<a>…<e/>…</a>", "<a><b/><c/><d/></a>", False),
        ("<a><b/>…</a>", "<a><c/></a>", False),
        ("<a>2 * 3</a>", "<a>6</a>", False),
    ],
)
def test_messages_are_compared_as_xml(expected: str, actual: str, same: bool) -> None:
    assert matches(read_body(expected).root, read_body(actual).root) == same


def test_white_space_may_be_made_to_matter(folder: Path) -> None:
    steps = "- arrives: {queue: a, body: <m><b/></m>}\n- expect: {queue: out, made: '<copy> <b/></copy>'}"

    assert failure(folder, steps) is None
    found = failing(folder, steps.replace("</copy>'}", "</copy>', whitespace: exact}"))
    assert "-<copy> <b/></copy>" in (found.diff or "")


def test_a_diff_shows_what_differs_and_nothing_else(folder: Path) -> None:
    steps = """
    - arrives: [{queue: a, body: <m n="1"/>}, {queue: a, body: '<m n="2"><b x="1" y="2"/><c>t</c><d><e/></d></m>'}]
    - expect:
        queue: out
        made:
          - <copy n="…"/>
          - <copy n="…"><b y="2" x="…"/><c>u</c><d>…</d></copy>
          - <copy/>
    """
    found = failing(folder, steps)

    assert found.message == "not what was expected: 3 messages expected, 2 there"
    assert (found.diff or "").splitlines() == [
        "--- expected",
        "+++ actual",
        "@@ -2,10 +2,8 @@",
        " ",
        ' <copy n="2">',
        '   <b x="1" y="2"/>',
        "-  <c>u</c>",
        "+  <c>t</c>",
        "   <d>",
        "     <e/>",
        "   </d>",
        " </copy>",
        "-",
        "-<copy/>",
    ]


def test_a_diff_writes_namespaces_one_way(folder: Path) -> None:
    steps = """
    - arrives: {queue: a, body: '<m><b xmlns="urn:b" xmlns:q="urn:q" q:x="1"/></m>'}
    - expect: {queue: out, made: '<copy><p:b xmlns:p="urn:b" xmlns:r="urn:q" r:x="2"/></copy>'}
    """
    assert [line for line in (failing(folder, steps).diff or "").splitlines() if line[0] in "-+"][2:] == [
        '-  <p:b r:x="2"/>',
        '+  <p:b r:x="1"/>',
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h 30m", 5400),
        ("PT90M", 5400),
        ("3 days", 259_200),
        ("P1DT1S", 86_401),
        ("2w", 1_209_600),
        ("1.5s", 1.5),
        ("1hour30min", 5400),
        ("P", None),
        ("PT", None),
        ("P1M", None),
        ("1 month", None),
        ("90", None),
        ("-1h", None),
        ("", None),
        ("300 000 days", None),
        ("300000 days", None),
    ],
)
def test_lengths_of_time(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


# --- mistakes in the file --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '1: the file is empty; it needs the key "scenarios"'),
        ("[]", "1: the file must be keys with values, not a list"),
        ("scenarios: []", "1: scenarios must have items: lines that start with -"),
        ("scenarios:", "1: scenarios is missing"),
        ("scenarios: [x]", "1: a scenario must be keys with values, not text"),
        ("scenario: []", '1: "scenario" is not a key of the file (did you mean "scenarios"?)'),
        ("a: [", "1: not YAML: "),
        ("a: \x07", "1: not YAML: character U+0007 is not allowed"),
        ("a: 1\n---\nb: 2", "2: not YAML: "),
        ("[" * 700, "1: not YAML: nested too deeply"),
        ("a: &x [*x]", '1: "a" is not a key of the file'),
        ("? [a]\n: 1", "1: a key must be text"),
        ("scenarios: 1\nscenarios: 2", '2: the key "scenarios" occurs twice'),
        ("collections: {c: missing.xml}", "1: missing.xml: No such file or directory"),
        ("collections: {c: '*.nothing'}", "1: there are no files *.nothing"),
        ("collections: {c: [<a>]}", "1: not well-formed XML: "),
        ("collections: [a]", "1: collections must be keys with values, not a list"),
    ],
)
def test_a_file_that_is_none(folder: Path, text: str, expected: str) -> None:
    assert any([found.startswith(expected) for found in mistakes(folder, text)]), mistakes(folder, text)


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("{steps: [{crash: true}]}", '2: a scenario needs the key "name"'),
        ("{name: a}", '2: a scenario needs the key "steps"'),
        ("{name: , steps: [{crash: true}]}", "2: name is missing"),
        ("{name: a, steps: {crash: true}}", "2: steps must be a list, not keys with values"),
        ("{name: a, steps: [{crash: true}], eror: x}", '2: "eror" is not a key of a scenario (did you mean "errors"?)'),
        ("{name: a, steps: [{crash: true}], errors: some}", '2: errors must be "allowed"'),
        ("{name: a, steps: [{crash: true}], begins: now}", "2: begins must be a time such as 2026-05-01T12:00:00Z"),
        (
            "{name: a, steps: [{crash: true}], begins: 0001-01-01T00:00:00+14:00}",
            "2: begins must be a time such as 2026-05-01T12:00:00Z",
        ),
        ("{name: a, steps: [x]}", "2: a step must be keys with values, not text"),
        ("{name: a, steps: [{}]}", "2: a step has one key, this one has 0: none"),
        ("{name: a, steps: [{crash: true, passes: 1h}]}", "2: a step has one key, this one has 2: crash, passes"),
    ],
)
def test_a_scenario_that_is_none(folder: Path, scenario: str, expected: str) -> None:
    assert mistakes(folder, f"scenarios:\n  - {scenario}") == [expected]


def test_two_scenarios_have_two_names(folder: Path) -> None:
    text = "scenarios:\n  - {name: a, steps: [{crash: true}]}\n  - {name: a, steps: [{crash: true}]}"

    assert mistakes(folder, text) == ['3: a scenario named "a" is there already']


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("arrive: {}", '"arrive" is not a step (did you mean "arrives"?)'),
        ("jumps: {}", '"jumps" is not a step (steps: arrives, crash, expect, passes, refused, takes)'),
        ("arrives: []", "arrives needs a message"),
        ("arrives: <m/>", "arrives must be keys with values, not text"),
        ("arrives: {body: <m/>}", 'arrives needs the key "queue"'),
        ("arrives: {queue: a}", "arrives needs either body or file"),
        ("arrives: {queue: a, body: <m/>, file: x}", "arrives needs either body or file"),
        ("arrives: {queue: a, body: [<m/>]}", "body must be text, not a list"),
        ("arrives: {queue: a, body: }", "body is missing"),
        ("arrives: {queue: a, body: <m>}", "not well-formed XML: line 1, column 4: "),
        ("arrives: {queue: a, body: …}", "not well-formed XML: "),
        ("arrives: {queue: a, file: x.xml}", "x.xml: No such file or directory (paths are relative to the folder of"),
        ("arrives: {queue: [a], body: <m/>}", "queue must be text, not a list"),
        ("arrives: {queue: malbox, body: <m/>}", 'there is no queue "malbox" (did you mean "mailbox"?)'),
        ("arrives: {queue: a, bdy: <m/>, file: m.xsd}", '"bdy" is not a key of arrives (did you mean "body"?)'),
        ("arrives: {queue: a, body: <m/>, properties: {vp: 1}}", 'queue a has no property "vp" (did you mean "vip"?)'),
        ("arrives: {queue: a, body: <m/>, properties: [vip]}", "properties must be keys with values, not a list"),
        (
            "refused: {queue: a, body: <m, kind: schemaviolation}",
            'there is no kind of error "schemaviolation" (did you mean "schemaViolation"?)',
        ),
        ("refused: {queue: a, body: <m, because: x}", '"because" is not a key of refused (keys: '),
        ("passes: soon", '"soon" is no length of time (a time is written'),
        ("passes: [1h]", "passes must be text, not a list"),
        ("crash: false", "crash must be true; leave the step out otherwise"),
        ("crash: yes", "crash must be true or false"),
        ("takes: {queue: mailbox}", "takes needs either bodies or count"),
        ("takes: {queue: mailbox, count: two}", "count must be a number from 0 on"),
        ("expect: {qeue: a, made: []}", '"qeue" is not a key of expect (did you mean "queue"?)'),
        ("expect: {made: []}", "expect is about one of: queue, slice, error, no errors, timers"),
        ("expect: {queue: a, timers: 1}", "expect cannot be about queue and timers at once, only one of: "),
        ("expect: {queue: a}", "expect about a queue needs one of: made, new, holds, retained, stored"),
        ("expect: {queue: a, mode: 1, made: 1}", '"mode" is not a key of expect about a queue (did you mean "made"?)'),
        ("expect: {queue: a, made: }", "a message of made is missing"),
        ("expect: {queue: a, made: [[<m/>]]}", "a message of made must be text, not a list"),
        ("expect: {queue: a, made: [<m]}", "not well-formed XML: "),
        ("expect: {queue: a, made: some}", "not well-formed XML: "),
        ("expect: {queue: a, made: [{}]}", "a message of made needs either body or file"),
        ("expect: {queue: a, made: [{properties: {vp: 1}}]}", 'queue a has no property "vp" (did you mean "vip"?)'),
        ("expect: {queue: a, made: 1, in any order: maybe}", "in any order must be true or false"),
        ("expect: {queue: a, made: [], whitespace: some}", 'whitespace must be "exact"'),
        ("expect: {slice: t, key: 1, count: 1}", 'there is no slicing "t"'),
        ("expect: {slice: s, count: 1}", 'expect about a slice needs the key "key"'),
        ("expect: {slice: s, key: 1}", "expect about a slice needs either bodies or count"),
        ("expect: {timers: -1}", "timers must be a number from 0 on"),
        ("expect: {no errors: false}", "no errors must be true; leave it out otherwise"),
        ("expect: {error: {ruel: copy}}", '"ruel" is not a key of error (did you mean "rule"?)'),
        ("expect: {error: {rule: cpy}}", 'there is no rule "cpy" (did you mean "copy"?)'),
        ("expect: {queue: a, made: [*]}", "not YAML: "),
    ],
)
def test_a_step_that_is_none(folder: Path, step: str, expected: str) -> None:
    found = step_mistakes(folder, f"- crash: true\n- {step}")

    assert found[0].startswith(f"6: {expected}"), found


def test_a_collection_that_the_application_does_not_declare(folder: Path) -> None:
    Path("app.dmq").write_text("create queue a create collection prices")

    found = mistakes(folder, "collections: {prizes: <p/>}\nscenarios: [{name: a, steps: [{passes: 1s}]}]")
    assert found == ['1: there is no collection "prizes" (did you mean "prices"?)']


def test_all_mistakes_of_a_file_are_found_at_once_in_order(folder: Path) -> None:
    found = step_mistakes(folder, "- passes: soon\n- crash: no\n- expect: {queue: nowhere, made: [<m>]}")

    assert [line.split(":")[0] for line in found] == ["5", "6", "7", "7"]


def test_a_file_that_is_not_utf8(folder: Path) -> None:
    Path("s.yaml").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(ScenarioError, match="not UTF-8"):
        read_scenarios("s.yaml", program())


# --- the command -----------------------------------------------------------------------------------------------------

GOOD = "- arrives: {queue: a, body: <m n='1'/>}\n- expect: {queue: out, made: <copy n='1'/>}"
BAD = GOOD.replace("copy n='1'", "copy n='2'")


def two_scenarios(folder: Path) -> None:
    first, second = file_of(BAD), file_of(GOOD).replace("scenarios:\n", "").replace("name: it", "name: that")
    (folder / "s.yaml").write_text(first + second)
    (folder / "good.yaml").write_text(file_of(GOOD))


def run(*arguments: str) -> int:
    return cli.run(cli.demaq, ["test", *arguments])


def test_scenarios_that_pass_are_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_scenarios(folder)

    assert run("app.dmq", "good.yaml", "s.yaml", "--scenario", "that") == 0
    assert capsys.readouterr() == ("s.yaml: 1 scenario passed\n", "")


def test_a_scenario_that_fails_is_shown_and_the_others_are_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two_scenarios(folder)

    assert run("app.dmq", "s.yaml", "good.yaml") == 1
    output = capsys.readouterr()
    assert output.err == ""
    assert output.out.splitlines() == [
        "FAILED it",
        "  s.yaml:6: expect queue out, made",
        "  not what was expected",
        "    --- expected",
        "    +++ actual",
        "    @@ -1 +1 @@",
        '    -<copy n="2"/>',
        '    +<copy n="1"/>',
        "",
        "s.yaml: 1 of 2 scenarios failed",
        "good.yaml: 1 scenario passed",
    ]


def test_a_run_may_stop_at_the_first_failure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_scenarios(folder)

    assert run("--fail-fast", "app.dmq", "s.yaml", "good.yaml") == 1
    assert capsys.readouterr().out.splitlines()[-1] == "s.yaml: 1 of 2 scenarios failed, 1 not run"


def test_everything_as_one_json_document(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_scenarios(folder)

    assert run("app.dmq", "s.yaml", "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["application"], document["passed"], document["failed"], document["mistakes"]) == (
        "app.dmq",
        1,
        1,
        [],
    )
    (file,) = document["files"]
    assert [(item["name"], item["passed"]) for item in file["scenarios"]] == [("it", False), ("that", True)]
    found = file["scenarios"][0]["failure"]
    assert (found["file"], found["line"], found["step"]) == ("s.yaml", 6, "expect queue out, made")
    assert '-<copy n="2"/>' in found["diff"]


def test_mistakes_are_shown_with_their_place_and_nothing_is_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two_scenarios(folder)
    (folder / "slip.yaml").write_text(file_of("- expect: {queue: outt, made: []}"))

    assert run("app.dmq", "s.yaml", "slip.yaml") == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        'error[DQ9301]: there is no queue "outt"',
        "  slip.yaml:5:25",
        "     - expect: {queue: outt, made: []}",
        "                       ^^^^",
        'hint: did you mean "out"?',
    ]
    assert run("app.dmq", "s.yaml", "slip.yaml", "--json") == 1
    output = capsys.readouterr()
    assert output.err == ""
    assert json.loads(output.out)["mistakes"][0]["line"] == 5


@pytest.mark.parametrize(
    "arguments", [["app.dmq"], ["good.yaml"], ["app.dmq", "good.yaml", "--scenario", "nothing of the kind"]]
)
def test_wrong_usage(folder: Path, arguments: list[str]) -> None:
    two_scenarios(folder)

    assert run(*arguments) == 2


def test_an_application_with_errors_and_a_file_that_is_not_there(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two_scenarios(folder)
    (folder / "wrong.dmq").write_text("create queue")

    assert run("wrong.dmq", "good.yaml") == 1
    assert "error[DQ" in capsys.readouterr().err
    assert run("app.dmq", "missing.yaml") == 1
    assert capsys.readouterr().err == "demaq: missing.yaml: No such file or directory\n"


def test_colour_is_for_terminals(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    two_scenarios(folder)
    run("app.dmq", "s.yaml")
    assert "\x1b" not in capsys.readouterr().out

    monkeypatch.setattr("click.utils.should_strip_ansi", lambda stream=None, color=None: False)
    run("app.dmq", "s.yaml")
    assert '\x1b[31m    -<copy n="2"/>' in capsys.readouterr().out
