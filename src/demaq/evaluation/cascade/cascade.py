"""Cascades: evaluate messages and their descendants without writing to the store in between.

The messages of a round are divided into conversations by the slices that they share. Each conversation runs serially on
its own state; in each turn the next messages of all conversations are evaluated together. Conversations that turn out
to depend on each other are merged and run again. This is a prediction of what will be committed. Validation decides in
the serial order whether each outcome has seen what it must have seen (`versions` has the argument).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from demaq.compiler.plan import Plan
from demaq.documents import write_texts
from demaq.evaluation.cascade.conversations import CascadeSettings, Conversation
from demaq.evaluation.cascade.queue_facts import find_queue_facts, find_read_slicings, find_shared_slicings
from demaq.evaluation.cascade.versions import SliceKey, StateKeys, index_name
from demaq.evaluation.outcomes import Enqueued, Outcome, StateKey, StateReader
from demaq.evaluation.round_request import RoundResult
from demaq.messages import Message

STEPS_PER_MESSAGE_MAX = 50
"""Limit of steps in all conversations, for each message of the round."""
MERGES_MAX = 3
"""So often conversations that depend on each other are merged. Validation finds those that still do."""


class RuleEvaluator(Protocol):
    """Evaluates the rules of a program on messages, in the process of the cascade."""

    plan: Plan

    def outcomes(
        self,
        messages: Sequence[Message],
        reader: StateReader,
        now: datetime,
        states: Sequence[StateReader] | None = None,
    ) -> list[Outcome]: ...

    def outcome(self, message: Message, reader: StateReader, now: datetime, state: StateReader) -> Outcome:
        """Return the same for one message, which sees this state."""

    def make_nodes(self, messages: Sequence[Message]) -> None: ...

    def always_reads(self, queue: str) -> bool: ...


class Cascades:
    """Runs cascades of a program."""

    def __init__(self, evaluator: RuleEvaluator) -> None:
        self._evaluator = evaluator
        plan = evaluator.plan
        self._keys = StateKeys(plan)
        self._queues = find_queue_facts(plan, self._keys)
        self._read_slicings = find_read_slicings(plan)
        self._shared_slicings = find_shared_slicings(plan)
        self._indexes = plan.indexes
        self._index_names = {index.number: index_name(index) for index in plan.indexes}
        self._properties = {name: slicing.property for name, slicing in plan.program.slicings.items()}

    def is_alone(self, message: Message) -> bool:
        """Return whether the outcome of a message depends on no other message, and no other on it."""
        queue = self._queues[message.queue]
        return queue.is_silent and not queue.reads_others and not message.slices

    def may_pass(self, name: str) -> bool:
        """Return whether messages from outside of a queue only lead to others, and no rule reads any of them."""
        queue = self._queues[name]
        return queue.is_silent and not queue.slicings and queue.is_possible_on_arrival and not queue.system_asked

    def is_possible_on_arrival(self, queue: str) -> bool:
        """Return whether messages from outside can be evaluated before they are stored in this queue."""
        return self._queues[queue].is_possible_on_arrival

    def is_possible(self, queue: str) -> bool:
        """Return whether messages of a queue can be evaluated before they are stored."""
        return self._queues[queue].is_possible

    def run(
        self,
        messages: Sequence[Message],
        reader: StateReader,
        now: datetime,
        deep: bool,
        fold: bool,
        paused: frozenset[str] = frozenset(),
        whole: frozenset[int] = frozenset(),
    ) -> RoundResult:
        """Return the outcomes of messages, and with `deep` those of their descendants, but for those in paused queues.

        With `fold` a conversation of one message that is independent of all others becomes one outcome, unless the
        seq of the message is in `whole`.
        """
        result = RoundResult([None] * len(messages))
        alone: list[tuple[int, Message]] = []
        meeting: list[tuple[int, Message]] = []
        silent = [self._queues[message.queue].is_silent and not message.slices for message in messages]
        nothing_changes = all(silent)
        for place, message in enumerate(messages):
            is_alone = silent[place] and (nothing_changes or not self._queues[message.queue].reads_others)
            (alone if is_alone else meeting).append((place, message))
        if alone:
            self._run_alone(alone, reader, now, result)
        if meeting:
            settings = self._settings(reader, now, deep, paused)
            self._run_conversations(meeting, settings, fold and deep, whole, result)
        kept = [outcome for outcome in (*result.outcomes, *result.descendants) if outcome is not None]
        write_texts([a.document for outcome in kept for a in outcome.actions if isinstance(a, Enqueued)])
        return result

    def _settings(self, reader: StateReader, now: datetime, deep: bool, paused: frozenset[str]) -> CascadeSettings:
        return CascadeSettings(
            queues=self._queues,
            keys=self._keys,
            indexes=self._indexes,
            index_names=self._index_names,
            slicing_properties=self._properties,
            reader=reader,
            now=now,
            deep=deep,
            paused=paused,
        )

    def _run_alone(
        self, messages: Sequence[tuple[int, Message]], reader: StateReader, now: datetime, result: RoundResult
    ) -> None:
        """Evaluate messages that no other message of the round makes a difference to, and that make none to others."""
        outcomes = self._evaluator.outcomes([message for _, message in messages], reader, now)
        for (place, message), outcome in zip(messages, outcomes, strict=True):
            outcome.number = place
            outcome.key = message.seq
            result.outcomes[place] = outcome

    def _run_conversations(
        self,
        messages: Sequence[tuple[int, Message]],
        settings: CascadeSettings,
        fold: bool,
        whole: frozenset[int],
        result: RoundResult,
    ) -> None:
        if settings.deep:
            self._make_nodes([message for _, message in messages])
        conversations = [Conversation(settings, group) for group in self._group(messages)]
        self._run_all(conversations, settings)
        for _ in range(MERGES_MAX):
            merged = _merge(conversations, settings)
            if merged is None:
                break
            conversations, again = merged
            self._run_all(again, settings)
        dependent = _find_dependent(conversations)
        numbers = itertools.count(len(result.outcomes))
        for number, conversation in enumerate(conversations):
            may_fold = fold and number not in dependent
            if may_fold and whole:
                may_fold = conversation.messages[0][1].seq not in whole
            folded = conversation.fold() if may_fold else None
            if folded is not None:
                result.outcomes[folded.number] = folded
                continue
            for place, outcome in conversation.outcomes(numbers.__next__):
                if place < 0:
                    result.descendants.append(outcome)
                else:
                    result.outcomes[place] = outcome

    def _make_nodes(self, messages: Sequence[Message]) -> None:
        """Parse messages for Saxon at once that may be read in slices."""
        read = [message for message in messages if not self._read_slicings.isdisjoint(message.slices or ())]
        self._evaluator.make_nodes([message for message in read if self._evaluator.always_reads(message.queue)])

    def _group(self, messages: Sequence[tuple[int, Message]]) -> list[list[tuple[int, Message]]]:
        """Divide messages of a round into those that are in common slices."""
        groups = _Groups(len(messages))
        first: dict[SliceKey, int] = {}
        for number, (_, message) in enumerate(messages):
            for slicing in message.slices or ():
                if slicing in self._shared_slicings:
                    key = message.properties[self._properties[slicing]].key
                    groups.join(number, first.setdefault((slicing, key), number))
        return [[messages[number] for number in group] for group in groups.all()]

    def _run_all(self, conversations: Sequence[Conversation], settings: CascadeSettings) -> None:
        """Run conversations to their ends."""
        steps_left = STEPS_PER_MESSAGE_MAX * sum([len(conversation.messages) for conversation in conversations])
        if len(conversations) == 1:
            self._run_one(conversations[0], settings, steps_left)
            return
        turns = _next_turns(conversations, steps_left)
        while turns:
            steps_left -= len(turns)
            states = [conversation.state for conversation, _ in turns]
            messages = [message for _, message in turns]
            outcomes = self._evaluator.outcomes(messages, settings.reader, settings.now, states)
            for (conversation, _), outcome in zip(turns, outcomes, strict=True):
                conversation.apply(outcome)
            turns = _next_turns([conversation for conversation, _ in turns], steps_left)

    def _run_one(self, conversation: Conversation, settings: CascadeSettings, steps_left: int) -> None:
        """Run one conversation to its end: the usual case where messages arrive one by one."""
        reader, now, state, evaluate = settings.reader, settings.now, conversation.state, self._evaluator.outcome
        for _ in range(steps_left):
            message = conversation.next()
            if message is None:
                return
            conversation.apply(evaluate(message, reader, now, state))


def _next_turns(conversations: Sequence[Conversation], limit: int) -> list[tuple[Conversation, Message]]:
    """Return the next message of each conversation that has one."""
    found: list[tuple[Conversation, Message]] = []
    for conversation in conversations[:limit]:
        message = conversation.next()
        if message is not None:
            found.append((conversation, message))
    return found


class _Groups:
    """Divides numbers into disjoint sets."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def join(self, one: int, other: int) -> None:
        one, other = self._first(one), self._first(other)
        self._parents[max(one, other)] = min(one, other)

    def all(self) -> list[list[int]]:
        """Return the sets, each in order, by their first numbers."""
        found: dict[int, list[int]] = {}
        for number in range(len(self._parents)):
            found.setdefault(self._first(number), []).append(number)
        return list(found.values())

    def _first(self, number: int) -> int:
        parents = self._parents
        while parents[number] != number:
            parents[number] = number = parents[parents[number]]
        return number


