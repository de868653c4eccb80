"""The lock files hold what pyproject.toml asks for, and nothing that belongs to one machine."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]


def test_the_locks_satisfy_pyproject():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = pyproject["dependency-groups"]
    runtime = [*pyproject["project"]["dependencies"], *groups["build"]]

    _assert_satisfied(groups["build"], _locked("requirements-build.lock"))
    _assert_satisfied(runtime, _locked("requirements.lock"))
    _assert_satisfied([*runtime, *groups["test"]], _locked("requirements-test.lock"))


def test_the_test_lock_holds_the_same_versions_and_more():
    assert _locked("requirements.lock").items() <= _locked("requirements-test.lock").items()


def test_the_build_lock_holds_the_same_versions_and_fewer():
    assert _locked("requirements-build.lock").items() <= _locked("requirements.lock").items()


@pytest.mark.parametrize("name", ["requirements-build.lock", "requirements.lock", "requirements-test.lock"])
def test_a_lock_names_no_place_to_download_from(name):
    text = (ROOT / name).read_text()

    assert "://" not in text
    assert "index-url" not in text


def _assert_satisfied(requirements: list[str], locked: dict[str, str]) -> None:
    for requirement in map(Requirement, requirements):
        assert requirement.specifier.contains(locked[requirement.name]), requirement


def _locked(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / name).read_text(), re.MULTILINE))
