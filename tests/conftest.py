"""Options and settings that all tests share."""

from __future__ import annotations

import gc
import logging
import os
import random
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import hypothesis.core
import pytest
from hypothesis import HealthCheck, Phase, is_hypothesis_test, settings

import demaq.server.startup
from tests.support.drawing import SAMPLING_VARIABLE, SEED_VARIABLE, SLOW_VARIABLE, drawn_times

if TYPE_CHECKING:
    from demaq.spark.session import RunningSpark

# On a shared machine a slow example says nothing about our code. Every run draws new examples from one seed, which is
# printed when a test fails; `./test --long` draws more of them. Where CI is set, Hypothesis would always draw the same.
settings.register_profile(
    "default",
    derandomize=False,
    deadline=None,
    max_examples=int(100 * drawn_times()),
    suppress_health_check=[HealthCheck.too_slow],
)
# To find out whether anything is wrong, before it is made small: shrinking can take longer than everything else.
settings.register_profile("quick", settings.get_profile("default"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept-golden", action="store_true", help="record golden files anew; the diff is the review")
    parser.addoption("--drawing", action="store_true", help="run only the tests that draw examples")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--drawing"):
        others = [item for item in items if not draws_examples(item)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if draws_examples(item)]
    left_out = [
        *(leave_out_cases(items) if SAMPLING_VARIABLE in os.environ else []),
        *(leave_out_slow(items) if SLOW_VARIABLE in os.environ else []),
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = {id(item) for item in left_out}
        items[:] = [item for item in items if id(item) not in gone]
    if hasattr(config, "workerinput"):  # alone, tests of a module stay together
        items.sort(key=start_order)


def leave_out_slow(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the slow tests that this run does without: it has those of some files, others in every run."""
    slow = [item for item in items if item.get_closest_marker("slow") is not None]
    files = sorted({item.nodeid.partition("::")[0] for item in slow})
    count = -(-len(files) // SLOW_SHARE)
    kept = set(random.Random(f"{os.environ[SEED_VARIABLE]} slow").sample(files, count))
    return [item for item in slow if item.nodeid.partition("::")[0] not in kept]


def leave_out_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cases of sampled tests that this run does without: it has a quarter of each, others in every run."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") is not None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: list[pytest.Item] = []
    for name, found in cases.items():
        count = max(1, len(found) // SAMPLED_SHARE)
        kept = random.Random(f"{os.environ[SEED_VARIABLE]} {name}").sample(found, count)
        left_out += [item for item in found if item not in kept]
    return left_out


def start_order(item: pytest.Item) -> int:
    """Return when workers start a test: what takes long first, so that none is left with it at the end."""
    shared = [number for number, places in enumerate(KEPT_TOGETHER.values()) if item.nodeid.startswith(places)]
    if shared:
        return shared[0]
    if item.nodeid.startswith("tests/unit/"):
        return len(KEPT_TOGETHER) + 2
    return len(KEPT_TOGETHER) + (item.get_closest_marker("slow") is None)


def draws_examples(item: pytest.Item) -> bool:
    """Whether a test uses Hypothesis or random numbers, so that another run shows more."""
    return (
        "chance" in getattr(item, "fixturenames", ())
        or item.get_closest_marker("draws") is not None
        or is_hypothesis_test(getattr(item, "obj", None))
    )


def pytest_configure(config: pytest.Config) -> None:
    """One seed for all processes of a run, so that a failure can be repeated; and signals as a terminal has them."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if (
            signal.getsignal(number) == signal.SIG_IGN
        ):  # by nohup, or a script's `&`; the nodes of tests would inherit it
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    config.addinivalue_line(
        "markers", "draws: draws examples, but neither by Hypothesis nor by `chance`; see --drawing"
    )
    seed = os.environ.setdefault(SEED_VARIABLE, str(random.SystemRandom().randrange(1 << 32)))
    core: Any = hypothesis.core
    if core.global_force_seed is None:  # --hypothesis-seed was not given
        core.global_force_seed = int(seed)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    if exitstatus:
        terminalreporter.write_line(f"examples were drawn with {SEED_VARIABLE}={os.environ[SEED_VARIABLE]}")


KEPT_TOGETHER = {
    "clusters": ("tests/spark/test_bulk_on_cluster", "tests/spark/test_cluster", "tests/spark/test_session"),
    "Spark": ("tests/spark/",),
    "PostgreSQL": ("tests/postgresql/",),
}
"""Tests that share something slow to start run in one process, and so do those that start a cluster of their own."""
HANDED_OUT_ALONE = (
    *("tests/processes/benchmarks/", "tests/processes/docs/test_documentation", "tests/processes/docs/test_pages"),
    *("tests/processes/gateways/test_two_nodes", "tests/processes/server/test_slow_rules"),
    *("tests/saxon/properties/", "tests/saxon/simulation/"),
)
"""These take long and share nothing. All others go to a process with their file, whose fixtures are often a node."""


SAMPLED_SHARE = 4
"""One case of so many is run of tests that are sampled."""
SLOW_SHARE = 8
"""The slow tests of one file of so many are run by `./test --some`."""
TESTS_PER_COLLECTION = 50
"""So often garbage is collected."""
_finished = 0


def pytest_sessionstart(session: pytest.Session) -> None:
    """Saxon ends the process when another thread than its own frees what it has made; garbage waits for this one."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    collect_garbage()


def pytest_runtest_logfinish(nodeid: str) -> None:
    global _finished
    _finished += 1
    if _finished % TESTS_PER_COLLECTION == 0:
        collect_garbage()


def collect_garbage() -> None:
    """What is left between two tests, as modules and thousands of tests, stays: later collections skip it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)  # without xdist there is nothing to schedule
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out tests by file, but some alone and what shares a slow start together."""
    from xdist.scheduler import LoadScopeScheduling

    class KeepingTogether(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
        def _split_scope(self, nodeid: str) -> str:
            alone = nodeid if nodeid.startswith(HANDED_OUT_ALONE) else nodeid.partition("::")[0]
            return next((shared for shared, places in KEPT_TOGETHER.items() if nodeid.startswith(places)), alone)

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            """Forget files that are done: after every message, xdist counts what is pending in all it remembers."""
            super().mark_test_complete(node, item_index, duration)
            work = self.assigned_work[node]
            for scope in [scope for scope, tests in work.items() if all(tests.values())]:
                del work[scope]

    config.option.loadscopereorder = False  # xdist would start with what has the most tests; see start_order
    return KeepingTogether(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return how many workers `-n auto` means: two for a core, since most tests wait for processes that they start."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if config.args == ["tests/unit"] else 2 * cores


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers for one test, others in every run."""
    return random.Random(f"{os.environ[SEED_VARIABLE]} {request.node.nodeid}")


@pytest.fixture
def accept_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--accept-golden"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSpark]:
    """One Spark for all tests that need one, which `KEPT_TOGETHER` keeps in one process."""
    from demaq.spark.session import start_spark

    with start_spark("local[2]", folder=tmp_path_factory.mktemp("spark")) as running:
        yield running


# A store that a test has not made will not be there a second later either.
demaq.server.startup.MISSING_SECONDS_MAX = 0.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Restore levels of logs: a command that runs in this process sets them for good."""
    levels = [(logger, logger.level) for logger in _LOGGERS]
    try:
        return (yield)
    finally:
        for logger, level in levels:
            if logger.level != level:  # to set one clears what all loggers know
                logger.setLevel(level)


_LOGGERS = [logging.getLogger(name) for name in (None, "demaq", "demaq.run")]
