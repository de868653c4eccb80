"""The meaning of a program: queues as a list, one message at a time, everything in memory.

No plan, no round, no index, no store. Rules are judged by the oracle beside this file; here stands what their verdicts
do to the messages (language reference: execution, properties, queues). Two tricks keep it small. A message is in a
slice as long as the oracle is shown a property for it, so lifetimes need nothing in the oracle. And what no rule makes
(an arrival, an error message, an echo) is taken for the work of a rule that we imagine, so that properties are computed
in one place.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from demaq.documents import parse_document
from demaq.language.load import load_program
from demaq.language.program import SYSTEM_ERRORS, Program, Property, Rule
from demaq.messages import Message, PropertyValue
from tests.reference.rule_oracle import RuleOracle, Verdict

Properties = Mapping[str, PropertyValue]
SYSTEM_LEVEL = 3


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
    def hops(self) -> int:
        return 0 if self.trigger is None else self.trigger.hops + 1

    @property
    def origin(self) -> Kept:
        return self if self.trigger is None else self.trigger.origin

    def is_needed(self) -> bool:
        """Whether it must stay: it may go when it is processed, delivered and in no current slice."""
        return not self.processed or bool(self.slices) or self.undelivered


class Interpreter:
    """`stored` is what is there, `made` everything that rules and timers ever made."""

    def __init__(self, text: str, now: datetime, hops_max: int = 10_000) -> None:
        self.program = load(text)
        self.now = now
        self.hops_max = hops_max
        self.count = 0
        self.stored: list[Kept] = []
        self.made: list[Kept] = []
        self._rules = RuleOracle(as_the_oracle_sees_it(self.program))
        imagined = as_the_oracle_sees_it(load(text + imagined_rules(self.program)))
        self._imagined = RuleOracle(replace(imagined, rules=imagined.rules[len(self.program.rules) :]))

    # what can be looked at

    def messages(self, queue: str) -> list[Kept]:
        return [kept for kept in self.stored if kept.queue == queue and kept.gone_at is None]

    def slices(self, slicing: str) -> dict[str, list[Kept]]:
        found: dict[str, list[Kept]] = {}
        for kept in self.stored:
            for name, key in kept.slices:
                if name == slicing:
                    found.setdefault(key, []).append(kept)
        return found

    # what can be done

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
        for kept in [kept for kept in self.messages(queue) if not kept.processed][:limit]:
            kept.processed = True
            self._let_go()

    def collect_garbage(self) -> None:
        self.stored = [kept for kept in self.stored if kept.gone_at is None or kept.gone_at >= self.now]

    def crash(self) -> None:
        self.stored = [kept for kept in self.stored if self.program.queues[kept.queue].mode != "transient"]

    # one message

    def pertaining(self, queue: str) -> list[Rule]:
        """The rules that pertain to a queue: its own, then those of the slicings its messages can be in, each in order."""
        if self.program.queues[queue].kind == "echo":
            return []  # what waits for its time is not processed; it counts as processed when its timer ends
        targets = [queue, *[slicing.name for slicing in self.program.slicings_of(queue)]]
        return [rule for target in targets for rule in self.program.rules if rule.target == target]

    def is_mailbox(self, queue: str) -> bool:
        """Whether messages stay until a client takes them."""
        return self.program.queues[queue].kind in ("basic", "incomingGateway") and not self.pertaining(queue)

    def _process(self, message: Kept) -> None:
        visible = [as_a_rule_sees_it(kept) for kept in self.stored if kept.gone_at is None]
        own = next(other for other in visible if other.id == str(message.number))
        verdicts = self._rules.verdicts(own, visible, {})
        resets: list[tuple[str, str]] = []
        enqueued: list[tuple[Rule, Any]] = []
        failed: list[tuple[Rule, tuple[str, ...]]] = []
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
            self._make(action[1], action[2].decode(), properties_of(action), message, rule.name)
        for rule, error in sorted(failed, key=lambda item: item[1][0] == "systemError"):
            self._report(rule, error, message)
        self._let_go()

    def _problem_of(self, verdict: Verdict, message: Kept) -> tuple[str, ...] | None:
        """What only shows when actions are applied."""
        enqueued = [action for action in verdict.actions if action[0] == "E"]
        if any([self._timer_is_wrong(action[1], properties_of(action)) for action in enqueued]):
            return ("propertyError",)
        return ("systemError", "demaq:hops") if enqueued and message.hops >= self.hops_max else None

    def _fire_timers(self) -> bool:
        due = [(kept.due, kept.number, kept) for kept in self.stored if kept.due is not None and kept.due <= self.now]
        for _, _, message in sorted(due, key=lambda item: item[:2]):
            message.due = None
            message.processed = True
            target = message.properties["target"].text
            travelling = {name: v for name, v in message.properties.items() if name not in ("timeout", "target")}
            verdict = self._received(consequence(target), message.body, travelling)
            if verdict.error:
                creator = [rule for rule in self.program.rules if rule.name == message.rule]
                self._report(creator[0] if creator else None, verdict.error, message)
            else:
                self._make(target, message.body, properties_of(verdict.actions[0]), message)
            self._let_go()
        return bool(due)

    # errors

    def _report(self, rule: Rule | None, error: tuple[str, ...], message: Kept) -> None:
        queue = self.program.queues[message.queue]
        module = rule.module if rule is not None else queue.module
        above = (
            rule.errorqueue if rule is not None else None,
            queue.errorqueue,
            self.program.modules[module].errorqueue if module is not None else None,
            SYSTEM_ERRORS,
        )
        open_ = [(n, name) for n, name in enumerate(above) if name and n > message.level and name != message.queue]
        if not open_:
            return
        level, target = open_[0]
        body = error_body(rule, error, message)
        verdict = self._received(consequence(target), body, message.properties)
        if verdict.error:  # the error queue does not take it: the system's takes everything
            level, target = SYSTEM_LEVEL, SYSTEM_ERRORS
            verdict = self._received(consequence(target), body, message.properties)
        properties = {} if verdict.error else properties_of(verdict.actions[0])
        made = self._make(target, body, properties, message, rule.name if rule is not None else None)
        made.level = level

    # messages in the making

    def _received(self, rule: str, body: str, properties: Properties) -> Verdict:
        """What becomes of a message that no rule of the program makes."""
        document = parse_document(body)
        message = Message(id="0", queue=rule, document=document, properties=properties, created=self.now)
        verdict = self._imagined.verdicts(message, [message], {})[rule]
        made = [action for action in verdict.actions if self._timer_is_wrong(action[1], properties_of(action))]
        return Verdict(error=("propertyError",)) if made else verdict

    def _timer_is_wrong(self, queue: str, properties: Properties) -> bool:
        if self.program.queues[queue].kind != "echo":
            return False
        target = self.program.queues.get(properties["target"].text if "target" in properties else "")
        return target is None or target.kind == "incomingGateway" or due_at(properties, self.now) is None

    def _make(self, queue: str, body: str, properties: Properties, trigger: Kept, rule: str | None = None) -> Kept:
        made = self._put(queue, body, properties, rule=rule, trigger=trigger)
        self.made.append(made)
        return made

    def _put(self, queue: str, body: str, properties: Properties, **caused: Any) -> Kept:
        self.count += 1
        declared = self.program.queues[queue]
        kept = Kept(
            number=self.count, queue=queue, body=body, properties=properties, created=self.now,
            undelivered=declared.kind == "outgoingGateway",
            due=due_at(properties, self.now) if declared.kind == "echo" else None,
            **caused,
        )  # fmt: skip
        for slicing in self.program.slicings_of(queue):
            value = properties.get(slicing.property)
            if value is not None:
                kept.slices[(slicing.name, value.key)] = value
        self.stored.append(kept)
        return kept

    def _let_go(self) -> None:
        for kept in self.stored:
            if kept.gone_at is None and not kept.is_needed():
                kept.gone_at = self.now


# --- how the oracle is told -------------------------------------------------------------------------------------------


def load(text: str) -> Program:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "application.dmq")
        file.write_text(text, encoding="utf-8")
        return load_program(file)


def arrival(queue: str) -> str:
    return "arrival-" + queue.replace(":", "_")


def consequence(queue: str) -> str:
    return "consequence-" + queue.replace(":", "_")


def imagined_rules(program: Program) -> str:
    """For every queue a rule for what arrives with explicit properties, and one for errors and echoes."""
    text = ""
    for queue in program.queues.values():
        names = [prop.name for prop in program.properties_of(queue.name) if prop.variant != "fixed"]
        given = "".join([f' with {name} value qs:property("{name}")' for name in names])
        for name, with_ in ((arrival(queue.name), given), (consequence(queue.name), "")):
            text += f"\ncreate queue {name} create rule {name} for {name} if (true()) then "
            text += f"do enqueue /* into {queue.name}{with_}"
    return text


def as_the_oracle_sees_it(program: Program) -> Program:
    """Timers are properties of echo queues; each slicing is on a property that a message has while it is in a slice."""
    properties = dict(program.properties)
    echoes = dict.fromkeys([queue.name for queue in program.queues.values() if queue.kind == "echo"])
    for name in ("timeout", "target"):
        properties[name] = Property(name=name, type="string", variant=None, values=echoes, module=None, decl=None)
    slicings = {}
    for slicing in program.slicings.values():
        name = f"slice {slicing.name}"
        on = program.properties[slicing.property]
        properties[name] = replace(on, name=name, variant=None, values=dict.fromkeys(on.values))
        slicings[slicing.name] = replace(slicing, property=name)
    return replace(program, properties=properties, slicings=slicings)


def as_a_rule_sees_it(kept: Kept) -> Message:
    properties = {**kept.properties, "demaq:queue": PropertyValue.string(kept.queue)}
    if kept.rule is not None:
        properties["demaq:rule"] = PropertyValue.string(kept.rule)
    for (slicing, _), value in kept.slices.items():
        properties[f"slice {slicing}"] = value
    return Message(
        id=str(kept.number),
        queue=kept.queue,
        document=parse_document(kept.body),
        properties=properties,
        created=kept.created,
        sequence=kept.number,
    )


def properties_of(action: Sequence[Any]) -> dict[str, PropertyValue]:
    return {name: PropertyValue(type_, text, key) for name, type_, text, key in action[3]}


def due_at(properties: Properties, now: datetime) -> datetime | None:
    """A time, a duration, or seconds; None for anything else."""
    text = properties["timeout"].text if "timeout" in properties else ""
    seconds = re.fullmatch(r"(-?)(?:PT)?(\d+(?:\.\d+)?)S?", text)
    if seconds:
        return now + timedelta(seconds=float(seconds[1] + seconds[2]))
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def error_body(rule: Rule | None, error: tuple[str, ...], message: Kept) -> str:
    """As the published schema has it, without what only a reader cares for: description, place and time."""
    named = "" if rule is None else f"<rule>{escape(rule.name)}</rule>"
    code = error[1] if len(error) > 1 else f"demaq:{error[0]}"
    return (
        f"<error><{error[0]}/>{named}<queue>{escape(message.queue)}</queue><messageId>{message.number}</messageId>"
        f"<code>{code}</code><attempt>1</attempt><initialMessage>{message.body}</initialMessage></error>"
    )
