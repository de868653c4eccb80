"""Plans as authors see them, and the XQuery that Saxon gets. `./test --accept-golden tests/unit/compiler` records anew."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from demaq.compiler.emit.xquery.blocks import BlockEmitter
from demaq.compiler.emit.xquery.rule_filter import emit_batch_query
from demaq.compiler.explain import explain
from demaq.compiler.planner import make_plan
from demaq.language.loader import load_program

GOLDEN = Path(__file__).parents[2] / "golden"
PROGRAMS = sorted(GOLDEN.glob("*.dmq"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_the_plan_is_the_recorded_one(program: Path, accept_golden: bool) -> None:
    compare(program.with_suffix(".plan.txt"), explain(make_plan(load_program(program))) + "\n", accept_golden)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_the_emitted_query_is_the_recorded_one(program: Path, accept_golden: bool) -> None:
    plan = make_plan(load_program(program))
    texts = [block.text[block.text.rindex("\n[") + 1 :] for block in BlockEmitter(plan).blocks()]
    queries = [f"(: {queue} :) {emit_batch_query(item)}" for queue, item in plan.queues.items() if item.rules]
    compare(program.with_suffix(".xq"), "\n\n".join([*texts, *queries]) + "\n", accept_golden)


def test_the_plan_of_a_mailbox_calls_it_so(tmp_path: Path) -> None:
    file = tmp_path / "app.dmq"
    file.write_text("create queue letters kind mailbox")
    program = load_program(file)
    assert explain(make_plan(program), queue="letters").splitlines() == [
        "queue letters (mailbox, persistent)",
        "  no rule: messages stay until a client takes them",
    ]
    assert program.queues["letters"].kind == "basic"


def compare(file: Path, text: str, accept: bool) -> None:
    # Golden texts do not depend on where the checkout is, and our own names are easier to read without their namespaces.
    text = text.replace(str(GOLDEN), "golden").replace("Q{demaq:runtime}", "d:").replace("\x1e", "␞")
    text = text.replace("Q{http://www.w3.org/2005/xpath-functions}", "fn:").replace(
        "Q{http://www.w3.org/2001/XMLSchema}", "xs:"
    )
    text = text.replace("Q{http://www.w3.org/2005/xqt-errors}", "err:").replace("}, function(", "},\n\nfunction(")
    text = "\n".join([line.rstrip() for line in text.splitlines()]) + "\n"
    if accept:
        file.write_text(text, encoding="utf-8")
        return
    recorded = file.read_text(encoding="utf-8")
    difference = difflib.unified_diff(recorded.splitlines(), text.splitlines(), "recorded", "now", lineterm="")
    assert recorded == text, "\n".join(difference)
