"""Starts of Spark in a process of their own. Tells what it sees as lines of JSON, then waits to be killed."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from demaq.spark.jobs import JobFailed, run_tasks
from demaq.spark.session import RunningSpark, SparkFailed, start_spark
from tests.support.spark.listening import tcp_addresses, unix_paths, with_descendants
from tests.support.spark.strangers import ask_gateway, ask_to_deserialise


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def own_handler(*_: object) -> None:
    """Of SIGINT."""


def wait(data: bytes) -> bytes:
    """Take longer than Java lives."""
    time.sleep(60)
    return data


def exposure(spark: RunningSpark) -> dict[str, Any]:
    """Where Spark listens, what strangers are answered there, and who may look at what it keeps on disk."""
    private = spark.private_folder
    processes = with_descendants(os.getpid())
    ports = [port for _, port in tcp_addresses(processes)]
    return {
        "hosts": sorted({host for host, _ in tcp_addresses(processes)}),
        "to a serialised object": [ask_to_deserialise(port).decode("utf-8", "replace") for port in ports],
        "to a call": [ask_gateway(port).decode("utf-8", "replace") for port in ports],
        "sockets": sorted(unix_paths(processes)),
        "private folder": str(private),
        "its mode": oct(private.stat().st_mode),
        "in it": sorted([path.name.partition("-")[0] for path in private.iterdir()]),
        "mode of the log": oct(spark.log_file.stat().st_mode),
    }


def main(folder: Path) -> None:
    signal.signal(signal.SIGINT, own_handler)
    try:
        start_spark("local[1]", options={"spark.driver.memory": "a lot"}, folder=folder / "failed")
    except SparkFailed as failure:
        say(step="failed", reason=str(failure))

    lines: list[str] = []
    with start_spark("local[1]", tell=lines.append) as spark:
        try:
            start_spark("local[1]")
        except SparkFailed as failure:
            say(step="second", reason=str(failure))
        answers = run_tasks(spark.session, [b"1", b"2"], lambda data: data * 2)
        pid, temporary = spark.java_pid, spark.log_file.parent
    say(
        step="closed",
        lines=lines,
        answers=[answer.decode() for answer in answers],
        java_is_running=is_running(pid),
        folder_exists=temporary.exists(),
        handler_is_ours=signal.getsignal(signal.SIGINT) is own_handler,
        java_home=os.environ.get("JAVA_HOME"),
    )

    with start_spark("local[1]") as spark:
        run_tasks(spark.session, [b""], bytes)
        threading.Timer(1.0, os.kill, [spark.java_pid, signal.SIGKILL]).start()
        reasons = []
        for _ in range(2):
            try:
                run_tasks(spark.session, [b""], wait)
            except JobFailed as failed:
                reasons.append(str(failed))
        private = spark.private_folder
    say(step="java killed", reasons=reasons, folder_exists=private.exists())

    again = start_spark("local[*]", options={"spark.app.name": "mine"}, folder=folder / "kept")
    (answer,) = run_tasks(again.session, [b""], lambda _: str(os.getpid()).encode())
    context = again.session.sparkContext
    say(
        step="again",
        java_pid=again.java_pid,
        worker_pid=int(answer),
        name=context.appName,
        master=context.master,
        log=str(again.log_file),
        here=sorted(os.listdir()),
        exposure=exposure(again),
    )
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
