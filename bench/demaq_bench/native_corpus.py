"""The corpus of realistic rules: how many are native, and whether they do what Saxon does.

Each folder of `corpus` is an application, `rules.dmq`, with `samples.xml`: collections, and messages for its queues in
the order in which they arrive. What rules enqueue is processed like in a node, timers at once. Every message is
evaluated by Saxon alone and natively, on the same state, and the outcomes are compared rule by rule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from lxml import etree

from demaq.compiler.emit.python.reasons import Reason
from demaq.compiler.explain import reasons_for_saxon
from demaq.documents import Document, parse_document
from demaq.evaluation.native.self_check import describe_outcome
from demaq.evaluation.outcomes import Enqueued, Outcome, SliceReset
from demaq.evaluation.saxon.compiled import CompiledProgram, compile_program
from demaq.evaluation.saxon.processor import Saxon
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.memory_state import MemoryState
from demaq.language.loader import load_program
from demaq.messages import Message, PropertyValue

CORPUS = Path(__file__).parent / "corpus"
NOW = datetime(2026, 3, 16, 9, 30, tzinfo=UTC)
STEPS_MAX = 2000
"""So many messages one application may process: it must come to an end."""
EXAMPLE_CHARACTERS_MAX = 80


@dataclass(slots=True, kw_only=True)
class CorpusRule:
    """What became of one rule."""

    application: str
    name: str
    reason: Reason | None
    """Why it is left to Saxon; None if it is native."""
    fired: int = 0
    """On how many messages it has fired."""
    fired_natively: int = 0
    """On how many of these it was evaluated natively."""
    failed: int = 0
    """On how many messages it has failed."""
    answers: int = 0
    """On how many messages it was evaluated natively."""
    fallbacks: int = 0
    """On how many messages it was left to Saxon though it is native."""
    differences: list[str] = field(default_factory=list)
    """Messages on which its native answer is not Saxon's."""

    def as_json(self) -> dict[str, Any]:
        return {
            "application": self.application,
            "rule": self.name,
            "native": self.reason is None,
            "reason": None if self.reason is None else self.reason.as_json(),
            "fired": self.fired,
            "firedNatively": self.fired_natively,
            "failed": self.failed,
            "answers": self.answers,
            "fallbacks": self.fallbacks,
            "differences": self.differences,
        }


def find_applications() -> list[str]:
    return sorted([file.parent.name for file in CORPUS.glob("*/rules.dmq")])


def measure(applications: Sequence[str]) -> Iterator[CorpusRule]:
    """Yield the rules of applications of the corpus, evaluated on their samples."""
    saxon = Saxon()
    for name in applications:
        compiled = compile_program(load_program(CORPUS / name / "rules.dmq"), saxon)
        yield from _Run(name, compiled).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonCount:
    """A reason for Saxon, with the rules that it holds for."""

    code: str
    text: str
    rules: tuple[CorpusRule, ...]

    @property
    def example(self) -> str:
        """Where the first of them is left to Saxon, and what stands there."""
        first = self.rules[0]
        at = first.reason.at if first.reason is not None else None
        if at is None:
            return f"{first.application}, {first.name}"
        text = " ".join(at.source.text[at.start : at.end].split())
        shown = text if len(text) <= EXAMPLE_CHARACTERS_MAX else text[: EXAMPLE_CHARACTERS_MAX - 1] + "…"
        return f"{first.application}/{Path(at.file).name}:{at.line}:{at.column}  {shown}"


def count_reasons(rules: Sequence[CorpusRule]) -> list[ReasonCount]:
    """Return the reasons for Saxon, the most frequent first."""
    found: dict[tuple[str, str], list[CorpusRule]] = {}
    for rule in rules:
        if rule.reason is not None:
            found.setdefault((rule.reason.code, rule.reason.text), []).append(rule)
    counts = [ReasonCount(code=code, text=text, rules=tuple(which)) for (code, text), which in found.items()]
    return sorted(counts, key=lambda each: (-len(each.rules), each.code, each.text))


def as_json(rules: Sequence[CorpusRule]) -> dict[str, Any]:
    """Return everything as data for JSON."""
    return {
        "rules": len(rules),
        "native": len([rule for rule in rules if rule.reason is None]),
        "reasons": [
            {"code": each.code, "text": each.text, "rules": len(each.rules), "example": each.example}
            for each in count_reasons(rules)
        ],
        "each": [rule.as_json() for rule in rules],
    }


