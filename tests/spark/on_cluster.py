"""A session on a cluster, in a process of its own. Tells what it sees as lines of JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from demaq.spark.jobs import TasksFailed, run_tasks
from demaq.spark.session import start_spark

PROGRAM = "create queue a create queue b create rule r for a if (//x) then do enqueue <y>{//x/text()}</y> into b"


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def evaluate(data: bytes) -> bytes:
    """A message through rules, far from the driver."""
    from datetime import UTC, datetime

    import demaq
    from demaq.documents import Document
    from demaq.language.load import load_program_texts
    from demaq.rounds.compiled import compile_program
    from demaq.rounds.evaluator import SaxonEvaluator
    from demaq.rounds.memory_state import MemoryState
    from demaq.store.statements import statements

    now = datetime(2026, 1, 1, tzinfo=UTC)
    evaluator = SaxonEvaluator(compile_program(load_program_texts({"p.dmq": PROGRAM})))
    state = MemoryState(evaluator, {}, now)
    message = state.add("a", Document(data.decode()))
    (outcome,) = evaluator.evaluate([message], state, now)
    (action,) = outcome.actions
    time.sleep(1)  # so that no executor takes both tasks
    return json.dumps([demaq.__file__, os.getcwd(), repr(action), len(statements("reading.sql"))]).encode()


def end_executor(data: bytes) -> bytes:
    """Kills the executor whose child's child we are: worker, its daemon, Java."""
    if data == b"end":
        daemon = os.getppid()
        java = int(Path(f"/proc/{daemon}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(java, signal.SIGKILL)
        time.sleep(60)
    return data


def main(url: str, folder: Path, options: dict[str, str]) -> None:
    with start_spark(url, options=options, folder=folder) as spark:
        answers = run_tasks(spark.session, [b"<m><x>1</x></m>", b"<m><x>2</x></m>"], evaluate)
        say(step="evaluated", answers=[json.loads(answer) for answer in answers])
        try:
            run_tasks(spark.session, [b"1", b"end"], end_executor)
        except TasksFailed as failed:
            say(step="lost", answers=sorted(failed.answers), lost=sorted(failed.lost))
        answers = run_tasks(spark.session, [b"1", b"2", b"3", b"4"], bytes)
        say(step="after", answers=[answer.decode() for answer in answers])
    say(step="closed", imported_from_archive=any(path.endswith(".zip") and "demaq" in path for path in sys.path))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
