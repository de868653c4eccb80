"""A real node under load is killed with SIGKILL at random moments, started again, and checked message by message.

The sender counts what was acknowledged, and sends again what was not answered. After each kill the store is
read as it lies there, and accounts must balance (`crash_audit`). The seed decides who sends what, when the node is
killed and how; what the node is doing at that moment it cannot decide.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from demaq.control.client import RemoteNode, running_node
from demaq.errors import MessageError, StoreError
from demaq.spark.pipeline import PipelineName
from demaq.store.sqlite import SqliteStore
from demaq.store.sqlite_database import FILE_NAME
from demaq_bench.crash_audit import Ledger, Problems, audit
from demaq_bench.node_process import NodeProcess
from demaq_bench.workloads import APPLICATIONS

APPLICATION = APPLICATIONS / "crash.dmq"
TRIALS_PER_STORE = 20
"""After so many kills a store is checked to its end, and another one is begun."""
SENDERS = 6
STARTING_SHARE = 0.25
"""So many of the kills hit a node that is starting."""
STARTING_SECONDS_MAX = 2.0
LOADED_SECONDS_MAX = 1.2
ALONE_SHARE = 0.3
"""So many of the kills hit the node alone and leave its evaluator running."""
AGAIN_SHARE = 0.05
"""So many of the messages are sent again although they were acknowledged."""
IDLE_SECONDS_MAX = 300.0
POLL_SECONDS = 0.02
PROBLEMS_SHOWN_MAX = 20


@dataclass(slots=True)
class Summary:
    """What a campaign came to."""

    seed: int
    trials: int = 0
    while_starting: int = 0
    acknowledged: int = 0
    resent: int = 0
    processed: int = 0
    """Of the acknowledged messages, those that had all their effects in the end."""
    missing: int = 0
    doubled: int = 0
    otherwise_wrong: int = 0
    problems: list[str] = field(default_factory=list)
    folder: str = ""
    """Where the store lies that is wrong."""


def campaign(
    trials: int,
    seed: int,
    say: Callable[[str], None],
    folder: Path | None = None,
    trials_per_store: int = TRIALS_PER_STORE,
    pipeline: PipelineName = "inline",
) -> Summary:
    """Ends early, and leaves the store where it is, when something is wrong."""
    summary = Summary(seed)
    own = Path(tempfile.mkdtemp(prefix="demaq-crash-", dir=folder))
    chance = random.Random(seed)
    number = 0
    while summary.trials < trials and not summary.problems:
        place = own / f"store-{number}"
        place.mkdir()
        # Every second store keeps everything, so that nothing can hide by being removed.
        trial = _Trials(place, chance, summary, "1d" if number % 2 else "0s", pipeline)
        try:
            for _ in range(min(trials_per_store, trials - summary.trials)):
                trial.kill_once()
                if summary.problems:
                    break
            else:
                trial.finish()
        finally:
            trial.end()
        say(f"{summary.trials} of {trials} kills, {summary.acknowledged:,} messages acknowledged")
        if not summary.problems:
            shutil.rmtree(place)
        number += 1
    if summary.problems:
        summary.folder = str(place)
    else:
        shutil.rmtree(own)
    return summary


class _Trials:
    """One store, and the kills it must survive."""

    def __init__(self, place: Path, chance: random.Random, summary: Summary, keep: str, pipeline: PipelineName) -> None:
        self._store = place / "store"
        self._chance = chance
        self._summary = summary
        self._options = ("--keep", keep, "--pipeline", pipeline)
        self._senders = [_Sender(f"s{n}", chance.random()) for n in range(SENDERS)]
        self._node: NodeProcess | None = None
        self._newest = 0
        """The newest number at the last audit: what is transient and older must be gone once a node has run."""

    def kill_once(self) -> None:
        starting = self._chance.random() < STARTING_SHARE
        seconds = self._chance.uniform(0.0, STARTING_SECONDS_MAX if starting else LOADED_SECONDS_MAX)
        alone = self._chance.random() < ALONE_SHARE
        self._node = node = self._start()
        stop = threading.Event()
        threads = [threading.Thread(target=s.run, args=(self._store, stop), daemon=True) for s in self._senders]
        try:
            if not starting:
                node.wait_until_running()
            for thread in threads:
                thread.start()
            time.sleep(seconds)
            ran = running_node(self._store) is not None
        except RuntimeError as error:
            self._report(Problems(otherwise_wrong=[str(error)]))
            ran = False
        finally:
            node.kill(evaluator_too=not alone)
            stop.set()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        self._summary.trials += 1
        self._summary.while_starting += starting
        self._check(ran, finished=False)
        node.kill()  # an evaluator that is left ends by itself; a campaign does not wait for it

    def finish(self) -> None:
        """Start once more, ask again where no answer came, and let everything come to its end."""
        self._node = node = self._start()
        try:
            remote = node.wait_until_running()
            for sender in self._senders:
                sender.ask_again(remote)
            self._wait_until_idle()
            code = node.stop()
        except (RuntimeError, StoreError, MessageError, OSError, subprocess.TimeoutExpired) as error:
            self._report(Problems(otherwise_wrong=[f"the node did not come to its end: {error}"]))
            return
        if code:
            self._report(Problems(otherwise_wrong=[f"the node ended with exit code {code}: {node.said()}"]))
        self._check(ran=True, finished=True)
        self._report(Problems(otherwise_wrong=_damages(self._store)))

    def end(self) -> None:
        """Leave no process running, and add up."""
        if self._node is not None:
            self._node.kill()
        ledger = self._ledger()
        self._summary.acknowledged += len(ledger.acknowledged)
        self._summary.resent += sum([sender.resent for sender in self._senders])

    def _start(self) -> NodeProcess:
        return NodeProcess(APPLICATION, self._store, *self._options)

    def _ledger(self) -> Ledger:
        ledger = Ledger()
        for sender in self._senders:
            ledger.acknowledged.update(sender.acknowledged)
            ledger.unanswered.update(sender.unanswered)
        return ledger

    def _check(self, ran: bool, finished: bool) -> None:
        wrong = [problem for sender in self._senders for problem in sender.problems]
        self._report(Problems(otherwise_wrong=wrong))
        if not (self._store / FILE_NAME).exists():
            return  # killed before there was one
        reader = SqliteStore.open_readonly(self._store) if _has_tables(self._store) else None
        if reader is None:
            return
        try:
            result = audit(reader, self._ledger(), self._newest if ran else 0, finished)
            self._newest = reader.snapshot()
        finally:
            reader.close()
        self._report(result.problems)
        if finished:
            self._summary.processed += result.done

    def _report(self, problems: Problems) -> None:
        self._summary.missing += len(problems.missing)
        self._summary.doubled += len(problems.doubled)
        self._summary.otherwise_wrong += len(problems.otherwise_wrong)
        shown = [*problems.missing, *problems.doubled, *problems.otherwise_wrong]
        self._summary.problems += shown[: PROBLEMS_SHOWN_MAX - len(self._summary.problems)]

    def _wait_until_idle(self) -> None:
        until = time.monotonic() + IDLE_SECONDS_MAX
        reader = SqliteStore.open_readonly(self._store)
        try:
            while reader.pending(1) or reader.next_due() is not None:
                if time.monotonic() > until:
                    raise RuntimeError(f"it still works after {IDLE_SECONDS_MAX:g} s")
                time.sleep(POLL_SECONDS)
        finally:
            reader.close()


class _Sender:
    """Sends orders one after the other, each under a name of its own, and remembers what was answered."""

    def __init__(self, name: str, seed: float) -> None:
        self.acknowledged: dict[str, int] = {}
        """Names of orders with the numbers that were answered."""
        self.unanswered: list[str] = []
        self.resent = 0
        self.problems: list[str] = []
        self._name = name
        self._chance = random.Random(seed)
        self._count = 0

    def run(self, store: Path, stop: threading.Event) -> None:
        """Send until `stop` is called, or until the node has ended."""
        while not stop.is_set():
            remote = running_node(store)
            if remote is None:
                stop.wait(POLL_SECONDS)
                continue
            try:
                while not stop.is_set():
                    self._send_one(remote)
            except (OSError, StoreError, ValueError):
                continue  # it was killed
            except MessageError as error:
                self.problems.append(f"an order was refused: {error}")
                return

    def ask_again(self, remote: RemoteNode) -> None:
        while self.unanswered:
            self._send_one(remote)

    def _send_one(self, remote: RemoteNode) -> None:
        if self.unanswered:
            name = self.unanswered[0]
            self.resent += 1
        elif self.acknowledged and self._chance.random() < AGAIN_SHARE:
            name = self._chance.choice(list(self.acknowledged))
            self.resent += 1
        else:
            self._count += 1
            name = f"{self._name}-{self._count}"
            self.unanswered.append(name)
        seq = remote.enqueue("orders", f"<order><id>{name}</id></order>".encode(), {}, name)
        if self.acknowledged.setdefault(name, seq) != seq:
            self.problems.append(f"order {name} was message {self.acknowledged[name]} and is now message {seq}")
        if name in self.unanswered:
            self.unanswered.remove(name)


def _has_tables(store: Path) -> bool:
    """Return False if a node was killed while it made its store: it has acknowledged nothing yet."""
    connection = sqlite3.connect((store / FILE_NAME).absolute().as_uri() + "?mode=ro", uri=True)
    try:
        return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    finally:
        connection.close()


def _damages(store: Path) -> list[str]:
    """Return what SQLite itself finds wrong with the file."""
    connection = sqlite3.connect((store / FILE_NAME).absolute().as_uri() + "?mode=ro", uri=True)
    try:
        found = [row[0] for row in connection.execute("PRAGMA integrity_check")]
    finally:
        connection.close()
    return [f"the store's file: {text}" for text in found if text != "ok"]
