"""What every name in a module means, by XQuery's scoping rules."""

import pytest

from demaq.language import ast
from demaq.language.namespaces import FN, QS, XS
from demaq.language.parser import parse_module, parse_query
from demaq.language.resolving.names import Names
from demaq.language.resolving.resolve import resolve_module, resolve_query
from tests.support.language.corpus import cases


def resolve(text: str) -> tuple[ast.Query, Names]:
    query = parse_query(text)
    return query, resolve_query(query)


def binders(text: str) -> list[str]:
    """For each use of a variable in source order, what binds it and where."""
    query, names = resolve(text)
    assert [item.render() for item in names.problems] == []
    found = []
    for ref in [node for node in ast.walk(query) if isinstance(node, ast.VarRef)]:
        binder = names.variables[ref]
        found.append(f"{type(binder).__name__} {binder.at.column}" if binder is not None else "catch")
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("let $x := 1 let $x := $x + 1 return $x", ["LetBinding 5", "LetBinding 17"]),
        ("for $x at $i in (1, 2) return ($x, $i)", ["ForBinding 5", "Name 12"]),
        ("for $x in 1, $y in $x return $y", ["ForBinding 5", "ForBinding 14"]),
        ("let $x := 1 return (let $x := 2 return $x, $x)", ["LetBinding 25", "LetBinding 5"]),
        (
            "some $x in 1, $y in $x satisfies $y = $x",
            ["QuantifiedBinding 6", "QuantifiedBinding 15", "QuantifiedBinding 6"],
        ),
        ("for $x in 1 group by $k := $x return ($k, $x)", ["ForBinding 5", "GroupSpec 22", "ForBinding 5"]),
        ("for $x in 1 group by $x return $x", ["GroupSpec 22"]),
        ("for $x in 1 count $n return $n", ["CountClause 13"]),
        (
            "for sliding window $w in 1 start $s when $s end at $e when $e > 1 return ($w, $s, $e)",
            ["Name 35", "Name 53", "WindowClause 1", "Name 35", "Name 53"],
        ),
        ("typeswitch (1) case $a as xs:int return $a default $b return $b", ["TypeCase 16", "Typeswitch 1"]),
        ("try { 1 } catch * { $err:code }", ["catch"]),
        ("let $x := 1 return function($y) { $x + $y }", ["LetBinding 5", "Param 29"]),
        ("copy $a := <a/>, $b := $a modify () return $b", ["CopyBinding 6", "CopyBinding 18"]),
        ("declare variable $x := 1; declare function local:f() { $x }; $x", ["VarDecl 1", "VarDecl 1"]),
        ("declare function local:f($x) { $x }; local:f(1)", ["Param 26"]),
        ('declare namespace p = "urn:p"; let $p:x := 1 return $Q{urn:p}x', ["LetBinding 36"]),
    ],
)
def test_a_variable_is_bound_by_the_nearest_binding_that_reaches_it(text, expected):
    assert binders(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count(1)", (FN, "count", 1)),
        ("fn:count(1)", (FN, "count", 1)),
        ("1 => count()", (FN, "count", 1)),
        ("concat#3", (FN, "concat", 3)),
        ("concat(?, 1)", (FN, "concat", 2)),
        ("xs:int(1)", (XS, "int", 1)),
        ("qs:message()", (QS, "message", 0)),
        ('declare default function namespace "urn:f"; declare function g() { 1 }; g()', ("urn:f", "g", 0)),
        ("Q{http://www.w3.org/2005/xpath-functions}not(1)", (FN, "not", 1)),
    ],
)
def test_a_function_is_known_by_namespace_name_and_number_of_arguments(text, expected):
    _, names = resolve(text)

    assert names.problems == []
    assert list(names.functions.values()) == [expected]


