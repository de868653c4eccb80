"""Say of a stored message what became of each of its rules, and why.

Nothing is recorded for it. Rules are pure on a snapshot, so they are evaluated again on the snapshot of the step that
processed the message; a message that waits is evaluated on that of now. What was removed since cannot be read again:
then the verdict says which part that is. What a rule has made is known from the messages that are still there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property

from demaq.compiler.context import CLOCK
from demaq.compiler.plan import CollectionRead, Plan, QueueByKey, RulePlan, SliceRead, WholeQueue
from demaq.documents import Document
from demaq.engine.engine import HOPS_MAX
from demaq.engine.error_routing import error_head, make_hops_failure
from demaq.errors import OperatorError
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.snapshot_reader import Documents, SnapshotReader, make_message
from demaq.language import ast
from demaq.language.program.program import Program
from demaq.messages import Message
from demaq.operations.pause import list_pauses
from demaq.operations.why.rule_verdicts import RuleExaminer, rules_about
from demaq.operations.why.verdicts import MadeMessage, MadeReset, MessageVerdict, RuleFailure, RuleVerdict
from demaq.store.protocol import Store, StoredMessage
from demaq.suggestions import describe_unknown
from demaq.system_properties import ERROR_LEVEL

READ_MAX = 2_000
"""A queue with more messages is not read as a whole to explain what was looked up in it."""
NUMBERS_MAX = 2_000
KEPT_PAGE = 1_000
"""Among so many messages of a queue one is looked for that shows that messages are kept."""


def why_message(
    store: Store,
    evaluator: SaxonEvaluator,
    number: int,
    now: datetime,
    rule: str | None = None,
    hops_max: int = HOPS_MAX,
) -> MessageVerdict:
    """Return what became of a message and of its rules, or of one rule.

    A store does not know `hops_max` of the node that has processed the message.
    Raises OperatorError if there never was such a message, or if no such rule pertains to it.
    """
    newest = store.snapshot()
    if not 0 < number <= newest:
        raise OperatorError(f"there is no message {number}: the newest number is {newest}")
    stored = store.message(number)
    if stored is None:
        return _describe_gone(store, number)
    program = evaluator.program
    if stored.queue not in program.queues:
        raise OperatorError(f"message {number}: {describe_unknown('queue', stored.queue, program.queues)}")
    names = [plan.rule.name for plan in rules_about(evaluator, stored.queue)]
    if rule is not None and rule not in names:
        known = [each.name for each in program.rules]
        if rule not in known:
            raise OperatorError(describe_unknown("rule", rule, known))
        raise OperatorError(f"rule {rule} does not pertain to messages of queue {stored.queue}")
    return _Question(store, evaluator, stored, newest, hops_max).answer(now, rule, bool(names))


def find_long_queues(store: Store) -> frozenset[str]:
    """Return the queues that are too long to be read as a whole."""
    return frozenset([name for name, (visible, _) in store.counts().items() if visible > READ_MAX])


def _describe_gone(store: Store, number: int) -> MessageVerdict:
    """Return what is still known of a message that is not stored: what it made."""
    effects = [made for seq in store.caused_by(number) if (made := store.message(seq)) is not None]
    return MessageVerdict(
        number=number,
        queue=None,
        state="gone",
        body="",
        properties={},
        step=None,
        snapshot=None,
        at=effects[0].created if effects else None,
        rules=(),
        notes=(
            f"{'it was processed: it' if effects else 'it'} came and went without being stored, or was removed"
            + ("" if effects else "; or it never was a message: steps take numbers, too"),
            *[
                f"it made message {made.seq} in queue {made.queue}" + (f", rule {made.rule}" if made.rule else "")
                for made in effects
            ],
        ),
    )


class _Question:
    """One stored message."""

    def __init__(
        self, store: Store, evaluator: SaxonEvaluator, stored: StoredMessage, newest: int, hops_max: int
    ) -> None:
        self._store = store
        self._evaluator = evaluator
        self._plan: Plan = evaluator.compiled.plan
        self._program: Program = evaluator.program
        self._stored = stored
        self._newest = newest
        self._hops_max = hops_max
        self._snapshot = newest if stored.processed is None else stored.processed - 1
        effects = [] if stored.processed is None else store.messages(store.caused_by(stored.seq))
        self._effects: Sequence[StoredMessage] = effects

    def answer(self, now: datetime, rule: str | None, has_rules: bool) -> MessageVerdict:
        stored = self._stored
        is_processed = stored.processed is not None
        at = now
        if is_processed:  # what a step makes has its time
            at = self._effects[0].created if self._effects else stored.created
        rules: tuple[RuleVerdict, ...] = ()
        if has_rules:
            long_queues = find_long_queues(self._store)
            reader = SnapshotReader(self._store, self._snapshot, Documents())
            examiner = RuleExaminer(self._evaluator, self._message(), reader, at, long_queues)
            rules = tuple([self._compare(self._limit_hops(verdict)) for verdict in examiner.examine(rule)])
        return MessageVerdict(
            number=stored.seq,
            queue=stored.queue,
            state="processed" if is_processed else "waits",
            body=stored.body,
            properties={name: value.text for name, value in stored.properties.items()},
            step=stored.processed,
            snapshot=self._snapshot,
            at=at,
            rules=rules,
            notes=tuple(self._notes(has_rules, rules)),
        )

    def _message(self) -> Message:
        """Return the message as its rules saw it, in the slices that it was in then."""
        message = make_message(self._stored, Document(self._stored.body))
        found: list[str] = []
        for slicing in self._program.slicings_of(self._stored.queue):
            value = self._stored.properties.get(slicing.property)
            if value is not None:
                members = self._store.slice(slicing.name, value.key, self._snapshot)
                found += [slicing.name] if any([each.seq == message.seq for each in members]) else []
        return replace(message, slices=frozenset(found))

    def _notes(self, has_rules: bool, rules: Sequence[RuleVerdict]) -> list[str]:
        found: list[str] = []
        if not has_rules:
            found.append(f"no rule pertains to queue {self._stored.queue}")
        known = self._store.program()
        if self._stored.processed is not None and known is not None and known[0] > 1:
            found.append(
                f"the application is at version {known[0]} now; which one processed the message is not recorded"
            )
        if self._stored.processed is None:
            found += [
                f"it waits because {pause.kind} {pause.name} is paused" + (f": {pause.why}" if pause.why else "")
                for pause in list_pauses(self._store, self._plan)
                if self._stored.queue in pause.queues
            ]
        elif not self._effects:
            clock = [rule.rule for rule in rules if self._asks_for_time(self._plan.rules[rule.rule])]
            if clock:
                found.append(f"current-dateTime() is taken to be when the message was stored (rule {', '.join(clock)})")
        return found

    def _asks_for_time(self, plan: RulePlan) -> bool:
        context = self._plan.modules[plan.rule.module]
        calls = [known for node in ast.walk(plan.rule.body) if (known := context.names.functions.get(node)) is not None]
        inner = [(uri, local) for known in calls for uri, local, _ in context.ambient_calls(known)]
        return any([known[:2] in CLOCK for known in calls]) or any([name in CLOCK for name in inner])

    def _limit_hops(self, verdict: RuleVerdict) -> RuleVerdict:
        """Return a verdict that says so if the rule may not enqueue, because the message is too far from its cause."""
        if self._stored.hops < self._hops_max or not any([isinstance(made, MadeMessage) for made in verdict.made]):
            return verdict
        failed = make_hops_failure(self._plan.rules[verdict.rule].rule, self._hops_max)
        failure = RuleFailure(kind=failed.kind, code=failed.code, description=failed.description, at=None)
        return replace(verdict, result="failed", failure=failure, made=(), causes=(), held=())

    # what is known from the store

    def _compare(self, verdict: RuleVerdict) -> RuleVerdict:
        """Return a verdict with the numbers of what the rule has made, and with what is gone."""
        if self._stored.processed is None:
            return verdict
        mine = [effect for effect in self._effects if effect.rule == verdict.rule]
        errors = [report for effect in mine if ERROR_LEVEL in effect.properties and (report := _failure(effect))]
        made = [effect for effect in mine if ERROR_LEVEL not in effect.properties]
        gone = tuple(self._gone(self._plan.rules[verdict.rule]))
        if errors and verdict.result != "failed":
            return replace(verdict, result="failed", failure=errors[0], made=(), causes=(), held=(), gone=gone)
        if made and verdict.result not in ("fired", "else"):
            found = tuple([_describe_made(effect) for effect in made])
            return replace(
                verdict, result="fired", made=found, causes=(), held=(), reason=None, failure=None, gone=gone
            )
        is_certain = bool(made or errors or not gone)
        return replace(verdict, made=tuple(_with_numbers(verdict.made, made)), gone=gone, is_certain=is_certain)

    @cached_property
    def _is_complete(self) -> bool:
        """Whether no message was removed so far: every number up to the snapshot is a message or a step.

        Only examined in a small store.
        """
        if self._newest > NUMBERS_MAX:
            return False
        found: set[int | None] = set()
        for message in self._store.stored(None, 0, NUMBERS_MAX):
            found |= {message.seq, message.processed, message.retired}
        return all([number in found for number in range(1, self._snapshot + 1)])

    def _gone(self, plan: RulePlan) -> list[str]:
        """Return which parts of what a rule reads may be gone since its step."""
        if self._snapshot == self._newest or not plan.reads or self._is_complete:
            return []
        found: list[str] = []
        for read in plan.reads:
            match read:
                case SliceRead():
                    found += self._gone_from_slice(read.slicing)
                case QueueByKey() | WholeQueue():
                    found += self._gone_from_queue(read.queue or self._stored.queue)
                case CollectionRead():
                    version = self._store.collection(read.collection)[0] if read.collection is not None else 2
                    if version > 1:
                        found.append(f"collection {read.collection or 'with a computed name'}: it is read as it is now")
                case _:
                    found.append("queues with computed names: messages that were removed since are missing")
        return list(dict.fromkeys(found))

    def _gone_from_slice(self, slicing: str) -> list[str]:
        """A message leaves a slice only by a reset, which ends the message's own membership, too."""
        value = self._stored.properties.get(self._program.slicings[slicing].property)
        if value is None or (slicing, value.key) in self._stored.slices:
            return []
        members = self._store.slice(slicing, value.key, self._snapshot)
        if any([member.retired is not None for member in members if member.seq != self._stored.seq]):
            return []  # what retires is kept
        return [f'slice {slicing} "{value.text}": it was reset since, and messages that were removed are missing']

    def _gone_from_queue(self, queue: str) -> list[str]:
        """What retired longest ago is removed first: if that is still there, nothing has gone since the snapshot."""
        for message in self._store.stored(queue, 0, KEPT_PAGE):
            if message.retired is not None and message.retired <= self._snapshot:
                return []
        return [f"queue {queue}: messages that were removed since are missing"]


