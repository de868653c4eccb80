"""Rounds: messages evaluated on one snapshot and committed in the serial order.

The serial order is that of processing one message at a time: higher priority first, then lower seq; messages that a
step creates take their places in it. All messages of a round are evaluated before any of them is committed. Then they
are taken in order: an outcome that holds (`demaq.engine.validation`) is committed as a step, any other is evaluated
again on the newest snapshot, together with its neighbours. A round may begin while the one before it is being
committed; the commits of that one are changes like any others.

Invariants:

- `Rounds.changing` is held during every change of what rules may see, and from the validation of outcomes until their
  commit: nothing changes between the two.
- Steps are committed in the serial order. Within one transaction a step may be of a message that an earlier step of the
  transaction created.
- A round always ends: the first outcome of an evaluation on the newest snapshot holds unless senders or clients
  interfere, and after LOSSES_MAX losses a message is evaluated while `changing` is held.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime

from demaq.engine.message_factory import MessageFactory
from demaq.engine.step_spans import StepSpans
from demaq.engine.validation import Candidate, Order, Validator, View, members_of
from demaq.evaluation.cascade.versions import StateKeys
from demaq.evaluation.outcomes import Deferral, Enqueued, Outcome, StateKey
from demaq.evaluation.round_request import RoundEvaluator, RoundRequest, RoundResult
from demaq.records import record
from demaq.store.protocol import Elision, NewMessage, Step, Store, StoredMessage, as_stored

AGAIN_MESSAGES = 50
"""So many outcomes that do not hold are evaluated again at once."""
LOSSES_MAX = 2
"""A message that had to be evaluated again so often is evaluated while nothing can change."""
COMMIT_STEPS_MAX = 2000
"""Steps in one transaction."""
ARRIVAL_STEPS_MAX = 20_000
"""The same where messages are stored and processed at once."""
STEPS_MAX = 5000
"""A round that has committed so many steps leaves descendants to the next one."""

SEQS_PER_MESSAGE = 2
"""A message that is created and processed takes one seq for each."""

_OTHER = -1
"""The key of a step that is of no outcome of a view."""


@record
class RoundPolicy:
    """How rounds are made and committed. The result is that of a serial execution in any case."""

    elide: Elision = False
    """Messages that are created and processed within one commit are not stored, or only those that have a property."""
    exact: bool = True
    """No message is processed before an older one of its priority. Otherwise a long backlog is processed conversation
    by conversation: what a message leads to may come before others that wait."""
    fold: bool = False
    """A conversation of which nothing remains is one step; its messages are not observed."""
    ahead: bool = False
    """The next rounds are evaluated while one is committed, by an evaluator that may be called from other threads."""
    fuse: bool = False
    """Messages from outside are evaluated before they are stored, and committed with their effects (`arrivals`)."""


SERIAL = RoundPolicy()
THROUGHPUT = RoundPolicy(elide=True, exact=False, fold=True, ahead=True, fuse=True)
"""As a node does that keeps nothing."""


class Evaluation:
    """Messages that are being evaluated on a snapshot, in the background if `start` is called."""

    def __init__(
        self,
        batch: Sequence[StoredMessage],
        deep: bool,
        view: View,
        evaluate: Callable[[], RoundResult] = lambda: RoundResult([]),
    ) -> None:
        self.batch = batch
        self.deep = deep
        self.view = view
        self.outcomes: Sequence[Outcome | None] = []
        self.seconds = 0.0
        """How long it took."""
        self._evaluate = evaluate
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._done = threading.Event()

    def start(self, done: Callable[[], None] = lambda: None) -> None:
        """Evaluate in a thread. `done` is called there at the end."""

        def run() -> None:
            try:
                self._run()
            finally:
                self._done.set()
                done()

        self._thread = threading.Thread(target=run, name="demaq-ahead", daemon=True)
        self._thread.start()

    def is_done(self) -> bool:
        """Return whether the thread has ended."""
        return self._done.is_set()

    def wait(self) -> None:
        """Wait for the outcomes. Raises the error of the evaluation."""
        self.leave()
        if self._thread is None:
            self._run()
        if self._error is not None:
            raise self._error

    def leave(self) -> None:
        """Wait for the end of the thread, and ignore its result."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        started = time.perf_counter()
        try:
            result = self._evaluate()
        except BaseException as error:
            self._error = error
            return
        self.seconds = time.perf_counter() - started
        self.set_result(result.outcomes, result.descendants)

    def set_result(self, outcomes: Sequence[Outcome | None], descendants: Sequence[Outcome]) -> None:
        self.outcomes = outcomes
        for outcome in descendants:
            assert outcome.parent is not None, "a descendant has a parent"
            self.view.children[outcome.parent] = outcome


