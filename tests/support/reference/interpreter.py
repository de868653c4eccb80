"""The meaning of a program: queues as a list, one message at a time, everything in memory.

No plan, no round, no index, no store. Rules are judged by the oracle beside this file; here stands what their verdicts
do to the messages (language reference: execution, properties, queues).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from demaq.documents import parse_document
from demaq.language.program.program import SYSTEM_ERRORS, Rule
from demaq.messages import Message, PropertyValue
from demaq.testing.lab import load_text
from tests.support.reference.imagined_rules import arrival, consequence, error_text, oracles, properties_of, shown
from tests.support.reference.rule_oracle import Verdict

Properties = Mapping[str, PropertyValue]
Error = tuple[str, ...]
"""The kind of an error and, unless it is the kind, its code."""
SYSTEM_LEVEL = 3
DURATION = re.compile(r"(-?)(?:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?|([\d.]+))")


class Refused(Exception):
    """A message from outside that its queue does not take; the argument is the kind of error."""


@dataclass(eq=False, kw_only=True)
class Kept:
    """A message and what has become of it."""

    number: int
    queue: str
    body: str
    properties: Properties
    created: datetime
    rule: str | None = None
    trigger: Kept | None = None
    hops: int = 0
    slices: dict[tuple[str, str], PropertyValue] = field(default_factory=dict)
    """The current slices it is in: slicing and key, and the value that is the key."""
    level: int = -1
    """How far up an error message has come: rule, queue, module, system; -1 for any other message."""
    undelivered: bool = False
    due: datetime | None = None
    """When its timer ends, as long as it runs."""
    processed: bool = False
    gone_at: datetime | None = None
    """Since when it is invisible."""

    @property
    def origin(self) -> Kept:
        return self if self.trigger is None else self.trigger.origin

    def is_needed(self) -> bool:
        """Whether it must stay: it may go when it is processed, delivered and in no current slice."""
        return not self.processed or bool(self.slices) or self.undelivered


class Interpreter:
    """`stored` is what is there, `made` everything that rules and timers ever made."""

    def __init__(self, text: str, now: datetime, hops_max: int = 10_000) -> None:
        self.program = load_text(text)
        self.now = now
        self.hops_max = hops_max
        self.count = 0
        self.stored: list[Kept] = []
        self.made: list[Kept] = []
        self._rules, self._imagined = oracles(text)

    # what can happen

    def enqueue(self, queue: str, body: str, explicit: Mapping[str, str]) -> None:
        for name in explicit:
            declared = self.program.properties.get(name)
            if declared is None or queue not in declared.values or declared.variant == "fixed":
                raise Refused("propertyError")
        given = {name: PropertyValue.string(text) for name, text in explicit.items()}
        verdict = self._received(arrival(queue), body, given)
        if verdict.error:
            raise Refused(verdict.error[0])
        self._put(queue, body, properties_of(verdict.actions[0]))

    def run_until_idle(self) -> None:
        while True:
            pending = [kept for kept in self.stored if not kept.processed and self.pertaining(kept.queue)]
            if pending:
                self._process(min(pending, key=lambda kept: (-self.program.queues[kept.queue].priority, kept.number)))
            elif not self._fire_timers():
                return

    def advance(self, seconds: float) -> None:
        end = self.now + timedelta(seconds=seconds)
        self.run_until_idle()
        while due := [kept.due for kept in self.stored if kept.due is not None and kept.due <= end]:
            self.now = max(self.now, min(due))
            self.run_until_idle()
        self.now = end

    def take(self, queue: str, limit: int) -> None:
        for kept in [kept for kept in self.stored if kept.queue == queue and not kept.processed][:limit]:
            kept.processed = True
            self._let_go()

    def collect_garbage(self) -> None:
        self.stored = [kept for kept in self.stored if kept.gone_at is None]

    def restart(self, seconds_down: float = 0) -> None:
        """Time may pass meanwhile, and nothing happens in it."""
        self.stored = [kept for kept in self.stored if self.program.queues[kept.queue].mode != "transient"]
        self.now += timedelta(seconds=seconds_down)

    # one message

    def pertaining(self, queue: str) -> list[Rule]:
        """The rules that pertain to a queue: its own, then those of the slicings its messages can be in, each in order."""
        if self.program.queues[queue].kind == "echo":
            return []  # what waits for its time is not processed; it counts as processed when its timer ends
        targets = [queue, *[slicing.name for slicing in self.program.slicings_of(queue)]]
        return [rule for target in targets for rule in self.program.rules if rule.target == target]

    def _process(self, message: Kept) -> None:
        visible = [shown(kept) for kept in self.stored if kept.gone_at is None]
        verdicts = self._rules.verdicts(shown(message), visible, {})
        resets: list[tuple[str, str]] = []
        enqueued: list[tuple[Rule, Any]] = []
        failed: list[tuple[Rule, Error]] = []
        for rule in self.pertaining(message.queue):
            verdict = verdicts.get(rule.name, Verdict())
            error = verdict.error or self._problem_of(verdict, message)
            if error:
                failed.append((rule, error))
                continue
            resets += [(action[1], action[2]) for action in verdict.actions if action[0] == "R"]
            enqueued += [(rule, action) for action in verdict.actions if action[0] == "E"]
        message.processed = True
        for kept in self.stored:
            kept.slices = {slice: value for slice, value in kept.slices.items() if slice not in resets}
        for rule, action in enqueued:
            self._make(action[1], action[2].decode(), properties_of(action), message, rule)
        for rule, error in sorted(failed, key=lambda item: item[1][0] == "systemError"):
            self._report(rule, error, message)
        self._let_go()

    def _problem_of(self, verdict: Verdict, message: Kept) -> Error | None:
        """What only shows when actions are applied."""
        if self._has_a_wrong_timer(verdict):
            return ("propertyError",)
        enqueues = any([action[0] == "E" for action in verdict.actions])
        return ("systemError", "demaq:hops") if enqueues and message.hops >= self.hops_max else None

    def _fire_timers(self) -> bool:
        due = [(kept.due, kept.number, kept) for kept in self.stored if kept.due is not None and kept.due <= self.now]
        for at, _, message in sorted(due, key=lambda item: item[:2]):
            message.due = None
            message.processed = True
            target = message.properties["target"].text
            travelling = {name: v for name, v in message.properties.items() if name not in ("timeout", "target")}
            verdict = self._received(consequence(target), message.body, travelling)
            if verdict.error:
                creator = [rule for rule in self.program.rules if rule.name == message.rule]
                self._report(creator[0] if creator else None, verdict.error, message)
            else:
                echoed = self._make(target, message.body, properties_of(verdict.actions[0]), message)
                if at > message.created:
                    echoed.hops = 0  # a clock made of timers is no loop
            self._let_go()
        return bool(due)

    def _report(self, rule: Rule | None, error: Error, message: Kept) -> None:
        queue = self.program.queues[message.queue]
        module = rule.module if rule else queue.module
        of_module = None if module is None else self.program.modules[module].errorqueue
        above = (rule.errorqueue if rule else None, queue.errorqueue, of_module, SYSTEM_ERRORS)
        open_ = [(n, name) for n, name in enumerate(above) if name and n > message.level and name != message.queue]
        if not open_:
            return
        level, target = open_[0]
        body = error_text(rule, error, message)
        verdict = self._received(consequence(target), body, message.properties)
        if verdict.error:  # the error queue does not take it: the system's takes everything
            level, target = SYSTEM_LEVEL, SYSTEM_ERRORS
            verdict = self._received(consequence(target), body, message.properties)
        properties = {} if verdict.error else properties_of(verdict.actions[0])
        self._make(target, body, properties, message, rule).level = level

    # messages in the making

    def _received(self, rule: str, body: str, properties: Properties) -> Verdict:
        """What becomes of a message that no rule of the program makes."""
        document = parse_document(body)
        message = Message(id="0", queue=rule, document=document, properties=properties, created=self.now)
        verdict = self._imagined.verdicts(message, [message], {})[rule]
        return Verdict(error=("propertyError",)) if self._has_a_wrong_timer(verdict) else verdict

    def _has_a_wrong_timer(self, verdict: Verdict) -> bool:
        for action in verdict.actions:
            if action[0] == "E" and self.program.queues[action[1]].kind == "echo":
                properties = properties_of(action)
                target = self.program.queues.get(properties["target"].text if "target" in properties else "")
                if target is None or target.kind in ("incomingGateway", "echo") or due_at(properties, self.now) is None:
                    return True
        return False

    def _make(self, queue: str, body: str, properties: Properties, trigger: Kept, rule: Rule | None = None) -> Kept:
        made = self._put(queue, body, properties)
        made.rule = rule.name if rule else None
        made.trigger = trigger
        made.hops = trigger.hops + 1
        self.made.append(made)
        return made

    def _put(self, queue: str, body: str, properties: Properties) -> Kept:
        self.count += 1
        kept = Kept(number=self.count, queue=queue, body=body, properties=properties, created=self.now)
        kept.undelivered = self.program.queues[queue].kind == "outgoingGateway"
        kept.due = due_at(properties, self.now) if self.program.queues[queue].kind == "echo" else None
        values = [(slicing.name, properties.get(slicing.property)) for slicing in self.program.slicings_of(queue)]
        kept.slices = {(slicing, value.key): value for slicing, value in values if value is not None}
        self.stored.append(kept)
        return kept

    def _let_go(self) -> None:
        for kept in self.stored:
            if kept.gone_at is None and not kept.is_needed():
                kept.gone_at = self.now


def due_at(properties: Properties, now: datetime) -> datetime | None:
    """A time, a duration, or seconds; None for anything else."""
    text = properties["timeout"].text if "timeout" in properties else ""
    length = DURATION.fullmatch(text)
    try:
        if length:
            days, hours, minutes, *seconds = [float(part or 0) for part in length.groups()[1:]]
            delay = timedelta(days=days, hours=hours, minutes=minutes, seconds=sum(seconds))
            return now - delay if length[1] else now + delay
        due = datetime.fromisoformat(text)
        return due if due.tzinfo is not None else due.replace(tzinfo=UTC)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)  # never
    except ValueError:
        return None
