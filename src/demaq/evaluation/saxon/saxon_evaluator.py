"""Evaluate rules on messages: a batch is passed to Saxon as one document and returned as one string.

There are two steps. First the candidate rules are evaluated on every message. A rule that needs nothing but the message
is completed; one that needs state decides whether it continues, and computes the keys of its state. Then state is read,
and these rules are evaluated with it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from demaq.compiler.emit.xquery.vocabulary import SEPARATOR
from demaq.compiler.plan import RulePlan
from demaq.documents import Document, write_texts
from demaq.errors import MessageError
from demaq.evaluation.cascade.cascade import Cascades
from demaq.evaluation.native.health import NativeHealth, NativeReport
from demaq.evaluation.native.native_rules import LeftRules, NativeRules
from demaq.evaluation.native.self_check import KeptAnswer, SelfCheck, show_outcome
from demaq.evaluation.outcomes import NOTHING_READ, AskedMessage, AskedRule, Enqueued, Location, Outcome, StateReader
from demaq.evaluation.queue_schemas import QueueSchemas
from demaq.evaluation.round_request import PropertyRequest, PropertyResult, RoundResult
from demaq.evaluation.rule_work import RuleWork
from demaq.evaluation.saxon.batch_document import RecordWriter
from demaq.evaluation.saxon.compiled import CompiledProgram, CompiledQueue
from demaq.evaluation.saxon.failures import BASE_URI
from demaq.evaluation.saxon.processor import BATCH_MESSAGES_MAX, EvaluationError
from demaq.evaluation.saxon.saxon_properties import SaxonProperties
from demaq.evaluation.saxon.saxon_results import SaxonResult, SaxonResultReader
from demaq.evaluation.saxon.state_argument import with_state, without_state
from demaq.evaluation.state.state_builder import Job, StateBuilder, Wanted
from demaq.evaluation.workers.progress import Progress
from demaq.messages import Message

ROUND_MESSAGES_MAX = 500
"""How many messages are evaluated in one round if there is one evaluator."""


class _Batch(NamedTuple):
    """Messages for Saxon: a record of each, and their documents if these are not in the records."""

    records: Any
    nodes: Any


class SaxonEvaluator:
    messages_max = ROUND_MESSAGES_MAX
    rounds_max = 1

    def __init__(
        self,
        compiled: CompiledProgram,
        *,
        native: bool = True,
        progress: Progress | None = None,
        self_check: SelfCheck | None = None,
    ) -> None:
        """Without `native` everything is left to Saxon. The messages of the current call are noted in `progress`.

        A self-check gets native results, and is run by `check`.
        """
        self._progress = progress
        self.compiled = compiled
        self.plan = compiled.plan
        self.program = self.plan.program
        self.schemas = QueueSchemas(self.program)
        self._records = RecordWriter(self.plan)
        self._results = SaxonResultReader(compiled, self.schemas)
        self.health = NativeHealth()
        self.work = RuleWork()
        """How often rules were asked, and for how long."""
        self.self_check = self_check
        self.native: NativeRules | None = None
        if native:
            self.native = NativeRules(compiled.plan, self.schemas, self.health, self_check, self.work)
        self._saxon_properties = SaxonProperties(compiled, self._records, self._results, self.native)
        self.cascades = Cascades(self)
        empty = compiled.saxon.map({})
        self._nothing = compiled.saxon.map(
            {"d": compiled.runtime, "intakes": compiled.intakes, "queues": empty, "collections": empty}
        )

    # messages to outcomes

    def cascade(
        self,
        messages: Sequence[Message],
        reader: StateReader,
        now: datetime,
        deep: bool,
        fold: bool = False,
        paused: frozenset[str] = frozenset(),
        whole: frozenset[int] = frozenset(),
    ) -> RoundResult:
        """Evaluate a round: see RoundRequest."""
        return self.cascades.run(messages, reader, now, deep, fold, paused, whole)

    def evaluate(self, messages: Sequence[Message], reader: StateReader, now: datetime) -> list[Outcome]:
        """Return the outcome of each message, as if it were the only one: all see the reader's state."""
        outcomes = self.outcomes(messages, reader, now)
        write_texts([action.document for o in outcomes for action in o.actions if isinstance(action, Enqueued)])
        return outcomes

    def outcomes(
        self,
        messages: Sequence[Message],
        reader: StateReader,
        now: datetime,
        states: Sequence[StateReader] | None = None,
    ) -> list[Outcome]:
        """Return the same, with new documents as nodes.

        `states` has a reader for each message if they do not all see that state; the given one is then their base.
        """
        states = [reader] * len(messages) if states is None else states
        outcomes = [Outcome() for _ in messages]
        by_queue: dict[tuple[str, bool], list[int]] = {}
        for number, message in enumerate(messages):
            by_queue.setdefault((message.queue, message.document.is_only_node), []).append(number)
        for (name, is_node), numbers in by_queue.items():
            if self.compiled.plan.queues[name].rules:
                asked = [AskedMessage(messages[n], outcomes[n], states[n]) for n in numbers]
                left = None if is_node else self._run_native(name, asked, reader, now)
                self._run_left(name, asked, left, reader, now)
        self._note_end()
        for message, outcome in zip(messages, outcomes, strict=True):
            outcome.members = message.slices
            if message.only_rule is not None:
                outcome.keep_only(message.only_rule)
        return outcomes

    def outcome(self, message: Message, reader: StateReader, now: datetime, state: StateReader) -> Outcome:
        """Return that of one message, which sees this state; the reader is its base."""
        return self.outcomes([message], reader, now, [state])[0]

    def evaluate_natively(
        self, message: Message, reader: StateReader, now: datetime
    ) -> tuple[Outcome, list[str] | None]:
        """Return the outcome of native rules alone, and the rules that are left to Saxon; None for all of them."""
        outcome = Outcome()
        left = self._run_native(message.queue, [AskedMessage(message, outcome, reader)], reader, now)
        return outcome, None if left is None else left.get(0, [])

    def _note(self, queue: str, messages: Sequence[Message]) -> None:
        """Note the messages of the next call."""
        if self._progress is not None:
            self._progress.begin(queue, [message.seq for message in messages])

    def _note_end(self) -> None:
        if self._progress is not None:
            self._progress.end()

    def _run_native(
        self, name: str, asked: Sequence[AskedMessage], reader: StateReader, now: datetime
    ) -> LeftRules | None:
        """Run the native rules on messages of one queue. Return what is left to Saxon; None if that is everything."""
        if self.native is None:
            return None
        queue = self.native.queue(name)
        if not queue.decides:
            return None
        self._note(name, [each.message for each in asked])
        left = self.native.run(queue, asked, reader, now)
        self._note_end()
        return left

    def _run_left(
        self,
        name: str,
        asked: Sequence[AskedMessage],
        left: LeftRules | None,
        reader: StateReader,
        now: datetime,
        is_check: bool = False,
    ) -> None:
        """Evaluate with Saxon what native rules have left. A check of native rules is not counted as work of rules."""
        if left is None:
            left = dict.fromkeys(range(len(asked)))
        if not left:
            return
        began = time.perf_counter()
        self._run_saxon(name, asked, left, reader, now)
        if not is_check:
            self._note_work(name, left, time.perf_counter() - began)

    def _note_work(self, name: str, left: LeftRules, seconds: float) -> None:
        """Count rules that Saxon has evaluated. Those that native evaluation has left are counted as asked already."""
        everything = [plan.rule.name for plan in self.compiled.plan.queues[name].rules]
        whole = sum([rules is None for rules in left.values()])
        if whole:
            self.work.add_all(everything, whole)
        asked = [rule for rules in left.values() for rule in (everything if rules is None else rules)]
        self.work.divide_seconds(asked, seconds)

    def _run_saxon(
        self, name: str, asked: Sequence[AskedMessage], left: LeftRules, reader: StateReader, now: datetime
    ) -> None:
        # A batch holds nodes, or the text of every message. Divided before any is evaluated: they may read each other.
        with_node = {n for n in left if asked[n].message.document.node(self.compiled.saxon) is not None}
        for numbers in ([n for n in left if n in with_node], [n for n in left if n not in with_node]):
            self._run_all(name, [asked[n] for n in numbers if left[n] is None], reader, now)
            by_rule = [(asked[n], left[n] or []) for n in numbers if left[n] is not None]
            for start in range(0, len(by_rule), BATCH_MESSAGES_MAX):
                self._run_rules(self.compiled.queue(name), by_rule[start : start + BATCH_MESSAGES_MAX], reader, now)

    def _run_all(self, name: str, asked: Sequence[AskedMessage], reader: StateReader, now: datetime) -> None:
        """Evaluate messages of one queue with Saxon."""
        for start in range(0, len(asked), BATCH_MESSAGES_MAX):
            self._run(self.compiled.queue(name), asked[start : start + BATCH_MESSAGES_MAX], reader, now)

    def check(self) -> None:
        """Compare some native results with Saxon's. A difference is reported, and its rule is left to Saxon."""
        if self.self_check is None:
            return
        differences = self.self_check.run(self._by_saxon)
        self._note_end()
        for found in differences:
            message = found.answer.message
            for rule in self.rules(message):
                if rule.name == found.rule or (found.rule is None and rule.name in (found.answer.rules or [rule.name])):
                    self.health.note_difference(
                        NativeReport(
                            kind="difference",
                            queue=message.queue,
                            rule=rule.name,
                            at=rule.at,
                            description=f"its answer to message {message.id} is not Saxon's, so it is left to Saxon",
                            message=message.document.text,
                            native=show_outcome(found.answer.outcome),
                            saxon=found.saxon,
                        )
                    )

    def _by_saxon(self, answers: Sequence[KeptAnswer], reader: StateReader, now: datetime) -> list[Outcome]:
        outcomes = [Outcome() for _ in answers]
        by_queue: dict[str, list[int]] = {}
        for number, answer in enumerate(answers):
            by_queue.setdefault(answer.message.queue, []).append(number)
        for name, numbers in by_queue.items():
            left: LeftRules = {}
            for place, number in enumerate(numbers):
                rules = answers[number].rules
                left[place] = None if rules is None else list(rules)
            asked = [AskedMessage(answers[n].message, outcomes[n], reader) for n in numbers]
            self._run_left(name, asked, left, reader, now, is_check=True)
        return outcomes

    def is_native(self, queue: str) -> bool:
        """Return whether no rule of a queue is left to Saxon."""
        return self.native is not None and self.native.queue(queue).is_native

    def always_reads(self, queue: str) -> bool:
        """Return whether Saxon evaluates a rule that reads other messages on every message of a queue."""
        rules = self.compiled.plan.queues[queue].rules
        if self.native is not None:
            rules = tuple([r.plan for r in self.native.queue(queue).rules if r.body is None and r.first is None])
        return any([rule.reads_other_messages for rule in rules])

    def make_nodes(self, messages: Sequence[Message]) -> None:
        """Make the documents of stored messages, all at once and in their order: they will be read in slices.

        A document that is made later would come after the others in document order, and these had to be made again.
        """
        saxon = self.compiled.saxon
        texts = [m.document for m in sorted(messages, key=lambda m: m.seq) if m.document.node(saxon) is None]
        self._note("", messages)
        try:
            nodes = saxon.documents([document.text for document in texts])
        except (ValueError, EvaluationError):
            return  # evaluating them finds out which one it is
        finally:
            self._note_end()
        for position, (document, node) in enumerate(zip(texts, nodes, strict=True)):
            document.keep_node(saxon, node, saxon.parsed - len(nodes) + position + 1)

    def rules(self, message: Message) -> list[AskedRule]:
        """Return the rules that a message is given to, in their order."""
        plans = self.compiled.plan.queues[message.queue].rules
        if message.only_rule is not None:
            plans = tuple([plan for plan in plans if plan.rule.name == message.only_rule])
        return [AskedRule(name=p.rule.name, number=p.rule.number, at=Location.of(p.rule.decl.at)) for p in plans]

    def evaluate_rule(self, message: Message, number: int, reader: StateReader, now: datetime) -> Outcome:
        """Return the outcome of one rule for a message."""
        outcome = Outcome(members=message.slices)
        try:
            batch = self._batch([message], now)
        except ValueError as error:
            outcome.errors.append(self._results.lost(number, str(error)))
            return outcome
        began = time.perf_counter()
        self._run_rule(
            self.compiled.queue(message.queue), number, batch, AskedMessage(message, outcome, reader), reader
        )
        rule = self.compiled.rules[number].rule.name
        self.work.add_asked(rule, 1)
        self.work.add_seconds(rule, time.perf_counter() - began)
        return outcome

    def compute_keys(self, message: Message, rule: RulePlan, now: datetime) -> list[list[str]]:
        """Return the keys of the state that a rule looks up for a message. Raises EvaluationError."""
        block = self.compiled.emitter.block_of(
            rule.rule.module, [self.compiled.emitter.keys_function(rule)], "probe.xq"
        )
        function = self.compiled.saxon.functions(block.text, BASE_URI)[0]
        result = self._call_alone(function, message, now, without_state(self.compiled.saxon, [(1, 1)]))
        return [keys for _, _, found in self._results.read(result, [Outcome()]) for keys in found]

    def call_like_rule(self, function: Any, job: Job, now: datetime) -> list[str]:
        """Return the fields that a function returns, called like a rule with the state of a job.

        Raises EvaluationError, and ValueError if Saxon cannot parse a document.
        """
        arguments = with_state(self.compiled.saxon, [job], {job.rule.rule.number: 1})
        return list(self._call_alone(function, job.message, now, arguments).fields)

    def _call_alone(self, function: Any, message: Message, now: datetime, arguments: tuple[Any, ...]) -> SaxonResult:
        functions = self.compiled.saxon.array([function])
        return self._call(self.compiled.jobs, *self._batch([message], now), functions, self._nothing, *arguments)

    def _run(self, queue: CompiledQueue, asked: Sequence[AskedMessage], reader: StateReader, now: datetime) -> None:
        messages = [each.message for each in asked]
        self._note(queue.plan.queue, messages)
        try:
            batch = self._batch(messages, now)
            result = self._call(queue.run, *batch, queue.first_rules, self._nothing)
        except (ValueError, EvaluationError) as error:
            if len(messages) > 1:  # find the message that fails
                middle = len(messages) // 2
                self._run(queue, asked[:middle], reader, now)
                self._run(queue, asked[middle:], reader, now)
            elif isinstance(error, ValueError):
                self._results.fail_all(queue, asked[0].outcome, str(error))
            else:
                self._run_rule_by_rule(queue, asked[0], reader, now)
            return
        wanted = self._results.read(result, [each.outcome for each in asked])
        if wanted:
            self._run_with_state(queue, batch, asked, wanted, reader)

    def _batch(self, messages: Sequence[Message], now: datetime) -> _Batch:
        """Return messages for Saxon. Raises ValueError if it cannot parse one."""
        saxon = self.compiled.saxon
        kept = [message.document.node(saxon) for message in messages]
        nodes = [node for node in kept if node is not None]
        is_inside = len(nodes) < len(messages)
        records = saxon.parse(self._records.batch(messages, now, is_inside))
        return _Batch(records, saxon.array([] if is_inside else [node for node, _ in nodes]))

    def _call(self, function: Any, *args: Any) -> SaxonResult:
        """Return the result of one of our functions. Raises EvaluationError."""
        saxon = self.compiled.saxon
        first = saxon.parsed + 1
        text, nodes = saxon.call_for_documents(function, *args)
        if not self.compiled.hands_nodes_on:
            return SaxonResult(iter(text.split(SEPARATOR)), iter([Document(made) for made in saxon.texts(nodes)]))
        documents = [Document.made(saxon, node, first + position) for position, node in enumerate(nodes)]
        return SaxonResult(iter(text.split(SEPARATOR)), iter(documents))

    def _run_rules(
        self,
        queue: CompiledQueue,
        rules: Sequence[tuple[AskedMessage, list[str]]],
        reader: StateReader,
        now: datetime,
    ) -> None:
        """Evaluate some rules on each message, and add to its outcome."""
        asked = [each for each, _ in rules]
        messages, outcomes = [each.message for each in asked], [each.outcome for each in asked]
        numbers = [self.compiled.plan.rules[rule].rule.number for _, names in rules for rule in names]
        places = [place for place, (_, names) in enumerate(rules) for _ in names]
        self._note(queue.plan.queue, messages)
        try:
            batch = self._batch(messages, now)
            jobs = [(place + 1, queue.positions[number]) for place, number in zip(places, numbers, strict=True)]
            arguments = without_state(self.compiled.saxon, jobs)
            result = self._call(self.compiled.jobs, *batch, queue.first_rules, self._nothing, *arguments)
        except (ValueError, EvaluationError) as error:
            if len(messages) > 1:  # find the message that fails
                middle = len(messages) // 2
                self._run_rules(queue, rules[:middle], reader, now)
                self._run_rules(queue, rules[middle:], reader, now)
            elif isinstance(error, ValueError):
                outcomes[0].errors += [self._results.lost(number, str(error)) for number in numbers]
            else:
                batch = self._batch(messages, now)
                for number in numbers:
                    self._run_rule(queue, number, batch, asked[0], reader)
            self._in_rule_order(queue, outcomes)
            return
        found = self._results.read(result, [outcomes[place] for place in places])
        if found:
            wanted = [(places[job], number, keys) for job, number, keys in found]
            self._run_with_state(queue, batch, asked, wanted, reader)
        self._in_rule_order(queue, outcomes)

    def _run_rule_by_rule(self, queue: CompiledQueue, asked: AskedMessage, reader: StateReader, now: datetime) -> None:
        """Evaluate each rule by itself on a message on which some rule does not return."""
        batch = self._batch([asked.message], now)
        for number in queue.numbers:
            self._run_rule(queue, number, batch, asked, reader)

    def _run_rule(
        self, queue: CompiledQueue, number: int, batch: _Batch, asked: AskedMessage, reader: StateReader
    ) -> None:
        arguments = without_state(self.compiled.saxon, [(1, queue.positions[number])])
        try:
            result = self._call(self.compiled.jobs, *batch, queue.first_rules, self._nothing, *arguments)
        except EvaluationError as error:
            asked.outcome.errors.append(self._results.lost(number, str(error)))
            return
        wanted = self._results.read(result, [asked.outcome])
        if wanted:
            self._run_with_state(queue, batch, [asked], wanted, reader)

    def _run_with_state(
        self,
        queue: CompiledQueue,
        batch: _Batch,
        asked: Sequence[AskedMessage],
        wanted: list[tuple[int, int, list[list[str]]]],
        reader: StateReader,
    ) -> None:
        builder, rules = StateBuilder(self.compiled.plan, reader), self.compiled.rules
        jobs = builder.jobs(
            [Wanted(n, asked[n].message, rules[number], keys, asked[n].state) for n, number, keys in wanted]
        )
        results: dict[int, Outcome] = {}
        pending = list(range(len(jobs)))
        while pending:
            results.update(self._run_jobs(queue, batch, [jobs[n] for n in pending], pending))
            pending = [n for n in pending if builder.fetch_needed(jobs[n], results[n])]
        for n, job in enumerate(jobs):
            self._add(asked[job.message_number].outcome, results[n], job)
        if len(queue.numbers) > 1:
            self._in_rule_order(queue, [asked[number].outcome for number in {job.message_number for job in jobs}])

    def _run_jobs(self, queue: CompiledQueue, batch: _Batch, jobs: list[Job], numbers: list[int]) -> dict[int, Outcome]:
        results = {number: Outcome() for number in numbers}
        try:
            arguments = with_state(self.compiled.saxon, jobs, queue.positions)
            result = self._call(self.compiled.jobs, *batch, queue.full_rules, self._nothing, *arguments)
        except (ValueError, EvaluationError) as error:
            if len(jobs) > 1:
                for job, number in zip(jobs, numbers, strict=True):
                    results.update(self._run_jobs(queue, batch, [job], [number]))
            else:
                results[numbers[0]].errors.append(self._results.lost(jobs[0].rule.rule.number, str(error)))
            return results
        self._results.read(result, [results[number] for number in numbers])
        return results

    def _add(self, outcome: Outcome, result: Outcome, job: Job) -> None:
        outcome.fired.extend(result.fired)
        outcome.actions.extend(result.actions)
        outcome.errors.extend(result.errors)
        outcome.reads = job.reads() if outcome.reads is NOTHING_READ else outcome.reads | job.reads()

    def _in_rule_order(self, queue: CompiledQueue, outcomes: list[Outcome]) -> None:
        """Sort by rule: those that needed state were evaluated later."""
        order = {self.compiled.rules[number].rule.name: position for number, position in queue.positions.items()}
        for outcome in outcomes:
            outcome.fired.sort(key=lambda rule: order[rule])
            outcome.actions.sort(key=lambda action: order[action.rule])
            outcome.errors.sort(key=lambda error: order[error.rule])

    # from outside

    def compute_properties(self, arrivals: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        return self._saxon_properties.compute_properties(arrivals)

    def migrate_properties(self, arrivals: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        return self._saxon_properties.migrate_properties(arrivals)
