"""A plugin of pytest that traces which statements run in this process: `./test --coverage` loads it.

It is imported before any test and before our sources, in every worker of xdist, so that definitions are counted, too.
"""

from __future__ import annotations

import coverage
import pytest

_measured = coverage.Coverage(data_suffix=True)
_measured.start()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    _measured.stop()
    _measured.save()
