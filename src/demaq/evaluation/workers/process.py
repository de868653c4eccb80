"""Evaluate rules in a worker, so that a rule that does not end, or ends its process, fails alone.

The worker gets the files of the program and the location of the store, reads messages and state at the snapshot of each
request, and returns outcomes. If it does not reply in time, takes too much memory or dies, it is replaced. It is a
local process, or a task on Spark as soon as one waits.

A patient evaluator then bisects the messages until it finds the culprit, and evaluates that one rule by rule: the rule
that does not return fails, the others act. An evaluator of rounds is not patient: it defers the messages that the
worker is busy with as soon as they take unusually long (`demaq.engine.slow_messages`), and asks again about the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from demaq.bisection import bisect
from demaq.errors import MessageError
from demaq.evaluation.arrival_request import ArrivalRequest, ArrivalResult
from demaq.evaluation.native.ledger import NativeLedger
from demaq.evaluation.native.native_settings import DEFAULT, NativeSettings
from demaq.evaluation.outcomes import NOT_EVALUATED, AskedRule, Deferral, Outcome, RuleError
from demaq.evaluation.round_request import PropertyRequest, PropertyResult, RoundRequest, RoundResult
from demaq.evaluation.saxon.saxon_evaluator import ROUND_MESSAGES_MAX
from demaq.evaluation.workers.child import Spares, Start
from demaq.evaluation.workers.worker_connection import EvaluatorGone, Limits, WaitingWorkers
from demaq.evaluation.workers.worker_protocol import (
    CheckNative,
    ComputeEach,
    ComputeProperties,
    EvaluateEach,
    EvaluateMessages,
    EvaluateRule,
    ListRules,
    MigrateProperties,
    ReplyKind,
    Request,
    RunRound,
    Withdraw,
)
from demaq.evaluation.workers.worker_slot import WorkerSlot

RULE_TIMEOUT_SECONDS = 30.0
RULE_TIMEOUT_SECONDS_MIN = 0.1
RULE_TIMEOUT_SECONDS_MAX = 7 * 24 * 3600.0
RULE_MEMORY_BYTES_MIN = 10_000_000
RULE_MEMORY_BYTES = 2_000_000_000
"""By how much a worker may grow during a request."""
FURTHER_MESSAGE_SECONDS = 0.01
"""What each further message adds to the time limit of a batch."""
SIFT_SECONDS = 0.25
"""How long messages are sifted before those that are evaluated are committed."""
SLOW_QUEUE_SECONDS = 2.0
"""After messages of a queue were deferred, others of the queue are deferred at once for so long: rounds that were
begun before may contain some."""
ATTEMPTS_MAX = 5
"""Attempts for a rule or a message that was alone in a worker when it died."""
CHECK_TIMEOUT_SECONDS = 10.0
"""Time limit for checking native answers, including what Saxon compiles for it."""
RULES_GIVEN_UP_MAX = 5
"""If so many rules of a message did not return, its other rules are not tried: each costs a timeout."""
SUSPECTS_MAX = 1000
"""For so many messages the rules are remembered that did not return."""

_log = logging.getLogger("demaq.node")


class ProcessEvaluator(WorkerSlot):
    """A RoundEvaluator and PropertyEvaluator in another process. Must be closed."""

    messages_max = ROUND_MESSAGES_MAX
    rounds_max = 1

    def __init__(
        self,
        files: Mapping[str, str],
        store: str | Path,
        rule_timeout_seconds: float = RULE_TIMEOUT_SECONDS,
        rule_memory_bytes: int | None = RULE_MEMORY_BYTES,
        spares: Spares | None = None,
        is_patient: bool = True,
        native: NativeSettings = DEFAULT,
        ledger: NativeLedger | None = None,
        elsewhere: WaitingWorkers | None = None,
    ) -> None:
        """`files` are the program's modules by path, as they were when it was checked.

        If not patient, messages of rounds that take unusually long are deferred. The ledger counts the answers of
        native rules and knows which queues are left to Saxon. A worker `elsewhere` is used in place of a process as
        soon as one waits.
        """
        start = Start(files=files, store=store, orphan_seconds=rule_timeout_seconds, native=native)
        super().__init__(start, spares or Spares(), elsewhere)
        self._ledger = ledger or NativeLedger()
        self._rule_timeout_seconds = rule_timeout_seconds
        self._rule_memory_bytes = rule_memory_bytes
        self._is_patient = is_patient
        self._given_up: dict[int, dict[str, RuleError]] = {}
        """Rules that did not return, by the seq of the message."""
        self._slow_queues: dict[str, float] = {}
        """When messages of a queue were deferred last."""

    def twin(
        self, is_patient: bool | None = None, is_urgent: bool = True, is_local: bool = False, has_process: bool = True
    ) -> ProcessEvaluator:
        """Return another evaluator of the same program and store, which shares what is known about slow messages.

        One that is not urgent does not use spare workers, one that is local no workers elsewhere, one without a process
        only these.
        """
        twin = ProcessEvaluator(
            self._start.files,
            self._start.store,
            self._rule_timeout_seconds,
            self._rule_memory_bytes,
            self._spares if is_urgent else None,
            self._is_patient if is_patient is None else is_patient,
            self._start.native,
            self._ledger,
            None if is_local else self._elsewhere,
        )
        twin.has_process = has_process
        twin._given_up = self._given_up
        twin._slow_queues = self._slow_queues
        return twin

    # rounds

    def run(self, request: RoundRequest) -> RoundResult:
        if not self._is_patient:
            return self._run_or_defer(request)
        if self._given_up and not self._given_up.keys().isdisjoint(request.seqs):
            return self._run_separately(request)
        try:
            result: RoundResult = self._ask(RunRound.of(request), self._limits(len(request.batch)))
            return result
        except EvaluatorGone:  # because of one of them, or of a descendant, which is evaluated again once it is stored
            if len(request.batch) <= 2:
                return RoundResult([self._evaluate_rule_by_rule(seq, request) for seq in request.seqs])
            return self._run_separately(request)

    def _run_separately(self, request: RoundRequest) -> RoundResult:
        """Evaluate each message as if it were alone, and those that did not end before rule by rule."""
        seqs = request.seqs
        unsuspected = [seq for seq in seqs if seq not in self._given_up]
        outcomes = dict(zip(unsuspected, self._evaluate(unsuspected, request), strict=True))
        for seq in seqs:
            if seq not in outcomes:
                outcomes[seq] = self._evaluate_rule_by_rule(seq, request)
        return RoundResult([outcomes[seq] for seq in seqs])

    def _run_or_defer(self, request: RoundRequest) -> RoundResult:
        """Defer messages that the process is busy with for unusually long, and go on with the others."""
        result = RoundResult([None] * len(request.batch))
        left = list(range(len(request.batch)))
        limits = self._limits(len(left), is_patient=False)
        is_lost = False
        while left:
            if self._slow_queues:
                left = self._defer_slow_queues(request, left, result)
            part = request.select(left)
            try:
                found = self._ask(RunRound.of(part), limits) if left else RoundResult([])
            except EvaluatorGone as gone:
                if gone.died and self._was_on_spark and not is_lost:  # perhaps with its executor: others are asked
                    is_lost = True
                    continue
                slow = gone.numbers.intersection(part.seqs)
                if not slow and request.deep:  # it is about descendants, which are evaluated again once they are stored
                    request = request.without_descendants()
                    continue
                for position in left:
                    message = request.batch[position]
                    if not slow or message.seq in slow:
                        result.outcomes[position] = Outcome(deferred=Deferral(str(gone)), number=position)
                        self._slow_queues[message.queue] = time.monotonic()
                left = [position for position in left if result.outcomes[position] is None]
            else:
                result.insert(left, found)
                break
        return result

    def _defer_slow_queues(self, request: RoundRequest, left: Sequence[int], result: RoundResult) -> list[int]:
        """Defer messages of queues of which others were just given up. Return the positions that are left."""
        since = time.monotonic() - SLOW_QUEUE_SECONDS
        slow = {queue for queue, at in list(self._slow_queues.items()) if at > since}
        for position in left:
            if request.batch[position].queue in slow:
                untried = Deferral("others of its queue have just taken too long", was_tried=False)
                result.outcomes[position] = Outcome(deferred=untried, number=position)
        return [position for position in left if result.outcomes[position] is None]

    def sift(self, request: RoundRequest) -> RoundResult:
        """Evaluate messages one by one, for a short time or until one takes long, which is deferred.

        There is no outcome for those that were not reached.
        """
        seqs = request.seqs
        known = [position for position, seq in enumerate(seqs) if seq in self._given_up]
        asked = seqs[: known[0]] if known else seqs
        found: list[Outcome | None] = []
        try:
            each = EvaluateEach(seqs=asked, snapshot=request.snapshot, now=request.now, seconds=SIFT_SECONDS)
            for outcome in self._ask_each(each, self._limits(1, is_patient=False)):
                found.append(outcome)
        except EvaluatorGone as gone:
            if len(found) < len(asked):  # otherwise it died after the last one
                found.append(Outcome(deferred=Deferral(str(gone))))
        if known and len(found) == known[0]:
            found.append(Outcome(deferred=Deferral("it did not end before")))
        return RoundResult([*found, *[None] * (len(seqs) - len(found))])

    def evaluate_alone(self, request: RoundRequest) -> RoundResult:
        """Evaluate messages that take long: one rule by rule, several as long as none of them exceeds a limit."""
        seqs = request.seqs
        if len(seqs) == 1:
            return RoundResult([self._evaluate_rule_by_rule(seqs[0], request)])
        try:
            return RoundResult(self._ask(_alone(seqs, request), self._limits(len(seqs))))
        except EvaluatorGone as gone:
            return RoundResult([Outcome(deferred=Deferral(str(gone))) for _ in seqs])

    def _evaluate(self, seqs: Sequence[int], request: RoundRequest) -> list[Outcome]:
        """Evaluate messages, in halves if the process does not return."""

        def attempt(part: Sequence[int]) -> list[Outcome]:
            found: list[Outcome] = self._ask(_alone(part, request), self._limits(len(part)))
            return found

        def isolate(part: Sequence[int], _: Exception) -> list[Outcome]:
            return [self._evaluate_rule_by_rule(seq, request) for seq in part]

        # Not down to one: asking about one of two messages with all its rules would cost one more timeout.
        return bisect(seqs, attempt, isolate, errors=EvaluatorGone, size_min=2)

    def _evaluate_rule_by_rule(self, seq: int, request: RoundRequest) -> Outcome:
        outcome = Outcome()
        try:
            rules: list[AskedRule] = self._ask(ListRules(seq=seq), self._limits())
        except EvaluatorGone as gone:
            outcome.lost = f"evaluating the message failed: {gone}"
            return outcome
        given_up: dict[str, RuleError] = self._given_up.get(seq, {})
        for rule in rules:
            if rule.name not in given_up:
                try:
                    outcome.add(self._evaluate_rule(seq, rule, request, len(given_up)))
                    continue
                except EvaluatorGone as gone:
                    given_up[rule.name] = _given_up(rule, gone)
            outcome.errors.append(given_up[rule.name])
        self._remember(seq, given_up)
        return outcome

    def _remember(self, seq: int, given_up: dict[str, RuleError]) -> None:
        """Remember rules that did not return, in case the message is evaluated again on newer state."""
        if given_up:
            self._given_up[seq] = given_up
        if len(self._given_up) > SUSPECTS_MAX:
            del self._given_up[next(iter(self._given_up))]

    def _evaluate_rule(self, seq: int, rule: AskedRule, request: RoundRequest, given_up: int) -> Outcome:
        if given_up >= RULES_GIVEN_UP_MAX:
            raise EvaluatorGone(f"it was not asked, because {given_up} other rules did not come back")
        asked = EvaluateRule(seq=seq, rule=rule.number, snapshot=request.snapshot, now=request.now)
        found: Outcome = self._ask_again(asked)
        return found

    # arrivals

    def send_arrivals(self, request: ArrivalRequest) -> Callable[[], ArrivalResult | None]:
        """Send messages that are not stored yet. Return a function that waits for the result and has to be called.

        The result is None if they take unusually long, or end the process. Not to be called by several threads at once:
        other requests wait until the result is there.
        """
        replies = self._ask_each(request, self._limits(len(request.messages), is_patient=False), announce=True)
        next(replies)

        def receive() -> ArrivalResult | None:
            try:
                [result] = replies
            except EvaluatorGone:
                return None
            found: ArrivalResult = result
            return found

        return receive

    # properties

    def compute_properties(self, requests: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        return self._bisect(ComputeProperties, requests)

    def compute_quickly(self, requests: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError | None]:
        """Return None for a message that takes unusually long, so that the senders of others need not wait for it."""
        limits = self._limits(len(requests), is_patient=False)
        try:
            return list(self._ask(ComputeProperties(requests=requests), limits)) if requests else []
        except EvaluatorGone:
            pass
        results: list[PropertyResult | MessageError | None] = []
        while len(results) < len(requests):  # one by one, so that it shows which one it is
            try:
                for result in self._ask_each(ComputeEach(requests=requests[len(results) :]), limits):
                    results.append(result)
            except EvaluatorGone:
                if len(results) < len(requests):  # otherwise it died after the last one
                    results.append(None)
        return results

    def migrate_properties(self, requests: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        return self._bisect(MigrateProperties, requests)

    def _bisect(
        self, ask: type[ComputeProperties | MigrateProperties], requests: Sequence[PropertyRequest]
    ) -> list[PropertyResult | MessageError]:
        def attempt(part: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
            asked = ask(requests=part)
            results: list[PropertyResult | MessageError]
            results = self._ask_again(asked) if len(part) == 1 else self._ask(asked, self._limits(len(part)))
            return results

        def isolate(_: Sequence[PropertyRequest], gone: Exception) -> list[PropertyResult | MessageError]:
            return [MessageError("propertyError", f"its properties cannot be computed: {gone}")]

        return bisect(requests, attempt, isolate, errors=EvaluatorGone)

    def _limits(self, messages: int = 1, is_patient: bool = True) -> Limits:
        seconds = self._rule_timeout_seconds + (messages - 1) * FURTHER_MESSAGE_SECONDS
        return Limits(seconds, self._rule_memory_bytes, is_patient)

    # requests

    def _ask_again(self, request: Request) -> Any:
        """Return the reply to a request about one message; ask again if the worker died, perhaps from outside."""
        for _ in range(ATTEMPTS_MAX - 1):
            try:
                return self._ask(request, self._limits())
            except EvaluatorGone as gone:
                if not gone.died:
                    raise
        return self._ask(request, self._limits())

    def _ask(self, request: Request, limits: Limits) -> Any:
        """Return the reply to a request. Raises EvaluatorGone if there is none."""
        [answer] = self._ask_each(request, limits)
        return answer

    def _ask_each(self, request: Request, limits: Limits, announce: bool = False) -> Iterator[Any]:
        """Yield the replies to a request. Raises EvaluatorGone after the last one that came.

        With `announce`, None is yielded first, when the request was sent.
        """
        with self._asking:
            yield from self._exchange(request, limits, announce)

    def _exchange(self, request: Request, limits: Limits, announce: bool = False) -> Iterator[Any]:
        process = self._connected()
        withdrawn = self._ledger.withdrawn
        if withdrawn != self._withdrawn:
            self._withdrawn = withdrawn
            list(self._exchange(Withdraw(rules=withdrawn), limits))
        try:
            watch = process.send(request)
            if announce:
                yield None
            kind = ReplyKind.ITEM
            while kind is ReplyKind.ITEM:
                kind, answer, notes = process.receive(watch, limits)
                if notes is not None:
                    self._ledger.add(notes)
                    self._checks_waiting = notes.waiting
                if kind is ReplyKind.STORE_ERROR:
                    raise answer
                if kind is not ReplyKind.END:
                    yield answer
        except EvaluatorGone:
            self._replace()
            raise
        except GeneratorExit:
            self._end_process()
            raise
        if kind is ReplyKind.RESULT_RECYCLE or (kind is ReplyKind.END and answer):
            self._end_process()

    # native rules

    @property
    def has_checks(self) -> bool:
        """Return whether native answers wait to be checked."""
        return self._checks_waiting > 0 and not self._ledger.checks_failed and not self._is_stopped

    def check_when_idle(self) -> None:
        """Check native answers that wait for it, unless the worker is busy."""
        if not self.has_checks or not self._asking.acquire(blocking=False):
            return
        try:
            seconds = min(CHECK_TIMEOUT_SECONDS, self._rule_timeout_seconds)
            list(self._exchange(CheckNative(), Limits(seconds, self._rule_memory_bytes)))
        except EvaluatorGone as gone:
            if not self._is_stopped:
                self._ledger.checks_failed = True
                _log.warning("native rules are not checked any more, because a check failed: %s", gone)
        finally:
            self._asking.release()


def _given_up(rule: AskedRule, gone: EvaluatorGone) -> RuleError:
    reason = f"evaluating the rule failed: {gone}"
    return RuleError(rule=rule.name, kind="systemError", code=NOT_EVALUATED, description=reason, at=rule.at)


def _alone(seqs: Sequence[int], request: RoundRequest) -> EvaluateMessages:
    return EvaluateMessages(seqs=seqs, snapshot=request.snapshot, now=request.now)
