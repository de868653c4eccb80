"""Start Spark on a master and stop it, quietly: its chatter goes into a log file, its files into one folder.

Whatever it keeps outside of its memory, sockets to its Python workers included, is in a folder that only its user may
enter. Who may connect to it is decided in security.py.

Java runs as a child of this process and ends with it, however that comes about: it reads from a pipe that the kernel
closes. Each start has a Java of its own, so that settings of memory and logging hold for every one.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any

from demaq.errors import OperatorError
from demaq.files import PRIVATE_FOLDER
from demaq.spark.java import find_java_home
from demaq.spark.master import LOCAL, MASTER_DEFAULT, STANDALONE, is_local, is_standalone
from demaq.spark.packaging import package_archive
from demaq.spark.security import (
    SECRET,
    explain_refusal,
    is_protected,
    is_secret,
    no_secret,
    protection_settings,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


import atexit
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ATTEMPTS = 4
"""How often a task is started. From the second time on it only says that its worker was lost; see jobs.py. That may be
its lot too: what kills one worker of an executor often kills those that wait."""
CONNECT_SECONDS_MAX = 5.0
SILENT_SECONDS_MAX = 60
"""How long the machine of an executor may be silent before its tasks count as lost."""
STOP_SECONDS_MAX = 20.0
"""How long Java may take to end when it is asked to, before it is killed."""
REFUSAL_LOOK_SECONDS = 0.5
LOG_NAME = "spark.log"
LOG_TAIL_BYTES = 20_000
LOOPBACK = "127.0.0.1"

_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""Those in front of spark.driver.extraJavaOptions, which are left to the operator."""
_lock = threading.RLock()


class SparkFailed(OperatorError):
    """Spark could not be started on the master that was asked for."""

    code = "DQ9302"


