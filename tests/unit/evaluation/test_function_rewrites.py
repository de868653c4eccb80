"""Functions of native rules are rewritten when they are loaded: they do the same with less work."""

from __future__ import annotations

import ast
import builtins
from random import Random
from typing import Any

import pytest
from lxml.etree import _Element

from demaq.compiler.emit.python.queue_code import NativeEmitter
from demaq.compiler.emit.python.rule_code import RuleText
from demaq.compiler.planner import make_plan
from demaq.documents import parse_document
from demaq.errors import ProgramError
from demaq.evaluation.native.native_functions import CALLED, load_function, rewrite
from demaq.evaluation.native.pure_values import PURE_FUNCTIONS
from demaq.testing.lab import load_text
from tests.support.drawing import draw_until, run_seed
from tests.support.programs import NOW
from tests.support.reference.xquery_grammar import DEFAULTS, FUNCTIONS, PROLOG, STATEMENTS, Grammar, draw_document

RULES, MESSAGES = 300, 12
SHARED_MIN = 10
"""In so many rules at least something is shared, or else the test says little."""


def rewritten(*lines: str) -> str:
    """The body of a function after it is rewritten."""
    tree, _ = rewrite("\n    ".join(["def function(m, run):", *lines]) + "\n")
    [function] = tree.body
    assert isinstance(function, ast.FunctionDef)
    return "\n".join([ast.unparse(statement) for statement in function.body])


def rewritten_value(expression: str) -> str:
    return rewritten(f"return {expression}").removeprefix("return ")


# --- values that occur several times


def test_a_value_that_occurs_twice_is_computed_once():
    assert (
        rewritten("return (m.get('a'), escape(m.get('a')))")
        == "shared0 = m.get('a')\nreturn (shared0, escape(shared0))"
    )


def test_of_values_in_each_other_the_larger_one_is_shared_with_what_is_in_it():
    found = rewritten("return (escape(string_of(m)), escape(string_of(m)), string_of(m))")
    assert found == "shared1 = string_of(m)\nshared0 = escape(shared1)\nreturn (shared0, shared0, shared1)"


def test_nodes_are_looked_for_once():
    found = rewritten("return ([string_of(v1) for v1 in m.iter('a')], [copied(v2) for v2 in m.iter('a')])")
    assert found == (
        "shared0 = list(m.iter('a'))\nreturn ([string_of(v1) for v1 in shared0], [copied(v2) for v2 in shared0])"
    )


def test_loops_are_the_same_whatever_their_variables_are_called():
    found = rewritten("return ([v1.tag for v1 in m.iter('a')], [v2.tag for v2 in m.iter('a')])")
    assert found == "shared0 = [v1.tag for v1 in m.iter('a')]\nreturn (shared0, shared0)"


def test_an_iterator_is_not_used_twice():
    function = load_function("def function(m):\n    return (list(m.iter('a')), len(list(m.iter('a'))))\n", "test")
    root = parse_document("<r><a/><a/></r>").native_root
    assert function(root)[1] == 2
    assert rewritten_value("(has(m.iter('a')), has(m.iter('b')))") == "(has(m.iter('a')), has(m.iter('b')))"


def test_a_value_gets_a_variable_in_the_loop_that_it_depends_on():
    found = rewritten_value("[decimal(v1.get('a')) for v1 in m.iter('b') if v1.get('a') is not None]")
    assert found == "[decimal(shared0) for v1 in m.iter('b') for shared0 in (v1.get('a'),) if shared0 is not None]"


def test_what_is_evaluated_under_a_condition_is_not_evaluated_before_it():
    for expression in (
        "decimal(m.get('a')) if m.get('b') else (decimal(m.get('a')) if m.get('c') else 0)",
        "m.get('b') and decimal(m.get('a')) or m.get('c') and decimal(m.get('a'))",
        "([decimal(m.get('a')) for v1 in m.iter('b')], [decimal(m.get('a')) for v1 in m.iter('c')])",
    ):
        found = rewritten_value(expression)
        assert found.count("decimal(") == 2, found
        assert "shared" not in found


def test_what_was_evaluated_before_a_condition_is_used_after_it():
    found = rewritten("return (m.get('a'), [m.get('a') for v1 in m.iter('b')] if m.get('c') else m.get('a'))")
    assert found.count("m.get('a')") == 1


def test_statements_share_what_a_condition_before_them_has_evaluated():
    found = rewritten("if not len(list(m.iter('a'))):", "    return", "run.enqueue(str(len(list(m.iter('a')))))")
    assert found == ("shared0 = len(list(m.iter('a')))\nif not shared0:\n    return\nrun.enqueue(str(shared0))")


def test_variables_of_one_name_in_two_loops_are_two():
    found = rewritten_value("[(v1.get('a'), [v1.get('a') for v1 in v1.iter('b')]) for v1 in m.iter('c')]")
    assert found.count("v1.get('a')") == 2


def test_new_nodes_and_actions_are_not_shared():
    for expression in ("tree_of('<a/>')", "run.enqueue('a')", "fail()", "(x for x in m)"):
        assert rewritten_value(f"({expression}, {expression})") == f"({expression}, {expression})"


def test_what_tuples_are_ordered_by_is_known_after_that():
    found = rewritten_value(
        "[v1.get('a') for v2, v1 in order_by([(v2, v1) for v1 in m.iter('b') for v2 in (v1.get('a'),)], ((),))]"
    )
    assert found.startswith("[v2 for v2, v1 in order_by(")
    other = "[v1.get('a') for v2, v1 in order_by([(v2, v3) for v3 in m.iter('b') for v2 in (v3.get('a'),)], ((),))]"
    assert rewritten_value(other).startswith("[v2 for")
    unknown = "[v1.get('a') for v2, v1 in order_by([(v2, v1) for v3 in m for v1 in v3 for v2 in (v3.get('a'),)], ())]"
    assert rewritten_value(unknown).startswith("[v1.get('a') for")


