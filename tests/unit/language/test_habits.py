"""What authors write who know other languages: the diagnostic is at the true place and says what to write instead."""

from __future__ import annotations

import pytest

from demaq.language.loader import check_text
from demaq.language.parser import parse_module
from tests.support.language.checking import MARK, expected, found

QUEUES = "create queue q create queue out kind outgoingGateway\n"
NEXT = "\ncreate rule next for q if (/next) then do enqueue <next/> into out\n"

ACTIONS: list[tuple[str, str, str]] = [
    # no comma between two actions
    ("do enqueue <a/> into out\n ¦do enqueue <b/> into out", "comma is missing before `do`", "A, B"),
    ("do enqueue <a/> into out\n ¦do reset s key 1", "comma is missing before `do`", "A, B"),
    ("(do enqueue <a/> into out\n ¦do enqueue <b/> into out)", "comma is missing before `do`", "A, B"),
    ("do enqueue <a/> into out with p value 1\n ¦do enqueue <b/> into out", "comma is missing", "A, B"),
    ("for $i in //i return do enqueue $i into out\n ¦do enqueue <b/> into out", "comma is missing", "A, B"),
    ("do enqueue <a/> into out\n ¦if (/b) then do enqueue <b/> into out", "comma is missing before `if`", "A, B"),
    ("do enqueue <a/> into out\n ¦for $i in //i return do enqueue $i into out", "comma is missing", "A, B"),
    ("do enqueue <a/> into out¦;\n do enqueue <b/> into out", "does not join actions", "comma"),
    ("(do enqueue <a/> into out¦; do enqueue <b/> into out)", "does not join actions", "comma"),
    ("do enqueue <a>{ <b/> ¦<c/> }</a> into out", "comma is missing before <c>", "(A, B)"),
    ('do enqueue <a>{ /b ¦<c d="1">x</c> }</a> into out', "comma is missing before <c>", "(A, B)"),
    ("do enqueue <a/> into out with p value 1¦, with q value 2", "unexpected `,`", "with A value … with B value"),
    ("do enqueue <a/> into out with p value 1¦, q value 2", "unexpected `,`", "with A value … with B value"),
    # brackets that are never closed
    ("do enqueue <a>¦{ /a/@id </a> into out", "`{` is never closed", "before </a>"),
    ("do enqueue <a><b>¦{ /a/@id </b><c>text</c></a> into out", "`{` is never closed", "before </b>"),
    ("do enqueue <a>{ for $i in //i return <b>¦{$i</b> }</a> into out", "`{` is never closed", "before </b>"),
    ("do enqueue <a>¦{ if (/b) then <c/> else <d/> </a> into out", "`{` is never closed", "before </a>"),
    ('do enqueue <a id="¦{/a/@id"/> into out', "`{` is never closed", 'before `"`'),
    ("do enqueue <a id='¦{/a/@id'>it's</a> into out", "`{` is never closed", "before `'`"),
    ("do enqueue element a ¦{ /b into out", "`{` is never closed", "before `into`"),
    ("do enqueue <a>¦{ /a/@id", "`{` is never closed", "`}`"),
    ("do enqueue <a>{ string¦(/a/@id </a> into out", "`(` is never closed", "before </a>"),
    ("do enqueue <a>{ string¦(/a/@id }</a> into out", "`(` is never closed", "before `}`"),
    ("¦(do enqueue <a/> into out, do enqueue <b/> into out", "`(` is never closed", "`)`"),
    ("do enqueue <a>{ //b¦[@x = 1 }</a> into out", "`[` is never closed", "before `}`"),
    # the name of a queue
    ("do enqueue <a/> into ¦$q", "cannot be computed", "if (…) then do enqueue"),
    ("do enqueue <a/> into ¦(/a/@queue)", "cannot be computed", "if (…) then do enqueue"),
    ("do enqueue <a/> into ¦{/a/@queue}", "cannot be computed", "Recipient"),
    ("do enqueue <a/> into ¦/a/@queue", "cannot be computed", "Recipient"),
    ("do enqueue <a/> into ¦concat('a', 'b')", "cannot be computed", "Recipient"),
    ("do enqueue <a/> into ¦if (/b) then out else q", "cannot be computed", "Recipient"),
    ("do enqueue <a/> into ¦qs:queue('out')", "cannot be computed", "name of a queue"),
    ('do enqueue <a/> into ¦"out"', "without quotes", "into out"),
    ("do enqueue <a/> into ¦queue out", "found `queue out`", "into out"),
    ("do enqueue <a/> ¦to out", "expected `into`, found `to`", "do enqueue MESSAGE into QUEUE"),
    ("do enqueue <a/> ¦in out", "expected `into`, found `in`", "do enqueue MESSAGE into QUEUE"),
    ("do enqueue <a/> into out with ¦$p value 1", "expected a property's name", "not an expression"),
    ("do enqueue <a/> into out with ¦'p' value 1", "expected a property's name", "without quotes: p"),
    # actions
    ("¦enqueue <a/> into out", "an action begins with `do`", "do enqueue"),
    ("¦enqueue /a into out", "an action begins with `do`", "do enqueue"),
    ("¦enqueue . into out", "an action begins with `do`", "do enqueue"),
    ("¦enqueue(<a/>, out)", "an action begins with `do`", "do enqueue"),
    ("¦reset", "an action begins with `do`", "do reset"),
    ("¦return do enqueue <a/> into out", "`return` belongs to a `for` or `let`", "leave it out"),
    ("¦{ do enqueue <a/> into out }", "found `{`", "parentheses"),
    # loops, variables, conditions
    ("for $x in //x ¦do enqueue $x into out", "`return` is missing before `do`", "return ACTION"),
    ("let $x := 1 ¦do enqueue <a/> into out", "`return` is missing before `do`", "return ACTION"),
    ("let $x := 1¦; do enqueue <a/> into out", "`;` does not end a `let`", "return"),
    ("for $x in //x ¦{ do enqueue $x into out }", "`return` is missing before `{`", "return"),
    ("¦for each $x in //x return do enqueue $x into out", "a loop begins with `for`", "for $x in"),
    ("¦foreach $x in //x return do enqueue $x into out", "a loop begins with `for`", "for $x in"),
    ("for ¦($x in //x) return do enqueue $x into out", "a `for` has no parentheses", "for $x in"),
    ("for ¦x in //x return do enqueue $x into out", "`x` is no variable", "for $x"),
    ("let ¦x := 1 return do enqueue <a/> into out", "`x` is no variable", "let $x"),
    ("for $x ¦:= //x return do enqueue $x into out", "expected `in`, found `:=`", "in"),
    ("$x ¦:= 1 return do enqueue <a/> into out", "`:=` has no place here", "let $x := … return"),
    ("do enqueue <a/> into out\n ¦elif (/b) then do enqueue <b/> into out", "`elif`", "else if (…) then"),
    ("do enqueue <a/> into out\n ¦elseif (/b) then do enqueue <b/> into out", "`elseif`", "else if (…) then"),
    ("¦if /b then do enqueue <b/> into out", "condition stands in parentheses", "if (CONDITION) then"),
    ("if (/b) ¦do enqueue <b/> into out", "`then` is missing before `do`", "if (CONDITION) then"),
    ("do enqueue <a/> into out\n ¦end if", "`end` closes nothing", "ends where the next one begins"),
    # capitals
    ("¦DO ENQUEUE <a/> INTO out", "`DO ENQUEUE`", "small letters: do enqueue"),
    ("¦do Enqueue <a/> into out", "`do Enqueue`", "small letters: do enqueue"),
    ("do enqueue <a/> ¦Into out", "`Into`", "small letters: into"),
    ("do enqueue <a/> into out ¦ELSE do enqueue <b/> into out", "`ELSE`", "small letters: else"),
    # comments of other languages
    ("do enqueue <a/> into out ¦-- send it", "`--` does not begin a comment", "(: … :)"),
    ("do enqueue <a/> into out ¦// send it", "`//` does not begin a comment", "(: … :)"),
    ("do enqueue <a/> into out ¦# send it", "`#` does not begin a comment", "(: … :)"),
    ("do enqueue <a/> into out ¦/* send it */", "`/*` does not begin a comment", "(: … :)"),
    ("do enqueue <a/> into out, ¦-- send it\n do enqueue <b/> into out", "`--` does not begin", "(: … :)"),
    ("do enqueue <a/> into out, ¦// send it\n do enqueue <b/> into out", "`//` does not begin", "(: … :)"),
    ("¦-- send it\n do enqueue <b/> into out", "`--` does not begin a comment", "(: … :)"),
    ("¦// send it\n do enqueue <b/> into out", "`//` does not begin a comment", "(: … :)"),
    ("¦-- send\n do enqueue <b/> into out", "`--` does not begin a comment", "(: … :)"),
    # characters
    ("do enqueue <a>Smith ¦& Son</a> into out", "`&` does not begin a reference", "&amp;"),
    ("do enqueue <a b='¦&nbsp;'/> into out", "not &nbsp;", "&#160;"),
    ("do enqueue <a>1 ¦< 2</a> into out", "after `<`", "&lt;"),
    ("do enqueue <a b=¦“1”/> into out", "`“` is no quote", "\" or '"),
]

