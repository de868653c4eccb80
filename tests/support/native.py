"""Native rules and Saxon, compared: many expressions in one program, many messages for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from demaq.compiler.emit.python.queue_code import NativeEmitter, why_not_native
from demaq.compiler.planner import make_plan
from demaq.documents import Document
from demaq.errors import ProgramError
from demaq.evaluation.arrival_request import Arriving, Passed
from demaq.evaluation.native.native_rules import NativeRules
from demaq.evaluation.native.self_check import describe_outcome
from demaq.evaluation.outcomes import NOT_EVALUATED, AskedMessage, Outcome
from demaq.evaluation.saxon.compiled import CompiledProgram, compile_program
from demaq.evaluation.saxon.processor import Saxon
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.memory_state import MemoryState
from demaq.language.program.program import Program
from demaq.messages import Message
from demaq.testing.lab import load_text
from tests.support.programs import NOW

_SAXON: list[Saxon] = []


def saxon() -> Saxon:
    """One for all: it takes long to start."""
    if not _SAXON:
        _SAXON.append(Saxon())
    return _SAXON[0]


@dataclass
class Comparison:
    """What became of some rules with some messages."""

    refused: list[str] = field(default_factory=list)
    """Rules in which there is a static error."""
    left: dict[str, str] = field(default_factory=dict)
    """Rules that are not native, with the reason."""
    native: list[str] = field(default_factory=list)
    """Rules with native answers."""
    compared: int = 0
    """Native answers that are as Saxon's."""
    answered: set[str] = field(default_factory=set)
    """Rules with a native answer."""
    passed: int = 0
    """Those of them of messages that passed: of which nothing but the effects is stored."""
    fallbacks: int = 0
    """Messages that native rules left to Saxon."""
    crashes: int = 0
    """Answers for which Saxon has none, because of a mistake of its own."""
    faults: list[str] = field(default_factory=list)
    """Exceptions in native rules."""
    differences: list[str] = field(default_factory=list)

    def add(self, other: Comparison) -> None:
        self.refused += other.refused
        self.left |= other.left
        self.native += other.native
        self.compared += other.compared
        self.answered |= other.answered
        self.passed += other.passed
        self.fallbacks += other.fallbacks
        self.crashes += other.crashes
        self.faults += other.faults
        self.differences += other.differences


def compare(
    rules: Sequence[str], bodies: Sequence[Document], head: str = "", state: Sequence[Document] = ()
) -> Comparison:
    """Give each rule, which is on its own queue `q`, every message; `state` is in the queue `s` and the collection `k`.

    A rule is what follows `create rule … for …`; `head` has whatever else the program declares.
    """
    found = Comparison()
    compiled, kept = _compile(rules, head, found)
    if compiled is None:
        return found
    mine, saxons = SaxonEvaluator(compiled), SaxonEvaluator(compiled, native=False)
    mine.health.report = lambda report: found.faults.append(str(report))
    memory = MemoryState(saxons, {s.name: s.property for s in compiled.plan.program.slicings.values()}, NOW)
    for document in state:
        memory.add("s", document)
        memory.add_to_collection("k", document)
    messages = {name: [memory.add(name, body) for body in bodies] for name in kept}
    everything = [message for each in messages.values() for message in each]
    expected = saxons.evaluate(everything, memory, NOW)
    native = mine.native
    assert native is not None
    for name, text in kept.items():
        translated = native.queue(name)
        assert translated.is_native, "it was translated before"
        if mine.cascades.may_pass(name):
            _compare_passing(native, memory, messages[name], expected[: len(bodies)], text, found)
        asked = [AskedMessage(message, Outcome(), memory) for message in messages[name]]
        fallbacks = set(native.run(translated, asked, memory, NOW))
        found.fallbacks += len(fallbacks)
        if len(fallbacks) < len(bodies):
            found.native.append(text)
        for number, (message, outcome, _) in enumerate(asked):
            theirs = expected.pop(0)
            if number in fallbacks or _has_crashed(theirs, found):
                continue
            found.compared += 1
            found.answered.add(text)
            if describe_outcome(outcome) != describe_outcome(theirs):
                found.differences.append(
                    f"{text}\non {message.document.text}\nnative: {describe_outcome(outcome)}\nsaxon:  {describe_outcome(theirs)}"
                )
    return found


def _compare_passing(
    native: NativeRules,
    memory: MemoryState,
    messages: Sequence[Message],
    expected: Sequence[Outcome],
    text: str,
    found: Comparison,
) -> None:
    """Let messages arrive of which nothing but their effects is stored, and compare these with Saxon's outcomes."""
    sent = [Arriving(message.queue, message.document.text, may_pass=True) for message in messages]
    for message, passed, theirs in zip(
        messages, native.pass_all(sent[0].queue, sent, memory, NOW), expected, strict=True
    ):
        if passed is None:
            continue
        assert isinstance(passed, Passed), "the message was accepted before"
        if _has_crashed(theirs, found):
            continue
        found.passed += 1
        mine = passed.make_outcome()
        if describe_outcome(mine) != describe_outcome(theirs):
            found.differences.append(
                f"{text}\non {message.document.text}\npassing: {describe_outcome(mine)}\nsaxon:   {describe_outcome(theirs)}"
            )


def _has_crashed(outcome: Outcome, found: Comparison) -> bool:
    """Whether Saxon has failed for a reason of its own, such as an exception of Java."""
    crashed = any([error.code == NOT_EVALUATED for error in outcome.errors])
    found.crashes += crashed
    return crashed


def _declared(rules: Sequence[str], head: str) -> str:
    """A program; every rule is a line of its own, after a line for all else."""
    queues = " ".join([f"create queue q{number}" for number in range(len(rules))])
    lines = [f"create rule r{number} for q{number} {rule.replace(chr(10), ' ')}" for number, rule in enumerate(rules)]
    return "\n".join([f"{head} create queue o create queue s create collection k {queues}", *lines])


def _compile(rules: Sequence[str], head: str, found: Comparison) -> tuple[CompiledProgram | None, dict[str, str]]:
    """A program of the rules that are right and native, and those by their queue."""
    kept = list(rules)
    while kept:
        try:
            checked = load_text(_declared(kept, head))
            kept, is_done = _native(kept, checked, found)
            if is_done:
                compiled = compile_program(checked, saxon())
                return compiled, {f"q{number}": rule for number, rule in enumerate(kept)}
        except ProgramError as error:
            wrong = {each.at.line - 2 for each in (error, *error.others) if each.at is not None}
            if not any([0 <= number < len(kept) for number in wrong]):
                raise  # it is in no rule
            found.refused += [rule for number, rule in enumerate(kept) if number in wrong]
            kept = [rule for number, rule in enumerate(kept) if number not in wrong]
    return None, {}


def _native(rules: list[str], checked: Program, found: Comparison) -> tuple[list[str], bool]:
    """The rules that are translated, and whether that is all of them."""
    plan = make_plan(checked)
    kept: list[str] = []
    emitter = NativeEmitter(plan)
    for number, rule in enumerate(rules):
        reason = why_not_native(plan.rules[f"r{number}"], emitter)
        if reason is None:
            kept.append(rule)
        else:
            found.left[rule] = reason.text
    return kept, len(kept) == len(rules)