def tables(rules: Sequence[CorpusRule]) -> Iterator[str]:
    """Yield lines to read: applications, reasons for Saxon, and differences."""
    by_application: dict[str, list[CorpusRule]] = {}
    for rule in rules:
        by_application.setdefault(rule.application, []).append(rule)
    width = max([len(name) for name in ("application", *by_application)])
    yield f"{'application':<{width}}  rules  native    %  fired  natively  answers  fallbacks  different"
    for name, own in [*by_application.items(), ("all", list(rules))]:
        native = len([rule for rule in own if rule.reason is None])
        fired, natively = sum([rule.fired for rule in own]), sum([rule.fired_natively for rule in own])
        answers, fallbacks = sum([rule.answers for rule in own]), sum([rule.fallbacks for rule in own])
        different = sum([len(rule.differences) for rule in own])
        yield (
            f"{name:<{width}}  {len(own):>5}  {native:>6}  {100 * native // len(own):>3}"
            f"  {fired:>5,}  {natively:>8,}  {answers:>7,}  {fallbacks:>9,}  {different:>9,}"
        )
    reasons = count_reasons(rules)
    if reasons:
        yield "\nleft to Saxon because of"
    for each in reasons:
        yield f"{len(each.rules):>5}  {each.code}: {each.text}"
        yield f"       {each.example}"
    for rule in rules:
        for message in rule.differences:
            yield f"\n{rule.application}, {rule.name}: not Saxon's answer to\n{message}"


_New: TypeAlias = tuple[str, Document, Mapping[str, PropertyValue]]
"""A message that arrives: queue, document and explicit properties."""


class _Run:
    """The samples of one application, evaluated twice."""

    def __init__(self, application: str, compiled: CompiledProgram) -> None:
        plan = compiled.plan
        self._application = application
        self._program = plan.program
        self._saxon = SaxonEvaluator(compiled, native=False)
        self._native = SaxonEvaluator(compiled)
        slicings = {slicing.name: slicing.property for slicing in plan.program.slicings.values()}
        self._state = _State(self._saxon, slicings, NOW)
        left = reasons_for_saxon(plan)
        self._rules = {
            name: CorpusRule(application=application, name=name, reason=left.get(name)) for name in plan.rules
        }

    def run(self) -> list[CorpusRule]:
        samples = etree.parse(CORPUS / self._application / "samples.xml").getroot()
        waiting: deque[_New] = deque()
        steps = 0
        for sample in samples.iterchildren("collection"):
            for body in sample:
                self._state.add_to_collection(sample.attrib["name"], _document(body))
        for sample in samples.iterchildren("message"):
            waiting.append((sample.attrib["queue"], _document(sample[0]), {}))
            while waiting and steps < STEPS_MAX:
                steps += 1
                message = self._state.add(*waiting.popleft())
                waiting.extend(self._step(message))
        assert steps < STEPS_MAX, f"{self._application} does not come to an end"
        return list(self._rules.values())

    def _step(self, message: Message) -> list[_New]:
        """Process a message. Return those that its rules enqueue."""
        if not self._native.rules(message):
            return []
        [expected] = self._saxon.evaluate([message], self._state, NOW)
        found, left = self._native.evaluate_natively(message, self._state, NOW)
        for rule in self._native.rules(message):
            self._compare(self._rules[rule.name], message, expected, found, left is None or rule.name in left)
        for action in expected.actions:
            if isinstance(action, SliceReset):
                self._state.reset(action)
        return [self._target(action) for action in expected.actions if isinstance(action, Enqueued)]

    def _compare(self, rule: CorpusRule, message: Message, expected: Outcome, found: Outcome, is_left: bool) -> None:
        rule.fired += rule.name in expected.fired
        rule.failed += any([error.rule == rule.name for error in expected.errors])
        if is_left:
            rule.fallbacks += rule.reason is None
            return
        rule.answers += rule.reason is None
        rule.fired_natively += rule.reason is None and rule.name in expected.fired
        if _part(expected, rule.name) != _part(found, rule.name):
            rule.differences.append(message.document.text)

    def _target(self, action: Enqueued) -> _New:
        """Return a new message as it arrives: those of echo queues in their targets, as if they were due."""
        is_timer = self._program.queues[action.queue].kind == "echo"
        queue = action.properties["target"].text if is_timer else action.queue
        declared = {prop.name for prop in self._program.properties_of(queue) if prop.variant != "fixed"}
        explicit = {name: value for name, value in action.properties.items() if name in declared}
        return queue, Document(action.document.text), explicit


class _State(MemoryState):
    """The state of an application, with resets."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._resets: dict[tuple[str, str], int] = {}

    def reset(self, action: SliceReset) -> None:
        self._resets[action.slicing, action.key] = len(self.messages)

    def slice(self, slicing: str, key: str) -> Sequence[Message]:
        since = self._resets.get((slicing, key), 0)
        return [message for message in super().slice(slicing, key) if message.seq > since]


def _part(outcome: Outcome, rule: str) -> tuple[Any, ...]:
    """Return what a rule contributes to an outcome."""
    kept = Outcome(fired=outcome.fired, actions=outcome.actions, errors=outcome.errors)
    kept.keep_only(rule)
    return describe_outcome(kept)


def _document(element: etree._Element) -> Document:
    return parse_document(etree.tostring(element, encoding="unicode", with_tail=False))
