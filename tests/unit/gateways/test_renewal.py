"""A node goes on with a new certificate by itself."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from demaq.gateways.security.tls import Renewal
from demaq.server import gateways


class Looking:
    """Counts the looks."""

    def __init__(self, stop: asyncio.Event) -> None:
        self.times = 0
        self._stop = stop

    def is_due(self) -> bool:
        return True

    def renew(self) -> None:
        self.times += 1
        if self.times == 3:
            self._stop.set()


def test_the_files_of_the_certificate_are_looked_at_until_the_node_stops(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gateways, "RENEWAL_SECONDS", 0.001)

    async def run() -> int:
        stop = asyncio.Event()
        looking = Looking(stop)
        await gateways.renew_until(cast(Renewal, looking), stop)
        return looking.times

    assert asyncio.run(asyncio.wait_for(run(), 10)) == 3