def _merge(
    conversations: Sequence[Conversation], settings: CascadeSettings
) -> tuple[list[Conversation], list[Conversation]] | None:
    """Return the conversations with those merged that depend on each other, and those to be run again.

    None if all are independent.
    """
    groups = _Groups(len(conversations))
    pairs = _find_dependences(conversations)
    if not pairs:
        return None
    for reader, changer in pairs:
        groups.join(reader, changer)
    found: list[Conversation] = []
    again: list[Conversation] = []
    for group in groups.all():
        if len(group) == 1:
            found.append(conversations[group[0]])
            continue
        messages = sorted(
            [each for number in group for each in conversations[number].messages], key=lambda each: each[0]
        )
        again.append(Conversation(settings, messages))
        found.append(again[-1])
    return found, again


def _find_dependent(conversations: Sequence[Conversation]) -> set[int]:
    """Return the numbers of conversations that have read what others have changed, and of these others."""
    return {number for pair in _find_dependences(conversations) for number in pair}


def _find_dependences(conversations: Sequence[Conversation]) -> list[tuple[int, int]]:
    """Return pairs of conversations, one of which has read what the other one has changed.

    If several have changed the same, one of them is enough for every further reader.
    """
    changers: dict[StateKey, list[int]] = {}
    for number, conversation in enumerate(conversations):
        for key in conversation.changed:
            changers.setdefault(key, []).append(number)
    found: list[tuple[int, int]] = []
    for number, conversation in enumerate(conversations):
        for key in conversation.read:
            others = changers.get(key)
            if others is None or others == [number]:
                continue
            found += [(number, other) for other in others]
            changers[key] = others[:1]
    return found
