"""Figures, and what they are read from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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


class WrongResult(Exception):
    """What was measured did not do what it should: its figures mean nothing."""


def resident_megabytes(pid: int | str = "self") -> float:
    """The memory that a process has now; 0 where the system does not tell."""
    return _field(f"/proc/{pid}/status", "VmRSS:") / 1000


def written_bytes() -> float:
    """What this process has caused to be written to disks so far; 0 where the system does not tell."""
    return _field("/proc/self/io", "write_bytes:")


def _field(file: str, name: str) -> float:
    try:
        lines = Path(file).read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) for line in lines if line.startswith(name)), 0.0)
