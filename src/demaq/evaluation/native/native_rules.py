"""Run the native rules of a queue, and filter the others: Saxon is asked only for what is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias, TypeVar

from lxml.etree import _Element

from demaq.compiler.emit.python.code import NotTranslatable
from demaq.compiler.emit.python.queue_code import NativeEmitter, QueueText, SaxonRuleText
from demaq.compiler.emit.python.rule_code import RuleText
from demaq.compiler.plan import Plan, QueuePlan, RulePlan
from demaq.errors import MessageError, StoreError
from demaq.evaluation.arrival_request import Arriving, Passed
from demaq.evaluation.native.health import NativeHealth
from demaq.evaluation.native.native_functions import load_function
from demaq.evaluation.native.native_properties import NativeProperties, compile_properties
from demaq.evaluation.native.native_run import NativeRule, NativeRun, find_root
from demaq.evaluation.native.passing_run import PassingRun, read_passing
from demaq.evaluation.native.rule_picker import RulePicker
from demaq.evaluation.native.self_check import SelfCheck
from demaq.evaluation.native.values import NeedsSaxon
from demaq.evaluation.outcomes import AskedMessage, Location, Outcome, StateReader
from demaq.evaluation.queue_schemas import QueueSchemas
from demaq.evaluation.round_request import PropertyRequest, PropertyResult
from demaq.evaluation.rule_work import RuleWork, TimedShare
from demaq.evaluation.state.state_builder import StateBuilder, Wanted, expect_reads
from demaq.language.program.program import Slicing
from demaq.messages import Message

T = TypeVar("T")

_Waiting: TypeAlias = tuple[NativeRule, list[list[str]]]
"""A rule that reads state, with the keys that it looks up."""
Picks = dict[tuple[int, ...], int]
"""Positions of rules, with the number of messages that were given to exactly these."""


class NativeQueue:
    """The rules of a queue, of which some may be left to Saxon."""

    def __init__(
        self, plan: QueuePlan, text: QueueText, slicings: Mapping[str, Slicing], withdrawn: Mapping[str, str]
    ) -> None:
        """`withdrawn` rules are left to Saxon."""
        self.rules = [_load_rule(plan, rule, slicings, plan.rule.name in withdrawn) for plan, rule in text.rules]
        self.intakes: dict[str, NativeProperties] = {}
        self._load_intakes(text)
        self.order = {rule.name: position for position, rule in enumerate(self.rules)}
        self.picker = RulePicker(plan) if plan.picks else None
        self.is_native = all([rule.body is not None for rule in self.rules])
        """Whether no rule is left to Saxon."""
        self.decides = self.picker is not None or any([r.body is not None or r.first is not None for r in self.rules])
        """Whether anything is evaluated natively."""
        self.times = TimedShare()
        self.timed_rules = [_time_rule(rule, self.times) for rule in self.rules]
        """The same rules, measuring how long they take."""
        self.may_pass = all([rule.body is not None and rule.slicing is None for rule in self.rules])
        """Whether all rules are native, and on the queue itself."""

    def _load_intakes(self, text: QueueText) -> None:
        """Load the properties of new messages. Rules that make messages whose properties are not loaded are Saxon's."""
        for queue, intake in text.intakes.items():
            try:
                self.intakes[queue] = NativeProperties(intake)
            except NotTranslatable:
                self.rules = [
                    _leave(rule) if any([write.queue == queue for write in rule.plan.enqueues]) else rule
                    for rule in self.rules
                ]

    def candidates(self, root: _Element, rules: Sequence[NativeRule], picks: Picks) -> Sequence[NativeRule]:
        """Return those of the rules that a message is given to, in order, and count that in `picks`."""
        if self.picker is None:
            return rules
        positions = tuple(self.picker.pick(root))
        picks[positions] = picks.get(positions, 0) + 1
        return [rules[position] for position in positions]

    def note_asked(self, work: RuleWork, messages: int, picks: Picks) -> None:
        """Count the rules that messages of a batch were given to."""
        if self.picker is None:
            work.add_all(self.order, messages)
        for positions, count in picks.items():
            work.add_all([self.rules[position].name for position in positions], count)


def _load_rule(
    plan: RulePlan, text: RuleText | SaxonRuleText, slicings: Mapping[str, Slicing], is_withdrawn: bool
) -> NativeRule:
    name = plan.rule.name
    slicing_property = slicings[plan.rule.target].property if plan.rule.on_slicing else ""
    rule = NativeRule(
        plan=plan,
        name=name,
        slicing=plan.rule.target if plan.rule.on_slicing else None,
        slicing_property=slicing_property,
        first=None,
        keys=(),
        body=None,
    )
    if is_withdrawn:
        return rule
    try:
        if isinstance(text, SaxonRuleText):
            return rule if text.filter is None else replace(rule, first=load_function(text.filter, f"filter of {name}"))
        return replace(
            rule,
            first=None if text.first is None else load_function(text.first, f"first of {name}"),
            keys=tuple([load_function(keys, f"keys of {name}") for keys in text.keys]),
            body=load_function(text.body, f"rule {name}"),
        )
    except NotTranslatable:
        return rule


