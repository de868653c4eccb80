"""Whether a process of this machine is stopped, by SIGSTOP, Ctrl-Z or a debugger: it does nothing until it goes on."""

from __future__ import annotations

import subprocess
from pathlib import Path

PS_SECONDS_MAX = 1.0
STOPPED = ("T", "t")


def is_stopped(pid: int) -> bool:
    """Return False also where it is not known."""
    try:
        # The name of the program stands in parentheses and may hold anything, such as further parentheses.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in STOPPED
    except (OSError, IndexError):
        return _ps_says_stopped(pid)


def _ps_says_stopped(pid: int) -> bool:
    """The same for systems without /proc."""
    try:
        asked = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, timeout=PS_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return asked.stdout.decode(errors="replace").strip().startswith(STOPPED)
