"""Hand-written programs that fuse arrival and effects: a message is parsed and answered where it arrives.

What is to be stored in the end is written in one transaction with as many others as arrive together, and neither the
message nor anything in between. A sender learns that its message was accepted when its answer is durable. The programs
may do that because nothing in these workloads waits for anything else, and the invoices do not change meanwhile: they
validate nothing.
"""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias

from demaq_bench.baseline import (
    INSERT_ANSWER,
    Arriving,
    HandWrittenCode,
    InvoiceReader,
    Invoices,
    Tables,
    find_code,
)
from demaq_bench.workloads import Workload

Row: TypeAlias = tuple[str, str, bytes]
"""Queue, key and body of what is stored."""
EVALUATORS = 2
GROUPS_EACH = 2
"""So many groups an evaluator has at a time, so that it need not wait for the next one."""
START_SECONDS = 0.5


class FusingProgram:
    """Everything in one process. Must be closed."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        self._workload = workload
        self._code = find_code(workload.name)
        self._tables = Tables(folder)
        self._tables.fill(workload.stock())

    def run(self, arriving: Sequence[Arriving], per_commit: int) -> None:
        for first in range(0, len(arriving), per_commit):
            self._write(answer_all(self._code, self._tables, arriving[first : first + per_commit]))

    def take_answers(self) -> list[str]:
        return self._tables.take_answers(self._workload.answers)

    def count_waiting(self) -> int:
        return self._tables.count_waiting()

    def close(self) -> None:
        self._tables.connection.close()

    def _write(self, rows: Sequence[Row]) -> None:
        self._tables.execute("BEGIN IMMEDIATE")
        self._tables.connection.executemany(INSERT_ANSWER, rows)
        self._tables.execute("COMMIT")


class FusingPool(FusingProgram):
    """The same with processes that parse and answer; this one writes what they return. Must be closed."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        super().__init__(workload, folder)
        context = get_context("spawn")
        self._evaluators: list[Connection] = []
        for _ in range(EVALUATORS):
            ours, theirs = context.Pipe()
            process = context.Process(target=evaluate, args=(theirs, workload.name, self._tables.file), daemon=False)
            process.start()
            theirs.close()
            self._evaluators.append(ours)
        time.sleep(START_SECONDS)

    def run(self, arriving: Sequence[Arriving], per_commit: int) -> None:
        """Where each message has a transaction of its own, its sender waits for it before it sends the next one."""
        under_way_max = 1 if per_commit == 1 else GROUPS_EACH * EVALUATORS
        under_way: deque[Connection] = deque()
        for number, first in enumerate(range(0, len(arriving), per_commit)):
            evaluator = self._evaluators[number % EVALUATORS]
            evaluator.send_bytes(pickle.dumps(arriving[first : first + per_commit], 5))
            under_way.append(evaluator)
            if len(under_way) >= under_way_max:
                self._write(pickle.loads(under_way.popleft().recv_bytes()))
        while under_way:
            self._write(pickle.loads(under_way.popleft().recv_bytes()))

    def close(self) -> None:
        for evaluator in self._evaluators:
            evaluator.close()
        super().close()


def evaluate(connection: Connection, workload: str, file: Path) -> None:
    """Answer groups of messages until the connection is closed."""
    code, invoices = find_code(workload), InvoiceReader(file)
    while True:
        try:
            arriving = pickle.loads(connection.recv_bytes())
        except EOFError:
            return
        connection.send_bytes(pickle.dumps(answer_all(code, invoices, arriving), 5))


def answer_all(code: HandWrittenCode, invoices: Invoices, arriving: Sequence[Arriving]) -> list[Row]:
    """Return the rows that come of messages, ready to be written."""
    return [(queue, key, text) for key, body in arriving for queue, text in code.answer(invoices, body)]
