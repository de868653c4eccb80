"""Evaluate rounds in this process: for tests of applications, and for stores on which no node runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from demaq.evaluation.arrival_evaluator import ArrivalEvaluator
from demaq.evaluation.arrival_request import ArrivalRequest, ArrivalResult
from demaq.evaluation.round_request import RoundRequest, RoundResult
from demaq.evaluation.saxon.saxon_evaluator import ROUND_MESSAGES_MAX, SaxonEvaluator
from demaq.evaluation.state.snapshot_reader import Documents, SnapshotReader
from demaq.store.protocol import Store


class LocalEvaluator:
    """A RoundEvaluator without limits: a rule that does not end never returns."""

    def __init__(self, rules: SaxonEvaluator, store: Store) -> None:
        self.messages_max = ROUND_MESSAGES_MAX
        self.rounds_max = 1
        self._rules = rules
        self._store = store
        self._documents = Documents()
        self._arrivals = ArrivalEvaluator(rules)

    def run(self, request: RoundRequest) -> RoundResult:
        messages = [self._documents.message(stored) for stored in request.batch]
        reader = SnapshotReader(self._store, request.snapshot, self._documents)
        settings = request.deep, request.fold, request.paused, request.whole
        return self._rules.cascade(messages, reader, request.now, *settings)

    def run_arrivals(
        self,
        divide: Callable[[int], Sequence[ArrivalRequest]],
        workers_max: int,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[ArrivalResult]:
        """See ArrivalPool."""
        meanwhile()
        return [
            self._arrivals.run(request, SnapshotReader(self._store, request.snapshot, self._documents))
            for request in divide(1)
        ]
