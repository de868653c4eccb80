"""Update expressions on copies in rules: the table of `update_expressions`, and what is refused beforehand."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from demaq.evaluation.outcomes import Enqueued
from demaq.language.loader import check_application
from tests.support.evaluation.update_expressions import EXPRESSIONS, MESSAGE, PROLOG
from tests.support.programs import Bench, bodies, failures, program
from tests.support.reference.update_trees import read_element, written

NUMBERS = {name: f"case{number}" for number, name in enumerate(EXPRESSIONS)}


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    """By rule, what it enqueued or the code of its error. All expressions are in one program: compiling takes longest."""
    rules = [
        f"create rule {NUMBERS[name]} for in if (true()) then do enqueue <r>{{ {expression} }}</r> into out"
        for name, (expression, _) in EXPRESSIONS.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(program(Path(folder), "\n".join([PROLOG, "create queue in create queue out", *rules])))
    outcome = bench.run("in", MESSAGE)
    made = {action.rule: action.document.text for action in outcome.actions if isinstance(action, Enqueued)}
    return made | {error.rule: error.code for error in outcome.errors}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_gives_what_the_recommendation_says(answers: dict[str, str], name: str) -> None:
    due = EXPRESSIONS[name][1]
    answer = answers[NUMBERS[name]]
    if not answer.startswith("<") or re.fullmatch(r"[A-Z]{4}\d{4}", due):
        assert answer == due
        return
    expected = due if due.startswith("<r ") else f"<r>{due}</r>"
    assert written([read_element(answer)]) == written([read_element(expected)]), answer


@pytest.mark.parametrize(
    ("code", "expression"),
    [
        ("DQ0403", "insert node <b/> into <a/>"),  # XUST0001: an updating expression where a value is wanted
        ("DQ0403", "copy $c := <a/> modify insert node (delete node $c/b) into $c return $c"),
        ("DQ0403", "copy $c := (delete node /order/item) modify () return $c"),
        ("DQ0403", "copy $c := <a/> modify () return delete node $c/b"),
        ("DQ0403", "copy $c := <a/> modify if (delete node $c/b) then () else () return $c"),
        ("DQ0414", "copy $c := <a/> modify $c/b return $c"),  # XUST0002: a value where an update is wanted
        ("DQ0404", "copy $c := <a/> modify (delete node $c/b, $c/b) return $c"),
        ("DQ0404", "copy $c := <a/> modify if ($c/b) then delete node $c/b else 1 return $c"),
        ("DQ0412", "copy $c := <a/> modify delete node /order/item return $c"),  # XUDY0014, seen beforehand
        ("DQ0413", "copy $c := <a/> modify do enqueue $c into out return $c"),
        ("DQ0303", 'copy $c := <a/> modify put($c, "a.xml") return $c'),
    ],
)
def test_what_can_be_seen_beforehand_is_refused(tmp_path: Path, code: str, expression: str) -> None:
    file = tmp_path / "app.dmq"
    text = f"create queue in create queue out create rule r for in if (true()) then do enqueue <r>{{ {expression} }}</r> into out"
    file.write_text(text, encoding="utf-8")
    assert code in [item.code for item in check_application(file).errors]


@pytest.mark.parametrize(
    ("code", "update"),
    [
        ("XUDY0009", "replace node $c with <b/>"),
        ("XUDY0014", "delete node (<x><y/></x>)/y"),
        ("XUDY0027", "insert node <b/> after $c/none"),
        ("XQDY0074", 'rename node $c as "1 2"'),
        ("XUDY0015", 'rename node $c as "second"'),
        ("FOAR0001", "insert node 1 div 0 into $c"),
    ],
)
def test_an_error_is_found_at_its_update(tmp_path: Path, code: str, update: str) -> None:
    text = f"""create queue in create queue out
create rule r for in if (true()) then
  do enqueue <r>{{
    copy $c := <a/>
    modify (rename node $c as "first",
            {update})
    return $c
  }}</r> into out"""
    outcome = Bench(program(tmp_path, text)).run("in", MESSAGE)
    (error,) = outcome.errors
    assert (error.kind, error.code) == ("dynamicError", code)
    assert error.at is not None
    assert error.at.line == text[: text.index(update)].count("\n") + 1


def test_updates_of_a_rule_that_fails_leave_no_trace(tmp_path: Path) -> None:
    text = """create queue in create queue out
create rule fails for in if (true()) then
  (do enqueue <before/> into out, do enqueue (copy $c := /order modify replace node $c with <b/> return $c) into out)
create rule works for in if (true()) then
  do enqueue (copy $c := /order modify delete nodes $c/node() return $c) into out"""
    outcome = Bench(program(tmp_path, text)).run("in", MESSAGE)
    assert failures(outcome) == [("fails", "dynamicError", "XUDY0009")]
    assert bodies(outcome) == ['<order id="7" state="new"/>']
