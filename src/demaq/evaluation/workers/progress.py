"""Which messages a worker is busy with, in memory that it shares with its caller.

A call of Saxon cannot be interrupted, and holds the global interpreter lock until it returns. So the worker notes the
messages before each call, and the caller sees which of five hundred takes long.
"""

from __future__ import annotations

import mmap
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

PATIENCE_SECONDS = 0.5
"""How long a call may take, besides twice what is usual for its queue, before its messages are evaluated apart."""
CPU_SHARE_MIN = 0.5
WAITS_MAX = 6
"""On a busy machine it may take so many times as long, until it has had this share of the time for itself."""
USUAL_DECAY = 0.9
"""How much of the longest call remains with each shorter one."""
NUMBERS_MAX = 5000
"""So many messages are named; a call with more is about unknown ones."""

_HEAD = struct.Struct("=qddd")
_SIZE = _HEAD.size + 8 * NUMBERS_MAX


class Busy(NamedTuple):
    """What a process is busy with."""

    since: float
    """On the monotonic clock, which all processes of a machine share."""
    since_cpu: float
    """On the clock of the process, which stands still while others have the processor."""
    patience_seconds: float
    numbers: tuple[int, ...]

    def is_slow(self, cpu_seconds: float | None) -> bool:
        """Return whether the call takes unusually long, where the process has had so much time for itself."""
        waited = time.monotonic() - self.since
        if waited <= self.patience_seconds:
            return False
        if cpu_seconds is None or waited > WAITS_MAX * self.patience_seconds:
            return True
        return cpu_seconds - self.since_cpu > CPU_SHARE_MIN * self.patience_seconds


@contextmanager
def progress_file() -> Iterator[int]:
    """Yield the descriptor of the memory for one process: a file without a name."""
    with tempfile.TemporaryFile() as file:
        file.truncate(_SIZE)
        yield file.fileno()


class Progress:
    """One end of the shared memory."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, _SIZE)
        self._usual: dict[str, float] = {}
        """How long calls about messages of a queue take."""
        self._queue = ""
        self._since = 0.0

    # in the process

    def begin(self, queue: str, numbers: Sequence[int]) -> None:
        """Note that a call begins which is about these messages of a queue."""
        self.end()
        named = numbers if len(numbers) <= NUMBERS_MAX else ()
        end = _HEAD.size + 8 * len(named)
        self._memory[_HEAD.size : end] = struct.pack(f"={len(named)}q", *named)
        self._queue, self._since = queue, time.monotonic()
        patience = PATIENCE_SECONDS + 2 * self._usual.get(queue, 0.0)
        self._memory[: _HEAD.size] = _HEAD.pack(len(named) + 1, self._since, time.process_time(), patience)

    def end(self) -> None:
        """Note that the call has ended."""
        if not self._since:
            return
        self._memory[: _HEAD.size] = _HEAD.pack(0, 0.0, 0.0, 0.0)
        seconds = time.monotonic() - self._since
        self._usual[self._queue] = max(seconds, USUAL_DECAY * self._usual.get(self._queue, 0.0))
        self._since = 0.0

    # in its caller

    def read(self) -> Busy | None:
        """Return what the process is busy with, if it is in such a call."""
        count, since, since_cpu, patience = _HEAD.unpack_from(self._memory)
        if not count:
            return None
        return Busy(since, since_cpu, patience, struct.unpack_from(f"={count - 1}q", self._memory, _HEAD.size))

    def close(self) -> None:
        self._memory.close()
