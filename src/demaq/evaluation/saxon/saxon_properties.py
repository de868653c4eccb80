"""Check messages that no rule made, and compute their properties and index entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from demaq.bisection import bisect
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
"""The number of fields after the letter of a failure."""


class SaxonProperties:
    """Computes them for the queues of one program."""

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
        """Queues whose messages have properties or index entries to compute."""

    def compute_properties(self, arrivals: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        """Check messages that no rule made and compute their properties; the error for one that must be refused."""
        answers: list[PropertyResult | MessageError | None] = [None] * len(arrivals)
        if self._native is not None:
            answers = [self._native.compute_properties(arrival) for arrival in arrivals]
        others = [arrival for arrival, answer in zip(arrivals, answers, strict=True) if answer is None]
        computed = iter(self._in_batches(others, self._received))
        found = [next(computed) if answer is None else answer for answer in answers]
        return [self._accepted(answer) if isinstance(answer, PropertyResult) else answer for answer in found]

    def migrate_properties(self, arrivals: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        """Return what stored messages are under this program. A property that fails is named in `failures`.

        The result is an error only for a message on which an expression does not return.
        """
        return self._in_batches(arrivals, self._migrated)

    def _in_batches(
        self,
        arrivals: Sequence[PropertyRequest],
        compute: Callable[[Sequence[PropertyRequest]], list[PropertyResult | MessageError]],
    ) -> list[PropertyResult | MessageError]:
        """Compute in batches, and bisect a batch that fails. Messages with nothing to compute are not in them."""
        size = BATCH_MESSAGES_MAX
        to_compute = [arrival for arrival in arrivals if self._has_to_compute(arrival)]
        computed: list[PropertyResult | MessageError] = []
        for start in range(0, len(to_compute), size):
            computed += bisect(to_compute[start : start + size], compute, _refuse, errors=(ValueError, EvaluationError))
        others = iter(computed)
        return [
            next(others)
            if self._has_to_compute(arrival)
            else PropertyResult(queue=arrival.queue, document=arrival.document, properties={}, entries=())
            for arrival in arrivals
        ]

    def _has_to_compute(self, arrival: PropertyRequest) -> bool:
        return bool(arrival.explicit) or arrival.queue in self._with_intake

    def _received(self, arrivals: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        answers: list[PropertyResult | MessageError] = []
        reader = self._computed(self._compiled.intake, [self._records.arriving(arrival) for arrival in arrivals])
        for arrival in arrivals:
            mark, kind = next(reader), next(reader)
            assert mark == "M", "every result begins with a mark"
            if kind == "X":
                _, code, description, *_ = [next(reader) for _ in range(FAILURE_FIELDS)]
                answers.append(MessageError("propertyError", readable(description), code.replace(OURS, "demaq:")))
            else:
                answers.append(self._read_received(reader, arrival))
        return answers

    def _migrated(self, arrivals: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        answers: list[PropertyResult | MessageError] = []
        reader = self._computed(self._compiled.migrate, [self._records.kept(arrival) for arrival in arrivals])
        for arrival in arrivals:
            mark, _ = next(reader), next(reader)
            assert mark == "M", "every result begins with a mark"
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


def _refuse(_: Sequence[PropertyRequest], error: Exception) -> list[PropertyResult | MessageError]:
    """Return the refusal of a message that cannot be evaluated at all."""
    return [MessageError("notWellFormed" if isinstance(error, ValueError) else "propertyError", str(error))]
