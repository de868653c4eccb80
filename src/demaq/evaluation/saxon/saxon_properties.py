"""Messages that no rule made: whether they may be stored, with their properties and index entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from demaq.compiler.emit.xquery.vocabulary import SEPARATOR
from demaq.errors import MessageError
from demaq.evaluation.native.native_rules import NativeRules
from demaq.evaluation.round_request import PropertyRequest, PropertyResult
from demaq.evaluation.saxon.batch_document import RecordWriter
from demaq.evaluation.saxon.compiled import CompiledProgram
from demaq.evaluation.saxon.failures import readable
from demaq.evaluation.saxon.processor import BATCH_MESSAGES_MAX, EvaluationError
from demaq.evaluation.saxon.saxon_results import OURS, SaxonResultReader

FAILURE_FIELDS = 7
"""What is told about a failure behind its letter."""


class SaxonProperties:
    """Those for the queues of one program."""

    def __init__(
        self, compiled: CompiledProgram, records: RecordWriter, answers: SaxonResultReader, native: NativeRules | None
    ) -> None:
        self._compiled = compiled
        self._records = records
        self._answers = answers
        self._native = native
        plan = compiled.plan
        program = plan.program
        self._with_intake = {q for q in program.queues if program.properties_of(q) or plan.indexes_of(q)}
        """Queues whose messages have properties or index entries to be computed."""

    def compute_properties(self, arrivals: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        """Check messages that no rule made and compute their properties; the error for one that must be refused."""
        answers: list[PropertyResult | MessageError | None] = [None] * len(arrivals)
        if self._native is not None:
            answers = [self._native.received(arrival) for arrival in arrivals]
        others = iter(
            self._in_batches([a for a, told in zip(arrivals, answers, strict=True) if told is None], self._received)
        )
        found = [next(others) if told is None else told for told in answers]
        return [self._accepted(answer) if isinstance(answer, PropertyResult) else answer for answer in found]

    def migrate_properties(self, arrivals: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        """What stored messages are under this program. A property that fails is left out and named in the answer.

        An error is the answer only for a message on which an expression does not return.
        """
        return self._in_batches(arrivals, self._migrated)

    def _in_batches(
        self,
        arrivals: Sequence[PropertyRequest],
        compute: Callable[[list[PropertyRequest]], list[PropertyResult | MessageError]],
    ) -> list[PropertyResult | MessageError]:
        """Those with nothing to be computed are done at once, the others together, in halves where that fails."""
        answers: dict[int, PropertyResult | MessageError] = {}
        to_compute: list[int] = []
        for number, arrival in enumerate(arrivals):
            if arrival.explicit or arrival.queue in self._with_intake:
                to_compute.append(number)
            else:
                answers[number] = PropertyResult(
                    queue=arrival.queue, document=arrival.document, properties={}, entries=()
                )
        size = BATCH_MESSAGES_MAX
        waiting = [to_compute[start : start + size] for start in range(0, len(to_compute), size)]
        while waiting:
            part = waiting.pop()
            try:
                answers.update(zip(part, compute([arrivals[number] for number in part]), strict=True))
            except (ValueError, EvaluationError) as error:
                if len(part) > 1:  # find the one that it is about
                    waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
                else:
                    kind = "notWellFormed" if isinstance(error, ValueError) else "propertyError"
                    answers[part[0]] = MessageError(kind, str(error))
        return [answers[number] for number in range(len(arrivals))]

    def _received(self, arrivals: list[PropertyRequest]) -> list[PropertyResult | MessageError]:
        answers: list[PropertyResult | MessageError] = []
        reader = self._computed(self._compiled.intake, [self._records.arriving(arrival) for arrival in arrivals])
        for arrival in arrivals:
            mark, kind = next(reader), next(reader)
            assert mark == "M", "every answer begins with a mark"
            if kind == "X":
                _, code, description, *_ = [next(reader) for _ in range(FAILURE_FIELDS)]
                answers.append(MessageError("propertyError", readable(description), code.replace(OURS, "demaq:")))
            else:
                answers.append(self._read_received(reader, arrival))
        return answers

    def _migrated(self, arrivals: list[PropertyRequest]) -> list[PropertyResult | MessageError]:
        answers: list[PropertyResult | MessageError] = []
        reader = self._computed(self._compiled.migrate, [self._records.kept(arrival) for arrival in arrivals])
        for arrival in arrivals:
            mark, _ = next(reader), next(reader)
            assert mark == "M", "every answer begins with a mark"
            received = self._read_received(reader, arrival)
            failures = tuple([(next(reader), next(reader)) for _ in range(int(next(reader)))])
            answers.append(replace(received, failures=failures))
        return answers

    def _computed(self, function: Any, records: list[str]) -> Iterator[str]:
        saxon = self._compiled.saxon
        text = saxon.call(function, saxon.parse(f"<b>{''.join(records)}</b>"), self._compiled.intakes)
        return iter(text.split(SEPARATOR))

    def _read_received(self, reader: Iterator[str], arrival: PropertyRequest) -> PropertyResult:
        properties, entries = self._answers.read_properties(reader), self._answers.read_entries(reader)
        return PropertyResult(queue=arrival.queue, document=arrival.document, properties=properties, entries=entries)

    def _accepted(self, received: PropertyResult) -> PropertyResult | MessageError:
        refusal = self._answers.refusal(received.queue, received.document, received.properties)
        return received if refusal is None else MessageError(*refusal)
