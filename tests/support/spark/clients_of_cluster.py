"""Clients of a cluster, with its secret and without, in a process of their own. Tells what it sees as lines of JSON."""

from __future__ import annotations

import json
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from demaq.spark.jobs import run_tasks
from demaq.spark.security import AUTHENTICATE, SECRET, SECRET_FILE
from demaq.spark.session import SparkFailed, start_spark

MARKER = b"what travels to an executor"
LISTENS, SEEN_AS = "127.0.0.1", "127.0.0.2"
"""Where the driver listens, and where executors believe it to be: what they say to each other passes us."""


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def main(url: str, options: dict[str, str], folder: Path) -> None:
    secret = Path(options[SECRET_FILE]).read_text().strip()
    without = {name: value for name, value in options.items() if name != SECRET_FILE}
    for name, more in {"none": {}, "another": {SECRET: secret[::-1]}, "off": {AUTHENTICATE: "false"}}.items():
        try:
            start_spark(url, options={**without, **more}, folder=folder / name).close()
            say(step=name, reason=None)
        except SparkFailed as failure:
            say(step=name, reason=str(failure))

    with Recorder() as recorder:
        through = {"spark.driver.host": SEEN_AS, "spark.driver.bindAddress": LISTENS, **recorder.ports}
        with start_spark(url, options={**options, **through}, folder=folder / "right") as spark:
            (answer,) = run_tasks(spark.session, [MARKER], twice)
            lines = command_lines()
    say(
        step="right",
        answer=answer.decode(),
        recorded=len(recorder.recorded),
        readable=[text for text in (MARKER.decode(), "org.apache.spark", secret) if text.encode() in recorder.recorded],
        executors=len([line for line in lines if b"CoarseGrainedExecutorBackend" in line]),
        secret_on_command_lines=sum([secret.encode() in line for line in lines]),
    )


def twice(data: bytes) -> bytes:
    return data * 2


def command_lines() -> list[bytes]:
    """Return what `ps` shows to all users."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.append((process / "cmdline").read_bytes())
    return found


class Recorder:
    """Passes on what executors and driver say to each other, and keeps it."""

    def __init__(self) -> None:
        self.recorded = bytearray()
        names = ("spark.driver.port", "spark.driver.blockManager.port")
        self._listening = {name: socket.create_server((SEEN_AS, 0)) for name in names}
        self.ports = {name: str(listening.getsockname()[1]) for name, listening in self._listening.items()}

    def __enter__(self) -> Recorder:
        for listening in self._listening.values():
            threading.Thread(target=self._accept, args=[listening], daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for listening in self._listening.values():
            listening.close()

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                executor, _ = listening.accept()
                driver = socket.create_connection((LISTENS, listening.getsockname()[1]))
                for source, target in ((executor, driver), (driver, executor)):
                    threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self.recorded += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3]))
