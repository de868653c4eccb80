"""Tests that need nothing but this process: one that starts anything else fails, and belongs to another folder."""

from __future__ import annotations

import multiprocessing.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from demaq.evaluation.saxon.processor import Saxon

_FORBIDDEN = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "socket.bind", "socket.connect"}
_running: list[str] = []
"""The test that is running, if it is one of this folder."""


def _forbid(event: str, arguments: tuple[object, ...]) -> None:
    if _running and event in _FORBIDDEN:
        refuse(event)


def refuse(what: str) -> None:
    raise AssertionError(f"{what} in {_running[0]}: tests/unit is for what needs nothing but this process")


def _guard(owner: Any, name: str, instead: Callable[..., Any]) -> None:
    """Let a test of this folder run another function. Once and for all: a fixture would take its time in every test."""
    usual = getattr(owner, name)

    @wraps(usual)
    def choose(*arguments: Any, **named: Any) -> Any:
        return (instead if _running else usual)(*arguments, **named)

    setattr(owner, name, choose)


# These stay: each looks whether a test of this folder runs.
sys.addaudithook(_forbid)
_guard(Saxon, "__init__", lambda *_, **__: refuse("Saxon"))
_guard(multiprocessing.util, "spawnv_passfds", lambda *_: refuse("a process"))
# A private key is proved once, and not by every test that reads it: that takes 45 ms.
_guard(serialization, "load_pem_private_key", lru_cache(64)(serialization.load_pem_private_key))


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let workers that run only this folder say less: see `is_dull`."""
    if hasattr(session.config, "workerinput") and session.config.option.verbose <= 0:
        for plugin in session.config.pluginmanager.get_plugins():
            if type(plugin).__name__ == "WorkerInteractor":
                plugin.sendevent = partial(_send_unless_dull, plugin.sendevent)


def _send_unless_dull(send: Callable[..., None], name: str, **event: Any) -> None:
    if not is_dull(name, event.get("data", {})):
        send(name, **event)


def is_dull(event: str, report: dict[str, Any]) -> bool:
    """Whether an event of a worker is the start of a test, or that its fixtures were made and removed without delay.

    Otherwise xdist sends six messages for each test, which take longer than most of the tests. What is dull is shown by
    `-v` alone.
    """
    if event != "testreport":
        return event == "logstart"
    is_fixture = report["when"] != "call"
    return is_fixture and report["outcome"] == "passed" and bool(report["duration"] < SHOWN_SECONDS_MIN)


SHOWN_SECONDS_MIN = 0.01
"""`--durations` shows fixtures that take longer."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if item.path.is_relative_to(Path(__file__).parent):  # pytest asks for all tests here
        _running.append(item.nodeid)
    try:
        return (yield)
    finally:
        _running.clear()


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where the system has one: stores sync each commit, which a disk takes most of the time for."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="demaq-", dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)
