"""Notice that files were changed or replaced while a node runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from demaq.files import file_version

LOOK_EVERY_SECONDS = 1.0
"""How often files are looked at, at most: so long a removed token, user or certificate still works."""


class FileWatch:
    """Some files and their versions when they were looked at last. Make it before reading them, to miss no change."""

    def __init__(self, paths: Iterable[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._paths = tuple(paths)
        self._clock = clock
        self._versions = self._look()
        self._looked = clock()

    def has_changed(self) -> bool:
        """Return whether a file is another one than at the last look. True once for each change."""
        now = self._clock()
        if 0 <= now - self._looked < LOOK_EVERY_SECONDS:  # a clock may also be set back
            return False
        self._looked = now
        versions = self._look()
        if versions == self._versions:
            return False
        self._versions = versions
        return True

    def _look(self) -> list[tuple[int, ...] | None]:
        return [file_version(path) for path in self._paths]
