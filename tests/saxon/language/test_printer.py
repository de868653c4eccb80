"""The printer: what it prints parses to the same tree, and means the same to Saxon."""

from __future__ import annotations

import re
from typing import Any

import pytest
import saxonche
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demaq.errors import ProgramError
from demaq.language import ast
from demaq.language.parser import parse_query
from demaq.language.printing import format_query, print_expr, print_mapped, print_query
from demaq.source import NOWHERE, Source, SourceLocation
from tests.support.drawing import draw_cases
from tests.support.language import trees
from tests.support.language.corpus import cases


def name(local: str) -> ast.Name:
    return ast.Name(NOWHERE, local)


def var(local: str) -> ast.VarRef:
    return ast.VarRef(NOWHERE, name(local))


def number(text: str) -> ast.NumericLiteral:
    return ast.NumericLiteral(NOWHERE, text)


def child(local: str) -> ast.AxisStep:
    return ast.AxisStep(NOWHERE, "child", ast.NameTest(NOWHERE, local))


def operation(operator: str, *operands: ast.Expr) -> ast.OperatorChain:
    return ast.OperatorChain(NOWHERE, (operator,) * (len(operands) - 1), operands)


def printed(text: str) -> str:
    """What becomes of a query, which must parse to the same tree again."""
    tree = parse_query(text)
    result = print_query(tree)
    assert ast.same_tree(tree, parse_query(result)), result
    return result


# parentheses


def test_operands_that_bind_less_tightly_stand_in_parentheses():
    total = operation("*", operation("+", number("1"), number("2")), number("3"))
    assert print_expr(total) == "(1 + 2) * 3"


def test_operands_that_bind_more_tightly_need_no_parentheses():
    total = operation("+", operation("*", number("1"), number("2")), number("3"))
    assert print_expr(total) == "1 * 2 + 3"


def test_an_operand_of_the_same_level_stands_in_parentheses_even_in_front():
    total = operation("-", operation("-", number("1"), number("2")), number("3"))
    assert print_expr(total) == "(1 - 2) - 3"


def test_a_type_never_stands_in_front_of_what_could_be_its_indicator():
    typed = ast.TypeOperation(
        NOWHERE,
        "treat as",
        var("a"),
        ast.SequenceType(NOWHERE, ast.AtomicType(NOWHERE, ast.Name(NOWHERE, "integer", "xs"))),
    )
    assert print_expr(operation("+", typed, number("2"))) == "($a treat as xs:integer) + 2"
    assert print_expr(operation("and", typed, var("b"))) == "$a treat as xs:integer and $b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f((1, 2))", "f((1, 2))"),
        ("if (1, 2) then (3, 4) else ()", "if (1, 2) then (3, 4) else ()"),
        ("(a)[1]", "(a)[1]"),
        ("a[1]", "a[1]"),
        ("a/(b/c)", "a/(b/c)"),
        ("(/) * 2", "(/) * 2"),
        ("(/)/a", "(/)/a"),
        ("/a", "/a"),
        ("$f(1)[2]?a?(b)?1?*", "$f(1)[2]?a?(b)?1?*"),
        ("($f(1))[2]", "($f(1))[2]"),
        ("- (-1)", "-(-1)"),
        ("1 - - 1", "1 - -1"),
        ("(for $x in 1 return 2) + 3", "(for $x in 1 return 2) + 3"),
        ("let $x := for $y in 1 return 2 return 3", "let $x := for $y in 1 return 2 return 3"),
        ("$x < <a/>", "$x < <a/>"),
        ("(<a/>)/b", "(<a/>)/b"),
        ("map{a :b}", "map { a : b }"),
        ("1 ! (2 ! 3)", "1 ! (2 ! 3)"),
        ("(1 => f()) => g()", "(1 => f()) => g()"),
        ("(1 + 1) => f()", "(1 + 1) => f()"),
        ("1 => $f() => (g#1)()", "1 => $f() => (g#1)()"),
        ("(# p x #) {1} + 2", "(# p x #) { 1 } + 2"),
        ("(copy $a := b modify delete node $a/c return $a)/d", "(copy $a := b modify delete node $a/c return $a)/d"),
    ],
)
def test_parentheses_stand_where_they_are_needed(text, expected):
    assert printed(text) == expected


def test_transforming_with_updates_is_parenthesised_as_an_operand():
    assert printed("(a transform with {delete node b}) + 1") == "((a) transform with { delete node b }) + 1"


