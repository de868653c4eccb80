"""Start Spark on a master, and stop it. Its output goes into a log file, its files into one folder.

Its files and sockets are in a folder that is private to its user. Authentication is in security.py.

Java is a child of this process and ends with it, for whatever reason: it reads from a pipe that the kernel closes. Each
start has its own Java, so that settings of memory and logging apply.
"""

from __future__ import annotations

import atexit
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
from demaq.spark.packaging import create_package_archive
from demaq.spark.security import (
    SECRET,
    describe_missing_secret,
    explain_refusal,
    is_protected,
    is_secret,
    protection_settings,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


ATTEMPTS = 4
"""How often a task is started. Later attempts only report that the worker was lost; see jobs.py. They may be lost too:
what kills one worker of an executor often kills its other workers."""
CONNECT_SECONDS_MAX = 5.0
SILENT_SECONDS_MAX = 60
"""How long an executor may send nothing before its tasks count as lost."""
STOP_SECONDS_MAX = 20.0
"""How long Java may take to end when it is asked to, before it is killed."""
REFUSAL_LOOK_SECONDS = 0.5
LOG_NAME = "spark.log"
LOG_TAIL_BYTES = 20_000
LOOPBACK = "127.0.0.1"

_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""Java options besides spark.driver.extraJavaOptions, which are the operator's."""
_lock = threading.RLock()


class SparkFailed(OperatorError):
    """Spark could not be started on the master."""

    code = "DQ9302"


class RunningSpark:
    """A session with its Java process and folders. Must be closed."""

    def __init__(self, session: SparkSession, gateway: Any, folder: Path, private: Path) -> None:
        self.session = session
        self._gateway = gateway
        self._folder = folder
        self.private_folder = private
        """Holds temporary files and sockets, private to the user."""

    @property
    def log_file(self) -> Path:
        return self._folder / LOG_NAME

    @property
    def java_pid(self) -> int:
        return int(self._gateway.proc.pid)

    def close(self) -> None:
        """Stop the session and end Java. May be called twice, and after Java has ended."""
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
    slots: int = 0,
    attempts: int = ATTEMPTS,
) -> RunningSpark:
    """Start a session on a master. There is one at a time in a process.

    `options` are Spark's own settings and override ours. `folder` is for the log and Spark's other files; by default it
    is temporary. `tell` is called with status lines. A local master gets so many `slots` besides its own, for tasks
    that do not end. A task is started `attempts` times.
    """
    given = dict(options or {})
    with _lock:
        protection = protection_settings(master, given)
        _check_reachable(master)
        java_home = find_java_home()
        tell(f"starting Spark on {master} …")
        if not is_protected(given):
            tell("any client that reaches Spark's ports is let in: spark.authenticate is false")
        private = Path(tempfile.mkdtemp(prefix="demaq-spark-"))  # private to its owner, mode 700
        try:
            place = private if folder is None else folder.absolute()
            place.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
            settings = {**_settings(master, place, attempts), **protection, **given}
            settings[_JAVA_OPTIONS] = f'"-Djava.io.tmpdir={private}" {settings.get(_JAVA_OPTIONS, "")}'.strip()
            settings["spark.master"] = _name_local_master(master, slots, attempts)
            return _start(master, settings, java_home, place, private)
        except BaseException:
            shutil.rmtree(private, ignore_errors=True)
            raise


