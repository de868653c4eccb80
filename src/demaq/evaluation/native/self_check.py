"""Self-check: compare some results of native rules with Saxon's, when there is time for it.

A result that is due for a check is kept with the message and with all state that its rules have read, so that Saxon
evaluates on the same state later. Number and size of those that wait are limited; if there is no room, a result is
skipped and counted.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from lxml import etree

from demaq.compiler.plan import Index, QueueByKey, SliceRead
from demaq.documents import Document
from demaq.evaluation.native.native_settings import FIRST_CHECKS, NativeSettings
from demaq.evaluation.outcomes import Enqueued, ExpectedReads, Outcome, StateReader
from demaq.evaluation.state.state_builder import Job, Wanted
from demaq.messages import Message
from demaq.records import record
from demaq.xml_parsers import parse_made

WAITING_MAX = 200
"""How many results may wait to be checked."""
WAITING_CHARACTERS_MAX = 4_000_000
"""How much text they may hold in total."""
STATE_MESSAGES_MAX = 200
"""A result for which more messages of state were read is not checked."""
BATCH_MAX = 25
"""How many results are checked at a time, unless they have read state."""

Evaluate: TypeAlias = Callable[[Sequence["KeptAnswer"], StateReader, datetime], list[Outcome]]
"""Evaluates the messages of results by Saxon alone, each with the rules that it is of."""


class OtherState(Exception):
    """Saxon reads state that the native rules have not read."""


@record
class KeptAnswer:
    """A result of native rules, and all that it depends on."""

    message: Message
    now: datetime
    outcome: Outcome
    state: KeptState | None
    characters: int
    rules: tuple[str, ...] | None
    """The rules that it is the result of; None for all rules of the message's queue."""


@record
class AnswerDifference:
    answer: KeptAnswer
    saxon: str
    """Saxon's result, or why there is none."""
    rule: str | None
    """The first rule that differs, if that is known."""


class KeptState:
    """The state that was read for one message: a StateReader for those who read the same again."""

    def __init__(self) -> None:
        self.slices: dict[tuple[str, str], list[Message]] = {}
        self.queues: dict[str, Sequence[Message]] = {}
        self.collections: dict[str, Sequence[Document]] = {}
        self.found: dict[tuple[int, frozenset[str]], list[Message]] = {}
        """By index and entries."""

    def add(self, wanted: Wanted, job: Job) -> None:
        self.queues |= job.queues
        self.collections |= job.collections
        for asked in job.slices_read:
            self.slices[asked] = job.slice
        remaining = iter(wanted.keys)
        found = iter(job.found)
        for read in wanted.rule.reads:
            if isinstance(read, QueueByKey):
                messages = next(found)
                for lookup in read.lookups:
                    self.found[lookup.index.number, frozenset(next(remaining))] = messages
            else:
                assert not isinstance(read, SliceRead) or job.slices_read, "what a rule reads is in its job"

    def documents(self) -> list[Document]:
        messages = [*self.slices.values(), *self.queues.values(), *self.found.values()]
        of_messages = [message.document for part in messages for message in part]
        return of_messages + [document for part in self.collections.values() for document in part]

    # StateReader

    def queue(self, name: str) -> Sequence[Message]:
        return self._known(self.queues, name)

    def slice(self, slicing: str, key: str) -> Sequence[Message]:
        return self._known(self.slices, (slicing, key))

    def lookup(self, index: Index, entries: Sequence[str]) -> Sequence[Message]:
        return self._known(self.found, (index.number, frozenset(entries)))

    def collection(self, name: str) -> Sequence[Document]:
        return self._known(self.collections, name)

    def find(self, index: Index, entries: Sequence[str]) -> Collection[int]:
        return [message.seq for message in self.lookup(index, entries)]

    def expect(self, reads: ExpectedReads) -> None:
        pass

    def _known(self, known: Mapping[Any, Sequence[Any]], key: Any) -> Sequence[Any]:
        if key not in known:
            raise OtherState(f"Saxon has asked for {key}, and the native rules have not")
        return known[key]


