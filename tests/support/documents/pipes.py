"""A file that shows whether it is opened: a named pipe, whose reader would wait for ever."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOK_SECONDS = 0.005


class Pipe:
    """Releases any process that opens it, and remembers that."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.was_opened = False
        self._is_over = threading.Event()
        os.mkfifo(path)
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            try:
                descriptor = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # it has no reader
                continue
            self.was_opened = True
            os.close(descriptor)

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()


@contextmanager
def pipe(folder: Path) -> Iterator[Pipe]:
    with contextlib.closing(Pipe(folder / "pipe")) as found:
        yield found