def _failure(effect: StoredMessage) -> RuleFailure | None:
    head = error_head(effect.body)
    if head is None:
        return None
    code, description = head.findtext("code") or "", head.findtext("description") or ""
    return RuleFailure(kind=str(head[0].tag), code=code, description=description, at=None)


def _describe_made(effect: StoredMessage) -> MadeMessage:
    properties = {name: value.text for name, value in effect.properties.items()}
    return MadeMessage(queue=effect.queue, body=effect.body, properties=properties, number=effect.seq)


def _with_numbers(
    made: Sequence[MadeMessage | MadeReset], effects: Sequence[StoredMessage]
) -> list[MadeMessage | MadeReset]:
    """Return what a rule made, with the numbers of those messages that are still there.

    Evaluated again, a rule may make another message than it did, because some of what it read is gone. Then what is
    stored is right.
    """
    remaining = list(effects)
    found: list[MadeMessage | MadeReset] = []
    for item in made:
        if isinstance(item, MadeMessage):
            same = [effect for effect in remaining if effect.queue == item.queue and effect.body == item.body]
            if same:
                remaining.remove(same[0])
                item = replace(item, number=same[0].seq)
        found.append(item)
    for place, item in enumerate(found):
        if isinstance(item, MadeMessage) and item.number is None:
            others = [effect for effect in remaining if effect.queue == item.queue]
            if others:
                remaining.remove(others[0])
                found[place] = _describe_made(others[0])
    return [*found, *[_describe_made(effect) for effect in remaining]]