def _time_rule(rule: NativeRule, times: TimedShare) -> NativeRule:
    """Return a rule that adds up how long it takes."""

    def measure(function: Callable[[_Element, NativeRun], T]) -> Callable[[_Element, NativeRun], T]:
        def call(root: _Element, run: NativeRun) -> T:
            began = time.perf_counter()
            try:
                return function(root, run)
            finally:
                times.seconds[rule.name] = times.seconds.get(rule.name, 0.0) + time.perf_counter() - began

        return call

    return replace(
        rule,
        first=None if rule.first is None else measure(rule.first),
        keys=tuple([measure(keys) for keys in rule.keys]),
        body=None if rule.body is None else measure(rule.body),
    )


def _leave(rule: NativeRule) -> NativeRule:
    """Return a rule that is left to Saxon."""
    return replace(rule, first=None, keys=(), body=None)


LeftRules = dict[int, "list[str] | None"]
"""What is left to Saxon: rules by the position of the message; None stands for all of them."""


class NativeRules:
    """All native rules of a plan, translated when they are first needed."""

    def __init__(
        self,
        plan: Plan,
        schemas: QueueSchemas,
        health: NativeHealth,
        self_check: SelfCheck | None = None,
        work: RuleWork | None = None,
    ) -> None:
        """`self_check` gets the results that are due for a check; what rules are asked is counted in `work`."""
        self.health = health
        self._work = work or RuleWork()
        self._self_check = self_check
        self._plan = plan
        self._schemas = schemas
        self._emitter = NativeEmitter(plan)
        self._queues: dict[str, NativeQueue] = {}
        self._withdrawn = 0
        self._intakes: dict[str, NativeProperties | None] = {}

    def compute_properties(self, arrival: PropertyRequest) -> PropertyResult | None:
        """Return properties and index entries of a message from outside; None if it needs Saxon."""
        intake = self._intake(arrival.queue)
        found = None if intake is None or arrival.explicit else intake.compute(arrival.document, arrival.inherited)
        if found is None:
            return None
        properties, entries = found
        return PropertyResult(queue=arrival.queue, document=arrival.document, properties=properties, entries=entries)

    def _intake(self, queue: str) -> NativeProperties | None:
        if queue not in self._intakes:
            self._intakes[queue] = compile_properties(queue, self._plan, self.health)
        return self._intakes[queue]

    def queue(self, name: str) -> NativeQueue:
        if len(self.health.withdrawn) != self._withdrawn:  # nothing is ever removed from it
            self._withdrawn = len(self.health.withdrawn)
            self._queues = {}
        if name not in self._queues:
            text = self._emitter.emit_queue(name)
            slicings = self._plan.program.slicings
            self._queues[name] = NativeQueue(self._plan.queues[name], text, slicings, self.health.withdrawn)
        return self._queues[name]

    def run(
        self,
        queue: NativeQueue,
        asked: Sequence[AskedMessage],
        reader: StateReader,
        now: datetime,
    ) -> LeftRules:
        """Run the native rules on messages of their queue and fill in the outcomes. Return what is left to Saxon.

        A rule contributes to an outcome, or it is left to Saxon, never both.
        """
        runs: list[tuple[int, NativeRun]] = []
        waiting: list[tuple[NativeRun, _Element, list[tuple[NativeRule, list[list[str]]]]]] = []
        left: LeftRules = {}
        picks: Picks = {}
        is_timed = queue.times.is_next_timed(len(asked))
        candidates = queue.timed_rules if is_timed else queue.rules
        for number, (message, outcome, state) in enumerate(asked):
            root = message.document.native_root
            if root is None:  # it is too large
                left[number] = None
                continue
            run = NativeRun(message, outcome, state, queue.intakes, self._schemas, now)
            runs.append((number, run))
            run.candidates = queue.candidates(root, candidates, picks)
            with_state = self._run_without_state(run, root)
            if with_state:
                waiting.append((run, root, with_state))
        self.health.fallbacks += len(left)
        if waiting:
            reads = [(run.message, rule.plan, keys) for run, _, rules in waiting for rule, keys in rules]
            expect_reads(self._plan, reader, reads, may_count=True)
            for run, root, rules in waiting:
                self._run_with_state(queue, run, root, rules)
        self._note_work(queue, len(runs), len(asked), picks, is_timed)
        for number, run in runs:
            if run.left:
                left[number] = run.left
                self.health.fallbacks += run.has_fallen_back
            else:
                self.health.answers += 1
        if self._self_check is not None:
            wanted = {id(run): rules for run, _, rules in waiting}
            for _, run in runs:
                self._keep(self._self_check, queue, run, now, wanted.get(id(run), ()))
        for message, _, _ in asked:
            if not message.slices:  # otherwise it will be read again
                message.document.forget_tree()
        return left

    def run_one(self, queue: NativeQueue, asked: AskedMessage, reader: StateReader, now: datetime) -> bool:
        """Run the rules on one message, without a check of the result. Return whether none is left to Saxon."""
        message, outcome, state = asked
        root = message.document.native_root
        if root is None:  # it is too large
            return False
        run = NativeRun(message, outcome, state, queue.intakes, self._schemas, now)
        picks: Picks = {}
        is_timed = queue.times.is_next_timed(1)
        run.candidates = queue.candidates(root, queue.timed_rules if is_timed else queue.rules, picks)
        with_state = self._run_without_state(run, root)
        if with_state:
            expect_reads(self._plan, reader, [(message, rule.plan, keys) for rule, keys in with_state], may_count=True)
            self._run_with_state(queue, run, root, with_state)
        self._note_work(queue, 1, 1, picks, is_timed)
        if run.left:
            return False
        self.health.answers += 1
        if not message.slices:  # otherwise it will be read again
            message.document.forget_tree()
        return True

    def _note_work(self, queue: NativeQueue, asked: int, batch: int, picks: Picks, is_timed: bool) -> None:
        """Count rules that messages of a batch were given to, and how long they have taken."""
        queue.note_asked(self._work, asked, picks)
        if is_timed:
            for rule, seconds in queue.times.take_scaled(batch).items():
                self._work.add_seconds(rule, seconds)

    def pass_all(
        self, name: str, sent: Sequence[Arriving], reader: StateReader, now: datetime
    ) -> list[Passed | MessageError | None]:
        """Return the effects of messages that only lead to others, or why they are refused.

        None for a message that cannot be evaluated in this way.
        """
        queue, intake = self.queue(name), self._intake(name)
        if intake is None or not queue.may_pass or name in self._schemas:
            return [None] * len(sent)
        found: list[Passed | MessageError | None] = [None] * len(sent)
        runs: dict[int, PassingRun] = {}
        waiting: dict[int, list[_Waiting]] = {}
        picks: Picks = {}
        is_timed = queue.times.is_next_timed(len(sent))
        rules = queue.timed_rules if is_timed else queue.rules
        for number, each in enumerate(sent):
            try:
                message = read_passing(each, intake, now)
            except MessageError as error:
                found[number] = error
                continue
            root = None if message is None else message.document.native_root
            if message is None or root is None:
                continue
            run = PassingRun(message, reader, queue.intakes, self._schemas, now)
            run.candidates = queue.candidates(root, rules, picks)
            with_state = self._pass(run, root)
            if with_state is not None:
                runs[number] = run
                if with_state:
                    waiting[number] = with_state
        if waiting:
            self._pass_with_state(runs, waiting, reader)
        for number, run in runs.items():
            found[number] = passed = run.take_effects(queue.order)
            if self._self_check is not None:
                self._keep_passed(self._self_check, queue, run, passed, waiting.get(number, ()))
        self.health.answers += len(runs)
        self._note_work(queue, len(runs), len(sent), picks, is_timed)
        return found

    def _pass(self, run: PassingRun, root: _Element) -> list[_Waiting] | None:
        """Run the rules that need only the message. Return the others with their keys; None if one needs Saxon."""
        found: list[_Waiting] = []
        for rule in run.candidates:
            assert rule.body is not None, "all rules are native"
            try:
                if rule.first is None:
                    rule.body(root, run)
                elif rule.first(root, run):
                    found.append((rule, [keys(root, run) for keys in rule.keys]))
            except NeedsSaxon:
                return None
            except Exception as error:
                self._report_fault(rule, run, error)
                return None
        return found

    def _pass_with_state(
        self, runs: dict[int, PassingRun], waiting: Mapping[int, list[_Waiting]], reader: StateReader
    ) -> None:
        """Run the rules that read state. Remove the runs that need Saxon."""
        reads = [(runs[n].message, rule.plan, keys) for n, rules in waiting.items() for rule, keys in rules]
        expect_reads(self._plan, reader, reads, may_count=True)
        for number, rules in waiting.items():
            run = runs[number]
            for rule, keys in rules:
                assert rule.body is not None, "all rules are native"
                run.begin(rule, keys)
                try:
                    rule.body(find_root(run.message.document), run)
                except NeedsSaxon:
                    runs.pop(number, None)
                except StoreError:
                    raise
                except Exception as error:
                    self._report_fault(rule, run, error)
                    runs.pop(number, None)

    def _keep_passed(
        self,
        self_check: SelfCheck,
        queue: NativeQueue,
        run: PassingRun,
        passed: Passed,
        with_state: Sequence[_Waiting],
    ) -> None:
        """Keep the effects of a message if they are due for a check, with the state that its rules may read."""
        rules = [rule.name for rule in run.candidates]
        if rules and self_check.is_due(rules):
            wanted = [Wanted(0, run.message, rule.plan, keys, run.state) for rule, keys in with_state]
            read = list(zip(wanted, StateBuilder(self._plan, run.state).jobs(wanted), strict=True))
            chosen = None if queue.picker is None else tuple(rules)
            self_check.keep(run.message, passed.make_outcome(), run.now, read, chosen)

    def _keep(
        self,
        self_check: SelfCheck,
        queue: NativeQueue,
        run: NativeRun,
        now: datetime,
        with_state: Sequence[tuple[NativeRule, list[list[str]]]],
    ) -> None:
        """Keep a result if it is due for a check, with the state that its rules may read."""
        message = run.message
        rules = [
            rule.name
            for rule in run.candidates
            if rule.name not in run.left and (rule.slicing is None or self._is_in(message, rule.slicing))
        ]
        if rules and message.only_rule is None and self_check.is_due(rules):
            wanted = [
                Wanted(0, message, rule.plan, keys, run.state) for rule, keys in with_state if rule.name not in run.left
            ]
            jobs = StateBuilder(self._plan, run.state).jobs(wanted)
            is_whole = queue.is_native and not run.left
            read = list(zip(wanted, jobs, strict=True))
            self_check.keep(message, run.outcome, now, read, None if is_whole else tuple(rules))

    def _run_without_state(self, run: NativeRun, root: _Element) -> list[tuple[NativeRule, list[list[str]]]]:
        """Run the rules that need nothing but the message. Return the others with the keys of their state."""
        found: list[tuple[NativeRule, list[list[str]]]] = []
        for rule in run.candidates:
            if rule.slicing is not None and not self._is_in(run.message, rule.slicing):
                self._work.add_asked(rule.name, -1)  # it is counted with all candidates
                continue
            try:
                if rule.body is None:
                    if rule.first is None or rule.first(root, run):
                        run.left.append(rule.name)
                elif rule.first is None:
                    rule.body(root, run)
                elif rule.first(root, run):
                    found.append((rule, [keys(root, run) for keys in rule.keys]))
            except NeedsSaxon:
                run.leave(rule)
            except StoreError:
                raise
            except Exception as error:
                self._note_fault(rule, run, error)
        return found

    def _note_fault(self, rule: NativeRule, run: NativeRun, error: Exception) -> None:
        """Count an exception of a native rule. Saxon evaluates it instead."""
        self._report_fault(rule, run, error)
        run.leave(rule)

    def _report_fault(self, rule: NativeRule, run: NativeRun, error: Exception) -> None:
        declared = rule.plan.rule
        self.health.note_fault(run.message.queue, declared.name, Location.of(declared.decl.at), error)

    def _is_in(self, message: Message, slicing: str) -> bool:
        if message.slices is not None:
            return slicing in message.slices
        program = self._plan.program
        prop = program.properties[program.slicings[slicing].property]
        return message.queue in prop.values and prop.name in message.properties

    def _run_with_state(
        self,
        queue: NativeQueue,
        run: NativeRun,
        root: _Element,
        rules: Sequence[tuple[NativeRule, list[list[str]]]],
    ) -> None:
        """Run the native rules that read state."""
        for rule, keys in rules:
            assert rule.body is not None, "rules that are left to Saxon are given no state"
            run.begin(rule, keys)
            try:
                rule.body(root, run)
            except NeedsSaxon:
                run.leave(rule)
            except StoreError:
                raise
            except Exception as error:
                self._note_fault(rule, run, error)
        run.outcome.reads = run.reads()
        if len(queue.rules) > 1:
            self._in_rule_order(queue, run.outcome)

    def _in_rule_order(self, queue: NativeQueue, outcome: Outcome) -> None:
        """Sort by rule: those that needed state were run later."""
        if len(outcome.fired) > 1:
            outcome.fired.sort(key=lambda rule: queue.order[rule])
        if len(outcome.actions) > 1:
            outcome.actions.sort(key=lambda action: queue.order[action.rule])