CONDITIONS: list[tuple[str, str, str]] = [
    ("/a/@id ¦== 1", "`==` is not an operator", "write `=`, or `eq`"),
    ("//a[@id¦==1]", "`==` is not an operator", "write `=`, or `eq`"),
    ("/a ¦=== 1", "`===` is not an operator", "write `=`, or `eq`"),
    ("/a ¦!== 1", "`!==` is not an operator", "write `!=`"),
    ("/a ¦<> 1", "`<>` is not an operator", "write `!=`"),
    ("/a ¦=! 1", "`=!` is not an operator", "write `!=`"),
    ("/a ¦=< 1", "`=<` is not an operator", "write `<=`"),
    ("/a => ¦1", "a function's name", "greater or equal is `>=`"),
    ("/a ¦&& /b", "`&&` is not an operator", "write `and`"),
    ("//a[@x = 1 ¦&& @y = 2]", "`&&` is not an operator", "write `and`"),
    ("/a ¦&amp;&amp; /b", "`&amp;&amp;` is not an operator", "write `and`"),
    ("/a = 1 ¦|| /b = 2", "`||` joins strings", "write `or`"),
    ("¦!/a", "`!` does not negate", "not(…)"),
    ("/a and ¦!exists(/b)", "`!` does not negate", "not(…)"),
    ("/a ¦AND /b", "`AND`", "small letters: and"),
    ("/a ¦like 'x%'", "`like` is not an operator", "matches("),
    ("/a ¦in ('x', 'y')", "`in` is not an operator", "write `=`"),
    ("/a ¦not in ('x', 'y')", "`not` is not an operator", "not("),
    ("/a ¦between 1 and 2", "`between` is not an operator", ">= 1 and"),
    ("/a ¦contains 'x'", "`contains` is not an operator", "contains($text"),
    ("/a ¦? 1 : 2", "`?` chooses nothing", "if (CONDITION) then A else B"),
    ("/a/@n ¦% 2 = 1", "`%` is not an operator", "write `mod`"),
    ("/a/@n ¦^ 2 = 1", "`^` is not an operator", "math:pow"),
    ("/a ¦:= 1", "`:=` has no place here", "to compare write `=`"),
    ("/a = 'it¦'s'", "the string ends before `s`", "doubled: ''"),
    ("/a = ¦“x”", "`“` is no quote", "\" or '"),
    ("/a ¦\u2013 1 = 2", "`\u2013` is a dash", "write the character -"),
    ("/a¦\u00a0= 1", "U+00A0 (no-break space)", "plain blank"),
    ("/a = $¦{x}", "no braces", "$name"),
    ("/a = ¦{x: 1}", "found `{`", "map {"),
    ("/a.¦@id = 1", "a step is missing its `/`", "a/@id"),
    ("/a ¦-- really it is\n and /b", "`--` does not begin a comment", "(: … :)"),
    ("/a ¦// really it is\n and /b", "`//` does not begin a comment", "(: … :)"),
    ("/a ¦# really\n and /b", "`#` does not begin a comment", "(: … :)"),
    ("concat('a', 'b'¦,) = 'ab'", "nothing follows this comma", "leave the comma out"),
]

