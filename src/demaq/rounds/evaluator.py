"""Evaluate rules on messages: a batch goes into Saxon as one document and comes back as one string.

Two steps. First every message is shown to the rules that come into question; a rule that needs nothing but the message
is done with it then, one that needs state says whether it wants to go on and with which keys. Then state is read, and
those are asked again with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from demaq.compiler.emit.vocabulary import RUNTIME, SEPARATOR, SITE
from demaq.compiler.plan import RulePlan
from demaq.documents import Document, write_texts
from demaq.errors import MessageError
from demaq.language.namespaces import DEMAQ
from demaq.language.source import Place
from demaq.language.system_properties import UNSUITABLE_TARGETS
from demaq.messages import Message, PropertyValue
from demaq.rounds.cascade import Cascades
from demaq.rounds.compiled import CompiledProgram, CompiledQueue
from demaq.rounds.outcomes import (
    NOTHING_READ,
    Arrival,
    AskedRule,
    Enqueued,
    Location,
    Outcome,
    Received,
    RuleError,
    SliceReset,
    StateReader,
)
from demaq.rounds.records import RecordWriter
from demaq.rounds.saxon import EvaluationError
from demaq.rounds.schemas import Schemas
from demaq.rounds.simple.rules import SimpleRules
from demaq.rounds.state import Job, StateBuilder, Wanted
from demaq.rounds.state_argument import with_state, without_state

BATCH_MESSAGES_MAX = 200
ROUND_MESSAGES_MAX = 500
"""How many messages are evaluated in one round where there is one evaluator."""
FAILURE_FIELDS = 7
"""What is told about a failure behind its letter."""
_NEED = f"Q{{{RUNTIME}}}"
_OURS = f"Q{{{DEMAQ}}}"


class Evaluator(Protocol):
    """Given messages and a reader of state, what the rules of the plan would do."""

    @property
    def messages_max(self) -> int:
        """How many messages a round may have."""

    @property
    def rounds_max(self) -> int:
        """How many rounds may be evaluated at once, by callers in as many threads."""

    def evaluate(self, messages: Sequence[Message], reader: StateReader, now: datetime) -> list[Outcome]: ...

    def cascade(
        self, messages: Sequence[Message], reader: StateReader, now: datetime, deep: bool, fold: bool = False
    ) -> Sequence[Outcome | None]:
        """The outcome of each message in turn, None for one that could not be told; behind them, with `deep`, those of
        what they make. With `fold` conversations that nobody else has a part in are told as one outcome."""

    def receive(
        self,
        queue: str,
        document: Document,
        explicit: Mapping[str, PropertyValue],
        now: datetime,
        inherited: Mapping[str, PropertyValue] | None = None,
    ) -> Received: ...

    def receive_many(self, arrivals: Sequence[Arrival]) -> list[Received | MessageError]: ...

    def restate_many(self, arrivals: Sequence[Arrival]) -> list[Received | MessageError]: ...


class _Batch(NamedTuple):
    """Messages for Saxon: a record of each, and their documents where these are not in the records."""

    records: Any
    nodes: Any


class _Answer(NamedTuple):
    """What Saxon says: fields, and documents that were made."""

    fields: Iterator[str]
    documents: Iterator[Document]


class SaxonEvaluator:
    messages_max = ROUND_MESSAGES_MAX
    rounds_max = 1

    def __init__(self, compiled: CompiledProgram, *, simple: bool = True) -> None:
        """Without `simple` everything is left to Saxon."""
        self.compiled = compiled
        self.program = compiled.plan.program
        self.schemas = Schemas(self.program)
        self.records = RecordWriter(compiled)
        plan = compiled.plan
        self._with_intake = {q for q in self.program.queues if self.program.properties_of(q) or plan.indexes_of(q)}
        """Queues whose messages have properties or index entries to be computed."""
        self._simple = SimpleRules(plan, compiled.modules, self.schemas) if simple else None
        self._cascades = Cascades(self)
        empty = compiled.saxon.map({})
        self._nothing = compiled.saxon.map(
            {"d": compiled.runtime, "intakes": compiled.intakes, "queues": empty, "collections": empty}
        )

    # messages to outcomes

    def cascade(
        self, messages: Sequence[Message], reader: StateReader, now: datetime, deep: bool, fold: bool = False
    ) -> Sequence[Outcome | None]:
        return self._cascades.run(messages, reader, now, deep, fold)

    def evaluate(self, messages: Sequence[Message], reader: StateReader, now: datetime) -> list[Outcome]:
        """The outcome of each message, as if it were the only one: all see the reader's state."""
        outcomes = self.outcomes(messages, reader, now)
        write_texts([action.document for o in outcomes for action in o.actions if isinstance(action, Enqueued)])
        return outcomes

    def outcomes(self, messages: Sequence[Message], reader: StateReader, now: datetime) -> list[Outcome]:
        """The same, with new documents as nodes."""
        outcomes = [Outcome() for _ in messages]
        by_queue: dict[tuple[str, bool], list[int]] = {}
        for number, message in enumerate(messages):
            is_node = message.document.node(self.compiled.saxon) is not None
            by_queue.setdefault((message.queue, is_node), []).append(number)
        for (name, is_node), numbers in by_queue.items():
            if not self.compiled.plan.queues[name].rules:
                continue
            if not is_node:
                numbers = self._without_simple(name, numbers, messages, outcomes, reader)
            if not numbers:
                continue
            queue = self.compiled.queue(name)
            for start in range(0, len(numbers), BATCH_MESSAGES_MAX):
                part = numbers[start : start + BATCH_MESSAGES_MAX]
                self._run(queue, [messages[n] for n in part], [outcomes[n] for n in part], reader, now)
        for message, outcome in zip(messages, outcomes, strict=True):
            if message.only_rule is not None:
                outcome.keep_only(message.only_rule)
        return outcomes

    def _without_simple(
        self,
        queue: str,
        numbers: list[int],
        messages: Sequence[Message],
        outcomes: Sequence[Outcome],
        reader: StateReader,
    ) -> list[int]:
        """Have messages done that simple rules can do, all of one queue. The others are left."""
        rules = None if self._simple is None else self._simple.queue(queue)
        if self._simple is None or rules is None:
            return numbers
        odd = self._simple.run(rules, [messages[n] for n in numbers], [outcomes[n] for n in numbers], reader)
        return [numbers[n] for n in odd]

    def is_simple(self, queue: str) -> bool:
        """Whether the rules of a queue are simple, so that Saxon is hardly ever asked."""
        return self._simple is not None and self._simple.queue(queue) is not None

    def make_nodes(self, messages: Sequence[Message]) -> None:
        """Make the documents of stored messages, all at once and in their order: they will be met in slices.

        A document that is made later than others would come behind them, and they would have to be made again.
        """
        saxon = self.compiled.saxon
        texts = [m.document for m in sorted(messages, key=lambda m: m.sequence) if m.document.node(saxon) is None]
        try:
            nodes = saxon.documents([document.text for document in texts])
        except (ValueError, EvaluationError):
            return  # whoever evaluates them will find out which one it is
        for position, (document, node) in enumerate(zip(texts, nodes, strict=True)):
            document.keep_node(saxon, node, saxon.parsed - len(nodes) + position + 1)

    def rules(self, message: Message) -> list[AskedRule]:
        """The rules that a message is given to, in their order."""
        plans = self.compiled.plan.queues[message.queue].rules
        if message.only_rule is not None:
            plans = tuple([plan for plan in plans if plan.rule.name == message.only_rule])
        return [AskedRule(name=p.rule.name, number=p.rule.number, at=Location.of(p.rule.decl.at)) for p in plans]

    def evaluate_rule(self, message: Message, number: int, reader: StateReader, now: datetime) -> Outcome:
        """What one of its rules does with a message."""
        outcome = Outcome()
        try:
            batch = self._batch([message], now)
        except ValueError as error:
            outcome.errors.append(self._lost(number, str(error)))
            return outcome
        self._run_rule(self.compiled.queue(message.queue), number, batch, message, outcome, reader)
        return outcome

    def _run(
        self,
        queue: CompiledQueue,
        messages: list[Message],
        outcomes: list[Outcome],
        reader: StateReader,
        now: datetime,
    ) -> None:
        try:
            batch = self._batch(messages, now)
            answer = self._call(queue.run, *batch, queue.first_rules, self._nothing)
        except (ValueError, EvaluationError) as error:
            if len(messages) > 1:  # find the one that it is about
                middle = len(messages) // 2
                self._run(queue, messages[:middle], outcomes[:middle], reader, now)
                self._run(queue, messages[middle:], outcomes[middle:], reader, now)
            elif isinstance(error, ValueError):
                self._fail_all(queue, outcomes[0], str(error))
            else:
                self._run_rule_by_rule(queue, messages[0], outcomes[0], reader, now)
            return
        wanted = self._read(answer, outcomes)
        if wanted:
            self._run_with_state(queue, batch, messages, outcomes, wanted, reader)

    def _batch(self, messages: Sequence[Message], now: datetime) -> _Batch:
        """Messages for Saxon. Raises ValueError where it cannot parse one."""
        saxon = self.compiled.saxon
        kept = [message.document.node(saxon) for message in messages]
        nodes = [node for node in kept if node is not None]
        is_inside = len(nodes) < len(messages)
        records = saxon.parse(self.records.batch(messages, now, is_inside))
        return _Batch(records, saxon.array([] if is_inside else [node for node, _ in nodes]))

    def _call(self, function: Any, *args: Any) -> _Answer:
        """What a function of ours says. Raises an EvaluationError."""
        saxon = self.compiled.saxon
        first = saxon.parsed + 1
        text, nodes = saxon.call_for_documents(function, *args)
        if not self.compiled.hands_nodes_on:
            return _Answer(iter(text.split(SEPARATOR)), iter([Document(made) for made in saxon.texts(nodes)]))
        documents = [Document.made(saxon, node, first + position) for position, node in enumerate(nodes)]
        return _Answer(iter(text.split(SEPARATOR)), iter(documents))

    def _run_rule_by_rule(
        self, queue: CompiledQueue, message: Message, outcome: Outcome, reader: StateReader, now: datetime
    ) -> None:
        """One message on which a rule does not return: ask each rule by itself."""
        batch = self._batch([message], now)
        for number in queue.numbers:
            self._run_rule(queue, number, batch, message, outcome, reader)

    def _run_rule(
        self, queue: CompiledQueue, number: int, batch: _Batch, message: Message, outcome: Outcome, reader: StateReader
    ) -> None:
        arguments = without_state(self.compiled.saxon, 1, queue.positions[number])
        try:
            answer = self._call(self.compiled.jobs, *batch, queue.first_rules, self._nothing, *arguments)
        except EvaluationError as error:
            outcome.errors.append(self._lost(number, str(error)))
            return
        wanted = self._read(answer, [outcome])
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
            answer = self._call(self.compiled.jobs, *batch, queue.full_rules, self._nothing, *arguments)
        except (ValueError, EvaluationError) as error:
            if len(jobs) > 1:
                for job, number in zip(jobs, numbers, strict=True):
                    results.update(self._run_jobs(queue, batch, [job], [number]))
            else:
                results[numbers[0]].errors.append(self._lost(jobs[0].rule.rule.number, str(error)))
            return results
        self._read(answer, [results[number] for number in numbers])
        return results

    def _add(self, outcome: Outcome, result: Outcome, job: Job) -> None:
        outcome.fired.extend(result.fired)
        outcome.actions.extend(result.actions)
        outcome.errors.extend(result.errors)
        outcome.reads = job.reads() if outcome.reads is NOTHING_READ else outcome.reads | job.reads()

    def _in_rule_order(self, queue: CompiledQueue, outcomes: list[Outcome]) -> None:
        """Rules that needed state were asked later; put their actions where they belong."""
        order = {self.compiled.rules[number].rule.name: position for number, position in queue.positions.items()}
        for outcome in outcomes:
            outcome.fired.sort(key=lambda rule: order[rule])
            outcome.actions.sort(key=lambda action: order[action.rule])
            outcome.errors.sort(key=lambda error: order[error.rule])

    # results

    def _read(self, answer: _Answer, outcomes: list[Outcome]) -> list[tuple[int, int, list[list[str]]]]:
        """Turn the fields of a result into outcomes. What wants state is returned: message, rule and keys."""
        wanted: list[tuple[int, int, list[list[str]]]] = []
        reader = answer.fields
        number = -1
        for tag in reader:
            match tag:
                case "M":
                    number += 1
                case "F":
                    outcomes[number].fired.append(self._rule(next(reader)).rule.name)
                case "E":
                    self._read_enqueued(reader, next(answer.documents), outcomes[number])
                case "R":
                    rule, slicing, key = self._rule(next(reader)).rule.name, next(reader), next(reader)
                    outcomes[number].actions.append(SliceReset(rule=rule, slicing=slicing, key=key))
                case "X":
                    rule_number = next(reader)
                    self._fail(outcomes[number], self._read_error(reader, self._rule(rule_number)))
                case "N":
                    plan = self._rule(next(reader))
                    lookups = sum([len(read.lookups) for read in plan.keyed])
                    keys = [[next(reader) for _ in range(int(next(reader)))] for _ in range(lookups)]
                    wanted.append((number, plan.rule.number, keys))
                case "":
                    break
                case _:
                    raise AssertionError(f"unknown record {tag!r}")
        return wanted

    def _rule(self, number: str) -> RulePlan:
        return self.compiled.rules[int(number)]

    def _read_enqueued(self, reader: Iterator[str], document: Document, outcome: Outcome) -> None:
        rule, site, queue = self._rule(next(reader)).rule, next(reader), next(reader)
        properties = self._read_properties(reader)
        entries = self._read_entries(reader)
        refusal = self._refusal(queue, document, properties)
        if refusal is not None:
            kind, reason = refusal
            at = self.compiled.emitter.sites.places[int(site)]
            description = f"queue {queue} refuses the message: {reason}"
            error = RuleError(
                rule=rule.name, kind=kind, code=f"demaq:{kind}", description=description, at=Location.of(at)
            )
            self._fail(outcome, error)
        elif not any([error.rule == rule.name for error in outcome.errors]):
            outcome.actions.append(
                Enqueued(rule=rule.name, queue=queue, document=document, properties=properties, entries=entries)
            )

    def _refusal(
        self, queue: str, document: Document, properties: Mapping[str, PropertyValue]
    ) -> tuple[str, str] | None:
        """Why a queue does not take a message: the kind of error and the reason."""
        violation = self.schemas.violation(queue, document)
        if violation is not None:
            return "schemaViolation", violation
        if self.program.queues[queue].kind == "echo":
            problem = self._timer_problem(properties)
            if problem is not None:
                return "propertyError", problem
        return None

    def _timer_problem(self, properties: Mapping[str, PropertyValue]) -> str | None:
        if "timeout" not in properties:
            return "an echo queue needs to know when: with timeout value …"
        if "target" not in properties:
            return "an echo queue needs to know where to: with target value …"
        target = self.program.queues.get(properties["target"].text)
        if target is None:
            return f"its target {properties['target'].text} is no queue"
        why = UNSUITABLE_TARGETS.get(target.kind)
        return f"its target {target.name} is {why}" if why is not None else None

    def _read_properties(self, reader: Iterator[str]) -> dict[str, PropertyValue]:
        found: dict[str, PropertyValue] = {}
        for _ in range(int(next(reader))):
            name, type_, text, key = next(reader), next(reader), next(reader), next(reader)
            declared = self.program.properties.get(name)
            found[name] = PropertyValue(declared.type if declared else type_ or "string", text, key)
        return dict(sorted(found.items())) if len(found) > 1 else found

    def _read_entries(self, reader: Iterator[str]) -> tuple[tuple[int, str], ...]:
        return tuple([(int(next(reader)), next(reader)) for _ in range(int(next(reader)))])

    def _read_error(self, reader: Iterator[str], plan: RulePlan) -> RuleError:
        code, description, value = next(reader), next(reader), next(reader)
        module, line, column = next(reader), next(reader), next(reader)
        kind, shown = "dynamicError", code
        at: Place | None = self.compiled.place(plan.rule.number, module, line, column)
        if value.startswith(SITE) and value.removeprefix(SITE).isdigit():
            at = self.compiled.emitter.sites.places[int(value.removeprefix(SITE))]
        if code.startswith(_NEED):
            kind = "need"
            description, _, encoded = code.removeprefix(_NEED).partition(".")
            shown = "".join([chr(int(number)) for number in encoded.split("-")])
        elif code.startswith(_OURS):
            kind = code.removeprefix(_OURS)
            shown = f"demaq:{kind}"
            if kind in ("enqueueError", "propertyError") and value.isdigit():
                at = self.compiled.emitter.sites.places[int(value)]
            else:
                kind = kind if kind in ("enqueueError", "propertyError") else "dynamicError"
        return RuleError(
            rule=plan.rule.name, kind=kind, code=shown, description=description, at=Location.of(at or plan.rule.decl.at)
        )

    def _fail(self, outcome: Outcome, error: RuleError) -> None:
        """A failing rule contributes its error and none of its actions."""
        outcome.actions = [action for action in outcome.actions if action.rule != error.rule]
        outcome.fired = [rule for rule in outcome.fired if rule != error.rule]
        if not any([known.rule == error.rule for known in outcome.errors]):
            outcome.errors.append(error)

    def _fail_all(self, queue: CompiledQueue, outcome: Outcome, reason: str) -> None:
        for number in queue.numbers:
            outcome.errors.append(self._lost(number, reason))

    def _lost(self, number: int, reason: str) -> RuleError:
        rule = self.compiled.rules[number].rule
        code, at = self.compiled.variable_failure(number, reason) or ("demaq:notEvaluated", rule.decl.at)
        return RuleError(
            rule=rule.name,
            kind="dynamicError",
            code=code.replace(_OURS, "demaq:"),
            description=reason,
            at=Location.of(at),
        )

    # from outside

    def receive(
        self,
        queue: str,
        document: Document,
        explicit: Mapping[str, PropertyValue],
        now: datetime,
        inherited: Mapping[str, PropertyValue] | None = None,
    ) -> Received:
        """Check a message that no rule made and compute its properties. Raises a MessageError where it must be refused.

        `inherited` are the properties of the message that caused it, if one did.
        """
        arrival = Arrival(queue=queue, document=document, explicit=explicit, now=now, inherited=inherited or {})
        [answer] = self.receive_many([arrival])
        if isinstance(answer, MessageError):
            raise answer
        return answer

    def receive_many(self, arrivals: Sequence[Arrival]) -> list[Received | MessageError]:
        """The same for many messages at once; for one that must be refused the answer is the error."""
        answers: list[Received | MessageError | None] = [None] * len(arrivals)
        if self._simple is not None:
            answers = [self._simple.received(arrival) for arrival in arrivals]
        others = iter(
            self._in_batches([a for a, told in zip(arrivals, answers, strict=True) if told is None], self._received)
        )
        found = [next(others) if told is None else told for told in answers]
        return [self._accepted(answer) if isinstance(answer, Received) else answer for answer in found]

    def restate_many(self, arrivals: Sequence[Arrival]) -> list[Received | MessageError]:
        """What stored messages are under this program. A property that fails is left out and named in the answer.

        An error is the answer only for a message on which an expression does not return.
        """
        return self._in_batches(arrivals, self._restated)

    def _in_batches(
        self, arrivals: Sequence[Arrival], compute: Callable[[list[Arrival]], list[Received | MessageError]]
    ) -> list[Received | MessageError]:
        """Those with nothing to be computed are done at once, the others together, in halves where that fails."""
        answers: dict[int, Received | MessageError] = {}
        to_compute: list[int] = []
        for number, arrival in enumerate(arrivals):
            if arrival.explicit or arrival.queue in self._with_intake:
                to_compute.append(number)
            else:
                answers[number] = Received(queue=arrival.queue, document=arrival.document, properties={}, entries=())
        size = BATCH_MESSAGES_MAX
        waiting = [to_compute[start : start + size] for start in range(0, len(to_compute), size)]
        while waiting:
            part = waiting.pop()
            try:
                answers.update(zip(part, compute([arrivals[number] for number in part]), strict=True))
            except (ValueError, EvaluationError) as error:
                if len(part) > 1:  # find the one that it is about
                    waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
                else:
                    kind = "notWellFormed" if isinstance(error, ValueError) else "propertyError"
                    answers[part[0]] = MessageError(kind, str(error))
        return [answers[number] for number in range(len(arrivals))]

    def _received(self, arrivals: list[Arrival]) -> list[Received | MessageError]:
        answers: list[Received | MessageError] = []
        reader = self._computed(self.compiled.intake, [self.records.arriving(arrival) for arrival in arrivals])
        for arrival in arrivals:
            mark, kind = next(reader), next(reader)
            assert mark == "M", "every answer begins with a mark"
            if kind == "X":
                _, code, description, *_ = [next(reader) for _ in range(FAILURE_FIELDS)]
                answers.append(MessageError("propertyError", description, code.replace(_OURS, "demaq:")))
            else:
                answers.append(self._read_received(reader, arrival))
        return answers

    def _restated(self, arrivals: list[Arrival]) -> list[Received | MessageError]:
        answers: list[Received | MessageError] = []
        reader = self._computed(self.compiled.restate, [self.records.kept(arrival) for arrival in arrivals])
        for arrival in arrivals:
            mark, _ = next(reader), next(reader)
            assert mark == "M", "every answer begins with a mark"
            received = self._read_received(reader, arrival)
            failures = tuple([(next(reader), next(reader)) for _ in range(int(next(reader)))])
            answers.append(replace(received, failures=failures))
        return answers

    def _computed(self, function: Any, records: list[str]) -> Iterator[str]:
        saxon = self.compiled.saxon
        text = saxon.call(function, saxon.parse(f"<b>{''.join(records)}</b>"), self.compiled.intakes)
        return iter(text.split(SEPARATOR))

    def _read_received(self, reader: Iterator[str], arrival: Arrival) -> Received:
        properties, entries = self._read_properties(reader), self._read_entries(reader)
        return Received(queue=arrival.queue, document=arrival.document, properties=properties, entries=entries)

    def _accepted(self, received: Received) -> Received | MessageError:
        refusal = self._refusal(received.queue, received.document, received.properties)
        return received if refusal is None else MessageError(*refusal)
