"""Contexts of traces, as the recommendation of the W3C has them, and what is sampled."""

from __future__ import annotations

import random

import pytest

from demaq.errors import OperatorError
from demaq.server.span_export import SpanExport
from demaq.server.telemetry import SAMPLERS, find_settings, traces_address
from demaq.span_recorder import Sampling, Span, SpanRecorder
from demaq.trace_context import TraceContext, new_span_id, new_trace_id, parse_context

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("header", "is_sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f" 00-{TRACE}-{SPAN}-03 ", True),
        (f"01-{TRACE}-{SPAN}-01", True),  # of a later version, what is known of it
        (f"cc-{TRACE}-{SPAN}-01-what-comes-later", True),
    ],
)
def test_a_valid_header_is_read(header: str, is_sampled: bool):
    assert parse_context(header, "a=b") == TraceContext(TRACE, SPAN, is_sampled, "a=b")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        f"00-{TRACE}-{SPAN}",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01\n00",
    ],
)
def test_any_other_header_is_ignored(header: str | None):
    assert parse_context(header) is None


def test_a_context_survives_its_headers(chance: random.Random):
    for _ in range(100):
        context = TraceContext(new_trace_id(), new_span_id(), chance.random() < 0.5, chance.choice(["", "k=v"]))
        assert context.span_id is not None
        headers = context.headers(context.span_id)
        assert parse_context(headers["traceparent"], headers.get("tracestate")) == context


def test_a_state_that_is_no_header_is_dropped():
    for state in ("x" * 513, "a\r\nb", "ä=1"):
        found = parse_context(f"00-{TRACE}-{SPAN}-01", state)
        assert found is not None
        assert found.state == ""


def test_the_share_of_sampled_traces_is_the_ratio():
    sampled = sum([Sampling(0.25).decide(new_trace_id()) for _ in range(4000)])
    assert 800 < sampled < 1200
    assert not any([Sampling(0.0).decide(new_trace_id()) for _ in range(100)])
    assert all([Sampling(1.0).decide(new_trace_id()) for _ in range(100)])


def test_a_parent_decides_unless_that_is_not_wanted():
    parent = TraceContext("0" * 31 + "1", SPAN, False)
    assert not Sampling(1.0).decide(parent.trace_id, parent)
    assert Sampling(1.0, is_parent_based=False).decide(parent.trace_id, parent)


def test_spans_of_messages_are_the_same_whenever_they_are_asked_for():
    recorder = SpanRecorder(lambda seq: f"store/{seq}", Sampling(), lambda span: None)
    context = recorder.context_of({}, 7)
    assert context == recorder.context_of({}, 7)
    assert context.trace_id != recorder.context_of({}, 8).trace_id
    ids = {recorder.span_id(context, 7), recorder.span_id(context, 8), recorder.span_id(context, 7, 1)}
    assert len(ids) == 3
    assert recorder.parent_id(context, 7) == recorder.span_id(context, 7)
    assert recorder.parent_id(context, None) is None


# settings


def test_telemetry_is_off_unless_something_asks_for_it():
    assert find_settings(None, None, {}) is None
    assert find_settings(None, 0.5, {}) is None
    assert find_settings("http://c:4318", None, {"OTEL_SDK_DISABLED": "true"}) is None
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}
    assert find_settings(None, None, {**environment, "OTEL_TRACES_EXPORTER": "none"}) is None
    found = find_settings(None, None, environment)
    assert found is not None
    assert (found.endpoint, found.service) == (None, "demaq")


def test_the_command_line_comes_before_the_environment():
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://other:4318",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0.25",
        "OTEL_BSP_MAX_QUEUE_SIZE": "10",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_SERVICE_NAME": "orders",
    }
    found = find_settings("http://c:4318", 0.5, environment)
    assert found is not None
    assert (found.endpoint, found.sampling) == ("http://c:4318/v1/traces", Sampling(0.5))
    assert (found.queue_max, found.delay_seconds, found.service) == (10, 0.1, None)
    found = find_settings("environment", None, environment)
    assert found is not None
    assert (found.endpoint, found.sampling) == (None, Sampling(0.25))


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_standard_sampler_is_known(name: str):
    found = find_settings("http://c", None, {"OTEL_TRACES_SAMPLER": name})
    assert found is not None
    assert found.sampling.is_parent_based == name.startswith("parentbased")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "0"),
    ],
)
def test_a_wrong_variable_is_named(name: str, value: str):
    with pytest.raises(OperatorError, match=name):
        find_settings("http://c", None, {name: value})


@pytest.mark.parametrize("address", ["", "c:4318", "ftp://c", "http://", "http://c:x", "http://c/?a", "http://c d"])
def test_what_is_no_address_is_refused(address: str):
    with pytest.raises(OperatorError, match="address for telemetry"):
        traces_address(address)


def test_a_path_of_an_address_stays():
    assert traces_address("https://c:4318/") == "https://c:4318/v1/traces"
    assert traces_address("https://c/otlp/v1/traces") == "https://c/otlp/v1/traces"


# exporting


def make_span(name: str) -> Span:
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    context = TraceContext(TRACE, None, True)
    return Span(name=name, context=context, span_id=SPAN, parent_id=None, kind="internal", started=now, ended=now)


def test_every_span_is_exported_or_counted_as_dropped(chance: random.Random):
    got: list[str] = []

    def export(spans: object) -> bool:
        kind = chance.random()
        if kind < 0.2:
            raise OSError("gone")
        if kind < 0.4:
            return False
        got.extend([span.name for span in spans])  # type: ignore[attr-defined]
        return True

    sender = SpanExport(export, queue_max=50, batch_max=10, delay_seconds=0.001)
    for number in range(2000):
        sender.emit(make_span(str(number)))
    sender.close()
    assert sender.exported == len(got) > 0
    assert sender.dropped > 0
    assert sender.exported + sender.dropped == 2000
    assert got == sorted(got, key=int)
