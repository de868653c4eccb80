"""Evaluate rules in a process beside the node: a rule that never ends or ends its process costs nobody else anything.

The process is given the program's files and where the store is, reads messages and state there by itself at the
snapshot it is told, and answers with outcomes. When it does not answer in time, or is gone, it is replaced and asked
again in halves, until the message is found that it is about. That one is asked about rule by rule: the rule that does
not come back fails, and the others do what they do.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from demaq.errors import EvaluatorUnavailable, MessageError, ProgramError, StoreError
from demaq.messages import Message
from demaq.rounds.evaluator import ROUND_MESSAGES_MAX
from demaq.rounds.outcomes import Arrival, AskedRule, Outcome, Received, RuleError, StateReader
from demaq.scheduler.reading import SnapshotReader, numbers_of

RULE_TIMEOUT_SECONDS = 30.0
FURTHER_MESSAGE_SECONDS = 0.01
"""What each further message adds to the time for a batch: innocent ones take far less."""
START_TIMEOUT_SECONDS = 120.0
ATTEMPTS_MAX = 5
"""So often a rule or a message from outside is tried that is alone in a process when that ends."""
RULES_GIVEN_UP_MAX = 5
"""When so many rules of one message did not come back, its other rules are given up too: each cost a timeout."""
SUSPECTS_MAX = 1000
"""Of so many messages it is remembered which rules did not come back."""

_PROGRAM = "import sys; sys.path.append(sys.argv[2]); from demaq.rounds.worker import main; main(int(sys.argv[1]))"
_PACKAGE_FOLDER = str(Path(__file__).resolve().parents[2])


class EvaluatorGone(Exception):
    """The process did not answer in time, or is no more."""

    def __init__(self, reason: str, died: bool = False) -> None:
        super().__init__(reason)
        self.died = died
        """Whether it ended by itself or by others, which need not be the rule's fault."""


