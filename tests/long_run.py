"""Draw new examples for some hours, in all tests that draw any: `./test --long [HOURS]`.

Each round has a seed of its own, which is printed, and draws more examples than an ordinary run. A round that fails ends
the run; what is needed to repeat it is printed then.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time

from tests.support.drawing import SEED_VARIABLE, TIMES_VARIABLE

HOURS = 1.0
TIMES = 5
"""A round draws so many times what `./test --all` draws, but for its first, which is quick to find what fails often."""
PYTEST = ("-m", "pytest", "--drawing", "-n", "auto", "--maxprocesses", "4", "--dist", "loadscope", "-rP")
HANGS_SECONDS = 6 * 60 * 60
"""A test that draws many examples may take long: later than this it hangs."""


def run(hours: float) -> int:
    """Return the exit code of the first round that failed, or 0 after rounds for so many hours."""
    until = time.monotonic() + hours * 3600
    times, seconds = 1, 0.0
    while True:
        seed, began = str(secrets.randbits(32)), time.monotonic()
        print(f"{SEED_VARIABLE}={seed} {TIMES_VARIABLE}={times}", flush=True)
        environment = {**os.environ, SEED_VARIABLE: seed, TIMES_VARIABLE: str(times)}
        command = [sys.executable, *PYTEST, "-o", f"faulthandler_timeout={HANGS_SECONDS}"]
        done = subprocess.run(command, env=environment, check=False)
        if done.returncode:
            print(f"failed: repeat it with {SEED_VARIABLE}={seed} {TIMES_VARIABLE}={times} ./test TEST")
            return done.returncode
        seconds = (time.monotonic() - began) * (TIMES / times)
        times = TIMES
        if time.monotonic() + seconds > until:
            print(f"no example failed; another round would take {seconds / 60:.0f} minutes")
            return 0


if __name__ == "__main__":
    try:
        wanted = float(sys.argv[1]) if len(sys.argv) > 1 else HOURS
    except ValueError:
        sys.exit("usage: ./test --long [HOURS]")
    sys.exit(run(wanted))
