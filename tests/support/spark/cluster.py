"""A Spark cluster on loopback: a master and two workers with a secret, each a process that ends with the tests.

They are started in the foreground by the scripts in the package pyspark, so that each is a child we know the pid of.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from demaq.spark.java import find_java_home
from demaq.spark.security import PROTECTED, SECRET, SECRET_FILE

START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 30.0
WORKERS = 2
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that has little to do and is to be there soon."""

# Starts what follows, and ends it when our standard input is closed, for whatever reason.
_UNTIL_ALONE = 'exec 3<&0; "$@" </dev/null >"$0" 2>&1 & echo $!; cat <&3 >/dev/null; kill $!; wait $!'


@dataclass(frozen=True)
class Daemon:
    """A master or a worker."""

    pid: int
    keeper: subprocess.Popen[bytes]
    log: Path

    def stop(self) -> None:
        self.keeper.communicate(timeout=STOP_SECONDS_MAX)


@dataclass(frozen=True)
class Cluster:
    url: str
    master: Daemon
    workers: list[Daemon]
    folder: Path
    secret_file: Path

    def options(self) -> dict[str, str]:
        """Settings for a session on a cluster as small as this."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            SECRET_FILE: str(self.secret_file),
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": QUICK_START,
            "spark.driver.extraJavaOptions": QUICK_START,
        }


@contextmanager
def running_cluster(folder: Path, workers: int = WORKERS, cores: int = 1) -> Iterator[Cluster]:
    """A cluster with so many workers, each with so many cores."""
    daemons: list[Daemon] = []
    secret_file = folder / "cluster.secret"
    secret_file.touch(mode=0o600)
    secret_file.write_text(secrets.token_hex() + "\n")
    _write_defaults(folder / "conf", secret_file.read_text().strip())
    try:
        master = _start(folder, "master", "org.apache.spark.deploy.master.Master", "--port", "0")
        daemons.append(master)
        url = _wait_for(master, r"Starting Spark master at (spark://\S+)")
        for number in range(1, workers + 1):
            name = f"worker{number}"
            options = ["--port", "0", "--cores", str(cores), "--memory", "1g", "--work-dir", str(folder / name)]
            daemons.append(_start(folder, name, "org.apache.spark.deploy.worker.Worker", *options, url))
        for worker in daemons[1:]:
            _wait_for(worker, r"(Successfully registered with master)")
        yield Cluster(url, master, daemons[1:], folder, secret_file)
    finally:
        for daemon in reversed(daemons):
            daemon.stop()


def _write_defaults(folder: Path, secret: str) -> None:
    """Write Spark's own file, as an operator does who follows docs/how-to/run-on-a-cluster.md."""
    folder.mkdir(mode=0o700)
    settings = {**PROTECTED, SECRET: secret, "spark.master.rest.enabled": "false"}
    (folder / "spark-defaults.conf").write_text("".join([f"{name} {value}\n" for name, value in settings.items()]))


def _start(folder: Path, name: str, class_name: str, *options: str) -> Daemon:
    home = Path(pyspark.__file__).parent
    log = folder / f"{name}.log"
    environment = {
        "PATH": os.environ["PATH"],
        "JAVA_HOME": str(find_java_home()),
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
    }
    command = [str(home / "bin" / "spark-class"), class_name, "--host", "127.0.0.1", "--webui-port", "0", *options]
    keeper = subprocess.Popen(
        ["sh", "-c", _UNTIL_ALONE, str(log), *command],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert keeper.stdout is not None
    return Daemon(int(keeper.stdout.readline()), keeper, log)


def _wait_for(daemon: Daemon, pattern: str) -> str:
    """What the daemon's log says once it says it."""
    end = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < end:
        found = re.search(pattern, daemon.log.read_text(errors="replace") if daemon.log.exists() else "")
        if found is not None:
            return found[1]
        assert daemon.keeper.poll() is None, daemon.log.read_text(errors="replace")
        time.sleep(0.1)
    raise TimeoutError(f"{daemon.log.name} does not say {pattern!r}")
