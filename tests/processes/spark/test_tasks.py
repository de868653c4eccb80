"""Workers that connect to their node, as tasks on Spark do: over a socket file, and over TCP with a second process."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demaq.evaluation.outcomes import Outcome
from demaq.evaluation.round_request import RoundRequest
from demaq.evaluation.workers.child import Start
from demaq.evaluation.workers.pool import EvaluatorPool
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.evaluation.workers.worker_connection import WaitingWorkers
from demaq.evaluation.workers.worker_slot import NoWorker
from demaq.spark import task_listener
from demaq.spark.task_channel import SECRET_BYTES, TaskAddress, connect
from demaq.spark.task_listener import TaskListener
from demaq.store import SqliteStore
from demaq.store.protocol import NewMessage, StoredMessage
from demaq.testing.lab import load_text
from tests.support.spark.listening import with_descendants
from tests.support.spark.task_process import LOST, start_task

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PROGRAM = """
declare function local:forever($n) { if ($n < 0) then $n else local:forever($n + 1) };
declare function local:much($n) { count(fold-left(1 to $n, (), function($all, $n) { $all, <a>{$n}</a> })) };
create queue in create queue out
create rule answer for in if (/m) then do enqueue <n>{sum(1 to xs:integer(/m))}</n> into out
create rule endless for in if (/endless) then do enqueue <n>{local:forever(1)}</n> into out
create rule large for in if (/large) then do enqueue <n>{local:much(200000000)}</n> into out
"""
SECONDS_MAX = 60.0
HOST = "127.0.0.1"


class TaskSite:
    """A node's end without a node: where tasks connect, and an evaluator that uses them."""

    def __init__(self, folder: Path, host: str | None) -> None:
        self.store = SqliteStore(folder / "store")
        self.rounds, self.arrivals = WaitingWorkers(), WaitingWorkers()
        files = load_text(PROGRAM).files()
        start = Start(files=files, store=folder / "store", orphan_seconds=30.0)
        (folder / "private").mkdir(mode=0o700)
        self.listener = TaskListener(start, {}, self.rounds, self.arrivals, folder / "private", host)
        self.evaluator = self.make_evaluator()
        self.tasks: list[subprocess.Popen[bytes]] = []

    def make_evaluator(
        self, seconds: float = 30.0, memory: int | None = None, patient: bool = True
    ) -> ProcessEvaluator:
        files = load_text(PROGRAM).files()
        where = self.store_folder
        return ProcessEvaluator(files, where, seconds, memory, is_patient=patient, elsewhere=self.rounds)

    @property
    def store_folder(self) -> Path:
        return Path(self.listener._start[2])

    def start_task(self) -> subprocess.Popen[bytes]:
        before = self.listener.count()[0]
        self.tasks.append(start_task(self.listener.address))
        wait_until(lambda: self.listener.count()[0] == before + 1)
        return self.tasks[-1]

    def message(self, body: str) -> StoredMessage:
        [seq] = self.store.append([NewMessage(queue="in", body=body, properties={}, created=NOW, priority=0)])
        found = self.store.message(seq)
        assert found is not None
        return found

    def ask(self, evaluator: ProcessEvaluator | EvaluatorPool, *bodies: str) -> list[Outcome | None]:
        batch = [self.message(body) for body in bodies]
        return evaluator.run(RoundRequest(batch=batch, snapshot=self.store.snapshot(), now=NOW, deep=True)).outcomes

    def close(self) -> None:
        self.listener.close()
        self.evaluator.close()
        for task in self.tasks:
            task.kill()
            task.wait()
        self.store.close()