def element_names(text: str) -> list[tuple[str | None, str]]:
    query, names = resolve(text)
    assert names.problems == []
    return [names.elements[node] for node in ast.walk(query) if node in names.elements]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a", [("", "a")]),
        ('declare default element namespace "urn:d"; /a/@b', [("urn:d", "a")]),
        ('declare namespace p = "urn:p"; //p:a/p:*', [("urn:p", "a"), ("urn:p", "*")]),
        ("//*:a/*", [(None, "a"), (None, "*")]),
        ("/Q{urn:x}a", [("urn:x", "a")]),
        ('<a xmlns="urn:d">{b}</a>', [("urn:d", "a"), ("urn:d", "b")]),
        ('<a xmlns:p="urn:p"><p:b/></a>', [("", "a"), ("urn:p", "b")]),
        ('<a xmlns="urn:&#x61;"/>', [("urn:a", "a")]),
        ('declare default element namespace "urn:d"; <a xmlns=""/>', [("", "a")]),
        ('(<a xmlns="urn:d"/>, <b/>)', [("urn:d", "a"), ("", "b")]),
        ("element a {}", [("", "a")]),
        ("1 instance of element(a)", [("", "a")]),
        ("1 instance of element(*)", [(None, "*")]),
    ],
)
def test_an_element_name_has_the_namespace_that_is_in_scope(text, expected):
    assert element_names(text) == expected


def test_the_default_namespace_is_not_that_of_attributes():
    _, names = resolve('<a xmlns="urn:d" b="1">{@c, attribute d {}}</a>')

    assert sorted(names.attributes.values()) == [("", "b"), ("", "c"), ("", "d")]


def test_the_default_element_namespace_is_that_of_types_too():
    text = f'declare default element namespace "{XS}"; 1 cast as integer'

    _, names = resolve(text)

    assert names.problems == []
    assert list(names.types.values()) == [(XS, "integer")]


@pytest.mark.parametrize(
    "text",
    [
        "declare function local:f($x) { $x/a[b = 1]/c ! name() }; 1",
        "declare function local:f($x) { name($x), $x[position() = last()] }; 1",
        "declare function local:f($x) { $x transform with { delete node a } }; 1",
        "a, ., /, //a, name(), @b, ..",
    ],
)
def test_a_focus_is_found_where_a_path_or_predicate_sets_it(text):
    assert "DQ0305" not in [item.code for item in resolve(text)[1].problems]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        *[("a", 1), ("/a", 1), ("a[b]", 1), (".", 1), ("string()", 1), ("(a, b)", 2), ("?x", 1), ("name#0", 1)],
        *[("position()", 1), ('id("x")', 1), ("function($x) { $x/a }", 0), ("a => count()", 1)],
    ],
)
def test_a_function_has_no_focus_of_its_own(body, count):
    _, names = resolve(f"declare function local:f() {{ {body} }}; 1")

    assert [item.code for item in names.problems] == ["DQ0305"] * count


def test_the_parts_of_an_application_are_known_by_one_name():
    module, errors = parse_module(
        'declare namespace p = "urn:p"; create queue p:q create queue r errorqueue demaq:errors '
        'create rule x for p:q if (qs:queue("p:q") and qs:property("demaq:id")) then do enqueue <a/> into Q{urn:p}q'
    )

    names = resolve_module(module)

    assert errors == []
    assert names.problems == []
    assert sorted(names.parts.values()) == sorted(
        ["Q{urn:p}q", "r", "demaq:errors", "x", "Q{urn:p}q", "Q{urn:p}q", "demaq:id", "Q{urn:p}q"]
    )


def test_the_focus_of_a_rule_is_the_message():
    module, _ = parse_module("create queue q create rule r for q if (//x) then do enqueue . into q")

    assert resolve_module(module).problems == []


# What the parser accepts and cannot be resolved, because the corpus asks only for the parser's opinion.
NOT_RESOLVED = {"functions/function-lookup"}


CORPUS = [(name, text) for name, text in cases("accepted") if not name.startswith("parse-only/")]


@pytest.mark.parametrize("file", sorted({name.partition("/")[0] for name, _ in CORPUS}))
def test_all_names_of_the_corpus_are_known(file):
    problems = [
        (name, item.render())
        for name, text in CORPUS
        if name.startswith(f"{file}/") and name not in NOT_RESOLVED
        for item in resolve(text)[1].problems
        if item.severity == "error"
    ]

    assert problems == []