def test_an_else_never_joins_the_wrong_if():
    inner = ast.If(NOWHERE, var("b"), ast.Reset(NOWHERE, None, None), None)
    outer = ast.If(NOWHERE, var("a"), inner, ast.Sequence(NOWHERE, ()))
    assert print_expr(outer) == "if ($a) then (if ($b) then do reset) else ()"
    hidden = ast.If(
        NOWHERE, var("a"), ast.Flwor(NOWHERE, (ast.CountClause(NOWHERE, name("c")),), inner), ast.Sequence(NOWHERE, ())
    )
    assert print_expr(hidden) == "if ($a) then (count $c return if ($b) then do reset) else ()"


def test_a_comma_ends_a_branch_with_or_without_actions():
    reset = ast.Reset(NOWHERE, None, None)
    branch = ast.If(NOWHERE, var("a"), reset, reset)
    assert print_expr(ast.Sequence(NOWHERE, (branch, reset))) == "if ($a) then do reset else do reset, do reset"
    assert printed("for $x in 1 return (do reset, do reset)") == "for $x in 1 return (do reset, do reset)"


def test_a_bare_reset_never_takes_the_next_word_for_a_slicing():
    assert printed("if (a) then (do reset) else key") == "if (a) then (do reset) else key"
    assert printed("if (a) then do reset else b") == "if (a) then do reset else b"
    assert printed("let $x := (for $y in 1 return do reset) return key") == (
        "let $x := (for $y in 1 return do reset) return key"
    )


# names, literals, types


def test_an_element_named_like_a_keyword_is_no_keyword():
    assert print_expr(child("for")) == "child::for"
    assert printed("/for/if") == "/for/if"


def test_steps_are_abbreviated_where_that_is_the_same():
    text = "child::a/attribute::b/parent::node()/parent::a/child::attribute(c)/descendant-or-self::node()"
    assert printed(text) == "a/@b/../parent::a/child::attribute(c)/descendant-or-self::node()"


def test_strings_are_written_with_references_where_characters_would_be_lost():
    assert print_expr(ast.StringLiteral(NOWHERE, 'a"b&c\rd\ne\x85')) == '"a""b&amp;c&#xD;d\ne&#x85;"'


def test_names_with_a_namespace_are_escaped():
    test = ast.NameTest(NOWHERE, "a", None, "http://x.invalid/?a&b{c}")
    assert printed(print_expr(ast.AxisStep(NOWHERE, "child", test))) == "Q{http://x.invalid/?a&amp;b&#x7B;c&#x7D;}a"


@pytest.mark.parametrize(
    "text",
    [
        "$a instance of (function(xs:string) as xs:integer*)*",
        "$a instance of function(xs:string) as xs:integer*",
        "$a instance of map(xs:string, array(element(a, xs:int?)+))?",
        "$a cast as xs:integer?",
        "$a instance of document-node(element(*))",
        '$a instance of %p:a("x", 1) function(*)',
    ],
)
def test_types_are_printed_as_they_were(text):
    assert printed(text) == text


# constructors


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<a></a>", "<a/>"),
        ("<a b='\"x\"'/>", '<a b="""x"""/>'),
        ("<a b='{1}{2} {{'> {1}{}{2} <![CDATA[<]]>&lt;<b/></a>", None),
        ("<a>{1}</a>", "<a>{ 1 }</a>"),
        ("``[a `{1}` `{}` b]``", "``[a `{ 1 }` `{}` b]``"),
        ("<!-- x --> , <?a b ?>", "<!-- x -->, <?a b ?>"),
        ("element a {} , element {1} {2}, document {1}, text {}", None),
    ],
)
def test_constructors_keep_their_text(text, expected):
    result = printed(text)
    assert expected is None or result == expected


# whole queries


def test_a_prolog_has_a_line_for_each_declaration():
    text = 'xquery version "3.1";\ndeclare namespace a = "b";\ndeclare %private variable $x external := 1;\n$x'
    assert printed(text) == text


def test_a_template_is_written_as_its_maker_says():
    template = ast.Template(NOWHERE, ("(a(", operation("+", number("1"), number("2")), ", ", var("x"), "))"))
    assert print_expr(template) == "(a((1 + 2), $x))"


