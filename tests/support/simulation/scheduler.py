"""Run real threads one at a time, in an order that a seed decides, on a clock that stands still while one can run.

A thread keeps the turn until it reaches a switch point: an operation of the stand-ins for `threading`, `time`, queues and
connections (`primitives`), or, if `preempted` names its file, any line. There the seed decides whether another thread
goes on. If no thread can, the clock moves to the earliest deadline; if there is none, the run fails with all stacks.
So a run is repeated exactly by its seed.

Saxon may be used by one thread only. Whatever needs it is called by `in_main`, in the thread of `run`.
"""

from __future__ import annotations

import hashlib
import random
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

SWITCH_SECONDS = 0.00002
"""What a switch takes on the clock of the run, so that a busy thread does not stop the time."""
INSTRUCTIONS = ("demaq/batching.py", "demaq/evaluation/native/ledger.py")
"""In these files a thread may lose its turn at any instruction, in all others that are pre-empted at any line."""
SWITCHES_MAX = 2_000_000
"""A run with more of them makes no progress."""


class Vanished(BaseException):
    """Ends a thread whose process was killed. Each further operation of the thread raises it again."""


class SimulationFailed(AssertionError):
    """The run came to a state that must not occur."""


class Task:
    """A thread of the simulation."""

    def __init__(self, number: int, name: str, act: Callable[[], object], group: object, weight: float) -> None:
        self.number = number
        self.name = name
        self.act = act
        self.group = group
        """The process that it belongs to."""
        self.weight = weight
        self.ready: Callable[[], object] | None = None
        """What it waits for; None if it can go on."""
        self.deadline: float | None = None
        self.is_vanished = False
        self.is_done = False
        self.turn = threading.Lock()
        self.turn.acquire()
        self.back_to: Task | None = None
        """Who goes on when it has ended; None to let the seed decide."""
        self.thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"{self.name}#{self.number}"


