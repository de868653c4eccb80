"""Stand-ins for `threading`, `time`, executors and connections, whose operations are switch points of a Scheduler."""

from __future__ import annotations

import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from tests.support.simulation.scheduler import Scheduler, Task


class Synchronisation:
    """Stands for the module `threading`; what it has not is that of the module."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)

    def Lock(self) -> SimulatedLock:  # noqa: N802
        return SimulatedLock(self._scheduler)

    def RLock(self) -> SimulatedRLock:  # noqa: N802
        return SimulatedRLock(self._scheduler)

    def Condition(self, lock: SimulatedLock | None = None) -> SimulatedCondition:  # noqa: N802
        return SimulatedCondition(self._scheduler, lock)

    def Event(self) -> SimulatedEvent:  # noqa: N802
        return SimulatedEvent(self._scheduler)

    def Thread(self, *args: Any, **options: Any) -> SimulatedThread:  # noqa: N802
        return SimulatedThread(self._scheduler, *args, **options)


class Clock:
    """Stands for the module `time`; what it has not is that of the module."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.sleep = scheduler.sleep

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def monotonic(self) -> float:
        return self._scheduler.now

    perf_counter = process_time = thread_time = monotonic


class SimulatedLock:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner: Task | None = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self._scheduler.point()
        if self._owner is not None:
            if not blocking:
                return False
            if not self._scheduler.wait(lambda: self._owner is None, None if timeout < 0 else timeout):
                return False
        self._owner = self._scheduler.current or _OUTSIDE
        return True

    def release(self) -> None:
        assert self._owner is not None, "a lock is released by its owner"
        self._owner = None
        _pause_after(self._scheduler)

    def locked(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class SimulatedRLock(SimulatedLock):
    _count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._is_owned() and not super().acquire(blocking, timeout):
            return False
        self._count += 1
        return True

    def release(self) -> None:
        assert self._is_owned(), "a lock is released by its owner"
        self._count -= 1
        if not self._count:
            super().release()

    def _is_owned(self) -> bool:
        return self._owner is not None and self._owner is (self._scheduler.current or _OUTSIDE)

    def release_all(self) -> int:
        count, self._count = self._count, 0
        self._owner = None
        return count

    def acquire_again(self, count: int) -> None:
        self._scheduler.wait(lambda: self._owner is None)
        self._owner, self._count = self._scheduler.current, count


class SimulatedCondition:
    def __init__(self, scheduler: Scheduler, lock: SimulatedLock | None = None) -> None:
        assert lock is None, "a condition has a lock of its own"
        self._scheduler = scheduler
        self._lock = SimulatedRLock(scheduler)
        self._waiting: list[list[bool]] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        if self._lock._is_owned():  # unless the thread vanished while it waited
            self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        notified = [False]
        self._waiting.append(notified)
        count = self._lock.release_all()
        self._scheduler.wait(lambda: notified[0], timeout)
        if not notified[0]:
            self._waiting.remove(notified)
        self._lock.acquire_again(count)
        return notified[0]

    def notify(self, n: int = 1) -> None:
        for notified in self._waiting[:n]:
            notified[0] = True
        del self._waiting[:n]

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class SimulatedEvent:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False

    def is_set(self) -> bool:
        self._scheduler.point()
        return self._is_set

    def set(self) -> None:
        self._scheduler.point()
        self._is_set = True
        self._scheduler.point()

    def clear(self) -> None:
        self._scheduler.point()
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        self._scheduler.wait(lambda: self._is_set, timeout)
        return self._is_set


class SimulatedThread:
    def __init__(
        self,
        scheduler: Scheduler,
        target: Callable[..., object],
        name: str = "thread",
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        daemon: bool | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._act = lambda: target(*args, **(kwargs or {}))
        self.name = name
        self.daemon = daemon
        self._task: Task | None = None

    def start(self) -> None:
        starter = self._scheduler.current
        group = starter.group if starter is not None and starter.group is not None else self._scheduler.group
        self._task = self._scheduler.start(self._act, self.name, group)
        self._scheduler.point()

    def join(self, timeout: float | None = None) -> None:
        task = self._task
        assert task is not None, "a thread is started before it is waited for"
        self._scheduler.wait(lambda: task.is_done, timeout)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.is_done

    @property
    def ident(self) -> int | None:
        return None if self._task is None else self._task.number


class SimulatedExecutor(Executor):
    """Stands for ThreadPoolExecutor."""

    def __init__(self, scheduler: Scheduler, max_workers: int | None = None, thread_name_prefix: str = "") -> None:
        self._scheduler = scheduler
        self._workers_max = max_workers or 4
        self._name = thread_name_prefix
        self._threads: list[SimulatedThread] = []
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._idle = 0
        self._is_shut_down = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._is_shut_down:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = SimulatedFuture(self._scheduler)
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        if self._idle < len(self._waiting) and len(self._threads) < self._workers_max:
            self._threads.append(SimulatedThread(self._scheduler, self._run, self._name))
            self._threads[-1].start()
        self._scheduler.point()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._is_shut_down = True
        while wait and self._threads:
            self._threads.pop().join()

    def _run(self) -> None:
        while True:
            self._idle += 1
            self._scheduler.wait(lambda: self._waiting or self._is_shut_down)
            self._idle -= 1
            if not self._waiting:
                return
            future, act = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = act()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)


class SimulatedFuture(Future[Any]):
    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    def result(self, timeout: float | None = None) -> Any:
        self._scheduler.wait(self.done, timeout)
        return super().result(0)


class Pipe:
    """One end of a connection between two processes, as multiprocessing has it: objects are pickled."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._inbox: deque[bytes] = deque()
        self._other = self
        self._is_closed = False

    @classmethod
    def pair(cls, scheduler: Scheduler) -> tuple[Pipe, Pipe]:
        one, other = cls(scheduler), cls(scheduler)
        one._other, other._other = other, one
        return one, other

    def send(self, value: object) -> None:
        self._scheduler.point()
        if self._is_closed:
            raise OSError("handle is closed")
        if self._other._is_closed:
            raise BrokenPipeError
        self._other._inbox.append(pickle.dumps(value))
        self._scheduler.point()

    def poll(self, timeout: float | None = 0.0) -> bool:
        if self._is_closed:
            raise OSError("handle is closed")
        if timeout == 0.0:
            self._scheduler.point()
        else:
            self._scheduler.wait(self._has_something, timeout)
        return self._has_something()

    def is_silent(self) -> bool:
        if self._is_closed:
            raise OSError("handle is closed")
        return not self._has_something()

    def end_with_peer(self, is_on: bool) -> None:
        """Nothing ends a simulated process but the simulation."""

    def recv(self) -> Any:
        self._scheduler.wait(self._has_something)
        if self._inbox:
            return pickle.loads(self._inbox.popleft())
        raise OSError("handle is closed") if self._is_closed else EOFError()

    def close(self) -> None:
        self._is_closed = True

    def _has_something(self) -> bool:
        return bool(self._inbox) or self._other._is_closed or self._is_closed


def _pause_after(scheduler: Scheduler) -> None:
    """A switch point after something that a thread also does while it vanishes."""
    task = scheduler.current
    if task is not None and not task.is_vanished:
        scheduler.point()


_OUTSIDE: Any = object()
"""The owner of a lock that is acquired before or after a run."""
