"""The application that ran last on the store: read once for each of its versions, because plans take time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property

from demaq.compiler.plan import Plan
from demaq.compiler.planner import make_plan
from demaq.engine.error_routing import error_queues
from demaq.language.diagnostics import Diagnostic
from demaq.language.loader import check_texts
from demaq.language.program.program import Program
from demaq.store.protocol import Store

KNOWN_MAX = 8
"""How many applications are remembered: those of other nodes' stores, too."""


@dataclass(frozen=True)
class KnownApplication:
    """One version of an application. What is computed of it is kept."""

    number: int
    digest: str
    program: Program
    warnings: tuple[Diagnostic, ...]

    @cached_property
    def plan(self) -> Plan:
        return make_plan(self.program)

    @cached_property
    def error_queues(self) -> list[str]:
        return [name for name in error_queues(self.program) if name in self.program.queues]

    @cached_property
    def processed_queues(self) -> frozenset[str]:
        """The queues whose messages rules or a gateway process, without being asked and without waiting for a time."""
        return frozenset(
            [
                name
                for name, queue in self.program.queues.items()
                if queue.kind == "outgoingGateway" or (queue.kind != "echo" and self.plan.queues[name].rules)
            ]
        )


class ApplicationCache:
    """May be asked from any thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, KnownApplication] = OrderedDict()
        self._making = threading.Lock()

    def read(self, store: Store) -> KnownApplication | None:
        """Return the application; None if none ran yet, or it cannot be read by this version of Demaq."""
        found = store.program()
        if found is None:
            return None
        number, digest, files = found
        with self._making:
            if digest not in self._known:
                checked = check_texts(files)
                if checked.program is None:
                    return None
                self._known[digest] = KnownApplication(number, digest, checked.program, tuple(checked.warnings))
                while len(self._known) > KNOWN_MAX:
                    self._known.popitem(last=False)
            return self._known[digest]
