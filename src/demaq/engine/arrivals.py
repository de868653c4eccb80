"""Messages from outside whose rules are evaluated before they are stored: arrival and effects are one transaction.

A worker parses them, computes their properties and evaluates their rules, with all that these lead to. Then they are
stored and processed in one commit, and the senders are answered. The result is that of storing them first and running a
round on them: the outcomes are validated like those of a round, and whatever does not hold is only stored, and left to
the rounds.

That is possible if

- no message waits before them: otherwise they must wait for their turn;
- a worker is free and the rules of their queue have been quick, so that no sender waits for a slow rule;
- their rules do not ask for what is unknown before a message is stored (`Cascades.is_possible_on_arrival`).

Otherwise, and if a rule hangs or ends its process, they are stored first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from demaq.engine.intake import IncomingMessage, mark_new, type_properties
from demaq.engine.message_factory import MessageFactory
from demaq.engine.namespace_watch import NamespaceWatch
from demaq.engine.round import SEQS_PER_MESSAGE, Evaluation, RoundCommit, RoundPolicy, Rounds, count_processed
from demaq.engine.rule_counts import RuleCounts
from demaq.engine.validation import View
from demaq.errors import MessageError, OperatorError
from demaq.evaluation.arrival_request import (
    ArrivalPool,
    ArrivalRequest,
    ArrivalResult,
    Arrived,
    Arriving,
    Passed,
    make_passed,
)
from demaq.evaluation.outcomes import NOTHING_READ, Outcome, StateKey
from demaq.evaluation.quick_evaluator import OwnShare, QuickEvaluator
from demaq.messages import transport_properties
from demaq.store.protocol import NewMessage, Step, Store, StoredMessage, as_stored
from demaq.store.request_names import has_digest, name_of
from demaq.system_properties import SAMPLED

WORKER_MESSAGES_LEAST = 25
"""Messages are not divided among workers into smaller parts than this."""
MESSAGES_MAX = 500
"""More messages at once are stored first."""
CHARACTERS_MAX = 4_000_000
"""The same for the size of their bodies together."""
QUICK_SECONDS = 0.02
"""If a worker is busy with a message of a queue for longer than this, others are stored first for SLOW_SECONDS."""
SLOW_SECONDS = 10.0
WEIGHT = 0.3
"""The weight of the newest messages in the moving average of how long one takes."""

_log = logging.getLogger("demaq.node")


class _EvaluatedPart:
    """Messages that one worker has evaluated."""

    def __init__(self, view: View, messages: Sequence[NewMessage | None], result: ArrivalResult) -> None:
        self.view = view
        self.messages = messages
        """None for a message that is refused or has passed."""
        self.result = result
        pairs = zip(messages, result.outcomes, strict=True)
        self.seen = {id(message) for message, outcome in pairs if message is not None and outcome is not None}
        """The identities of the messages that have outcomes, which the others have seen."""


class _Changed(Exception):
    """Something has changed that a message of which nothing but its effects would be stored has read."""


class _Overtaken(Exception):
    """Such a message comes after one of a higher priority that waits."""


@dataclass(slots=True)
class _Passing:
    """A message of which nothing but its effects is stored."""

    queue: str
    incoming: IncomingMessage
    passed: Passed
    view: View
    seq: int = 0
    """Its seq, once it is committed."""

    @property
    def is_alone(self) -> bool:
        """Whether it has read nothing, and changed nothing but what it enqueues."""
        return self.passed.folded is None and self.passed.reads is NOTHING_READ

    @property
    def processed(self) -> int:
        """How many messages are processed: itself, and those that came and went."""
        return 1 if self.passed.folded is None else 1 + self.passed.folded.messages


class EvaluatedArrivals:
    """Messages that are evaluated and not stored yet. Must be committed or dropped."""

    def __init__(
        self,
        arrivals: Arrivals,
        parts: Sequence[_EvaluatedPart],
        results: Sequence[NewMessage | _Passing | MessageError],
        now: datetime,
        is_in_order: bool,
    ) -> None:
        self._arrivals = arrivals
        self._parts = parts
        self.results = results
        """For each message what is to be stored, or why it is refused; neither if only its effects are stored."""
        self._now = now
        self._is_in_order = is_in_order

    def commit(self, others: Mapping[int, NewMessage] | None = None) -> list[tuple[int, bool]]:
        """Store and process all messages that are not refused, in one transaction.

        Return for each message its seq, and whether it is new. They ascend if the messages are to keep their order. A
        refused one has that of the message in `others` at its position, which is stored in its place, or else no seq
        (0).
        """
        try:
            try:
                return self._commit(others or {})
            except _Changed:
                self._store_first([isinstance(each, _Passing) and not each.is_alone for each in self.results])
            except _Overtaken:
                self._store_first([isinstance(each, _Passing) for each in self.results])
            return self._commit(others or {})
        finally:
            self.drop()

    def _commit(self, others: Mapping[int, NewMessage]) -> list[tuple[int, bool]]:
        if self._is_in_order:
            self._keep_order()
        stored = {place: each for place, each in enumerate(self.results) if isinstance(each, NewMessage)}
        stored |= others
        passing = [each for each in self.results if isinstance(each, _Passing)]
        numbers = self._arrivals._commit(self._parts, passing, [stored[place] for place in sorted(stored)], self._now)
        found: list[tuple[int, bool]] = [
            (each.seq, True) if isinstance(each, _Passing) else (0, False) for each in self.results
        ]
        for place, number in zip(sorted(stored), numbers, strict=True):
            found[place] = number
        return found

    def _keep_order(self) -> None:
        """Let no message pass after one that is stored: its effects would come before those of that one."""
        is_stored = [isinstance(each, NewMessage) for each in self.results]
        if any(is_stored):
            first = is_stored.index(True)
            self._store_first([place > first for place in range(len(is_stored))])

    def _store_first(self, chosen: Sequence[bool]) -> None:
        """Let the chosen messages be stored, and not only their effects."""
        self.results = [
            self._arrivals._store_first(each, self._now) if is_chosen else each
            for each, is_chosen in zip(self.results, chosen, strict=True)
        ]

    def drop(self) -> None:
        """Forget the evaluation. Not to be called after `commit`."""
        self._arrivals._rounds.release([part.view for part in self._parts])
        self._arrivals._end()


def _may_pass(arrived: Arrived | Passed | MessageError) -> bool:
    return arrived.has_ended if isinstance(arrived, Arrived) else True


class Arrivals:
    """Evaluates messages from outside and commits them with their effects. May be called from any thread."""

    def __init__(
        self,
        rounds: Rounds,
        factory: MessageFactory,
        pool: ArrivalPool | None,
        store: Store,
        policy: Callable[[], RoundPolicy],
        commit: Callable[[Sequence[Step], Sequence[NewMessage], Sequence[Step]], list[int]],
        is_undisturbed: Callable[[], bool],
        namespaces: NamespaceWatch,
        counts: RuleCounts,
        wake: Callable[[], None],
        quick: QuickEvaluator | None = None,
    ) -> None:
        """`commit` commits steps, then stores messages, then commits further steps, which may process them, in one
        transaction. It returns the seqs of the messages. `is_undisturbed` says whether messages are processed at
        present, and none of them is tried again after a fault. `namespaces` is informed about messages that no rule has
        reacted to. `wake` is called if a message waits for its rules after a commit: the sender of the one that has led
        to it knows nothing of it. `quick` evaluates few messages without a worker, where that is possible.
        """
        self._rounds = rounds
        self._factory = factory
        self._pool = pool
        self._quick = quick
        self._store = store
        self._policy = policy
        self._commit_steps = commit
        self._is_undisturbed = is_undisturbed
        self._note_ignored = namespaces.note_ignored
        self._count_ignored = namespaces.count_ignored
        self._counts = counts
        self._wake = wake
        priorities = {factory.priority(queue) for queue in factory.program.queues}
        self._has_priorities = len(priorities - {None}) > 1
        """Whether not all queues have the same priority."""
        self._seconds: dict[str, float] = {}
        """How long a message of a queue takes, as a moving average."""
        self._slow_until: dict[str, float] = {}
        """Queues whose messages are stored first, until a time on the monotonic clock."""
        self.processed = 0
        """How many messages were processed when they arrived, with all that they led to."""
        self._changed = threading.Condition()
        self._begun = 0
        """How many evaluations were begun and are neither committed nor dropped."""
        self._excluded = 0
        """How many callers want none to be begun."""

    @property
    def is_possible(self) -> bool:
        """Whether messages may be evaluated before they are stored at all."""
        return self._pool is not None and self._policy().fuse

    def evaluate(
        self,
        sent: Sequence[tuple[str, IncomingMessage]],
        now: datetime,
        may_share: bool = False,
        in_order: bool = False,
    ) -> EvaluatedArrivals | None:
        """Evaluate messages for queues. None if they are to be stored first. Raises a StoreError.

        With `may_share` this thread evaluates a share of many messages: it has nothing else to do. With `in_order` they
        are of one sender, and keep their order.
        """
        if self._rounds.has_backlog:  # messages of a queue are processed in the order in which they came
            return None
        if not self.is_possible or not sent or len(sent) > MESSAGES_MAX or not self._is_undisturbed():
            return None
        if not all([self._is_quick(queue) for queue in dict.fromkeys([queue for queue, _ in sent])]):
            return None
        if sum([len(each.body) for _, each in sent]) > CHARACTERS_MAX:
            return None
        sampler = self._factory.sampler
        if sampler is None:
            return self._evaluate_now(sent, now, may_share, in_order)
        chosen = [(queue, sampler.choose(queue, incoming)) for queue, incoming in sent]
        found = self._evaluate_now(chosen, now, may_share, in_order)
        if found is None:
            sampler.choose_again(sent)
        return found

    def _evaluate_now(
        self, sent: Sequence[tuple[str, IncomingMessage]], now: datetime, may_share: bool, in_order: bool
    ) -> EvaluatedArrivals | None:
        program, elides = self._factory.program, bool(self._policy().elide)
        refused: dict[int, MessageError] = {}
        arriving: list[Arriving] = []
        for place, (queue, incoming) in enumerate(sent):
            if incoming.trigger is not None or incoming.system or incoming.rule is not None:
                return None  # made by the system
            try:
                explicit = type_properties(program, queue, incoming.properties) if incoming.properties else {}
            except MessageError as error:
                refused[place] = error
                continue
            body = b"" if incoming.document is not None else incoming.body
            may_pass = elides and incoming.request is None and not incoming.hops and SAMPLED not in incoming.inherited
            if in_order and not may_pass:
                elides = False  # what comes after one that is stored is stored, too
            arriving.append(Arriving(queue, body, incoming.document, explicit, incoming.inherited, may_pass))
        if not arriving or not self._begin():
            return None
        views: list[View] = []
        try:
            found = self._run(arriving, now, views, may_share)
        except OperatorError:  # storing them does not need the worker, and says what is wrong with the store
            found = None
        except BaseException:
            self._rounds.release(views)
            self._end()
            raise
        if not found:
            self._rounds.release(views)
            self._end()
        if found is None or found:
            self._note_seconds([queue for queue, _ in sent], found)
        return self._collect(sent, refused, list(zip(views, found, strict=True)), now, in_order) if found else None

    @contextmanager
    def excluded(self) -> Iterator[None]:
        """Run a block while no message is evaluated on arrival: something changes that validation does not see."""
        with self._changed:
            self._excluded += 1
            while self._begun:
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._excluded -= 1

    def _begin(self) -> bool:
        """Begin an evaluation, unless none may be."""
        with self._changed:
            if self._excluded:
                return False
            self._begun += 1
            return True

    def _end(self) -> None:
        with self._changed:
            self._begun -= 1
            if self._excluded:
                self._changed.notify_all()

    def _note_seconds(self, queues: Sequence[str], found: Sequence[ArrivalResult] | None) -> None:
        """Note how long messages have taken; the queues of slow ones are not asked for a while."""
        each = 0.0 if found is None else sum([result.cpu_seconds for result in found]) / len(queues)
        for queue in dict.fromkeys(queues):
            before = self._seconds.get(queue, 0.0)
            self._seconds[queue] = before + WEIGHT * (each - before)
            if found is None or self._seconds[queue] > QUICK_SECONDS:
                self._slow_until[queue] = time.monotonic() + SLOW_SECONDS
                self._seconds[queue] = 0.0

    def _is_quick(self, queue: str) -> bool:
        declared = self._factory.program.queues.get(queue)
        if declared is None or declared.kind not in ("basic", "incomingGateway"):
            return False
        if self._factory.priority(queue) is None or queue in self._rounds.paused:
            return False
        return time.monotonic() >= self._slow_until.get(queue, 0.0)

    def _run(
        self, arriving: Sequence[Arriving], now: datetime, views: list[View], may_share: bool
    ) -> list[ArrivalResult] | None:
        """Return the results of the node itself and of workers, each on a view of its own."""
        assert self._pool is not None
        workers_max = max(1, len(arriving) // WORKER_MESSAGES_LEAST)
        beside = min(workers_max, max(1, self._pool.rounds_max - 1)) if may_share else 0
        share = OwnShare() if self._quick is None else self._quick.choose(arriving, beside)
        own = self._make_request(arriving[: share.here], now, views) if share.here else None
        left = arriving[share.here :]
        if own is not None and not left:
            result = self._run_here(own)
            if result is not None:
                return [result]
            self._rounds.release([views.pop()])
            own, left = None, arriving
        results: list[ArrivalResult | None] = []

        def divide(workers: int) -> list[ArrivalRequest]:
            size = -(-len(left) // workers)
            return [
                self._make_request(left[start : start + size], now, views, share.check)
                for start in range(0, len(left), size)
            ]

        if own is None:
            return self._pool.run_arrivals(divide, workers_max)
        found = self._pool.run_arrivals(divide, beside, lambda: results.append(self._run_here(own)))
        if found and results == [None]:  # a worker must be asked about the share as well
            again = self._pool.run_arrivals(lambda _: [own], 1)
            return [*again, *found] if again else again
        return [*[result for result in results if result is not None], *found] if found else found

    def _run_here(self, request: ArrivalRequest) -> ArrivalResult | None:
        assert self._quick is not None, "it has chosen"
        return self._quick.run(request)

    def _make_request(
        self, messages: Sequence[Arriving], now: datetime, views: list[View], check: bool = False
    ) -> ArrivalRequest:
        """Return a request on a view that is opened for it, and added to the others."""
        snapshot, view = self._rounds.open_view(now)
        views.append(view)
        spans = self._rounds.spans
        whole: frozenset[int] = frozenset()
        if spans is not None:
            is_sampled = spans.is_sampled_on_arrival
            whole = frozenset([place for place, each in enumerate(messages) if is_sampled(each.inherited)])
        return ArrivalRequest(
            messages=messages,
            snapshot=snapshot,
            now=now,
            fold=self._policy().fold,
            paused=self._rounds.paused,
            whole=whole,
            check=check,
        )

    def _collect(
        self,
        sent: Sequence[tuple[str, IncomingMessage]],
        refused: dict[int, MessageError],
        found: Sequence[tuple[View, ArrivalResult]],
        now: datetime,
        in_order: bool,
    ) -> EvaluatedArrivals:
        parts: list[_EvaluatedPart] = []
        # Conversations pass only together: the effects of one that is stored would come after those of the next one.
        do_all_pass = all([_may_pass(arrived) for _, result in found for arrived in result.arrived])
        asked = iter([place for place in range(len(sent)) if place not in refused])
        results: dict[int, NewMessage | _Passing | MessageError] = dict(refused)
        for view, result in found:
            messages: list[NewMessage | None] = []
            for number, arrived in enumerate(result.arrived):
                place = next(asked)
                queue, incoming = sent[place]
                made: NewMessage | None = None
                if isinstance(arrived, Passed):
                    results[place] = _Passing(queue, incoming, arrived, view)
                elif isinstance(arrived, MessageError):
                    results[place] = arrived
                elif do_all_pass:
                    outcome, result.outcomes[number] = result.outcomes[number], None
                    assert outcome is not None, "what has ended has an outcome"
                    results[place] = _Passing(queue, incoming, make_passed(outcome), view)
                else:
                    results[place] = made = self._make(queue, incoming, arrived, now)
                messages.append(made)
            parts.append(_EvaluatedPart(view, messages, result))
        return EvaluatedArrivals(self, parts, [results[place] for place in range(len(sent))], now, in_order)

    def _make(self, queue: str, incoming: IncomingMessage, arrived: Arrived, now: datetime) -> NewMessage:
        text = arrived.text
        if text is None:
            text = incoming.body if isinstance(incoming.body, str) else incoming.body.decode("utf-8")
        return self._factory.make_received(queue, incoming, text, arrived.properties, arrived.entries, now)

    def _commit(
        self,
        parts: Sequence[_EvaluatedPart],
        passing: Sequence[_Passing],
        messages: Sequence[NewMessage],
        now: datetime,
    ) -> list[tuple[int, bool]]:
        rounds = self._rounds
        with rounds.changing:
            first = last = self._store.snapshot()
            steps: list[Step] = []
            commit = RoundCommit(rounds)
            if passing:
                self._expect_order(passing)
                self._validate(passing)
                steps.append(self._pass(passing, last, now))
                last += steps[0].elided
                for made in steps[0].created:
                    last += 1
                    if made.priority is not None and rounds.is_pending(made):
                        commit.stop_at((-made.priority, last))  # it comes before the others, and is not evaluated yet
                self._note_changes(passing)  # before the outcomes of others are validated
            seqs: dict[int, int] = {}
            taken: list[Step] = []
            if messages:
                seqs = self._number(messages, last)
                noted = rounds.spans.count() if rounds.spans is not None else 0
                try:
                    with self._counts.forgetting():
                        taken = self._make_steps(commit, parts, messages, seqs, last + len(seqs))
                except OperatorError:  # an error message needs an evaluator, and there is none: the rounds wait for it
                    taken = []
                    if rounds.spans is not None:
                        rounds.spans.forget_after(noted)
                except Exception:
                    if rounds.spans is not None:
                        rounds.spans.forget_after(noted)
                    _log.exception("what arrived could not be processed at once; it is stored, and processed later")
            waiting = self._is_one_waiting(messages, steps, taken)
            try:
                numbers = self._commit_steps(steps, messages, taken)
            except BaseException:  # it is in doubt whether they were stored, and what they lead to
                rounds.note_arrived(messages)
                rounds.has_backlog = True
                raise
            finally:
                rounds.release(commit.views)
            rounds.note_fused(messages, waiting)
            if waiting:
                self._wake()
            self.processed += sum([each.processed for each in passing]) + count_processed(taken)
        return mark_new(numbers, first)

    def _is_one_waiting(self, messages: Sequence[NewMessage], passed: Sequence[Step], steps: Sequence[Step]) -> bool:
        """Return whether a message waits for its rules: one of those that are stored, or of those that are created."""
        stored = sum([self._rounds.is_pending(message) for message in messages])
        created = sum([self._rounds.is_pending(message) for step in (*passed, *steps) for message in step.created])
        return stored + created > len(steps)

    def _validate(self, passing: Sequence[_Passing]) -> None:
        """Raise _Changed if something has changed that a message has read, or another one waits that might change it.

        Those of one view that depend on each other have not passed.
        """
        changed: dict[StateKey, View] = {}
        for each in passing:
            passed, view = each.passed, each.view
            if each.is_alone:
                continue
            if self._rounds.has_backlog:
                raise _Changed
            if passed.folded is None:
                read: Sequence[StateKey] = self._rounds.validator.keys.read((), passed.reads)
            else:
                read = passed.folded.read
                if not self._rounds.validator.may_fold(passed.folded):
                    raise _Changed
            if view.inside.touch(read) or view.outside.touch(read):
                raise _Changed
            if changed and any([changed.get(key, view) is not view for key in read]):
                raise _Changed
            if passed.folded is not None:
                changed.update(dict.fromkeys(passed.folded.changed, view))

    def _expect_order(self, passing: Sequence[_Passing]) -> None:
        """Raise _Overtaken if what one message leads to waits, and comes before another one that has come with it."""
        if not self._has_priorities or len(passing) == 1:
            return
        rounds, priority_of = self._rounds, self._factory.priority
        highest: int | None = None
        for each in passing:
            if highest is not None and highest > (priority_of(each.queue) or 0):
                raise _Overtaken
            for made in each.passed.created:
                priority = None if made.queue in rounds.paused else priority_of(made.queue)
                if priority is not None and (highest is None or priority > highest):
                    highest = priority

    def _note_changes(self, passing: Sequence[_Passing]) -> None:
        """Record what conversations have changed, for all that is evaluated on a snapshot without it."""
        parts = [key for each in passing if each.passed.folded is not None for key in each.passed.folded.changed]
        if parts:
            self._rounds.note_changed(parts)

    def _store_first(
        self, result: NewMessage | _Passing | MessageError, now: datetime
    ) -> NewMessage | _Passing | MessageError:
        """Return what is to be stored of a message whose effects are not; others as they are."""
        if not isinstance(result, _Passing):
            return result
        if self._factory.sampler is not None:  # it is chosen among once more
            self._factory.sampler.choose_again([(result.queue, result.incoming)])
        [found] = self._factory.receive_all(result.queue, [result.incoming], now)
        return found

    def _pass(self, passing: Sequence[_Passing], last: int, now: datetime) -> Step:
        """Return the step that stores the effects of messages which are done with. They are elided: numbered only."""
        seq = last
        elided = last + len(passing)
        """The last seq that was given to a message that came and went."""
        created: list[NewMessage] = []
        factory = self._factory
        for each in passing:
            seq += 1
            each.seq = seq
            inherited = transport_properties(each.incoming.inherited) if each.incoming.inherited else {}
            folded = each.passed.folded
            for number, action in enumerate(each.passed.created):
                maker, depth = (0, 0) if folded is None else folded.makers[number]
                known = {**inherited, **action.properties} if inherited else action.properties
                cause = elided + maker if maker else seq, seq
                made = factory.make(
                    action.queue, action.text, known, action.entries, now, action.rule, cause, hops=depth + 1
                )
                created.append(made)
            if folded is not None:
                elided += folded.messages
                for queue in folded.unmatched:
                    self._count_ignored(queue)
            if self._rounds.spans is not None:
                made_by_it = created[len(created) - len(each.passed.created) :]
                self._rounds.spans.note_passed(each.queue, seq, inherited, each.passed.fired, made_by_it, now)
            if each.passed.fired:
                self._counts.add(each.passed.fired)
            elif not each.passed.created and folded is None:
                self._note_ignored(each.queue, seq, each.incoming.body)
        processed = sum([each.processed for each in passing])
        return Step(created=tuple(created), elided=processed * SEQS_PER_MESSAGE)

    def _number(self, messages: Sequence[NewMessage], last: int) -> dict[int, int]:
        """Return the seqs that messages will get, by identity; none for one whose request is known already."""
        seqs: dict[int, int] = {}
        names: set[str] = set()
        for message in messages:
            if message.request is not None:
                name = name_of(message.request)
                if name in names or self._is_known(message.request):
                    continue
                names.add(name)
            last += 1
            seqs[id(message)] = last
        return seqs

    def _is_known(self, request: str) -> bool:
        if not has_digest(request):
            return request in self._store.requested(request)
        name = name_of(request)
        return any([name_of(known) == name for known in self._store.requested(name)])

    def _make_steps(
        self,
        commit: RoundCommit,
        parts: Sequence[_EvaluatedPart],
        messages: Sequence[NewMessage],
        seqs: dict[int, int],
        last: int,
    ) -> list[Step]:
        """Return the steps of the messages whose outcomes hold, in the serial order, with seqs after the last one."""
        rounds = self._rounds
        for part in parts:
            evaluation = self._select(part, seqs)
            rounds.see_all(part.view, [message for message in messages if id(message) not in part.seen])
            commit.add(evaluation)
        for message in messages:  # nothing is processed before one that waits
            seq = seqs.get(id(message))
            if message.priority is not None and seq is not None and not commit.has(seq):
                commit.stop_at((-message.priority, seq))
        return commit.take_steps(last)

    def _select(self, part: _EvaluatedPart, seqs: dict[int, int]) -> Evaluation:
        """Return the messages of a part that may be processed now, with their outcomes."""
        # The others have seen all that have an outcome, so all of these must be stored.
        is_complete = part.seen <= seqs.keys()
        is_next = is_complete and not self._rounds.has_backlog
        leads_to_errors = self._rounds.validator.leads_to_errors
        batch: list[StoredMessage] = []
        outcomes: list[Outcome | None] = []
        for message, arrived, outcome in zip(part.messages, part.result.arrived, part.result.outcomes, strict=True):
            if message is None or outcome is None or id(message) not in seqs:
                continue
            is_alone = isinstance(arrived, Arrived) and arrived.is_alone
            # An error message may be read by one that waits.
            if is_next or (is_alone and not leads_to_errors(outcome, message.hops)):
                batch.append(as_stored(message, seqs[id(message)]))
                outcomes.append(outcome)
        evaluation = Evaluation(batch, True, part.view)
        evaluation.set_result(outcomes, part.result.descendants)
        return evaluation
