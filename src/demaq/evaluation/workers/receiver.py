"""Check messages from outside: quickly in one worker, slow ones in another, so that only their senders wait."""

from __future__ import annotations

from collections.abc import Sequence

from demaq.errors import MessageError
from demaq.evaluation.round_request import PropertyRequest, PropertyResult
from demaq.evaluation.workers.process import ProcessEvaluator


class TakesLong(MessageError):
    """Stands for a message that is to be checked in another worker. Never sent to its sender."""

    def __init__(self) -> None:
        super().__init__("systemError", "checking it takes long")


class Receiver:
    """A PropertyEvaluator with all the time that the limits allow. May be called from many threads."""

    def __init__(self, quick: ProcessEvaluator, slow: ProcessEvaluator) -> None:
        self.quick = QuickReceiver(quick)
        self._slow = slow

    def compute_properties(self, arrivals: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        answers = self.quick.compute_properties(arrivals)
        for number, answer in enumerate(answers):
            if isinstance(answer, TakesLong):
                [answers[number]] = self._slow.compute_properties([arrivals[number]])
        return answers

    def migrate_properties(self, requests: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        return self._slow.migrate_properties(requests)

    def stop(self) -> None:
        """Kill the worker of slow messages for good. A thread that waits for it gets an error."""
        self._slow.stop()


class QuickReceiver:
    """A PropertyEvaluator that returns TakesLong for a message which takes long, so that the others need not wait."""

    def __init__(self, quick: ProcessEvaluator) -> None:
        self._quick = quick

    def compute_properties(self, arrivals: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        return [TakesLong() if answer is None else answer for answer in self._quick.compute_quickly(arrivals)]

    def migrate_properties(self, requests: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        return self._quick.migrate_properties(requests)
