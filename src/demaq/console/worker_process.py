"""A process that evaluates rules for pages: to say why one did not fire, and what would become of an edited message.

Rules may take long, or all memory there is. So they are evaluated in a process of their own, one at a time, which is
ended when it takes too long, and made anew for the next one who asks.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from demaq.console.store_pool import ConsoleBusy
from demaq.errors import MessageError, OperatorError, ProgramError
from demaq.store.location import StoreLocation

SECONDS_MAX = 15.0
PARENT_SECONDS = 1.0
"""How often the process looks whether the console is still there."""


class WorkerProcess:
    """May be asked from any thread; one is answered at a time."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._asking = threading.Lock()

    def run(self, name: str, *given: Any, seconds: float = SECONDS_MAX) -> Any:
        """Return what a function of `demaq.console.rule_evaluation` returns.

        Raises ConsoleBusy if that takes too long, and what the function raises for operators and senders.
        """
        if not self._asking.acquire(timeout=seconds):
            raise ConsoleBusy("rules are being evaluated for someone else; try again in a moment")
        try:
            pool = self._pool = self._pool or _start_pool()
            try:
                is_done, result = pool.submit(_call, name, *given).result(seconds)
            except FutureTimeout:
                self._end()
                raise ConsoleBusy(f"the rules took longer than {seconds:g} s") from None
            except BrokenProcessPool:
                self._end()
                said = "the process that evaluates rules has ended; the rules may need too much memory"
                raise ConsoleBusy(said) from None
        finally:
            self._asking.release()
        if not is_done:
            raise OperatorError(result)
        return result

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
    return ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), initializer=_follow_parent, initargs=(os.getpid(),)
    )


def _call(name: str, *given: Any) -> tuple[bool, Any]:
    """Return whether it was done, and the result or the reason: errors do not travel between processes as they are."""
    from demaq.console import rule_evaluation

    try:
        return True, getattr(rule_evaluation, name)(*given)
    except (OperatorError, ProgramError) as error:
        return False, str(error)
    except MessageError as error:
        return False, error.message


def _follow_parent(parent: int) -> None:
    """Let this process end when the one is gone that started it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
