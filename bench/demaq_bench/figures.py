"""Figures, and what they are read from."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Place = Mapping[str, str | int | float]
"""Where a figure stands among others of its kind: by workload, system, size and so on."""


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    unit: str
    target: str = ""
    group: str = ""
    """What it is about, where several figures are."""
    parts: tuple[tuple[str, float], ...] = ()
    """What it is made of, in the same unit."""
    at: Place = field(default_factory=dict)
    runs: tuple[float, ...] = ()
    """What it is the median of."""

    @property
    def is_reached(self) -> bool | None:
        """Whether it is what it is to be; None if there is no target, or only one in words."""
        for words, holds in (("at least ", self.value.__ge__), ("at most ", self.value.__le__)):
            if self.target.startswith(words):
                return bool(holds(float(self.target.removeprefix(words))))
        return None

    def as_json(self) -> dict[str, object]:
        """Without what it does not have."""
        found: dict[str, object] = {"group": self.group, "name": self.name, "at": dict(self.at)}
        found |= {"value": self.value, "unit": self.unit, "target": self.target}
        found |= {"runs": list(self.runs), "parts": dict(self.parts)}
        if self.is_reached is not None:
            found["reached"] = self.is_reached
        return {key: value for key, value in found.items() if value not in ("", [], {}) or key == "unit"}


class WrongResult(Exception):
    """What was measured did not do what it should: its figures mean nothing."""


def resident_megabytes(pid: int | str = "self") -> float:
    """Return the memory that a process has now; 0 where the system does not tell."""
    return _field(f"/proc/{pid}/status", "VmRSS:") / 1000


def most_resident_megabytes(pid: int | str = "self") -> float:
    """Return the most memory that a process has ever had; 0 where the system does not tell."""
    return _field(f"/proc/{pid}/status", "VmHWM:") / 1000


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that all threads of a process have taken so far; 0 where the system does not tell."""
    try:
        return time.clock_gettime(~pid << 3 | _CPU_CLOCK) if pid else 0.0
    except OSError:
        return 0.0


def written_bytes() -> float:
    """Return what this process has caused to be written to disks so far; 0 where the system does not tell."""
    return _field("/proc/self/io", "write_bytes:")


_CPU_CLOCK = 2
"""The clock of a process on Linux, as clock_getcpuclockid(3) makes it. It counts nanoseconds; /proc counts 10 ms."""


def _field(file: str, name: str) -> float:
    try:
        lines = Path(file).read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) for line in lines if line.startswith(name)), 0.0)
