"""Compare a store in a folder with its mark before it is opened for writing, without changing it.

A store that has lost acknowledged commits is refused until the operator accepts the loss. One that may have gone back
to an earlier state, because it was copied or restored, begins a new epoch: see `epochs.py`.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from demaq.errors import StoreDamaged
from demaq.store.location import store_argument
from demaq.store.mark import MARK_NAME, Mark, read_mark
from demaq.store.sql_statements import load_statements
from demaq.store.sqlite_database import COUNTING_VERSION, FILE_NAME, LOG_NAME, Database

SET_ASIDE = ".damaged"
"""Suffix of a log that was set aside."""

_SQL = load_statements("sqlite", "connection")


@dataclass(frozen=True, slots=True)
class Continuity:
    """How a store was left."""

    epoch_ends: str | None = None
    """Why a new epoch must begin; None if the current one goes on."""
    was_closed: bool = True
    """Whether it was closed cleanly."""


def examine(folder: Path) -> Continuity:
    """Return how a store was left. Raises StoreDamaged if commits are missing."""
    mark, fault = _read_mark(folder)  # first: a running node may commit in between
    counted = _count(folder)
    if counted is None:
        if mark is not None and mark.commits:
            raise StoreDamaged(_describe_loss(folder, mark, 0, 0))  # all of it was in the log
        return Continuity()  # new, or of a version without the count
    commits, newest = counted
    if mark is None:
        return Continuity(
            f"its {MARK_NAME} is {fault}, so that it is not known whether it is complete", was_closed=False
        )
    if mark.commits > commits:
        raise StoreDamaged(_describe_loss(folder, mark, commits, newest))
    inode = (folder / FILE_NAME).stat().st_ino
    reason = None
    if mark.inode != inode or not mark.is_untouched or (mark.is_closed and mark.commits != commits):
        reason = "it was copied, moved or brought back from elsewhere"
    return Continuity(reason, mark.is_closed)


def accept_loss(folder: Path) -> str | None:
    """Let a store be opened although commits are missing. Return what was done; None if nothing. The caller holds its
    lock.

    A damaged log may hold older pages than the database, which has all of them up to the last checkpoint. So the log is
    set aside if the database alone has as many commits.
    """
    counted = _count(folder)
    mark, _ = _read_mark(folder)
    if counted is None or mark is None or mark.commits <= counted[0]:
        return None
    alone = _count_without_log(folder)
    if alone is not None and alone[0] >= counted[0]:
        log = folder / LOG_NAME
        log.replace(log.with_name(LOG_NAME + SET_ASIDE))
        (folder / f"{FILE_NAME}-shm").unlink(missing_ok=True)
        counted = alone
    (folder / MARK_NAME).unlink()
    missing = mark.commits - counted[0]
    return f"went back by {missing:,} commits, from number {mark.newest:,} to {counted[1]:,}"


def _describe_loss(folder: Path, mark: Mark, commits: int, newest: int) -> str:
    missing = mark.commits - commits
    numbers = f"with the numbers {newest + 1:,} to {mark.newest:,}" if mark.newest > newest else "which took no numbers"
    alone = _count_without_log(folder)
    if alone is not None and alone[0] >= mark.commits:
        return (
            f"the log of the store {folder} is damaged, but its database has everything: nothing is lost. "
            f"To go on without the log: demaq verify --accept-loss {store_argument(folder)}"
        )
    return (
        f"the store {folder} has lost its newest commits: {missing:,} that were acknowledged are missing, {numbers}. "
        f"Its log ({LOG_NAME}) was damaged or cut, or an older {FILE_NAME} was put in its place. Messages that came "
        "with them are gone, and what was processed with them would be processed again. Nothing was changed. "
        "Restore a backup (demaq restore), or accept the loss: "
        f"demaq verify --accept-loss {store_argument(folder)}"
    )


def _read_mark(folder: Path) -> tuple[Mark | None, str]:
    try:
        return read_mark(folder), "missing"
    except ValueError:
        return None, "damaged"


def _count(folder: Path) -> tuple[int, int] | None:
    """Return the database's number of commits and its newest number; None if it does not count commits."""
    if not os.path.getsize(folder / FILE_NAME):
        return None
    # A read-only connection leaves the log as it is, also when it is the last one.
    with closing(Database(folder, read_only=True, any_version=True)) as database:
        if database.version < COUNTING_VERSION:
            return None
        commits, newest = database.rows(_SQL["counted"])[0]
        return (commits, newest) if commits else None


def _count_without_log(folder: Path) -> tuple[int, int] | None:
    with suppress(sqlite3.Error, IndexError):
        address = f"{(folder / FILE_NAME).absolute().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            commits, newest = connection.execute(_SQL["counted"]).fetchone()
            return commits, newest
    return None