STATEMENTS: list[tuple[str, str, str]] = [
    (QUEUES + "¦-- a comment", "`--` does not begin a comment", "(: … :)"),
    (QUEUES + "¦// a comment", "`//` does not begin a comment", "(: … :)"),
    (QUEUES + "¦//comment", "`//` does not begin a comment", "(: … :)"),
    (QUEUES + "¦# a comment", "`#` does not begin a comment", "(: … :)"),
    (QUEUES + "¦/* a comment */", "`/*` does not begin a comment", "(: … :)"),
    (QUEUES + "¦<!-- a comment -->", "`<!--` does not begin a comment", "(: … :)"),
    (QUEUES + "create queue x ¦-- the input", "`--` does not begin a comment", "(: … :)"),
    (QUEUES + "create rule r for q ¦-- says hi\n if (/a) then do enqueue <b/> into out", "`--` does not", "(: … :)"),
    (QUEUES + "create rule r for q ¦// says hi\n if (/a) then do enqueue <b/> into out", "`//` does not", "(: … :)"),
    (QUEUES + "create rule r for q ¦IF (/a) then do enqueue <b/> into out", "found `IF`", "if (CONDITION) then"),
    (QUEUES + "create rule r for q ¦when (/a) then do enqueue <b/> into out", "found `when`", "if (CONDITION) then"),
    (QUEUES + "create rule r for q if ¦(exists(/a) then do reset", "`(` is never closed", "before `then`"),
    (QUEUES + "create property p as xs:boolean queue q value /a ¦== 1", "`==` is not an operator", "write `=`"),
    (QUEUES + "create property p as xs:string queue q ¦= /a", "expected `value`", "value EXPRESSION"),
    (QUEUES + "create slicing s on ¦/a/b", "expected a property's name", "not an expression"),
    ("¦CREATE QUEUE x\n" + QUEUES, "`CREATE`", "small letters: create"),
    ("create ¦Queue x\n" + QUEUES, "`Queue`", "small letters: queue"),
    ("create ¦rules r for q\n" + QUEUES, "found `rules`", "create rule"),
    ("¦queue x\n" + QUEUES, "`create` is missing before `queue`", "create queue"),
    ("¦declare queue x;\n" + QUEUES, "are created", "create"),
    ("¦function local:f() { 1 };\n" + QUEUES, "`declare` is missing", "declare function"),
    ("declare function local:f($x) ¦{ $x + 1 ;\n" + QUEUES, "`{` is never closed", "before `;`"),
    ("declare function local:f($x) { ¦return 1 };\n" + QUEUES, "`return` belongs", "leave it out"),
    ("declare function local:f(¦x) { 1 };\n" + QUEUES, "`x` is no variable", "$x"),
    ("create queue x kind basic¦, mode persistent\n" + QUEUES, "unexpected `,` after the queue", "without commas"),
    ("create queue x ¦(kind basic)\n" + QUEUES, "without parentheses", "kind KIND"),
    ("create queue x ¦Kind basic\n" + QUEUES, "`Kind`", "small letters: kind"),
    ("create queue x ¦transient\n" + QUEUES, "`transient` is a mode", "mode transient"),
    ("create queue x ¦echo\n" + QUEUES, "`echo` is a kind", "kind echo"),
    ("create queue ¦'x'\n" + QUEUES, "expected the queue's name", "without quotes: x"),
    ("create queue x kind outgoingGateway endpoint ¦http://x/\n" + QUEUES, "address in quotes", 'endpoint "'),
]

