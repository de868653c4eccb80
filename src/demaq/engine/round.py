"""A round: messages evaluated on a snapshot, with all they lead to, committed in the order of a serial execution.

All messages of a round are evaluated at once, before any of them is committed. Then they are taken in order: highest
priority first, then oldest first, and what a message makes takes its place in that order. An outcome that has seen what
it must have seen is committed; any other is evaluated again as things are now, with its neighbours.

A round can begin while the one before it is committed: its messages are evaluated on a snapshot without what that one
does, which is then a change like any other.

Senders and clients change things at any time. A message that arrives counts as arrived after all messages that were
evaluated before, unless one of these is evaluated again: then it is seen, and the rest must have seen it too. There are
two exceptions. A reset must have seen all it releases. And what is created by a message that has not seen an arrival
still gets a higher number, so that nobody may be able to compare the two: where somebody could, the message is
evaluated again.

Who takes a message from a mailbox has read it: he has got all there was. So that counts as done when it is done, as do
timers that end and deliveries, and who may have looked for such a message is evaluated again.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from demaq.engine.message_factory import MessageFactory
from demaq.evaluation.cascade.versions import SliceKey, StateKeys, VersionTracker
from demaq.evaluation.outcomes import Enqueued, Outcome, SliceReset, StateKey, Version
from demaq.evaluation.round_request import RoundEvaluator, RoundRequest, RoundResult
from demaq.evaluation.state.snapshot_reader import NO_SLICES
from demaq.records import record
from demaq.store.protocol import NewMessage, Step, Store, StoredMessage, as_stored

AGAIN_MESSAGES_FIRST = 50
AGAIN_MESSAGES_MAX = 500
"""So many outcomes that no longer hold are evaluated again at once; the first one of them will hold for sure."""
LOSSES_MAX = 2
"""After so many evaluations in vain nobody may change anything while a message is evaluated."""
COMMIT_STEPS_MAX = 2000
STEPS_MAX = 5000
"""A round that has done so much leaves the rest to the next."""

NUMBERS_PER_MESSAGE = 2
"""A message that comes and goes takes a number when it is made, and one when it is processed."""

_OTHER = -1
"""As the key of a step: of none of the outcomes of a view."""


Order = tuple[int, int]
"""The place of a message in the line: the highest priority first, then the oldest."""


@record
class RoundPolicy:
    """How rounds are made and committed. The result is that of a serial execution in any case."""

    elide: bool = False
    """Messages that are created and processed within one commit are not stored."""
    exact: bool = True
    """No message is processed before an older one of its priority. Otherwise a long backlog is processed conversation
    by conversation: what a message leads to may come before others that wait."""
    fold: bool = False
    """A conversation of which nothing remains is one step; its messages are not observed."""
    ahead: bool = False
    """The next rounds are evaluated while one is committed, by an evaluator that may be called from other threads."""


SERIAL = RoundPolicy()
THROUGHPUT = RoundPolicy(elide=True, exact=False, fold=True, ahead=True)
"""As a node does that keeps nothing."""


class View:
    """A snapshot that messages were evaluated on, by what has changed since: by rules, and by senders and clients."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.inside = VersionTracker()
        self.outside = VersionTracker()
        self.children: dict[tuple[int, int], Outcome] = {}
        """Outcomes of messages that are still to be made, by the number of the outcome and action that make them."""
        self.waiting = 0
        """How many messages evaluated on it have not been committed yet."""
        self.is_held = True
        """Whether messages are still being evaluated on it."""


