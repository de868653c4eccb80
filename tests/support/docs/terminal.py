"""A terminal in which a reader types what a page shows: a real shell, in an empty folder next to a clone.

    somewhere/
      demaq/        the clone, whose command is on the PATH
      lesson/       the empty folder, in which files are saved and commands are typed

Nothing is waited for that a reader would not wait for. A command that ends in `&` is followed by the next one at once,
if that is one of Demaq, which waits for a node that is starting; others are typed when the node has said that it runs.
What is said in the background may come later, between the lines of others. Before a further command the reader looks up until the node
has processed what it was given. A line that says what a command waits for depends on the machine, and is passed over.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType

from demaq.server.startup import DEFAULT_STORE
from demaq.store.sqlite_database import FILE_NAME
from tests.support.docs.pages import PROJECT, Command, Ports, wait_until_idle, without_times

ANSWER_SECONDS_MAX = 600.0
_END = "end of the answer"
_STORE = re.compile(r"--store[ =](\S+)")


class Terminal:
    """A shell and what it has said. Ends all that was started in it."""

    def __init__(self, somewhere: Path) -> None:
        self.folder = somewhere / "lesson"
        self.folder.mkdir()
        (somewhere / "demaq").symlink_to(PROJECT)
        path = somewhere / "bin"
        path.mkdir()
        (path / "demaq").symlink_to(PROJECT / "demaq")
        self.ports = Ports()
        self._unsaid: list[str] = []
        """What the page has a command in the background say, and it has not said yet."""
        self._store: Path | None = None
        """That of the node in the background."""
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGKILL)
        self._bash.wait()
        self._reader.join()
        for pipe in (self._bash.stdin, self._bash.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def save(self, name: str, text: str) -> None:
        """Save a file that the page shows."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.ports.replace(text), encoding="utf-8")

    def answer(self, command: Command) -> tuple[str, ...]:
        """Type a command; return what is said until it has ended, as the page says it where only times differ."""
        text = self.ports.replace(command.text)
        in_background = text.endswith("&")
        if Path(text.split()[0]).name not in ("demaq", "kill"):
            self._wait_for_background()
        if in_background:
            self._note_node(text)
            self._unsaid += command.answer
        if text.startswith("kill "):
            text += "; wait"
            self._unsaid += command.answer
        self._type(text)
        said = tuple([self.ports.restore(line) for line in self._answer()])
        said = self._foreground(said)
        if text.startswith("kill "):
            assert not self._unsaid, f"the node has not said {self._unsaid}"
            self._store = None
            return said or command.answer
        if in_background:
            return said or command.answer
        if self._store is not None and (self._store / FILE_NAME).exists():
            wait_until_idle(self._store, is_all_sent="python" in text.split()[0])
        return command.answer if without_times(said) == without_times(command.answer) else said

    def _note_node(self, text: str) -> None:
        found = _STORE.search(text)
        self._store = self.folder / (found.group(1) if found else DEFAULT_STORE)

    def _wait_for_background(self) -> None:
        """Wait until the node in the background has said all that the page shows."""
        until = time.monotonic() + ANSWER_SECONDS_MAX
        while self._unsaid:
            line = self._lines.get(timeout=max(until - time.monotonic(), 0.0))
            assert line is not None, f"the shell has ended before {self._unsaid}"
            assert not self._foreground((self.ports.restore(line),)), f"{line} instead of {self._unsaid}"

    def _foreground(self, said: tuple[str, ...]) -> tuple[str, ...]:
        """Return what remains when the next lines of commands in the background are taken away."""
        rest: list[str] = []
        for line in said:
            if self._unsaid and without_times([line]) == without_times(self._unsaid[:1]):
                del self._unsaid[0]
            elif not line.startswith("waiting: "):
                rest.append(line)
        return tuple(rest)

    def _type(self, text: str) -> None:
        assert self._bash.stdin is not None
        # One command for bash, so that a program that reads what is typed does not read the rest of it. The exit code
        # is that of the page's command also for the `echo $?` that may follow.
        self._bash.stdin.write(f"{{ {text}\n}}; _code=$?; echo '{_END}'; (exit $_code)\n")
        self._bash.stdin.flush()

    def _answer(self) -> list[str]:
        until = time.monotonic() + ANSWER_SECONDS_MAX
        found: list[str] = []
        while True:
            line = self._lines.get(timeout=max(until - time.monotonic(), 0.0))
            assert line is not None, f"the shell has ended: {found}"
            if line.endswith(_END):
                found.append(line.removesuffix(_END))
                while found and not found[-1]:  # a page does not show blank lines at the end
                    del found[-1]
                return found
            found.append(line)

    def _read(self) -> None:
        assert self._bash.stdout is not None
        for line in self._bash.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)
