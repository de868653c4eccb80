"""A worker process that dies after its last reply has answered everything."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from demaq.documents import Document
from demaq.evaluation.outcomes import Deferral, Outcome
from demaq.evaluation.round_request import PropertyRequest, PropertyResult, RoundRequest
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.evaluation.workers.worker_connection import EvaluatorGone, Limits
from demaq.evaluation.workers.worker_protocol import ComputeEach, EvaluateEach, Request
from demaq.store.protocol import NewMessage, as_stored

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Dying(ProcessEvaluator):
    """Its process dies after so many replies to each request, of which streamed ones are answered."""

    replies = 0

    def _ask_each(self, request: Request, limits: Limits, announce: bool = False) -> Iterator[Any]:
        if isinstance(request, ComputeEach):
            for each in request.requests[: self.replies]:
                yield PropertyResult(queue=each.queue, document=each.document, properties={}, entries=())
        if isinstance(request, EvaluateEach):
            for _ in request.seqs[: self.replies]:
                yield Outcome()
        raise EvaluatorGone("it died", died=True)


def dying(replies: int) -> Dying:
    evaluator = Dying({}, "store")
    evaluator.replies = replies
    return evaluator


def test_arrivals_that_were_answered_before_the_process_died_have_one_result_each() -> None:
    requests = [PropertyRequest(queue="a", document=Document(f"<m{n}/>"), now=NOW) for n in range(3)]
    results = dying(3).compute_quickly(requests)
    assert [result.document.text for result in results if isinstance(result, PropertyResult)] == [
        "<m0/>",
        "<m1/>",
        "<m2/>",
    ]
    assert len(results) == 3
    assert [result is None for result in dying(1).compute_quickly(requests)] == [False, True, False]
    assert [result is None for result in dying(0).compute_quickly(requests)] == [True, True, True]


def test_messages_that_were_sifted_before_the_process_died_have_one_outcome_each() -> None:
    batch = [as_stored(NewMessage(queue="a", body="<m/>", properties={}, created=NOW), seq) for seq in (1, 2)]
    request = RoundRequest(batch=batch, snapshot=2, now=NOW)
    both = dying(2).sift(request).outcomes
    assert [outcome and outcome.deferred for outcome in both] == [None, None]
    first, second = dying(1).sift(request).outcomes
    assert first is not None
    assert first.deferred is None
    assert second is not None
    assert second.deferred == Deferral("it died")
