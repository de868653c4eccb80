"""One Spark for all tests of this folder: the mark `xdist_group("spark")` keeps them in one process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demaq.spark.session import RunningSpark, start_spark


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSpark]:
    with start_spark("local[2]", folder=tmp_path_factory.mktemp("spark")) as running:
        yield running
