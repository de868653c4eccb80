"""A process that does for pages whatever needs Saxon: say why a rule did not fire, try an edited message, requeue.

Rules may take long, or all memory there is, and only one thread of a process may use Saxon, whereas pages are made in
several. So all of it is done in a process of its own, in its main thread, one question at a time. The process is ended
when that takes too long, and made anew for the next one who asks.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from demaq.console.store_pool import THREADS, ConsoleBusy
from demaq.errors import MessageError, OperatorError, ProgramError
from demaq.store.location import StoreLocation

ANSWER_SECONDS_MAX = 15.0
"""How long an answer may take."""
WAITING_SECONDS_MAX = 10.0
"""How long one waits for the answers of others."""
ASKING_MAX = THREADS - 1
"""So many ask or wait at once; further ones are refused, so that a thread is left for pages that evaluate nothing."""
ORPHAN_SECONDS_MAX = 30
"""How long the process goes on with a question if the console is gone: Saxon lets no thread look for it."""
PARENT_SECONDS = 1.0
"""How often the process looks whether the console is still there."""


class WorkerProcess:
    """May be asked from any thread; one is answered at a time."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._places = threading.BoundedSemaphore(ASKING_MAX)
        self._asking = threading.Lock()

    def run(self, name: str, *given: Any) -> Any:
        """Return what a function of `demaq.console.rule_evaluation` returns.

        Raises ConsoleBusy if that takes too long or too many ask, and what the function raises for operators and
        senders.
        """
        if not self._places.acquire(blocking=False):
            raise ConsoleBusy(f"rules are being evaluated for {ASKING_MAX} others; try again in a moment")
        try:
            if not self._asking.acquire(timeout=WAITING_SECONDS_MAX):
                raise ConsoleBusy("rules are being evaluated for someone else; try again in a moment")
            try:
                is_done, result = self._ask(name, given)
            finally:
                self._asking.release()
        finally:
            self._places.release()
        if not is_done:
            raise OperatorError(result)
        return result

    def _ask(self, name: str, given: tuple[Any, ...]) -> tuple[bool, Any]:
        try:
            return self._submit(name, given).result(ANSWER_SECONDS_MAX)
        except FutureTimeout:
            self._end()
            raise ConsoleBusy(f"the rules took longer than {ANSWER_SECONDS_MAX:g} s") from None
        except BrokenProcessPool:
            self._end()
            said = "the process that evaluates rules has ended; the rules may need too much memory"
            raise ConsoleBusy(said) from None

    def _submit(self, name: str, given: tuple[Any, ...]) -> Future[tuple[bool, Any]]:
        """Hand a question to the process, or to a new one if it has ended since the last answer."""
        if self._pool is not None:
            try:
                return self._pool.submit(_call, name, *given)
            except BrokenProcessPool:
                self._end()
        pool = self._pool = _start_pool()
        return pool.submit(_call, name, *given)

    def warm_up(self, place: StoreLocation) -> None:
        """Start the process and compile the application in it, from a thread: the first one who asks need not wait."""

        def prepare() -> None:
            with contextlib.suppress(OperatorError):  # there is none yet, or it cannot be read: the first request fails
                self.run("prepare", place)

        threading.Thread(target=prepare, name="demaq-console-warm-up", daemon=True).start()

    def close(self) -> None:
        self._end()

    def _end(self) -> None:
        pool, self._pool = self._pool, None
        if pool is None:
            return
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown(wait=False, cancel_futures=True)


def _start_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_start, initargs=(os.getpid(),))


def _call(name: str, *given: Any) -> tuple[bool, Any]:
    """Return whether it was done, and the result or the reason: errors do not travel between processes as they are."""
    from demaq.console import rule_evaluation

    assert threading.current_thread() is threading.main_thread(), "it alone uses Saxon"
    signal.alarm(ORPHAN_SECONDS_MAX)
    try:
        return True, getattr(rule_evaluation, name)(*given)
    except (OperatorError, ProgramError) as error:
        return False, str(error)
    except MessageError as error:
        return False, error.message
    finally:
        signal.alarm(0)
        gc.collect()


def _start(parent: int) -> None:
    """Prepare the process: what Saxon has made may be freed by the main thread only, so no other one looks for it."""
    gc.disable()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _follow_parent(parent)


def _follow_parent(parent: int) -> None:
    """Let this process end when the one is gone that started it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