def _check_reachable(master: str) -> None:
    """Connect to a master of a standalone cluster, and raise SparkFailed if there is none:

    Spark would try for a minute.
    """
    if not is_standalone(master):
        return
    for address in master.removeprefix(STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        with suppress(OSError, ValueError), socket.create_connection((host, int(port)), CONNECT_SECONDS_MAX):
            return
    raise SparkFailed(f"there is no Spark master at {master}")


def _settings(master: str, folder: Path, attempts: int) -> dict[str, str]:
    settings = {
        "spark.app.name": "demaq",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",  # compiled programs live in the workers
        "spark.python.unix.domain.socket.enabled": "true",  # half the latency of a job on TCP
        "spark.sql.adaptive.enabled": "false",  # would plan the same query again
        "spark.sql.catalogImplementation": "in-memory",  # no metastore, no derby.log
        "spark.sql.warehouse.dir": (folder / "spark-warehouse").as_uri(),
        "spark.task.maxFailures": str(attempts),
        "spark.speculation": "false",  # a second attempt would only report that the first was lost
        "spark.network.timeout": f"{SILENT_SECONDS_MAX}s",
    }
    if is_local(master):
        # Workers import this package, wherever it is installed, and only local processes can connect.
        settings["spark.executorEnv.PYTHONPATH"] = str(Path(__file__).parents[2])
        settings["spark.driver.host"] = LOOPBACK
        settings["spark.driver.bindAddress"] = LOOPBACK
    return settings


def _name_local_master(master: str, slots: int, attempts: int) -> str:
    """Return the master; a local one with all its slots and the number of attempts, which it takes from its name."""
    local = LOCAL.match(master)
    if local is None:
        return master
    given = local[1] or "1"
    if slots:
        given = str((os.cpu_count() or 1 if given == "*" else int(given)) + slots)
    return f"local[{given},{attempts}]"


def _start(master: str, settings: dict[str, str], java_home: Path, folder: Path, private: Path) -> RunningSpark:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None or SparkContext._gateway is not None:
        raise SparkFailed("Spark is in use in this process already")
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    # Settings are on Java's command line, which all users of the machine can read.
    public = [(name, value) for name, value in conf.getAll() if not is_secret(name)]
    gateway: Any = None
    log = folder / LOG_NAME
    start_of_log = log.stat().st_size if log.exists() else 0
    try:
        with _environment(_variables(java_home, settings, master)), _keep_interrupt_handler():
            with open(log, "ab", opener=_open_private) as output:
                gateway = launch_gateway(
                    SparkConf(loadDefaults=False).setAll(public), {"stdout": output, "stderr": output}
                )
            _remove_on_exit(gateway, private)
            _check_secret(gateway, master, settings)
            with _end_when_refused(gateway, log, start_of_log):
                context = SparkContext(conf=conf, gateway=gateway)
            _silence(context)
            session = SparkSession(context)
            _check_version(context.version)
            if not is_local(master):
                _send_package(context, folder)
    except BaseException as error:
        if SparkContext._active_spark_context is not None:
            with suppress(Exception):
                SparkContext._active_spark_context.stop()
        if gateway is not None:
            _end(gateway)
        if isinstance(error, OperatorError) or not isinstance(error, Exception):
            raise
        reason = _find_reason(log, start_of_log) or str(error).strip().split("\n")[0]
        log_hint = "" if folder == private else f"; its log is {log}"
        raise SparkFailed(f"Spark could not be started on {master}: {reason}{log_hint}") from error
    return RunningSpark(session, gateway, folder, private)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _remove_on_exit(gateway: Any, private: Path) -> None:
    """Let Java remove the folder when it ends, also if this process is killed."""
    gateway.jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir(
        gateway.jvm.java.io.File(str(private))
    )


def _silence(context: SparkContext) -> None:
    """Keep PySpark from printing tracebacks when Java has ended: the callers get the error."""
    from py4j import java_gateway

    server: Any = context._accumulatorServer
    server.handle_error = lambda request, address: None
    quiet = logging.getLogger("demaq.spark.py4j")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    module: Any = java_gateway
    module.logging = quiet  # it logs to the root logger, and configures that to print


def _check_secret(gateway: Any, master: str, settings: Mapping[str, str]) -> None:
    """Raise SparkFailed for a standalone cluster without a secret. Java has read the one in Spark's own defaults."""
    if not is_standalone(master) or not is_protected(settings) or SECRET in settings:
        return
    if not gateway.jvm.SparkConf().contains(SECRET):
        raise SparkFailed(describe_missing_secret(master))


@contextmanager
def _end_when_refused(gateway: Any, log: Path, start: int) -> Iterator[None]:
    """End Java if a master refuses it: by itself it would retry for a minute."""
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


def _send_package(context: SparkContext, folder: Path) -> None:
    """Send this package to the executors, but keep importing it from where it is here, not from the archive."""
    before = list(sys.path)
    context.addPyFile(str(create_package_archive(folder)))
    sys.path[:] = before


def _variables(java_home: Path, settings: Mapping[str, str], master: str) -> dict[str, str]:
    python = settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable
    variables = {"JAVA_HOME": str(java_home), "PYSPARK_PYTHON": python}
    if is_local(master) and "SPARK_LOCAL_IP" not in os.environ:
        variables["SPARK_LOCAL_IP"] = LOOPBACK
    return variables


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within the block, for Java to inherit."""
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
def _keep_interrupt_handler() -> Iterator[None]:
    """Restore the handler of SIGINT after the block, which PySpark replaces in the main thread."""
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


def _find_reason(log: Path, start: int) -> str | None:
    """Return the last error in Java's log; None if there is none."""
    text = _tail(log, start)
    lines = text.splitlines()
    causes = [line for line in lines if line.startswith("Caused by: ")]
    errors = [line for line in lines if re.search(r"Exception: \S|^Invalid|^Error|^Unrecognized", line)]
    last = re.sub(r"^.*?Exception: ", "", (causes[-1:] or errors)[0]).strip() if causes or errors else None
    return explain_refusal(text) or last


def _tail(log: Path, start: int) -> str:
    """Return the end of the log, of what was written after `start`."""
    with suppress(OSError), open(log, "rb") as file:
        file.seek(max(start, log.stat().st_size - LOG_TAIL_BYTES))
        return file.read().decode("utf-8", "replace")
    return ""


def _stop(session: SparkSession) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Java may have ended already
        with suppress(Exception):
            session.stop()
        with suppress(Exception):
            session.sparkContext.stop()  # without Java, session.stop leaves resources of this process open


def _end(gateway: Any) -> None:
    """End Java and reset PySpark, so that the next start has a new Java."""
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
    """Return the session of this process: the active one, or a new one."""
    global _running
    from pyspark.sql import SparkSession

    with _lock:
        active = SparkSession.getActiveSession() or SparkSession._instantiatedSession
        if active is not None:
            return active
        _running = start_spark(master)
        atexit.register(_running.close)
        return _running.session