class Evaluation:
    """A round that has begun: messages on their way through the evaluator."""

    def __init__(
        self,
        batch: Sequence[StoredMessage],
        deep: bool,
        view: View,
        evaluate: Callable[[], RoundResult],
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
        """Evaluate in the background. `done` is called when the outcomes are there."""

        def run() -> None:
            try:
                self._run()
            finally:
                self._done.set()
                done()

        self._thread = threading.Thread(target=run, name="demaq-ahead", daemon=True)
        self._thread.start()

    def is_done(self) -> bool:
        """Whether what was started is over."""
        return self._done.is_set()

    def wait(self) -> None:
        """Until the outcomes are there. Raises what went wrong."""
        self.leave()
        if self._thread is None:
            self._run()
        if self._error is not None:
            raise self._error

    def leave(self) -> None:
        """Until it is over, whatever came of it."""
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
        self.outcomes = result.outcomes
        for outcome in result.descendants:
            assert outcome.parent is not None, "a descendant has a parent"
            self.view.children[outcome.parent] = outcome


@dataclass(slots=True)
class _Candidate:
    """A message in its place, with what its rules would do; None where nobody knows yet."""

    order: tuple[int, int]
    message: StoredMessage
    outcome: Outcome | None
    view: View
    born: dict[SliceKey, Version | None] = field(default_factory=dict)
    """For a message made in this round: when its slices had been reset before."""
    creation: int | None = None
    """For a message made in this round: the position of the step that created it among the changes of its view."""
    losses: int = 0
    parts: list[StateKey] | None = None


class Rounds:
    """Runs rounds on a store, one at a time."""

    def __init__(
        self,
        evaluator: RoundEvaluator,
        maker: MessageFactory,
        store: Store,
        clock: Callable[[], datetime],
        step: Callable[[StoredMessage, Outcome, datetime, int], tuple[Step, list[int]]],
        commit: Callable[[Sequence[Step]], None],
        hops_max: int,
    ) -> None:
        """`step` says what becomes of a message: the step of that number, and which action made each of the messages
        it creates."""
        self._evaluator = evaluator
        self._maker = maker
        self._store = store
        self._clock = clock
        self._step = step
        self._commit = commit
        self._hops_max = hops_max
        self._parts = StateKeys(maker.plan)
        self.changing = threading.RLock()
        """Held by whoever changes what rules may see, and while it is looked whether outcomes still hold."""
        self._views: list[View] = []
        self._again_messages = AGAIN_MESSAGES_FIRST
        self.evaluated_again = 0
        """How many messages of the last round were."""
        self.deferred: list[tuple[StoredMessage, str]] = []
        """Messages that rounds have left out because they take too long, each with the reason."""
        self.has_left_out = False
        """Whether the last round has left out some, or others that come after one in a slice."""
        self.held: dict[SliceKey, Order] = {}
        """Slices whose next member is evaluated apart: its place, which those after it must not overtake."""

    def order(self, message: StoredMessage) -> Order:
        return -(self._maker.priority(message.queue) or 0), message.seq

    def is_held(self, order: Order, slices: Sequence[SliceKey]) -> bool:
        """Whether a message in this place and these slices has to wait for one that is evaluated apart."""
        return bool(self.held) and any([key in self.held and self.held[key] < order for key in slices])

    def read(self, numbers: Sequence[int]) -> list[StoredMessage]:
        """Messages as they are now."""
        return self._store.messages(numbers)

    # from outside

    def arrived(self, messages: Sequence[NewMessage]) -> None:
        """Others have stored messages."""
        for view in self._views:
            for message in messages:
                view.outside.add(_OTHER, self._parts.created(message.queue, message.slices, message.entries))

    def taken(self, messages: Sequence[StoredMessage]) -> None:
        """Others have processed messages: what has read them, and is not committed yet, has to read again."""
        parts = [part for message in messages for part in self._parts.gone(message.queue)]
        for view in self._views:
            view.inside.add(_OTHER, parts)

    # a round

    def begin(self, batch: Sequence[StoredMessage], deep: bool, fold: bool) -> Evaluation:
        """Begin a round with messages on the newest snapshot, with `deep` also with all that they lead to.

        With `fold` a conversation that nobody else has a part in is one step.
        """
        return self._begin(batch, self._evaluator.run, deep, fold)

    def begin_apart(
        self, batch: Sequence[StoredMessage], evaluate: Callable[[RoundRequest], RoundResult]
    ) -> Evaluation:
        """Begin to evaluate messages on the newest snapshot by other means than a round's."""
        return self._begin(batch, evaluate, deep=False, fold=False)

    def _begin(
        self, batch: Sequence[StoredMessage], evaluate: Callable[[RoundRequest], RoundResult], deep: bool, fold: bool
    ) -> Evaluation:
        with self.changing:
            snapshot = self._store.snapshot()
            view = View(self._clock())
            self._views.append(view)
        request = RoundRequest(batch=batch, snapshot=snapshot, now=view.now, deep=deep, fold=fold)
        return Evaluation(batch, deep, view, lambda: evaluate(request))

    def end_apart(self, begun: Evaluation) -> set[int]:
        """Commit those messages of an evaluation apart that still hold; the answer is their numbers."""
        try:
            begun.wait()
            return _Round(self, begun, is_apart=True).run_apart()
        finally:
            begun.view.is_held = False
            with self.changing:
                self._views[:] = [view for view in self._views if view.is_held]

    def end(self, begun: Evaluation, meanwhile: Callable[[], None] = lambda: None) -> int:
        """Commit a round that has begun; the answer is how many messages were processed.

        What is to happen `meanwhile` is called when the messages are evaluated, before anything is committed.
        """
        self.evaluated_again = 0
        self.has_left_out = False
        try:
            begun.wait()
            meanwhile()
            return _Round(self, begun).run()
        finally:
            begun.view.is_held = False
            with self.changing:
                self._views[:] = [view for view in self._views if view.is_held]

    def forget(self, begun: Evaluation) -> None:
        """Leave a round that has begun."""
        begun.leave()
        with self.changing:
            self._views.remove(begun.view)

    def evaluated_now(self, batch: Sequence[StoredMessage], deep: bool) -> Evaluation:
        """Messages of a round that is being committed, once more, as things are now."""
        self.evaluated_again += len(batch)
        with self.changing:
            for view in self._views:
                view.inside.include(view.outside)  # others will have seen it
            evaluation = self.begin(batch, deep, fold=False)
        try:
            evaluation.wait()
        except BaseException:
            evaluation.view.is_held = False
            raise
        return evaluation


class _Round:
    def __init__(self, rounds: Rounds, begun: Evaluation, is_apart: bool = False) -> None:
        """With `is_apart` nothing is evaluated again, and what is made is left to the rounds."""
        self._rounds = rounds
        self._is_apart = is_apart
        self._deep = begun.deep
        self._heap: list[tuple[tuple[int, int], _Candidate]] = []
        """Candidates by their places, no two of which are the same."""
        self._barrier: tuple[int, int] | None = None
        """The place of the first message that is left to the next round: nobody behind it may go first."""
        self._done = 0
        self._take(begun, [0] * len(begun.batch))

    def run(self) -> int:
        rounds = self._rounds
        while self._heap and not self._is_over():
            with rounds.changing:
                if self._first.losses >= LOSSES_MAX and self._is_stale(self._first):
                    self._evaluate_again(1)
                steps = self._steps_that_hold()
                rounds._commit(steps)
            self._done += sum([1 + step.elided // NUMBERS_PER_MESSAGE for step in steps])
            if self._heap and not self._is_over() and self._first.losses < LOSSES_MAX and len(steps) < COMMIT_STEPS_MAX:
                self._evaluate_again(rounds._again_messages)
        return self._done

    def run_apart(self) -> set[int]:
        """Commit all that holds; the answer is which messages were processed."""
        rounds = self._rounds
        committed: set[int] = set()
        while self._heap:
            with rounds.changing:
                steps = self._steps_that_hold()
                rounds._commit(steps)
            committed.update([step.processed for step in steps if step.processed is not None])
            if self._heap and len(steps) < COMMIT_STEPS_MAX:
                self._pop()
        return committed

    @property
    def _first(self) -> _Candidate:
        """Whose turn it is."""
        return self._heap[0][1]

    def _is_over(self) -> bool:
        return self._barrier is not None and self._first.order > self._barrier

    def _take(self, evaluation: Evaluation, losses: Sequence[int]) -> None:
        """Put messages that were evaluated in their places."""
        deferred = [outcome is not None and outcome.deferred is not None for outcome in evaluation.outcomes]
        if any(deferred) and not self._is_apart:
            self._defer(evaluation)
        for message, outcome, lost, left_out in zip(
            evaluation.batch, evaluation.outcomes, losses, deferred, strict=True
        ):
            order = self._rounds.order(message)
            if self._is_apart:
                left_out = outcome is None or left_out
            else:
                left_out = left_out or self._rounds.is_held(order, message.slices)
            if left_out:
                self._rounds.has_left_out = True
            else:
                self._push(_Candidate(order, message, outcome, evaluation.view, losses=lost))
        evaluation.view.is_held = False

    def _defer(self, evaluation: Evaluation) -> None:
        """Leave out what takes too long. What comes after it in one of its slices waits in the store."""
        rounds = self._rounds
        for message, outcome in zip(evaluation.batch, evaluation.outcomes, strict=True):
            if outcome is not None and outcome.deferred is not None:
                rounds.deferred.append((message, outcome.deferred))
                order = rounds.order(message)
                for key in message.slices:
                    rounds.held[key] = min(order, rounds.held.get(key, order))

    def _evaluate_again(self, limit: int) -> None:
        """Take outcomes that no longer hold off the front, and ask again as things are now."""
        stale: list[_Candidate] = []
        while self._heap and len(stale) < limit and self._is_stale(self._first):
            stale.append(self._pop())
        if not stale:
            return
        seqs = [item.message.seq for item in stale]
        current = self._rounds._store.messages(seqs)
        assert len(current) == len(seqs), "an unprocessed message is never removed"
        by_seq = {message.seq: message for message in current}
        evaluation = self._rounds.evaluated_now([by_seq[seq] for seq in seqs], self._deep)
        self._take(evaluation, [item.losses + 1 for item in stale])

    def _push(self, candidate: _Candidate) -> None:
        candidate.view.waiting += 1
        heapq.heappush(self._heap, (candidate.order, candidate))

    def _pop(self) -> _Candidate:
        candidate = heapq.heappop(self._heap)[1]
        candidate.view.waiting -= 1
        return candidate

    def _is_stale(self, candidate: _Candidate) -> bool:
        outcome, view = candidate.outcome, candidate.view
        if outcome is None:
            return True
        folded = outcome.folded
        if folded is not None:
            if candidate.message.hops + folded.depth >= self._rounds._hops_max:
                return True
            if self._rounds.held and _meets([*folded.read, *folded.changed], self._rounds.held):
                return True
            candidate.parts = list(folded.read)
        elif candidate.parts is None:
            candidate.parts = self._rounds._parts.read(candidate.message.slices, outcome.reads)
        if not view.inside.agree(candidate.parts, outcome.seen):
            return True
        if outcome.members is not None and outcome.members != self._members(candidate):
            return True
        if outcome.order and view.inside.order(candidate.parts, candidate.creation) != outcome.order:
            return True
        if not view.outside.versions:
            return False
        # A reset is about all messages of a slice: those that arrived meanwhile must have been seen.
        resets = [action for action in outcome.actions if isinstance(action, SliceReset)]
        if view.outside.touch([("slice", action.slicing, action.key) for action in resets]):
            return True
        if not view.outside.touch(candidate.parts):
            return False
        # It counts as evaluated before the arrival. So must what it has seen, and what it creates: but these have
        # higher numbers than what arrived, which a rule could find out.
        return bool(outcome.seen) or self._rounds._parts.creates_ordered(outcome.actions)

    def _members(self, candidate: _Candidate) -> frozenset[str]:
        """The slicings in whose slices a message is now: since its creation, these have not been reset.

        Its own view knows of all resets since the message was read or created; another one may be younger than some.
        """
        slices = candidate.message.slices
        if not slices:
            return NO_SLICES
        versions = candidate.view.inside.versions
        born = candidate.born
        return frozenset([key[0] for key in slices if versions.get(("reset", *key)) == born.get(key)])

    def _steps_that_hold(self) -> list[Step]:
        """The steps from the front up to an outcome that no longer holds."""
        steps: list[Step] = []
        number = self._rounds._store.snapshot()
        while self._heap and len(steps) < COMMIT_STEPS_MAX and not self._is_over() and not self._is_stale(self._first):
            head = self._pop()
            outcome = head.outcome
            assert outcome is not None
            number += 1
            step, makers = self._rounds._step(head.message, outcome, head.view.now, number)
            steps.append(step)
            self._note(head, outcome, step, _is_foreseen(outcome, step, makers))
            creation = head.view.inside.steps
            number += step.elided
            for position, created in enumerate(step.created):
                number += 1
                if created.priority is not None:
                    action = makers[position] if position < len(makers) else -1
                    self._lead_on(created, number, head.view, creation, outcome.number, action)
        views = self._rounds._views
        views[:] = [view for view in views if view.waiting or view.is_held]
        return steps

    def _lead_on(self, created: NewMessage, number: int, view: View, creation: int, outcome: int, action: int) -> None:
        """A message is made: it takes its place in this round, or is left to the next one."""
        assert created.priority is not None
        order = (-created.priority, number)
        if self._is_apart or self._rounds.is_held(order, created.slices):
            return
        child = view.children.pop((outcome, action), None) if outcome >= 0 else None
        if self._deep and self._done < STEPS_MAX:
            message = as_stored(created, number)
            born = {key: view.inside.versions.get(("reset", *key)) for key in message.slices}
            self._push(_Candidate(order, message, child, view, born, creation))
        elif self._barrier is None or order < self._barrier:
            self._barrier = order

    def _note(self, head: _Candidate, outcome: Outcome, step: Step, is_foreseen: bool) -> None:
        """Tell all views what a step changes. Whoever has evaluated a message behind it has seen what was foreseen."""
        parts = self._rounds._parts.reset(step.resets) if step.resets else []
        if outcome.folded is not None:
            parts += outcome.folded.changed
        for created in step.created:
            parts += self._rounds._parts.created(created.queue, created.slices, created.entries)
        members = self._members(head)
        if not any([key[0] in members and key not in step.resets for key in head.message.slices]):
            parts += self._rounds._parts.gone(head.message.queue)
        for view in self._rounds._views:
            view.inside.add(outcome.key if is_foreseen and head.view is view else _OTHER, parts)


def _meets(parts: Sequence[StateKey], slices: Container[SliceKey]) -> bool:
    """Whether one of these slices is among the parts of a conversation."""
    return any([part[0] in ("slice", "reset") and (part[1], part[2]) in slices for part in parts])


def _is_foreseen(outcome: Outcome, step: Step, makers: Sequence[int]) -> bool:
    """Whether a step creates what its outcome says, and neither less nor, as about errors, more."""
    return len(makers) == len(step.created) == sum([isinstance(action, Enqueued) for action in outcome.actions])