AFTER = ("", NEXT, "\n(: the end :)\n")


def cases() -> list[tuple[str, str, str]]:
    found = list(STATEMENTS)
    found += [(f"{QUEUES}create rule r for q\n  if (/a) then\n    {t}", m, h) for t, m, h in ACTIONS]
    found += [
        (f"{QUEUES}create rule r for q\n  if ({t})\n  then do enqueue <a/> into out", m, h) for t, m, h in CONDITIONS
    ]
    enclosed = f"{QUEUES}create rule r for q if (/a) then do enqueue <a>{{ if (%s) then 1 else 2 }}</a> into out"
    found += [(enclosed.replace("%s", text), m, h) for text, m, h in CONDITIONS]
    return found


@pytest.mark.parametrize(("text", "message", "hint"), cases(), ids=lambda part: part.partition(MARK)[2][:40] or None)
def test_a_habit_of_another_language_is_explained_where_it_is(text: str, message: str, hint: str) -> None:
    for after in AFTER:
        first = check_text((text + after).replace(MARK, ""), "app.dmq").diagnostics[0]

        assert found([first]) == expected("DQ0101", text), after
        assert message in first.message
        assert hint in (first.hint or "")


@pytest.mark.parametrize(
    "text",
    [
        "if (/not/a or /then/b and /into != /return) then do enqueue <a>{ /do/enqueue }</a> into out",
        "if (/* = 1 or //* = (/a/*/@b)) then do enqueue <a b='--'># // -- {{ }} &amp;</a> into out",
        "if (//a[b]/c = '//' or 3 - -4 = 7) then (do enqueue <a>{ 1, <b/> , <c/> }</a> into queue, do reset s key 1)",
        "if (/a < /b or /a <b or /a</b) then do enqueue <a>{ . }</a> into q with p value /with",
        "if ((/a) => exists()) then do enqueue <a b='{ \"'\" }'/> into else else do enqueue <!-- x --> into q",
    ],
)
def test_what_only_looks_like_a_habit_is_read_as_before(text: str) -> None:
    _, errors = parse_module(f"create rule r for q {text}")

    assert [str(error) for error in errors] == []


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("create rule ¦for q if (/a) then do enqueue <a/> into out", "rule's name is missing", "create rule NAME"),
        ("create property ¦as xs:string queue q", "property's name is missing", "create property NAME"),
        ("create slicing ¦on p", "slicing's name is missing", "create slicing NAME"),
    ],
)
def test_a_statement_without_a_name_is_reported_as_one_without_its_name(text: str, message: str, hint: str) -> None:
    _, errors = parse_module((QUEUES + text).replace(MARK, ""))
    assert [error.at.start for error in errors if error.at] == [(QUEUES + text).index(MARK)]
    assert message in errors[0].message
    assert hint in str(errors[0].hint)


def test_a_name_may_be_the_word_that_follows_names() -> None:
    text = "create rule for for q if (/a) then do reset create property as as xs:string queue q create slicing on on as"
    assert parse_module(QUEUES + text)[1] == []