# --- variables with the same value


def test_two_clauses_that_bind_the_same_value_become_one():
    found = rewritten_value("[v3 for v1 in m for v2 in (v1.get('a'),) if v2 for v3 in (v1.get('a'),)]")
    assert found == "[v2 for v1 in m for v2 in (v1.get('a'),) if v2]"


def test_a_variable_that_stands_for_another_one_is_left_out():
    assert rewritten_value("[v2.tag for v1 in m.iter('a') for v2 in (v1,) if v2.tag]") == (
        "[v1.tag for v1 in m.iter('a') if v1.tag]"
    )


# --- conditions that are known


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(m.get('a') if m.tag == 'a' else None) if m.tag == 'a' else 0", "m.get('a') if m.tag == 'a' else 0"),
        ("1 if m.tag == 'a' else 2 if m.tag != 'a' else 3", "1 if m.tag == 'a' else 2"),
        ("[v1 for v1 in m if v1 is not None if v1 is not None]", "[v1 for v1 in m if v1 is not None]"),
        ("[(0 if v1 is None else v1) for v1 in m if v1 is not None]", "[v1 for v1 in m if v1 is not None]"),
        ("1 if m.tag == 'a' and bool(m.tag == 'a' and m.tail) else 2", "1 if m.tag == 'a' and m.tail else 2"),
        ("not (m.tag == 'a' and m.tag != 'a')", "not (m.tag == 'a' and False)"),
        ("[[v1 for v1 in m if v1 is not None] for v1 in m if v1 is not None]", None),
        ("(1 if m.tag == 'a' else 2, 1 if m.tag == 'a' else 2)", None),
        ("1 if run.enqueue() else 2 if run.enqueue() else 3", None),
    ],
)
def test_a_condition_is_not_tested_again(expression: str, expected: str | None):
    if expected is None:
        expected = ast.unparse(ast.parse(expression, mode="eval"))
    assert rewritten_value(expression) == expected


def test_a_condition_is_known_in_statements_after_it():
    found = rewritten("if not m.tag == 'a':", "    return", "run.enqueue(1 if m.tag == 'a' else 2)")
    assert found.endswith("run.enqueue(1)")
    found = rewritten("if m.tag == 'a':", "    run.fires()", "run.enqueue(1 if m.tag == 'a' else 2)")
    assert found.endswith("run.enqueue(1 if m.tag == 'a' else 2)")


# --- whatever the function


def test_functions_whose_calls_are_shared_exist():
    assert {*CALLED, *dir(builtins)} >= PURE_FUNCTIONS


def test_a_function_that_is_nested_deeply_is_loaded():
    text = "def function(m):\n    return " + "(" * 90 + "m.get('a')" + " or '')" * 90 + "\n"
    root = parse_document("<r a='1'/>").native_root
    assert load_function(text, "test")(root) == "1"


class Run:
    """The state of a round, and what rules do in it."""

    now = NOW

    def __init__(self, stored: list[_Element]) -> None:
        self._stored = stored
        self.done: list[Any] = []

    def fires(self, *given: Any) -> None:
        self.done.append(given)

    def enqueue(self, *given: Any) -> tuple[()]:
        self.done.append(str(given))
        return ()

    def own(self, name: str) -> list[str]:
        return [name] if name == "key" else []

    def property_of(self, name: str, nodes: list[_Element]) -> list[str]:
        return [name] if nodes else []

    def queue(self, name: str) -> list[_Element]:
        return self._stored

    def found(self, number: int) -> list[_Element]:
        return self._stored[:1]

    def collection(self, name: str) -> list[_Element]:
        return list(self._stored)

    def counted(self, number: int) -> range:
        return range(2)


def load_as_it_is(text: str) -> Any:
    made: dict[str, Any] = {}
    exec(text, dict(CALLED), made)
    return made["function"]


def call(function: Any, root: _Element, stored: list[_Element]) -> Any:
    """What a function does; None if it fails, in whatever way."""
    run = Run(stored)
    try:
        function(root, run)
    except Exception:
        return None
    return run.done


def emit_drawn(random: Random) -> str | None:
    """The function of a rule, if that is native."""
    rule = Grammar(random).rule(random.choice((1, 2, 3, 4)))
    head = random.choice(DEFAULTS) + PROLOG + FUNCTIONS + STATEMENTS
    text = f"{head} create queue q create queue o create queue s create collection k create rule r for q {rule}"
    try:
        plan = make_plan(load_text(text))
    except ProgramError:
        return None
    rules = NativeEmitter(plan).emit_queue("q").rules
    return next((rule.body for _, rule in rules if isinstance(rule, RuleText)), None)


@pytest.mark.draws
def test_a_rewritten_function_does_the_same_and_fails_on_the_same_messages():
    random = Random(run_seed())
    shared: list[str] = []
    for _ in draw_until(lambda: len(shared) >= SHARED_MIN, RULES, "REWRITTEN_RULES"):
        text = emit_drawn(random)
        if text is None:
            continue
        if "shared0" in ast.unparse(rewrite(text)[0]):
            shared.append(text)
        plain, made = load_as_it_is(text), load_function(text, "rule")
        roots = [parse_document(draw_document(random)).native_root for _ in range(MESSAGES + 2)]
        known = [root for root in roots if root is not None]
        for root in known[2:]:
            expected = call(plain, root, known[:2])
            assert (call(made, root, known[:2]), text) == (expected, text)