class ProcessEvaluator:
    """An Evaluator in another process. Must be closed."""

    messages_max = ROUND_MESSAGES_MAX
    rounds_max = 1

    def __init__(
        self, files: Mapping[str, str], store: str | Path, rule_timeout_seconds: float = RULE_TIMEOUT_SECONDS
    ) -> None:
        """`files` are the program's modules by path, as they were when it was checked."""
        self._files = dict(files)
        self._store = store
        self._rule_timeout_seconds = rule_timeout_seconds
        self.replaced = 0
        """How many processes had to be replaced because of what they were asked to evaluate."""
        self._asking = threading.Lock()
        """One request at a time; who asks from another thread waits for his turn."""
        self._given_up: dict[int, dict[str, RuleError]] = {}
        """Rules that did not come back, by the message they were asked about."""
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._is_welcome = False
        """Whether the process has said that it is ready."""

    def launch(self) -> None:
        """Let the process begin to start, without waiting for it."""
        if self._connection is None:
            ours, theirs = socket.socketpair()
            with theirs:
                # A plain process: one of multiprocessing would run the program's main module once more.
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno()), _PACKAGE_FOLDER],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                )
            self._connection = Connection(ours.detach())
            self._connection.send((self._files, str(self._store), self._rule_timeout_seconds))
            self._is_welcome = False

    def twin(self) -> ProcessEvaluator:
        """Another one for the same: what one has found out about messages the other knows too."""
        twin = ProcessEvaluator(self._files, self._store, self._rule_timeout_seconds)
        twin._given_up = self._given_up
        return twin

    def is_ready(self) -> bool:
        """Whether the process runs and can be asked now. Raises like `start` where it did not come up."""
        if self._connection is not None and not self._is_welcome and self._connection.poll(0):
            self._connected()
        return self._is_welcome

    @property
    def pid(self) -> int | None:
        """Which process it is, if one runs."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the process, if it does not run. Raises a ProgramError where the program cannot be compiled."""
        self._connected()

    # an Evaluator

    def evaluate(self, messages: Sequence[Message], reader: StateReader, now: datetime) -> list[Outcome]:
        """Outcomes of stored messages; `reader` must be a SnapshotReader."""
        assert isinstance(reader, SnapshotReader), "the other process reads the store itself"
        seqs = numbers_of(messages)
        unsuspected = [seq for seq in seqs if seq not in self._given_up]
        outcomes = dict(zip(unsuspected, self._evaluate(unsuspected, reader.snapshot, now), strict=True))
        for seq in seqs:
            if seq not in outcomes:
                outcomes[seq] = self._evaluate_rule_by_rule(seq, reader.snapshot, now)
        return [outcomes[seq] for seq in seqs]

    def cascade(
        self, messages: Sequence[Message], reader: StateReader, now: datetime, deep: bool, fold: bool = False
    ) -> Sequence[Outcome | None]:
        assert isinstance(reader, SnapshotReader), "the other process reads the store itself"
        seqs = numbers_of(messages)
        if self._given_up and not self._given_up.keys().isdisjoint(seqs):
            return self.evaluate(messages, reader, now)
        try:
            limit = self._rule_timeout_seconds + (len(seqs) - 1) * FURTHER_MESSAGE_SECONDS
            found: Sequence[Outcome | None] = self._ask(("cascade", seqs, reader.snapshot, now, deep, fold), limit)
            return found
        except EvaluatorGone:  # because of one of them, or of what they make, which is then asked about in its turn
            if len(seqs) <= 2:
                return [self._evaluate_rule_by_rule(seq, reader.snapshot, now) for seq in seqs]
            return self.evaluate(messages, reader, now)

    def _evaluate(self, seqs: list[int], snapshot: int, now: datetime) -> list[Outcome]:
        if not seqs:
            return []
        try:
            found: list[Outcome] = self._ask(("evaluate", seqs, snapshot, now), self._limit_seconds(len(seqs)))
            return found
        except EvaluatorGone:
            if len(seqs) <= 2:  # asking about one of two messages with all its rules would cost one more timeout
                return [self._evaluate_rule_by_rule(seq, snapshot, now) for seq in seqs]
        middle = len(seqs) // 2
        return self._evaluate(seqs[:middle], snapshot, now) + self._evaluate(seqs[middle:], snapshot, now)

    def _evaluate_rule_by_rule(self, seq: int, snapshot: int, now: datetime) -> Outcome:
        outcome = Outcome()
        try:
            rules: list[AskedRule] = self._ask(("rules", seq), self._rule_timeout_seconds)
        except EvaluatorGone as gone:
            outcome.lost = f"evaluating the message failed: {gone}"
            return outcome
        given_up: dict[str, RuleError] = self._given_up.get(seq, {})
        for rule in rules:
            if rule.name not in given_up:
                try:
                    outcome.add(self._evaluate_rule(seq, rule, snapshot, now, len(given_up)))
                    continue
                except EvaluatorGone as gone:
                    given_up[rule.name] = _given_up(rule, gone)
            outcome.errors.append(given_up[rule.name])
        self._remember(seq, given_up)
        return outcome

    def _remember(self, seq: int, given_up: dict[str, RuleError]) -> None:
        """Should the message be evaluated again, on newer state, it shall not take as long again."""
        if given_up:
            self._given_up[seq] = given_up
        if len(self._given_up) > SUSPECTS_MAX:
            del self._given_up[next(iter(self._given_up))]

    def _evaluate_rule(self, seq: int, rule: AskedRule, snapshot: int, now: datetime, given_up: int) -> Outcome:
        if given_up >= RULES_GIVEN_UP_MAX:
            raise EvaluatorGone(f"it was not asked, because {given_up} other rules did not come back")
        found: Outcome = self._ask_again(("rule", seq, rule.number, snapshot, now))
        return found

    def receive_many(self, arrivals: Sequence[Arrival]) -> list[Received | MessageError]:
        return self._in_halves("receive_many", arrivals)

    def restate_many(self, arrivals: Sequence[Arrival]) -> list[Received | MessageError]:
        return self._in_halves("restate_many", arrivals)

    def _in_halves(self, what: str, arrivals: Sequence[Arrival]) -> list[Received | MessageError]:
        if not arrivals:
            return []
        answers: list[Received | MessageError]
        try:
            if len(arrivals) == 1:
                answers = self._ask_again((what, arrivals))
            else:
                answers = self._ask((what, arrivals), self._limit_seconds(len(arrivals)))
            return answers
        except EvaluatorGone as gone:
            if len(arrivals) == 1:
                return [MessageError("propertyError", f"its properties cannot be computed: {gone}")]
        middle = len(arrivals) // 2
        return self._in_halves(what, arrivals[:middle]) + self._in_halves(what, arrivals[middle:])

    def _limit_seconds(self, messages: int) -> float:
        return self._rule_timeout_seconds + (messages - 1) * FURTHER_MESSAGE_SECONDS

    # the process

    def _ask_again(self, request: tuple[Any, ...]) -> Any:
        """Ask about one thing, again if the process ends: perhaps somebody else has ended it."""
        for _ in range(ATTEMPTS_MAX - 1):
            try:
                return self._ask(request, self._rule_timeout_seconds)
            except EvaluatorGone as gone:
                if not gone.died:
                    raise
        return self._ask(request, self._rule_timeout_seconds)

    def _ask(self, request: tuple[Any, ...], limit_seconds: float) -> Any:
        with self._asking:
            return self._asked(request, limit_seconds)

    def _asked(self, request: tuple[Any, ...], limit_seconds: float) -> Any:
        connection = self._connected()
        try:
            connection.send(request)
            if not connection.poll(limit_seconds):
                raise EvaluatorGone(f"it did not end within {limit_seconds:g} s")
            kind, answer = connection.recv()
        except (EOFError, OSError):
            self._replace()
            raise EvaluatorGone("the process that evaluated it came to its end", died=True) from None
        except EvaluatorGone:
            self._replace()
            raise
        if kind == "recycle":
            self.close()
        if kind == "fault":
            raise answer
        return answer

    def _connected(self) -> Connection:
        self.launch()
        assert self._connection is not None
        if not self._is_welcome:
            self._welcome(self._connection)
            self._is_welcome = True
        return self._connection

    def _welcome(self, connection: Connection) -> None:
        try:
            refused: list[ProgramError | StoreError] | None = (
                connection.recv() if connection.poll(START_TIMEOUT_SECONDS) else None
            )
        except (EOFError, OSError):
            refused = None
        if refused is None:
            self.close()
            raise EvaluatorUnavailable("the process that evaluates rules did not start")
        if refused:
            self.close()
            first, *others = refused
            if isinstance(first, ProgramError):
                first.others = tuple([other for other in others if isinstance(other, ProgramError)])
            raise first

    def _replace(self) -> None:
        self.replaced += 1
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._is_welcome = False
        if self._process is not None:
            self._process.kill()  # it holds nothing that is not in the store
            self._process.wait()
            self._process = None


def _given_up(rule: AskedRule, gone: EvaluatorGone) -> RuleError:
    reason = f"evaluating the rule failed: {gone}"
    return RuleError(rule=rule.name, kind="systemError", code="demaq:notEvaluated", description=reason, at=rule.at)
