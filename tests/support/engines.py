"""Engines whose rules are evaluated in the process of the test."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar, overload

from demaq.engine.engine import Engine
from demaq.evaluation.local_evaluator import LocalEvaluator
from demaq.evaluation.outcomes import StateReader
from demaq.evaluation.round_request import RoundRequest
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.snapshot_reader import Documents, SnapshotReader
from demaq.messages import Message
from demaq.store.protocol import Store

E = TypeVar("E", bound=Engine)


@overload
def local_engine(
    rules: SaxonEvaluator,
    store: Store,
    clock: Callable[[], datetime],
    *,
    messages_max: int | None = None,
    rounds_max: int = 1,
    **options: Any,
) -> Engine: ...


@overload
def local_engine(
    rules: SaxonEvaluator,
    store: Store,
    clock: Callable[[], datetime],
    kind: type[E],
    messages_max: int | None = None,
    rounds_max: int = 1,
    **options: Any,
) -> E: ...


def local_engine(
    rules: SaxonEvaluator,
    store: Store,
    clock: Callable[[], datetime],
    kind: type[Engine] = Engine,
    messages_max: int | None = None,
    rounds_max: int = 1,
    **options: Any,
) -> Engine:
    """Return an engine that has its rounds evaluated by these rules, so many messages and rounds at once."""
    evaluator = LocalEvaluator(rules, store)
    evaluator.messages_max = messages_max or evaluator.messages_max
    evaluator.rounds_max = rounds_max
    return kind(rules.compiled.plan, evaluator, store, clock, **{"receiver": rules, **options})


def read_request(request: RoundRequest, store: Store) -> tuple[list[Message], StateReader]:
    """Return the messages of a request, and the state at its snapshot."""
    documents = Documents()
    return [documents.message(stored) for stored in request.batch], SnapshotReader(store, request.snapshot, documents)
