"""Messages in the making: all that is stored with a message, whoever made it: a sender, a rule, a timer, an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from demaq.compiler.plan import Plan
from demaq.documents import Document
from demaq.engine.error_routing import SYSTEM, Failure, RefusedMessage, error_body, level_property, route
from demaq.engine.timers import due_at
from demaq.errors import MessageError
from demaq.evaluation.cascade.versions import index_name
from demaq.evaluation.native.health import NativeHealth
from demaq.evaluation.native.native_properties import NativeProperties, compile_properties
from demaq.evaluation.outcomes import Enqueued
from demaq.evaluation.round_request import PropertyEvaluator, PropertyRequest, compute_one
from demaq.evaluation.state.snapshot_reader import date_time, size_of
from demaq.language.program.program import SYSTEM_ERRORS
from demaq.messages import PropertyValue, transport_properties
from demaq.store.protocol import OWN_NUMBER, NewMessage, StoredMessage, Timer
from demaq.system_properties import FAILED_REPLAY_OF, INITIAL, REPLAY_OF, REPLAY_RULE
from demaq.system_properties import transport_properties as undeclared_properties


class MessageFactory:
    """Makes the messages of one program."""

    def __init__(self, plan: Plan, evaluator: PropertyEvaluator, native: bool = True) -> None:
        """With `native`, what is a plain path of a message is computed here."""
        self._is_native = native
        self.plan = plan
        self.program = plan.program
        self._evaluator = evaluator
        self._rules = {rule.name: rule for rule in self.program.rules}
        self._slicings = {queue: self.program.slicings_of(queue) for queue in self.program.queues}
        self._intakes: dict[str, NativeProperties | None] = {}
        self._health = NativeHealth()
        self.skipped_errors = 0
        """Errors about messages of the system's own error queue, which have nowhere left to go."""

    def priority(self, queue: str) -> int | None:
        """A queue's priority; None where nobody processes its messages: no rule pertains to it, or it is a timer."""
        declared = self.program.queues[queue]
        return declared.priority if self.plan.queues[queue].rules and declared.kind != "echo" else None

    def computed(
        self, queue: str, document: Document
    ) -> tuple[Mapping[str, PropertyValue], tuple[tuple[int, str], ...]] | None:
        """Properties and index entries of a message from outside, where it takes no evaluator to say what they are."""
        if queue not in self._intakes:
            self._intakes[queue] = self._intake(queue)
        intake = self._intakes[queue]
        return None if intake is None else intake.told(document)

    def _intake(self, queue: str) -> NativeProperties | None:
        """What is computed of a queue's messages, if nothing else is checked and it takes no longer than parsing."""
        declared = self.program.queues[queue]
        if not self._is_native or declared.kind not in ("basic", "incomingGateway") or declared.schema is not None:
            return None
        intake = compile_properties(queue, self.plan, self._health)
        return intake if intake is not None and intake.is_linear else None

    def enqueued(self, action: Enqueued, trigger: StoredMessage, now: datetime) -> NewMessage:
        """What a rule makes."""
        return self.new(
            action.queue, action.document, action.properties, action.entries, now, rule=action.rule, trigger=trigger
        )

    def echoed(self, message: StoredMessage, document: Document, now: datetime) -> list[NewMessage]:
        """What a timer brings back, or the error where its target does not take it."""
        timer = message.timer
        assert timer is not None, "only timers bring messages back"
        inherited = {k: v for k, v in message.properties.items() if k not in ("timeout", "target")}
        try:
            if timer.target not in self.program.queues:  # the program has changed since
                raise MessageError("enqueueError", f"there is no queue {timer.target}", "demaq:enqueueError")
            arrival = PropertyRequest(queue=timer.target, document=document, now=now, inherited=inherited)
            received = compute_one(self._evaluator, arrival)
        except MessageError as error:
            rule = self._rules.get(message.rule or "")
            failure = Failure(kind=error.kind, code=error.code, description=error.message, rule=rule)
            return self.errors(failure, message, now)
        # Who has waited is no runaway: a clock that ticks for years is not a loop.
        hops = 0 if timer.due > message.created else message.hops + 1
        properties, entries = received.properties, received.entries
        return [self.new(timer.target, document, properties, entries, now, trigger=message, hops=hops)]

    def errors(self, failure: Failure, message: StoredMessage, now: datetime) -> list[NewMessage]:
        """The message about a failure, if anybody may hear of it."""
        found = self._error(failure, message, now)
        if found is None:
            self.skipped_errors += 1
            return []
        queue, document, properties, entries = found
        rule = failure.rule.name if failure.rule is not None else None
        return [self.new(queue, document, properties, entries, now, rule=rule, trigger=message)]

    def refused(
        self, error: MessageError, refused: RefusedMessage, now: datetime, request: str | None, hops: int = 0
    ) -> NewMessage:
        """The message about what was never stored; nobody made it and it caused nothing.

        `hops` is how far that has come: where errors are sent on, two nodes that refuse each other's messages are a
        loop too.
        """
        failure = Failure(kind=error.kind, code=error.code, description=error.message, rule=None)
        found = self._error(failure, refused, now)
        if found is None:  # somebody fills the system's own error queue: it hears of that itself
            document = Document(error_body(self.program, failure, refused, now))
            found = SYSTEM_ERRORS, document, level_property(SYSTEM), ()
        queue, document, properties, entries = found
        return self.new(queue, document, properties, entries, now, request=request, hops=hops)

    def _error(
        self, failure: Failure, message: StoredMessage | RefusedMessage, now: datetime
    ) -> tuple[str, Document, dict[str, PropertyValue], tuple[tuple[int, str], ...]] | None:
        """Queue, document, properties and index entries of the message about a failure, if anybody may hear of it."""
        target = route(self.program, failure.rule, message)
        if target is None:
            return None
        document = Document(error_body(self.program, failure, message, now))
        queue, level = target.queue, target.level
        properties: dict[str, PropertyValue] = {}
        entries: tuple[tuple[int, str], ...] = ()
        while True:
            try:
                arrival = PropertyRequest(queue=queue, document=document, now=now, inherited=message.properties)
                received = compute_one(self._evaluator, arrival)
                properties, entries = dict(received.properties), received.entries
            except MessageError:  # an error queue that does not take the error: the system's takes everything
                if queue != SYSTEM_ERRORS:
                    queue, level = SYSTEM_ERRORS, SYSTEM
                    continue
            break
        return queue, document, properties | level_property(level) | self._of_initial(message), entries

    def _of_initial(self, message: StoredMessage | RefusedMessage) -> dict[str, PropertyValue]:
        """All that it takes to run the message of an error again, besides its text."""
        if isinstance(message, RefusedMessage):
            return {}
        declared = self.program.properties_of(message.queue)
        settable = [p.name for p in declared if p.decl is not None and p.variant != "fixed"]
        if message.queue in self.program.queues:
            settable += undeclared_properties(self.program.queues[message.queue].kind)
        found = {INITIAL + name: message.properties[name] for name in settable if name in message.properties}
        if REPLAY_OF in message.properties:
            found[FAILED_REPLAY_OF] = message.properties[REPLAY_OF]
        if REPLAY_RULE in message.properties:
            found[INITIAL + REPLAY_RULE] = message.properties[REPLAY_RULE]
        return found

    def parked(self, failure: Failure, message: StoredMessage, now: datetime) -> list[NewMessage]:
        """The message about a message that has made the system itself fail: whatever happens, it can be written."""
        try:
            return self.errors(failure, message, now)
        except Exception:
            document = Document(error_body(self.program, failure, message, now))
            return [self.new(SYSTEM_ERRORS, document, level_property(SYSTEM), (), now, trigger=message)]

    def new(
        self,
        queue: str,
        document: Document,
        properties: Mapping[str, PropertyValue],
        entries: Sequence[tuple[int, str]],
        now: datetime,
        rule: str | None = None,
        trigger: StoredMessage | None = None,
        request: str | None = None,
        hops: int | None = None,
    ) -> NewMessage:
        declared = self.program.queues[queue]
        known = dict(properties)
        cause = (None, None) if trigger is None else (trigger.seq, trigger.origin)
        if trigger is not None:
            known = {**transport_properties(trigger.properties), **known}
            hops = trigger.hops + 1 if hops is None else hops
        timer = None
        if declared.kind == "echo":
            timer = Timer(due=due_at(known["timeout"], now), target=known["target"].text)
        return NewMessage(
            queue=queue,
            body=document.text,
            properties=known,
            created=now,
            rule=rule,
            trigger=cause[0],
            origin=cause[1],
            hops=hops or 0,
            priority=self.priority(queue),
            slices=self._slices(queue, document.text, known, now, rule, cause) if self._slicings[queue] else (),
            entries=tuple([(index_name(self.plan.indexes[number - 1]), value) for number, value in entries]),
            timer=timer,
            transient=declared.mode == "transient",
            undelivered=declared.kind == "outgoingGateway",
            request=request,
        )

    def standing_for(self, copy: NewMessage, rule: str | None, trigger: int | None, origin: int | None) -> NewMessage:
        """A new message with the maker and the cause of another one, whose place it takes."""
        slices = self._slices(copy.queue, copy.body, copy.properties, copy.created, rule, (trigger, origin))
        return replace(copy, rule=rule, trigger=trigger, origin=origin, slices=slices)

    def _slices(
        self,
        queue: str,
        body: str,
        properties: Mapping[str, PropertyValue],
        now: datetime,
        rule: str | None,
        cause: tuple[int | None, int | None],
    ) -> tuple[tuple[str, str], ...]:
        trigger, origin = cause
        found: list[tuple[str, str]] = []
        for slicing in self._slicings[queue]:
            key: str | None
            match slicing.property:
                case "demaq:id":
                    key = OWN_NUMBER
                case "demaq:origin":
                    key = OWN_NUMBER if origin is None else str(origin)
                case "demaq:trigger":
                    key = None if trigger is None else str(trigger)
                case "demaq:queue":
                    key = queue
                case "demaq:rule":
                    key = rule
                case "demaq:created":
                    key = date_time(now)
                case "demaq:size":
                    key = str(size_of(body))
                case name:
                    key = properties[name].key if name in properties else None
            if key is not None:
                found.append((slicing.name, key))
        return tuple(found)
