"""Whether a store holds what it must after crashes: every order once, all effects of a transaction or none.

The life of an order in `crash.dmq`. Each step is one transaction.

    order waits -> 2 checks wait, 1 timer runs, 1 glance waits
    check waits -> 1 result in the slice
    2 results in the slice -> 1 done, and no result in the slice
    timer runs -> 1 alarm
    glance waits -> 1 sight; but a glance is transient, and a crash may end it without
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from demaq.store.protocol import StoredMessage
from demaq.store.sqlite import SqliteStore

PAGE = 1_000

_ID = re.compile(r"<id>(.*?)</id>")
_PART = re.compile(r'part="(\w)"')


@dataclass(slots=True)
class Ledger:
    """What the senders know."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    """Names of orders, and the numbers that were answered."""
    unanswered: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Problems:
    missing: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    otherwise_wrong: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Audit:
    problems: Problems
    done: int
    """How many orders have had all their effects."""


class _Order:
    """Everything that lies in the store about one order."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Messages by queue, and by what they are waiting for."""
        self.number: int | None = None

    def add(self, message: StoredMessage) -> None:
        waits = message.processed is None
        match message.queue:
            case "orders":
                self.counts["order"] += 1
                self.counts["order waits"] += waits
                self.number = message.seq
            case "checks":
                self.counts[f"check {_name_part(message)} waits"] += waits
            case "results":
                self.counts[f"result {_name_part(message)} in the slice"] += bool(message.slices)
                self.counts["result waits"] += waits
                self.counts["result processed in the slice"] += bool(message.slices) and not waits
            case "later":
                self.counts["timer runs"] += waits
            case name:
                self.counts[name] += 1

    def has_begun(self) -> bool:
        """Whether there is anything but the order itself waiting."""
        return any([count for name, count in self.counts.items() if name not in ("order", "order waits")])


def audit(store: SqliteStore, ledger: Ledger, transient_before: int, finished: bool) -> Audit:
    """Check a store against what its senders know.

    No transient message may be as old as `transient_before`. `finished` says that nothing is left to do.
    """
    problems = Problems()
    orders = _orders(store, transient_before, problems)
    for name, seq in ledger.acknowledged.items():
        order = orders.get(name)
        if order is None:
            problems.missing.append(f"order {name}, acknowledged as message {seq}, is gone without any effect")
        elif order.number not in (None, seq):
            problems.otherwise_wrong.append(f"order {name} was acknowledged as message {seq}, not {order.number}")
    for name, order in orders.items():
        if name not in ledger.acknowledged and name not in ledger.unanswered:
            problems.otherwise_wrong.append(f"order {name} was never sent")
        _check(name, order, problems)
        if finished and (not order.counts["done"] or order.counts["result waits"]):
            problems.missing.append(f"order {name} was not carried out to its end: {_describe_order(order)}")
    return Audit(problems, sum([bool(order.counts["done"] and order.counts["alarms"]) for order in orders.values()]))


def _orders(store: SqliteStore, transient_before: int, problems: Problems) -> dict[str, _Order]:
    orders: dict[str, _Order] = {}
    after = 0
    while page := store.stored(None, after, PAGE):
        after = page[-1].seq
        for message in page:
            found = _ID.search(message.body)
            if message.queue.startswith("demaq:") or found is None:
                problems.otherwise_wrong.append(f"message {message.seq} in queue {message.queue}: {message.body}")
                continue
            if message.transient and message.seq <= transient_before:
                problems.otherwise_wrong.append(f"message {message.seq} is transient and was there before the crash")
            orders.setdefault(found[1], _Order()).add(message)
    return orders


def _check(name: str, order: _Order, problems: Problems) -> None:
    counts = order.counts
    if counts["order"] > 1:
        problems.doubled.append(f"order {name} is there {counts['order']} times")
        return
    if counts["order waits"]:
        if order.has_begun():
            problems.doubled.append(f"order {name} waits although it has had effects: {_describe_order(order)}")
        return
    balances = {
        "check or result a": counts["check a waits"] + counts["result a in the slice"] + counts["done"],
        "check or result b": counts["check b waits"] + counts["result b in the slice"] + counts["done"],
        "timer or alarm": counts["timer runs"] + counts["alarms"],
    }
    for what, count in balances.items():
        if count < 1:
            problems.missing.append(f"order {name} has lost its {what}: {_describe_order(order)}")
        elif count > 1:
            problems.doubled.append(f"order {name} has its {what} twice: {_describe_order(order)}")
    if counts["glances"] > 1 or counts["seen"] > 1:
        problems.doubled.append(f"order {name} has two glances: {_describe_order(order)}")
    if counts["result processed in the slice"] > 1:
        problems.otherwise_wrong.append(f"the results of order {name} are processed, but were not joined")


def _describe_order(order: _Order) -> str:
    return ", ".join([f"{name} {count}" for name, count in sorted(order.counts.items()) if count]) or "nothing"


def _name_part(message: StoredMessage) -> str:
    found = _PART.search(message.body)
    return found[1] if found else "?"
