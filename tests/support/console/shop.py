"""A shop with something on every page of the console, on a store in a folder."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path

from demaq.testing.lab import Lab

APPLICATION = Path(__file__).with_name("shop.dmq")
ORDER = (
    '<order id="{0}" discount="10"><customer>Meyer &amp; Sons</customer><!-- by fax -->'
    '<item euros="{1}" name="bolt &lt;M8&gt;"/><item euros="20"/></order>'
)
FAILING = '<order id="{0}" discount="half"><customer>Huber</customer><item euros="12"/></order>'
STUCK = '<order id="30" discount="90"><customer>Nobody</customer></order>'
"""It has no items, so no rule checks it."""


def messages() -> list[tuple[str, str]]:
    """Return queues and bodies."""
    found = [("orders", ORDER.format(number, number * 30)) for number in range(1, 6)]
    found += [("orders", FAILING.format(number)) for number in (21, 22, 23)]
    found += [("orders", STUCK)]
    return [*found, ("payments", '<payment id="1" euros="500"/>'), ("payments", '<payment id="3" euros="5"/>')]


def make_shop(folder: Path, sent: Sequence[tuple[str, str]] | None = None) -> Path:
    """Return a store on which the shop has processed these messages."""
    store = folder / "shop"
    with Lab(APPLICATION, store) as lab:
        for queue, body in messages() if sent is None else sent:
            lab.enqueue(queue, body)
            lab.run_until_idle()
    del lab
    gc.collect()  # Saxon ends the process where another thread frees what this one has made
    return store
