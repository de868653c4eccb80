"""Memory of a node and of all processes it has started, by what they are for."""

from __future__ import annotations

from pathlib import Path

from demaq_bench.figures import most_resident_megabytes

ROLES = ("node", "evaluator", "java", "worker")
"""The node's own process, a worker process, Spark's, and one that evaluates on Spark."""


class PeakMemory:
    """The most memory that one process of each kind has had, as far as it was looked at."""

    def __init__(self, node: int) -> None:
        self.megabytes: dict[str, float] = {}
        self._node = node

    def look(self) -> None:
        for pid in (self._node, *descendants(self._node)):
            role = "node" if pid == self._node else _role(pid)
            if role is not None:
                self.megabytes[role] = max(self.megabytes.get(role, 0.0), most_resident_megabytes(pid))


def descendants(pid: int) -> list[int]:
    """Return all processes that a process, or one of those, has started and that still run."""
    found: list[int] = []
    for child in _children(pid):
        found += [child, *descendants(child)]
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(word) for word in _text(file).split()]
    return found


def _role(pid: int) -> str | None:
    command = _text(Path(f"/proc/{pid}/cmdline"))
    if "demaq.evaluation.workers.worker" in command:
        return "evaluator"
    if "pyspark" in command and "daemon" in command:
        return "worker"
    return "java" if "org.apache.spark" in command else None


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""