class RunningSpark:
    """A session and what belongs to it. Must be closed."""

    def __init__(self, session: SparkSession, gateway: Any, folder: Path, private: Path) -> None:
        self.session = session
        self._gateway = gateway
        self._folder = folder
        self.private_folder = private
        """Where its temporary files and sockets are, for its user alone."""

    @property
    def log_file(self) -> Path:
        return self._folder / LOG_NAME

    @property
    def java_pid(self) -> int:
        return int(self._gateway.proc.pid)

    def close(self) -> None:
        """Stop the session and end Java. May be called twice, and after Java has ended by itself."""
        with _lock:
            if self._gateway is None:
                return
            _stop(self.session)
            _end(self._gateway)
            self._gateway = None
            shutil.rmtree(self.private_folder, ignore_errors=True)

    def __enter__(self) -> RunningSpark:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_spark(
    master: str = MASTER_DEFAULT,
    *,
    options: Mapping[str, str] | None = None,
    folder: Path | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> RunningSpark:
    """A session on that master. One at a time in a process.

    `options` are Spark's own settings and win over ours. `folder` is for the log and whatever Spark leaves behind;
    without one it is temporary. `tell` hears what is going on.
    """
    given = dict(options or {})
    with _lock:
        protection = protection_settings(master, given)
        _check_reachable(master)
        java_home = find_java_home()
        tell(f"starting Spark on {master} …")
        if not is_protected(given):
            tell("whoever reaches Spark's ports is let in: spark.authenticate is false")
        private = Path(tempfile.mkdtemp(prefix="demaq-spark-"))  # for its owner alone, mode 700
        try:
            place = private if folder is None else folder.absolute()
            place.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
            settings = {**_settings(master, place), **protection, **given}
            settings[_JAVA_OPTIONS] = f'"-Djava.io.tmpdir={private}" {settings.get(_JAVA_OPTIONS, "")}'.strip()
            return _start(master, settings, java_home, place, private)
        except BaseException:
            shutil.rmtree(private, ignore_errors=True)
            raise


def _check_reachable(master: str) -> None:
    """Ask the masters of a standalone cluster for a connection: Spark itself would try for more than a minute."""
    if not is_standalone(master):
        return
    for address in master.removeprefix(STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        with suppress(OSError, ValueError), socket.create_connection((host, int(port)), CONNECT_SECONDS_MAX):
            return
    raise SparkFailed(f"there is no Spark master at {master}")


def _settings(master: str, folder: Path) -> dict[str, str]:
    settings = {
        "spark.app.name": "demaq",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",  # compiled programs live in the workers
        "spark.python.unix.domain.socket.enabled": "true",  # half the latency of a job, against TCP
        "spark.sql.adaptive.enabled": "false",  # it plans anew what was planned once
        "spark.sql.catalogImplementation": "in-memory",  # no metastore, no derby.log
        "spark.sql.warehouse.dir": (folder / "spark-warehouse").as_uri(),
        "spark.task.maxFailures": str(ATTEMPTS),
        "spark.speculation": "false",  # a second copy of a task would only say that the first one is lost
        "spark.network.timeout": f"{SILENT_SECONDS_MAX}s",
    }
    if is_local(master):
        # Workers find this very package, however it came onto our path; nobody else can talk to this Spark.
        settings["spark.executorEnv.PYTHONPATH"] = str(Path(__file__).parents[2])
        settings["spark.driver.host"] = LOOPBACK
        settings["spark.driver.bindAddress"] = LOOPBACK
    return settings


def _with_attempts(master: str) -> str:
    """A local master takes the number of attempts from its name, and from nowhere else."""
    local = LOCAL.match(master)
    return f"local[{local[1] or 1},{ATTEMPTS}]" if local else master


def _start(master: str, settings: dict[str, str], java_home: Path, folder: Path, private: Path) -> RunningSpark:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None or SparkContext._gateway is not None:
        raise SparkFailed("Spark is in use in this process already")
    conf = SparkConf(loadDefaults=False).setMaster(_with_attempts(master)).setAll(list(settings.items()))
    # Java is started with settings on its command line, which all users of the machine can read.
    public = [(name, value) for name, value in conf.getAll() if not is_secret(name)]
    gateway: Any = None
    log = folder / LOG_NAME
    start_of_log = log.stat().st_size if log.exists() else 0
    try:
        with _environment(_variables(java_home, settings, master)), _interrupts_left_alone():
            with open(log, "ab", opener=_open_private) as output:
                gateway = launch_gateway(
                    SparkConf(loadDefaults=False).setAll(public), {"stdout": output, "stderr": output}
                )
            _remove_with(gateway, private)
            _check_secret(gateway, master, settings)
            with _ending_when_refused(gateway, log, start_of_log):
                context = SparkContext(conf=conf, gateway=gateway)
            _keep_quiet(context)
            session = SparkSession(context)
            _check_version(context.version)
            if not is_local(master):
                _ship(context, folder)
    except BaseException as error:
        if SparkContext._active_spark_context is not None:
            with suppress(Exception):
                SparkContext._active_spark_context.stop()
        if gateway is not None:
            _end(gateway)
        if isinstance(error, OperatorError) or not isinstance(error, Exception):
            raise
        reason = _reason(log, start_of_log) or str(error).strip().split("\n")[0]
        kept = "" if folder == private else f"; its log is {log}"
        raise SparkFailed(f"Spark could not be started on {master}: {reason}{kept}") from error
    return RunningSpark(session, gateway, folder, private)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _remove_with(gateway: Any, private: Path) -> None:
    """Let Java remove the folder when it ends, which it does when this process is killed."""
    gateway.jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(
        gateway.jvm.java.io.File(str(private))
    )


def _keep_quiet(context: SparkContext) -> None:
    """Let no part of PySpark print a traceback when Java is gone: whoever waits for an answer hears of it."""
    from py4j import java_gateway

    server: Any = context._accumulatorServer
    server.handle_error = lambda request, address: None
    quiet = logging.getLogger("demaq.spark.py4j")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    module: Any = java_gateway
    module.logging = quiet  # by itself it logs as root, and makes root print what is logged anywhere


def _check_secret(gateway: Any, master: str, settings: Mapping[str, str]) -> None:
    """Refuse a standalone cluster without a secret. Java knows those of Spark's own file of defaults."""
    if not is_standalone(master) or not is_protected(settings) or SECRET in settings:
        return
    if not gateway.jvm.SparkConf().contains(SECRET):
        raise SparkFailed(no_secret(master))


@contextmanager
def _ending_when_refused(gateway: Any, log: Path, start: int) -> Iterator[None]:
    """End Java once a master does not let it in: by itself it would try again for a minute."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(REFUSAL_LOOK_SECONDS):
            if explain_refusal(_tail(log, start)) is not None:
                gateway.proc.kill()
                return

    watching = threading.Thread(target=watch, name="demaq-spark-start", daemon=True)
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()


def _ship(context: SparkContext, folder: Path) -> None:
    """Send this package to the executors. PySpark would have us import it from the archive as well."""
    before = list(sys.path)
    context.addPyFile(str(package_archive(folder)))
    sys.path[:] = before


def _variables(java_home: Path, settings: Mapping[str, str], master: str) -> dict[str, str]:
    python = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    variables = {"JAVA_HOME": str(java_home), "PYSPARK_PYTHON": python}
    if is_local(master) and "SPARK_LOCAL_IP" not in os.environ:
        variables["SPARK_LOCAL_IP"] = LOOPBACK
    return variables


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Java inherits them; this process has them no longer than that takes."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _interrupts_left_alone() -> Iterator[None]:
    """PySpark takes over SIGINT in the main thread. How we end is ours to say."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)


def _check_version(running: str) -> None:
    from pyspark import __version__

    if running != __version__:
        raise SparkFailed(f"Spark at SPARK_HOME is version {running}, but the package pyspark is version {__version__}")


def _reason(log: Path, start: int) -> str | None:
    """What Java said last that tells what went wrong."""
    text = _tail(log, start)
    lines = text.splitlines()
    causes = [line for line in lines if line.startswith("Caused by: ")]
    told = [line for line in lines if re.search(r"Exception: \S|^Invalid|^Error|^Unrecognized", line)]
    last = re.sub(r"^.*?Exception: ", "", (causes[-1:] or told)[0]).strip() if causes or told else None
    return explain_refusal(text) or last


def _tail(log: Path, start: int) -> str:
    """Return what the log says at its end, of what was written since `start`."""
    with suppress(OSError), open(log, "rb") as file:
        file.seek(max(start, log.stat().st_size - LOG_TAIL_BYTES))
        return file.read().decode("utf-8", "replace")
    return ""


def _stop(session: SparkSession) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that Java is gone already is no news to who stops it
        with suppress(Exception):
            session.stop()
        with suppress(Exception):
            session.sparkContext.stop()  # without Java the first attempt leaves what is open in this process


def _end(gateway: Any) -> None:
    """Let Java end, and PySpark forget it, so that the next start has a new one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkSession._instantiatedSession = None
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    with suppress(Exception):
        gateway.shutdown()
    process = gateway.proc
    with suppress(OSError):
        process.stdin.close()
    try:
        process.wait(STOP_SECONDS_MAX)
    except TimeoutExpired:
        process.kill()
        process.wait()


_running: RunningSpark | None = None


def shared_session(master: str = MASTER_DEFAULT) -> SparkSession:
    """The session of this process: the one that runs already, whoever started it, or a new one."""
    global _running
    from pyspark.sql import SparkSession

    with _lock:
        active = SparkSession.getActiveSession() or SparkSession._instantiatedSession
        if active is not None:
            return active
        _running = start_spark(master)
        atexit.register(_running.close)
        return _running.session