@pytest.fixture(params=[None, HOST], ids=["socket file", "TCP"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TaskSite]:
    with closing(TaskSite(tmp_path, request.param)) as found:
        yield found


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def answer(outcome: Outcome | None) -> str:
    assert outcome is not None
    [action] = outcome.actions
    return str(action.document.text)  # type: ignore[union-attr]


def test_a_task_evaluates_and_ends_when_there_are_no_more_requests(site: TaskSite) -> None:
    task = site.start_task()
    assert [answer(each) for each in site.ask(site.evaluator, "<m>3</m>", "<m>4</m>")] == ["<n>6</n>", "<n>10</n>"]
    assert site.evaluator.is_on_spark
    assert site.evaluator.pid in (task.pid, None)
    assert [answer(each) for each in site.ask(site.evaluator, "<m>2</m>")] == ["<n>3</n>"]
    site.listener.close()
    assert task.wait(SECONDS_MAX) == 0
    site.evaluator.close()  # kills no process that may do something else by now
    assert site.listener.count() == (0, 0)


def test_a_process_serves_until_a_task_is_there(site: TaskSite) -> None:
    site.ask(site.evaluator, "<m>3</m>")
    process = site.evaluator.pid
    assert process is not None
    assert not site.evaluator.is_on_spark
    site.start_task()
    assert [answer(each) for each in site.ask(site.evaluator, "<m>4</m>")] == ["<n>10</n>"]
    assert site.evaluator.is_on_spark
    assert not Path(f"/proc/{process}").exists()


@pytest.mark.parametrize("is_asked", [False, True])
def test_what_a_killed_task_had_to_do_is_evaluated_by_a_process_and_then_by_the_next_task(
    site: TaskSite, is_asked: bool
) -> None:
    evaluator = site.make_evaluator(patient=False)
    with closing(evaluator):
        task = site.start_task()
        site.ask(evaluator, "<m>1</m>")
        if is_asked:
            os.kill(task.pid, signal.SIGSTOP)
            send = evaluator._process.send  # type: ignore[union-attr]

            def send_and_lose(request: object) -> object:
                watch = send(request)  # type: ignore[arg-type]
                task.kill()
                return watch

            evaluator._process.send = send_and_lose  # type: ignore[union-attr,method-assign]
        else:
            task.kill()
            task.wait()
        assert [answer(each) for each in site.ask(evaluator, "<m>3</m>", "<m>4</m>")] == ["<n>6</n>", "<n>10</n>"]
        assert not evaluator.is_on_spark
        wait_until(lambda: site.listener.count() == (0, 0))
        site.start_task()
        assert [answer(each) for each in site.ask(evaluator, "<m>5</m>")] == ["<n>15</n>"]
        assert evaluator.is_on_spark


@pytest.mark.parametrize(
    ("body", "seconds", "memory", "reason"),
    [
        ("<endless/>", 1.0, None, "it did not end within 1 s"),
        ("<large/>", 60.0, 50_000_000, "it took more than 50 MB of memory"),
    ],
)
def test_a_rule_that_exceeds_a_limit_costs_its_task_and_gets_an_error(
    site: TaskSite, body: str, seconds: float, memory: int | None, reason: str
) -> None:
    task = site.start_task()
    with closing(site.make_evaluator(seconds, memory)) as evaluator:
        # A request about two messages goes to the task; rule by rule, the process is asked that takes its place.
        other, culprit = site.ask(evaluator, "<m>3</m>", body)
        assert answer(other) == "<n>6</n>"
        assert culprit is not None
        [error] = culprit.errors
        assert reason in error.description
    assert task.wait(SECONDS_MAX) == -signal.SIGKILL


def test_messages_that_take_long_are_deferred_as_by_a_process(site: TaskSite) -> None:
    task = site.start_task()
    with closing(site.make_evaluator(patient=False)) as evaluator:
        began = time.monotonic()
        [slow] = site.ask(evaluator, "<endless/>")
        assert time.monotonic() - began < 25
        assert slow is not None
        assert slow.deferred is not None
        assert "it takes longer than" in slow.deferred.reason
    assert task.wait(SECONDS_MAX) == -signal.SIGKILL


def test_a_task_whose_node_is_gone_ends_with_all_its_processes(site: TaskSite) -> None:
    task = site.start_task()
    processes = with_descendants(task.pid)
    assert len(processes) == (1 if site.listener._tls is None else 2)
    worker = site.rounds.take()
    assert worker is not None
    worker._connection.close()  # as the kernel does when a node is killed
    if site.listener._tls is not None:
        worker._watcher.close()  # type: ignore[attr-defined]
    assert task.wait(SECONDS_MAX) in (LOST, -signal.SIGKILL)
    worker.close()
    wait_until(lambda: not [pid for pid in processes if Path(f"/proc/{pid}").exists()])


def test_a_busy_task_on_another_machine_ends_when_its_node_is_gone(tmp_path: Path) -> None:
    with closing(TaskSite(tmp_path, HOST)) as site:
        task = site.start_task()
        worker = site.rounds.take()
        assert worker is not None
        from demaq.evaluation.workers.worker_protocol import RunRound

        seqs = [site.message("<endless/>").seq]
        worker.send(RunRound(seqs=seqs, snapshot=site.store.snapshot(), now=NOW, deep=False, fold=False))
        wait_until(lambda: worker.busy() is not None)
        worker._watcher.close()  # type: ignore[attr-defined]
        assert task.wait(SECONDS_MAX) == -signal.SIGKILL
        worker.close()


def test_one_of_several_tasks_is_for_arrivals(site: TaskSite) -> None:
    for _ in range(3):
        site.start_task()
    assert site.listener.count() == (3, 2)
    assert len(site.rounds._waiting) == 2
    assert len(site.arrivals._waiting) == 1


def test_a_task_that_comes_before_its_predecessor_is_known_to_be_lost_takes_its_place(site: TaskSite) -> None:
    lost = site.start_task()
    site.ask(site.evaluator, "<m>1</m>")
    lost.kill()
    lost.wait()
    assert len(site.listener._workers) == 1, "the evaluator that has it notices when it asks next"
    site.start_task()
    assert not site.arrivals
    assert [answer(each) for each in site.ask(site.evaluator, "<m>3</m>")] == ["<n>6</n>"]
    assert [answer(each) for each in site.ask(site.evaluator, "<m>4</m>")] == ["<n>10</n>"]
    assert site.evaluator.is_on_spark


def test_a_pool_uses_all_tasks_and_returns_to_processes_without_them(site: TaskSite) -> None:
    counted: list[tuple[int, bool]] = []
    pool = EvaluatorPool(site.evaluator, 1, lambda messages, on_spark: counted.append((messages, on_spark)))
    with closing(pool):
        assert pool.rounds_max == 1
        for _ in range(3):
            site.start_task()
        pool.use_spark(2)
        assert pool.rounds_max == 2
        site.ask(pool, "<m>1</m>")
        [other] = pool._others
        assert other.is_ready()
        assert other.is_on_spark
        for task in site.tasks:
            task.kill()
            task.wait()
        with pytest.raises(NoWorker):
            site.ask(other, "<m>2</m>")  # it has no process
        pool._free.reverse()
        assert [answer(each) for each in site.ask(pool, "<m>4</m>")] == ["<n>10</n>"]
        pool.use_spark(site.listener.count()[1])
        assert pool.rounds_max == 1
    assert counted == [(1, True), (1, False)]


# --- who is let in ---------------------------------------------------------------------------------------------------


class Planted:
    """An object that would leave a file if it was deserialised."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.mkdir, (str(self._file),)


def test_a_wrong_secret_is_refused(site: TaskSite, caplog: pytest.LogCaptureFixture) -> None:
    address = replace(site.listener.address, secret=bytes(SECRET_BYTES))
    task = start_task(address)
    assert task.wait(SECONDS_MAX) == LOST
    wait_until(lambda: site.listener.refused >= 1)
    assert site.listener.count() == (0, 0)
    assert "was refused" in caplog.text
    assert site.listener.address.secret.hex() not in repr(site.listener.address)


def test_nothing_of_a_stranger_is_deserialised(site: TaskSite, tmp_path: Path) -> None:
    where = site.listener.address.where
    planted = pickle.dumps(Planted(tmp_path / "planted"))
    with suppress(OSError), socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET) as stranger:
        stranger.connect(where)
        stranger.sendall(len(planted).to_bytes(4, "big") + planted * 10)
        stranger.settimeout(SECONDS_MAX)
        while stranger.recv(1000):
            pass
    wait_until(lambda: site.listener.refused == 1)
    assert not (tmp_path / "planted").exists()


def test_a_stranger_cannot_take_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_listener, "HANDSHAKE_SECONDS_MAX", 0.5)
    with closing(TaskSite(tmp_path, None)) as site, socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(site.listener.address.where))
        stranger.settimeout(SECONDS_MAX)
        with suppress(OSError):
            for _ in range(31):  # one byte less than a nonce has, each well in time
                stranger.sendall(b"x")
                time.sleep(0.05)
        wait_until(lambda: site.listener.refused == 1)


def test_a_task_does_not_talk_to_a_node_that_does_not_know_the_secret(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "other.sock"))
        other.listen()
        task = start_task(TaskAddress(str(tmp_path / "other.sock"), bytes(SECRET_BYTES)))
        peer, _ = other.accept()
        with peer:
            peer.sendall(bytes(64))
            assert task.wait(SECONDS_MAX) == LOST


def test_a_task_does_not_talk_to_a_node_with_another_certificate(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with closing(TaskSite(tmp_path / "a", HOST)) as one, closing(TaskSite(tmp_path / "b", HOST)) as other:
        address = replace(one.listener.address, certificate=other.listener.address.certificate)
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            connect(address)


def test_the_socket_file_is_its_users_and_goes_with_the_node(tmp_path: Path) -> None:
    with closing(TaskSite(tmp_path, None)) as site:
        file = Path(str(site.listener.address.where))
        assert oct(file.stat().st_mode & 0o777) == "0o600"
    assert not file.exists()
