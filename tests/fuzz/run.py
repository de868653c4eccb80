"""Give made inputs to everything that takes something from outside, for some minutes: `./test --fuzz [MINUTES]`.

Another process does the work, and is replaced when it ends or does not get on: what it was busy with is a finding then
as well. Findings are written to `tests/fuzz/findings`, where the tests replay them.
"""

from __future__ import annotations

import gc
import random
import secrets
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.fuzz.corpus_files import CORPUS, FINDINGS, keep_finding, load
from tests.fuzz.mutations import mutate
from tests.fuzz.targets import all_targets

MINUTES = 5.0
STUCK_SECONDS = 60.0
INPUTS_PER_LOOK = 500
"""So often the node is asked whether it is well."""
WEIGHTS = {"xml": 6, "soap": 3, "mail": 3, "head": 2, "http": 1}
FINDINGS_MAX = 20


def main(minutes: float) -> int:
    """Return how many findings there are."""
    until = time.monotonic() + minutes * 60
    findings = 0
    while (left := until - time.monotonic()) > 0 and findings < FINDINGS_MAX:
        with tempfile.TemporaryDirectory() as name:
            busy = Path(name) / "busy"
            findings += _watch(busy, secrets.randbits(32), left)
    print(f"{findings} findings")
    return findings


def _watch(busy: Path, seed: int, seconds: float) -> int:
    """Run a process to its end, and return how many findings it had."""
    command = [sys.executable, "-m", "tests.fuzz.run", "--work", str(busy), str(seed), str(seconds)]
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            time.sleep(1)
            if busy.exists() and time.time() - busy.stat().st_mtime > STUCK_SECONDS:
                process.kill()
    if process.returncode == 0:
        return 0
    if process.returncode == 1 or not busy.exists():  # it has said what it found
        return 1
    kind, _, data = busy.read_bytes().partition(b"\n")
    print(f"seed {seed}: the process ended ({process.returncode}); input in {keep_finding(kind.decode(), data)}")
    return 1


def work(busy: Path, seed: int, seconds: float) -> int:
    """Give inputs to targets until the time is up, or one goes wrong. Return 1 in that case, else 0."""
    generator = random.Random(seed)
    by_kind: dict[str, list[bytes]] = {}
    for kind, file in [*load(CORPUS), *load(FINDINGS)]:
        by_kind.setdefault(kind, []).append(file.read_bytes())
    by_kind["head"] = by_kind["http"]
    everything = [data for each in by_kind.values() for data in each]
    counts: Counter[str] = Counter()
    print(f"seed {seed}", flush=True)
    gc.disable()  # Saxon's objects are freed by the thread that made them
    until = time.monotonic() + seconds
    with all_targets() as targets:
        while time.monotonic() < until:
            [kind] = generator.choices(list(WEIGHTS), list(WEIGHTS.values()))
            data = mutate(generator, everything, by_kind[kind])
            busy.write_bytes(kind.encode() + b"\n" + data)
            try:
                counts[f"{kind}: {targets.take(kind, data)}"] += 1
            except Exception:
                traceback.print_exc()
                print(f"seed {seed}: after {counts.total():,} inputs, {kind}: {keep_finding(kind, data)}", flush=True)
                return 1
            if counts.total() % INPUTS_PER_LOOK == 0:
                gc.collect()
                answer = targets.here.client.get("/healthz")
                assert answer.status_code == 200, answer.text
        print(f"seed {seed}: {counts.total():,} inputs")
        for what, count in sorted(counts.items()):
            print(f"  {what}: {count:,}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        sys.exit(work(Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES) > 0)
