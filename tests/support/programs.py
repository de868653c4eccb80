"""Programs written inside tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from demaq.documents import parse_document
from demaq.evaluation.outcomes import Enqueued, Outcome
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.memory_state import MemoryState
from demaq.language.loader import check_application
from demaq.language.program.program import Program
from demaq.messages import PropertyValue

NOW = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)

FEW_SLICES = """
create queue in create queue totals create queue log
create property k as xs:integer queue in value //k
create slicing s on k
create rule some for s if (count(qs:slice()) ge 4) then
  (do enqueue <total k="{qs:slicekey()}" n="{count(qs:queue("totals"))}">{sum(qs:slice()//v)}</total> into totals,
   do reset)
create rule seen for in if (count(qs:queue("log")[/l/k = qs:message()//k]) lt 3) then
  do enqueue <l>{//k}</l> into log
create rule again for in if (//v mod 7 = 0) then do enqueue <m>{//k}<v>{//v + 1}</v></m> into in
"""
"""Many messages of few slices: what they do depends on those before them."""


def program(folder: Path, text: str, **files: str) -> Program:
    """The program a text makes up; it must be right. Other files beside it are given by name, `_` for a dot."""
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content, encoding="utf-8")
    file = folder / "app.dmq"
    file.write_text(text, encoding="utf-8")
    checked = check_application(file)
    assert checked.program is not None, "\n".join([item.render() for item in checked.errors])
    return checked.program


class Bench:
    """A compiled program with state in memory, to try messages on."""

    def __init__(self, program: Program) -> None:
        self.evaluator = SaxonEvaluator(compile_program(program))
        slicings = {slicing.name: slicing.property for slicing in program.slicings.values()}
        self.state = MemoryState(self.evaluator, slicings, NOW)

    def add(self, queue: str, *bodies: str) -> None:
        for body in bodies:
            self.state.add(queue, parse_document(body))

    def run(self, queue: str, body: str, explicit: Mapping[str, PropertyValue] | None = None) -> Outcome:
        message = self.state.add(queue, parse_document(body), explicit)
        return self.evaluator.evaluate([message], self.state, NOW)[0]


def bodies(outcome: Outcome, queue: str | None = None) -> list[str]:
    """The messages an outcome enqueues."""
    return [a.document.text for a in outcome.actions if isinstance(a, Enqueued) and queue in (None, a.queue)]


def values(outcome: Outcome) -> list[dict[str, str]]:
    """The properties of the messages an outcome enqueues."""
    return [
        {name: value.text for name, value in action.properties.items()}
        for action in outcome.actions
        if isinstance(action, Enqueued)
    ]


def failures(outcome: Outcome) -> Sequence[tuple[str, str, str]]:
    """Rule, kind and code of every error."""
    return [(error.rule, error.kind, error.code) for error in outcome.errors]
