"""Run scenarios: an application's own tests, each in a laboratory of its own.

    file = read_scenarios("scenarios.yaml", load_program("orders.dmq"))
    for result in run_scenarios("orders.dmq", file.scenarios):
        assert result.failure is None, result.failure

A scenario ends at its first step that fails; the next one begins anew. At the end every error message must have been
expected, unless the scenario says that errors are allowed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from demaq.documents import Document
from demaq.errors import MessageError, StillBusy
from demaq.evaluation.native.native_settings import EvaluatorName
from demaq.source import SourceLocation
from demaq.store.memory_store import MemoryStore
from demaq.system_properties import ERROR_LEVEL
from demaq.testing.lab import START, Lab, LabMessage
from demaq.testing.scenarios_diff import difference
from demaq.testing.scenarios_layout import message_lines
from demaq.testing.scenarios_reading import ScenarioError, read_scenarios
from demaq.testing.scenarios_steps import (
    Arrives,
    Crash,
    ExpectError,
    ExpectNoErrors,
    ExpectQueue,
    ExpectRefusal,
    ExpectSlice,
    ExpectTimers,
    Look,
    Passes,
    Scenario,
    ScenarioFile,
    ScenarioMessage,
    Step,
    Takes,
    Wanted,
)

__all__ = [
    "Scenario",
    "ScenarioError",
    "ScenarioFailure",
    "ScenarioFile",
    "ScenarioResult",
    "read_scenarios",
    "run_scenarios",
]

Application = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFailure:
    """Why a scenario failed, and where."""

    at: SourceLocation
    step: str
    message: str
    diff: str | None = None
    errors: tuple[str, ...] = ()
    """Error messages that were not expected by then: often the reason."""
    why: tuple[str, ...] = ()
    """If messages are missing: why rules that might have made them did not fire."""

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.at.file}:{self.at.line}: {self.step}", self.message, *(self.diff or "").splitlines(), *self.why]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    scenario: Scenario
    failure: ScenarioFailure | None


def run_scenarios(
    application: Application, scenarios: Iterable[Scenario], evaluator: EvaluatorName = "auto"
) -> Iterator[ScenarioResult]:
    """Run scenarios one after the other, and yield their results."""
    for scenario in scenarios:
        yield ScenarioResult(scenario=scenario, failure=_failure(application, scenario, evaluator))


def _failure(application: Application, scenario: Scenario, evaluator: EvaluatorName) -> ScenarioFailure | None:
    with _lab(application, scenario, evaluator) as lab:
        run = _ScenarioRun(lab, scenario)
        for number, step in enumerate(scenario.steps):
            following = scenario.steps[number + 1] if number + 1 < len(scenario.steps) else None
            try:
                run.perform(step, following)
            except _ScenarioFailed as failed:
                errors = tuple([error.summary() for error in run.unexpected()])
                why = () if failed.missing_in is None else tuple(lab.explain_idle_rules(failed.missing_in))
                message, diff = failed.message, failed.diff
                return ScenarioFailure(at=step.at, step=str(step), message=message, diff=diff, errors=errors, why=why)
        unexpected = run.unexpected()
        if not unexpected or scenario.errors_allowed:
            return None
        step = run.seen_at[unexpected[0].message.id]
        message = "an error was not expected" if len(unexpected) == 1 else f"{len(unexpected)} errors were not expected"
        errors = tuple([error.summary() for error in unexpected])
        return ScenarioFailure(at=step.at, step=str(step), message=message, errors=errors)


def _lab(application: Application, scenario: Scenario, evaluator: EvaluatorName) -> Lab:
    """Return a laboratory; on a disk if something crashes, else in memory, which spares the waiting."""
    lab: Lab | None = None

    def now() -> datetime:
        return lab.now if lab is not None else START

    crashes = any([isinstance(step, Crash) for step in scenario.steps])
    store = None if crashes else MemoryStore(now=now)
    lab = Lab(application, store, scenario.collections, evaluator=evaluator)
    if scenario.begins is not None:
        lab.now = scenario.begins
    return lab


class _ScenarioFailed(Exception):
    def __init__(self, message: str, diff: str | None = None, missing_in: Collection[str] | None = None) -> None:
        """`missing_in` are the queues into which rules have put less than was expected."""
        self.message = message
        self.diff = diff
        self.missing_in = missing_in


class _ScenarioRun:
    """One scenario as it goes on."""

    def __init__(self, lab: Lab, scenario: Scenario) -> None:
        self._lab = lab
        self._scenario = scenario
        self._looked_at: dict[str, int] = {}
        self._expected_errors: set[str] = set()
        self.seen_at: dict[str, Step] = {}
        """The step after which an error message was there."""

    def perform(self, step: Step, following: Step | None) -> None:
        try:
            self._perform(step, following)
        except StillBusy as error:
            raise _ScenarioFailed(str(error)) from None
        for error_message in self._errors():
            self.seen_at.setdefault(error_message.message.id, step)

    def unexpected(self) -> list[_Error]:
        """Return error messages that no step has expected so far, oldest first."""
        return [error for error in self._errors() if error.message.id not in self._expected_errors]

    def _perform(self, step: Step, following: Step | None) -> None:
        match step:
            case Arrives():
                self._enqueue_messages(step)
                if not isinstance(following, Crash):  # a crash that follows comes before anything is processed
                    self._lab.run_until_idle()
            case ExpectRefusal():
                self._check_refusal(step)
            case Passes():
                try:
                    self._lab.advance(step.seconds)
                except ValueError as error:
                    raise _ScenarioFailed(str(error)) from None
            case Crash():
                self._lab.crash()
                self._lab.run_until_idle()
            case Takes():
                self._take(step)
            case ExpectQueue():
                self._expect_queue(step)
            case ExpectSlice():
                self._expect_slice(step)
            case ExpectError():
                self._expect_error(step)
            case ExpectNoErrors():
                if self.unexpected():
                    raise _ScenarioFailed("there are errors")
            case ExpectTimers():
                self._expect_timers(step)

    # doing

    def _enqueue_messages(self, step: Arrives) -> None:
        for message in step.messages:
            refusal = self._refusal(message)
            if refusal is not None:
                raise _ScenarioFailed(f"queue {message.queue} refuses the message ({refusal.kind}): {refusal.message}")

    def _check_refusal(self, step: ExpectRefusal) -> None:
        refusal = self._refusal(step.message)
        if refusal is None:
            raise _ScenarioFailed(f"queue {step.message.queue} accepts the message")
        if step.kind not in (None, refusal.kind):
            raise _ScenarioFailed(f"refused as {refusal.kind}, not as {step.kind}: {refusal.message}")
        if step.reason is not None and step.reason not in refusal.message:
            raise _ScenarioFailed(f'refused for another reason than "{step.reason}": {refusal.message}')

    def _refusal(self, message: ScenarioMessage) -> MessageError | None:
        try:
            self._lab.enqueue(message.queue, message.body, message.properties)
        except MessageError as refusal:
            return refusal
        return None

    def _take(self, step: Takes) -> None:
        number = step.wanted if isinstance(step.wanted, int) else len(step.wanted)
        try:
            taken = self._lab.take(step.queue, number)
        except MessageError as refusal:
            raise _ScenarioFailed(refusal.message) from None
        self._compare(step.wanted, taken, step.any_order, [step.queue])

    # expecting

    def _expect_queue(self, step: ExpectQueue) -> None:
        messages = self._look(step.look, step.queue)
        self._compare(step.wanted, messages, step.any_order, [step.queue])
        self._expected_errors |= {message.id for message in messages}
        if step.look in ("made", "new"):
            self._looked_at[step.queue] = len(self._lab.read_created(step.queue))

    def _look(self, look: Look, queue: str) -> list[LabMessage]:
        match look:
            case "made":
                return self._lab.read_created(queue)
            case "new":
                return self._lab.read_created(queue)[self._looked_at.get(queue, 0) :]
            case "holds":
                return self._lab.read_queue(queue)
            case "retained":
                self._lab.collect_garbage()
                return self._lab.read_stored(queue)
            case "stored":
                return self._lab.read_stored(queue)

    def _compare(
        self, wanted: Wanted, messages: Sequence[LabMessage], any_order: bool, queues: Collection[str]
    ) -> None:
        if isinstance(wanted, int):
            if len(messages) != wanted:
                shown = "\n".join([line for message in messages for line in ["", *message_lines(message.body)]])
                raise _ScenarioFailed(
                    f"{_messages(wanted)} expected, {len(messages)} there" + (":" if shown else "") + shown,
                    missing_in=queues if len(messages) < wanted else None,
                )
            return
        diff = difference(wanted, messages, any_order)
        if diff is not None:
            same = len(wanted) == len(messages)
            count = "" if same else f": {_messages(len(wanted))} expected, {len(messages)} there"
            missing = queues if len(messages) < len(wanted) else None
            raise _ScenarioFailed(f"not what was expected{count}", diff, missing)

    def _expect_slice(self, step: ExpectSlice) -> None:
        try:
            found = self._lab.read_slice(step.slicing, step.key)
        except MessageError as error:  # a key that is none
            raise _ScenarioFailed(error.message) from None
        slicing = self._lab.program.slicings[step.slicing]
        self._compare(step.wanted, found, step.any_order, self._lab.program.properties[slicing.property].values)

    def _expect_error(self, step: ExpectError) -> None:
        for error in self.unexpected():
            if error.fits(step):
                self._expected_errors.add(error.message.id)
                return
        raise _ScenarioFailed("there is no such error" if self.unexpected() else "there is no error")

    def _expect_timers(self, step: ExpectTimers) -> None:
        echo = [queue.name for queue in self._lab.program.queues.values() if queue.kind == "echo"]
        waiting = [message for queue in echo for message in self._lab.read_queue(queue) if not message.processed]
        self._compare(step.count, waiting, True, echo)

    # errors

    def _errors(self) -> list[_Error]:
        made = [message for queue in self._lab.program.queues for message in self._lab.read_created(queue)]
        errors = [_Error(message) for message in made if ERROR_LEVEL in message.properties]
        return sorted(errors, key=lambda error: int(error.message.id))


@dataclass(frozen=True, slots=True)
class _Error:
    """An error message, and what it says."""

    message: LabMessage

    def fits(self, step: ExpectError) -> bool:
        asked = ((step.queue, self.message.queue), (step.kind, self.kind), (step.rule, self._part("rule")))
        return all([expected in (None, found) for expected, found in (*asked, (step.code, self._part("code")))]) and (
            step.contains or ""
        ) in self._part("description")

    def summary(self) -> str:
        rule = self._part("rule")
        of_rule = f" of rule {rule}" if rule else ""
        return f"{self.message.queue}: {self.kind}{of_rule}, {self._part('code')}: {self._part('description')}"

    @property
    def kind(self) -> str:
        return str(Document(self.message.body).tree.getroot()[0].tag)

    def _part(self, name: str) -> str:
        return Document(self.message.body).tree.findtext(name) or ""


def _messages(number: int) -> str:
    return f"{number} message{'' if number == 1 else 's'}"