class SelfCheck:
    """The results of one process that wait to be checked."""

    def __init__(self, settings: NativeSettings) -> None:
        self._every = settings.check_every
        self._seen: Counter[str] = Counter()
        """Messages by rule."""
        self._waiting: deque[KeptAnswer] = deque()
        self._characters = 0
        self.checked = 0
        self.skipped = 0
        """Results that were due for a check, and for which there was no room."""
        self.is_asked_for = False
        """Whether each message is due: the node has chosen them among those that it evaluates itself."""

    def __len__(self) -> int:
        return len(self._waiting)

    def is_due(self, rules: Sequence[str]) -> bool:
        """Return whether the next message of these rules is due for a check, and count it."""
        if not self._every:
            return False
        due = self.is_asked_for
        for rule in rules:
            self._seen[rule] = count = self._seen[rule] + 1
            due = due or count <= FIRST_CHECKS or count % self._every == 0
        return due

    def keep(
        self,
        message: Message,
        outcome: Outcome,
        now: datetime,
        read: Sequence[tuple[Wanted, Job]],
        rules: tuple[str, ...] | None = None,
    ) -> None:
        """Keep the result of some or all rules until there is time, if there is room."""
        state = KeptState() if read else None
        for wanted, job in read:
            assert state is not None
            state.add(wanted, job)
        documents = [] if state is None else state.documents()
        if len(self._waiting) >= WAITING_MAX or len(documents) > STATE_MESSAGES_MAX:
            self.skipped += 1
            return
        made = [action.document for action in outcome.actions if isinstance(action, Enqueued)]
        characters = sum([len(document.text) for document in [message.document, *made, *documents]])
        if self._characters + characters > WAITING_CHARACTERS_MAX:
            self.skipped += 1
            return
        kept = Outcome(fired=list(outcome.fired), actions=list(outcome.actions), errors=list(outcome.errors))
        self._characters += characters
        self._waiting.append(
            KeptAnswer(message=message, now=now, outcome=kept, state=state, characters=characters, rules=rules)
        )

    def run(self, evaluate: Evaluate) -> list[AnswerDifference]:
        """Check some of those that wait, the oldest first. Return those that differ from Saxon's."""
        answers = self._next()
        self.checked += len(answers)
        if not answers:
            return []
        reader = answers[0].state or KeptState()
        try:
            outcomes = evaluate(answers, reader, answers[0].now)
        except OtherState as error:
            return [AnswerDifference(answer=answers[0], saxon=str(error), rule=None)]
        return [
            AnswerDifference(answer=answer, saxon=show_outcome(outcome), rule=_differing_rule(answer.outcome, outcome))
            for answer, outcome in zip(answers, outcomes, strict=True)
            if describe_outcome(answer.outcome) != describe_outcome(outcome)
        ]

    def _next(self) -> list[KeptAnswer]:
        """Return one that has read state, or several of one time that have not."""
        found: list[KeptAnswer] = []
        while self._waiting and len(found) < BATCH_MAX:
            answer = self._waiting[0]
            if found and (answer.state is not None or answer.now != found[0].now):
                break
            found.append(self._waiting.popleft())
            self._characters -= answer.characters
            if answer.state is not None:
                break
        return found


def describe_outcome(outcome: Outcome) -> tuple[Any, ...]:
    """Return a value that is equal for equal outcomes, however their documents are written."""
    return (
        outcome.fired,
        [_describe_action(action) for action in outcome.actions],
        [(error.rule, error.code) for error in outcome.errors],
    )


def show_outcome(outcome: Outcome) -> str:
    """Return an outcome as text for people."""
    lines = [f"fired: {', '.join(outcome.fired) or 'no rule'}"]
    for action in outcome.actions:
        if isinstance(action, Enqueued):
            properties = "".join([f" with {name} {value.text!r}" for name, value in action.properties.items()])
            lines.append(f"{action.rule}: enqueue {action.document.text} into {action.queue}{properties}")
        else:
            lines.append(f"{action.rule}: reset {action.slicing} key {action.key!r}")
    lines += [f"{error.rule}: {error.code} {error.description}" for error in outcome.errors]
    return "\n".join(lines)


def _describe_action(action: Any) -> tuple[Any, ...]:
    if isinstance(action, Enqueued):
        properties = [(name, v.type, v.text, v.key) for name, v in action.properties.items()]
        return action.rule, action.queue, _canonical(action.document.text), properties, action.entries
    return action.rule, action.slicing, action.key


def _canonical(text: str) -> object:
    """Return a value that is equal for equal documents."""
    tree = parse_made(text).getroottree()
    try:
        return bytes(etree.tostring(tree, method="c14n"))
    except etree.C14NError:  # a namespace is a relative address, or one with other characters than addresses have
        root = tree.getroot()
        around = [each for preceding in (True, False) for each in root.itersiblings(preceding=preceding)]
        return [_describe_node(node) for node in (*around, *root.iter())]


def _describe_node(node: etree._Element) -> tuple[object, ...]:
    prefixes = sorted([(prefix or "", uri) for prefix, uri in node.nsmap.items() if uri])
    attributes = sorted(node.attrib.items()) if isinstance(node.tag, str) else ()
    return str(node.tag), node.prefix, prefixes, attributes, node.text or "", node.tail or ""


def _differing_rule(one: Outcome, other: Outcome) -> str | None:
    """Return the first rule whose part is not the same in both; None if only the order differs."""
    for rule in dict.fromkeys([part[0] for part in _parts(one) + _parts(other)]):
        if [part for part in _parts(one) if part[0] == rule] != [part for part in _parts(other) if part[0] == rule]:
            return str(rule)
    return None


def _parts(outcome: Outcome) -> list[tuple[Any, ...]]:
    """Return all that rules contribute to an outcome, each part with the name of its rule first."""
    fired = [(rule, "fired") for rule in outcome.fired]
    actions = [_describe_action(action) for action in outcome.actions]
    return [*fired, *actions, *[(error.rule, error.code) for error in outcome.errors]]