class Rounds:
    """Runs rounds on a store, one at a time."""

    def __init__(
        self,
        evaluator: RoundEvaluator,
        factory: MessageFactory,
        store: Store,
        clock: Callable[[], datetime],
        step: Callable[[StoredMessage, Outcome, datetime, int], tuple[Step, list[int]]],
        commit: Callable[[Sequence[Step]], None],
        hops_max: int,
    ) -> None:
        """`step` makes the step of a message and an outcome, with the given seq, and says which actions create its
        messages."""
        self._evaluator = evaluator
        self._factory = factory
        self._store = store
        self._clock = clock
        self._step = step
        self._commit = commit
        self._keys = StateKeys(factory.plan)
        self.validator = Validator(self._keys, hops_max)
        self.changing = threading.RLock()
        """Held during every change of what rules may see, and from validation to commit."""
        self._views: list[View] = []
        self.evaluated_again = 0
        """How many messages of the last round were evaluated again."""
        self.evaluated_again_total = 0
        """The same for all rounds."""
        self.deferred: list[tuple[StoredMessage, Deferral]] = []
        """Messages that rounds have left out because they take too long, each with the reason."""
        self.has_left_out = False
        """Whether the last round has left out messages that take long, or later members of their slices."""
        self.has_backlog = True
        """Whether a message may wait for its rules, in the store or in a round, but for those of paused queues.
        Changed while `changing` is held."""
        self.paused: frozenset[str] = frozenset()
        """Queues whose messages wait. Changed while no round and no arrival is evaluated or committed."""
        self.spans: StepSpans | None = None
        """Records what is processed, if anything does."""

    def order(self, message: StoredMessage) -> Order:
        return -(self._factory.priority(message.queue) or 0), message.seq

    def read(self, seqs: Sequence[int]) -> list[StoredMessage]:
        """Return messages as they are now."""
        return self._store.messages(seqs)

    def is_pending(self, message: NewMessage) -> bool:
        """Return whether a new message waits for its rules, and its queue is not paused."""
        return message.priority is not None and message.queue not in self.paused

    # changes from outside

    def note_arrived(self, messages: Sequence[NewMessage]) -> None:
        """Record that messages were added by others than rules."""
        self.has_backlog = self.has_backlog or any([self.is_pending(message) for message in messages])
        for view in self._views:
            self._add_outside(view, messages)

    def _add_outside(self, view: View, messages: Sequence[NewMessage]) -> None:
        for message in messages:
            parts = self._keys.created(message.queue, message.slices, message.entries)
            if parts:
                view.outside.add(_OTHER, parts)

    def note_fused(self, messages: Sequence[NewMessage], waiting: bool) -> None:
        """Record that messages were added and processed at once; `waiting` says whether one waits all the same."""
        self.has_backlog = self.has_backlog or waiting
        for view in self._views:
            self._add_outside(view, messages)

    def note_changed(self, keys: Sequence[StateKey]) -> None:
        """Record that conversations have changed something since all present views were opened."""
        for view in self._views:
            view.inside.add(_OTHER, keys)

    def see_all(self, view: View, unseen: Sequence[NewMessage]) -> None:
        """Let the outcomes of a view hold only if they depend on nothing that senders have added since, nor on
        messages that are about to be added."""
        self._add_outside(view, unseen)
        view.inside.include(view.outside)

    def note_taken(self, messages: Sequence[StoredMessage]) -> None:
        """Record that messages were processed outside of rounds: outcomes that have read them do not hold."""
        parts = [part for message in messages for part in self._keys.gone(message.queue)]
        for view in self._views:
            view.inside.add(_OTHER, parts)

    # rounds

    def begin(self, batch: Sequence[StoredMessage], deep: bool, fold: bool) -> Evaluation:
        """Return an evaluation of messages on the newest snapshot; see RoundRequest for `deep` and `fold`."""
        return self._begin(batch, self._evaluator.run, deep, fold)

    def begin_slow(self, batch: Sequence[StoredMessage], evaluate: Callable[[RoundRequest], RoundResult]) -> Evaluation:
        """Return an evaluation of messages that take long, by another evaluator than that of rounds."""
        return self._begin(batch, evaluate, deep=False, fold=False)

    def _begin(
        self, batch: Sequence[StoredMessage], evaluate: Callable[[RoundRequest], RoundResult], deep: bool, fold: bool
    ) -> Evaluation:
        snapshot, view = self.open_view(self._clock())
        whole: frozenset[int] = self.spans.find_sampled(batch) if fold and self.spans is not None else frozenset()
        request = RoundRequest(
            batch=batch, snapshot=snapshot, now=view.now, deep=deep, fold=fold, paused=self.paused, whole=whole
        )
        return Evaluation(batch, deep, view, lambda: evaluate(request))

    def open_view(self, now: datetime) -> tuple[int, View]:
        """Return the newest snapshot, and a view of what changes from now on. It has to be released."""
        with self.changing:
            snapshot = self._store.snapshot()
            view = View(now)
            self._views.append(view)
        return snapshot, view

    def end(self, begun: Evaluation, meanwhile: Callable[[], None] = lambda: None) -> int:
        """Commit a round. Return how many messages were processed.

        `meanwhile` is called after the messages are evaluated and before anything is committed.
        """
        self.evaluated_again = 0
        self.has_left_out = False
        commit = RoundCommit(self, begun.deep)
        try:
            begun.wait()
            meanwhile()
            commit.add(begun)
            return commit.run()
        finally:
            self.release([begun.view, *commit.views])

    def end_slow(self, begun: Evaluation) -> set[int]:
        """Commit those slow messages whose outcomes hold. Return their seqs."""
        try:
            begun.wait()
            commit = RoundCommit(self, begun.deep, is_slow=True)
            commit.add(begun)
            return commit.run_once()
        finally:
            self.release([begun.view])

    def forget(self, begun: Evaluation) -> None:
        """Wait for the end of an evaluation and discard it."""
        begun.leave()
        with self.changing:
            self._views.remove(begun.view)

    def release(self, views: Sequence[View]) -> None:
        """Forget views that nothing is evaluated on any more."""
        if not views:
            return
        gone = {id(view) for view in views}
        with self.changing:
            self._views[:] = [view for view in self._views if id(view) not in gone]

    def evaluate_now(self, batch: Sequence[StoredMessage], deep: bool) -> Evaluation:
        """Evaluate messages of a round that is being committed on the newest snapshot."""
        self.evaluated_again += len(batch)
        self.evaluated_again_total += len(batch)
        with self.changing:
            for view in self._views:
                view.inside.include(view.outside)  # these messages see what has arrived, so all after them must
            evaluation = self.begin(batch, deep, fold=False)
        try:
            evaluation.wait()
        except BaseException:
            evaluation.view.is_held = False
            raise
        return evaluation


