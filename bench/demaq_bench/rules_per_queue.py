"""What a message costs by how many rules its queue has, one of which fires.

Rules are distinguished by an element that each looks for, which the compiler can tell from the message alone; or by a
value that each compares, for which every rule must be asked.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from demaq_bench.figures import Figure, Place, WrongResult
from demaq_bench.running_engine import RunningEngine

GROUP = "rules"
COST = "cost"
CONDITIONS = {"selected by an element": "/order/kind{n}", "selected by a value": '/order/kind = "{n}"'}
KINDS = {"selected by an element": "<kind{n}/>", "selected by a value": "<kind>{n}</kind>"}


def measure(
    sizes: Sequence[int], messages: int, runs: int, folder: Path, say: Callable[[str], None]
) -> Iterator[Figure]:
    """With so many rules on one queue."""
    with ExitStack() as stack:
        asked: list[_RulesRun] = []
        for how in CONDITIONS:
            for rules in sizes:
                say(f"rules on a queue, {how}: {rules:,}")
                file = folder / f"rules-{rules}.dmq"
                file.write_text(application(rules, how), encoding="utf-8")
                engine = stack.enter_context(RunningEngine(file, folder / f"rules-{how.split()[-1]}-{rules}"))
                asked.append(_RulesRun(engine, rules, how))
        for run in range(runs + 1):
            for each in asked:  # in turns, so that what else the machine does is shared by all
                each.run(messages, warming_up=run == 0)
    for each in asked:
        at: Place = {"rules": each.rules, "system": f"node, inline, {each.how}"}
        runs_ = tuple(each.microseconds)
        yield Figure(COST, statistics.median(runs_), "µs/step", group=GROUP, at=at, runs=runs_)


def application(rules: int, how: str) -> str:
    lines = ["create queue orders", "create queue done kind mailbox (: without rules :)"]
    lines += [
        f"create rule r{n} for orders if ({CONDITIONS[how].format(n=n)}) then "
        f'do enqueue <done rule="{n}">{{ //orderID }}</done> into done'
        for n in range(rules)
    ]
    return "\n".join(lines)


def order(number: int, rules: int, how: str) -> bytes:
    """Return an order that one of the rules is for."""
    lines = "".join([f"<line><article>A-{n}</article><quantity>{n}</quantity></line>" for n in range(16)])
    kind = KINDS[how].format(n=number % rules)
    return f"<order><orderID>O{number}</orderID>{kind}{lines}</order>".encode()


class _RulesRun:
    def __init__(self, engine: RunningEngine, rules: int, how: str) -> None:
        self.rules = rules
        self.how = how
        self.microseconds: list[float] = []
        """For each message; one figure for each run."""
        self._engine = engine
        self._sent = 0

    def run(self, messages: int, warming_up: bool) -> None:
        numbers = range(self._sent, self._sent + messages)
        self._sent += messages
        bodies = [order(number, self.rules, self.how) for number in numbers]
        started = time.perf_counter()
        self._engine.receive("orders", bodies)
        self._engine.work()
        if not warming_up:
            self.microseconds.append((time.perf_counter() - started) / messages * 1e6)
        if self._engine.made["done"] != self._sent:
            raise WrongResult(f"{self._sent} messages led to {self._engine.made['done']}, {self.how}")
