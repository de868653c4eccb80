"""Requests for offers go through a node; in the end its store says whether each got exactly the answer it must get.

The traffic is the same every time: so many customers, every seventh of whom has not paid an invoice, and every eleventh
request has an item that must not be exported. So it is known beforehand which requests must be refused.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from demaq.gc_tuning import tune_gc
from demaq.server.node import Node
from demaq.spark.pipeline import Counts, PipelineName
from demaq.store.sql_store import SqlStore
from demaq_bench.figures import written_bytes
from demaq_bench.offer_requests import RESTRICTIONS, invoices, is_refused, request_message

APPLICATION = Path(__file__).with_name("procurement.dmq")
SENT_TOGETHER = 1000
"""How many requests are stored in one transaction."""
LOOK_EVERY_SECONDS = 0.2
PAGE = 1000

_ANSWER = re.compile(r"<(offer|refusal)>\s*<requestID>R(\d+)</requestID>")

Progress = Callable[[int], None]
"""Called with how many are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoResult:
    requests: int
    sent_seconds: float
    processed_seconds: float
    steps: int
    bytes_written: int
    rounds: Counts
    answers: Mapping[str, int]
    """How many answers of each kind there are."""
    problems: tuple[str, ...]
    """What is not as it must be."""


class Demonstration:
    """A node with the scenario's application. Must be stopped."""

    def __init__(
        self,
        store: str | Path,
        pipeline: PipelineName,
        master: str,
        options: Mapping[str, str],
        tell: Callable[[str], None],
    ) -> None:
        self.node = Node(APPLICATION, store, pipeline=pipeline, master=master, spark_options=options, tell=tell)
        try:
            self.node.pipeline.start()
            self.node.load_collection("restrictions", [RESTRICTIONS])
        except BaseException:
            self.node.stop()
            raise
        tune_gc()

    def run(self, requests: int, sent: Progress, answered: Progress) -> DemoResult:
        """Let all requests arrive, process them, and look at the answers."""
        engine = self.node.engine
        engine.enqueue_all("invoices", list(invoices()))
        written = int(written_bytes())
        started = time.perf_counter()
        for first in range(0, requests, SENT_TOGETHER):
            numbers = range(first, min(first + SENT_TOGETHER, requests))
            engine.enqueue_all("crm", [request_message(number) for number in numbers])
            sent(len(numbers))
        sent_seconds = time.perf_counter() - started
        started = time.perf_counter()
        self.node.start()
        before = 0
        while True:
            done = self._answers()
            answered(done - before)
            before = done
            if self.node.failure is not None or (done >= requests and self._is_idle()):
                break
            if self._is_idle() and self.node.fault is None and self._answers() == done:
                break
            time.sleep(LOOK_EVERY_SECONDS)
        answers, problems = check(self.node.store, requests)
        if self.node.failure is not None:
            problems = (f"the node has stopped: {self.node.failure}", *problems)
        return DemoResult(
            requests=requests,
            sent_seconds=sent_seconds,
            processed_seconds=time.perf_counter() - started,
            steps=self.node.steps,
            bytes_written=int(written_bytes()) - written,
            rounds=self.node.pipeline.counts,
            answers=answers,
            problems=problems,
        )

    def _answers(self) -> int:
        return self.node.store.counts().get("customer", (0, 0))[0]

    def _is_idle(self) -> bool:
        return not self.node.store.pending(1)

    def stop(self) -> None:
        self.node.stop()


def check(store: SqlStore, requests: int) -> tuple[dict[str, int], tuple[str, ...]]:
    """Answers by kind, and what is wrong with them."""
    kinds: Counter[str] = Counter()
    answers: Counter[int] = Counter()
    problems: list[str] = []
    after = 0
    while page := store.stored("customer", after, PAGE):
        for message in page:
            match = _ANSWER.match(message.body)
            if match is None:
                problems.append(f"message {message.seq} is no answer")
                continue
            kinds[match[1]] += 1
            answers[int(match[2])] += 1
            if (match[1] == "refusal") != is_refused(int(match[2])):
                problems.append(f"request {match[2]} got the wrong answer: {match[1]}")
        after = page[-1].seq
    missing = [number for number in range(requests) if answers[number] == 0]
    doubled = [number for number, count in answers.items() if count > 1]
    if missing:
        problems.append(f"{len(missing):,} requests got no answer, such as {missing[0]}")
    if doubled:
        problems.append(f"{len(doubled):,} requests got more than one answer, such as {doubled[0]}")
    if errors := store.counts().get("demaq:errors", (0, 0))[0]:
        problems.append(f"there are {errors:,} error messages")
    return dict(kinds), tuple(problems)
