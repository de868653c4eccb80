"""Options and settings that all tests share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from demaq.spark.session import RunningSpark

# On a shared machine a slow example says nothing about our code; `--hypothesis-profile=long` looks harder.
# By default the same examples every time: what is found belongs to the change that brought it, not to whoever is next.
settings.register_profile(
    "default", deadline=None, max_examples=100, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", deadline=None, max_examples=5000, suppress_health_check=[HealthCheck.too_slow])
# To find out whether anything is wrong, before it is made small: shrinking can take longer than everything else.
settings.register_profile("quick", settings.get_profile("default"), phases=[Phase.explicit, Phase.generate])
# For whoever waits: `./test` without --all.
settings.register_profile("few", settings.get_profile("default"), max_examples=25)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept-golden", action="store_true", help="record golden files anew; the diff is the review")


# Tests that share something slow to start run in one process: they are told by where they are.
KEPT_TOGETHER = {
    "Spark": ("tests/spark/", "tests/bulk/"),
    "PostgreSQL": ("tests/store/test_postgresql", "tests/store/test_stores_agree"),
    **{
        f"a node for {module}": (f"tests/gateways/test_{module}",)
        for module in ("outbox", "http_intake", "soap_service", "conversations", "senders", "fuzzing", "metrics")
    },
}


TESTS_PER_COLLECTION = 50
"""So often garbage is collected."""
_finished = 0


def pytest_sessionstart(session: pytest.Session) -> None:
    """Saxon ends the process when another thread than its own frees what it has made; garbage waits for this one."""
    gc.disable()


def pytest_runtest_logfinish(nodeid: str) -> None:
    global _finished
    _finished += 1
    if _finished % TESTS_PER_COLLECTION == 0:
        gc.collect()


@pytest.hookimpl(optionalhook=True)  # without xdist there is nothing to schedule
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out tests one by one, but what shares a slow start together."""
    from xdist.scheduler import LoadScopeScheduling

    class KeepingTogether(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
        def _split_scope(self, nodeid: str) -> str:
            return next((shared for shared, places in KEPT_TOGETHER.items() if nodeid.startswith(places)), nodeid)

    return KeepingTogether(config, log)


@pytest.fixture
def accept_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--accept-golden"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSpark]:
    """One Spark for all tests that need one, which `KEPT_TOGETHER` keeps in one process."""
    from demaq.spark.session import start_spark

    with start_spark("local[2]", folder=tmp_path_factory.mktemp("spark")) as running:
        yield running
