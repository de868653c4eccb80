"""Tests that need nothing but this process: one that starts anything else fails, and belongs to another folder."""

from __future__ import annotations

import multiprocessing.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demaq.evaluation.saxon.processor import Saxon

_FORBIDDEN = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "socket.bind", "socket.connect"}
_running: list[str] = []
"""The test that is running, if it is one of this folder."""


def _forbid(event: str, arguments: tuple[object, ...]) -> None:
    if _running and event in _FORBIDDEN:
        refuse(event)


def refuse(what: str) -> None:
    raise AssertionError(f"{what} in {_running[0]}: tests/unit is for what needs nothing but this process")


sys.addaudithook(_forbid)  # it stays: it looks whether a test of this folder runs


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if item.path.is_relative_to(Path(__file__).parent):  # pytest asks for all tests here
        _running.append(item.nodeid)
    try:
        return (yield)
    finally:
        _running.clear()


@pytest.fixture(autouse=True)
def nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Saxon, "__init__", lambda *_, **__: refuse("Saxon"))
    monkeypatch.setattr(multiprocessing.util, "spawnv_passfds", lambda *_: refuse("a process"))