class RoundCommit:
    """Commits outcomes in the serial order."""

    def __init__(self, rounds: Rounds, deep: bool = True, is_slow: bool = False) -> None:
        """If `is_slow`, nothing is evaluated again, and created messages are left to rounds."""
        self._rounds = rounds
        self._validator = rounds.validator
        self._is_slow = is_slow
        self._deep = deep
        self._heap: list[tuple[Order, Candidate]] = []
        """Candidates by their places, which are unique."""
        self._barrier: Order | None = None
        """The place of the first message that is left to the next round: none after it may be committed."""
        self._done = 0
        self._seqs: set[int] = set()
        """The messages that were added."""
        self.views: list[View] = []
        """What messages were evaluated on."""

    def run(self) -> int:
        """Commit everything, evaluating again what does not hold. Return how many messages were processed."""
        rounds = self._rounds
        while self._heap and not self._is_over():
            with rounds.changing:
                if self._first.losses >= LOSSES_MAX and self._validator.is_stale(self._first):
                    self._evaluate_again(1)
                steps = self._take_valid_steps(rounds._store.snapshot(), COMMIT_STEPS_MAX)
                rounds._commit(steps)
            self._done += count_processed(steps)
            if self._heap and not self._is_over() and self._first.losses < LOSSES_MAX and len(steps) < COMMIT_STEPS_MAX:
                self._evaluate_again(AGAIN_MESSAGES)
        return self._done

    def run_once(self) -> set[int]:
        """Commit what holds, and drop the rest. Return the seqs of the messages that were processed."""
        rounds = self._rounds
        committed: set[int] = set()
        while self._heap:
            with rounds.changing:
                steps = self._take_valid_steps(rounds._store.snapshot(), COMMIT_STEPS_MAX)
                rounds._commit(steps)
            committed.update([step.processed for step in steps if step.processed is not None])
            if self._heap and len(steps) < COMMIT_STEPS_MAX:
                self._pop()
        return committed

    @property
    def _first(self) -> Candidate:
        return self._heap[0][1]

    def _is_over(self) -> bool:
        return self._barrier is not None and self._first.order > self._barrier

    def stop_at(self, order: Order) -> None:
        """Commit nothing that comes after this place."""
        self._barrier = order if self._barrier is None else min(order, self._barrier)

    def take_steps(self, seq: int) -> list[Step]:
        """Return the steps of all outcomes that hold, up to the first that does not. Their seqs come after this one."""
        return self._take_valid_steps(seq, ARRIVAL_STEPS_MAX)

    def has(self, seq: int) -> bool:
        """Return whether a message is among those to be committed."""
        return seq in self._seqs

    def add(self, evaluation: Evaluation, losses: Sequence[int] | None = None) -> None:
        """Add evaluated messages at their places, except deferred ones and later members of their slices."""
        self.views.append(evaluation.view)
        losses = losses or [0] * len(evaluation.batch)
        deferred = [outcome is not None and outcome.deferred is not None for outcome in evaluation.outcomes]
        if any(deferred) and not self._is_slow:
            self._defer(evaluation)
        for message, outcome, lost, left_out in zip(
            evaluation.batch, evaluation.outcomes, losses, deferred, strict=True
        ):
            order = self._rounds.order(message)
            if self._is_slow:
                left_out = outcome is None or left_out
            else:
                left_out = left_out or self._validator.is_held(order, message.slices)
            if left_out:
                self._rounds.has_left_out = True
            else:
                self._seqs.add(message.seq)
                self._push(Candidate(order, message, outcome, evaluation.view, losses=lost))
        evaluation.view.is_held = False

    def _defer(self, evaluation: Evaluation) -> None:
        """Leave out messages that take too long, and hold their slices: later members wait in the store."""
        rounds, held = self._rounds, self._validator.held
        for message, outcome in zip(evaluation.batch, evaluation.outcomes, strict=True):
            if outcome is not None and outcome.deferred is not None:
                rounds.deferred.append((message, outcome.deferred))
                order = rounds.order(message)
                for key in message.slices:
                    held[key] = min(order, held.get(key, order))

    def _evaluate_again(self, limit: int) -> None:
        """Replace stale outcomes at the front by those on the newest snapshot."""
        stale: list[Candidate] = []
        while self._heap and len(stale) < limit and self._validator.is_stale(self._first):
            stale.append(self._pop())
        if not stale:
            return
        seqs = [item.message.seq for item in stale]
        current = self._rounds.read(seqs)
        assert len(current) == len(seqs), "an unprocessed message is never removed"
        by_seq = {message.seq: message for message in current}
        evaluation = self._rounds.evaluate_now([by_seq[seq] for seq in seqs], self._deep)
        self.add(evaluation, [item.losses + 1 for item in stale])

    def _push(self, candidate: Candidate) -> None:
        candidate.view.waiting += 1
        heapq.heappush(self._heap, (candidate.order, candidate))

    def _pop(self) -> Candidate:
        candidate = heapq.heappop(self._heap)[1]
        candidate.view.waiting -= 1
        return candidate

    def _take_valid_steps(self, seq: int, limit: int) -> list[Step]:
        """Return the steps from the front up to the first outcome that does not hold, with seqs after this one."""
        rounds = self._rounds
        steps: list[Step] = []
        while self._heap and len(steps) < limit and not self._is_over() and not self._validator.is_stale(self._first):
            head = self._pop()
            outcome = head.outcome
            assert outcome is not None
            seq += 1
            step, makers = rounds._step(head.message, outcome, head.view.now, seq)
            steps.append(step)
            if rounds.spans is not None:
                rounds.spans.note_step(head.message, outcome, step, head.view.now, head.losses)
            self._track(head, outcome, step, _is_as_predicted(outcome, step, makers))
            creation = head.view.inside.steps
            seq += step.elided
            for position, created in enumerate(step.created):
                seq += 1
                if created.priority is not None:
                    action = makers[position] if position < len(makers) else -1
                    self._add_created(created, seq, head.view, creation, (outcome.number, action))
        rounds._views[:] = [view for view in rounds._views if view.waiting or view.is_held]
        return steps

    def _add_created(self, created: NewMessage, seq: int, view: View, creation: int, parent: tuple[int, int]) -> None:
        """Add a created message at its place in this round, with its predicted outcome, or leave it to the next."""
        assert created.priority is not None
        order = (-created.priority, seq)
        if self._is_slow or created.queue in self._rounds.paused or self._validator.is_held(order, created.slices):
            return
        child = view.children.pop(parent, None) if parent[0] >= 0 else None
        if self._deep and self._done < STEPS_MAX:
            message = as_stored(created, seq)
            born = {key: view.inside.versions.get(("reset", *key)) for key in message.slices}
            self._push(Candidate(order, message, child, view, born, creation))
        else:
            self.stop_at(order)

    def _track(self, head: Candidate, outcome: Outcome, step: Step, is_as_predicted: bool) -> None:
        """Record in all views what a step changes.

        Later outcomes of the same evaluation have seen the change if the step does what its outcome predicted; then it
        bears the outcome's key, else one that no outcome has seen.
        """
        keys = self._rounds._keys
        parts = keys.reset(step.resets) if step.resets else []
        if outcome.folded is not None:
            parts += outcome.folded.changed
        for created in step.created:
            parts += keys.created(created.queue, created.slices, created.entries)
        members = members_of(head)
        if not any([key[0] in members and key not in step.resets for key in head.message.slices]):
            parts += keys.gone(head.message.queue)
        for view in self._rounds._views:
            view.inside.add(outcome.key if is_as_predicted and head.view is view else _OTHER, parts)


def count_processed(steps: Sequence[Step]) -> int:
    """Return how many messages steps process, with those that came and went unstored."""
    return sum([1 + step.elided // SEQS_PER_MESSAGE for step in steps])


def _is_as_predicted(outcome: Outcome, step: Step, makers: Sequence[int]) -> bool:
    """Return whether a step creates exactly what its outcome says, and no error messages."""
    return len(makers) == len(step.created) == sum([isinstance(action, Enqueued) for action in outcome.actions])
