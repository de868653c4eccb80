"""Real nodes in real processes, for tests that kill them."""

from __future__ import annotations

from pathlib import Path

from demaq_bench.node_process import NodeProcess


class RunningNode(NodeProcess):
    """`demaq run` in a process of its own, up and running."""

    def __init__(self, application: Path, store: Path, *options: str) -> None:
        super().__init__(application, store, *options)
        self.remote = self.wait_until_running()
