"""Evaluate rules on messages: a batch is passed to Saxon as one document and returned as one string.

There are two steps. First the candidate rules are evaluated on every message. A rule that needs nothing but the message
is completed; one that needs state decides whether it continues, and computes the keys of its state. Then state is read,
and these rules are evaluated with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from demaq.compiler.emit.xquery.vocabulary import SEPARATOR
from demaq.documents import Document, write_texts
from demaq.errors import MessageError
from demaq.evaluation.cascade.cascade import Cascades
from demaq.evaluation.native.health import NativeHealth, NativeReport
from demaq.evaluation.native.native_rules import NativeRules
from demaq.evaluation.native.self_check import SelfCheck, show_outcome
from demaq.evaluation.outcomes import NOTHING_READ, AskedRule, Enqueued, Location, Outcome, StateReader
from demaq.evaluation.queue_schemas import QueueSchemas
from demaq.evaluation.round_request import PropertyRequest, PropertyResult, RoundResult
from demaq.evaluation.saxon.batch_document import RecordWriter
from demaq.evaluation.saxon.compiled import CompiledProgram, CompiledQueue
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
        self.program = compiled.plan.program
        self.schemas = QueueSchemas(self.program)
        self.records = RecordWriter(compiled)
        self._results = SaxonResultReader(compiled, self.schemas)
        self.health = NativeHealth()
        self.self_check = self_check
        self._native: NativeRules | None = None
        if native:
            self._native = NativeRules(compiled.plan, self.schemas, self.health, self_check)
        self._saxon_properties = SaxonProperties(compiled, self.records, self._results, self._native)
        self._cascades = Cascades(self)
        empty = compiled.saxon.map({})
        self._nothing = compiled.saxon.map(
            {"d": compiled.runtime, "intakes": compiled.intakes, "queues": empty, "collections": empty}
        )

    # messages to outcomes

    def cascade(
        self, messages: Sequence[Message], reader: StateReader, now: datetime, deep: bool, fold: bool = False
    ) -> RoundResult:
        """Evaluate a round: see RoundRequest."""
        return self._cascades.run(messages, reader, now, deep, fold)

    def evaluate(self, messages: Sequence[Message], reader: StateReader, now: datetime) -> list[Outcome]:
        """Return the outcome of each message, as if it were the only one: all see the reader's state."""
        outcomes = self.outcomes(messages, reader, now)
        write_texts([action.document for o in outcomes for action in o.actions if isinstance(action, Enqueued)])
        return outcomes

    def outcomes(self, messages: Sequence[Message], reader: StateReader, now: datetime) -> list[Outcome]:
        """Return the same, with new documents as nodes."""
        outcomes = [Outcome() for _ in messages]
        by_queue: dict[tuple[str, bool], list[int]] = {}
        for number, message in enumerate(messages):
            is_node = message.document.node(self.compiled.saxon) is not None
            by_queue.setdefault((message.queue, is_node), []).append(number)
        for (name, is_node), numbers in by_queue.items():
            if not self.compiled.plan.queues[name].rules:
                continue
            self._note(name, [messages[n] for n in numbers])
            if not is_node:
                numbers = self._without_native(name, numbers, messages, outcomes, (reader, now))
            if not numbers:
                continue
            self._note_end()
            self._run_all(name, [messages[n] for n in numbers], [outcomes[n] for n in numbers], reader, now)
        self._note_end()
        for message, outcome in zip(messages, outcomes, strict=True):
            outcome.members = message.slices
            if message.only_rule is not None:
                outcome.keep_only(message.only_rule)
        return outcomes

    def _note(self, queue: str, messages: Sequence[Message]) -> None:
        """Note the messages of the next call."""
        if self._progress is not None:
            self._progress.begin(queue, [message.seq for message in messages])

    def _note_end(self) -> None:
        if self._progress is not None:
            self._progress.end()

    def _without_native(
        self,
        queue: str,
        numbers: list[int],
        messages: Sequence[Message],
        outcomes: Sequence[Outcome],
        at: tuple[StateReader, datetime],
    ) -> list[int]:
        """Evaluate messages of one queue natively. Return those that need Saxon."""
        rules = None if self._native is None else self._native.queue(queue)
        if self._native is None or rules is None:
            return numbers
        fallbacks = self._native.run(rules, [messages[n] for n in numbers], [outcomes[n] for n in numbers], *at)
        return [numbers[n] for n in fallbacks]

    def _run_all(
        self, name: str, messages: list[Message], outcomes: list[Outcome], reader: StateReader, now: datetime
    ) -> None:
        """Evaluate messages of one queue with Saxon."""
        for start in range(0, len(messages), BATCH_MESSAGES_MAX):
            end = start + BATCH_MESSAGES_MAX
            self._run(self.compiled.queue(name), messages[start:end], outcomes[start:end], reader, now)

    def check(self) -> None:
        """Compare some native results with Saxon's. A difference is reported, and its queue is left to Saxon."""
        if self.self_check is None:
            return
        differences = self.self_check.run(self._by_saxon)
        self._note_end()
        for found in differences:
            message = found.answer.message
            names = [rule.name for rule in self.rules(message)]
            name = found.rule or names[0]
            at = next((rule.at for rule in self.rules(message) if rule.name == name), None)
            self.health.note_difference(
                NativeReport(
                    kind="difference",
                    queue=message.queue,
                    rule=name,
                    at=at,
                    description=f"its answer to message {message.id} is not Saxon's, so its queue is left to Saxon",
                    message=message.document.text,
                    native=show_outcome(found.answer.outcome),
                    saxon=found.saxon,
                )
            )

    def _by_saxon(self, messages: Sequence[Message], reader: StateReader, now: datetime) -> list[Outcome]:
        outcomes = [Outcome() for _ in messages]
        by_queue: dict[str, list[int]] = {}
        for number, message in enumerate(messages):
            by_queue.setdefault(message.queue, []).append(number)
        for name, numbers in by_queue.items():
            self._run_all(name, [messages[n] for n in numbers], [outcomes[n] for n in numbers], reader, now)
        return outcomes

    def is_native(self, queue: str) -> bool:
        """Return whether the rules of a queue are native, so that Saxon is hardly ever needed."""
        return self._native is not None and self._native.queue(queue) is not None

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
        self._run_rule(self.compiled.queue(message.queue), number, batch, message, outcome, reader)
        return outcome

    def _run(
        self, queue: CompiledQueue, messages: list[Message], outcomes: list[Outcome], reader: StateReader, now: datetime
    ) -> None:
        self._note(queue.plan.queue, messages)
        try:
            batch = self._batch(messages, now)
            result = self._call(queue.run, *batch, queue.first_rules, self._nothing)
        except (ValueError, EvaluationError) as error:
            if len(messages) > 1:  # find the message that fails
                middle = len(messages) // 2
                self._run(queue, messages[:middle], outcomes[:middle], reader, now)
                self._run(queue, messages[middle:], outcomes[middle:], reader, now)
            elif isinstance(error, ValueError):
                self._results.fail_all(queue, outcomes[0], str(error))
            else:
                self._run_rule_by_rule(queue, messages[0], outcomes[0], reader, now)
            return
        wanted = self._results.read(result, outcomes)
        if wanted:
            self._run_with_state(queue, batch, messages, outcomes, wanted, reader)

    def _batch(self, messages: Sequence[Message], now: datetime) -> _Batch:
        """Return messages for Saxon. Raises ValueError if it cannot parse one."""
        saxon = self.compiled.saxon
        kept = [message.document.node(saxon) for message in messages]
        nodes = [node for node in kept if node is not None]
        is_inside = len(nodes) < len(messages)
        records = saxon.parse(self.records.batch(messages, now, is_inside))
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

    def _run_rule_by_rule(
        self, queue: CompiledQueue, message: Message, outcome: Outcome, reader: StateReader, now: datetime
    ) -> None:
        """Evaluate each rule by itself on a message on which some rule does not return."""
        batch = self._batch([message], now)
        for number in queue.numbers:
            self._run_rule(queue, number, batch, message, outcome, reader)

    def _run_rule(
        self, queue: CompiledQueue, number: int, batch: _Batch, message: Message, outcome: Outcome, reader: StateReader
    ) -> None:
        arguments = without_state(self.compiled.saxon, 1, queue.positions[number])
        try:
            result = self._call(self.compiled.jobs, *batch, queue.first_rules, self._nothing, *arguments)
        except EvaluationError as error:
            outcome.errors.append(self._results.lost(number, str(error)))
            return
        wanted = self._results.read(result, [outcome])
        if wanted:
            self._run_with_state(queue, batch, [message], [outcome], wanted, reader)

    def _run_with_state(
        self,
        queue: CompiledQueue,
        batch: _Batch,
        messages: list[Message],
        outcomes: list[Outcome],
        wanted: list[tuple[int, int, list[list[str]]]],
        reader: StateReader,
    ) -> None:
        builder = StateBuilder(self.compiled.plan, reader)
        jobs = builder.jobs([Wanted(n, messages[n], self.compiled.rules[number], keys) for n, number, keys in wanted])
        results: dict[int, Outcome] = {}
        pending = list(range(len(jobs)))
        while pending:
            results.update(self._run_jobs(queue, batch, [jobs[n] for n in pending], pending))
            pending = [n for n in pending if builder.fetch_needed(jobs[n], results[n])]
        for n, job in enumerate(jobs):
            self._add(outcomes[job.message_number], results[n], job)
        if len(queue.numbers) > 1:
            self._in_rule_order(queue, [outcomes[number] for number in {job.message_number for job in jobs}])

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
