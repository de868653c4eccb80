"""The dashboard and the alert rules in `deploy/` ask for metrics and labels that a node really has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from demaq.server.span_export import SpanExport
from tests.support.gateways.nodes import running
from tests.support.promql import Expression, parse

PROJECT = Path(__file__).parents[3]
APPLICATION = """
create queue orders kind incomingGateway endpoint "/orders"
create queue bank kind outgoingGateway endpoint "http://127.0.0.1:9/"
create rule pay for orders if (/order) then do enqueue . into bank
"""
OF_PROMETHEUS = {"up": set[str]()}
OF_TARGETS = {"instance", "job"}
"""Labels that Prometheus adds."""
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


class NoExport:
    def __init__(self) -> None:
        self.export = SpanExport(lambda spans: True)


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """All metrics of a node, with their labels."""
    with running(tmp_path_factory.mktemp("node"), APPLICATION) as here:
        here.node.telemetry = NoExport()  # type: ignore[assignment]
        collected = here.gateways._metrics
        assert collected is not None
        found: dict[str, set[str]] = {}
        for family in collected._registry.collect():
            labels = set(getattr(family, "_labelnames", ()))
            for suffix in SUFFIXES[family.type]:
                found[family.name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
        here.node.telemetry = None
        yield found


def check(text: str, metrics: dict[str, set[str]]) -> Expression:
    """What an expression names, all of which is there."""
    found = parse(text.replace("$__rate_interval", "5m"))
    known = {**metrics, **OF_PROMETHEUS}
    labels = set(OF_TARGETS)
    for metric, compared in found.metrics.items():
        assert metric in known, f"{metric} in {text}"
        assert compared <= known[metric] | OF_TARGETS, text
        labels |= known[metric]
    assert found.grouped <= labels, text
    return found


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((PROJECT / "deploy" / "grafana-dashboard.json").read_text())
    return found


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROJECT / "deploy" / "prometheus-alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def labels_of(found: Expression, metrics: dict[str, set[str]]) -> set[str]:
    """The labels that the result of an expression may have."""
    return found.grouped | OF_TARGETS | {label for metric in found.metrics for label in metrics.get(metric, ())}


def test_every_panel_shows_metrics_that_there_are(metrics: dict[str, set[str]]):
    panels = dashboard()["panels"]
    assert len(panels) > 15
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        for target in panel["targets"]:
            found = check(target["expr"], metrics)
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert named <= (found.grouped or labels_of(found, metrics)), target


def test_panels_do_not_overlap():
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_variables_of_the_dashboard_are_defined_and_ask_for_what_there_is(metrics: dict[str, set[str]]):
    variables = {each["name"]: each for each in dashboard()["templating"]["list"]}
    text = (PROJECT / "deploy" / "grafana-dashboard.json").read_text()
    used = set(re.findall(r"\$\{?([A-Za-z_]+)", text)) - {"__rate_interval"}
    assert used == variables.keys()
    metric = re.fullmatch(r"label_values\((\w+), instance\)", variables["instance"]["query"])
    assert metric is not None
    assert metric[1] in metrics


def test_every_alert_asks_for_metrics_that_there_are(metrics: dict[str, set[str]]):
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names)) > 8
    for rule in alerts():
        found = check(rule["expr"], metrics)
        said = rule["annotations"]["summary"]
        named = set(re.findall(r"\$labels\.(\w+)", said))
        assert named <= (found.grouped or labels_of(found, metrics)), rule
        assert said.count("{{") == said.count("}}")
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))


def test_every_metric_is_in_the_documentation(metrics: dict[str, set[str]]):
    page = (PROJECT / "docs" / "how-to" / "watch-a-node.md").read_text()
    own = {re.sub(r"_(bucket|sum|count)$", "", metric) for metric in metrics if metric.startswith("demaq_")}
    assert {metric for metric in own if f"`{metric}`" not in page} == set()


@pytest.mark.parametrize("text", ["", "sum(", "a{b}", "nosuch(a)", "a{b=c}", "sum by rule (a))", "a ? b"])
def test_what_is_no_expression_is_noticed(text: str):
    with pytest.raises((ValueError, IndexError)):
        parse(text)
