"""Pages of the documentation as tests see them: blocks of code, commands with what they answer, links.

What follows the language of a block says what the block is:

    ```dmq                        a complete application: checked, and nothing may be found
    ```dmq fragment               statements that stand for themselves: they must parse
    ```dmq file=orders.dmq        a file of the reader's (of any language), there for the commands that follow
    ```xquery                     an expression: it must parse
    ```python                     a program: it is run, and then the tests in it
    ```console                    commands after `$ `; those of demaq are run, and answer what the page says
    ```console elsewhere          the same, of other machines, or of programs that may be missing: not run
    ```sh                         commands that the reader adapts, without what they answer: not run

The files and commands of a page share one folder, in the order of the page. `$ echo $?` shows the exit code of the
command before it; what follows `>` is written to a file. `$ demaq run … &` starts a node in the background of the commands
that follow, each of which is run when the node has nothing left to process; `$ kill %1` ends it.
A program of the page is run with the Python of the tests, and what it leads to is sent before the next command: `$
…/python FILE`. `curl` is run as it is. `$ demaq load …` has a process of its own, because there is one Spark in a process at most. Times are
compared by their form, because the clock goes on; ports from 8470 to 8479 stand for some that are free. Other commands
are not run. `terminal.py` is closer to a reader: it types all of them into a real shell, and takes longer.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import demaq
from demaq.cli import main as cli
from demaq.server.startup import DEFAULT_STORE
from demaq.store.sqlite import SqliteStore

ELSEWHERE = "elsewhere"
PROJECT = Path(__file__).parents[3]
IDLE_SECONDS_MAX = 60.0
"""A node of a page must have processed what it was given by then."""

ON_SPARK = ("load",)

_FENCE = re.compile(r"^( *)```(.*)$")
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$")
_PORT = re.compile(r"\b847\d\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code: lines `start` up to `end` of the page, without its fences."""

    language: str
    words: tuple[str, ...]
    start: int
    end: int
    indent: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    @property
    def file(self) -> str | None:
        return next(iter([word.removeprefix("file=") for word in self.words if word.startswith("file=")]), None)


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a console block, and the lines that the page says it answers."""

    text: str
    answer: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page:
    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(PROJECT).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def blocks(self) -> list[Block]:
        return list(_blocks(self.text.splitlines()))

    def links(self) -> list[str]:
        """Where the page links to, code left out."""
        inside = {number for block in self.blocks() for number in range(block.start, block.end)}
        prose = [line for number, line in enumerate(self.text.splitlines()) if number not in inside]
        return _LINK.findall(re.sub(r"`[^`\n]*`", "", "\n".join(prose)))

    def headings(self) -> list[str]:
        inside = {number for block in self.blocks() for number in range(block.start, block.end)}
        found: list[str] = []
        for number, line in enumerate(self.text.splitlines()):
            match = _HEADING.match(line)
            if match and number not in inside:
                found.append(match.group(1))
        return found

    def section(self, heading: str) -> str:
        """The text below a heading, up to the next of its level."""
        _, found, rest = self.text.partition(f"\n## {heading}\n")
        assert found, f"{self.name} has the section {heading}"
        return rest.split("\n## ")[0]


def all_pages() -> list[Page]:
    """Everything we wrote for readers."""
    paths = [PROJECT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    paths += sorted((PROJECT / "docs").rglob("*.md")) + sorted((PROJECT / "examples").rglob("*.md"))
    return [Page(path) for path in paths]


def anchor(heading: str) -> str:
    """What a link to a heading is called where the pages are read."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def commands(block: Block) -> list[Command]:
    found: list[Command] = []
    for line in block.lines:
        if line.startswith("$ "):
            found.append(Command(line[2:], ()))
        elif found and found[-1].text.endswith("\\") and not found[-1].answer:
            found[-1] = Command(f"{found[-1].text}\n{line}", ())
        elif found:
            found[-1] = Command(found[-1].text, (*found[-1].answer, line))
    return found


class Ports:
    """Ports that are free, in place of those that a page has."""

    def __init__(self) -> None:
        self._free: dict[str, str] = {}

    def replace(self, text: str) -> str:
        """Return a file or command of the page as it can be used here."""
        for port in _PORT.findall(text):
            if port not in self._free:
                with socket.socket() as listener:
                    listener.bind(("127.0.0.1", 0))
                    self._free[port] = str(listener.getsockname()[1])
        return _PORT.sub(lambda found: self._free[found.group()], text)

    def restore(self, line: str) -> str:
        """Return an answer with the ports of the page."""
        for port, used in self._free.items():
            line = re.sub(rf"\b{used}\b", port, line)
        return line


