"""Run tests with coverage, and compare every package with its floor: `./test --coverage`.

Shares are those of the statements that ran in a process of the tests. Nodes and workers in processes of their own are
not traced, which keeps the run short.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import coverage
import pytest

PROJECT = Path(__file__).parents[1]
SOURCES = PROJECT / "src" / "demaq"
TOP = "top"
"""The modules in `src/demaq/` itself."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Statements of a package, and how many of them ran."""

    statements: int = 0
    covered: int = 0

    @property
    def percent(self) -> float:
        return 100.0 * self.covered / self.statements if self.statements else 100.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.statements + other.statements, self.covered + other.covered)


def run(arguments: list[str]) -> int:
    """Run pytest with these arguments; return its exit code, or 1 if it passed and a package is below its floor."""
    floors = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["demaq"]["coverage-floors"]
    measured = coverage.Coverage(config_file=str(PROJECT / "pyproject.toml"))
    measured.erase()
    exit_code = subprocess.run([sys.executable, "-m", "pytest", "-p", "tests.support.tracing", *arguments]).returncode
    if exit_code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return exit_code
    measured.combine()
    packages = sum_by_package(count_files(measured))
    for name, counts in sorted(packages.items()):
        print(f"{name:12} {counts.percent:5.1f} %  of {counts.statements:5} statements, floor {floors.get(name, '-')}")
    problems = compare(packages, floors)
    for problem in problems:
        print(f"coverage: {problem}")
    return exit_code or int(bool(problems))


def count_files(measured: coverage.Coverage) -> Iterable[tuple[Path, Counts]]:
    """Yield every source file with its counts, also those of which nothing ran."""
    for file in sorted(SOURCES.rglob("*.py")):
        _, statements, _, missing, _ = measured.analysis2(str(file))
        yield file, Counts(len(statements), len(statements) - len(missing))


def sum_by_package(files: Iterable[tuple[Path, Counts]]) -> dict[str, Counts]:
    """Return the counts of each package below `src/demaq/`, and of the modules beside them."""
    packages: defaultdict[str, Counts] = defaultdict(Counts)
    for file, counts in files:
        parts = file.relative_to(SOURCES).parts
        packages[parts[0] if len(parts) > 1 else TOP] += counts
    return dict(packages)


def compare(packages: Mapping[str, Counts], floors: Mapping[str, float]) -> list[str]:
    """Return a line for each package that is below its floor or has none, and for each floor without a package."""
    problems = []
    for name, counts in sorted(packages.items()):
        if name not in floors:
            problems.append(f"{name} has no floor in pyproject.toml; {counts.percent:.1f} % of it ran")
        elif counts.percent < floors[name]:
            problems.append(f"{name}: {counts.percent:.1f} % ran, below its floor of {floors[name]} %")
    problems += [f"there is no package {name}, but a floor for it" for name in sorted(floors.keys() - packages.keys())]
    return problems


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
