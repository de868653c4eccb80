"""The status of gateways, for `demaq status`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from demaq.gateways.connections import Connections
from demaq.gateways.counters import ResultCounts
from demaq.gateways.message_intake import Intake
from demaq.gateways.outbox.outbox import Outbox


def status_of(
    http: str | None,
    smtp: str | None,
    sendings: Mapping[str, tuple[int, datetime, datetime]],
    requests: ResultCounts,
    intake: Intake | None,
    outbox: Outbox | None,
    connections: Connections,
    left_out: Mapping[str, str],
) -> dict[str, Any]:
    """Return all that is counted since the node started, by gateway, as values of JSON."""
    return {
        "http": http,
        "smtp": smtp,
        "requests": _by_queue(requests.counts),
        "accepted": intake.accepted.copy() if intake is not None else {},
        "refused": _by_queue(intake.refused if intake is not None else {}),
        "waiting_for_answers": len(connections),
        "to_send": {
            queue: {"messages": count, "next": due.isoformat(), "oldest": oldest.isoformat()}
            for queue, (count, due, oldest) in sendings.items()
        },
        "attempts": _by_queue(outbox.results.counts if outbox is not None else {}),
        "open_breakers": [{"queue": q, "peer": peer} for q, peer in outbox.open_breakers()] if outbox else [],
        "left_out": dict(left_out),
    }


def _by_queue(counts: dict[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (queue, what), count in counts.copy().items():
        found.setdefault(queue, {})[what] = count
    return found