class Shell:
    """Runs the commands of one page in the current folder. Ends what it has started."""

    def __init__(self) -> None:
        self.exit_code = 0
        self.ports = Ports()
        self._node: subprocess.Popen[str] | None = None
        self._store = Path()

    def __enter__(self) -> Shell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._node is not None:
            self._node.kill()
            self._node.communicate()

    def answer(self, command: Command) -> tuple[str, ...]:
        """What a command really answers; what the page says for those that are not run."""
        if command.text == "echo $?":
            return (str(self.exit_code),)
        words = shlex.split(self.ports.replace(command.text.replace("\\\n", " ")))
        if command.text == "kill %1":
            answer = self._stop()
        elif words[0].endswith("/python"):
            answer = self._run_program([sys.executable, *words[1:]])
        elif words[0] == "curl":
            answer = self._run_program(words)
        elif words[0] not in ("demaq", "./demaq"):
            return command.answer
        elif words[-1] == "&":
            answer = self._start(words[1:-1])
        elif words[1] in ON_SPARK:
            answer = self._run_apart(words[1:])
        else:
            answer = self._run(words[1:])
        answer = tuple([self.ports.restore(line) for line in answer])
        return command.answer if without_times(answer) == without_times(command.answer) else answer

    def _run(self, words: list[str]) -> tuple[str, ...]:
        output = io.StringIO()
        into = words[-1] if ">" in words[-2:] else None
        with redirect_stdout(io.StringIO() if into else output) as results, redirect_stderr(output):
            self.exit_code = cli.run(cli.demaq, words[:-2] if into else words)
        if into:
            Path(into).write_text(results.getvalue(), encoding="utf-8")
        if self._node is not None:
            self._wait_until_idle()
        return tuple(output.getvalue().splitlines())

    def _run_apart(self, words: list[str]) -> tuple[str, ...]:
        done = subprocess.run(
            [sys.executable, "-m", "demaq.cli", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=_environment(),
            check=False,
        )
        self.exit_code = done.returncode
        if self._node is not None:
            self._wait_until_idle()
        return tuple(done.stdout.splitlines())

    def _run_program(self, words: list[str]) -> tuple[str, ...]:
        done = subprocess.run(words, env=_environment(), capture_output=True, text=True, check=False)
        self.exit_code = done.returncode
        if self._node is not None:
            self._wait_until_idle(is_all_sent=words[0] != "curl")
        return tuple([line for line in [*done.stdout.splitlines(), *done.stderr.splitlines()] if line])

    def _start(self, words: list[str]) -> tuple[str, ...]:
        assert self._node is None, "a page runs one node at a time"
        self._node = subprocess.Popen(
            [sys.executable, "-m", "demaq.cli", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=_environment(),
        )
        self._store = Path(words[words.index("--store") + 1] if "--store" in words else DEFAULT_STORE)
        assert self._node.stdout is not None
        said = [self._node.stdout.readline().rstrip("\n")]
        while said[-1] and not said[-1].startswith("running on "):  # first it says what is different
            said.append(self._node.stdout.readline().rstrip("\n"))
        self._wait_until_idle()
        return tuple(said)

    def _wait_until_idle(self, is_all_sent: bool = False) -> None:
        wait_until_idle(self._store, is_all_sent)

    def _stop(self) -> tuple[str, ...]:
        assert self._node is not None, "a node is started before it is ended"
        self._node.terminate()
        output, _ = self._node.communicate()
        self.exit_code = self._node.returncode
        self._node = None
        return tuple(output.splitlines())


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(demaq.__file__).parents[1])}


def wait_until_idle(folder: Path, is_all_sent: bool = False) -> None:
    """Wait until the node on a store has nothing left to process, or to send."""
    store = SqliteStore.open_readonly(folder)
    last = time.monotonic() + IDLE_SECONDS_MAX
    while store.pending(1) or (is_all_sent and store.sendings()):
        assert time.monotonic() < last, "the node processes what it is given"
        time.sleep(0.02)
    store.close()


def run_python(block: Block) -> None:
    """Run a block as a program, and then the tests in it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(block.text, "<documentation>", "exec"), names)
    for name, test in names.items():
        if name.startswith("test_"):
            test()


def recorded(page: Page, answers: dict[Block, list[tuple[str, ...]]]) -> str:
    """The page with these answers in place of those it has."""
    lines = page.text.splitlines()
    for block, found in sorted(answers.items(), key=lambda item: -item[0].start):
        made: list[str] = []
        for command, answer in zip(commands(block), found, strict=True):
            made += [f"$ {command.text}", *answer]
        blank = " " * block.indent
        lines[block.start : block.end] = [(blank + line).rstrip() for text in made for line in text.split("\n")]
    return "\n".join(lines) + "\n"


def replaced(page: Page, block: Block, text: str) -> str:
    """The page with this text in a block."""
    lines = page.text.splitlines()
    lines[block.start : block.end] = text.splitlines()
    return "\n".join(lines) + "\n"


def _blocks(lines: list[str]) -> list[Block]:
    found: list[Block] = []
    opened: tuple[int, int, str] | None = None
    for number, line in enumerate(lines):
        match = _FENCE.match(line)
        if match is None:
            continue
        if opened is None:
            opened = (number + 1, len(match.group(1)), match.group(2))
            continue
        start, indent, info = opened
        language, *words = info.split() or [""]
        inner = tuple([text[indent:] for text in lines[start:number]])
        found.append(Block(language, tuple(words), start, number, indent, inner))
        opened = None
    assert opened is None, "every block is closed"
    return found


def without_times(lines: Sequence[str]) -> list[str]:
    return [_TIME.sub("", line) for line in lines]
