"""A collector of OpenTelemetry on loopback: takes spans by OTLP over HTTP, as a real one does."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.gateways.peers import Got, OtherSide, other_side


@dataclass(frozen=True)
class GotSpan:
    name: str
    trace: str
    id: str
    parent: str | None
    state: str
    started: int
    ended: int
    error: str | None
    attributes: dict[str, Any]
    service: str


class Collector:
    def __init__(self, side: OtherSide) -> None:
        self._side = side
        self.address = side.address

    @property
    def requests(self) -> list[Got]:
        return self._side.got

    def spans(self) -> list[GotSpan]:
        """All spans that have come, in order."""
        return [span for got in list(self._side.got) for span in _parse(got)]

    def trees(self) -> dict[str, list[tuple[str, str | None]]]:
        """For each trace the names of its spans, each with that of its parent; `?` for one that has not come."""
        spans = self.spans()
        names = {(span.trace, span.id): span.name for span in spans}
        assert len(names) == len(spans), "identifiers are unique"
        found: dict[str, list[tuple[str, str | None]]] = {}
        for span in spans:
            parent = None if span.parent is None else names.get((span.trace, span.parent), "?")
            found.setdefault(span.trace, []).append((span.name, parent))
        return {trace: sorted(tree, key=str) for trace, tree in found.items()}


def _parse(got: Got) -> list[GotSpan]:
    assert got.path == "/v1/traces"
    assert got.headers["content-type"] == "application/x-protobuf"
    body = gzip.decompress(got.body) if got.headers.get("content-encoding") == "gzip" else got.body
    request = ExportTraceServiceRequest.FromString(body)
    found = []
    for resource in request.resource_spans:
        known = {each.key: _value(each.value) for each in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                found.append(
                    GotSpan(
                        name=span.name,
                        trace=span.trace_id.hex(),
                        id=span.span_id.hex(),
                        parent=span.parent_span_id.hex() or None,
                        state=span.trace_state,
                        started=span.start_time_unix_nano,
                        ended=span.end_time_unix_nano,
                        error=span.status.message if span.status.code == 2 else None,
                        attributes={each.key: _value(each.value) for each in span.attributes},
                        service=known["service.name"],
                    )
                )
    return found


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def collector() -> Iterator[Collector]:
    with other_side(lambda got: (200, {}, b"")) as side:
        yield Collector(side)
