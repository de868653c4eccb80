"""Evaluate messages from outside before they are stored: parse, compute properties, and run their rules.

A worker does for them what it does for the messages of a round, with two differences. It parses what a sender has sent
and computes the properties. And the messages have no seqs yet, so rules that could tell the difference are not run:
their messages are stored first.
"""

from __future__ import annotations

import time
from datetime import datetime

from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.evaluation.arrival_request import ArrivalRequest, ArrivalResult, Arrived, Arriving, Created, Passed
from demaq.evaluation.cascade.conversation_state import ConversationState
from demaq.evaluation.outcomes import Enqueued, Outcome, StateReader
from demaq.evaluation.round_request import PropertyRequest, PropertyResult
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.joined_slices import find_slices
from demaq.evaluation.state.snapshot_reader import make_message
from demaq.evaluation.workers.progress import Progress
from demaq.messages import Message, transport_properties
from demaq.store.protocol import SliceKey, StoredMessage

FIRST_PROVISIONAL = 1 << 59
"""The first provisional seq: after all stored messages, and before all that a cascade creates."""


class ArrivalEvaluator:
    """Evaluates messages that are not stored yet."""

    def __init__(self, evaluator: SaxonEvaluator, progress: Progress | None = None) -> None:
        """That messages are checked is noted in `progress`, and so is which ones are evaluated."""
        self._evaluator = evaluator
        self._progress = progress
        self._cascades = evaluator.cascades
        program = evaluator.program
        self._slicings = {queue: program.slicings_of(queue) for queue in program.queues}

    def run(self, request: ArrivalRequest, reader: StateReader) -> ArrivalResult:
        began = time.process_time()
        result = self._run(request, reader)
        result.cpu_seconds = time.process_time() - began
        return result

    def _run(self, request: ArrivalRequest, reader: StateReader) -> ArrivalResult:
        if self._progress is not None:
            self._progress.begin(f"arrivals in {request.messages[0].queue}", ())
        checked = self._check(request)
        if self._progress is not None:
            self._progress.end()
        state = ConversationState(reader)
        messages: list[Message] = []
        places: list[int] = []
        alone: set[int] = set()
        for place, (sent, result) in enumerate(zip(request.messages, checked, strict=True)):
            if isinstance(result, PropertyResult) and self._cascades.is_possible_on_arrival(sent.queue):
                message, slices = self._make_message(place, sent, result, request.now)
                state.add(message, True, slices, dict.fromkeys(result.entries))
                messages.append(message)
                places.append(place)
                if self._cascades.is_alone(message):
                    alone.add(place)
        outcomes: list[Outcome | None] = [None] * len(checked)
        descendants: list[Outcome] = []
        if messages:
            whole = frozenset([FIRST_PROVISIONAL + place for place in request.whole])
            found = self._evaluator.cascade(
                messages, state, request.now, deep=True, fold=request.fold, paused=request.paused, whole=whole
            )
            descendants = found.descendants
            for place, outcome in zip(places, found.outcomes, strict=True):
                outcomes[place] = outcome
        arrived: list[Arrived | Passed | MessageError] = []
        for place, (sent, result) in enumerate(zip(request.messages, checked, strict=True)):
            if isinstance(result, MessageError):
                arrived.append(result)
                continue
            outcome = outcomes[place]
            if sent.may_pass and place in alone and outcome is not None:
                passed = _find_effects(outcome)
                if passed is not None:
                    outcomes[place] = None
                    arrived.append(passed)
                    continue
            text = result.document.text
            sent_text = None if _is_as_sent(sent.body, text) else text
            arrived.append(Arrived(sent_text, result.properties, result.entries, place in alone))
        return ArrivalResult(arrived, outcomes, descendants)

    def _check(self, request: ArrivalRequest) -> list[PropertyResult | MessageError]:
        """Return for each message its document, properties and index entries, or why it is refused."""
        results: list[PropertyResult | MessageError | None] = []
        asked: list[PropertyRequest] = []
        for sent in request.messages:
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
                    now=request.now,
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


def _is_as_sent(body: bytes | str, text: str) -> bool:
    return body == text if isinstance(body, str) else body == text.encode("utf-8")
