"""Check what arrives: quickly in one process, and what takes long in another, so that only its own sender waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from demaq.errors import MessageError
from demaq.evaluation.delegating import Delegating
from demaq.evaluation.outcomes import Outcome, PropertyRequest, Received, StateReader
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.messages import Message


class TakesLong(MessageError):
    """Stands for a message that is to be checked apart from the others. Never told to its sender."""

    def __init__(self) -> None:
        super().__init__("systemError", "checking it takes long")


class _OfArrivals(Delegating):
    """An Evaluator that is asked about nothing but what arrives."""

    messages_max = ProcessEvaluator.messages_max
    rounds_max = ProcessEvaluator.rounds_max

    def cascade(
        self, messages: Sequence[Message], reader: StateReader, now: datetime, deep: bool, fold: bool = False
    ) -> Sequence[Outcome | None]:
        return self._beside.cascade(messages, reader, now, deep, fold)


class Receiver(_OfArrivals):
    """An Evaluator of what arrives, with all the time that the limits allow. May be called from many threads."""

    def __init__(self, quick: ProcessEvaluator, slow: ProcessEvaluator) -> None:
        super().__init__(slow)
        self.quick = QuickReceiver(quick)
        self._slow = slow

    def receive_many(self, arrivals: Sequence[PropertyRequest]) -> list[Received | MessageError]:
        answers = self.quick.receive_many(arrivals)
        for number, answer in enumerate(answers):
            if isinstance(answer, TakesLong):
                [answers[number]] = self._slow.receive_many([arrivals[number]])
        return answers

    def stop(self) -> None:
        """End what takes long, for good: whoever waits for it hears that it cannot be done."""
        self._slow.stop()


class QuickReceiver(_OfArrivals):
    """The same for whoever must not wait: TakesLong is the answer for a message that takes long."""

    def __init__(self, quick: ProcessEvaluator) -> None:
        super().__init__(quick)
        self._quick = quick

    def receive_many(self, arrivals: Sequence[PropertyRequest]) -> list[Received | MessageError]:
        return [TakesLong() if answer is None else answer for answer in self._quick.receive_quickly(arrivals)]
