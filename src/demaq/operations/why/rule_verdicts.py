"""What becomes of each rule of a message, and why: the outcome of an evaluation, and the conditions taken apart.

The evaluator says which rules fire, act and fail. Only rules that do not are examined further.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from lxml import etree

from demaq.compiler.context import CompilerContext
from demaq.compiler.plan import Feature, RulePlan
from demaq.compiler.trees import has_no_else, split_conjuncts
from demaq.engine.namespace_watch import missed_by_properties
from demaq.evaluation.native.rule_picker import RulePicker
from demaq.evaluation.outcomes import Action, Enqueued, Location, Outcome, RuleError, StateReader
from demaq.evaluation.saxon.processor import EvaluationError
from demaq.evaluation.saxon.rule_probe import RuleProbe
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.state_builder import Job
from demaq.language import ast
from demaq.language.analysis.missed_names import read_vocabulary
from demaq.messages import Message
from demaq.operations.why.cause_finder import CauseFinder
from demaq.operations.why.examination import Examination
from demaq.operations.why.near_misses import similar_name
from demaq.operations.why.shown_values import cut
from demaq.operations.why.verdicts import (
    Cause,
    HeldMessage,
    HeldState,
    MadeMessage,
    MadeReset,
    RuleFailure,
    RuleResult,
    RuleVerdict,
)

HELD_SHOWN = 5
BODY_SHOWN = 200


def rules_about(evaluator: SaxonEvaluator, queue: str) -> list[RulePlan]:
    """Return the rules that pertain to messages of a queue: those of the queue, then those of slicings."""
    plan = evaluator.compiled.plan
    targets = {queue, *[slicing.name for slicing in plan.program.slicings_of(queue)]}
    never = [each for each in plan.rules.values() if each.never is not None and each.rule.target in targets]
    return [*plan.queues[queue].rules, *never]


class RuleExaminer:
    """One message, and the state that its rules see."""

    def __init__(
        self,
        evaluator: SaxonEvaluator,
        message: Message,
        reader: StateReader,
        now: datetime,
        long_queues: frozenset[str] = frozenset(),
        outcome: Outcome | None = None,
    ) -> None:
        """The outcome is computed if it is not known.

        In `long_queues` messages are only looked up, as rules do; others may be read as a whole.
        """
        self._evaluator = evaluator
        self._plan = evaluator.compiled.plan
        self._message = message
        self._reader = reader
        self._now = now
        self._long_queues = long_queues
        self._outcome = evaluator.evaluate([message], reader, now)[0] if outcome is None else outcome

    def examine(self, only: str | None = None, skip: Collection[RuleResult] = ()) -> tuple[RuleVerdict, ...]:
        """Return what becomes of each rule, or of one. Conditions of those in `skip` are not taken apart."""
        asked = self._asked()
        plans = [
            plan for plan in rules_about(self._evaluator, self._message.queue) if only is None or plan.rule.name == only
        ]
        return tuple([self._examine(plan, plan.rule.name in asked, skip) for plan in plans])

    def _asked(self) -> set[str]:
        """Return the rules that the filter of the queue lets through."""
        queue = self._plan.queues[self._message.queue]
        if not queue.picks:
            return {plan.rule.name for plan in queue.rules}
        root = self._message.document.tree.getroot()
        return {queue.rules[position].rule.name for position in RulePicker(queue).pick(root)}

    def _examine(self, plan: RulePlan, is_asked: bool, skip: Collection[RuleResult]) -> RuleVerdict:
        rule, outcome, message = plan.rule, self._outcome, self._message
        made = tuple([describe_action(action) for action in outcome.actions if action.rule == rule.name])
        errors = [error for error in outcome.errors if error.rule == rule.name]
        slicing = rule.target if rule.on_slicing else None
        in_slice = slicing is None or self._is_in_slice(slicing)
        key = None
        if slicing is not None and in_slice:
            key = message.properties[self._plan.program.slicings[slicing].property].text
        reason: str | None = None
        result: RuleResult
        causes: tuple[Cause, ...] = ()
        hints: tuple[str, ...] = ()
        held: tuple[HeldState, ...] = ()
        if errors:
            result = "failed"
        elif rule.name in outcome.fired:
            result = "fired"
            if not made and result not in skip:
                causes, held = self._take_apart(plan, has_fired=True)
        elif made:
            result = "else"
            if result not in skip:
                causes, held = self._take_apart(plan, has_fired=False)
        elif plan.never is not None or message.only_rule not in (None, rule.name) or not in_slice or not is_asked:
            result = "not-asked"
            reason, hints = self._explain_not_asked(plan, slicing, in_slice)
        else:
            result = "not-fired"
            if result not in skip:
                causes, held = self._take_apart(plan, has_fired=False)
        return RuleVerdict(
            rule=rule.name,
            at=Location.of(rule.decl.at),
            slicing=slicing,
            key=key,
            result=result,
            made=made,
            causes=causes,
            reason=reason,
            hints=hints,
            failure=_describe_error(errors[0]) if errors else None,
            held=held,
        )

    # rules that were not asked

    def _is_in_slice(self, slicing: str) -> bool:
        if self._message.slices is not None:
            return slicing in self._message.slices
        return self._plan.program.slicings[slicing].property in self._message.properties

    def _explain_not_asked(self, plan: RulePlan, slicing: str | None, in_slice: bool) -> tuple[str, tuple[str, ...]]:
        message, program = self._message, self._plan.program
        if plan.never is not None:
            return plan.never, ()
        if message.only_rule not in (None, plan.rule.name):
            return f"the message is run again for rule {message.only_rule} alone", ()
        if slicing is not None and not in_slice:
            name = program.slicings[slicing].property
            if name in message.properties:
                value = message.properties[name].text
                return f'slice {slicing} "{value}" was reset before the message was processed', ()
            vocabulary = read_vocabulary(message.document.tree.getroot())
            missed = missed_by_properties(program, message.queue, [name], vocabulary)
            hints = [f"{each.words} the message: {each.hint}" for _, each in missed]
            return f"the message is in no slice of {slicing}: it has no property {name}", tuple(hints)
        features = self._features(plan)
        needed = " or ".join([str(feature) for feature in features])
        return f"the message has no {needed}", tuple(self._feature_hints(plan, features))

    def _features(self, plan: RulePlan) -> list[Feature]:
        """Return the features of which a message needs one for the rule to be asked."""
        queue = self._plan.queues[self._message.queue]
        position = [each.rule.name for each in queue.rules].index(plan.rule.name)
        return sorted([feature for feature, positions in queue.picks.items() if position in positions], key=str)

    def _feature_hints(self, plan: RulePlan, features: Sequence[Feature]) -> list[str]:
        prefixes = self._plan.modules[plan.rule.module].names.prefixes
        root = self._message.document.tree.getroot()
        found: list[str] = []
        for feature in features:
            sigil = "@" if feature.kind == "attribute" else ""
            names = _names_in(root, feature.kind)
            if feature.value is not None and (feature.uri, feature.local) in names:
                values = _values_of(root, feature)
                found.append(f"{sigil}{feature.local} is {', '.join(values)}")
                continue
            hint = similar_name((feature.uri, feature.local), names, prefixes, sigil)
            if hint is not None:
                found.append(hint)
        return found

    # rules that were asked

    def _take_apart(self, plan: RulePlan, has_fired: bool) -> tuple[tuple[Cause, ...], tuple[HeldState, ...]]:
        """Return why a rule did not fire, or did nothing, and what it read."""
        context = self._plan.modules[plan.rule.module]
        probe = RuleProbe(self._evaluator, plan, self._message, self._reader, self._now, self._long_queues)
        examination = Examination(probe, context)
        finder = CauseFinder(examination)
        node, failing, error = plan.rule.body, None, None
        try:
            while failing is None:
                inner = node.then if isinstance(node.then, ast.If) and has_no_else(node) else None
                inner = inner if inner is not None and has_no_else(inner) else None
                truth = examination.value((), node.condition).truth
                if truth is None and not has_fired:
                    # Of conditions that must all hold Saxon may evaluate any first: here one that fails, in the rule
                    # one that is false, which may be that of the inner `if`.
                    error = error or node.condition
                    truth = None if inner is not None and not _has_false(examination, node.condition) else False
                if truth is False:
                    failing = node.condition
                elif inner is not None:
                    node = inner
                else:
                    break
            failing = failing or error
            if failing is not None and not has_fired:
                causes = finder.find_false(failing)
                conjuncts = {conjunct.at.start: conjunct for conjunct in split_conjuncts(failing)}
                reads = [conjuncts[cause.start] for cause in causes if cause.start in conjuncts]
                return causes, self._held(probe.job, plan, reads, context)
            if failing is None and has_fired:
                causes = finder.explain_no_action(node.then)
                return causes, self._held(probe.job, plan, [node.then], context) if causes else ()
        except EvaluationError:
            pass  # the keys of what it reads have no value
        return (), ()

    def _held(
        self, job: Job, plan: RulePlan, parts: Sequence[ast.Expr], context: CompilerContext
    ) -> tuple[HeldState, ...]:
        if not any([context.reads_state(part) for part in parts]):
            return ()
        found: list[HeldState] = []
        for slicing, _ in sorted(job.slices_read):
            key = self._message.properties[self._plan.program.slicings[slicing].property].text
            found.append(_describe_held(f'slice {slicing} "{key}"', job.slice))
        found += [_describe_held(f"queue {name}", messages) for name, messages in job.queues.items()]
        for name, documents in job.collections.items():
            found.append(HeldState(what=f"collection {name}", count=len(documents), messages=()))
        return tuple(found)


def _has_false(examination: Examination, condition: ast.Expr) -> bool:
    return any([examination.value((), conjunct).truth is False for conjunct in split_conjuncts(condition)])


def describe_action(action: Action) -> MadeMessage | MadeReset:
    if isinstance(action, Enqueued):
        properties = {name: value.text for name, value in action.properties.items()}
        return MadeMessage(queue=action.queue, body=action.document.text, properties=properties)
    return MadeReset(slicing=action.slicing, key=action.key)


def _describe_error(error: RuleError) -> RuleFailure:
    return RuleFailure(kind=error.kind, code=error.code, description=error.description, at=error.at)


def _describe_held(what: str, messages: Sequence[Message]) -> HeldState:
    shown = [
        HeldMessage(number=message.seq, queue=message.queue, body=cut(message.document.text, BODY_SHOWN))
        for message in messages[:HELD_SHOWN]
    ]
    return HeldState(what=what, count=len(messages), messages=tuple(shown))


def _names_in(root: etree._Element, kind: str) -> list[tuple[str, str]]:
    elements = [root] if kind == "root" else list(root.iter(etree.Element))
    names = [element.tag for element in elements]
    if kind == "attribute":
        names = [name for element in elements for name in element.keys()]  # noqa: SIM118
    qualified = [etree.QName(str(name)) for name in dict.fromkeys(names)]
    return [(name.namespace or "", name.localname) for name in qualified]


def _values_of(root: etree._Element, feature: Feature) -> list[str]:
    name = f"{{{feature.uri}}}{feature.local}" if feature.uri else feature.local
    if feature.kind == "attribute":
        found = [str(element.get(name)) for element in root.iter(etree.Element) if name in element.attrib]
    else:
        found = ["".join(element.itertext()) for element in root.iter(name)]
    return [f'"{cut(value)}"' for value in list(dict.fromkeys(found))[:HELD_SHOWN]]