@settings(
    max_examples=2 * settings().max_examples, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(trees.queries())
def test_printing_and_parsing_give_the_same_tree(tree):
    text = print_query(tree)
    assert ast.same_tree(tree, parse_query(text)), text


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(trees.queries(), st.sampled_from([10, 40, 100]))
def test_formatting_a_query_keeps_its_tree(tree, width):
    text = format_query(tree, width)
    again = parse_query(text)
    assert ast.same_tree(tree, again), text
    assert format_query(again, width) == text


NESTED = [
    ("(1 + ", "1", ")"),
    ("if (1) then ", "1", " else 2"),
    ("if (1) then 2 else ", "1", ""),
    ("for $x in 1 return ", "1", ""),
    ("<a>", "", "</a>"),
    ("<a>\n{", "1", "}</a>"),
    ("f(", "", ")"),
    ("a[", "1", "]"),
    ("map { 1 : ", "1", "}"),
    ("``[`{", "1", "}`]``"),
    ("function() { ", "1", "}"),
]


@pytest.mark.parametrize("opening", draw_cases([opening for opening, _, _ in NESTED], 3))
def test_trees_may_be_nested_deeply(opening: str):
    innermost, closing = next((inner, end) for start, inner, end in NESTED if start == opening)
    tree = parse_query(opening * 3000 + innermost + closing * 3000)
    for text in (print_query(tree), print_mapped(tree)[0], format_query(tree)):
        assert ast.same_tree(tree, parse_query(text))


# the corpus


def corpus_trees() -> list[tuple[str, str, ast.Query]]:
    found = []
    for case, text in cases("accepted"):
        try:
            found.append((case, text, parse_query(text)))
        except ProgramError:
            continue  # what the parser does not accept is the parser's own test's business
    return found


def test_the_corpus_is_printed_as_the_same_trees():
    for case, _, tree in corpus_trees():
        for text in (print_query(tree), print_mapped(tree)[0], format_query(tree), format_query(tree, 10)):
            assert ast.same_tree(tree, parse_query(text)), f"{case}\n{text}"


def test_the_corpus_means_the_same_to_saxon_on_other_lines():
    processor = saxonche.PySaxonProcessor(license=False)
    for case, text, tree in corpus_trees():
        if case.startswith(("beyond-saxon/", "parse-only/")):
            continue
        before = outcome(processor, text)
        for result in (print_mapped(tree)[0], format_query(tree, 10)):
            assert outcome(processor, result) == before, f"{case}\n{result}"


def outcome(processor: Any, text: str) -> str:
    """What Saxon makes of a query: its result, or the code of its error."""
    try:
        return str(processor.new_xquery_processor().run_query_to_string(query_text=text))
    except saxonche.PySaxonApiError as error:
        code = re.search(r"\b[A-Z]{4}[0-9]{4}\b", str(error))
        return code.group() if code else "an error without a code"


# the map back to the source


def test_lines_of_the_source_stay_apart_and_are_found_again():
    source = "let $a := 1\nlet $b := (2,\n  error())\nreturn $a +\n  $b"
    text, source_map = print_mapped(parse_query(source, "a.xq"))
    assert text == "let $a := 1\nlet $b := (2,\nerror()) return\n$a +\n$b"
    place = source_map.place(3, 1)
    assert place is not None
    assert (place.file, place.line, place.column, place.text) == ("a.xq", 3, 3, "error()")


def test_a_position_inside_a_word_belongs_to_the_node_in_front():
    text, source_map = print_mapped(parse_query("$a   +   $bcd"))
    assert text == "$a + $bcd"
    place = source_map.place(1, 8)
    assert place is not None
    assert place.text == "$bcd"
    assert source_map.place(0, 0) is None


def test_what_was_built_is_not_in_the_map():
    source = Source("  $x", "a.dmq")
    mine = ast.VarRef(SourceLocation(source, 2, 4), name("x"))
    query = ast.Query(NOWHERE, None, None, (), operation("+", number("1"), mine), ())
    text, source_map = print_mapped(query)
    assert text == "1 + $x"
    assert len(source_map) == 1
    place = source_map.place(1, 5)
    assert place is not None
    assert str(place) == "a.dmq:1:3"


def test_files_stay_apart_even_on_the_same_line_number():
    first, second = (ast.VarRef(SourceLocation(Source("$x", file), 0, 2), name("x")) for file in ("a.dmq", "b.dmq"))
    query = ast.Query(NOWHERE, None, None, (), operation("+", first, second), ())
    assert print_mapped(query)[0] == "$x +\n$x"


def test_nothing_breaks_inside_a_direct_constructor():
    source = "<a>\n  <b>{\n $x }</b>\n</a>"
    tree = parse_query(source)
    text, source_map = print_mapped(tree)
    assert ast.same_tree(tree, parse_query(text))
    line = text.split("\n").index("$x }</b>") + 1
    place = source_map.place(line, 1)
    assert place is not None
    assert place.line == 3


def test_elements_inside_a_direct_constructor_are_in_the_map():
    text, source_map = print_mapped(parse_query("<a>\n  <b c='{1}'/>\n</a>"))
    assert text == '<a>\n  <b c="{ 1 }"/>\n</a>'
    places = [source_map.place(2, column) for column in (3, 6, 12)]
    assert [place.text for place in places if place is not None] == ["<b c='{1}'/>", "c='{1}'", "1"]
