"""What `/metrics` says, for Prometheus. Everything is read when it is scraped; nothing is computed otherwise.

Labels are names of the application's queues, kinds of errors and statuses of our own, so there are never many.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from demaq.errors import ERROR_KINDS, StoreError
from demaq.gateways.connections import Connections
from demaq.gateways.counters import Durations, ResultCounts
from demaq.gateways.message_intake import Intake
from demaq.gateways.outbox.outbox import RESULTS, Outbox
from demaq.gateways.security.authentication import Authenticator
from demaq.gateways.store_reader import StoreReader
from demaq.server.node import Node
from demaq.store.sql_store import SqlStore

PENDING_MAX = 10_000
"""How many waiting messages of a priority are looked at to find the oldest of each queue."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
T = TypeVar("T", CounterMetricFamily, GaugeMetricFamily)
Labels = TypeVar("Labels", bound=tuple[str, ...])


_NATIVE = (
    ("demaq_native_answers", "answers", "Messages that native rules have answered."),
    ("demaq_native_fallbacks", "fallbacks", "Messages that native rules have left to Saxon."),
    ("demaq_native_exceptions", "exceptions", "Exceptions in native rules."),
    ("demaq_native_checks", "checked", "Answers of native rules that were compared with Saxon's."),
    ("demaq_native_checks_skipped", "skipped", "Answers that were to be compared when there was no room for them."),
    ("demaq_native_differences", "differences", "Native rules whose answer was not Saxon's."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What is looked at."""

    node: Node
    requests: ResultCounts
    intake: Intake
    outbox: Outbox
    connections: Connections
    authenticator: Authenticator
    left_out: Mapping[str, str]


class Metrics:
    """May be asked from any thread, by one at a time."""

    def __init__(self, sources: Sources) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        self._collector = _NodeCollector(sources)
        self._registry.register(self._collector)
        self._asking = threading.Lock()

    def text(self) -> bytes:
        with self._asking:
            return generate_latest(self._registry)

    def close(self) -> None:
        with self._asking:
            self._collector.close()


class _NodeCollector(Collector):
    def __init__(self, sources: Sources) -> None:
        self._node = sources.node
        self._sources = sources
        self._reader = StoreReader(self._node.place.where)
        kinds = {name: queue.kind for name, queue in self._node.program.queues.items()}
        self._queues = list(kinds)
        self._waited_for = [name for name, kind in kinds.items() if kind not in ("echo", "outgoingGateway")]
        self._incoming = [name for name, kind in kinds.items() if kind == "incomingGateway"]
        self._outgoing = [name for name, kind in kinds.items() if kind == "outgoingGateway"]

    def describe(self) -> Iterable[Family]:
        return []  # called when it is registered, before any scrape

    def collect(self) -> Iterator[Family]:
        yield from self._of_the_store()
        yield from self._of_the_node()
        yield from self._of_arrivals()
        yield from self._of_deliveries()

    def close(self) -> None:
        self._reader.close()

    # the store

    def _of_the_store(self) -> Iterator[Family]:
        try:
            found = self._reader.read(lambda store: list(self._read(store)))
        except StoreError:
            found = []
        yield GaugeMetricFamily("demaq_store_readable", "Whether the store could be read now.", bool(found))
        yield from found

    def _read(self, store: SqlStore) -> Iterator[Family]:
        now = self._node.now
        counts = store.counts()
        known = [(queue, *counts.get(queue, (0, 0))) for queue in dict.fromkeys([*self._queues, *counts])]
        yield _labelled(
            GaugeMetricFamily("demaq_queue_messages", "Messages in a queue that rules see.", labels=["queue"]),
            {(queue,): visible for queue, visible, _ in known},
        )
        yield _labelled(
            GaugeMetricFamily(
                "demaq_queue_unprocessed", "Those of them that were not processed yet, or taken.", labels=["queue"]
            ),
            {(queue,): unprocessed for queue, _, unprocessed in known},
        )
        following = store.pending(1)
        age = max((now - following[0].created).total_seconds(), 0.0) if following else 0.0
        said = "How long the message that is processed next has waited; 0 where none waits."
        yield GaugeMetricFamily("demaq_next_message_age_seconds", said, age)
        yield _labelled(
            GaugeMetricFamily(
                "demaq_queue_oldest_age_seconds",
                "How long the oldest message that waits for rules or clients has done so; 0 where none waits.",
                labels=["queue"],
            ),
            {(queue,): age for queue, age in self._read_ages(store, now, counts).items()},
        )
        sendings = store.sendings()
        yield _labelled(
            GaugeMetricFamily("demaq_outbox_messages", "Messages that a gateway is to send.", labels=["queue"]),
            {(q,): sendings[q][0] if q in sendings else 0 for q in dict.fromkeys([*self._outgoing, *sendings])},
        )
        yield _labelled(
            GaugeMetricFamily("demaq_outbox_oldest_age_seconds", "How old the oldest of them is.", labels=["queue"]),
            {(queue,): max((now - oldest).total_seconds(), 0.0) for queue, (_, _, oldest) in sendings.items()},
        )

    def _read_ages(self, store: SqlStore, now: datetime, counts: Mapping[str, tuple[int, int]]) -> dict[str, float]:
        """Return how long the oldest unprocessed message of each queue has waited.

        A queue that is not among the first PENDING_MAX messages of its priority has waited no longer than the last of
        these, which stands for it.
        """
        waiting = [queue for queue in self._waited_for if counts.get(queue, (0, 0))[1]]
        priorities = {queue: self._node.engine.factory.priority(queue) for queue in waiting}
        created: dict[str, datetime | None] = {}
        for priority in set(priorities.values()):
            queues = [queue for queue in waiting if priorities[queue] == priority]
            if priority is None:
                created |= {queue: store.waiting_time(queue) for queue in queues}
                continue
            found = store.pending_times(priority, PENDING_MAX)
            if len(found) == PENDING_MAX:
                created |= dict.fromkeys(queues, found[-1][1])
            created |= dict(reversed(found))
        since = {queue: created.get(queue) or now for queue in self._waited_for}
        return {queue: max((now - time).total_seconds(), 0.0) for queue, time in since.items()}

    # the node

    def _of_the_node(self) -> Iterator[Family]:
        node = self._node
        counts = node.pipeline.counts
        yield CounterMetricFamily("demaq_messages_processed", "Messages that were processed.", node.steps)
        said = "Messages that were processed with the transaction that stored them, with all that they led to."
        yield CounterMetricFamily("demaq_messages_processed_on_arrival", said, node.engine.arrivals.processed)
        yield _labelled(
            CounterMetricFamily("demaq_rounds", "Rounds, by where they were evaluated.", labels=["where"]),
            {("inline",): counts.inline_rounds, ("spark",): counts.spark_rounds},
        )
        yield _labelled(
            CounterMetricFamily("demaq_round_messages", "Messages that were evaluated in rounds.", labels=["where"]),
            {("inline",): counts.inline_messages, ("spark",): counts.spark_messages},
        )
        said = "Messages that were evaluated again, because others changed what they had read."
        yield CounterMetricFamily("demaq_evaluations_repeated", said, node.engine.evaluations_repeated)
        said = "Error messages about what rules, timers and gateways could not do, by kind."
        yield _labelled(
            CounterMetricFamily("demaq_error_messages", said, labels=["kind"]),
            {(kind,): node.errors[kind] for kind in ERROR_KINDS},
        )
        said = "Messages that no rule has reacted to."
        yield _labelled(
            CounterMetricFamily("demaq_messages_unmatched", said, labels=["queue"]),
            {(queue,): count for queue, count in node.engine.namespaces.ignored.copy().items()},
        )
        said = "Queues, rules and gateways that operators have paused."
        yield _labelled(
            GaugeMetricFamily("demaq_paused", said, labels=["kind", "name"]),
            dict.fromkeys(node.engine.pauses.by_part, 1),
        )
        yield CounterMetricFamily("demaq_messages_removed", "Messages that were done with and removed.", node.removed)
        said = "Processes that had to be replaced because of what they were asked to evaluate."
        yield CounterMetricFamily("demaq_evaluator_restarts", said, node.evaluators_replaced)
        yield _labelled(
            GaugeMetricFamily("demaq_evaluator_resident_memory_bytes", "Memory of evaluators.", labels=["evaluator"]),
            {(name,): _resident_bytes(pid) for name, pid in node.evaluator_pids.items()},
        )
        yield from self._of_rules()
        yield from self._of_native_rules()
        if node.telemetry is not None:
            export = node.telemetry.export
            yield CounterMetricFamily("demaq_spans_exported", "Spans that were sent to a collector.", export.exported)
            said = "Spans that were not, because it did not take them or there was no room for them."
            yield CounterMetricFamily("demaq_spans_dropped", said, export.dropped)
        yield GaugeMetricFamily("demaq_fault", "Whether a fault keeps the node from going on.", node.fault is not None)

    def _of_rules(self) -> Iterator[Family]:
        counts, work = self._node.engine.rule_counts, self._node.native.work
        rules = list(counts.fired)
        said = "How often a rule was evaluated, also where the result could not be used."
        yield _by_rule("demaq_rule_asked", said, {rule: work.get(rule, (0, 0.0))[0] for rule in rules})
        yield _by_rule("demaq_rule_fired", "How often a rule has fired.", counts.fired)
        yield _by_rule("demaq_rule_failed", "How often a rule has failed.", counts.failed)
        said = "How long a rule was evaluated; measured for a share of messages."
        yield _by_rule("demaq_rule_seconds", said, {rule: work.get(rule, (0, 0.0))[1] for rule in rules})

    def _of_native_rules(self) -> Iterator[Family]:
        counts = self._node.native.counts
        for name, key, said in _NATIVE:
            yield CounterMetricFamily(name, said, counts[key])
        said = "Rules that are left to Saxon, because they failed or differed as native rules."
        yield _labelled(
            GaugeMetricFamily("demaq_native_withdrawn", said, labels=["rule"]),
            {(rule,): 1 for rule in self._node.native.withdrawn},
        )

    # gateways

    def _of_arrivals(self) -> Iterator[Family]:
        sources = self._sources
        requests = sources.requests
        yield _labelled(
            CounterMetricFamily("demaq_requests", "Requests by answer.", labels=["gateway", "status"]),
            requests.counts.copy(),
        )
        yield _durations(
            HistogramMetricFamily("demaq_request_seconds", "How long senders waited.", labels=["gateway"]),
            requests.durations,
        )
        accepted = sources.intake.accepted.copy()
        yield _labelled(
            CounterMetricFamily("demaq_messages_accepted", "Messages that were taken in.", labels=["gateway"]),
            {(queue,): accepted.get(queue, 0) for queue in self._incoming},
        )
        yield _labelled(
            CounterMetricFamily(
                "demaq_messages_refused", "Messages that were kept as errors.", labels=["gateway", "kind"]
            ),
            {(queue, kind): count for (queue, kind), count in sources.intake.refused.copy().items()},
        )
        said = "Senders who wait for an answer of the application."
        yield GaugeMetricFamily("demaq_connections_waiting", said, len(sources.connections))
        yield _labelled(
            CounterMetricFamily(
                "demaq_authentication_failures", "Requests of those who may not.", labels=["gateway", "reason"]
            ),
            sources.authenticator.failures.copy(),
        )
        said = "Gateways that are not at work, because they ask for something that is not there."
        yield _labelled(
            GaugeMetricFamily("demaq_gateway_left_out", said, labels=["gateway"]),
            {(queue,): 1 for queue in sources.left_out},
        )

    def _of_deliveries(self) -> Iterator[Family]:
        outbox = self._sources.outbox
        counts = outbox.results.counts.copy()
        yield _labelled(
            CounterMetricFamily("demaq_deliveries", "Attempts to send, by result.", labels=["queue", "result"]),
            {(q, result): counts[q, result] for q in self._outgoing for result in RESULTS},
        )
        yield _durations(
            HistogramMetricFamily("demaq_delivery_seconds", "How long attempts took.", labels=["queue"]),
            outbox.results.durations,
        )
        closed = [queue for queue, _ in outbox.open_breakers()]
        yield _labelled(
            GaugeMetricFamily("demaq_open_breakers", "Other sides that are left alone for now.", labels=["queue"]),
            {(queue,): closed.count(queue) for queue in self._outgoing},
        )


def _by_rule(name: str, said: str, values: Mapping[str, float]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, said, labels=["rule"])
    return _labelled(family, {(rule,): value for rule, value in values.items()})


def _labelled(family: T, values: Mapping[Labels, float]) -> T:
    for labels, value in values.items():
        family.add_metric(list(labels), value)
    return family


def _durations(family: HistogramMetricFamily, found: Mapping[str, Durations]) -> HistogramMetricFamily:
    for queue, durations in list(found.items()):
        family.add_metric([queue], durations.up_to(), durations.seconds)
    return family


def _resident_bytes(pid: int | None, page_bytes: Callable[[str], int] = os.sysconf) -> int:
    """Return how much memory a process has; 0 where that is not known."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page_bytes("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
