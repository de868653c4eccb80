"""An evaluator that leaves all but cascades to another one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from demaq.errors import MessageError
from demaq.evaluation.outcomes import Outcome, PropertyRequest, Received, StateReader
from demaq.evaluation.saxon.saxon_evaluator import Evaluator
from demaq.messages import Message


class Delegating:
    """Everything but `cascade` is asked of the evaluator beside the node."""

    def __init__(self, beside: Evaluator) -> None:
        self._beside = beside

    def evaluate(self, messages: Sequence[Message], reader: StateReader, now: datetime) -> list[Outcome]:
        return self._beside.evaluate(messages, reader, now)

    def receive_many(self, arrivals: Sequence[PropertyRequest]) -> list[Received | MessageError]:
        return self._beside.receive_many(arrivals)

    def migrate_many(self, arrivals: Sequence[PropertyRequest]) -> list[Received | MessageError]:
        return self._beside.migrate_many(arrivals)
