"""How gateways go, as `demaq status` tells it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from demaq.gateways.connections import Connections
from demaq.gateways.counters import Requests
from demaq.gateways.message_intake import Intake
from demaq.gateways.outbox.outbox import Outbox


def status_of(
    http: str | None,
    smtp: str | None,
    sendings: Mapping[str, tuple[int, datetime, datetime]],
    requests: Requests,
    intake: Intake | None,
    outbox: Outbox | None,
    connections: Connections,
    left_out: Mapping[str, str],
) -> dict[str, Any]:
    """All that is counted since the node started, by gateway, as JSON has it."""
    return {
        "http": http,
        "smtp": smtp,
        "requests": _by_queue([(q, str(status), count) for (q, status), count in requests.counts.copy().items()]),
        "accepted": intake.accepted.copy() if intake is not None else {},
        "refused": _by_queue([(*about, count) for about, count in intake.refused.copy().items()] if intake else []),
        "waiting_for_answers": len(connections),
        "to_send": {
            queue: {"messages": count, "next": due.isoformat(), "oldest": oldest.isoformat()}
            for queue, (count, due, oldest) in sendings.items()
        },
        "attempts": _by_queue([(*about, count) for about, count in outbox.counts.copy().items()] if outbox else []),
        "open_breakers": [{"queue": q, "peer": peer} for q, peer in outbox.open_breakers()] if outbox else [],
        "left_out": dict(left_out),
    }


def _by_queue(counts: Iterable[tuple[str, str, int]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for queue, what, count in counts:
        found.setdefault(queue, {})[what] = count
    return found
