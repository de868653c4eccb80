"""Evaluate messages from outside before they are stored: parse, compute properties, and run their rules.

A worker does for them what it does for the messages of a round, with two differences. It parses what a sender has sent
and computes the properties. And the messages have no seqs yet, so rules that could tell the difference are not run:
their messages are stored first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.evaluation.arrival_request import ArrivalRequest, ArrivalResult, Arrived, Arriving, Created, Passed
from demaq.evaluation.cascade.cascade import Cascades
from demaq.evaluation.cascade.conversation_state import ConversationState
from demaq.evaluation.native.native_rules import NativeRules
from demaq.evaluation.native.self_check import SelfCheck
from demaq.evaluation.outcomes import Enqueued, Outcome, SliceReset, StateReader
from demaq.evaluation.round_request import PropertyRequest, PropertyResult
from demaq.evaluation.state.joined_slices import find_slices
from demaq.evaluation.state.snapshot_reader import make_message
from demaq.evaluation.workers.progress import Progress
from demaq.language.program.program import Program
from demaq.messages import Message, transport_properties
from demaq.store.protocol import SliceKey, StoredMessage

FIRST_PROVISIONAL = 1 << 59
"""The first provisional seq: after all stored messages, and before all that a cascade creates."""


class ArrivalRules(Protocol):
    """Computes properties of messages and evaluates rules, in the process of the ArrivalEvaluator."""

    program: Program
    cascades: Cascades
    native: NativeRules | None
    self_check: SelfCheck | None

    def compute_properties(self, arrivals: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]: ...


class ArrivalEvaluator:
    """Evaluates messages that are not stored yet."""

    def __init__(self, evaluator: ArrivalRules, progress: Progress | None = None) -> None:
        """That messages are checked is noted in `progress`, and so is which ones are evaluated."""
        self._evaluator = evaluator
        self._progress = progress
        self._cascades = evaluator.cascades
        program = evaluator.program
        self._slicings = {queue: program.slicings_of(queue) for queue in program.queues}
        self._passing = {queue: self._cascades.may_pass(queue) for queue in program.queues}

    def run(self, request: ArrivalRequest, reader: StateReader) -> ArrivalResult:
        began = time.process_time()
        if self._evaluator.self_check is not None:
            self._evaluator.self_check.is_asked_for = request.check
        result = self._run(request, reader)
        result.cpu_seconds = time.process_time() - began
        return result

    def _run(self, request: ArrivalRequest, reader: StateReader) -> ArrivalResult:
        arrived: list[Arrived | Passed | MessageError | None] = [*self._pass(request, reader)]
        left = [place for place, result in enumerate(arrived) if result is None]
        outcomes: list[Outcome | None] = [None] * len(arrived)
        descendants: list[Outcome] = []
        if left:
            evaluated = self._evaluate(request, left, reader)
            descendants = evaluated.descendants
            for place, result, outcome in zip(left, evaluated.arrived, evaluated.outcomes, strict=True):
                arrived[place], outcomes[place] = result, outcome
        return ArrivalResult([each for each in arrived if each is not None], outcomes, descendants)

    def _pass(self, request: ArrivalRequest, reader: StateReader) -> list[Passed | MessageError | None]:
        """Return the effects of messages that only lead to others; None for the other messages."""
        native, queue = self._evaluator.native, request.messages[0].queue
        if native is None or not self._passing[queue]:
            return [None] * len(request.messages)
        if not all([sent.may_pass and sent.queue == queue and not sent.explicit for sent in request.messages]):
            return [None] * len(request.messages)
        self._begin(queue)
        passed = native.pass_all(queue, request.messages, reader, request.now)
        self._end()
        return passed

    def _evaluate(self, request: ArrivalRequest, places: Sequence[int], reader: StateReader) -> ArrivalResult:
        """Return what becomes of the messages at some positions, in this order."""
        sent = [request.messages[place] for place in places]
        self._begin(sent[0].queue)
        checked = self._check(sent, request.now)
        self._end()
        state = ConversationState(reader)
        messages: list[Message] = []
        positions: list[int] = []
        alone: set[int] = set()
        joined: dict[int, tuple[SliceKey, ...]] = {}
        for position, (place, each, result) in enumerate(zip(places, sent, checked, strict=True)):
            if isinstance(result, PropertyResult) and self._cascades.is_possible_on_arrival(each.queue):
                message, slices = self._make_message(place, each, result, request.now)
                state.add(message, True, slices, dict.fromkeys(result.entries))
                messages.append(message)
                positions.append(position)
                joined[position] = slices
                if self._cascades.is_alone(message):
                    alone.add(position)
        outcomes: list[Outcome | None] = [None] * len(sent)
        descendants: list[Outcome] = []
        if messages:
            whole = frozenset([FIRST_PROVISIONAL + place for place in request.whole])
            found = self._cascades.run(
                messages, state, request.now, deep=True, fold=request.fold, paused=request.paused, whole=whole
            )
            descendants = found.descendants
            for position, outcome in zip(positions, found.outcomes, strict=True):
                outcomes[position] = outcome
        arrived: list[Arrived | Passed | MessageError] = []
        for position, (each, result) in enumerate(zip(sent, checked, strict=True)):
            if isinstance(result, MessageError):
                arrived.append(result)
                continue
            outcome = outcomes[position]
            if each.may_pass and position in alone and outcome is not None:
                passed = _find_effects(outcome)
                if passed is not None:
                    outcomes[position] = None
                    arrived.append(passed)
                    continue
            text = result.document.text
            sent_text = None if _is_as_sent(each.body, text) else text
            has_ended = each.may_pass and outcome is not None and _has_ended(outcome, joined[position], reader)
            arrived.append(Arrived(sent_text, result.properties, result.entries, position in alone, has_ended))
        return ArrivalResult(arrived, outcomes, descendants)

    def _begin(self, queue: str) -> None:
        """Note that messages for a queue are looked at."""
        if self._progress is not None:
            self._progress.begin(f"arrivals in {queue}", ())

    def _end(self) -> None:
        if self._progress is not None:
            self._progress.end()

    def _check(self, messages: Sequence[Arriving], now: datetime) -> list[PropertyResult | MessageError]:
        """Return for each message its document, properties and index entries, or why it is refused."""
        results: list[PropertyResult | MessageError | None] = []
        asked: list[PropertyRequest] = []
        for sent in messages:
            try:
                document = sent.document or parse_document(sent.body)
            except MessageError as error:
                results.append(error)
                continue
            results.append(None)
            asked.append(
                PropertyRequest(
                    queue=sent.queue,
                    document=document,
                    now=now,
                    explicit=sent.explicit,
                    inherited=sent.inherited,
                )
            )
        computed = iter(self._evaluator.compute_properties(asked) if asked else ())
        return [next(computed) if result is None else result for result in results]

    def _make_message(
        self, place: int, sent: Arriving, result: PropertyResult, now: datetime
    ) -> tuple[Message, tuple[SliceKey, ...]]:
        """Return a message as rules see it, with a provisional seq, and the slices that it joins."""
        seq = FIRST_PROVISIONAL + place
        properties = result.properties
        if sent.inherited:
            properties = {**transport_properties(sent.inherited), **properties}
        slicings = self._slicings[sent.queue]
        text = result.document.text
        slices = find_slices(slicings, sent.queue, text, properties, now) if slicings else ()
        stored = StoredMessage(
            seq=seq,
            queue=sent.queue,
            body=text,
            properties=properties,
            created=now,
            rule=None,
            trigger=None,
            origin=seq,
            hops=0,
            slices=slices,
            processed=None,
            retired=None,
            timer=None,
            transient=False,
            undelivered=False,
        )
        return make_message(stored, result.document), slices


def _find_effects(outcome: Outcome) -> Passed | None:
    """Return the effects of a message of which nothing else remains; None if there is more to it."""
    if outcome.errors or outcome.lost is not None or outcome.deferred is not None or outcome.folded is not None:
        return None
    created: list[Created] = []
    for action in outcome.actions:
        if not isinstance(action, Enqueued):
            return None
        created.append(Created(action.rule, action.queue, action.document.text, action.properties, action.entries))
    return Passed(tuple(created), tuple(outcome.fired))


def _has_ended(outcome: Outcome, joined: Sequence[SliceKey], reader: StateReader) -> bool:
    """Return whether nothing but the effects of a conversation remains.

    That is so if it has left all slices that it has joined, and no stored message is in those that it has reset: if it
    has read these, validation finds out when one comes meanwhile.
    """
    folded = outcome.folded
    if folded is None:
        return False
    resets = {(action.slicing, action.key) for action in outcome.actions if isinstance(action, SliceReset)}
    if not resets.issuperset(joined):
        return False
    return all([("slice", *key) in folded.read and not reader.slice(*key) for key in resets])


def _is_as_sent(body: bytes | str, text: str) -> bool:
    return body == text if isinstance(body, str) else body == text.encode("utf-8")