class Scheduler:
    """The threads of one run. `chance` is the only source of randomness in it."""

    def __init__(self, chance: random.Random, preempted: Sequence[str] = ()) -> None:
        self.chance = chance
        self.now = 1000.0
        """The monotonic clock."""
        self.current: Task | None = None
        self.group: object = None
        """The process that threads belong to which are started by a thread of no process."""
        self.switches = 0
        self.switch_share = chance.choice((0.03, 0.1, 0.3, 0.9))
        self._lines_mean = chance.choice((30, 100, 400))
        self._lines_left = int(chance.expovariate(1 / self._lines_mean))
        self._weights = chance.choice(((1.0,), (1.0, 1.0, 0.1), (1.0, 0.1, 0.01)))
        self._preempted = tuple(preempted)
        self._tasks: list[Task] = []
        self._started = 0
        self._is_in_main = False
        self._job: Callable[[], None] | None = None
        self._main = threading.Lock()
        self._main.acquire()
        self._is_aborting = False
        self.failure: str | None = None
        self._trace = hashlib.sha256()

    # the run

    def run(self, act: Callable[[], None]) -> None:
        """Run a function in the first thread, until all threads have ended. Raises SimulationFailed."""
        first = self.start(act, "world", None)
        self.current = first
        first.turn.release()
        while True:
            self._main.acquire()
            if self._job is None:
                break
            job, owner = self._job, self.current
            self._job = None
            assert owner is not None
            self._is_in_main = True
            job()
            self._is_in_main = False
            owner.turn.release()
        self.current = None
        if self.failure is not None:
            raise SimulationFailed(self.failure)

    def in_main(self, act: Callable[[], T]) -> T:
        """Call a function in the thread of `run`, while all others wait. Return what it returns."""
        me = self.current
        if me is None or self._is_in_main:
            return act()
        if me.is_vanished:
            raise Vanished
        results: list[T] = []
        errors: list[BaseException] = []

        def job() -> None:
            try:
                results.append(act())
            except BaseException as error:
                # Frames hold what Saxon has made, and must be released in this thread.
                if isinstance(error, AssertionError):
                    error = SimulationFailed("".join(traceback.format_exception(error)))
                error.__traceback__ = error.__cause__ = error.__context__ = None
                errors.append(error)

        self._job = job
        self._main.release()
        me.turn.acquire()
        if errors:
            raise errors.pop()
        return results.pop()

    def note(self, *what: object) -> None:
        """Add something to the trace of the run."""
        self._trace.update(repr(what).encode())

    @property
    def trace(self) -> str:
        """A digest of all decisions and of all that was noted."""
        return self._trace.hexdigest()

    # threads

    def start(self, act: Callable[[], object], name: str, group: object) -> Task:
        """Start a thread, which waits for its turn."""
        self._started += 1
        task = Task(self._started, name, act, group, self.chance.choice(self._weights))
        self._tasks.append(task)
        task.thread = threading.Thread(target=self._run_task, args=(task,), name=repr(task), daemon=True)
        task.thread.start()
        return task

    def tasks_of(self, group: object) -> list[Task]:
        return [task for task in self._tasks if task.group is group]

    def vanish(self, tasks: Sequence[Task]) -> None:
        """End threads as a kill of their process does. Return after all have ended."""
        for task in tasks:
            task.is_vanished = True
        me = self.current
        assert me is not None
        for task in tasks:
            if task.is_done or task is me:
                continue
            task.back_to = me
            self.current = task
            task.turn.release()
            me.turn.acquire()
        if me.is_vanished and me in tasks:
            raise Vanished

    def die(self) -> None:
        """End the current thread as a kill of its process does."""
        assert self.current is not None
        self.current.is_vanished = True
        raise Vanished

    def _run_task(self, task: Task) -> None:
        task.turn.acquire()
        try:
            if not task.is_vanished:
                if self._preempted:
                    sys.settrace(self._trace_calls)
                task.act()
        except Vanished:
            pass
        except BaseException as error:
            if not task.is_vanished:
                sys.settrace(None)
                self.fail(f"{task} died: {''.join(traceback.format_exception(error))}")
        sys.settrace(None)
        task.is_done = True
        self._tasks.remove(task)
        if task.back_to is not None and not task.back_to.is_done:
            following = task.back_to
        elif self._tasks:
            following = self._choose()
        else:
            self._main.release()
            return
        self.current = following
        following.turn.release()

    # switch points

    def point(self) -> None:
        """Let another thread go on, if the seed says so."""
        me = self.current
        if me is None or self._is_in_main:
            return
        if me.is_vanished:
            raise Vanished
        if self.chance.random() < self.switch_share:
            self._switch(me)

    def wait(self, ready: Callable[[], object], seconds: float | None = None) -> bool:
        """Wait until something holds, or the time is over. Return whether it holds."""
        me = self.current
        if me is None or self._is_in_main:
            assert seconds is not None or ready(), "the main thread cannot wait"
            return bool(ready())
        if me.is_vanished:
            raise Vanished
        me.ready = ready
        me.deadline = None if seconds is None else self.now + max(seconds, 0.0)
        self._switch(me)
        return bool(ready())

    def sleep(self, seconds: float) -> None:
        self.wait(lambda: False, seconds)

    def _switch(self, me: Task) -> None:
        chosen = self._choose()
        if chosen is not me:
            self.current = chosen
            chosen.turn.release()
            me.turn.acquire()
        me.ready = me.deadline = None
        if me.is_vanished:
            raise Vanished

    def _choose(self) -> Task:
        """Return the thread that goes on now."""
        self.switches += 1
        self.now += SWITCH_SECONDS
        if self._is_aborting:
            return self._tasks[-1]
        if self.switches > SWITCHES_MAX:
            return self._abort("the run makes no progress")
        able = self._able()
        if not able:
            deadlines = [task.deadline for task in self._tasks if task.deadline is not None]
            if not deadlines:
                return self._abort("deadlock: no thread can go on, and none waits for a time")
            self.now = max(self.now, min(deadlines))
            able = self._able()
        if len(able) == 1:
            chosen = able[0]
        else:
            [chosen] = self.chance.choices(able, [task.weight for task in able])
        self._trace.update(b"%d " % chosen.number)
        return chosen

    def _able(self) -> list[Task]:
        now = self.now
        return [
            task
            for task in self._tasks
            if task.ready is None
            or task.is_vanished
            or (task.deadline is not None and task.deadline <= now)
            or task.ready()
        ]

    # pre-emption

    def _trace_calls(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.endswith(self._preempted) or code.co_name[0] == "<":
            return None
        frame.f_trace_opcodes = code.co_filename.endswith(INSTRUCTIONS)
        return self._trace_lines

    def _trace_lines(self, frame: FrameType, event: str, arg: Any) -> Any:
        me = self.current
        if me is not None and me.is_vanished:
            return self._trace_lines  # what is left of it ends in any order
        self._lines_left -= 1
        if self._lines_left <= 0 and event in ("line", "opcode"):
            self._lines_left = int(self.chance.expovariate(1 / self._lines_mean))
            if me is not None and not self._is_in_main:
                self._switch(me)
        return self._trace_lines

    # failure

    def fail(self, reason: str) -> None:
        """End the run, which has failed."""
        self._abort(reason)

    def _abort(self, reason: str) -> Task:
        if self.failure is None:
            self.failure = f"{reason}\nat {self.now - 1000.0:.3f} s\n{self.stacks()}"
        self._is_aborting = True
        for task in self._tasks:
            task.is_vanished = True
            task.back_to = None
        return self._tasks[-1]

    def stacks(self) -> str:
        """Return what each thread is doing."""
        frames = sys._current_frames()
        found = []
        for task in self._tasks:
            frame = frames.get(task.thread.ident or 0) if task.thread is not None else None
            lines = traceback.format_stack(frame) if frame is not None else []
            ours = [line for line in lines if "simulation/scheduler.py" not in line and "/threading.py" not in line]
            until = "" if task.deadline is None else f", until {task.deadline - 1000.0:.3f} s"
            found.append(f"--- {task}{until}\n{''.join(ours[-12:])}")
        return "\n".join(found)
