"""Errors at run time: each has the line and column of what failed, and words without internals."""

from __future__ import annotations

import re

import pytest

from demaq.evaluation.saxon.compiled import static_check
from demaq.evaluation.saxon.failures import readable
from demaq.language.loader import check_text
from demaq.testing import Lab
from tests.support.language.checking import MARK, marked

BODIES = [
    "if (¦/a/c eq 6) then do enqueue <x/> into out",
    "if (not(¦/a/c lt 5)) then do enqueue <x/> into out",
    "if (/a/q = 3 or ¦/a/c eq 6) then do enqueue <x/> into out",
    "if (¦/a/c eq 6 and /a/c eq 7) then do enqueue <x/> into out",
    "if (/a/b[1] eq '1' and ¦/a/c ge 6.5) then do enqueue <x/> into out",
    "if (/a) then do enqueue <x>{\n  1, ¦/a/c eq 6 }</x> into out",
    'if (/a) then do enqueue <x y="{ ¦/a/c eq 6 }"/> into out',
    "if (/a) then do enqueue <x>{ ¦sum(/a/c) }</x> into out",
    "if (/a) then do enqueue <x>{ ¦sum((1, 'x')) }</x> into out",
    "if (/a) then do enqueue <x>{ for $x in (1, 'a') order by ¦$x return $x }</x> into out",
    "if (¦/a/b eq 5) then do enqueue <x/> into out",
    "if (¦/a/c + 1 = 2) then do enqueue <x/> into out",
    "if (/a) then do enqueue <x>{ parse-xml(¦'<a') }</x> into out",
    "if (local:seven(/a/c)) then do enqueue <x/> into out",
]
PROLOG = "declare function local:seven($x) { ¦$x eq 7 };\n"
QUEUES = "create queue q create queue out kind mailbox create queue err kind mailbox\n"


def test_every_dynamic_error_has_the_line_and_column_of_what_failed() -> None:
    rules = [f"create rule r{number} for q errorqueue err\n  {body}" for number, body in enumerate(BODIES)]
    text = PROLOG + QUEUES + "\n".join(rules)
    places = [*marked(text)[1:], marked(text)[0]]  # the last rule fails in the function
    with Lab(text.replace(MARK, "")) as lab:
        lab.enqueue("q", "<a><b>1</b><b>2</b><c>x</c></a>")
        lab.run_until_idle()
        errors = [message.body for message in lab.read_queue("err")]
    found = {}
    for body in errors:
        rule, location = re.search(r"<rule>r(\d+)</rule>", body), re.search(r'line="(\d+)" column="(\d+)"', body)
        assert rule is not None, body
        assert location is not None, body
        found[int(rule[1])] = f"{location[1]}:{location[2]}"

    assert found == dict(enumerate(places))
    assert [body for body in errors if "demaq.invalid" in body or "org.xml" in body] == []


def test_a_text_that_does_not_parse_is_reported_without_our_base_uri() -> None:
    said = "Not well-formed. org.xml.sax.SAXParseException; systemId: http://demaq.invalid/; lineNumber: 1; columnNumber: 3; Why.Why."

    assert readable(said) == "Not well-formed. Line 1, column 3: Why."
    assert readable("cannot resolve http://demaq.invalid/foo") == "cannot resolve foo"


@pytest.mark.parametrize(
    ("expression", "hint"),
    [("'order ' + 'x'", "`||`"), ("//c[. eq 5]", "compare with `=`")],
)
def test_what_the_compiler_refuses_comes_with_a_hint(expression: str, hint: str) -> None:
    text = f"{QUEUES}create rule r for q if (/a) then do enqueue <x>{{ {expression} }}</x> into out"
    (error,) = check_text(text, "app.dmq", static_check).errors

    assert error.code == "DQ0704"
    assert hint in (error.hint or "")


def test_a_where_clause_may_catch_errors_that_do_not_depend_on_the_loop() -> None:
    # Saxon's optimizer does not come to an end with these as they stand: it would end the process.
    caught = "try { //b = 0 } catch * { $err:code = xs:QName('xs:none') }"
    bodies = [
        f"for $a in //a where not({caught}) return do enqueue <x>{{string($a)}}</x> into out",
        f"for $a in //a where not({caught}) let $n := number($a) where $n > 1 return do enqueue <y>{{$n}}</y> into out",
        f"do enqueue <z>{{for $a in //a where not({caught}) order by $a descending return string($a)}}</z> into out",
    ]
    rules = [f"create rule r{number} for q if (/m) then {body}" for number, body in enumerate(bodies)]
    with Lab(QUEUES + "\n".join(rules)) as lab:
        lab.enqueue("q", "<m><a>1</a><a>2</a><b>1</b></m>")
        lab.run_until_idle()
        made = [message.body for message in lab.read_queue("out")]
    assert made == ["<x>1</x>", "<x>2</x>", "<y>2</y>", "<z>2 1</z>"]
