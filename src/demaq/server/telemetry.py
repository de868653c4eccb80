"""Telemetry of a node: spans of what it does, sent to a collector of OpenTelemetry by OTLP over HTTP.

OpenTelemetry is an optional dependency and imported only here, when telemetry is on. It writes the spans and sends
them; what is sampled, and when, is decided by `SpanRecorder` and `SpanExport`.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from demaq._version import __version__
from demaq.errors import OperatorError
from demaq.quantities import share_of
from demaq.server.span_export import BATCH_MAX, DELAY_SECONDS, QUEUE_MAX, SpanExport
from demaq.span_recorder import Sampling, Span, SpanRecorder
from demaq.trace_context import TraceContext

ENVIRONMENT = "environment"
"""As an address: the standard variables say where spans go."""
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
TRACES_PATH = "/v1/traces"
SAMPLERS = {
    "always_on": Sampling(1.0, is_parent_based=False),
    "always_off": Sampling(0.0, is_parent_based=False),
    "traceidratio": Sampling(1.0, is_parent_based=False),
    "parentbased_always_on": Sampling(1.0),
    "parentbased_always_off": Sampling(0.0),
    "parentbased_traceidratio": Sampling(1.0),
}
INSTALL = "pip install 'demaq[telemetry]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySettings:
    """Where spans go, and of which traces."""

    endpoint: str | None
    """The address of spans; None if OpenTelemetry takes it from the environment."""
    sampling: Sampling
    queue_max: int = QUEUE_MAX
    batch_max: int = BATCH_MAX
    delay_seconds: float = DELAY_SECONDS
    service: str | None = "demaq"
    """The name of the service; None if the environment says it."""


def find_settings(
    endpoint: str | None, share: float | None, environment: Mapping[str, str]
) -> TelemetrySettings | None:
    """Return the settings of telemetry; None if it is off. Raises an OperatorError.

    `endpoint` and `share` are those of the command line or the file of settings, which come before the environment.
    """
    named = [name for name in ENDPOINTS if environment.get(name)]
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if endpoint is None and (not named or environment.get("OTEL_TRACES_EXPORTER", "otlp").strip() == "none"):
        return None
    known = environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    is_named = bool(environment.get("OTEL_SERVICE_NAME")) or "service.name=" in known
    return TelemetrySettings(
        endpoint=None if endpoint in (None, ENVIRONMENT) else traces_address(str(endpoint)),
        sampling=_find_sampling(share, environment),
        queue_max=_read_number("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE_MAX, environment),
        batch_max=_read_number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", BATCH_MAX, environment),
        delay_seconds=_read_number("OTEL_BSP_SCHEDULE_DELAY", round(DELAY_SECONDS * 1000), environment) / 1000,
        service=None if is_named else "demaq",
    )


def traces_address(endpoint: str) -> str:
    """Return where spans are sent for the address of a collector. Raises an OperatorError if it is none."""
    try:
        parts = urlsplit(endpoint)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right or parts.query or parts.fragment or any([character.isspace() for character in endpoint]):
        shown = endpoint.rpartition("@")[2]  # it may have a password
        raise OperatorError(
            f"{shown} is no address for telemetry: it is one such as http://127.0.0.1:4318, or {ENVIRONMENT}"
        )
    return endpoint if parts.path not in ("", "/") else endpoint.rstrip("/") + TRACES_PATH


def _find_sampling(share: float | None, environment: Mapping[str, str]) -> Sampling:
    if share is not None:
        return Sampling(share)
    name = environment.get("OTEL_TRACES_SAMPLER", "").strip() or "parentbased_always_on"
    if name not in SAMPLERS:
        raise OperatorError(f"OTEL_TRACES_SAMPLER is {name}: it is one of {', '.join(SAMPLERS)}")
    argument = environment.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    if not argument or not name.endswith("traceidratio"):
        return SAMPLERS[name]
    try:
        return Sampling(share_of(argument), SAMPLERS[name].is_parent_based)
    except ValueError as error:
        raise OperatorError(f"OTEL_TRACES_SAMPLER_ARG: {error}") from None


def _read_number(name: str, default: int, environment: Mapping[str, str]) -> int:
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", text) or not int(text):
        raise OperatorError(f"{name} is {text}: it is a whole number from 1")
    return int(text)


class Telemetry:
    """The spans of one node, on their way to a collector."""

    def __init__(self, settings: TelemetrySettings, message_name: Callable[[int], str]) -> None:
        """Raises an OperatorError if OpenTelemetry is not installed, or does not like the environment."""
        writer = _make_writer(settings)
        self.export = SpanExport(
            writer.export, settings.queue_max, settings.batch_max, settings.delay_seconds, writer.close
        )
        self.recorder = SpanRecorder(message_name, settings.sampling, self.export.emit)
        self.sampling = settings.sampling

    def close(self) -> None:
        """Send what is left."""
        self.export.close()


class _OtlpWriter:
    """Writes spans as OpenTelemetry has them, and sends them."""

    def __init__(self, settings: TelemetrySettings) -> None:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.trace.export import SpanExportResult
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._trace = trace
        self._make_span: Any = ReadableSpan
        self._success = SpanExportResult.SUCCESS
        self._exporter: Any = OTLPSpanExporter(endpoint=settings.endpoint)
        named = {} if settings.service is None else {"service.name": settings.service}
        self._resource = Resource.create({**named, "service.version": __version__})
        self._scope = InstrumentationScope("demaq", __version__)
        self._kinds = {
            "server": trace.SpanKind.SERVER,
            "client": trace.SpanKind.CLIENT,
            "consumer": trace.SpanKind.CONSUMER,
            "internal": trace.SpanKind.INTERNAL,
        }

    def export(self, spans: Sequence[Span]) -> bool:
        return bool(self._exporter.export([self._convert(span) for span in spans]) is self._success)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._exporter.shutdown()

    def _convert(self, span: Span) -> Any:
        trace = self._trace
        status = trace.Status(trace.StatusCode.UNSET)
        if span.error is not None:
            status = trace.Status(trace.StatusCode.ERROR, span.error)
        return self._make_span(
            name=span.name,
            context=self._make_context(span.context, span.span_id),
            parent=None if span.parent_id is None else self._make_context(span.context, span.parent_id),
            resource=self._resource,
            attributes=dict(span.attributes),
            kind=self._kinds[span.kind],
            status=status,
            start_time=_nanoseconds(span.started),
            end_time=_nanoseconds(span.ended),
            instrumentation_scope=self._scope,
        )

    def _make_context(self, context: TraceContext, span_id: str) -> Any:
        trace = self._trace
        return trace.SpanContext(
            int(context.trace_id, 16),
            int(span_id, 16),
            is_remote=False,
            trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
            trace_state=trace.TraceState.from_header([context.state]) if context.state else trace.TraceState(),
        )


def _make_writer(settings: TelemetrySettings) -> _OtlpWriter:
    # It logs each failure, with its reason, which SpanExport does more seldom.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    try:
        return _OtlpWriter(settings)
    except ImportError:
        raise OperatorError(f"telemetry needs OpenTelemetry, which is not installed: {INSTALL}") from None
    except Exception as error:
        raise OperatorError(f"telemetry cannot be used: {error}") from None


def _nanoseconds(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000) * 1000
