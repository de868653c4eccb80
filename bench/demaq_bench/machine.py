"""What figures were measured on: they mean little without it."""

from __future__ import annotations

import os
import platform
import sqlite3
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from demaq._version import __version__

PACKAGES = {"saxon": "saxonche", "spark": "pyspark", "lxml": "lxml"}


def facts() -> dict[str, str | int]:
    """Cores, memory and versions."""
    found: dict[str, str | int] = {
        "demaq": __version__,
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_megabytes": _memory_megabytes(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    for name, package in PACKAGES.items():
        found[name] = _version(package)
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _memory_megabytes() -> int:
    try:
        first = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()[0]
    except (OSError, IndexError):
        return 0
    return int(first.split()[1]) // 1000
