"""How long pages of the console take with many messages in the store."""

from __future__ import annotations

import contextlib
import http.client
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from demaq.control.client import running_node
from demaq.language.loader import load_program_texts
from demaq.messages import PropertyValue
from demaq.server.offline_node import make_store
from demaq.store.location import place_of
from demaq.store.opening import open_store
from demaq.store.protocol import NewMessage, Step, Timer
from demaq.system_properties import ERROR_LEVEL
from demaq_bench.figures import Figure

TARGET = "at most 200"
"""Milliseconds."""
BATCH = 5_000
PER_SLICE = 5
WAITING_SHARE, ERROR_SHARE, TIMER_SHARE = 0.01, 0.02, 0.02
WARM_UPS = 2
APPLICATION = """
module shop errorqueue troubles;
create queue orders
create queue checked kind mailbox
create queue reminders kind echo
create queue troubles kind mailbox
create property orderID as xs:string queue orders value string(/order/@id)
create slicing order on orderID
create rule check for orders if (/order/@euros > 100) then do enqueue <checked/> into checked
create rule remind for order if (count(qs:slice()) > 100) then do enqueue <late/> into reminders
  with timeout value xs:dayTimeDuration("P3D") with target value "orders"
"""
PAGES = {
    "flow": "/console",
    "list of messages": "/console/messages?queue=orders",
    "oldest messages": "/console/messages?queue=orders&order=oldest",
    "message": "/console/messages/{middle}",
    "slices": "/console/slices?slicing=order",
    "largest and oldest slices": "/console/notable-slices?slicing=order",
    "slice": "/console/slices/order?key=17",
    "errors": "/console/errors",
    "error": "/console/errors/{error}",
    "deliveries": "/console/deliveries",
    "timers": "/console/timers",
    "plans": "/console/plans",
    "rounds": "/console/rounds",
    "audit": "/console/audit",
    "search by slice": "/console/search?slicing=order&key=17",
    "search by state": "/console/search?state=waits",
    "API: message": "/api/messages/{middle}",
    "API: queues": "/api/queues",
}


def measure(messages: int, runs: int, folder: Path | None, say: Callable[[str], None]) -> Iterator[Figure]:
    """Yield how long each page takes, in milliseconds, the median of so many."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        store = Path(made) / "store"
        say(f"storing {messages:,} messages")
        order, error = fill(store, messages)
        with serve(store) as port:
            for name, path in PAGES.items():
                address = path.format(middle=order, error=error)
                taken = time_page(port, address, runs)
                yield Figure(name, statistics.median(taken), "ms", TARGET, "console", runs=tuple(taken))


def fill(folder: Path, messages: int) -> tuple[int, int]:
    """Store messages, most of them processed and in slices. Return the numbers of an order and of an error."""
    make_store(load_program_texts({"shop.dmq": APPLICATION}), place_of(folder))
    store = open_store(folder)
    now = datetime.now(UTC)
    order = 0
    try:
        errors, timers = int(messages * ERROR_SHARE), int(messages * TIMER_SHARE)
        orders = messages - errors - timers
        for start in range(0, orders, BATCH):
            batch = [make_order(number, now) for number in range(start, min(start + BATCH, orders))]
            numbers = store.append(batch)
            order = numbers[0] if start <= orders // 2 else order
            if start < orders * (1 - WAITING_SHARE):
                store.commit([Step(processed=number) for number in numbers])
        for start in range(0, errors, BATCH):
            store.append([make_error(number, now) for number in range(start, min(start + BATCH, errors))])
        error = store.snapshot()
        for start in range(0, timers, BATCH):
            store.append([make_timer(number, now) for number in range(start, min(start + BATCH, timers))])
    finally:
        store.close()
    return order, error


def make_order(number: int, now: datetime) -> NewMessage:
    key = str(number // PER_SLICE)
    body = f'<order id="{key}" euros="{number % 300}"><customer>Meyer {number}</customer><item name="bolt"/></order>'
    properties = {"orderID": PropertyValue("string", key, key)}
    created = now - timedelta(seconds=number / 100)
    slices = (("order", key),)
    return NewMessage(queue="orders", body=body, properties=properties, created=created, priority=0, slices=slices)


def make_error(number: int, now: datetime) -> NewMessage:
    body = (
        f"<error><dynamicError/><rule>rule{number % 7}</rule><queue>orders</queue><messageId>{number + 1}</messageId>"
        f"<code>FORG000{number % 3}</code><description>Cannot convert</description><attempt>1</attempt>"
        f"<at>{now.isoformat()}</at><initialMessage><order/></initialMessage></error>"
    )
    level = {ERROR_LEVEL: PropertyValue("integer", "2", "2")}
    return NewMessage(queue="troubles", body=body, properties=level, created=now - timedelta(seconds=number / 10))


def make_timer(number: int, now: datetime) -> NewMessage:
    timer = Timer(due=now + timedelta(days=3, seconds=number), target="orders")
    return NewMessage(queue="reminders", body="<late/>", properties={}, created=now, timer=timer)


@contextlib.contextmanager
def serve(store: Path) -> Iterator[int]:
    """Serve the console of a store in a process of its own. Yield its port."""
    assert running_node(store) is None, "the console is measured, and not a node"
    command = [sys.executable, "-m", "demaq.cli", "console", "--store", str(store), "--http", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None, "it is a pipe"
        address = re.search(r"console at http://127\.0\.0\.1:([0-9]+)/", process.stderr.readline())
        assert address is not None, "the console says where it is"
        yield int(address[1])
    finally:
        process.terminate()
        process.wait()


def time_page(port: int, address: str, runs: int) -> list[float]:
    """Return how many milliseconds a page took, each time. Raises AssertionError if there is no page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    taken: list[float] = []
    for run in range(runs + WARM_UPS):
        began = time.perf_counter()
        connection.request("GET", address)
        response = connection.getresponse()
        data = response.read()
        assert response.status == 200, f"{address}: {response.status} {data[:300]!r}"
        if run >= WARM_UPS:
            taken.append((time.perf_counter() - began) * 1e3)
    connection.close()
    return taken
