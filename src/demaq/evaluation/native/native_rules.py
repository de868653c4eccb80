"""Run native rules: all rules of a queue, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lxml.etree import _Element

from demaq.compiler.emit.python.code import NotTranslatable
from demaq.compiler.emit.python.queue_code import QueueText, emit_queue
from demaq.compiler.emit.python.rule_code import RuleText
from demaq.compiler.plan import Plan, RulePlan
from demaq.documents import Document
from demaq.errors import StoreError
from demaq.evaluation.native.health import NativeHealth
from demaq.evaluation.native.native_properties import Entries, NativeProperties, Properties, compile_properties
from demaq.evaluation.native.self_check import SelfCheck
from demaq.evaluation.native.values import NeedsSaxon, load_function
from demaq.evaluation.outcomes import NOTHING_READ, Enqueued, Location, Outcome, SliceReset, StateReader
from demaq.evaluation.queue_schemas import QueueSchemas
from demaq.evaluation.round_request import PropertyRequest, PropertyResult
from demaq.evaluation.state.state_builder import Job, StateBuilder, Wanted
from demaq.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    plan: RulePlan
    slicing: str | None
    """The slicing it is on."""
    first: Callable[[_Element, _NativeRun], bool] | None
    keys: tuple[Callable[[_Element, _NativeRun], list[str]], ...]
    body: Callable[[_Element, _NativeRun], None]
    makes_namespaces: bool


class NativeQueue:
    """The rules of a queue."""

    def __init__(self, text: QueueText) -> None:
        """Raises NotTranslatable."""
        self.rules = [_rule(plan, rule) for plan, rule in text.rules]
        self.intakes = {queue: NativeProperties(intake) for queue, intake in text.intakes.items()}
        self.order = {rule.plan.rule.name: position for position, rule in enumerate(self.rules)}


def _rule(plan: RulePlan, text: RuleText) -> _Rule:
    name = plan.rule.name
    return _Rule(
        plan=plan,
        slicing=plan.rule.target if plan.rule.on_slicing else None,
        first=None if text.first is None else load_function(text.first, f"first of {name}"),
        keys=tuple([load_function(keys, f"keys of {name}") for keys in text.keys]),
        body=load_function(text.body, f"rule {name}"),
        makes_namespaces=text.makes_namespaces,
    )


class _NativeRun:
    """The evaluation of the rules of one message: what they read, and their actions."""

    __slots__ = ("_job", "_roots", "_schemas", "_slice", "actions", "fired", "intakes", "is_bare", "message")

    def __init__(
        self, message: Message, outcome: Outcome, intakes: Mapping[str, NativeProperties], schemas: QueueSchemas
    ) -> None:
        self.message = message
        self.intakes = intakes
        self._schemas = schemas
        self._job: Job | None = None
        self._slice: list[_Element] | None = None
        self._roots: dict[tuple[str, str | int | None], list[_Element]] = {}
        self.fired = outcome.fired
        self.actions = outcome.actions
        self.is_bare = not message.document.has_namespaces
        """Whether new documents certainly have no namespaces, because nothing has any."""

    # called by rules

    def fires(self, rule: str) -> None:
        self.fired.append(rule)

    def enqueue(self, rule: str, queue: str, root: _Element, given: Sequence[tuple[str, Sequence[str]]]) -> tuple[()]:
        intake = self.intakes[queue]
        document = Document(None, root.getroottree(), is_bare=self.is_bare)
        properties: Properties = {}
        entries: Entries = ()
        if given or intake.computes:
            properties = intake.properties(root, dict(given), self.message.properties)
            entries = intake.entries(root)
        if self._schemas.violation(queue, document) is not None:
            raise NeedsSaxon("a message that the queue refuses")
        self.actions.append(Enqueued(rule=rule, queue=queue, document=document, properties=properties, entries=entries))
        return ()

    def reset(self, rule: str, slicing: str, key: str) -> tuple[()]:
        self.actions.append(SliceReset(rule=rule, slicing=slicing, key=key))
        return ()

    def own(self, name: str) -> list[str]:
        found = self.message.properties.get(name)
        return [] if found is None else [found.text]

    def key(self, name: str) -> str:
        found = self.message.properties.get(name)
        if found is None:
            raise NeedsSaxon("a slice without a key")
        return found.key

    def slice(self) -> list[_Element]:
        found = self._slice
        if found is None:
            assert self._job is not None, "a rule that reads is asked with what it reads"
            found = self._slice = self._roots_of([message.document for message in self._job.slice])
        return found

    def found(self, number: int) -> list[_Element]:
        return self._once("found", number, lambda job: job.found[number])

    def queue(self, name: str | None) -> list[_Element]:
        return self._once("queue", name, lambda job: job.queues[name or self.message.queue])

    def collection(self, name: str) -> list[_Element]:
        assert self._job is not None, "a rule that reads is asked with what it reads"
        return self._roots_of(self._job.collections[name])

    # called by NativeRules

    def set_state(self, job: Job) -> None:
        """Set the state of the rule that is run next."""
        self._job = job
        self._slice = None
        self._roots = {}

    def _once(self, kind: str, key: str | int | None, messages: Callable[[Job], Sequence[Message]]) -> list[_Element]:
        """Return the roots of messages that a rule reads, cached: rules read the same repeatedly."""
        found = self._roots.get((kind, key))
        if found is None:
            assert self._job is not None, "a rule that reads is asked with what it reads"
            documents = [message.document for message in messages(self._job)]
            found = self._roots[(kind, key)] = self._roots_of(documents)
        return found

    def _roots_of(self, documents: Sequence[Document]) -> list[_Element]:
        self.is_bare = self.is_bare and not any([document.has_namespaces for document in documents])
        return [_root(document) for document in documents]


def _root(document: Document) -> _Element:
    root = document.plain_root
    if root is None:
        raise NeedsSaxon("a document with comments or processing instructions")
    return root


class NativeRules:
    """All native rules of a plan, translated when they are first needed."""

    def __init__(
        self, plan: Plan, schemas: QueueSchemas, health: NativeHealth, self_check: SelfCheck | None = None
    ) -> None:
        """`self_check` gets the results that are due for a check."""
        self.health = health
        self._self_check = self_check
        self._plan = plan
        self._schemas = schemas
        self._queues: dict[str, NativeQueue | None] = {}
        self._intakes: dict[str, NativeProperties | None] = {}

    def compute_properties(self, arrival: PropertyRequest) -> PropertyResult | None:
        """Return properties and index entries of a message from outside; None if it needs Saxon."""
        if arrival.queue not in self._intakes:
            self._intakes[arrival.queue] = compile_properties(arrival.queue, self._plan, self.health)
        intake = self._intakes[arrival.queue]
        found = None if intake is None or arrival.explicit else intake.compute(arrival.document, arrival.inherited)
        if found is None:
            return None
        properties, entries = found
        return PropertyResult(queue=arrival.queue, document=arrival.document, properties=properties, entries=entries)

    def queue(self, name: str) -> NativeQueue | None:
        """Return the rules of a queue; None if not all of them are native."""
        if name in self.health.withdrawn:
            return None
        if name not in self._queues:
            try:
                self._queues[name] = NativeQueue(emit_queue(name, self._plan))
            except NotTranslatable:
                self._queues[name] = None
        return self._queues[name]

    def run(
        self,
        queue: NativeQueue,
        messages: Sequence[Message],
        outcomes: Sequence[Outcome],
        reader: StateReader,
        now: datetime,
    ) -> list[int]:
        """Run the rules on messages of their queue and fill in the outcomes.

        Return the positions of messages that need Saxon.
        """
        runs: dict[int, _NativeRun] = {}
        wanted: list[Wanted] = []
        waiting: list[_Rule] = []
        fallbacks: list[int] = []
        for number, message in enumerate(messages):
            run = _NativeRun(message, outcomes[number], queue.intakes, self._schemas)
            try:
                with_state = self._run_without_state(queue, run)
            except NeedsSaxon:
                fallbacks.append(number)
                continue
            runs[number] = run
            for rule, keys in with_state:
                wanted.append(Wanted(number, message, rule.plan, keys))
                waiting.append(rule)
        jobs: list[Job] = []
        if wanted:
            jobs = StateBuilder(self._plan, reader).jobs(wanted)
            for job, rule in zip(jobs, waiting, strict=True):
                number = job.message_number
                if number in runs and not self._run_with_state(rule, job, runs[number], outcomes[number]):
                    del runs[number]
                    fallbacks.append(number)
        if len(queue.rules) > 1 and wanted:
            for number in runs:
                self._in_rule_order(queue, outcomes[number])
        self.health.answers += len(messages) - len(fallbacks)
        self.health.fallbacks += len(fallbacks)
        if self._self_check is not None:
            for number in runs:
                self._keep(self._self_check, queue, messages[number], outcomes[number], now, (number, wanted, jobs))
        for number in fallbacks:
            outcome = outcomes[number]
            outcome.fired, outcome.actions, outcome.reads = [], [], NOTHING_READ
        for message in messages:
            if not message.slices:  # otherwise it will be read again
                message.document.forget_tree()
        return fallbacks

    def _keep(
        self,
        self_check: SelfCheck,
        queue: NativeQueue,
        message: Message,
        outcome: Outcome,
        now: datetime,
        read: tuple[int, list[Wanted], list[Job]],
    ) -> None:
        """Keep a result if it is due for a check."""
        number, wanted, jobs = read
        rules = [r.plan.rule.name for r in queue.rules if r.slicing is None or self._is_in(message, r.slicing)]
        if message.only_rule is None and self_check.is_due(rules):
            mine = [(each, job) for each, job in zip(wanted, jobs, strict=True) if each.number == number]
            self_check.keep(message, outcome, now, mine)

    def _run_without_state(self, queue: NativeQueue, run: _NativeRun) -> list[tuple[_Rule, list[list[str]]]]:
        """Run the rules that need nothing but the message. Return the others with the keys of their state."""
        message = run.message
        root = _root(message.document)
        found: list[tuple[_Rule, list[list[str]]]] = []
        for rule in queue.rules:
            if rule.slicing is not None and not self._is_in(message, rule.slicing):
                continue
            if rule.makes_namespaces:
                run.is_bare = False
            try:
                if rule.first is None:
                    rule.body(root, run)
                elif rule.first(root, run):
                    found.append((rule, [keys(root, run) for keys in rule.keys]))
            except (NeedsSaxon, StoreError):
                raise
            except Exception as error:
                raise self._fault(rule, run, error) from error
        return found

    def _fault(self, rule: _Rule, run: _NativeRun, error: Exception) -> NeedsSaxon:
        """Count an exception of a native rule. Saxon evaluates the message instead."""
        declared = rule.plan.rule
        self.health.note_fault(run.message.queue, declared.name, Location.of(declared.decl.at), error)
        return NeedsSaxon(f"an exception: {error}")

    def _is_in(self, message: Message, slicing: str) -> bool:
        if message.slices is not None:
            return slicing in message.slices
        program = self._plan.program
        prop = program.properties[program.slicings[slicing].property]
        return message.queue in prop.values and prop.name in message.properties

    def _run_with_state(self, rule: _Rule, job: Job, run: _NativeRun, outcome: Outcome) -> bool:
        """Run a rule with its state. Return whether that succeeded; otherwise the message needs Saxon."""
        run.set_state(job)
        try:
            rule.body(_root(run.message.document), run)
        except NeedsSaxon:
            return False
        except StoreError:
            raise
        except Exception as error:
            self._fault(rule, run, error)
            return False
        reads = job.reads()
        outcome.reads = reads if outcome.reads is NOTHING_READ else outcome.reads | reads
        return True

    def _in_rule_order(self, queue: NativeQueue, outcome: Outcome) -> None:
        """Sort by rule: those that needed state were run later."""
        outcome.fired.sort(key=lambda rule: queue.order[rule])
        outcome.actions.sort(key=lambda action: queue.order[action.rule])
