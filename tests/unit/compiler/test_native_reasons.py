"""Reasons for Saxon are data with codes that are known and documented, and places that are the offending expression."""

from __future__ import annotations

import ast as python
from pathlib import Path

import pytest

import demaq
from demaq.compiler.emit.python.queue_code import NativeEmitter, why_not_native
from demaq.compiler.emit.python.reasons import HINTS
from demaq.compiler.planner import make_plan
from demaq.testing.lab import load_text

SOURCES = Path(demaq.__file__).parent
QUEUES = """create queue q create queue o kind mailbox
create property n as xs:string queue q value string(//n)
create slicing s on n
"""
CASES = {
    "a call": ('if (/m) then do enqueue <y>{ map:size(map { "a": 1 }) }</y> into o', 'map { "a": 1 }'),
    "a queue whose name is computed": ("if (qs:queue(//name)) then do enqueue <y/> into o", "qs:queue(//name)"),
    "a condition": ("if (try { /m/n } catch * { () }) then do enqueue <y/> into o", "try { /m/n } catch * { () }"),
    "an item of a function": (
        "if ((function($x) { $x })(/m)) then do enqueue <y/> into o",
        "function($x) { $x }",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_place_is_that_of_the_innermost_expression_that_is_not_native(case: str):
    rule, text = CASES[case]
    plan = make_plan(load_text(f"{QUEUES}create rule r for q {rule}"))
    reason = why_not_native(plan.rules["r"], NativeEmitter(plan))
    assert reason is not None
    assert reason.at is not None
    assert reason.at.source.text[reason.at.start : reason.at.end] == text
    assert reason.hint == HINTS[reason.code]
    assert reason.as_json()["line"] == 4


def test_a_rule_is_left_to_saxon_if_its_messages_are_and_no_other_rule_of_the_queue():
    text = """create queue q create queue o kind mailbox create queue p kind mailbox
    create property n as xs:string queue p value map { "n": //n }?n
    create rule native for q if (/m) then do enqueue <y/> into o
    create rule left for q if (/m) then do enqueue <y/> into p"""
    plan = make_plan(load_text(text))
    emitter = NativeEmitter(plan)
    assert why_not_native(plan.rules["native"], emitter) is None
    reason = why_not_native(plan.rules["left"], emitter)
    assert reason is not None
    assert reason.text.endswith(" in property n of queue p")
    assert list(emitter.emit_queue("q").intakes) == ["o"]


def test_every_code_that_is_raised_is_known_and_documented():
    raised: set[str] = set()
    for file in [*SOURCES.glob("compiler/emit/python/*.py"), SOURCES / "evaluation/native/values.py"]:
        for node in python.walk(python.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, python.Constant) and isinstance(node.value, str) and node.value.startswith("native."):
                raised.add(node.value)
    assert raised <= set(HINTS)
    page = (SOURCES.parents[1] / "docs/reference/execution.md").read_text(encoding="utf-8")
    assert [code for code in HINTS if f"| `{code}` |" not in page] == []
