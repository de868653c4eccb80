"""The system's chromium, driven by playwright; and a node with a console, in a process of its own."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
START_SECONDS_MAX = 90.0
_ADDRESS = re.compile(r"console at (\S+)/console")


@dataclass
class RunningConsole:
    url: str
    process: subprocess.Popen[str]
    store: Path
    said: list[str]
    """The lines that it has written."""

    def send(self, queue: str, *bodies: str) -> None:
        for body in bodies:
            subprocess.run(
                [sys.executable, "-m", "demaq.cli", "send", queue, "-", "--store", str(self.store)],
                input=body,
                text=True,
                check=True,
                capture_output=True,
                timeout=60,
            )


@contextlib.contextmanager
def run_console(application: Path, store: Path, *options: str, cwd: Path | None = None) -> Iterator[RunningConsole]:
    """Run a node with a console at any free port of this machine, until the end of the block."""
    command = [sys.executable, "-m", "demaq.cli", "run", str(application), "--store", str(store), "--keep", "1h"]
    process = subprocess.Popen(
        [*command, "--http", "127.0.0.1:0", "--console", "on", *options], stderr=subprocess.PIPE, text=True, cwd=cwd
    )
    lines: list[str] = []
    found = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            if line.startswith("running on"):
                found.set()
        found.set()

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    try:
        assert found.wait(START_SECONDS_MAX), lines
        address = _ADDRESS.search("".join(lines))
        assert address is not None, lines
        yield RunningConsole(address[1], process, store, lines)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reading.join(10)
        assert process.stderr is not None
        process.stderr.close()


@dataclass
class Observed:
    """What a browser does besides showing pages."""

    base: str
    complaints: list[str] = field(default_factory=list)

    def attach(self, page: Any) -> None:
        page.on("console", lambda m: self._note(m.type in ("error", "warning"), f"console: {m.text}"))
        page.on("pageerror", lambda error: self._note(True, f"script: {error}"))
        page.on("request", lambda r: self._note(not r.url.startswith(f"{self.base}/"), f"other host: {r.url}"))

    def _note(self, is_wrong: bool, said: str) -> None:
        if is_wrong:
            self.complaints.append(said)


@contextlib.contextmanager
def open_browser(base: str, widths: Sequence[int] = (1280,)) -> Iterator[tuple[Any, Observed]]:
    """Open a page of the system's chromium. It notes complaints, and requests to other hosts."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": widths[0], "height": 900}, base_url=base)
        page = context.new_page()
        page.set_default_timeout(30_000)
        observed = Observed(base)
        observed.attach(page)
        try:
            yield page, observed
        finally:
            browser.close()


def wait_until(is_so: Any, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.1)
