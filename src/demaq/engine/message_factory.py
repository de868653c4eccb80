"""Make messages ready to be stored: priority, slices, index entries, cause and timer of each, whatever made it.

There are two ways to a `NewMessage`. Rules enqueue messages whose properties were computed with the outcome
(`make_enqueued`). All other messages are incoming ones, whose properties are computed here (`receive_all`): those of
senders, timers and replies, and error messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from demaq.compiler.plan import Plan
from demaq.documents import Document, parse_document
from demaq.engine.error_routing import SYSTEM, Failure, RefusedMessage, Route, error_body, level_property, route
from demaq.engine.intake import IncomingMessage, expect_queue, type_properties
from demaq.engine.sampling import Sampler
from demaq.engine.timers import due_at
from demaq.errors import MessageError
from demaq.evaluation.cascade.versions import index_name
from demaq.evaluation.native.health import NativeHealth
from demaq.evaluation.native.native_properties import Entries, NativeProperties, Properties, compile_properties
from demaq.evaluation.outcomes import Enqueued
from demaq.evaluation.round_request import PropertyEvaluator, PropertyRequest
from demaq.evaluation.state.joined_slices import find_slices
from demaq.evaluation.workers.receiver import TakesLong
from demaq.language.program.program import SYSTEM_ERRORS, Slicing
from demaq.messages import PropertyValue, transport_properties
from demaq.store.protocol import NewMessage, StoredMessage, Timer
from demaq.system_properties import ECHO_PROPERTIES, FAILED_REPLAY_OF, INITIAL, REPLAY_OF, REPLAY_RULE
from demaq.system_properties import transport_properties as undeclared_properties


class _QueueFacts(NamedTuple):
    """What the messages of a queue have in common."""

    priority: int | None
    is_timer: bool
    is_transient: bool
    is_outgoing: bool
    slicings: Sequence[Slicing]


class MessageFactory:
    """Makes the messages of one program."""

    def __init__(self, plan: Plan, evaluator: PropertyEvaluator, native: bool = True) -> None:
        """With `native`, properties that are plain paths of a message are computed without the evaluator."""
        self._is_native = native
        self.plan = plan
        self.program = plan.program
        self._evaluator = evaluator
        self._rules = {rule.name: rule for rule in self.program.rules}
        self._slicings = {queue: self.program.slicings_of(queue) for queue in self.program.queues}
        self._index_names = {index.number: index_name(index) for index in plan.indexes}
        self._facts = {queue: self._find_facts(queue) for queue in self.program.queues}
        self._natives: dict[str, NativeProperties | None] = {}
        self._health = NativeHealth()
        self.sampler: Sampler | None = None
        """Chooses messages from outside whose conversations are kept whole."""
        self.skipped_errors = 0
        """Errors about messages of the system's own error queue, for which there is no queue left."""

    def priority(self, queue: str) -> int | None:
        """Return the priority of a queue; None if its messages are not processed by rules."""
        return self._facts[queue].priority

    def _find_facts(self, queue: str) -> _QueueFacts:
        declared = self.program.queues[queue]
        is_timer = declared.kind == "echo"
        return _QueueFacts(
            priority=declared.priority if self.plan.queues[queue].rules and not is_timer else None,
            is_timer=is_timer,
            is_transient=declared.mode == "transient",
            is_outgoing=declared.kind == "outgoingGateway",
            slicings=self._slicings[queue],
        )

    # messages of rules

    def make_enqueued(self, action: Enqueued, trigger: StoredMessage, now: datetime) -> NewMessage:
        """Return the message that a rule enqueues."""
        known = {**transport_properties(trigger.properties), **action.properties}
        return self.make(
            action.queue,
            action.document.text,
            known,
            action.entries,
            now,
            action.rule,
            (trigger.seq, trigger.origin),
            hops=trigger.hops + 1,
        )

    # all other messages

    def receive_all(
        self,
        queue: str,
        incoming: Sequence[IncomingMessage],
        now: datetime,
        evaluator: PropertyEvaluator | None = None,
    ) -> list[NewMessage | MessageError]:
        """Return for each incoming message the one to be stored, or the error if it must be refused.

        Properties are computed by `evaluator` instead of the usual one, if it is given. Raises a MessageError if there
        is no such queue.
        """
        expect_queue(self.program, queue)
        sent = incoming
        if self.sampler is not None:
            incoming = self.sampler.choose_all(queue, incoming)
        results: list[NewMessage | MessageError | None] = [None] * len(incoming)
        requests: dict[int, PropertyRequest] = {}
        for position, each in enumerate(incoming):
            try:
                explicit = type_properties(self.program, queue, each.properties) if each.properties else {}
                document = each.document or parse_document(each.body)
            except MessageError as error:
                results[position] = error
                continue
            # Transport properties are not declared, so only those of a cause can be inherited by declared ones.
            computed = None if explicit or each.trigger is not None else self._compute_natively(queue, document)
            if computed is not None:
                results[position] = self.make_received(queue, each, document.text, *computed, now)
            else:
                requests[position] = PropertyRequest(
                    queue=queue, document=document, explicit=explicit, now=now, inherited=each.inherited
                )
        if requests:
            found = (evaluator or self._evaluator).compute_properties(list(requests.values()))
            for position, result in zip(requests, found, strict=True):
                if isinstance(result, MessageError):
                    results[position] = result
                    continue
                text, properties, entries = result.document.text, result.properties, result.entries
                results[position] = self.make_received(queue, incoming[position], text, properties, entries, now)
        if self.sampler is not None:  # what takes long is received once more, by an evaluator that has the time
            later = [sent[position] for position, result in enumerate(results) if isinstance(result, TakesLong)]
            self.sampler.choose_again([(queue, each) for each in later])
        return [result for result in results if result is not None]

    def receive(self, queue: str, incoming: IncomingMessage, now: datetime) -> NewMessage:
        """Return the message to be stored. Raises a MessageError if it must be refused."""
        [result] = self.receive_all(queue, [incoming], now)
        if isinstance(result, MessageError):
            raise result
        return result

    def make_received(
        self,
        queue: str,
        incoming: IncomingMessage,
        text: str,
        properties: Mapping[str, PropertyValue],
        entries: Sequence[tuple[int, str]],
        now: datetime,
    ) -> NewMessage:
        """Return an incoming message of which properties and index entries were computed."""
        known = {**transport_properties(incoming.inherited), **properties, **incoming.system}
        return self.make(
            queue, text, known, entries, now, incoming.rule, _cause(incoming.trigger), incoming.request, incoming.hops
        )

    def _compute_natively(self, queue: str, document: Document) -> tuple[Properties, Entries] | None:
        """Return properties and index entries of a message without explicit or inherited properties.

        None if the evaluator must compute them.
        """
        if queue not in self._natives:
            self._natives[queue] = self._compile_natively(queue)
        native = self._natives[queue]
        return None if native is None else native.compute(document)

    def _compile_natively(self, queue: str) -> NativeProperties | None:
        """Return what computes the properties of a queue's messages, if nothing else is checked and it takes no longer
        than parsing."""
        declared = self.program.queues[queue]
        if not self._is_native or declared.kind not in ("basic", "incomingGateway") or declared.schema is not None:
            return None
        native = compile_properties(queue, self.plan, self._health)
        return native if native is not None and native.is_linear else None

    def make_echo(self, message: StoredMessage, document: Document, now: datetime) -> list[NewMessage]:
        """Return the message of a timer that is due, or an error message if its target refuses it."""
        timer = message.timer
        assert timer is not None, "only a timer is due"
        # A message that has waited is not part of a runaway loop: a clock may tick for years.
        hops = 0 if timer.due > message.created else message.hops + 1
        inherited = {name: value for name, value in message.properties.items() if name not in ECHO_PROPERTIES}
        incoming = IncomingMessage(message.body, inherited=inherited, document=document, hops=hops, trigger=message)
        try:
            if timer.target not in self.program.queues:  # the program has changed since
                raise MessageError("enqueueError", f"there is no queue {timer.target}", "demaq:enqueueError")
            return [self.receive(timer.target, incoming, now)]
        except MessageError as error:
            rule = self._rules.get(message.rule or "")
            failure = Failure(kind=error.kind, code=error.code, description=error.message, rule=rule)
            return self.make_errors(failure, message, now)

    def make_errors(self, failure: Failure, message: StoredMessage, now: datetime) -> list[NewMessage]:
        """Return the error message about a failure; none if no error queue is left."""
        target = route(self.program, failure.rule, message)
        if target is None:
            self.skipped_errors += 1
            return []
        incoming = IncomingMessage(
            error_body(self.program, failure, message, now),
            inherited=message.properties,
            hops=message.hops + 1,
            trigger=message,
            rule=failure.rule.name if failure.rule is not None else None,
            system=self._properties_for_replay(message),
        )
        return [self._receive_error(target, incoming, now)]

    def make_refusal(
        self, error: MessageError, refused: RefusedMessage, now: datetime, request: str | None, hops: int = 0
    ) -> NewMessage:
        """Return the error message about a message that was never stored. It has no cause.

        `hops` are those of the refused message: if errors are sent on, two nodes that refuse each other's messages are
        a loop, too.
        """
        failure = Failure(kind=error.kind, code=error.code, description=error.message, rule=None)
        # A message for the system's own error queue is reported there.
        target = route(self.program, None, refused) or Route(SYSTEM_ERRORS, SYSTEM)
        incoming = IncomingMessage(error_body(self.program, failure, refused, now), request=request, hops=hops)
        return self._receive_error(target, incoming, now)

    def make_parked(self, failure: Failure, message: StoredMessage, now: datetime) -> list[NewMessage]:
        """Return the error message about a message that has made the system itself fail. Never raises."""
        try:
            return self.make_errors(failure, message, now)
        except Exception:
            body = error_body(self.program, failure, message, now)
            incoming = IncomingMessage(body, inherited=message.properties, hops=message.hops + 1, trigger=message)
            return [self._make_system_error(incoming, now)]

    def _receive_error(self, target: Route, incoming: IncomingMessage, now: datetime) -> NewMessage:
        """Return an error message for its queue, or for the system's own if that queue refuses it."""
        document = Document(str(incoming.body))
        for place in (target, Route(SYSTEM_ERRORS, SYSTEM)):
            system = {**level_property(place.level), **incoming.system}
            try:
                return self.receive(place.queue, incoming._replace(document=document, system=system), now)
            except MessageError:
                continue
        return self._make_system_error(incoming, now)

    def _make_system_error(self, incoming: IncomingMessage, now: datetime) -> NewMessage:
        """Return an error message for the system's own queue with nothing computed, so that nothing can fail."""
        system = {**level_property(SYSTEM), **incoming.system}
        return self.make_received(SYSTEM_ERRORS, incoming._replace(system=system), str(incoming.body), {}, (), now)

    def _properties_for_replay(self, message: StoredMessage) -> dict[str, PropertyValue]:
        """Return what an error message keeps of a message besides its text, so that it can be replayed."""
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

    # what is stored

    def make(
        self,
        queue: str,
        text: str,
        properties: Mapping[str, PropertyValue],
        entries: Sequence[tuple[int, str]],
        now: datetime,
        rule: str | None = None,
        cause: tuple[int | None, int | None] = (None, None),
        request: str | None = None,
        hops: int = 0,
    ) -> NewMessage:
        """Return a message of which everything is known: all its properties and index entries.

        `cause` is the seq of the message that caused it, and of its origin.
        """
        priority, is_timer, is_transient, is_outgoing, slicings = self._facts[queue]
        timer = None
        if is_timer:
            timer = Timer(due=due_at(properties["timeout"], now), target=properties["target"].text)
        return NewMessage(
            queue=queue,
            body=text,
            properties=properties,
            created=now,
            rule=rule,
            trigger=cause[0],
            origin=cause[1],
            hops=hops,
            priority=priority,
            slices=find_slices(slicings, queue, text, properties, now, rule, cause) if slicings else (),
            entries=tuple([(self._index_names[number], value) for number, value in entries]) if entries else (),
            timer=timer,
            transient=is_transient,
            undelivered=is_outgoing,
            request=request,
        )

    def make_replacement(
        self, copy: NewMessage, rule: str | None, trigger: int | None, origin: int | None
    ) -> NewMessage:
        """Return a new message with the rule and the cause of another one, which it stands for."""
        slicings, cause = self._slicings[copy.queue], (trigger, origin)
        slices = find_slices(slicings, copy.queue, copy.body, copy.properties, copy.created, rule, cause)
        return replace(copy, rule=rule, trigger=trigger, origin=origin, slices=slices)


def _cause(trigger: StoredMessage | None) -> tuple[int | None, int | None]:
    return (None, None) if trigger is None else (trigger.seq, trigger.origin)
